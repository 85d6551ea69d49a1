//! What changed and why, as data.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    classify::Cause,
    half_open::ProbeTally,
    ids::{Generation, Instance},
    quarantine::Quarantine,
    tally::Reading,
    time::Timestamp,
};

/// CLOSED, OPEN or HALF_OPEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateKind {
    /// Admitting.
    Closed,
    /// Rejecting.
    Open,
    /// Probing.
    HalfOpen,
}

/// What an operator's hand does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverrideKind {
    /// Rejects everything until it ends.
    ForcedOpen,
    /// Everything passes, nothing is recorded.
    Disabled,
    /// Everything passes, the rules run, and what they would have done is recorded.
    MetricsOnly,
}

/// A state together with the override that stands above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    /// The state: OPEN under FORCED_OPEN, CLOSED under the other overrides.
    pub state: StateKind,
    /// The override, if there is one.
    pub over: Option<OverrideKind>,
}

impl Condition {
    /// The override's name, else the state's.
    pub const fn as_str(self) -> &'static str {
        match (self.over, self.state) {
            (Some(OverrideKind::ForcedOpen), _) => "FORCED_OPEN",
            (Some(OverrideKind::Disabled), _) => "DISABLED",
            (Some(OverrideKind::MetricsOnly), _) => "METRICS_ONLY",
            (None, StateKind::Closed) => "CLOSED",
            (None, StateKind::Open) => "OPEN",
            (None, StateKind::HalfOpen) => "HALF_OPEN",
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A person's hand: who and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hand {
    /// Who.
    pub who: Arc<str>,
    /// Why, as that person said it.
    pub why: Arc<str>,
}

impl fmt::Display for Hand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.who, self.why)
    }
}

/// One change of state. Returned by the call that made it; the shell publishes and persists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Before.
    pub from: Condition,
    /// After.
    pub to: Condition,
    /// The generation that it began.
    pub generation: Generation,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: Reason,
    /// How long the stretch before had lasted.
    pub previous_lasted: Duration,
    /// The wait that was chosen, for transitions to OPEN that end by themselves.
    pub wait: Option<OpenWait>,
    /// The causes in the window, most frequent first.
    pub top_causes: Vec<(Cause, u64)>,
    /// Instances with a counted outcome in the window.
    pub active_instances: u32,
    /// The policy in force.
    pub policy_name: Arc<str>,
    /// Its revision.
    pub policy_revision: u64,
}

/// Why a transition happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A trip rule was crossed.
    RuleCrossed {
        /// Which, and by what numbers.
        crossing: Crossing,
    },
    /// The open wait was over.
    WaitOver {
        /// How long it was.
        waited: Duration,
    },
    /// Too many probes failed.
    ProbesFailed {
        /// What the probes came to.
        probes: ProbeTally,
        /// Failures that reopen.
        needed: u32,
    },
    /// Too many probes were slow.
    ProbesSlow {
        /// What the probes came to.
        probes: ProbeTally,
        /// Slow probes that reopen.
        needed: u32,
    },
    /// The dependency asked enough instances to wait.
    RetryAfter {
        /// Instances that were asked to wait.
        asked: u32,
        /// Instances that had to be.
        required: u32,
        /// The longest wait that was asked for, up to the policy's cap.
        longest: Duration,
    },
    /// Enough probes succeeded.
    ProbesSucceeded {
        /// What the probes came to.
        probes: ProbeTally,
        /// Successes that close.
        needed: u32,
    },
    /// The half-open limit was reached.
    HalfOpenLimit {
        /// What the probes came to.
        probes: ProbeTally,
        /// The limit.
        limit: Duration,
    },
    /// An operator moved it.
    Operator {
        /// Who and why.
        hand: Hand,
    },
    /// An operator reset it: CLOSED with empty tallies.
    Reset {
        /// Who and why.
        hand: Hand,
    },
    /// An operator set an override.
    OverrideSet {
        /// Who and why.
        hand: Hand,
        /// For how long; none: until it is cleared.
        until: Option<Duration>,
    },
    /// An override ended.
    OverrideEnded {
        /// Who ended it and why; none: it reached its end.
        hand: Option<Hand>,
    },
    /// It was HALF_OPEN when the server stopped.
    Restored,
}

impl Reason {
    /// A label for metrics: the rule's measure for trips, else the reason's own word.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::RuleCrossed { crossing } => crossing.reading.rule.measure(),
            Self::WaitOver { .. } => "wait_over",
            Self::ProbesFailed { .. } => "probes_failed",
            Self::ProbesSlow { .. } => "probes_slow",
            Self::RetryAfter { .. } => "retry_after",
            Self::ProbesSucceeded { .. } => "probes_succeeded",
            Self::HalfOpenLimit { .. } => "half_open_limit",
            Self::Operator { .. } => "operator",
            Self::Reset { .. } => "reset",
            Self::OverrideSet { .. } => "override_set",
            Self::OverrideEnded { .. } => "override_ended",
            Self::Restored => "restored",
        }
    }
}

/// The numbers of a rule that was crossed, and who crossed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The rule against the window, over all instances.
    pub reading: Reading,
    /// Instances that saw what the rule looks at: a failure, a slow call, or a streak of that length.
    pub affected: u32,
    /// Instances that had to agree.
    pub required: u32,
    /// How they did.
    pub by: TripBy,
    /// The first of the instances that saw it, at most five, by how much: failures, slow calls, or the streak's length.
    pub worst: Vec<(Instance, u64)>,
}

/// How a quorum of instances crossed a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripBy {
    /// The rule is crossed without the worst instances, too.
    Calls {
        /// Instances that were left out: one fewer than required, or all that there are.
        left_out: u32,
        /// Counted calls of the others.
        calls: u64,
        /// Of those, the ones the rule looks at.
        matched: u64,
    },
    /// So many instances are in a streak that is long enough.
    Streaks {
        /// How many.
        instances: u32,
    },
    /// At least half of the instances cross the rule, each with its own calls, or are quarantined.
    Votes {
        /// How many.
        votes: u32,
    },
}

impl TripBy {
    /// "calls" or "votes".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Calls { .. } | Self::Streaks { .. } => "calls",
            Self::Votes { .. } => "votes",
        }
    }
}

/// Under METRICS_ONLY: a rule is crossed, and without the override the breaker would be OPEN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WouldOpen {
    /// Since when.
    pub at: Timestamp,
    /// The rule and its numbers.
    pub crossing: Crossing,
    /// The causes in the window, most frequent first.
    pub top_causes: Vec<(Cause, u64)>,
    /// Instances with a counted outcome in the window.
    pub active_instances: u32,
    /// How long it would have been OPEN, without jitter.
    pub wait: Duration,
    /// The policy in force.
    pub policy_name: Arc<str>,
    /// Its revision.
    pub policy_revision: u64,
}

/// How long OPEN lasts and why that long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenWait {
    /// The wait.
    pub total: Duration,
    /// How often it reopened since it was last CLOSED.
    pub reopenings: u32,
    /// The part that is jitter.
    pub jitter: Duration,
    /// The dependency's retry-after, where it lengthened the wait.
    pub retry_after: Option<Duration>,
}

/// What a call changed. Each is published with the breaker's new version; transitions, extensions and nothing else
/// are persisted. A quarantine concerns its instance alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The state changed: a new generation began.
    Transition(Arc<Transition>),
    /// The deadline of the same stretch moved.
    Extended {
        /// Where it is now.
        until: Timestamp,
    },
    /// HALF_OPEN leased its last probe, or got one back.
    Availability,
    /// Under METRICS_ONLY: a rule is crossed, or is not any more.
    WouldOpen {
        /// What would have opened it; none: nothing does any more.
        would: Option<Arc<WouldOpen>>,
    },
    /// One instance is kept out while the fleet goes on, or is not any more.
    Quarantine(Arc<Quarantine>),
    /// Another policy is in force.
    Policy,
}
