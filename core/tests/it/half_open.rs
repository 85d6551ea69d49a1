//! The half-open period with several instances: who decides, who is let in, and that it always goes on.

use crate::world::*;
use panelboard_core::*;

/// A period of `permitted` probes under a failure rate of `percent`, with these instances watching.
fn period(permitted_calls: u32, percent: u32, instances: &[&str]) -> World {
    period_of(spec_of(permitted_calls, percent), instances)
}

fn spec_of(permitted_calls: u32, percent: u32) -> PolicySpec {
    let half_open = HalfOpenSpec { permitted_calls, ..HalfOpenSpec::default() };
    PolicySpec { half_open, ..spec(vec![rate(percent, within(10_000), 10)]) }
}

fn period_of(spec: PolicySpec, instances: &[&str]) -> World {
    let mut world = World::new(policy(spec));
    for instance in instances {
        world.watch(instance, "w", true);
    }
    world.transition_to(Target::HalfOpen).unwrap();
    world
}

fn probe(world: &mut World, who: &str, outcomes: Outcomes) {
    let grant = world.grant(who);
    assert!(grant.probe.is_some());
    assert_eq!(world.end(who, grant, outcomes), Reported::Counted);
}

fn last(world: &World) -> std::sync::Arc<Transition> {
    world.status().last.unwrap()
}

const SLOW_SUCCESS: Outcomes = Outcomes {
    successes: 1,
    slow_successes: 1,
    failures: 0,
    slow_failures: 0,
    ignored: 0,
    abandoned: 0,
    rejected: 0,
};

#[test]
fn a_sick_instance_that_asks_first_does_not_decide_alone_nor_keep_others_out() {
    for permitted in 1..=5 {
        let mut world = period(permitted, 50, &["sick", "well"]);
        probe(&mut world, "sick", failures(1));
        assert_eq!(world.state(), "HALF_OPEN");
        assert_eq!(world.refusal("sick").reason, RejectionReason::ProbesTaken);
        while world.state() == "HALF_OPEN" {
            probe(&mut world, "well", successes(1));
        }
        assert_eq!(world.state(), "CLOSED", "{permitted} permitted");
    }
}

#[test]
fn two_instances_that_fail_reopen() {
    let mut world = period(1, 50, &["a", "b", "c"]);
    probe(&mut world, "a", failures(1));
    probe(&mut world, "b", failures(1));
    assert_eq!(world.state(), "OPEN");
    assert!(matches!(last(&world).reason, Reason::ProbesFailed { needed: 2, .. }));
}

#[test]
fn an_instance_has_one_probe_out_until_its_first_success_and_none_after_a_failure() {
    let mut world = period(5, 50, &["a", "b"]);
    let first = world.grant("a");
    assert_eq!(world.refusal("a").reason, RejectionReason::ProbesTaken);
    world.end("a", first, successes(1));
    let (second, _third) = (world.grant("a"), world.grant("a"));
    world.end("a", second, failures(1));
    assert_eq!(world.refusal("a").reason, RejectionReason::ProbesTaken);
    world.grant("b");
}

#[test]
fn a_probe_that_says_nothing_leaves_the_instance_as_it_was() {
    for nothing in [ignored(), abandoned()] {
        let mut world = period(1, 50, &["a", "b"]);
        for _ in 0..10 {
            probe(&mut world, "a", nothing);
        }
        assert_eq!((world.state(), world.breaker.deadline()), ("HALF_OPEN", None));
        probe(&mut world, "b", successes(1));
        assert_eq!(world.state(), "CLOSED");
    }
}

#[test]
fn a_sole_instance_is_exempt() {
    let mut world = period(5, 50, &["a"]);
    let grants: Vec<Grant> = (0..5).map(|_| world.grant("a")).collect();
    for grant in &grants[..2] {
        world.end("a", *grant, failures(1));
    }
    assert_eq!(world.state(), "HALF_OPEN", "two of five are not half");
    world.end("a", grants[2], failures(1));
    assert_eq!(world.state(), "OPEN");
}

#[test]
fn no_more_failures_are_needed_than_instances_are_known() {
    let mut world = period(10, 50, &["a", "b", "c"]);
    for who in ["a", "b"] {
        probe(&mut world, who, failures(1));
    }
    assert_eq!(world.state(), "HALF_OPEN");
    probe(&mut world, "c", failures(1));
    assert!(matches!(last(&world).reason, Reason::ProbesFailed { needed: 3, .. }));
}

#[test]
fn places_of_failed_probes_come_back_until_the_quorum() {
    let guard = GuardSpec { min_instances: 3, ..GuardSpec::default() };
    let mut world = period_of(PolicySpec { guard, ..spec_of(2, 100) }, &["a", "b", "c", "d"]);
    let grants = [world.grant("a"), world.grant("b")];
    assert_eq!(world.refusal("c").reason, RejectionReason::ProbesTaken);
    world.end("a", grants[0], failures(1));
    let third = world.grant("c");
    world.end("b", grants[1], failures(1));
    world.grant("d");
    assert_eq!(world.state(), "HALF_OPEN");
    world.end("c", third, failures(1));
    assert_eq!(world.state(), "OPEN");
}

#[test]
fn slow_probes_reopen_and_fast_ones_are_needed_to_close() {
    let trip = vec![rate(50, within(10_000), 10), slow_rate(40, within(10_000), 10)];
    let half_open = HalfOpenSpec { permitted_calls: 5, ..HalfOpenSpec::default() };
    let slow = || period_of(PolicySpec { half_open, ..spec(trip.clone()) }, &["a", "b"]);
    let mut world = slow();
    probe(&mut world, "a", SLOW_SUCCESS);
    assert_eq!(world.state(), "HALF_OPEN");
    probe(&mut world, "b", SLOW_SUCCESS);
    assert!(matches!(last(&world).reason, Reason::ProbesSlow { needed: 2, .. }));
    let mut world = slow();
    probe(&mut world, "b", SLOW_SUCCESS);
    for _ in 0..3 {
        assert_eq!(world.state(), "HALF_OPEN");
        probe(&mut world, "a", successes(1));
    }
    assert_eq!(world.state(), "HALF_OPEN", "the last one may be slow");
    probe(&mut world, "a", successes(1));
    assert_eq!(world.state(), "CLOSED");
}

#[test]
fn slowness_is_nothing_bad_without_a_slow_rule() {
    let mut world = period(2, 100, &["a"]);
    probe(&mut world, "a", SLOW_SUCCESS);
    assert_eq!(world.state(), "CLOSED");
}

#[test]
fn a_period_ends_under_the_policy_it_began_with() {
    let mut world = period(1, 50, &["a", "b"]);
    let grant = world.grant("a");
    world.set_policy(policy(spec_of(5, 50)));
    assert_eq!(world.refusal("b").reason, RejectionReason::ProbesTaken);
    world.end("a", grant, successes(1));
    assert_eq!(world.state(), "CLOSED");
    world.transition_to(Target::HalfOpen).unwrap();
    probe(&mut world, "a", successes(1));
    assert_eq!(world.state(), "HALF_OPEN", "the next one goes by the new one");
}

#[test]
fn the_limit_decides_by_what_has_come_in() {
    let at_the_limit = |outcomes: &[Outcomes]| {
        let mut world = period(5, 60, &["a", "b"]);
        for (who, outcomes) in ["a", "b"].into_iter().zip(outcomes) {
            probe(&mut world, who, *outcomes);
        }
        world.grant("c");
        world.pass(29_999).tick();
        assert_eq!(world.state(), "HALF_OPEN");
        world.pass(1).tick();
        (world.state(), last(&world).wait.map(|wait| wait.reopenings))
    };
    assert_eq!(at_the_limit(&[successes(1)]), ("CLOSED", None));
    assert_eq!(at_the_limit(&[successes(1), failures(1)]), ("OPEN", Some(1)));
    // The lease of "c" ends before, but then nobody has asked and no limit runs.
    let mut world = period(5, 60, &["a"]);
    world.grant("a");
    assert_eq!(world.rest(3), 1);
    assert_eq!((world.state(), world.now), ("HALF_OPEN", 11_000));
}

#[test]
fn at_the_limit_a_wait_grows_only_if_a_probe_failed() {
    let half_open = HalfOpenSpec { limit: Some(ms(5_000)), ..HalfOpenSpec::default() };
    let mut world = period_of(PolicySpec { half_open, ..spec_of(1, 50) }, &["a", "b"]);
    world.grant("a");
    world.pass(5_000).tick();
    assert_eq!((world.state(), last(&world).wait.unwrap().reopenings), ("OPEN", 0));
}

#[test]
fn a_lease_ends_neutrally_a_second_after_its_deadline() {
    let mut world = period(1, 50, &["a", "b"]);
    let grant = world.grant("a");
    assert_eq!(grant.ttl, ms(10_000));
    world.pass(10_999);
    assert_eq!(world.refusal("b").retry_after, Some(ms(1)));
    world.pass(1);
    let next = world.grant("b");
    assert_eq!(world.end("a", grant, successes(1)), Reported::UnknownProbe);
    assert_eq!((world.state(), world.breaker.probes_expired()), ("HALF_OPEN", 1));
    world.end("b", next, successes(1));
    assert_eq!(world.state(), "CLOSED");
}

#[test]
fn a_report_in_the_last_moment_of_a_lease_counts() {
    let mut world = period(1, 50, &["a", "b"]);
    let grant = world.grant("a");
    world.pass(10_999);
    assert_eq!(world.end("a", grant, successes(1)), Reported::Counted);
    assert_eq!(world.state(), "CLOSED");
}

#[test]
fn a_probe_is_its_instances_own() {
    let mut world = period(1, 50, &["a", "b"]);
    let grant = world.grant("a");
    assert_eq!(world.end("b", grant, failures(1)), Reported::UnknownProbe);
    assert_eq!(world.end("a", grant, successes(1)), Reported::Counted);
}

#[test]
fn a_replaced_session_gives_its_probe_back() {
    let mut world = period(1, 50, &["b"]);
    world.watch("a", "first", true);
    assert!(matches!(world.acquire_as("a", Some("first")), Decision::Granted(_)));
    world.pass(10).watch("a", "first", false);
    assert_eq!(world.refusal("b").reason, RejectionReason::ProbesTaken, "nobody has taken over");
    world.pass(10);
    assert!(matches!(world.acquire_as("a", Some("second")), Decision::Granted(_)));
}

#[test]
fn a_live_session_keeps_its_probe_beside_another_one() {
    let mut world = period(1, 50, &["b"]);
    world.watch("a", "first", true);
    assert!(matches!(world.acquire_as("a", Some("first")), Decision::Granted(_)));
    world.pass(10).watch("a", "second", true);
    assert!(matches!(world.acquire_as("a", Some("second")), Decision::Rejected(_)));
}

/// Whatever leases and returns happen, watchers hear of the availability at most every 100 ms, and in the end of what is true.
#[test]
fn news_of_availability_comes_at_most_every_tenth_of_a_second_and_the_last_one_is_true() {
    let mut world = period(1, 50, &["a", "b"]);
    let mut heard = Vec::new();
    let listen = |world: &mut World, heard: &mut Vec<(u64, bool)>| {
        let news = std::mem::take(&mut world.changes);
        assert!(news.iter().all(|change| matches!(change, Change::Availability)), "{news:?}");
        heard.extend(news.iter().map(|_| (world.now, world.status().admission == Admission::Probe)));
    };
    world.changes.clear();
    for step in 0..400u64 {
        world.pass(step * 7 % 23);
        let grant = world.grant("a");
        listen(&mut world, &mut heard);
        // Some probes come back before the news is out, some after.
        if step % 3 == 0 {
            world.pass(step % 150).tick();
            listen(&mut world, &mut heard);
        }
        world.end("a", grant, abandoned());
        listen(&mut world, &mut heard);
    }
    // One more is taken, and nobody calls any more.
    let taken = world.grant("a");
    assert!(taken.probe.is_some());
    while let Some(deadline) = world.breaker.deadline().filter(|d| d.as_millis() < world.now + 200) {
        world.now = world.now.max(deadline.as_millis());
        world.tick();
        listen(&mut world, &mut heard);
    }
    assert_eq!(heard.last().map(|news| news.1), Some(false), "the last one is true");
    assert!(heard.len() > 20, "{heard:?}");
    let mut shown = true;
    for (n, (at, available)) in heard.iter().enumerate() {
        assert_ne!(*available, shown, "news that is none: {heard:?}");
        shown = *available;
        assert!(n == 0 || at - heard[n - 1].0 >= 100, "too soon: {heard:?}");
    }
}

/// All small periods, all orders in which probes are taken and come back: at each point a verdict has been given, or a probe is out, or a known instance can have one.
mod never_stuck {
    use super::*;
    use std::collections::HashSet;

    // Proved by giving back one place of an instance's failures only: stuck with three permitted and two instances.

    /// What an instance had, as far as the rules look at it: (succeeded, failed, out, bad).
    type Had = (u32, u32, u32, u32);

    struct Search {
        names: &'static [&'static str],
        trip: Trip,
        seen: HashSet<(Vec<Had>, u32, usize)>,
        ends: HashSet<&'static str>,
    }

    #[derive(Clone, Copy, Debug)]
    struct Trip {
        permitted: u32,
        set: Option<(u32, u32)>,
        percent: u32,
        slow: Option<u32>,
        min_instances: u32,
        instances: usize,
    }

    #[derive(Clone)]
    struct Point {
        world: World,
        out: Vec<(usize, Grant)>,
        had: Vec<Had>,
        slow: u32,
        /// Failures of which the place came back depend on the order, so a point is told apart by it.
        free: usize,
    }

    impl Search {
        fn go(&mut self, point: &Point) {
            let Point { world, out, had, slow, free } = point;
            if world.state() != "HALF_OPEN" {
                self.ends.insert(world.state());
                // Every one of the instances watches, so every one is known.
                let bad_by = had.iter().filter(|had| had.3 > 0).count();
                let quorum = self.names.len().min(self.trip.min_instances as usize);
                let reopened = world.state() == "OPEN";
                assert!(!reopened || bad_by >= quorum, "decided by {bad_by}: {:?}", self.trip);
                assert_eq!(world.path().len(), 2, "one verdict: {:?}", world.path());
                return;
            }
            if !self.seen.insert((had.clone(), *slow, *free)) {
                return;
            }
            let mut moves = 0;
            for who in 0..self.names.len() {
                let mut next = point.clone();
                if let Decision::Granted(grant) = next.world.acquire(self.names[who]) {
                    moves += 1;
                    next.had[who].2 += 1;
                    next.out.push((who, grant));
                    next.free = free_places(&next);
                    self.go(&next);
                }
            }
            for place in 0..out.len() {
                moves += 1;
                let bad = Outcomes { slow_failures: 1, ..failures(1) };
                let outcomes: &[Outcomes] = if self.trip.slow.is_some() {
                    &[successes(1), failures(1), SLOW_SUCCESS, bad]
                } else {
                    &[successes(1), failures(1)]
                };
                for outcomes in outcomes {
                    let mut next = point.clone();
                    let (who, grant) = next.out.swap_remove(place);
                    next.had[who].2 -= 1;
                    next.had[who].0 += u32::from(outcomes.successes > 0);
                    next.had[who].1 += u32::from(outcomes.failures > 0);
                    let is_slow = self.trip.slow.is_some() && outcomes.slow() > 0;
                    next.had[who].3 += u32::from(outcomes.failures > 0 || is_slow);
                    next.slow += u32::from(outcomes.slow() > 0);
                    assert_eq!(next.world.end(self.names[who], grant, *outcomes), Reported::Counted);
                    next.free = free_places(&next);
                    self.go(&next);
                }
            }
            assert!(moves > 0, "stuck: {:?} after {had:?}, {slow} slow", self.trip);
            // And with nobody calling any more, the limit ends it, or everything came back.
            world.clone().rest(20);
        }
    }

    /// Free places, by trying with instances that have not had any.
    fn free_places(point: &Point) -> usize {
        let mut world = point.world.clone();
        let is_granted = |who: &str, world: &mut World| matches!(world.acquire(who), Decision::Granted(_));
        match world.state() {
            "HALF_OPEN" => (0..8).take_while(|n| is_granted(&format!("new-{n}"), &mut world)).count(),
            _ => 0,
        }
    }

    fn search(trip: Trip) -> HashSet<&'static str> {
        let names = &["a", "b", "c", "d"][..trip.instances];
        let mut rules = vec![rate(trip.percent, within(10_000), 10)];
        rules.extend(trip.slow.map(|percent| slow_rate(percent, within(10_000), 10)));
        let half_open = HalfOpenSpec {
            permitted_calls: trip.permitted,
            successes_to_close: trip.set.map(|set| set.0),
            failures_to_open: trip.set.map(|set| set.1),
            ..HalfOpenSpec::default()
        };
        let guard = GuardSpec { min_instances: trip.min_instances, ..GuardSpec::default() };
        let world = period_of(PolicySpec { half_open, guard, ..spec(rules) }, names);
        let point = Point { world, out: Vec::new(), had: vec![(0, 0, 0, 0); names.len()], slow: 0, free: 0 };
        let mut search = Search { names, trip, seen: HashSet::new(), ends: HashSet::new() };
        search.go(&point);
        search.ends
    }

    #[test]
    fn a_small_period_always_goes_on() {
        let both = HashSet::from(["OPEN", "CLOSED"]);
        for permitted in 1..=4 {
            for instances in 1..=4 {
                for min_instances in 1..=3 {
                    for percent in [1, 34, 50, 100] {
                        let trip =
                            Trip { permitted, set: None, percent, slow: None, min_instances, instances };
                        assert_eq!(search(trip), both, "{trip:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_small_period_with_its_numbers_set_always_goes_on() {
        for permitted in 1..=4 {
            for instances in [1, 2, 3] {
                for successes in 1..=permitted {
                    for failures in 1..=permitted + 1 - successes {
                        let set = Some((successes, failures));
                        let trip =
                            Trip { permitted, set, percent: 50, slow: None, min_instances: 2, instances };
                        search(trip);
                    }
                }
            }
        }
    }

    #[test]
    fn a_small_period_with_a_slow_rule_always_goes_on() {
        for permitted in 1..=3 {
            for instances in 1..=3 {
                for (percent, slow) in [(50, 50), (100, 1), (1, 100), (50, 100)] {
                    let trip =
                        Trip { permitted, set: None, percent, slow: Some(slow), min_instances: 2, instances };
                    search(trip);
                }
            }
        }
    }
}

/// Who is alone, and who has had its turn.
mod sick_callers {
    use super::*;

    fn with_slow(permitted_calls: u32, slow: u32) -> PolicySpec {
        let half_open = HalfOpenSpec { permitted_calls, ..HalfOpenSpec::default() };
        PolicySpec {
            half_open,
            ..spec(vec![rate(50, within(10_000), 10), slow_rate(slow, within(10_000), 10)])
        }
    }

    #[test]
    fn a_slow_one_that_asks_first_does_not_reopen_alone_nor_take_the_places() {
        for permitted in 1..=5 {
            let mut world = period_of(with_slow(permitted, 20), &["slow", "well"]);
            probe(&mut world, "slow", SLOW_SUCCESS);
            assert_eq!(world.state(), "HALF_OPEN", "{permitted} permitted");
            assert_eq!(world.refusal("slow").reason, RejectionReason::ProbesTaken);
            while world.state() == "HALF_OPEN" {
                probe(&mut world, "well", successes(1));
            }
            assert_eq!(world.state(), "CLOSED", "{permitted} permitted");
        }
    }

    #[test]
    fn two_that_are_slow_reopen() {
        let mut world = period_of(with_slow(5, 20), &["a", "b", "c"]);
        probe(&mut world, "a", SLOW_SUCCESS);
        probe(&mut world, "b", SLOW_SUCCESS);
        assert!(matches!(last(&world).reason, Reason::ProbesSlow { needed: 2, .. }));
    }

    #[test]
    fn one_that_fails_and_one_that_is_slow_agree() {
        let mut world = period_of(with_slow(5, 20), &["a", "b"]);
        probe(&mut world, "a", failures(1));
        probe(&mut world, "b", SLOW_SUCCESS);
        assert_eq!(world.state(), "OPEN");
    }

    #[test]
    fn who_lets_a_lease_run_out_has_had_its_turn() {
        let mut world = period(1, 50, &["leaks", "well"]);
        world.grant("leaks");
        assert_eq!(world.refusal("well").reason, RejectionReason::ProbesTaken);
        world.pass(11_000);
        assert_eq!(world.refusal("leaks").reason, RejectionReason::ProbesTaken);
        probe(&mut world, "well", successes(1));
        assert_eq!(world.state(), "CLOSED");
    }

    #[test]
    fn those_that_share_a_place_decide_nothing() {
        let settings = Settings { instances_max: 2, ..SETTINGS };
        let mut world = World::with(policy(spec_of(2, 50)), settings);
        world.watch("a", "w", true).watch("b", "w", true);
        world.transition_to(Target::HalfOpen).unwrap();
        probe(&mut world, "other-1", failures(1));
        probe(&mut world, "a", failures(1));
        assert_eq!(world.state(), "HALF_OPEN", "one of two that have a say");
        probe(&mut world, "b", failures(1));
        assert_eq!(world.state(), "OPEN");
    }

    /// Those that were there when it opened are waited for: nobody had a reason to speak while all were refused.
    #[test]
    fn who_asks_first_after_a_long_wait_is_not_alone() {
        let mut world = World::new(policy(spec_of(1, 50)));
        for name in ["sick", "a", "b"] {
            world.by_hand(name, successes(1));
        }
        world.transition_to(Target::Open { wait: Some(ms(60_000)) }).unwrap();
        world.pass(60_000);
        probe(&mut world, "sick", failures(1));
        assert_eq!((world.state(), world.breaker.known_instances()), ("HALF_OPEN", 3));
        world.pass(5_000);
        probe(&mut world, "a", successes(1));
        assert_eq!(world.state(), "CLOSED");
    }

    #[test]
    fn nobody_waits_for_one_that_left() {
        let mut world = World::new(policy(spec_of(1, 50)));
        world.watch("a", "w", true).watch("b", "w", true);
        world.transition_to(Target::Open { wait: Some(ms(60_000)) }).unwrap();
        world.watch("b", "w", false);
        world.pass(60_000);
        probe(&mut world, "a", failures(1));
        assert_eq!(world.state(), "OPEN");
    }

    #[test]
    fn who_was_asked_to_wait_leaves_its_place_to_others() {
        let mut world = period(1, 50, &["a", "b"]);
        let Grant { generation, probe: id, .. } = world.grant("a");
        let (outcomes, retry_after) = (ignored(), Some(ms(4_000)));
        let entry =
            Entry { generation: Some(generation), probe: id, outcomes, retry_after, ..Entry::default() };
        world.report("a", &entry);
        let refusal = world.refusal("a");
        assert_eq!((refusal.reason, refusal.retry_after), (RejectionReason::Quarantined, Some(ms(4_000))));
        let others = world.grant("b");
        world.end("b", others, ignored());
        world.pass(4_000).grant("a");
    }

    #[test]
    fn probes_past_their_deadline_are_told_apart() {
        let mut world = period(1, 50, &["a", "b"]);
        for name in ["a", "b"] {
            let grant = world.grant(name);
            world.pass(10_000).end(name, grant, failures(1));
        }
        let why = Why(&last(&world)).to_string();
        assert_eq!(why, "2 of 2 probes ran past their deadline, 2 needed to reopen");
    }
}
