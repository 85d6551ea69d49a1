//! Breakers that decide in process, from the registry. None of them says when to come again.
//!
//! Each is made `standard`, as its own defaults have it, or `strict`: at 20 failures without a success it is OPEN for
//! an hour.

pub(crate) mod circuitbreaker_rs;
pub(crate) mod failsafe;
pub(crate) mod recloser;
pub(crate) mod tower_resilience;

use std::time::Duration;

use crate::call::Call;

/// All that were looked for are there. One that is not any more is left out here, and said so.
pub(crate) const NAMES: [&str; 4] =
    ["recloser 1.4", "failsafe 1.3", "circuitbreaker-rs 0.1", "tower-resilience-circuitbreaker 0.14"];

/// How many calls a `strict` one needs.
pub(crate) const MINIMUM_CALLS: usize = 20;
/// How long a `strict` one stays OPEN: for the rest of the run.
const OPEN: Duration = Duration::from_secs(3_600);

/// All calls fail until it is OPEN.
pub(crate) fn opened<C: Call>(mut caller: C) -> C {
    while caller.fail() {}
    caller
}
