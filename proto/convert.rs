//! Every conversion between messages and core types. Total in the direction of the wire; in the other direction a
//! message that does not fit says what is wrong with it.

mod crossing;
mod entry;
mod policy;
mod quarantine;
mod status;
mod transition;

use std::time::Duration;

use panelboard_core::{Generation, Timestamp, Version};

use crate::v1;

pub use crossing::would_open_to_wire;
pub use entry::{entry_from_wire, outcomes_to_wire};
pub use policy::{policy_from_wire, policy_to_wire};
pub use quarantine::quarantine_to_wire;
pub use status::{Times, admission_from_wire, decision_to_wire, reading_to_wire, status_to_wire};
pub use transition::{override_kind_from_wire, override_kind_to_wire, state_to_wire, transition_to_wire};

impl From<Generation> for v1::Generation {
    fn from(generation: Generation) -> Self {
        Self { epoch: generation.epoch, revision: generation.revision }
    }
}

impl From<v1::Generation> for Generation {
    fn from(wire: v1::Generation) -> Self {
        Self { epoch: wire.epoch, revision: wire.revision }
    }
}

impl From<Version> for v1::Version {
    fn from(version: Version) -> Self {
        Self { epoch: version.epoch, revision: version.revision }
    }
}

impl From<v1::Version> for Version {
    fn from(wire: v1::Version) -> Self {
        Self { epoch: wire.epoch, revision: wire.revision }
    }
}

/// A duration as a message.
pub fn duration_to_wire(span: Duration) -> prost_types::Duration {
    prost_types::Duration {
        // Longer than 292 billion years is not told apart.
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or(0),
    }
}

/// A message as a duration; none if it is negative or not a valid duration.
pub fn duration_from_wire(wire: &prost_types::Duration) -> Option<Duration> {
    Duration::try_from(*wire).ok()
}

/// A point in wall time, in milliseconds since the Unix epoch, as a message.
pub fn wall_to_wire(unix_ms: u64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX),
        nanos: i32::try_from(unix_ms % 1_000 * 1_000_000).unwrap_or(0),
    }
}

/// A message as a point in wall time, in milliseconds since the Unix epoch; 0 for what lies before.
pub fn wall_from_wire(wire: &prost_types::Timestamp) -> u64 {
    let seconds = u64::try_from(wire.seconds).unwrap_or(0);
    seconds.saturating_mul(1_000).saturating_add(u64::try_from(wire.nanos / 1_000_000).unwrap_or(0))
}

/// What is left until `end`.
fn left(end: Timestamp, now: Timestamp) -> prost_types::Duration {
    duration_to_wire(end.since(now))
}
