//! One instance is kept out while the fleet goes on: as data, and in a sentence.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    classify::Cause,
    explain::{Numbers, Span},
    ids::{Generation, Instance},
    policy::Rule,
    tally::Reading,
    time::Timestamp,
};

/// One instance kept out while the fleet is CLOSED: what began, moved or ended it, and why. A change with a version,
/// but not a transition: no state and no generation change with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// Who.
    pub instance: Instance,
    /// What happened to it.
    pub event: QuarantineEvent,
    /// Why it is kept out.
    pub why: Held,
    /// The causes that the instance reported since its crossing began, most frequent first, at most five.
    pub top_causes: Vec<(Cause, u64)>,
    /// When this happened.
    pub at: Timestamp,
    /// Until when it is rejected; inclusive, as every deadline.
    pub until: Timestamp,
    /// The wait that was chosen.
    pub wait: Duration,
    /// How many there were in a row before this one: each is longer than the one before.
    pub before: u32,
    /// The stretch it belongs to; it ends with it.
    pub generation: Generation,
    /// Instances with a counted outcome in the window, or kept out themselves.
    pub active_instances: u32,
    /// Instances that a trip of the fleet would have needed.
    pub required_instances: u32,
    /// The policy in force.
    pub policy_name: Arc<str>,
    /// Its revision.
    pub policy_revision: u64,
}

/// What happened to a quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuarantineEvent {
    /// It began.
    Began,
    /// Its end moved.
    Extended,
    /// Its time is over: the instance is admitted again, and counts for the fleet once its own calls are well.
    Ended,
}

impl QuarantineEvent {
    /// Whether the instance is kept out after it.
    pub const fn is_held(self) -> bool {
        matches!(self, Self::Began | Self::Extended)
    }
}

/// Why one instance is kept out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Its own calls cross a rule.
    Crossed {
        /// The rule against the instance's own window.
        reading: Reading,
        /// How long that had lasted.
        lasted: Duration,
    },
    /// Its first calls after a quarantine cross a rule.
    Relapsed {
        /// The rule against those calls.
        reading: Reading,
    },
    /// The dependency asked it to wait.
    RetryAfter {
        /// For how long, up to the policy's cap.
        asked: Duration,
    },
}

impl Held {
    /// Whether it is for what the instance's calls came to, and not at the dependency's wish.
    pub const fn is_sick(self) -> bool {
        matches!(self, Self::Crossed { .. } | Self::Relapsed { .. })
    }

    /// A label for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Crossed { .. } => "crossed",
            Self::Relapsed { .. } => "relapsed",
            Self::RetryAfter { .. } => "retry_after",
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crossed { reading, lasted } => {
                write!(f, "its own {} for {}", Numbers(reading), Span(*lasted))
            }
            Self::Relapsed { reading } => {
                let Reading { rule, calls, matched, .. } = reading;
                let what = if matches!(rule, Rule::SlowRate { .. }) { "were slow" } else { "failed" };
                write!(f, "{matched} of its first {calls} calls after the last quarantine {what}")
            }
            Self::RetryAfter { asked } => write!(f, "the dependency asked it to wait {}", Span(*asked)),
        }
    }
}

impl fmt::Display for Quarantine {
    /// `checkout/pod-7 QUARANTINED for 5 s, the others go on: its own failure rate 100 % >= 50 % (25 of 25 in 10 s) for
    /// 1 s; 1 of 12 instances, 3 needed to open; policy x rev 7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wait, why) = (Span(self.wait), &self.why);
        match self.event {
            QuarantineEvent::Began => {
                write!(f, "{} QUARANTINED for {wait}, the others go on: {why}", self.instance)?;
            }
            QuarantineEvent::Extended => {
                write!(f, "{} QUARANTINED for {wait} from now on: {why}", self.instance)?;
            }
            QuarantineEvent::Ended => {
                write!(f, "{} admitted again after a quarantine of {wait} ({why})", self.instance)?;
            }
        }
        if self.event.is_held() && self.why.is_sick() {
            if let Some((cause, n)) = self.top_causes.first() {
                write!(f, ", top cause {cause} {n}")?;
            }
            let (active, required) = (self.active_instances, self.required_instances);
            write!(f, "; 1 of {active} instances, {required} needed to open")?;
            if self.before > 0 {
                write!(f, "; {} before in a row", self.before)?;
            }
        }
        write!(f, "; policy {} rev {}", self.policy_name, self.policy_revision)
    }
}
