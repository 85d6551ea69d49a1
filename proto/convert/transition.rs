//! Transitions.

use panelboard_core::{OpenWait, OverrideKind, ProbeTally, Reason, Rule, StateKind, Transition, Why, Window};

use super::{duration_to_wire, wall_to_wire};
use crate::v1;

/// A state as a message.
pub const fn state_to_wire(state: StateKind) -> v1::State {
    match state {
        StateKind::Closed => v1::State::Closed,
        StateKind::Open => v1::State::Open,
        StateKind::HalfOpen => v1::State::HalfOpen,
    }
}

/// An override as a message.
pub const fn override_kind_to_wire(kind: Option<OverrideKind>) -> v1::OverrideKind {
    match kind {
        None => v1::OverrideKind::Unspecified,
        Some(OverrideKind::ForcedOpen) => v1::OverrideKind::ForcedOpen,
        Some(OverrideKind::Disabled) => v1::OverrideKind::Disabled,
        Some(OverrideKind::MetricsOnly) => v1::OverrideKind::MetricsOnly,
    }
}

/// A message as an override.
pub const fn override_kind_from_wire(wire: v1::OverrideKind) -> Option<OverrideKind> {
    match wire {
        v1::OverrideKind::Unspecified => None,
        v1::OverrideKind::ForcedOpen => Some(OverrideKind::ForcedOpen),
        v1::OverrideKind::Disabled => Some(OverrideKind::Disabled),
        v1::OverrideKind::MetricsOnly => Some(OverrideKind::MetricsOnly),
    }
}

/// A transition as a message. `unix_ms` is when it happened by the wall clock.
pub fn transition_to_wire(transition: &Transition, unix_ms: u64) -> v1::Transition {
    let (reason, crossing, probes) = reason_to_wire(&transition.reason);
    let hand = match &transition.reason {
        Reason::Operator { hand } | Reason::Reset { hand } | Reason::OverrideSet { hand, .. } => Some(hand),
        Reason::OverrideEnded { hand } => hand.as_ref(),
        _ => None,
    };
    let cause = |(cause, count): &(panelboard_core::Cause, u64)| v1::CauseCount {
        cause: cause.as_str().into(),
        count: *count,
    };
    v1::Transition {
        from: state_to_wire(transition.from.state).into(),
        to: state_to_wire(transition.to.state).into(),
        from_override: override_kind_to_wire(transition.from.over).into(),
        to_override: override_kind_to_wire(transition.to.over).into(),
        generation: Some(transition.generation.into()),
        time: Some(wall_to_wire(unix_ms)),
        reason: reason.into(),
        explanation: Why(transition).to_string(),
        crossing,
        probes,
        wait: transition.wait.map(wait_to_wire),
        previous_lasted: Some(duration_to_wire(transition.previous_lasted)),
        top_causes: transition.top_causes.iter().map(cause).collect(),
        active_instances: transition.active_instances,
        policy: transition.policy_name.to_string(),
        policy_revision: transition.policy_revision,
        who: hand.map(|hand| hand.who.to_string()).unwrap_or_default(),
        why: hand.map(|hand| hand.why.to_string()).unwrap_or_default(),
    }
}

fn reason_to_wire(
    reason: &Reason,
) -> (v1::TransitionReason, Option<v1::RuleCrossing>, Option<v1::ProbeTally>) {
    use v1::TransitionReason as Wire;
    match reason {
        Reason::RuleCrossed { crossing } => {
            let reading = crossing.reading;
            let wire = v1::RuleCrossing {
                rule: reading.rule.to_string(),
                measure: reading.rule.measure().into(),
                calls: reading.calls,
                matched: reading.matched,
                threshold: reading.rule.threshold().into(),
                minimum_calls: reading.rule.minimum_calls().into(),
                within: within(&reading.rule),
                last: match reading.rule.window() {
                    Some(Window::Last(size)) => size,
                    Some(Window::Within(_)) | None => 0,
                },
                affected_instances: crossing.affected,
            };
            (Wire::RuleCrossed, Some(wire), None)
        }
        Reason::RetryAfter { .. } => (Wire::RetryAfter, None, None),
        Reason::WaitOver { .. } => (Wire::WaitOver, None, None),
        Reason::ProbesFailed { probes, .. } => (Wire::ProbesFailed, None, Some(probes_to_wire(probes))),
        Reason::ProbesSlow { probes, .. } => (Wire::ProbesSlow, None, Some(probes_to_wire(probes))),
        Reason::ProbesSucceeded { probes, .. } => (Wire::ProbesSucceeded, None, Some(probes_to_wire(probes))),
        Reason::HalfOpenLimit { probes, .. } => (Wire::HalfOpenLimit, None, Some(probes_to_wire(probes))),
        Reason::Operator { .. } | Reason::Reset { .. } => (Wire::Operator, None, None),
        Reason::OverrideSet { .. } => (Wire::OverrideSet, None, None),
        Reason::OverrideEnded { .. } => (Wire::OverrideEnded, None, None),
        Reason::Restored => (Wire::Restored, None, None),
    }
}

fn within(rule: &Rule) -> Option<prost_types::Duration> {
    match rule.window() {
        Some(Window::Within(span)) => Some(duration_to_wire(span)),
        Some(Window::Last(_)) | None => None,
    }
}

const fn probes_to_wire(probes: &ProbeTally) -> v1::ProbeTally {
    v1::ProbeTally {
        permitted: probes.permitted,
        succeeded: probes.succeeded,
        failed: probes.failed,
        slow: probes.slow,
        expired: probes.expired,
    }
}

/// An open wait as a message.
pub(super) fn wait_to_wire(wait: OpenWait) -> v1::OpenWait {
    v1::OpenWait {
        wait: Some(duration_to_wire(wait.total)),
        reopenings: wait.reopenings,
        jitter: Some(duration_to_wire(wait.jitter)),
        retry_after: wait.retry_after.map(duration_to_wire),
    }
}
