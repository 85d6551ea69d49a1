//! The states of a breaker: each variant holds its own data.

use std::sync::Arc;

use crate::{
    half_open::HalfOpen,
    tally::{Reached, Reading, Tallies},
    time::Timestamp,
    transition::{Condition, Hand, OpenWait, OverrideKind, StateKind, WouldOpen},
};

#[derive(Clone, Debug)]
pub(crate) enum State {
    Closed(Closed),
    Open(Open),
    HalfOpen(HalfOpen),
    ForcedOpen(Forced),
    Disabled(Forced),
    MetricsOnly(MetricsOnly),
}

#[derive(Clone, Debug)]
pub(crate) struct Closed {
    pub(crate) tallies: Tallies,
    /// Whether admission is spread: the breaker has just come back, and more than one instance was known.
    pub(crate) recovering: bool,
    /// An entry was counted in a call that had made its one change already: the rules still have to look. It is the
    /// streak that the entry reached.
    pub(crate) unjudged: Option<Reached>,
    /// The latest instant that a dependency asked to wait for.
    pub(crate) retry_at: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) until: Timestamp,
    pub(crate) wait: OpenWait,
    /// The window that tripped it.
    pub(crate) readings: Vec<Reading>,
}

/// FORCED_OPEN or DISABLED.
#[derive(Clone, Debug)]
pub(crate) struct Forced {
    pub(crate) hand: Hand,
    pub(crate) until: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub(crate) struct MetricsOnly {
    pub(crate) hand: Hand,
    pub(crate) until: Option<Timestamp>,
    pub(crate) tallies: Tallies,
    /// As in [`Closed`].
    pub(crate) unjudged: Option<Reached>,
    /// What is crossed; without the override the breaker would be OPEN.
    pub(crate) would_open: Option<Arc<WouldOpen>>,
}

impl State {
    pub(crate) const fn condition(&self) -> Condition {
        match self {
            Self::Closed(_) => Condition { state: StateKind::Closed, over: None },
            Self::Open(_) => Condition { state: StateKind::Open, over: None },
            Self::HalfOpen(_) => Condition { state: StateKind::HalfOpen, over: None },
            Self::ForcedOpen(_) => Condition { state: StateKind::Open, over: Some(OverrideKind::ForcedOpen) },
            Self::Disabled(_) => Condition { state: StateKind::Closed, over: Some(OverrideKind::Disabled) },
            Self::MetricsOnly(_) => {
                Condition { state: StateKind::Closed, over: Some(OverrideKind::MetricsOnly) }
            }
        }
    }

    /// The tallies, where calls are counted.
    pub(crate) const fn tallies(&self) -> Option<&Tallies> {
        match self {
            Self::Closed(closed) => Some(&closed.tallies),
            Self::MetricsOnly(only) => Some(&only.tallies),
            Self::Open(_) | Self::HalfOpen(_) | Self::ForcedOpen(_) | Self::Disabled(_) => None,
        }
    }

    pub(crate) const fn tallies_mut(&mut self) -> Option<&mut Tallies> {
        match self {
            Self::Closed(closed) => Some(&mut closed.tallies),
            Self::MetricsOnly(only) => Some(&mut only.tallies),
            Self::Open(_) | Self::HalfOpen(_) | Self::ForcedOpen(_) | Self::Disabled(_) => None,
        }
    }

    /// When the state ends by itself, whatever anybody does; inclusive.
    pub(crate) const fn ends_at(&self) -> Option<Timestamp> {
        match self {
            Self::Open(open) => Some(open.until),
            Self::ForcedOpen(forced) | Self::Disabled(forced) => forced.until,
            Self::MetricsOnly(only) => only.until,
            Self::Closed(_) | Self::HalfOpen(_) => None,
        }
    }
}
