//! What the guard costs: a report with it over a report without it, in rounds that take turns in the same run, at 10,
//! 1,000 and 10,000 instances; and the memory of an instance.
//!
//! `cargo bench -p panelboard-core --bench guard`. Ratios only: a time of one machine says nothing about another.
#![allow(clippy::print_stdout, clippy::disallowed_types, missing_docs, reason = "it measures, and says what")]

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use panelboard_core::*;

/// The guard may cost as much again as the core without it, whatever the number of instances.
const BOUND: f64 = 2.0;
const SIZES: [usize; 3] = [10, 1_000, 10_000];
const REPORTS: usize = 20_000;
const ROUNDS: usize = 15;
/// Every instance reports this often.
const PERIOD_MS: u64 = 200;

#[derive(Clone, Copy)]
enum Traffic {
    /// Two calls of a hundred fail, spread over all.
    Noise,
    /// One instance makes most of the calls, and all of its calls fail: the totals are crossed all the time, and nobody
    /// is kept out, for METRICS_ONLY is set. The guard has to say of each report that the others are well.
    OneLoud,
}

struct Fleet {
    breaker: Breaker,
    instances: Vec<Instance>,
    traffic: Traffic,
    step: usize,
    revision: u64,
}

impl Fleet {
    fn new(size: usize, guard: GuardSpec, traffic: Traffic) -> Self {
        let policy = Policy::try_new(PolicySpec { guard, ..PolicySpec::default() }, 1).expect("a policy");
        let at = Moment { now: Timestamp::ZERO, next: Version { epoch: 1, revision: 1 } };
        let settings = Settings { seed: 1, instances_max: 200_000 };
        let mut breaker = Breaker::new(Arc::new(policy), settings, at);
        if matches!(traffic, Traffic::OneLoud) {
            let hand = Hand { who: "bench".into(), why: "to go on".into() };
            let next = Version { epoch: 1, revision: 2 };
            breaker.set_override(
                OverrideKind::MetricsOnly,
                hand,
                None,
                Moment { now: Timestamp::ZERO, next },
            );
        }
        let instances = (0..size).map(|n| Instance::new("checkout", &format!("checkout-7c9f-{n}"))).collect();
        let mut fleet = Self { breaker, instances, traffic, step: 0, revision: 2 };
        // Until the longest window is full.
        for _ in 0..(size * 60).max(2_000) {
            fleet.report();
        }
        fleet
    }

    fn report(&mut self) {
        let size = self.instances.len();
        self.step += 1;
        self.revision += 1;
        let who = self.step % size;
        let now = Timestamp::from_millis(self.step as u64 * PERIOD_MS / size as u64);
        let (successes, failures) = match self.traffic {
            Traffic::Noise => (10, u64::from(self.step.is_multiple_of(5))),
            Traffic::OneLoud if who == 0 => (0, 30 * size as u64),
            Traffic::OneLoud => (10, u64::from(self.step.is_multiple_of(5))),
        };
        let outcomes = Outcomes { successes, failures, ..Outcomes::default() };
        let caller = Caller { instance: &self.instances[who], session: None };
        let at = Moment { now, next: Version { epoch: 1, revision: self.revision } };
        let (reported, _) = self.breaker.report(caller, &Entry { outcomes, ..Entry::default() }, at);
        assert_eq!(reported, Reported::Counted);
        // The shell asks for it after each call.
        assert!(self.breaker.deadline().is_none_or(|deadline| deadline >= now));
    }

    fn round(&mut self) -> Duration {
        let began = Instant::now();
        for _ in 0..REPORTS {
            self.report();
        }
        began.elapsed()
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

fn measure(size: usize, what: &str, traffic: Traffic) {
    let mut without = Fleet::new(size, GuardSpec::OFF, Traffic::Noise);
    let mut with = Fleet::new(size, GuardSpec::default(), traffic);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        times[0].push(without.round());
        times[1].push(with.round());
    }
    assert_eq!(with.breaker.condition().state, StateKind::Closed);
    assert_eq!(with.breaker.status(Timestamp::ZERO).over.and_then(|over| over.would_open), None);
    let [without, with] = times.map(median);
    let ratio = with / without;
    let verdict = if ratio <= BOUND { "met" } else { "short" };
    println!(
        "guard / no guard, a report, {size:>6} instances, {what}: {ratio:.2} (at most {BOUND}) {verdict}"
    );
}

/// Resident memory of this process, where it can be told.
fn resident() -> Option<usize> {
    let pages: usize = fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4_096)
}

fn memory(what: &str, guard: GuardSpec) {
    const SIZE: usize = 20_000;
    let before = resident();
    let fleet = Fleet::new(SIZE, guard, Traffic::Noise);
    if let (Some(before), Some(after)) = (before, resident()) {
        let names = fleet.instances.len() * 64;
        let bytes = after.saturating_sub(before).saturating_sub(names) / SIZE;
        println!("memory of an instance that calls all the time, {what}: about {bytes} bytes");
    }
    // Kept, so that what is freed is not taken for what the next one does not need.
    std::mem::forget(fleet);
}

fn main() {
    memory("no guard", GuardSpec::OFF);
    memory("guard", GuardSpec::default());
    for size in SIZES {
        measure(size, "2 % noise", Traffic::Noise);
        measure(size, "one loud and sick", Traffic::OneLoud);
    }
}
