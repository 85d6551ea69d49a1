//! One breaker's place in the registry: the rules, and what the server keeps beside them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use panelboard_core::{Breaker, BreakerName, Entry, Rejection, Reported, Timestamp, Transition};
use panelboard_proto::v1;

/// A breaker's place. Its lock is short: nothing is awaited and no foreign code runs under it, hence a std mutex.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The breaker's name.
    pub(crate) name: BreakerName,
    cell: Mutex<Cell>,
}

/// What is behind a slot's lock.
#[derive(Debug)]
pub(crate) struct Cell {
    /// The rules.
    pub(crate) breaker: Breaker,
    /// The transition that began the state, as it is told and stored.
    pub(crate) last: Option<Arc<v1::Transition>>,
    /// When the state began, by the wall clock.
    pub(crate) since_unix_ms: u64,
    /// What METRICS_ONLY keeps from happening now, as it is told.
    pub(crate) would: Option<Arc<v1::WouldOpen>>,
    /// Incidents, oldest first.
    pub(crate) incidents: VecDeque<Arc<v1::Incident>>,
    /// Everything that was ever reported and refused, for metrics.
    pub(crate) counters: Counters,
    /// The position of the newest transition in the outbox.
    pub(crate) position: u64,
    /// When it was last asked, reported to or named in a watch.
    pub(crate) last_used: Timestamp,
    /// The deadline that the timer is armed for.
    pub(crate) armed: Option<Timestamp>,
    /// It is gone from the registry: whoever still holds it looks it up anew.
    pub(crate) deleted: bool,
    /// Its state began in an earlier process: only the wall clock knows how long ago.
    pub(crate) carried_over: bool,
}

impl Cell {
    /// A transition with how long the state before really lasted, if that began before this process.
    pub(crate) fn with_its_past(&mut self, transition: &Arc<Transition>, unix_ms: u64) -> Arc<Transition> {
        if !std::mem::take(&mut self.carried_over) {
            return Arc::clone(transition);
        }
        let previous_lasted = Duration::from_millis(unix_ms.saturating_sub(self.since_unix_ms));
        Arc::new(Transition { previous_lasted, ..Transition::clone(transition) })
    }
}

/// What was ever reported and refused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    /// Calls by outcome: success, failure, ignored, abandoned.
    pub(crate) calls: BTreeMap<&'static str, u64>,
    /// Slow calls among successes and failures.
    pub(crate) slow: u64,
    /// Outcomes by cause.
    pub(crate) causes: BTreeMap<Arc<str>, u64>,
    /// Calls refused, by reason; `client` are those that clients refused from their own memory.
    pub(crate) rejected: BTreeMap<&'static str, u64>,
    /// Transitions by (from, to, rule).
    pub(crate) transitions: BTreeMap<(&'static str, &'static str, &'static str), u64>,
    /// Half-open periods by how they ended.
    pub(crate) recoveries: BTreeMap<&'static str, u64>,
    /// Probes of the latest half-open period that ended whose client never came back.
    pub(crate) probes_expired: u32,
    /// How long a rule was crossed under METRICS_ONLY.
    pub(crate) would_open: WouldOpen,
    /// Quarantines that began, by why.
    pub(crate) quarantines: BTreeMap<&'static str, u64>,
}

/// How half-open periods end by themselves, as labels.
pub(crate) const RECOVERIES: [&str; 4] = ["closed", "reopened", "closed_at_limit", "reopened_at_limit"];

/// How long a rule was crossed under METRICS_ONLY.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WouldOpen {
    before: Duration,
    since: Option<Timestamp>,
}

impl WouldOpen {
    /// A rule is crossed.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
    }

    /// None is crossed any more, or the override is over.
    pub(crate) fn end(&mut self, now: Timestamp) {
        *self = Self { before: self.lasted(now), since: None };
    }

    /// How long by now.
    pub(crate) fn lasted(&self, now: Timestamp) -> Duration {
        self.before.saturating_add(self.since.map(|since| now.since(since)).unwrap_or_default())
    }
}

impl Counters {
    /// Counts an entry: stale and late ones too, but a duplicate only as a duplicate.
    pub(crate) fn count_entry(&mut self, entry: &Entry, reported: Reported, causes_max: usize) {
        if reported == Reported::Duplicate {
            return;
        }
        let outcomes = &entry.outcomes;
        let counted = [
            ("success", outcomes.successes),
            ("failure", outcomes.failures),
            ("ignored", outcomes.ignored),
            ("abandoned", outcomes.abandoned),
        ];
        for (outcome, n) in counted.into_iter().filter(|(_, n)| *n > 0) {
            add(&mut self.calls, outcome, n);
        }
        self.slow = self.slow.saturating_add(outcomes.slow());
        if outcomes.rejected > 0 {
            add(&mut self.rejected, "client", outcomes.rejected);
        }
        for (cause, n) in &entry.causes {
            let known = self.causes.contains_key(cause.as_str()) || self.causes.len() < causes_max;
            let label = if known { cause.as_str() } else { panelboard_core::Cause::OTHER };
            match self.causes.get_mut(label) {
                Some(count) => *count = count.saturating_add(*n),
                None => {
                    self.causes.insert(label.into(), *n);
                }
            }
        }
    }

    /// Counts a call that was refused here.
    pub(crate) fn count_rejection(&mut self, rejection: &Rejection) {
        add(&mut self.rejected, rejection.reason.as_str(), 1);
    }
}

fn add(counts: &mut BTreeMap<&'static str, u64>, key: &'static str, n: u64) {
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(n);
}

impl Slot {
    /// A place for a breaker.
    pub(crate) fn new(name: BreakerName, cell: Cell) -> Self {
        Self { name, cell: Mutex::new(cell) }
    }

    /// Locks it. A panic of another holder cannot leave a breaker half changed: every call into the rules either
    /// returns or has changed nothing that matters, so the lock is taken all the same.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Cell> {
        self.cell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
