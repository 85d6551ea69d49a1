//! What survives a restart: states with what is left of their waits; never tallies, never probes.

use std::{sync::Arc, time::Duration};

use super::{Breaker, Settings};
use crate::{
    half_open::{HalfOpen, LEASE_GRACE},
    ids::Moment,
    members::KNOWN_FOR,
    policy::Policy,
    state::{Open, State},
    time::Timestamp,
    transition::{Hand, OpenWait, OverrideKind, Reason, Transition},
};

/// A breaker as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The state.
    pub state: StoredState,
    /// The transition that began it.
    pub last: Option<Arc<Transition>>,
}

/// A state as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredState {
    /// CLOSED.
    Closed,
    /// OPEN.
    Open {
        /// The wait that was given.
        wait: OpenWait,
        /// What is left of it; more than the wait counts as the wait.
        remaining: Duration,
    },
    /// HALF_OPEN. Comes back as OPEN for one probe deadline and a second: probes may still be running.
    HalfOpen {
        /// How often it reopened since it was last CLOSED.
        reopenings: u32,
    },
    /// Under an override.
    Overridden {
        /// Which.
        kind: OverrideKind,
        /// Whose.
        hand: Hand,
        /// What is left of it; none: until it is cleared.
        remaining: Option<Duration>,
    },
}

impl Breaker {
    /// What to store now.
    pub fn stored(&self, now: Timestamp) -> Stored {
        let now = self.seen.max(now);
        let overridden = |kind, hand: &Hand, until: Option<Timestamp>| StoredState::Overridden {
            kind,
            hand: hand.clone(),
            remaining: until.map(|until| until.since(now)),
        };
        let state = match &self.state {
            State::Closed(_) => StoredState::Closed,
            State::Open(open) => StoredState::Open { wait: open.wait, remaining: open.until.since(now) },
            State::HalfOpen(half_open) => StoredState::HalfOpen { reopenings: half_open.reopenings },
            State::ForcedOpen(forced) => overridden(OverrideKind::ForcedOpen, &forced.hand, forced.until),
            State::Disabled(forced) => overridden(OverrideKind::Disabled, &forced.hand, forced.until),
            State::MetricsOnly(only) => overridden(OverrideKind::MetricsOnly, &only.hand, only.until),
        };
        Stored { state, last: self.last.clone() }
    }

    /// A breaker as it was stored, in a new generation.
    pub fn restore(policy: Arc<Policy>, settings: Settings, stored: &Stored, at: Moment) -> Self {
        let mut breaker = Self::new(policy, settings, at);
        breaker.last.clone_from(&stored.last);
        // The first to come back is not alone for that: as many as there were are on their way.
        let (others, mut until) = (stored.last.as_ref().map_or(0, |last| last.active_instances), at.now);
        match &stored.state {
            StoredState::Closed => {}
            StoredState::Open { wait, remaining } => {
                until = at.now.plus((*remaining).min(wait.total));
                breaker.state = State::Open(Open { until, wait: *wait, readings: Vec::new() });
            }
            StoredState::HalfOpen { reopenings } => {
                let total = breaker.policy.spec().half_open.probe_timeout + LEASE_GRACE;
                let wait = OpenWait { total, reopenings: *reopenings, ..OpenWait::default() };
                // So that the transition tells where it comes from.
                breaker.state = State::HalfOpen(HalfOpen::new(&breaker.policy, *reopenings, at.now));
                breaker.open_for(wait, Vec::new(), Reason::Restored, at);
                until = at.now.plus(total);
            }
            StoredState::Overridden { kind, hand, remaining } => {
                let until = remaining.map(|span| at.now.plus(span));
                breaker.state = breaker.overridden(*kind, hand.clone(), until, at.now);
            }
        }
        breaker.members.presume(others, until.plus(KNOWN_FOR), at.now);
        breaker
    }
}
