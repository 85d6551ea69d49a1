//! An operator's hand on a breaker.

use std::{fmt, time::Duration};

use super::Breaker;
use crate::{
    ids::Moment,
    state::{Forced, MetricsOnly, State},
    tally::Tallies,
    time::Timestamp,
    transition::{Change, Hand, OpenWait, OverrideKind, Reason},
};

/// Where an operator can move a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// CLOSED.
    Closed,
    /// OPEN, for so long; none: as long as the policy says.
    Open {
        /// For how long.
        wait: Option<Duration>,
    },
    /// HALF_OPEN.
    HalfOpen,
}

/// Where a breaker goes when its override is cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideEnd {
    /// FORCED_OPEN to HALF_OPEN, the others to CLOSED.
    Careful,
    /// CLOSED at once.
    Closed,
}

/// Why an operator's command was refused. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An override is on the breaker: clear it first.
    UnderOverride(OverrideKind),
    /// There is no override to clear.
    NoOverride,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnderOverride(kind) => write!(f, "the breaker is under {kind:?}: clear the override first"),
            Self::NoOverride => f.write_str("the breaker has no override to clear"),
        }
    }
}

impl std::error::Error for Refusal {}

impl Breaker {
    /// Moves the breaker. Moving it to where it is changes nothing, but opening an open one sets its wait anew.
    ///
    /// # Errors
    /// [`Refusal::UnderOverride`] while an override is on it.
    pub fn transition_to(&mut self, to: Target, hand: Hand, at: Moment) -> Result<Option<Change>, Refusal> {
        let at = Moment { now: self.see(at.now), ..at };
        // One that has reached its end stands no longer in the way, although no tick has come yet.
        let has_ended = self.state.ends_at().is_some_and(|end| at.now >= end);
        if let Some(kind) = self.state.condition().over.filter(|_| !has_ended) {
            return Err(Refusal::UnderOverride(kind));
        }
        let reason = Reason::Operator { hand };
        let change = match (to, &mut self.state) {
            (Target::Closed, State::Closed(_)) | (Target::HalfOpen, State::HalfOpen(_)) => None,
            (Target::Closed, _) => Some(self.close(reason, at)),
            (Target::HalfOpen, State::Open(open)) => {
                let reopenings = open.wait.reopenings;
                Some(self.half_open(reopenings, reason, at))
            }
            (Target::HalfOpen, _) => Some(self.half_open(0, reason, at)),
            (Target::Open { wait }, _) => {
                let wait = self.operator_wait(wait, at);
                match &mut self.state {
                    State::Open(open) => {
                        (open.until, open.wait) = (at.now.plus(wait.total), wait);
                        let until = open.until;
                        self.version = at.next;
                        Some(Change::Extended { until })
                    }
                    _ => Some(self.open_for(wait, Vec::new(), reason, at)),
                }
            }
        };
        Ok(self.finish(change, at))
    }

    /// CLOSED with empty tallies, whatever it was; an override ends.
    pub fn reset(&mut self, hand: Hand, at: Moment) -> Change {
        let at = Moment { now: self.see(at.now), ..at };
        self.close(Reason::Reset { hand }, at)
    }

    /// Puts an override on the breaker, for so long or until it is cleared. It replaces the one that is there.
    pub fn set_override(
        &mut self,
        kind: OverrideKind,
        hand: Hand,
        lasting: Option<Duration>,
        at: Moment,
    ) -> Change {
        let at = Moment { now: self.see(at.now), ..at };
        let until = lasting.map(|span| at.now.plus(span));
        let reason = Reason::OverrideSet { hand: hand.clone(), until: lasting };
        let state = self.overridden(kind, hand, until, at.now);
        self.enter(state, reason, at)
    }

    /// Takes the override off.
    ///
    /// # Errors
    /// [`Refusal::NoOverride`] if there is none.
    pub fn clear_override(&mut self, end: OverrideEnd, hand: Hand, at: Moment) -> Result<Change, Refusal> {
        let at = Moment { now: self.see(at.now), ..at };
        let reason = Reason::OverrideEnded { hand: Some(hand) };
        match (&self.state, end) {
            (State::Closed(_) | State::Open(_) | State::HalfOpen(_), _) => Err(Refusal::NoOverride),
            (State::ForcedOpen(_), OverrideEnd::Careful) => Ok(self.half_open(0, reason, at)),
            (State::ForcedOpen(_) | State::Disabled(_) | State::MetricsOnly(_), _) => {
                Ok(self.close(reason, at))
            }
        }
    }

    pub(super) fn overridden(
        &self,
        kind: OverrideKind,
        hand: Hand,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> State {
        match kind {
            OverrideKind::ForcedOpen => State::ForcedOpen(Forced { hand, until }),
            OverrideKind::Disabled => State::Disabled(Forced { hand, until }),
            OverrideKind::MetricsOnly => {
                let tallies = Tallies::new(&self.policy, false, now);
                State::MetricsOnly(MetricsOnly { hand, until, tallies, unjudged: None, would_open: None })
            }
        }
    }

    fn operator_wait(&self, wait: Option<Duration>, at: Moment) -> OpenWait {
        let reopenings = match &self.state {
            State::Open(open) => open.wait.reopenings,
            State::HalfOpen(half_open) => half_open.reopenings,
            _ => 0,
        };
        match wait {
            Some(total) => OpenWait { total, reopenings, ..OpenWait::default() },
            None => self.open_wait(reopenings, None, at),
        }
    }
}
