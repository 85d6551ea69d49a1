//! What the hot path may know: whether calls pass or are turned away without a closer look, and for how long that
//! holds if nothing is heard.

use std::sync::Arc;

use panelboard_core::{Admission, OnDisconnect, OverrideKind, StateKind, Timestamp};

use super::{Cell, Known, is_disabled};
use crate::{rejected::Reason, state::Freshness};

/// What is known of a breaker for all calls alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// It depends on the call, or on the time.
    Closer,
    /// Calls pass.
    Open {
        /// Their outcomes are recorded.
        counted: bool,
    },
    /// Calls are turned away.
    Shut { reason: Reason, until: Option<Timestamp>, explanation: Arc<str> },
}

impl Cell {
    /// The door, and when to look at it again at the latest.
    pub(crate) fn door(&self, now: Timestamp) -> (Door, Option<Timestamp>) {
        let turn = self.turns_at();
        if turn.is_some_and(|turn| now >= turn) {
            return (Door::Closer, None);
        }
        if let Some(admitted) = self.recovering_until().filter(|admitted| now < *admitted) {
            return (Door::Closer, Some(turn.map_or(admitted, |turn| turn.min(admitted))));
        }
        let door = match (self.freshness, &self.known) {
            (Freshness::Fresh, Some(known)) => self.door_of(known, now),
            (Freshness::Fresh, None) => Door::Closer,
            (Freshness::Stale | Freshness::Local, _) => self.door_of_local(now),
        };
        let until = match &door {
            Door::Shut { until, .. } => *until,
            Door::Open { .. } | Door::Closer => None,
        };
        // What is over is not told for a moment longer.
        let door = if until.is_some_and(|until| now >= until) { Door::Closer } else { door };
        (door, [turn, until].into_iter().flatten().min())
    }

    fn door_of(&self, known: &Known, now: Timestamp) -> Door {
        let shut = |reason, until, explanation: &Arc<str>| Door::Shut {
            reason,
            until,
            explanation: Arc::clone(explanation),
        };
        if let Some(quarantine) = self.quarantined(now) {
            return shut(Reason::Quarantined, quarantine.until, &quarantine.explanation);
        }
        match (known.admission, &known.over, known.state) {
            (Admission::Allow, _, _) => Door::Open { counted: !is_disabled(known) },
            (Admission::Reject, Some(over), _) => shut(Reason::ForcedOpen, over.until, &over.sentence),
            (Admission::Reject, None, StateKind::Open) => {
                shut(Reason::Open, known.deadline, &known.explanation)
            }
            (Admission::Reject, None, _) | (Admission::Probe, _, _) => Door::Closer,
        }
    }

    fn door_of_local(&self, now: Timestamp) -> Door {
        if self.quarantined_while_stale(now).is_some() {
            return Door::Closer;
        }
        let condition = self.local.condition();
        if self.freshness == Freshness::Local && condition.over.is_none() {
            match self.on_disconnect() {
                OnDisconnect::Local => {}
                OnDisconnect::Allow => return Door::Open { counted: true },
                OnDisconnect::Deny => {
                    return Door::Shut { reason: Reason::Disconnected, until: None, explanation: "".into() };
                }
            }
        }
        match (condition.over, condition.state) {
            (Some(OverrideKind::ForcedOpen), _) => Door::Shut {
                reason: Reason::ForcedOpen,
                until: self.local.deadline(),
                explanation: self.forced_by(),
            },
            (Some(OverrideKind::Disabled), _) => Door::Open { counted: false },
            (Some(OverrideKind::MetricsOnly), _) => Door::Open { counted: true },
            (None, StateKind::Closed) => match self.local.held(now) {
                Some((until, explanation)) => {
                    Door::Shut { reason: Reason::Quarantined, until: Some(until), explanation }
                }
                None => Door::Open { counted: true },
            },
            (None, StateKind::Open) => Door::Shut {
                reason: Reason::Open,
                until: self.local.deadline(),
                explanation: self.explanation(now),
            },
            (None, StateKind::HalfOpen) => Door::Closer,
        }
    }
}
