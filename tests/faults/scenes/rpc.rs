//! The server answers, but too late, or not what it should.

use std::time::Duration;

use crate::{
    matrix::Row,
    relay::Mode,
    scene::{OPEN_JITTER, World},
    trial::{self, Expected, RECONNECT, RECONNECT_AFTER_TIMEOUT, UNACKNOWLEDGED},
};

/// Longer than any RPC of the client may take.
const SLOW: Mode = Mode::Slow(Duration::from_secs(5));

/// The stream lives and vouches for what it delivered, and outcomes are not acknowledged: STALE for as long as it takes,
/// and a breaker without outcomes is FRESH all the time. The server's HALF_OPEN, heard meanwhile, counts as OPEN for a
/// probe's timeout and a second.
const NO_REPORTS: Expected = Expected {
    busy_stale: UNACKNOWLEDGED,
    quiet_stale: None,
    local: None,
    open_beyond: OPEN_JITTER.saturating_add(Duration::from_secs(4)),
    fresh: RECONNECT,
};

pub(crate) async fn slow() -> Row {
    let mut world = World::relayed().await;
    let slow = async |world: &mut World| world.relay().set(SLOW);
    let expected = Expected { fresh: RECONNECT_AFTER_TIMEOUT, ..NO_REPORTS };
    trial::run(&mut world, expected, slow, is_quick).await
}

/// The stream is cut, and a new one is not to be had in time.
pub(crate) async fn slow_and_cut() -> Row {
    let mut world = World::relayed().await;
    let slow = async |world: &mut World| {
        world.relay().set(SLOW);
        world.gate().cut();
    };
    let expected = Expected { fresh: RECONNECT_AFTER_TIMEOUT, ..Expected::BROKEN };
    trial::run(&mut world, expected, slow, is_quick).await
}

pub(crate) async fn reports_refused() -> Row {
    let mut world = World::relayed().await;
    let refuse = async |world: &mut World| world.relay().set(Mode::RefuseReports);
    trial::run(&mut world, NO_REPORTS, refuse, is_quick).await
}

pub(crate) async fn errors() -> Row {
    let mut world = World::relayed().await;
    let answer_errors = async |world: &mut World| world.relay().set(Mode::Errors);
    trial::run(&mut world, Expected::BROKEN, answer_errors, is_quick).await
}

async fn is_quick(world: &mut World) {
    world.relay().set(Mode::Pass);
}
