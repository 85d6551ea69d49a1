//! What a breaker looks like to people: its state, and how the client knows.

use std::{fmt, sync::Arc, time::Duration};

use panelboard_core::{Condition, Generation, OverrideKind, StateKind};

/// How a client knows what it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Freshness {
    /// The server vouches for it now.
    Fresh,
    /// The server did so a moment ago: the stricter of its last answer and the local breaker decides.
    Stale,
    /// The server is away, or knows no such breaker: the local breaker decides.
    Local,
}

impl fmt::Display for Freshness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "FRESH",
            Self::Stale => "STALE",
            Self::Local => "LOCAL",
        })
    }
}

/// The state of a breaker, or the override above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Admitting; but for an instance whose turn after closing has not come yet, or that alone is kept out.
    Closed,
    /// Rejecting.
    Open,
    /// Probing.
    HalfOpen,
    /// Rejecting, by an operator's hand.
    ForcedOpen,
    /// Admitting and recording nothing, by an operator's hand.
    Disabled,
    /// Admitting whatever the rules say, by an operator's hand.
    MetricsOnly,
}

impl State {
    /// Whether it is CLOSED, DISABLED or METRICS_ONLY, so that nothing is known against the dependency.
    ///
    /// Not whether a call passes: just after it closed, a breaker admits one instance after the other, and one that
    /// keeps this instance alone out is CLOSED as well. Only a permit says that a call may be made.
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::Closed | Self::Disabled | Self::MetricsOnly)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "CLOSED",
            Self::Open => "OPEN",
            Self::HalfOpen => "HALF_OPEN",
            Self::ForcedOpen => "FORCED_OPEN",
            Self::Disabled => "DISABLED",
            Self::MetricsOnly => "METRICS_ONLY",
        })
    }
}

impl From<Condition> for State {
    fn from(condition: Condition) -> Self {
        match (condition.over, condition.state) {
            (Some(OverrideKind::ForcedOpen), _) => Self::ForcedOpen,
            (Some(OverrideKind::Disabled), _) => Self::Disabled,
            (Some(OverrideKind::MetricsOnly), _) => Self::MetricsOnly,
            (None, StateKind::Closed) => Self::Closed,
            (None, StateKind::Open) => Self::Open,
            (None, StateKind::HalfOpen) => Self::HalfOpen,
        }
    }
}

/// One breaker as its client sees it now. For people: programs ask for a permit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// The state that decides: the server's while FRESH, else the local breaker's.
    pub state: State,
    /// How the client knows.
    pub freshness: Freshness,
    /// Why the state is as it is, in one sentence; empty if it never changed.
    pub explanation: Arc<str>,
    /// When the state ends by itself, from now.
    pub ends_in: Option<Duration>,
    /// Set while the breaker is CLOSED again and this instance's turn has not come: when it does, from now. Until
    /// then calls are rejected as [`Reason::Recovering`](crate::Reason::Recovering).
    pub admitted_in: Option<Duration>,
    /// The server's stretch; none: the server never told of this breaker.
    pub generation: Option<Generation>,
    /// The policy in force here.
    pub policy: Arc<str>,
    /// Its revision.
    pub policy_revision: u64,
    /// Instances that used the breaker when the server last told.
    pub active_instances: u32,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.state)?;
        if let Some(span) = self.admitted_in {
            write!(f, ", recovering: this instance is admitted in {}", panelboard_core::Span(span))?;
        }
        if !self.explanation.is_empty() {
            write!(f, " ({})", self.explanation)?;
        }
        if let Some(span) = self.ends_in {
            write!(f, ", for another {}", panelboard_core::Span(span))?;
        }
        write!(f, " [{}]", self.freshness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_when_closed_does_not_mean_that_calls_pass() {
        let status = Status {
            state: State::Closed,
            freshness: Freshness::Fresh,
            explanation: "2 of 2 probes succeeded".into(),
            ends_in: None,
            admitted_in: Some(Duration::from_millis(1_124)),
            generation: None,
            policy: "quick".into(),
            policy_revision: 1,
            active_instances: 2,
        };
        let told = "CLOSED, recovering: this instance is admitted in 1.1 s (2 of 2 probes succeeded) [FRESH]";
        assert_eq!(status.to_string(), told);
        let admitted = Status { admitted_in: None, ..status };
        assert_eq!(admitted.to_string(), "CLOSED (2 of 2 probes succeeded) [FRESH]");
    }
}
