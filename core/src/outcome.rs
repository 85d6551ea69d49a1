//! What is reported to a breaker, and what becomes of it.

use std::time::Duration;

use crate::{
    classify::Cause,
    ids::{Generation, ProbeId},
    time::Timestamp,
};

/// Outcomes of calls of one instance since its last entry, or of one probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The generation under which the calls were admitted. None: counts in CLOSED and METRICS_ONLY only.
    pub generation: Option<Generation>,
    /// Grows with each new entry of a session; none: never taken for a duplicate.
    pub sequence: Option<u64>,
    /// When the entry was sealed; none: now. Its outcomes enter the window there.
    pub at: Option<Timestamp>,
    /// How the calls ended.
    pub outcomes: Outcomes,
    /// How the failures followed one another; none: see [`Entry::streaks`].
    pub streaks: Option<Streaks>,
    /// The probe that the outcome belongs to.
    pub probe: Option<ProbeId>,
    /// How often each cause was seen.
    pub causes: Vec<(Cause, u64)>,
    /// The longest retry-after that the dependency answered with.
    pub retry_after: Option<Duration>,
}

/// How calls ended. `slow_*` are part of successes and failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Calls that succeeded, slow ones included.
    pub successes: u64,
    /// Calls that failed, slow ones included.
    pub failures: u64,
    /// Of the successes, the slow ones.
    pub slow_successes: u64,
    /// Of the failures, the slow ones.
    pub slow_failures: u64,
    /// Calls whose outcome is neutral.
    pub ignored: u64,
    /// Permits that came back without an outcome.
    pub abandoned: u64,
    /// Calls that were rejected.
    pub rejected: u64,
}

impl Outcomes {
    /// Successes and failures.
    pub const fn counted(&self) -> u64 {
        self.successes.saturating_add(self.failures)
    }

    /// Slow calls among them: never more than there are, whatever is claimed.
    pub fn slow(&self) -> u64 {
        self.slow_successes.min(self.successes).saturating_add(self.slow_failures.min(self.failures))
    }
}

/// How failures followed one another within an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streaks {
    /// Failures before the first success.
    pub leading: u64,
    /// The longest run of failures.
    pub longest: u64,
    /// Failures after the last success.
    pub trailing: u64,
}

impl Entry {
    /// The streaks: as given, but never longer than the failures there are; without them an entry of failures only
    /// is one streak and others hold none.
    pub fn streaks(&self) -> Streaks {
        let Outcomes { successes, failures, .. } = self.outcomes;
        if successes == 0 {
            return Streaks { leading: failures, longest: failures, trailing: failures };
        }
        let given = self.streaks.unwrap_or_default();
        Streaks {
            leading: given.leading.min(failures),
            longest: given.longest.max(given.leading).max(given.trailing).min(failures),
            trailing: given.trailing.min(failures),
        }
    }
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reported {
    /// Its outcomes were counted.
    Counted,
    /// It belongs to another generation, or names none and the breaker is not counting.
    StaleGeneration,
    /// Its probe is not out, or it needed one and named none.
    UnknownProbe,
    /// It was counted before.
    Duplicate,
    /// It is older than the window or than the stretch.
    TooOld,
    /// The breaker is DISABLED: nothing is recorded.
    NotRecorded,
}
