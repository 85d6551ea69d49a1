//! The answer to "may I call?". A refusal is an answer, not an error, and says when to ask again.

use std::time::Duration;

use crate::ids::{Generation, ProbeId};

/// Whether a call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Granted(Grant),
    /// It may not.
    Rejected(Rejection),
}

/// Leave to make calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The generation that reports of these calls must name.
    pub generation: Generation,
    /// How long it may be used without asking again; for a probe, how long the call may run.
    pub ttl: Duration,
    /// In HALF_OPEN: it is good for this one call.
    pub probe: Option<ProbeId>,
}

/// Why a call may not be made, and when asking again can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Why.
    pub reason: RejectionReason,
    /// After this long; none: nobody knows.
    pub retry_after: Option<Duration>,
}

/// Why a call may not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RejectionReason {
    /// OPEN.
    Open,
    /// HALF_OPEN with all probes out, or none for this instance now.
    ProbesTaken,
    /// FORCED_OPEN.
    ForcedOpen,
    /// This instance alone is kept out.
    Quarantined,
    /// It has just closed, and this instance's turn comes a little later.
    Recovering,
}

impl RejectionReason {
    /// The reason's name, as in metrics and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::ProbesTaken => "PROBES_TAKEN",
            Self::ForcedOpen => "FORCED_OPEN",
            Self::Quarantined => "QUARANTINED",
            Self::Recovering => "RECOVERING",
        }
    }
}
