//! Statuses and decisions.

use panelboard_core::{Admission, Decision, Reading, Rejection, RejectionReason, Span, Status, Timestamp};

use super::{duration_to_wire, left, policy_to_wire, transition::*};
use crate::v1;

/// How points in time are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// As ticks of the server's clock, so that one encoded message serves every stream.
    Ticks,
    /// As time left from now, for unary answers.
    LeftFrom(Timestamp),
}

impl Times {
    pub(super) fn tick(self, at: Timestamp) -> Option<u64> {
        matches!(self, Self::Ticks).then(|| at.as_millis())
    }

    pub(super) fn left(self, until: Timestamp) -> Option<prost_types::Duration> {
        match self {
            Self::Ticks => None,
            Self::LeftFrom(now) => Some(left(until, now)),
        }
    }
}

/// A status as a message. `last` is its last transition, with the policy or without. A quarantine concerns one
/// instance, and what would have opened it people who look: neither is set here.
pub fn status_to_wire(
    name: &str,
    status: &Status,
    last: Option<v1::Transition>,
    with_policy: bool,
    times: Times,
) -> v1::BreakerStatus {
    v1::BreakerStatus {
        name: name.into(),
        admission: match status.admission {
            Admission::Allow => v1::Admission::Allow,
            Admission::Reject => v1::Admission::Reject,
            Admission::Probe => v1::Admission::Probe,
        }
        .into(),
        state: state_to_wire(status.state).into(),
        r#override: status.over.as_ref().map(|over| v1::Override {
            kind: override_kind_to_wire(Some(over.kind)).into(),
            who: over.hand.who.to_string(),
            why: over.hand.why.to_string(),
            until_tick: over.until.and_then(|until| times.tick(until)),
            remaining: over.until.and_then(|until| times.left(until)),
            would_open: over.would_open.is_some(),
            would: None,
        }),
        generation: Some(status.generation.into()),
        version: Some(status.version.into()),
        deadline_tick: status.deadline.and_then(|deadline| times.tick(deadline)),
        remaining: status.deadline.and_then(|deadline| times.left(deadline)),
        active_instances: status.active_instances,
        ask_within: (!status.ask_within.is_zero()).then(|| duration_to_wire(status.ask_within)),
        last_transition: last,
        recovery: status.recovery.map(|recovery| v1::Recovery {
            spread: Some(duration_to_wire(recovery.spread)),
            since_tick: times.tick(recovery.since),
            elapsed: match times {
                Times::Ticks => None,
                Times::LeftFrom(now) => Some(left(now, recovery.since)),
            },
        }),
        quarantine: None,
        policy_revision: status.policy.revision(),
        policy: with_policy.then(|| policy_to_wire(&status.policy)),
    }
}

/// What a thin client may do. A value that is not known is treated as "allow".
pub fn admission_from_wire(wire: i32) -> Admission {
    match v1::Admission::try_from(wire) {
        Ok(v1::Admission::Reject) => Admission::Reject,
        Ok(v1::Admission::Probe) => Admission::Probe,
        Ok(v1::Admission::Unspecified | v1::Admission::Allow) | Err(_) => Admission::Allow,
    }
}

/// A decision as a message, with a sentence for people where it is a rejection. `why` explains the state.
pub fn decision_to_wire(name: &str, decision: &Decision, why: &str) -> v1::acquire_response::Decision {
    match decision {
        Decision::Granted(grant) => v1::acquire_response::Decision::Grant(v1::Grant {
            generation: Some(grant.generation.into()),
            ttl: Some(duration_to_wire(grant.ttl)),
            probe: grant.probe.map(|id| v1::Probe { id: id.0, timeout: Some(duration_to_wire(grant.ttl)) }),
        }),
        Decision::Rejected(Rejection { reason, retry_after }) => {
            let retry = match retry_after {
                Some(span) => format!(", retry in {}", Span(*span)),
                None => ", until an operator clears it".into(),
            };
            let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
            v1::acquire_response::Decision::Rejection(v1::Rejection {
                reason: reason_to_wire(*reason).into(),
                retry_after: retry_after.map(duration_to_wire),
                message: format!("circuit breaker \"{name}\" is {}{why}{retry}", reason.as_str()),
            })
        }
    }
}

const fn reason_to_wire(reason: RejectionReason) -> v1::RejectionReason {
    match reason {
        RejectionReason::Open => v1::RejectionReason::Open,
        RejectionReason::ProbesTaken => v1::RejectionReason::ProbesTaken,
        RejectionReason::ForcedOpen => v1::RejectionReason::ForcedOpen,
        RejectionReason::Quarantined => v1::RejectionReason::Quarantined,
        RejectionReason::Recovering => v1::RejectionReason::Recovering,
    }
}

/// A rule against its window, as a message.
pub fn reading_to_wire(reading: &Reading) -> v1::RuleReading {
    v1::RuleReading {
        rule: reading.rule.to_string(),
        calls: reading.calls,
        matched: reading.matched,
        minimum_calls: reading.rule.minimum_calls().into(),
        crossed: reading.crossed,
    }
}
