//! The guard: one sick caller is kept out and the fleet goes on, and what a fleet agrees on trips it. The rule is in
//! `docs/guard.md`; each line of its tables is a test here.

use crate::world::*;
use panelboard_core::*;
use std::sync::Arc;

/// Half of at least 20 calls in ten seconds.
fn half() -> Rule {
    rate(50, within(10_000), 20)
}

/// A world in which these watch.
fn world_of(trip: Vec<Rule>, instances: &[&str]) -> World {
    world_under(GuardSpec::default(), trip, instances)
}

fn world_under(guard: GuardSpec, trip: Vec<Rule>, instances: &[&str]) -> World {
    let mut world = World::new(policy(PolicySpec { guard, ..spec(trip) }));
    for name in instances {
        world.watch(name, "w", true);
    }
    // Past the first window, so that active is who calls.
    world.pass(20_000).tick();
    world
}

fn names(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("pod-{n}")).collect()
}

fn quarantine(world: &World, who: &str) -> Option<Quarantine> {
    world.breaker.quarantine_of(&instance(who), Timestamp::from_millis(world.now))
}

fn newest(world: &World) -> Arc<Quarantine> {
    match world.changes.last() {
        Some(Change::Quarantine(quarantine)) => Arc::clone(quarantine),
        other => panic!("{other:?}"),
    }
}

fn crossing(world: &World) -> Crossing {
    match world.changes.last() {
        Some(Change::Transition(last)) => match &last.reason {
            Reason::RuleCrossed { crossing } => crossing.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Lets an instance be quarantined for its failures.
fn quarantined(world: &mut World, who: &str) {
    world.by_hand(who, failures(20));
    world.pass(1_000).tick();
    assert!(quarantine(world, who).is_some());
}

// Trips by calls.

#[test]
fn the_worst_is_left_out_and_the_rest_decides() {
    let mut world = world_of(vec![half()], &["a", "b", "c"]);
    world.by_hand("a", failures(1_000));
    world.by_hand("b", successes(10));
    assert_eq!(world.state(), "CLOSED", "all that is bad is the work of one");
    // Without a: five failed of fifteen. Then ten of twenty.
    world.by_hand("c", failures(5));
    assert_eq!(world.state(), "CLOSED");
    world.by_hand("c", failures(5));
    assert_eq!(world.state(), "OPEN");
    let crossing = crossing(&world);
    assert_eq!(crossing.by, TripBy::Calls { left_out: 1, calls: 20, matched: 10 });
    assert_eq!((crossing.required, crossing.affected), (2, 2));
    assert_eq!(crossing.worst, [(instance("a"), 1_000), (instance("c"), 10)]);
}

#[test]
fn the_rest_needs_five_calls_or_the_rules_own_minimum_if_that_is_less() {
    let mut world = world_of(vec![half()], &["a", "b"]);
    world.by_hand("a", failures(20));
    world.by_hand("b", failures(4));
    assert_eq!(world.state(), "CLOSED");
    world.by_hand("b", failures(1));
    assert_eq!(world.state(), "OPEN");
    let mut world = world_of(vec![rate(50, within(10_000), 2)], &["a", "b"]);
    world.by_hand("a", failures(2));
    world.by_hand("b", failures(1));
    assert_eq!(world.state(), "CLOSED");
    world.by_hand("b", failures(1));
    assert_eq!(world.state(), "OPEN", "the guard asks for no more than the rule does");
}

#[test]
fn a_sole_instance_is_the_fleet() {
    let mut world = world_of(vec![half()], &["a"]);
    world.by_hand("a", failures(20));
    assert_eq!(world.state(), "OPEN");
    let mut world = world_of(vec![half()], &[]);
    world.by_hand("a", failures(20));
    assert_eq!(world.state(), "OPEN", "one that does not watch, too");
}

#[test]
fn who_calls_alone_while_another_one_is_there_is_not_alone() {
    let mut world = world_of(vec![half()], &["a", "b"]);
    world.by_hand("a", failures(1_000));
    assert_eq!(world.state(), "CLOSED");
    world.watch("b", "w", false);
    world.pass(100).by_hand("a", failures(1));
    assert_eq!(world.state(), "OPEN", "once the other is gone it is");
}

#[test]
fn in_the_first_window_all_that_are_known_are_active() {
    let names = names(100);
    let mut world = World::new(policy(spec(vec![half()])));
    for name in &names {
        world.watch(name, "w", true);
    }
    // Twenty are required of a hundred, and these are nineteen.
    for name in &names[..19] {
        world.by_hand(name, failures(10));
    }
    assert_eq!(world.state(), "CLOSED");
    world.by_hand(&names[19], failures(5));
    assert_eq!(world.state(), "OPEN");
    assert_eq!(crossing(&world).required, 20);
}

#[test]
fn of_equal_ones_the_one_with_more_calls_is_left_out() {
    let mut world = world_of(vec![rate(50, within(10_000), 5)], &["a", "b"]);
    // Both exactly at the threshold: without the bigger one four calls are left, and five are needed.
    let mixed = |n| Outcomes { successes: n, failures: n, ..Outcomes::default() };
    world.by_hand("a", mixed(2));
    world.by_hand("b", mixed(50));
    assert_eq!(world.state(), "CLOSED");
    world.by_hand("a", mixed(1));
    assert_eq!(world.state(), "OPEN");
    assert_eq!(crossing(&world).by, TripBy::Calls { left_out: 1, calls: 6, matched: 3 });
}

#[test]
fn only_instances_with_calls_are_left_out() {
    let guard = GuardSpec { min_instances: 3, ..GuardSpec::default() };
    let mut world = world_under(guard, vec![half()], &["a", "b", "c", "d"]);
    for name in ["a", "b"] {
        world.by_hand(name, failures(100));
    }
    assert_eq!(world.state(), "CLOSED", "no call is left when two are left out");
    world.by_hand("c", failures(5));
    assert_eq!(world.state(), "OPEN");
}

#[test]
fn a_count_rule_looks_at_the_count_that_is_left() {
    let mut world =
        world_of(vec![Rule::Failures { threshold: 10, window: within(10_000) }], &["a", "b", "c"]);
    world.by_hand("a", failures(500));
    world.by_hand("b", failures(5));
    world.by_hand("c", failures(4));
    assert_eq!(world.state(), "CLOSED", "nine without the worst");
    world.by_hand("c", failures(1));
    assert_eq!(world.state(), "OPEN");
    assert_eq!(crossing(&world).by, TripBy::Calls { left_out: 1, calls: 10, matched: 10 });
}

#[test]
fn a_slow_rate_leaves_out_the_slowest() {
    let slow = |n| Outcomes { successes: n, slow_successes: n, ..Outcomes::default() };
    let mut world = world_of(vec![slow_rate(50, within(10_000), 20)], &["a", "b", "c"]);
    world.by_hand("a", slow(100));
    world.by_hand("b", successes(5));
    world.by_hand("b", failures(5));
    assert_eq!(world.state(), "CLOSED");
    world.by_hand("c", slow(10));
    assert_eq!(world.state(), "OPEN");
}

#[test]
fn the_last_calls_of_each_are_left_out_with_it() {
    let mut world = world_of(vec![rate(50, Window::Last(10), 10)], &["a", "b", "c"]);
    world.by_hand("a", failures(10));
    world.by_hand("b", successes(10));
    assert_eq!(world.state(), "CLOSED");
    world.by_hand("c", failures(9));
    assert_eq!(world.state(), "CLOSED");
    world.by_hand("c", failures(1));
    assert_eq!(world.state(), "OPEN");
}

#[test]
fn a_streak_trips_in_as_many_instances_as_are_required() {
    let mut world = world_of(vec![Rule::ConsecutiveFailures { threshold: 5 }], &["a", "b", "c"]);
    world.by_hand("a", failures(500));
    world.by_hand("b", failures(4));
    assert_eq!(world.state(), "CLOSED");
    // Reached and broken in one report counts, too.
    let outcomes = Outcomes { failures: 1, successes: 1, ..Outcomes::default() };
    let streaks = Some(Streaks { leading: 1, longest: 1, trailing: 0 });
    world.report("b", &Entry { outcomes, streaks, ..Entry::default() });
    assert_eq!(world.state(), "OPEN");
    assert_eq!(crossing(&world).by, TripBy::Streaks { instances: 2 });
}

// Trips by votes.

#[test]
fn one_loud_healthy_caller_hides_nobodys_outage() {
    let mut world = world_of(vec![half()], &["a", "b", "c", "d"]);
    world.by_hand("a", successes(100_000));
    for name in ["b", "c"] {
        assert_eq!(world.state(), "CLOSED");
        world.by_hand(name, failures(20));
    }
    assert_eq!(world.state(), "OPEN", "b and c are half of three that are active, and more");
    let crossing = crossing(&world);
    assert_eq!(crossing.by, TripBy::Votes { votes: 2 });
    assert!(!crossing.reading.crossed);
}

#[test]
fn fewer_than_three_do_not_vote() {
    let mut world = world_of(vec![half()], &["a", "b"]);
    world.by_hand("a", successes(100_000));
    world.by_hand("b", failures(20));
    assert_eq!(world.state(), "CLOSED");
}

#[test]
fn a_vote_needs_the_rules_own_minimum() {
    let mut world = world_of(vec![half()], &["a", "b", "c"]);
    world.by_hand("a", successes(100_000));
    world.by_hand("b", failures(20));
    world.by_hand("c", failures(19));
    assert_eq!(world.state(), "CLOSED");
    world.by_hand("c", failures(1));
    assert_eq!(world.state(), "OPEN");
}

#[test]
fn a_quarantined_instance_votes() {
    let mut world = world_of(vec![half()], &["a", "b", "c", "d"]);
    for name in ["b", "c", "d"] {
        world.by_hand(name, successes(1_000));
    }
    quarantined(&mut world, "a");
    world.by_hand("b", failures(1_001));
    assert_eq!(world.state(), "OPEN", "two of four");
    assert_eq!(crossing(&world).by, TripBy::Votes { votes: 2 });
}

#[test]
fn a_vote_is_over_with_what_it_was_cast_for() {
    // The second rule only keeps all three active.
    let never = Rule::Failures { threshold: 1_000_000, window: within(10_000) };
    let world = || {
        let mut world = world_of(vec![rate(50, within(500), 20), never], &["a", "b", "c"]);
        world.by_hand("a", successes(1_000));
        world.by_hand("b", failures(20));
        world
    };
    let mut late = world();
    late.pass(600).by_hand("a", successes(1_000));
    late.by_hand("c", failures(20));
    assert_eq!(late.state(), "CLOSED", "what b crossed has left its window");
    let mut soon = world();
    soon.pass(400).by_hand("c", failures(20));
    assert_eq!(soon.state(), "OPEN");
}

// Quarantine.

#[test]
fn a_sick_instance_is_kept_out_once_its_crossing_has_lasted_a_second() {
    let mut world = world_of(vec![half()], &["a", "b", "c"]);
    world.by_hand("b", successes(100));
    world.by_hand("a", failures(20));
    assert_eq!(world.breaker.deadline(), Some(Timestamp::from_millis(world.now + 1_000)));
    world.pass(999).tick();
    assert!(quarantine(&world, "a").is_none());
    world.grant("a");
    world.pass(1).tick();
    let began = newest(&world);
    assert_eq!((&began.instance, began.event, began.before), (&instance("a"), QuarantineEvent::Began, 0));
    assert_eq!((began.active_instances, began.required_instances), (2, 2));
    assert!(
        matches!(began.why, Held::Crossed { reading, lasted } if lasted == ms(1_000) && reading.matched == 20)
    );
    let refusal = world.refusal("a");
    assert_eq!((refusal.reason, refusal.retry_after), (RejectionReason::Quarantined, Some(ms(5_000))));
    world.grant("b");
    assert_eq!((world.state(), world.status().quarantined_instances), ("CLOSED", 1));
    // Inclusive, as every deadline, and without a tick.
    world.pass(4_999).refusal("a");
    world.pass(1).grant("a");
    assert_eq!(newest(&world).event, QuarantineEvent::Ended);
}

#[test]
fn a_crossing_that_is_over_before_a_second_keeps_nobody_out() {
    let mut world = world_of(vec![half()], &["a", "b"]);
    world.by_hand("b", successes(100));
    world.by_hand("a", failures(20));
    world.pass(500).by_hand("a", successes(21));
    world.pass(500).tick();
    assert_eq!((world.changes.len(), world.breaker.deadline()), (0, None));
    // And it counts anew from its next beginning.
    world.by_hand("a", failures(1));
    world.pass(999).tick();
    assert!(world.changes.is_empty());
    world.pass(1).tick();
    assert_eq!(world.status().quarantined_instances, 1);
}

#[test]
fn a_crossing_that_begins_again_lasts_from_then() {
    let mut world = world_of(vec![half()], &["a", "b"]);
    world.by_hand("b", successes(100));
    world.by_hand("a", failures(20));
    world.pass(300).by_hand("a", successes(21));
    world.pass(300).by_hand("a", failures(1));
    world.pass(999).tick();
    assert!(world.changes.is_empty());
    world.pass(1).tick();
    assert_eq!(world.status().quarantined_instances, 1);
}

#[test]
fn a_burst_that_has_left_the_window_keeps_nobody_out() {
    let mut world = world_of(vec![rate(50, within(500), 20)], &["a", "b"]);
    world.by_hand("a", failures(20));
    world.pass(1_000).tick();
    assert_eq!((world.changes.len(), world.breaker.deadline()), (0, None));
}

#[test]
fn what_is_reported_in_quarantine_counts_for_nothing() {
    let mut world = world_of(vec![half()], &["a", "b", "c"]);
    world.by_hand("b", successes(100));
    quarantined(&mut world, "a");
    let before = world.readings();
    assert_eq!(world.by_hand("a", failures(1_000)), Reported::Counted);
    assert_eq!((world.readings(), world.state()), (before, "CLOSED"));
}

#[test]
fn it_comes_back_outside_of_the_fleets_tallies_until_its_calls_are_well() {
    let mut world = world_of(vec![half()], &["a", "b", "c"]);
    world.by_hand("b", successes(100));
    quarantined(&mut world, "a");
    world.pass(5_000).tick();
    assert_eq!(world.readings()[0].calls, 100, "what it did before is forgotten");
    world.by_hand("a", successes(4));
    assert_eq!(world.readings()[0].calls, 100);
    world.by_hand("a", successes(1));
    assert_eq!(world.readings()[0].calls, 100, "the ones it was tried with are not the fleet's");
    world.by_hand("a", successes(1));
    assert_eq!(world.readings()[0].calls, 101);
}

#[test]
fn who_relapses_is_kept_out_at_once_and_longer_each_time() {
    let mut world = world_of(vec![half()], &["a", "b", "c"]);
    world.watch("b", "w", true).by_hand("b", successes(100));
    quarantined(&mut world, "a");
    for (before, wait) in [(1, 10), (2, 20), (3, 40), (4, 60), (5, 60)] {
        let until = quarantine(&world, "a").unwrap().until.as_millis();
        world.now = until;
        world.tick();
        world.by_hand("a", failures(4));
        world.grant("a");
        world.by_hand("a", failures(1));
        let relapse = newest(&world);
        assert_eq!((relapse.before, relapse.wait), (before, ms(wait * 1_000)));
        assert!(matches!(relapse.why, Held::Relapsed { reading } if reading.calls == 5));
        assert_eq!(world.refusal("a").retry_after, Some(ms(wait * 1_000)));
    }
    // Once it is well for a minute, the next one is a first one again.
    world.now = quarantine(&world, "a").unwrap().until.as_millis();
    world.tick();
    world.by_hand("a", successes(5));
    world.pass(30_000).by_hand("a", failures(20));
    world.pass(1_000).tick();
    assert_eq!(newest(&world).before, 6, "half a minute is still in a row");
    world.now = quarantine(&world, "a").unwrap().until.as_millis();
    world.tick();
    world.by_hand("a", successes(5));
    world.pass(60_000).by_hand("a", failures(20));
    world.pass(1_000).tick();
    assert_eq!((newest(&world).before, newest(&world).wait), (0, ms(5_000)));
}

#[test]
fn calls_from_before_the_quarantine_say_nothing_about_after_it() {
    let mut world = world_of(vec![half()], &["a", "b", "c"]);
    quarantined(&mut world, "a");
    world.pass(5_000).tick();
    let at = Some(Timestamp::from_millis(world.now - 1));
    world.report("a", &Entry { outcomes: failures(100), at, ..Entry::default() });
    assert!(quarantine(&world, "a").is_none());
}

#[test]
fn a_trip_or_an_override_ends_it() {
    type End = fn(&mut World);
    let ends: [End; 4] = [
        |world| {
            world.transition_to(Target::Open { wait: None }).unwrap();
        },
        |world| {
            world.set_override(OverrideKind::MetricsOnly, None);
        },
        |world| {
            world.set_override(OverrideKind::Disabled, None);
        },
        |world| {
            world.reset();
        },
    ];
    for end in ends {
        let mut world = world_of(vec![half()], &["a", "b", "c"]);
        quarantined(&mut world, "a");
        end(&mut world);
        assert_eq!((quarantine(&world, "a"), world.status().quarantined_instances), (None, 0));
        if world.state() != "OPEN" {
            world.grant("a");
        }
        world.restart();
        assert_eq!(quarantine(&world, "a"), None);
    }
}

#[test]
fn a_quarantine_is_not_stored() {
    let mut world = world_of(vec![half()], &["a", "b", "c"]);
    quarantined(&mut world, "a");
    world.restart();
    world.grant("a");
}

#[test]
fn an_override_keeps_nobody_out() {
    let mut world = world_of(vec![half()], &["a", "b", "c"]);
    world.set_override(OverrideKind::MetricsOnly, None);
    world.by_hand("a", failures(1_000));
    world.pass(2_000).tick();
    world.grant("a");
    assert_eq!(world.changes.len(), 1, "and one alone would not have opened it");
    for name in ["b", "c"] {
        world.by_hand(name, failures(20));
    }
    let Some(Change::WouldOpen { would: Some(would) }) = world.changes.last() else { panic!() };
    assert_eq!((would.crossing.required, would.active_instances), (2, 3));
    assert!(would.to_string().starts_with("would be OPEN: failure rate 100 % >= 50 %"), "{would}");
}

#[test]
fn a_policy_that_changes_lets_nobody_out_and_keeps_nobody_out() {
    let mut world = world_of(vec![half()], &["a", "b", "c"]);
    quarantined(&mut world, "a");
    world.by_hand("b", failures(4));
    world.set_policy(policy(spec(vec![rate(10, within(10_000), 1)])));
    assert!(quarantine(&world, "a").is_some());
    world.pass(2_000).tick();
    assert_eq!((quarantine(&world, "b"), world.state()), (None, "CLOSED"));
}

#[test]
fn an_instance_that_is_gone_has_no_vote() {
    let open = OpenSpec { wait: ms(60_000), ..OpenSpec::default() };
    let mut world = World::new(policy(PolicySpec { open, ..spec(vec![half()]) }));
    for name in ["a", "b", "c"] {
        world.watch(name, "w", true);
    }
    world.pass(20_000).by_hand("b", successes(1_000));
    quarantined(&mut world, "a");
    world.watch("a", "w", false);
    for _ in 0..9 {
        world.pass(1_000).by_hand("b", successes(1));
    }
    assert_eq!(world.status().quarantined_instances, 1, "it may be reconnecting");
    for _ in 0..3 {
        world.pass(1_000).by_hand("b", successes(1));
    }
    assert_eq!(world.status().quarantined_instances, 0);
}

#[test]
fn without_a_guard_one_trips_for_all_and_nobody_is_kept_out() {
    let mut world = world_under(GuardSpec::OFF, vec![half()], &["a", "b", "c"]);
    world.by_hand("b", successes(100));
    world.by_hand("a", failures(50));
    world.pass(2_000).tick();
    assert!(world.changes.is_empty());
    world.by_hand("a", failures(50));
    assert_eq!(world.state(), "OPEN");
}

#[test]
fn the_others_past_the_cap_have_no_vote() {
    let settings = Settings { instances_max: 2, ..SETTINGS };
    let mut world =
        World::with(policy(spec(vec![half(), Rule::ConsecutiveFailures { threshold: 5 }])), settings);
    world.watch("a", "w", true).watch("b", "w", true);
    world.pass(20_000).tick();
    for n in 0..50 {
        world.by_hand(&format!("other-{n}"), failures(20));
        world.pass(100).tick();
    }
    assert_eq!((world.changes.len(), world.status().quarantined_instances), (0, 0));
    assert_eq!(world.readings()[0].matched, 1_000);
    for name in ["a", "b"] {
        world.by_hand(name, failures(5));
    }
    assert_eq!(world.state(), "OPEN");
}

// Identity.

#[test]
fn sessions_of_one_instance_are_one_voter() {
    let mut world = world_of(vec![half()], &["a", "b", "c"]);
    for session in 0..20 {
        let session = session.to_string();
        world.report_as("a", Some(&session), &Entry { outcomes: failures(20), ..Entry::default() });
    }
    assert_eq!(world.state(), "CLOSED");
}

// After a restart.

#[test]
fn who_is_back_first_after_a_restart_is_not_alone() {
    let mut world = world_of(vec![half()], &["a", "b", "c"]);
    for name in ["a", "b"] {
        world.by_hand(name, failures(20));
    }
    assert_eq!(world.state(), "OPEN");
    world.transition_to(Target::Closed).unwrap();
    world.restart();
    world.by_hand("a", failures(1_000));
    assert_eq!(world.state(), "CLOSED");
    world.pass(1_000).tick();
    assert_eq!(world.status().quarantined_instances, 1);
    // Nobody else came: then it is.
    world.pass(10_000).tick();
    world.reset();
    world.by_hand("a", failures(20));
    assert_eq!(world.state(), "OPEN");
}

// Retry-After.

fn asked(world: &mut World, who: &str, wait: u64) {
    let entry = Entry { outcomes: ignored(), retry_after: Some(ms(wait)), ..Entry::default() };
    world.report(who, &entry);
}

fn heeding(scope: RetryAfterScope, max: u64) -> World {
    let spec = PolicySpec { retry_after_scope: scope, retry_after_max: ms(max), ..spec(vec![half()]) };
    let mut world = World::new(policy(spec));
    for name in ["a", "b", "c"] {
        world.watch(name, "w", true);
    }
    world.pass(20_000).tick();
    world
}

#[test]
fn a_retry_after_holds_back_its_own_instance_up_to_the_cap() {
    let mut world = heeding(RetryAfterScope::Instance, 30_000);
    asked(&mut world, "a", 90_000);
    let held = newest(&world);
    assert_eq!((held.event, held.why), (QuarantineEvent::Began, Held::RetryAfter { asked: ms(30_000) }));
    let refusal = world.refusal("a");
    assert_eq!((refusal.reason, refusal.retry_after), (RejectionReason::Quarantined, Some(ms(30_000))));
    world.grant("b");
    // A longer wish moves the end, a shorter one does not.
    world.pass(10_000);
    asked(&mut world, "a", 5_000);
    assert_eq!(world.changes.len(), 1);
    asked(&mut world, "a", 25_000);
    assert_eq!(newest(&world).event, QuarantineEvent::Extended);
    world.pass(24_999).refusal("a");
    world.pass(1).grant("a");
    // It did nothing wrong: it is of the fleet at once.
    world.by_hand("a", successes(1));
    assert_eq!(world.readings()[0].calls, 1);
}

#[test]
fn a_wish_is_no_vote() {
    let mut world = heeding(RetryAfterScope::Instance, 30_000);
    for name in ["a", "b", "c"] {
        asked(&mut world, name, 10_000);
    }
    assert_eq!((world.state(), world.status().quarantined_instances), ("CLOSED", 3));
}

#[test]
fn with_the_scope_of_the_fleet_a_quorum_of_wishes_opens() {
    let mut world = heeding(RetryAfterScope::Fleet, 30_000);
    asked(&mut world, "a", 8_000);
    assert_eq!(world.refusal("a").reason, RejectionReason::Quarantined);
    world.pass(7_999);
    asked(&mut world, "b", 12_000);
    assert_eq!(world.state(), "OPEN");
    let last = world.status().last.unwrap();
    assert!(
        matches!(last.reason, Reason::RetryAfter { asked: 2, required: 2, longest } if longest == ms(12_000))
    );
    assert_eq!(last.wait.unwrap().total, ms(12_000));
    // A wish that is over counts no more.
    let mut world = heeding(RetryAfterScope::Fleet, 30_000);
    asked(&mut world, "a", 8_000);
    world.pass(8_000).tick();
    asked(&mut world, "b", 12_000);
    assert_eq!(world.state(), "CLOSED");
}

#[test]
fn with_the_scope_off_nothing_is_heeded() {
    let mut world = heeding(RetryAfterScope::Off, 30_000);
    asked(&mut world, "a", 8_000);
    assert!(world.changes.is_empty());
    for name in ["a", "b"] {
        let entry = Entry { outcomes: failures(20), retry_after: Some(ms(20_000)), ..Entry::default() };
        world.report(name, &entry);
    }
    assert_eq!(world.status().last.unwrap().wait.unwrap().retry_after, None);
}

#[test]
fn a_quarantine_lasts_as_long_as_the_dependency_asks() {
    let mut world = heeding(RetryAfterScope::Instance, 30_000);
    world.by_hand("b", successes(100));
    let entry = Entry { outcomes: failures(20), retry_after: Some(ms(20_000)), ..Entry::default() };
    world.report("a", &entry);
    assert!(matches!(newest(&world).why, Held::RetryAfter { .. }));
    world.pass(1_000).tick();
    let sick = newest(&world);
    assert!(sick.why.is_sick());
    assert_eq!(sick.wait, ms(19_000));
}

// What is said of it.

#[test]
fn a_quarantine_names_the_causes_of_its_instance_alone() {
    let cause = |word, n| (Classification::default().cause(word), n);
    let mut world = world_of(vec![half()], &["a", "b", "c"]);
    let entry = |outcomes, causes| Entry { outcomes, causes, ..Entry::default() };
    world.report("b", &entry(failures(4), vec![cause("tls", 4)]));
    world.report("b", &entry(successes(200), vec![]));
    world.report("a", &entry(failures(1), vec![cause("reset", 1)]));
    world.report("a", &entry(failures(19), vec![cause("timeout", 7), cause("connect", 12)]));
    world.pass(500).report("a", &entry(failures(3), vec![cause("connect", 3)]));
    world.pass(500).tick();
    let began = newest(&world);
    assert_eq!(began.top_causes, [cause("connect", 15), cause("timeout", 7)], "since its crossing began");
    assert!(began.to_string().contains(" for 1 s, top cause connect 15; 1 of 2 instances"), "{began}");
    world.pass(5_000).tick();
    world.report("a", &entry(failures(5), vec![cause("dns", 5)]));
    assert_eq!(newest(&world).top_causes, [cause("dns", 5)]);
}

#[test]
fn each_says_in_one_sentence_why() {
    let mut world = world_of(vec![half()], &["a", "b", "c"]);
    world.by_hand("b", successes(100));
    quarantined(&mut world, "a");
    assert_eq!(
        newest(&world).to_string(),
        "checkout/a QUARANTINED for 5 s, the others go on: its own failure rate 100 % >= 50 % (20 of 20 in 10 s) for \
         1 s; 1 of 2 instances, 2 needed to open; policy default rev 1"
    );
    world.pass(5_000).tick();
    assert_eq!(
        newest(&world).to_string(),
        "checkout/a admitted again after a quarantine of 5 s (its own failure rate 100 % >= 50 % (20 of 20 in 10 s) \
         for 1 s); policy default rev 1"
    );
    world.by_hand("a", failures(5));
    assert_eq!(
        newest(&world).to_string(),
        "checkout/a QUARANTINED for 10 s, the others go on: 5 of its first 5 calls after the last quarantine failed; \
         1 of 2 instances, 2 needed to open; 1 before in a row; policy default rev 1"
    );
    let mut world = world_of(vec![half()], &["a", "b", "c"]);
    world.by_hand("a", successes(1_000));
    world.by_hand("b", failures(20));
    world.by_hand("c", failures(20));
    assert_eq!(
        Why(&world.status().last.unwrap()).to_string(),
        "2 of 3 instances each cross failure rate >= 50 % of at least 20 calls in 10 s (in all 40 of 1040 failed)"
    );
    let mut world = heeding(RetryAfterScope::Fleet, 30_000);
    asked(&mut world, "a", 8_000);
    assert_eq!(
        newest(&world).to_string(),
        "checkout/a QUARANTINED for 8 s, the others go on: the dependency asked it to wait 8 s; policy default rev 1"
    );
    asked(&mut world, "b", 8_000);
    assert_eq!(
        world.status().last.unwrap().to_string(),
        "OPEN (was CLOSED 20 s): the dependency asked 2 of 2 instances to wait, 2 needed, up to 8 s; retry in 8 s \
         (asked for by the dependency); policy default rev 1"
    );
}

// Limits.

/// A hundred thousand instances are counted apart, and whoever comes after them shares a tally: what is held does not grow
/// with the names that are made up. Once they are silent they are forgotten.
#[test]
fn a_hundred_thousand_instances_are_the_most_and_are_forgotten() {
    const MOST: usize = 100_000;
    let settings = Settings { instances_max: MOST, ..SETTINGS };
    let trip = vec![rate(100, within(10_000), 1_000_000)];
    let at =
        |now, revision| Moment { now: Timestamp::from_millis(now), next: Version { epoch: 1, revision } };
    let mut breaker = Breaker::new(Arc::new(policy(spec(trip))), settings, at(0, 1));
    let report = |breaker: &mut Breaker, n: usize, outcomes, now| {
        let instance = instance(&format!("pod-{n}"));
        let caller = Caller { instance: &instance, session: None };
        breaker.report(caller, &Entry { outcomes, ..Entry::default() }, at(now, 2)).0
    };
    for n in 0..MOST + 20_000 {
        assert_eq!(report(&mut breaker, n, failures(1), 0), Reported::Counted);
    }
    assert_eq!(breaker.known_instances() as usize, MOST);
    let now = Timestamp::from_millis(100);
    assert_eq!(report(&mut breaker, 0, failures(1), 100), Reported::Counted);
    assert_eq!(breaker.status(now).active_instances as usize, MOST);
    assert_eq!(breaker.readings(now)[0].calls as usize, MOST + 20_001, "nobody's calls are lost");
    breaker.tick(at(70_000, 3));
    report(&mut breaker, MOST + 1, successes(1), 70_000);
    report(&mut breaker, MOST + 2, successes(1), 70_001);
    let status = breaker.status(Timestamp::from_millis(70_001));
    assert_eq!(
        (breaker.known_instances(), status.active_instances),
        (2, 2),
        "each has a place of its own again"
    );
}
