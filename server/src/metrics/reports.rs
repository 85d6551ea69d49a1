//! Entries of reports, by what became of them. Counted for the whole server, so that the numbers outlive breakers.

use std::sync::atomic::{AtomicU64, Ordering};

use panelboard_core::Reported;

/// Counts of entries.
#[derive(Debug, Default)]
pub(crate) struct Reports([AtomicU64; RESULTS.len()]);

const RESULTS: [&str; 7] =
    ["counted", "stale_generation", "unknown_probe", "duplicate", "too_old", "not_recorded", "error"];

impl Reports {
    /// An entry was taken in.
    pub(crate) fn taken(&self, reported: Reported) {
        self.count(match reported {
            Reported::Counted => 0,
            Reported::StaleGeneration => 1,
            Reported::UnknownProbe => 2,
            Reported::Duplicate => 3,
            Reported::TooOld => 4,
            Reported::NotRecorded => 5,
        });
    }

    /// An entry was refused: there is no such breaker.
    pub(crate) fn refused(&self) {
        self.count(6);
    }

    /// Results with their counts.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        RESULTS.into_iter().zip(&self.0).map(|(result, count)| (result, count.load(Ordering::Relaxed)))
    }

    fn count(&self, at: usize) {
        self.0[at].fetch_add(1, Ordering::Relaxed);
    }
}
