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
