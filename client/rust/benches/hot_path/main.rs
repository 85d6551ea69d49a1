//! What a call through a breaker costs, beside what it costs with others: ratios of one run, each against its goal.
//!
//! ```sh
//! cargo bench -p panelboard-client --bench hot_path              # about three minutes
//! cargo bench -p panelboard-client --bench hot_path -- --quick   # about half a minute, with more noise
//! ```
//!
//! How it is measured is written in `docs/performance.md`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints what it measured")]

mod after_crossing;
mod allocations;
mod backend;
mod call;
mod contest;
mod cpu;
mod goals;
mod machine;
mod measure;
mod ours;
mod peers;
mod plan;
mod redis;
mod seat;
mod server;
mod spread;

use std::{error::Error, process::ExitCode};

use crate::{goals::Goals, ours::Ours, plan::Plan, server::Server};

type Failure = Box<dyn Error>;

/// What this process is: the benchmark, or a child of it.
enum Role {
    Benchmark(Plan),
    Server,
    Paced(cpu::Job),
    /// Run as if it were a test, by `cargo test --benches`: there is nothing to test.
    Nothing,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = match role(&arguments) {
        Ok(Role::Benchmark(plan)) => benchmark(plan),
        Ok(Role::Server) => server::serve(),
        Ok(Role::Paced(job)) => cpu::run(&job),
        Ok(Role::Nothing) => {
            println!("hot_path: measures only under cargo bench");
            Ok(())
        }
        Err(message) => {
            eprintln!("hot_path: {message}; it takes --quick");
            return ExitCode::from(2);
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hot_path: {error}");
            ExitCode::FAILURE
        }
    }
}

fn role(arguments: &[String]) -> Result<Role, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [server::ROLE] => return Ok(Role::Server),
        [cpu::ROLE, rest @ ..] => return cpu::Job::parse(rest).map(Role::Paced),
        _ => {}
    }
    let (mut plan, mut is_bench) = (Plan::full(), false);
    for word in words {
        match word {
            // Cargo says so itself.
            "--bench" => is_bench = true,
            "--quick" => plan = Plan::quick(),
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    Ok(if is_bench { Role::Benchmark(plan) } else { Role::Nothing })
}

fn benchmark(plan: Plan) -> Result<(), Failure> {
    machine::print();
    println!("peers      {}\n", peers::NAMES.join(", "));
    let server = Server::start()?;
    let ours = Ours::connect(&server)?;
    let mut goals = Goals::default();

    let costs = contest::run(&ours, plan, &mut goals)?;
    goals.add(allocations::goal(&ours));
    goals.add(cpu::goal(&server, plan)?);
    goals.print();

    println!(
        "2 threads: both call one breaker; ns per call is wall time / calls of both. The rest is in docs/performance.md."
    );
    println!("\n{costs}");
    println!("\nfor illustration, not a contest:\n  {}", redis::line(plan)?);
    println!("\n{}", after_crossing::table(&ours, plan)?);
    println!("\n{}", goals.verdict());
    Ok(())
}
