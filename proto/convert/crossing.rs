//! The numbers behind a rule that was crossed.

use panelboard_core::{Cause, Crossing, Instance, Reading, TripBy, Window, WouldOpen};

use super::{duration_to_wire, wall_to_wire};
use crate::v1;

/// A rule that was crossed by the fleet, as a message.
pub(super) fn crossing_to_wire(crossing: &Crossing) -> v1::RuleCrossing {
    let wire = v1::RuleCrossing {
        affected_instances: crossing.affected,
        required_instances: crossing.required,
        top_instances: crossing.worst.iter().map(instance_to_wire).collect(),
        ..reading_to_crossing(&crossing.reading)
    };
    match crossing.by {
        TripBy::Calls { left_out, calls, matched } => v1::RuleCrossing {
            by: v1::TripBy::Calls.into(),
            left_out_instances: left_out,
            other_calls: calls,
            other_matched: matched,
            ..wire
        },
        TripBy::Streaks { instances } => {
            v1::RuleCrossing { by: v1::TripBy::Streaks.into(), agreeing_instances: instances, ..wire }
        }
        TripBy::Votes { votes } => {
            v1::RuleCrossing { by: v1::TripBy::Votes.into(), agreeing_instances: votes, ..wire }
        }
    }
}

/// A rule that was crossed, with its numbers and without who crossed it.
pub(super) fn reading_to_crossing(reading: &Reading) -> v1::RuleCrossing {
    let rule = &reading.rule;
    let (within, last) = match rule.window() {
        Some(Window::Within(span)) => (Some(duration_to_wire(span)), 0),
        Some(Window::Last(size)) => (None, size),
        None => (None, 0),
    };
    v1::RuleCrossing {
        rule: rule.to_string(),
        measure: rule.measure().into(),
        calls: reading.calls,
        matched: reading.matched,
        threshold: rule.threshold().into(),
        minimum_calls: rule.minimum_calls().into(),
        within,
        last,
        ..v1::RuleCrossing::default()
    }
}

pub(super) fn causes_to_wire(causes: &[(Cause, u64)]) -> Vec<v1::CauseCount> {
    let cause =
        |(cause, count): &(Cause, u64)| v1::CauseCount { cause: cause.as_str().into(), count: *count };
    causes.iter().map(cause).collect()
}

/// What METRICS_ONLY kept from happening, as a message. `unix_ms` is when it was crossed by the wall clock.
pub fn would_open_to_wire(would: &WouldOpen, unix_ms: u64) -> v1::WouldOpen {
    v1::WouldOpen {
        time: Some(wall_to_wire(unix_ms)),
        explanation: would.to_string(),
        crossing: Some(crossing_to_wire(&would.crossing)),
        top_causes: causes_to_wire(&would.top_causes),
        active_instances: would.active_instances,
        wait: Some(duration_to_wire(would.wait)),
        policy: would.policy_name.to_string(),
        policy_revision: would.policy_revision,
    }
}

fn instance_to_wire((instance, count): &(Instance, u64)) -> v1::InstanceCount {
    v1::InstanceCount {
        service: instance.service.to_string(),
        instance: instance.id.to_string(),
        count: *count,
    }
}
