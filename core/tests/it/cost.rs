//! What a call costs does not grow with the instances that are known. Measured as a ratio, in rounds that take turns, and
//! with a factor that only a walk over all instances exceeds: no absolute time. Proved by letting the longest streak be found by a
//! walk, and by counting all instances in every call.
#![allow(clippy::disallowed_types, reason = "the rules have no clock, but what they cost is told by one")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use crate::world::*;
use panelboard_core::*;

const FEW: usize = 10;
const MANY: usize = 10_000;
/// A walk over a thousand times as many instances would cost hundreds of times as much.
const FACTOR: f64 = 20.0;
const ROUNDS: usize = 11;
const CALLS: usize = 4_000;

struct Crowd {
    breaker: Breaker,
    instances: Vec<Instance>,
    now: u64,
    revision: u64,
}

impl Crowd {
    fn new(size: usize, over: Option<OverrideKind>) -> Self {
        let trip = vec![
            rate(100, within(10_000), 1_000_000),
            rate(100, Window::Last(100), 100),
            Rule::ConsecutiveFailures { threshold: 1_000 },
        ];
        let settings = Settings { instances_max: MANY, ..SETTINGS };
        let mut world = World::with(policy(spec(trip)), settings);
        if let Some(kind) = over {
            world.set_override(kind, None);
        }
        let instances: Vec<Instance> = (0..size).map(|n| instance(&format!("pod-{n}"))).collect();
        let breaker = world.breaker;
        let mut crowd = Self { breaker, instances, now: 0, revision: 100 };
        for n in 0..size {
            crowd.report(n);
        }
        assert_eq!(crowd.breaker.known_instances() as usize, size);
        crowd
    }

    fn moment(&mut self) -> Moment {
        self.revision += 1;
        Moment { now: Timestamp::from_millis(self.now), next: Version { epoch: 1, revision: self.revision } }
    }

    /// One failure and one success, so that streaks come and go.
    fn report(&mut self, n: usize) {
        let at = self.moment();
        let streaks = Some(Streaks { leading: 0, longest: 1, trailing: (n % 2) as u64 });
        let outcomes = Outcomes { successes: 1, failures: 1, ..Outcomes::default() };
        let caller = Caller { instance: &self.instances[n % self.instances.len()], session: None };
        let entry = Entry { outcomes, streaks, ..Entry::default() };
        assert_eq!(self.breaker.report(caller, &entry, at).0, Reported::Counted);
    }

    fn round(&mut self, call: fn(&mut Self, usize)) -> Duration {
        let began = Instant::now();
        for n in 0..CALLS {
            call(self, n * 7);
        }
        // Walks that are made at most every tenth of a second are allowed for, one per round.
        self.now += 100;
        began.elapsed()
    }
}

/// The median of many instances' rounds over the median of few's.
fn ratio(over: Option<OverrideKind>, call: fn(&mut Crowd, usize)) -> f64 {
    let mut crowds = [FEW, MANY].map(|size| Crowd::new(size, over));
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (crowd, times) in crowds.iter_mut().zip(&mut times) {
            times.push(crowd.round(call));
        }
    }
    let [few, many] = times.map(|mut times| {
        times.sort();
        times[ROUNDS / 2].as_secs_f64()
    });
    many / few
}

fn check(what: &str, over: Option<OverrideKind>, call: fn(&mut Crowd, usize)) {
    let ratio = ratio(over, call);
    assert!(ratio < FACTOR, "{what}: {MANY} instances cost {ratio:.1} times as much as {FEW}");
}

#[test]
fn a_report_does_not_cost_more_with_many_instances() {
    check("a report", None, Crowd::report);
    check("a report under METRICS_ONLY", Some(OverrideKind::MetricsOnly), Crowd::report);
}

#[test]
fn looking_does_not_cost_more_with_many_instances() {
    check("readings", None, |crowd, _| {
        black_box(crowd.breaker.readings(Timestamp::from_millis(crowd.now)));
    });
    check("progress", None, |crowd, _| {
        black_box(crowd.breaker.progress(Timestamp::from_millis(crowd.now)));
    });
    check("status", None, |crowd, _| {
        black_box(crowd.breaker.status(Timestamp::from_millis(crowd.now)));
    });
}

#[test]
fn asking_does_not_cost_more_with_many_instances() {
    check("an acquire", None, |crowd, n| {
        let at = crowd.moment();
        let caller = Caller { instance: &crowd.instances[n % crowd.instances.len()], session: None };
        black_box(crowd.breaker.acquire(caller, at));
    });
}

/// The timer asks for the deadline after every call.
#[test]
fn the_deadline_does_not_cost_more_with_many_instances() {
    check("a deadline in HALF_OPEN", None, |crowd, n| {
        let at = crowd.moment();
        if crowd.breaker.condition().state != StateKind::HalfOpen {
            crowd.breaker.transition_to(Target::HalfOpen, hand(), at).expect("no override");
            let caller = Caller { instance: &crowd.instances[0], session: None };
            let (decision, _) = crowd.breaker.acquire(caller, at);
            let Decision::Granted(grant) = decision else { return };
            let entry = Entry {
                generation: Some(grant.generation),
                probe: grant.probe,
                outcomes: failures(1),
                ..Entry::default()
            };
            crowd.breaker.report(caller, &entry, at);
        }
        let caller = Caller { instance: &crowd.instances[n % crowd.instances.len()], session: None };
        black_box(crowd.breaker.report(caller, &Entry::default(), at));
        black_box(crowd.breaker.deadline());
    });
}
