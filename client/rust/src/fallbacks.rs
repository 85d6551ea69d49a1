//! Fallbacks: when one runs, and how often each kind of ending was met by one.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        LazyLock, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    breaker::Breaker,
    call::CallError,
    limits::BREAKERS_MAX,
    metrics::FallbackMeter,
    plate::NAMELESS,
    rejected::{Reason, Rejected},
};

/// What a fallback stood in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missed {
    /// The call was not made, for this reason.
    Rejected(Reason),
    /// The call was made, and failed.
    Failed,
}

impl Missed {
    /// All there are.
    pub const ALL: [Self; 7] = [
        Self::Rejected(Reason::Open),
        Self::Rejected(Reason::ProbesTaken),
        Self::Rejected(Reason::ForcedOpen),
        Self::Rejected(Reason::Quarantined),
        Self::Rejected(Reason::Recovering),
        Self::Rejected(Reason::Disconnected),
        Self::Failed,
    ];

    /// The name, as in metrics: the reason's, or `FAILED`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rejected(reason) => reason.as_str(),
            Self::Failed => "FAILED",
        }
    }

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Rejected(Reason::Open) => 0,
            Self::Rejected(Reason::ProbesTaken) => 1,
            Self::Rejected(Reason::ForcedOpen) => 2,
            Self::Rejected(Reason::Quarantined) => 3,
            Self::Rejected(Reason::Recovering) => 4,
            Self::Rejected(Reason::Disconnected) => 5,
            Self::Failed => 6,
        }
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&Rejected> for Missed {
    fn from(rejected: &Rejected) -> Self {
        Self::Rejected(rejected.reason())
    }
}

impl<E> From<&CallError<E>> for Missed {
    fn from(error: &CallError<E>) -> Self {
        error.reason().map_or(Self::Failed, Self::Rejected)
    }
}

/// How often fallbacks of one breaker stood in, by what they stood in for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fallbacks([u64; Missed::ALL.len()]);

impl Fallbacks {
    /// For one kind.
    pub const fn count(&self, missed: Missed) -> u64 {
        self.0[missed.index()]
    }

    /// For all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each kind with its count, those without any included.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Missed, u64)> {
        let counts = self.0;
        Missed::ALL.into_iter().map(move |missed| (missed, counts[missed.index()]))
    }
}

/// Counts as they grow. Written only where a fallback ran, which costs far more than a shared write.
#[derive(Debug)]
struct Counters {
    counts: [AtomicU64; Missed::ALL.len()],
    meter: FallbackMeter,
}

impl Counters {
    fn new(name: &str) -> Self {
        Self { counts: [const { AtomicU64::new(0) }; Missed::ALL.len()], meter: FallbackMeter::new(name) }
    }

    fn add(&self, missed: Missed) {
        self.counts[missed.index()].fetch_add(1, Ordering::Relaxed);
        self.meter.fell_back(missed);
    }

    fn read(&self) -> Fallbacks {
        Fallbacks(std::array::from_fn(|index| self.counts[index].load(Ordering::Relaxed)))
    }
}

/// Those of all names. They live as long as the process: a count that starts again with each client would be none.
static BY_NAME: RwLock<Option<HashMap<String, &'static Counters>>> = RwLock::new(None);

/// Those of the names past the limit, counted together: memory stays bounded whatever names there are.
static OTHERS: LazyLock<Counters> = LazyLock::new(|| Counters::new(NAMELESS));

fn known(name: &str) -> Option<&'static Counters> {
    BY_NAME.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.get(name).copied()
}

fn counters(name: &str) -> &'static Counters {
    if let Some(counters) = known(name) {
        return counters;
    }
    let mut by_name = BY_NAME.write().unwrap_or_else(PoisonError::into_inner);
    let by_name = by_name.get_or_insert_default();
    if by_name.len() >= BREAKERS_MAX && !by_name.contains_key(name) {
        return &OTHERS;
    }
    by_name.entry(name.to_owned()).or_insert_with(|| Box::leak(Box::new(Counters::new(name))))
}

impl Breaker {
    /// Counts that a fallback stood in. [`call_or`](Self::call_or) and [`call_or_else`](Self::call_or_else) do so
    /// themselves; this is for fallbacks that are written out.
    ///
    /// ```no_run
    /// # use panelboard_client::Breaker;
    /// # fn cached() -> u64 { 7 }
    /// # async fn fetch() -> Result<u64, std::io::Error> { Ok(1) }
    /// # async fn example(quote: Breaker) -> Result<u64, std::io::Error> {
    /// match quote.try_acquire() {
    ///     Ok(permit) => permit.record(fetch().await),
    ///     Err(rejected) => {
    ///         quote.fell_back(&rejected);
    ///         Ok(cached())
    ///     }
    /// }
    /// # }
    /// ```
    pub fn fell_back(&self, missed: impl Into<Missed>) {
        counters(self.name()).add(missed.into());
    }

    /// How often fallbacks of breakers of this name stood in, since the process began.
    pub fn fallbacks(&self) -> Fallbacks {
        known(self.name()).map(Counters::read).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_counted_by_itself() {
        let counters = Counters::new("fallbacks/kinds");
        for (times, missed) in Missed::ALL.into_iter().enumerate() {
            (0..times).for_each(|_| counters.add(missed));
        }
        let read = counters.read();
        assert_eq!(read.iter().map(|(_, count)| count).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!((read.total(), read.count(Missed::Failed)), (21, 6));
        assert!(Missed::ALL.iter().enumerate().all(|(index, missed)| missed.index() == index));
    }

    #[test]
    fn a_name_has_its_counters_from_its_first_fallback_on() {
        assert!(known("fallbacks/unit-test").is_none());
        counters("fallbacks/unit-test").add(Missed::Failed);
        assert!(std::ptr::eq(counters("fallbacks/unit-test"), known("fallbacks/unit-test").unwrap()));
        assert_eq!(known("fallbacks/unit-test").unwrap().read().total(), 1);
    }
}
