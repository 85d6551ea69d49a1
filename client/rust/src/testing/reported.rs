//! What the clients have reported of one breaker.

use std::collections::BTreeMap;

use panelboard_proto::v1::ReportEntry;

/// Outcomes that clients have reported of one breaker, probes included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reported {
    /// Calls that succeeded.
    pub successes: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Of both, those that were slow by the breaker's policy.
    pub slow: u64,
    /// Calls that said nothing about the dependency.
    pub ignored: u64,
    /// Permits that came back without an outcome.
    pub abandoned: u64,
    /// Calls that were turned away.
    pub rejected: u64,
    /// Probes among the calls.
    pub probes: u64,
    /// Failures and ignored calls by cause.
    pub causes: BTreeMap<String, u64>,
}

impl Reported {
    /// Calls that were admitted, however they ended.
    pub const fn calls(&self) -> u64 {
        self.successes + self.failures + self.ignored + self.abandoned
    }

    pub(super) fn add(&mut self, entry: &ReportEntry) {
        self.successes += u64::from(entry.successes);
        self.failures += u64::from(entry.failures);
        self.slow += u64::from(entry.slow_successes) + u64::from(entry.slow_failures);
        self.ignored += u64::from(entry.ignored);
        self.abandoned += u64::from(entry.abandoned);
        self.rejected += u64::from(entry.rejected);
        self.probes += u64::from(entry.probe_id != 0);
        for (cause, count) in &entry.causes {
            *self.causes.entry(cause.clone()).or_default() += u64::from(*count);
        }
    }
}
