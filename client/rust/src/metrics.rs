//! The client's own metrics, for whichever recorder the application installs.
//!
//! Handles are registered once per breaker and client, so that no event looks anything up, and no call writes any: what
//! calls came to is counted when their lanes are collected. Without the feature all of this is nothing, and so are the
//! places that tell it something.

#[cfg(feature = "metrics")]
mod live;
#[cfg(not(feature = "metrics"))]
mod off;

#[cfg(feature = "metrics")]
pub(crate) use live::{AgentMeter, BreakerMeter, FallbackMeter};
#[cfg(not(feature = "metrics"))]
pub(crate) use off::{AgentMeter, BreakerMeter, FallbackMeter};

/// What became of a Report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// It was answered.
    Ok,
    /// It was not, or with an error that passes: it is sent again.
    Failed,
    /// It was refused in a way that no repetition betters.
    Refused,
}
