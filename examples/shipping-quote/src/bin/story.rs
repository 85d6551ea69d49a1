//! One command that runs the whole story: `cargo run --release -p shipping-quote --bin story`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use shipping_quote::cli::told_to_stop;
use shipping_quote::provider::{Answer, Behaviour};
use shipping_quote::story::{self, Chapters, Plan};

/// A fleet meets an outage, with one shared breaker and then with a breaker in each process.
///
/// Starts a Panelboard server, a flaky provider and a fleet of client processes on loopback, turns the provider off
/// and on, and prints what reached it. Then one client's network path breaks, and it alone is cut off. Takes about
/// a minute and a half, and ends everything it started.
#[derive(Parser)]
#[command(name = "story", version)]
struct Args {
    /// A shorter story with a smaller fleet.
    #[arg(long)]
    quick: bool,
    /// How many client processes there are.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=100))]
    clients: Option<u8>,
    /// How many quotes each client asks for in a second.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100))]
    rate: Option<u32>,
    /// What the provider does while it is down.
    #[arg(long, value_enum, default_value_t = Outage::Error)]
    outage: Outage,
    /// A policy file for checkout/shipping-quote, instead of the story's own.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// What is told.
    #[arg(long, value_enum, default_value_t = Told::All)]
    chapter: Told,
}

#[derive(Clone, Copy, ValueEnum)]
enum Told {
    /// Everything.
    All,
    /// The outage, with a shared breaker and with one in each process.
    Outage,
    /// A fleet in which the network path of one process is broken.
    BrokenPath,
}

#[derive(Clone, Copy, ValueEnum)]
enum Outage {
    /// It answers 503.
    Error,
    /// It does not answer at all, so that each call costs its timeout.
    Hang,
}

impl Args {
    fn plan(self) -> Plan {
        let plan = if self.quick { Plan::quick() } else { Plan::whole() };
        Plan {
            clients: self.clients.map_or(plan.clients, usize::from),
            rate: self.rate.unwrap_or(plan.rate),
            outage: Behaviour::answering(match self.outage {
                Outage::Error => Answer::Status(503),
                Outage::Hang => Answer::Hang,
            }),
            policy: self.policy,
            chapters: match self.chapter {
                Told::All => Chapters::All,
                Told::Outage => Chapters::Outage,
                Told::BrokenPath => Chapters::BrokenPath,
            },
            ..plan
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let plan = Args::parse().plan();
    let told = tokio::select! {
        told = story::tell(&plan) => told,
        () = told_to_stop(false) => Err("stopped".to_owned()),
    };
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            use std::io::Write;
            _ = writeln!(std::io::stderr(), "story: {message}");
            ExitCode::FAILURE
        }
    }
}
