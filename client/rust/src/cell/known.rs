//! What the server last said of a breaker, in this client's time.

use std::{sync::Arc, time::Duration};

use panelboard_core::{
    Admission, Condition, Generation, Hand, OverrideKind, Policy, StateKind, StoredState, Timestamp, Version,
};

use crate::{dice::Dice, limits::INHERITED_MAX, local::inherited_open};

/// A status, with ticks and durations turned into this client's time.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) admission: Admission,
    pub(crate) state: StateKind,
    pub(crate) over: Option<Over>,
    pub(crate) generation: Generation,
    pub(crate) version: Version,
    /// When the state ends by itself.
    pub(crate) deadline: Option<Timestamp>,
    /// The spread after closing: how long it is, and since when.
    pub(crate) recovery: Option<(Duration, Timestamp)>,
    pub(crate) quarantine: Option<Quarantine>,
    pub(crate) active_instances: u32,
    pub(crate) ask_within: Duration,
    /// Why it is as it is, short.
    pub(crate) explanation: Arc<str>,
    /// How often it reopened since it was last CLOSED.
    pub(crate) reopenings: u32,
    /// Absent: the one known before.
    pub(crate) policy: Option<Arc<Policy>>,
}

/// An operator's hand on the breaker.
#[derive(Clone, Debug)]
pub(crate) struct Over {
    pub(crate) kind: OverrideKind,
    pub(crate) hand: Hand,
    /// The hand, for people.
    pub(crate) sentence: Arc<str>,
    pub(crate) until: Option<Timestamp>,
}

/// This instance alone is kept out.
#[derive(Clone, Debug)]
pub(crate) struct Quarantine {
    pub(crate) until: Option<Timestamp>,
    pub(crate) explanation: Arc<str>,
}

impl Known {
    pub(crate) fn condition(&self) -> Condition {
        Condition { state: self.state, over: self.over.as_ref().map(|over| over.kind) }
    }

    /// What the local breaker goes on from; none: from CLOSED with what it has tallied.
    pub(crate) fn inheritance(&self, dice: &mut Dice, now: Timestamp) -> Option<StoredState> {
        if let Some(over) = &self.over {
            let held = INHERITED_MAX;
            let remaining = over.until.map_or(held, |until| until.since(now).min(held));
            return Some(StoredState::Overridden {
                kind: over.kind,
                hand: over.hand.clone(),
                remaining: Some(remaining),
            });
        }
        match self.state {
            StateKind::Closed => None,
            StateKind::Open => {
                let remaining = self.deadline.map_or(Duration::ZERO, |deadline| deadline.since(now));
                let remaining = remaining.min(INHERITED_MAX);
                // Half a second spreads a fleet whose wait is short, a tenth of the wait one whose wait is long.
                let jitter = dice.up_to((remaining / 10).max(Duration::from_millis(500)));
                Some(inherited_open(remaining, jitter, self.reopenings))
            }
            StateKind::HalfOpen => Some(StoredState::HalfOpen { reopenings: self.reopenings }),
        }
    }
}
