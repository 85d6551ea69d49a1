//! Transitions.

use std::time::Duration;

use panelboard_core::{Hand, OpenWait, OverrideKind, ProbeTally, Reason, StateKind, Transition, Why};

use super::{
    crossing::{causes_to_wire, crossing_to_wire},
    duration_to_wire, wall_to_wire,
};
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
    let wire = v1::Transition {
        from: state_to_wire(transition.from.state).into(),
        to: state_to_wire(transition.to.state).into(),
        from_override: override_kind_to_wire(transition.from.over).into(),
        to_override: override_kind_to_wire(transition.to.over).into(),
        generation: Some(transition.generation.into()),
        time: Some(wall_to_wire(unix_ms)),
        explanation: Why(transition).to_string(),
        wait: transition.wait.map(wait_to_wire),
        previous_lasted: Some(duration_to_wire(transition.previous_lasted)),
        top_causes: causes_to_wire(&transition.top_causes),
        active_instances: transition.active_instances,
        policy: transition.policy_name.to_string(),
        policy_revision: transition.policy_revision,
        ..v1::Transition::default()
    };
    with_reason(&transition.reason, wire)
}

/// A transition with its reason, as a word and as data.
fn with_reason(reason: &Reason, wire: v1::Transition) -> v1::Transition {
    use v1::TransitionReason as Word;
    let word = |word: Word, wire: v1::Transition| v1::Transition { reason: word.into(), ..wire };
    let probes = |word: Word, probes: &ProbeTally, needed: u32, limit: Option<Duration>| v1::Transition {
        reason: word.into(),
        probes: Some(probes_to_wire(probes, needed, limit)),
        ..wire.clone()
    };
    match reason {
        Reason::RuleCrossed { crossing } => {
            v1::Transition { crossing: Some(crossing_to_wire(crossing)), ..word(Word::RuleCrossed, wire) }
        }
        Reason::RetryAfter { asked, required, longest } => v1::Transition {
            asked_to_wait: Some(v1::AskedToWait {
                asked_instances: *asked,
                required_instances: *required,
                longest: Some(duration_to_wire(*longest)),
            }),
            ..word(Word::RetryAfter, wire)
        },
        Reason::WaitOver { .. } => word(Word::WaitOver, wire),
        Reason::ProbesFailed { probes: tally, needed } => probes(Word::ProbesFailed, tally, *needed, None),
        Reason::ProbesSlow { probes: tally, needed } => probes(Word::ProbesSlow, tally, *needed, None),
        Reason::ProbesSucceeded { probes: tally, needed } => {
            probes(Word::ProbesSucceeded, tally, *needed, None)
        }
        Reason::HalfOpenLimit { probes: tally, limit } => probes(Word::HalfOpenLimit, tally, 0, Some(*limit)),
        Reason::Operator { hand } | Reason::Reset { hand } => with_hand(hand, word(Word::Operator, wire)),
        Reason::OverrideSet { hand, until } => v1::Transition {
            set_for: until.map(duration_to_wire),
            ..with_hand(hand, word(Word::OverrideSet, wire))
        },
        Reason::OverrideEnded { hand: Some(hand) } => with_hand(hand, word(Word::OverrideEnded, wire)),
        Reason::OverrideEnded { hand: None } => word(Word::OverrideEnded, wire),
        Reason::Restored => word(Word::Restored, wire),
    }
}

fn with_hand(hand: &Hand, wire: v1::Transition) -> v1::Transition {
    v1::Transition { who: hand.who.to_string(), why: hand.why.to_string(), ..wire }
}

fn probes_to_wire(probes: &ProbeTally, needed: u32, limit: Option<Duration>) -> v1::ProbeTally {
    v1::ProbeTally {
        permitted: probes.permitted,
        succeeded: probes.succeeded,
        failed: probes.failed,
        slow: probes.slow,
        expired: probes.expired,
        overdue: probes.overdue,
        needed,
        limit: limit.map(duration_to_wire),
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
