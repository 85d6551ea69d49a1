//! Simulated fleets over the real rules, in virtual time: each scenario is played with the guard and without it, and
//! asserts what the guard promises. Prints the table that `docs/guard.md` has, and the seed.
//!
//! `cargo test --test sim` plays all; `cargo test --test sim -- zipf` those with this word in their name;
//! `SIM_SEED=7 cargo test --test sim` replays a seed.
#![allow(clippy::print_stdout, missing_docs)]

mod fleet;
mod identity;
mod one_bad_caller;
mod outages;
mod recovery;

use std::{env, process::ExitCode, thread};

use fleet::{Plan, Report};
use panelboard_core::GuardSpec;

/// Each scenario is played with so many seeds.
const SEEDS: u64 = 3;

/// One story about a fleet, and what has to come of it.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) plan: Plan,
    /// What must be true of the run with the guard, and of the one without.
    pub(crate) claim: fn(&Report, &Report) -> Result<(), String>,
}

/// Fails a claim with words.
macro_rules! claim {
    ($true:expr, $($words:tt)+) => {
        if !$true {
            return Err(format!($($words)+));
        }
    };
}
pub(crate) use claim;

fn main() -> ExitCode {
    let first = env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let words: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let all = [one_bad_caller::all(), outages::all(), identity::all(), recovery::all()];
    let is_asked = |s: &Scenario| words.is_empty() || words.iter().any(|word| s.name.contains(word.as_str()));
    let all: Vec<Scenario> = all.into_iter().flatten().filter(is_asked).collect();
    println!("seed {first}, {SEEDS} runs of each scenario from it on; the table is of the first");
    println!(
        "\n| scenario | with the guard | failed calls | without | failed calls |\n|---|---|---|---|---|"
    );
    // Each is a function of its plan and its seed, so they may run side by side.
    let played: Vec<Played> = thread::scope(|scope| {
        let running: Vec<_> = all.iter().map(|scenario| scope.spawn(move || play(scenario, first))).collect();
        running.into_iter().map(|run| run.join().expect("a scenario does not panic")).collect()
    });
    played.iter().for_each(|played| println!("{}", played.row));
    println!();
    let failed: Vec<&String> = played.iter().flat_map(|played| &played.failures).collect();
    failed.iter().for_each(|words| println!("{words}"));
    let runs = played.len() as u64 * SEEDS;
    println!("{} passed, {} failed", runs - failed.len() as u64, failed.len());
    if failed.is_empty() && runs > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What came of a scenario: its row of the table, and what was not as claimed.
struct Played {
    row: String,
    failures: Vec<String>,
}

fn play(scenario: &Scenario, first: u64) -> Played {
    let Scenario { name, plan, claim } = scenario;
    let (mut row, mut failures) = (String::new(), Vec::new());
    for seed in first..first + SEEDS {
        let with = fleet::run(plan, GuardSpec::default(), seed);
        let without = fleet::run(plan, GuardSpec::OFF, seed);
        if seed == first {
            let cells = [told(&with, plan), with.failed.to_string(), told(&without, plan)];
            row = format!("| {name} | {} | {} |", cells.join(" | "), without.failed);
        }
        if let Err(error) = claim(&with, &without) {
            let last = with.transitions.iter().take(6).map(|t| format!("\n    {} ms {}", t.0, t.3));
            let last: String = last.collect();
            failures.push(format!(
                "FAILED {name}: {error}{last}\n  replay: SIM_SEED={seed} cargo test --test sim -- '{name}'"
            ));
        }
    }
    Played { row, failures }
}

/// A run in a few words: when it tripped, and whom it kept out when.
fn told(report: &Report, plan: &Plan) -> String {
    let fault = plan.pods.iter().filter_map(|pod| pod.sick.map(|sick| sick.0.max(pod.lives.0)));
    let fault = fault.chain(plan.outage.map(|outage| outage.0)).min().unwrap_or(0);
    let secs = |at: u64| format!("{:.1} s", at.saturating_sub(fault) as f64 / 1_000.0);
    let tripped = match (report.tripped(), report.opened()) {
        (Some(at), 0 | 1) => format!("trips after {}", secs(at)),
        (Some(at), n) => format!("trips after {}, opens {n} times", secs(at)),
        (None, _) => "never trips".into(),
    };
    let back = plan.outage.and_then(|outage| report.closed_after(outage.1).map(|at| at - outage.1));
    let tripped = match back {
        Some(ms) => format!("{tripped}, all are back {:.1} s after the provider", ms as f64 / 1_000.0),
        None => tripped,
    };
    let mut who: Vec<&str> = report.quarantined.iter().map(|(_, who)| who.as_str()).collect();
    who.sort_unstable();
    who.dedup();
    match (who.as_slice(), report.quarantined.first()) {
        ([], _) | (_, None) => tripped,
        ([who], Some((at, _))) => format!("{tripped}; {who} quarantined after {}", secs(*at)),
        (who, Some((at, _))) => {
            format!("{tripped}; {} quarantined, the first after {}", who.len(), secs(*at))
        }
    }
}
