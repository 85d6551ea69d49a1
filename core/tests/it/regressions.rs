//! What once broke, one line each on what it was.

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
