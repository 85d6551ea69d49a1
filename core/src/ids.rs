//! Numbers and names that must not be mistaken for one another.

use std::{fmt, sync::Arc};

use crate::time::Timestamp;

/// One stretch of a breaker: the epoch and the revision of the transition that began it. Grows for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation {
    /// The epoch of the server that began the stretch.
    pub epoch: u64,
    /// The revision of the transition that began it.
    pub revision: u64,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.revision)
    }
}

/// One change of a breaker: orders the changes of one breaker, promises nothing across breakers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The epoch of the server that made the change.
    pub epoch: u64,
    /// The revision of the change.
    pub revision: u64,
}

/// When a call into the rules happens, and what a change made by it is numbered with.
///
/// `next` must be greater than the version of every earlier change of the same breaker; it is used up only if the
/// call returns a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Now. A value earlier than the last one seen counts as the last one.
    pub now: Timestamp,
    /// The version that a change made by this call gets.
    pub next: Version,
}

/// The id of a leased probe. Not guessable as long as the breaker's seed is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeId(pub u64);

/// One pod or host of a service: the unit that is counted and probed with. The default is the anonymous instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance {
    /// The service, for example `checkout`.
    pub service: Arc<str>,
    /// The instance within the service, for example a pod name.
    pub id: Arc<str>,
}

impl Instance {
    /// An instance of a service.
    pub fn new(service: &str, id: &str) -> Self {
        Self { service: service.into(), id: id.into() }
    }

    /// The one instance that all callers without an identity share.
    pub fn anonymous() -> Self {
        Self::new("", "")
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.service.is_empty() && self.id.is_empty() {
            f.write_str("anonymous")
        } else {
            write!(f, "{}/{}", self.service, self.id)
        }
    }
}

/// One run of one client process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub Arc<str>);

/// Who calls: an instance, and the run of it that speaks.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The instance.
    pub instance: &'a Instance,
    /// The run of it; none for a caller that never resends and never watches.
    pub session: Option<&'a Session>,
}
