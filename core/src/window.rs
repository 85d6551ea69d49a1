//! What a rule looks back over: a ring of time buckets, and a ring of last calls.

mod last;
mod ring;

pub(crate) use last::Last;
pub(crate) use ring::{Geometry, Ring};

/// Counted calls, and the ones among them that rules look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) calls: u64,
    pub(crate) failures: u64,
    pub(crate) slow: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.failures = self.failures.saturating_add(other.failures);
        self.slow = self.slow.saturating_add(other.slow);
    }

    pub(crate) fn take(&mut self, other: Self) {
        self.calls = self.calls.saturating_sub(other.calls);
        self.failures = self.failures.saturating_sub(other.failures);
        self.slow = self.slow.saturating_sub(other.slow);
    }
}

impl From<crate::outcome::Outcomes> for Counts {
    fn from(outcomes: crate::outcome::Outcomes) -> Self {
        Self { calls: outcomes.counted(), failures: outcomes.failures, slow: outcomes.slow() }
    }
}
