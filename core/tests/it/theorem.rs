//! The theorem of the guard, over random fleets: whenever there are `required - 1` instances without which the rate is
//! below the threshold (or no call is left; for a count rule: without which the number is below it), those cannot make
//! the rule trip by calls, whatever they send. And the other way round: where there are no such instances, it trips.
//!
//! Proved by leaving out one instance fewer, and by leaving out the ones with the most calls: each found.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::world::*;
use panelboard_core::*;

/// What an instance reported: calls, failures, slow ones.
type Sent = (u64, u64, u64);

/// All calls of an example are in the window of every rule.
const WINDOW: u64 = 60_000;

fn rules() -> impl Strategy<Value = Rule> {
    let percent = || prop_oneof![Just(1u32), Just(33), Just(50), Just(67), Just(90), Just(100), 1u32..=100];
    prop_oneof![
        4 => (percent(), 1u32..30).prop_map(|(p, m)| rate(p, within(WINDOW), m)),
        2 => (percent(), 1u32..30).prop_map(|(p, m)| slow_rate(p, within(WINDOW), m)),
        2 => (1u32..30).prop_map(|threshold| Rule::Failures { threshold, window: within(WINDOW) }),
    ]
}

fn guards() -> impl Strategy<Value = GuardSpec> {
    let share = prop_oneof![Just(0u32), Just(2_000), Just(4_000), Just(10_000)];
    (2u32..5, share, 1u32..8).prop_map(|(min_instances, share_hundredths, min_calls)| GuardSpec {
        min_instances,
        share_hundredths,
        min_calls,
    })
}

fn outcomes() -> impl Strategy<Value = Outcomes> {
    let size = prop_oneof![8 => 0u64..6, 3 => 0u64..100, 1 => Just(1_000_000_000)];
    (size.clone(), size, any::<bool>()).prop_map(|(successes, failures, slow)| Outcomes {
        successes,
        failures,
        slow_successes: if slow { successes } else { 0 },
        slow_failures: if slow { failures / 2 } else { 0 },
        ..Outcomes::default()
    })
}

fn matched(rule: Rule, sent: Sent) -> u64 {
    if matches!(rule, Rule::SlowRate { .. }) { sent.2 } else { sent.1 }
}

fn sum<'a>(sent: impl Iterator<Item = &'a Sent>) -> Sent {
    sent.fold((0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2))
}

/// Whether the rule is crossed, with this minimum where it has one.
fn is_crossed(rule: Rule, sent: Sent, minimum: u32) -> bool {
    let found = matched(rule, sent);
    match rule {
        Rule::FailureRate { threshold, .. } | Rule::SlowRate { threshold, .. } => {
            sent.0 >= u64::from(minimum).max(1)
                && found * 10_000 >= sent.0 * u64::from(threshold.hundredths())
        }
        Rule::Failures { threshold, .. } | Rule::ConsecutiveFailures { threshold } => {
            found >= u64::from(threshold)
        }
    }
}

/// All ways to leave out so many of the instances that have calls, or all of them.
fn ways(fleet: &BTreeMap<String, Sent>, most: usize) -> Vec<Vec<Sent>> {
    let all: Vec<Sent> = fleet.values().copied().filter(|sent| sent.0 > 0).collect();
    let most = most.min(all.len());
    let pick = |bits: u32| (0..all.len()).filter(|n| bits >> n & 1 == 0).map(|n| all[n]).collect();
    (0..1u32 << all.len()).filter(|bits| bits.count_ones() as usize == most).map(pick).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4 * ProptestConfig::default().cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn fewer_than_required_cannot_trip_by_calls_and_enough_do(
        rule in rules(),
        guard in guards(),
        size in 1usize..9,
        reports in prop::collection::vec((0usize..9, outcomes()), 1..60),
    ) {
        let mut world = World::new(policy(PolicySpec { guard, ..spec(vec![rule]) }));
        let mut fleet: BTreeMap<String, Sent> = BTreeMap::new();
        for n in 0..size {
            world.watch(&format!("pod-{n}"), "w", true);
        }
        for (who, outcomes) in reports {
            let who = format!("pod-{}", who % size);
            world.pass(1).by_hand(&who, outcomes);
            let sent = fleet.entry(who).or_default();
            *sent = sum([*sent, (outcomes.counted(), outcomes.failures, outcomes.slow())].iter());
            let by = match world.changes.last() {
                Some(Change::Transition(last)) => match &last.reason {
                    Reason::RuleCrossed { crossing } => Some(crossing.by),
                    other => panic!("{other:?}"),
                },
                _ => None,
            };
            // In the first window everybody who is known is active.
            let required = guard.required(u32::try_from(size).unwrap(), u32::try_from(size).unwrap());
            let without = ways(&fleet, required as usize - 1);
            let is_innocent = without.iter().any(|rest| !is_crossed(rule, sum(rest.iter()), 1));
            match by {
                Some(TripBy::Calls { .. }) => {
                    prop_assert!(!is_innocent, "{required} required, yet fewer did it: {fleet:?}");
                    return Ok(());
                }
                Some(TripBy::Votes { votes }) => {
                    prop_assert!(size >= 3 && votes as usize * 2 >= size, "{votes} votes of {size}");
                    return Ok(());
                }
                Some(TripBy::Streaks { .. }) => panic!("no rule for it"),
                None => {
                    let total = sum(fleet.values());
                    let minimum = guard.min_calls.min(rule.minimum_calls());
                    let is_guilty = is_crossed(rule, total, rule.minimum_calls())
                        && without.iter().all(|rest| is_crossed(rule, sum(rest.iter()), minimum));
                    prop_assert!(!is_guilty, "{required} required, and enough did it: {fleet:?}");
                }
            }
        }
    }
}

/// A fleet that is too big to be looked at in each report: what is true of it is found within 20 ms, and nothing that is
/// not true.
#[derive(Clone, Copy, Debug)]
struct Big {
    instances: usize,
    /// Of a thousand calls of an instance, how many fail: of the sick ones and of the others.
    sick: (usize, u64),
    rest: u64,
    seed: u64,
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Big {
    /// When the fleet's rule was true without interruption since, and when the breaker tripped.
    fn run(self) -> (Option<u64>, Option<u64>) {
        let settings = Settings { seed: 1, instances_max: 1_000 };
        let guard = GuardSpec { share_hundredths: 2_000, ..GuardSpec::default() };
        // One long window, and a minimum that keeps votes and quarantines out of it.
        let rule = rate(50, within(WINDOW), 2_000);
        let spec = PolicySpec { guard, ..spec(vec![rule]) };
        let at =
            |now, revision| Moment { now: Timestamp::from_millis(now), next: Version { epoch: 1, revision } };
        let mut breaker = Breaker::new(std::sync::Arc::new(policy(spec)), settings, at(0, 1));
        let names: Vec<Instance> = (0..self.instances).map(|n| instance(&format!("pod-{n}"))).collect();
        let mut fleet = vec![(0u64, 0u64); self.instances];
        let (mut revision, mut true_since) = (2, None);
        for step in 0..12_000u64 {
            let now = step / 2;
            let drawn = mix(self.seed ^ mix(step));
            // The sick ones are loud.
            let who = if drawn.is_multiple_of(3) {
                drawn as usize / 3 % self.sick.0
            } else {
                drawn as usize / 3 % self.instances
            };
            let failing = if who < self.sick.0 { self.sick.1 } else { self.rest };
            let failed = mix(drawn) % 1_000 < failing;
            let outcomes = if failed { failures(1) } else { successes(1) };
            fleet[who] = (fleet[who].0 + 1, fleet[who].1 + u64::from(failed));
            if let Some(deadline) = breaker.deadline().filter(|deadline| deadline.as_millis() <= now) {
                breaker.tick(at(deadline.as_millis(), revision));
                revision += 1;
            }
            let caller = Caller { instance: &names[who], session: None };
            breaker.report(caller, &Entry { outcomes, ..Entry::default() }, at(now, revision));
            revision += 1;
            if step < 2_000 {
                continue;
            }
            let active = u32::try_from(fleet.iter().filter(|sent| sent.0 > 0).count()).unwrap();
            let required = breaker.policy().spec().guard.required(active, active);
            let mut shares: Vec<(i64, u64, u64)> = fleet
                .iter()
                .map(|&(calls, failed)| (failed as i64 * 2 - calls as i64, calls, failed))
                .collect();
            shares.sort_unstable_by(|a, b| b.cmp(a));
            let left: i64 = shares[required as usize - 1..].iter().map(|share| share.0).sum();
            let total: i64 = shares.iter().map(|share| share.0).sum();
            true_since = if left >= 0 && total >= 0 { true_since.or(Some(now)) } else { None };
            if breaker.condition().state == StateKind::Open {
                return (true_since, Some(now));
            }
            if true_since.is_some_and(|since| now > since + 21) {
                return (true_since, None);
            }
        }
        (None, None)
    }
}

#[test]
fn a_big_fleet_trips_within_twenty_milliseconds_and_never_for_less() {
    let (mut trips, mut crowds) = (0, 0);
    for seed in 0..12 {
        for (sick, rest) in
            [((10, 1_000), 300), ((10, 1_000), 480), ((50, 900), 490), ((80, 1_000), 450), ((200, 700), 400)]
        {
            let big = Big { instances: 400, sick, rest, seed };
            let (since, tripped) = big.run();
            crowds += 1;
            match (since, tripped) {
                (Some(since), Some(at)) => {
                    trips += 1;
                    assert!(at <= since + 21, "{big:?}: true since {since}, tripped at {at}");
                }
                (None, None) => {}
                other => panic!("{big:?}: {other:?}"),
            }
        }
    }
    assert!(trips > 10 && crowds - trips > 10, "{trips} trips of {crowds} prove little");
}
