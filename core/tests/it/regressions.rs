//! What once broke, one line each on what it was.

use std::time::Duration;

use crate::world::*;
use panelboard_core::*;

/// Bucket numbers were added to without looking at the end of the numbers.
#[test]
fn a_window_at_the_end_of_time_does_not_overflow() {
    let mut world = World::new(policy(spec(vec![rate(50, within(100), 1)])));
    world.now = u64::MAX;
    assert_eq!(world.by_hand("a", successes(1)), Reported::Counted);
    assert_eq!(world.readings()[0].calls, 1);
}

fn half_open_of(permitted_calls: u32) -> PolicySpec {
    let half_open = HalfOpenSpec { permitted_calls, ..HalfOpenSpec::default() };
    PolicySpec { half_open, ..spec(vec![rate(50, within(10_000), 10)]) }
}

/// The limit began anew when the first outcome came in, so a period could last a probe's timeout longer.
#[test]
fn the_half_open_limit_runs_from_the_first_lease() {
    let mut world = World::new(policy(half_open_of(5)));
    world.transition_to(Target::HalfOpen).unwrap();
    let grant = world.pass(1_000).grant("a");
    world.pass(9_000).end("a", grant, successes(1));
    assert_eq!(world.breaker.deadline(), Some(Timestamp::from_millis(31_000)));
}

/// Only one place of all that one instance's probes had failed came back: with the rest the places were used up, no
/// verdict was certain, and everybody was kept out until the limit.
#[test]
fn every_failure_of_a_single_instance_gives_its_place_back() {
    let mut world = World::new(policy(half_open_of(4)));
    world.transition_to(Target::HalfOpen).unwrap();
    world.watch("b", "b-1", true);
    let first = world.grant("a");
    world.end("a", first, successes(1));
    let more: Vec<Grant> = (0..3).map(|_| world.grant("a")).collect();
    for grant in more {
        world.end("a", grant, failures(1));
    }
    for _ in 0..2 {
        let grant = world.grant("b");
        world.end("b", grant, successes(1));
    }
    assert_eq!(world.state(), "CLOSED");
}

/// A verdict that became certain because an instance had gone was not given before the limit.
#[test]
fn a_verdict_is_given_when_the_others_are_gone() {
    let mut world = World::new(policy(half_open_of(1)));
    world.transition_to(Target::HalfOpen).unwrap();
    world.watch("a", "a-1", true);
    world.pass(12_000).by_hand("b", successes(1));
    let grant = world.grant("a");
    world.end("a", grant, failures(1));
    assert_eq!(world.state(), "HALF_OPEN", "b has not had its say");
    world.pass(100).tick();
    assert_eq!(world.breaker.deadline(), Some(Timestamp::from_millis(22_000)), "b may be gone by then");
    world.pass(9_900).tick();
    assert_eq!(world.path().last().unwrap(), "HALF_OPEN>OPEN");
}

/// Nothing said that the probe of a session that was replaced had come back, so watchers heard of it late.
#[test]
fn the_probe_of_a_replaced_session_is_due_at_once() {
    let mut world = World::new(policy(half_open_of(1)));
    world.transition_to(Target::HalfOpen).unwrap();
    world.watch("a", "first", true);
    world.acquire_as("a", Some("first"));
    world.pass(500).tick();
    world.watch("a", "first", false);
    world.pass(1).watch("a", "second", true);
    assert!(world.breaker.deadline().unwrap() <= Timestamp::from_millis(501));
    world.tick();
    assert_eq!(world.breaker.probes_leased(), 0);
}

/// A stream that began counted an instance twice that had lapsed since the last call.
#[test]
fn an_instance_that_comes_back_is_known_once() {
    let mut world = World::new(policy(half_open_of(1)));
    world.acquire("a");
    world.pass(20_000).watch("a", "a-1", true);
    assert_eq!(world.breaker.known_instances(), 1);
}

fn streak_of(threshold: u32) -> PolicySpec {
    PolicySpec { guard: GuardSpec::OFF, ..spec(vec![Rule::ConsecutiveFailures { threshold }]) }
}

/// An entry of five failures and then a success: the streak is reached and broken.
fn broken_streak() -> Entry {
    let outcomes = Outcomes { failures: 5, successes: 1, ..Outcomes::default() };
    let streaks = Some(Streaks { leading: 5, longest: 5, trailing: 0 });
    Entry { outcomes, streaks, ..Entry::default() }
}

/// A streak reached and broken within one entry was forgotten if the call that brought it ended an override.
#[test]
fn a_broken_streak_trips_although_its_call_ended_an_override() {
    let mut world = World::new(policy(streak_of(5)));
    world.set_override(OverrideKind::Disabled, Some(ms(100)));
    world.pass(100).report("a", &broken_streak());
    assert_eq!(world.state(), "CLOSED");
    world.tick();
    assert_eq!(world.path(), ["CLOSED>DISABLED", "DISABLED>CLOSED", "CLOSED>OPEN"]);
    let Some(Change::Transition(last)) = world.changes.last() else { panic!() };
    assert!(matches!(&last.reason, Reason::RuleCrossed { crossing } if crossing.affected == 1));
}

/// Under METRICS_ONLY only streaks that went on were looked at.
#[test]
fn a_broken_streak_would_have_opened() {
    let mut world = World::new(policy(streak_of(5)));
    world.set_override(OverrideKind::MetricsOnly, None);
    world.report("a", &broken_streak());
    assert!(matches!(world.changes.last(), Some(Change::WouldOpen { would: Some(_) })));
    world.rest(2);
    assert!(matches!(world.changes.last(), Some(Change::WouldOpen { would: None })));
}

/// A crossing in the very call that recorded the end of the one before was missed.
#[test]
fn a_crossing_is_not_missed_because_one_has_just_ended() {
    let mut world = World::new(policy(spec(vec![rate(50, within(1_000), 10)])));
    world.set_override(OverrideKind::MetricsOnly, None);
    world.by_hand("a", failures(10));
    world.pass(5_000).by_hand("a", failures(10));
    assert!(matches!(world.changes.last(), Some(Change::WouldOpen { would: None })));
    world.tick();
    assert!(matches!(world.changes.last(), Some(Change::WouldOpen { would: Some(_) })));
}

/// With a threshold lowered below a streak that is there, the readings said crossed and nothing tripped.
#[test]
fn any_counted_outcome_trips_a_rule_that_is_crossed() {
    let mut world = World::new(policy(streak_of(5)));
    world.by_hand("a", failures(4));
    world.set_policy(policy(streak_of(3)));
    assert_eq!(world.state(), "CLOSED", "a policy never moves the state");
    world.by_hand("b", successes(1));
    assert_eq!(world.state(), "OPEN");
}

/// The cap was applied when the breaker tripped, so that one absurd wish lengthened every wait of the next day.
#[test]
fn a_retry_after_is_honoured_up_to_its_cap_from_when_it_was_asked() {
    let spec = PolicySpec { retry_after_max: ms(60_000), ..spec(vec![rate(50, within(1_000), 10)]) };
    let mut world = World::new(policy(spec));
    let outcomes = successes(1);
    world
        .report("a", &Entry { outcomes, retry_after: Some(Duration::from_secs(86_400)), ..Entry::default() });
    world.pass(40_000).by_hand("a", failures(10));
    let Some(Change::Transition(last)) = world.changes.last() else { panic!() };
    assert_eq!(last.wait.unwrap().retry_after, Some(ms(20_000)));
    world.reset();
    world.report("a", &Entry { outcomes, retry_after: Some(Duration::MAX), ..Entry::default() });
    // By then it is no wish any more, and the instance that was held back for it is let go.
    world.pass(61_000).tick();
    world.by_hand("a", failures(10));
    let Some(Change::Transition(last)) = world.changes.last() else { panic!() };
    assert_eq!(last.wait.unwrap().retry_after, None);
}

/// Three fast successes of five closed, although the other two could still have been one slow call too many.
#[test]
fn closing_is_certain_about_slow_calls_too() {
    let half_open = HalfOpenSpec { permitted_calls: 5, ..HalfOpenSpec::default() };
    let trip = vec![rate(50, within(1_000), 10), slow_rate(10, within(1_000), 10)];
    let mut world = World::new(policy(PolicySpec { half_open, ..spec(trip) }));
    world.transition_to(Target::HalfOpen).unwrap();
    for n in 0..5 {
        assert_eq!(world.state(), "HALF_OPEN", "after {n} fast successes");
        let grant = world.grant("a");
        world.end("a", grant, successes(1));
    }
    assert_eq!(world.state(), "CLOSED");
}

/// What was HALF_OPEN when it was stored came back as if it had been CLOSED before.
#[test]
fn a_restored_period_tells_where_it_comes_from() {
    let mut world = World::new(policy(half_open_of(5)));
    world.transition_to(Target::HalfOpen).unwrap();
    world.restart();
    let last = world.status().last.unwrap();
    assert_eq!(
        (last.from.as_str(), last.to.as_str(), &last.reason),
        ("HALF_OPEN", "OPEN", &Reason::Restored)
    );
}

/// An operator was refused because of an override that was over, until a tick came.
#[test]
fn an_override_that_is_over_does_not_stand_in_the_way() {
    let mut world = World::new(policy(half_open_of(5)));
    world.set_override(OverrideKind::Disabled, Some(ms(100)));
    assert_eq!(
        world.pass(99).transition_to(Target::Open { wait: None }),
        Err(Refusal::UnderOverride(OverrideKind::Disabled))
    );
    world.pass(1).transition_to(Target::Open { wait: None }).unwrap();
    assert_eq!(world.path(), ["CLOSED>DISABLED", "DISABLED>OPEN"]);
}

/// More slow calls than calls were counted as they were claimed.
#[test]
fn no_more_calls_are_slow_than_there_are() {
    let mut world = World::new(policy(spec(vec![slow_rate(50, within(1_000), 10)])));
    world.by_hand("a", successes(19));
    world.by_hand("a", Outcomes { successes: 1, slow_successes: 1_000_000, ..Outcomes::default() });
    assert_eq!((world.state(), world.readings()[0].matched), ("CLOSED", 1));
}

/// An instance stayed active from when its late entry arrived, not from when its calls were.
#[test]
fn a_late_entry_makes_its_instance_active_only_while_its_calls_are_in_the_window() {
    let mut world = World::new(policy(spec(vec![rate(50, within(10_000), 100)])));
    world.pass(20_000).by_hand("a", successes(1));
    let at = Some(Timestamp::from_millis(12_000));
    world.report("b", &Entry { outcomes: successes(1), at, ..Entry::default() });
    assert_eq!(world.status().active_instances, 2);
    world.pass(2_000).tick();
    assert_eq!(world.status().active_instances, 1);
}

/// A reopening could not say why its probes failed.
#[test]
fn a_reopening_names_the_causes_of_its_probes() {
    let mut world = World::new(policy(half_open_of(1)));
    world.transition_to(Target::HalfOpen).unwrap();
    let Grant { generation, probe, .. } = world.grant("a");
    let causes = vec![(Classification::default().cause("timeout"), 1)];
    let entry =
        Entry { generation: Some(generation), probe, outcomes: failures(1), causes, ..Entry::default() };
    world.report("a", &entry);
    let last = world.status().last.unwrap();
    assert_eq!((last.to.as_str(), last.top_causes[0].0.as_str()), ("OPEN", "timeout"));
}

/// A session's first entry was taken for a duplicate if it was numbered zero.
#[test]
fn a_sequence_may_begin_at_zero() {
    let mut world = World::new(policy(half_open_of(1)));
    let entry = Entry { sequence: Some(0), outcomes: successes(1), ..Entry::default() };
    assert_eq!(world.report_as("a", Some("1"), &entry), Reported::Counted);
    assert_eq!(world.report_as("a", Some("1"), &entry), Reported::Duplicate);
}

/// Nothing said that a verdict had become certain because the other instance's stream ended.
#[test]
fn a_verdict_is_due_when_the_last_of_the_others_ends_its_stream() {
    let mut world = World::new(policy(half_open_of(1)));
    world.watch("a", "w", true).watch("b", "w", true);
    world.pass(15_000).transition_to(Target::HalfOpen).unwrap();
    let grant = world.grant("a");
    world.end("a", grant, failures(1));
    world.pass(1_000).tick();
    assert_eq!(world.state(), "HALF_OPEN");
    world.watch("b", "w", false);
    assert_eq!(world.breaker.deadline(), Some(Timestamp::from_millis(16_000)));
    world.tick();
    assert_eq!(world.state(), "OPEN");
}
