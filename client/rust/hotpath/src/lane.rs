//! What one thread counts at one breaker.

use crate::{
    counter::Counter,
    runs::{Judged, Kind, Runs, aside},
    word::Word,
};

/// The counts of one thread at one breaker. Only that thread writes; the [`Collector`](crate::Collector) reads.
///
/// Each method takes the word that the call was admitted by, and `current`, which reads the gate: it is only called
/// the first time after a stretch began. What belongs to a stretch that is over is dropped.
#[derive(Debug)]
#[repr(align(128))]
pub struct Lane {
    pub(crate) successes: Counter,
    pub(crate) slow_successes: Counter,
    pub(crate) ignored: Counter,
    pub(crate) abandoned: Counter,
    pub(crate) rejected: Counter,
    /// Failures that found no place among the runs: counted, without cause and order.
    pub(crate) spilled: Counter,
    pub(crate) slow_spilled: Counter,
    pub(crate) runs: Runs,
}

impl Lane {
    /// A lane in which nothing was counted.
    pub fn new() -> Self {
        Self {
            successes: Counter::default(),
            slow_successes: Counter::default(),
            ignored: Counter::default(),
            abandoned: Counter::default(),
            rejected: Counter::default(),
            spilled: Counter::default(),
            slow_spilled: Counter::default(),
            runs: Runs::new(),
        }
    }

    /// A call succeeded.
    #[inline]
    pub fn success(&self, word: Word, current: impl FnOnce() -> Word) {
        if !self.successes.add(word) {
            begin(&self.successes, word, current);
        }
    }

    /// A call succeeded, slowly.
    pub fn slow_success(&self, word: Word, current: impl Fn() -> Word) {
        if !self.slow_successes.add(word) {
            begin(&self.slow_successes, word, &current);
        }
        self.success(word, current);
    }

    /// A call says nothing, without a cause.
    #[inline]
    pub fn ignored(&self, word: Word, current: impl FnOnce() -> Word) {
        if !self.ignored.add(word) {
            begin(&self.ignored, word, current);
        }
    }

    /// A permit came back without an outcome.
    #[inline]
    pub fn abandoned(&self, word: Word, current: impl FnOnce() -> Word) {
        if !self.abandoned.add(word) {
            begin(&self.abandoned, word, current);
        }
    }

    /// A call was turned away.
    #[inline]
    pub fn rejected(&self, word: Word, current: impl FnOnce() -> Word) {
        if !self.rejected.add(word) {
            begin(&self.rejected, word, current);
        }
    }

    /// Something that is more than a count. Successes by cause are counted with [`success`](Self::success) as well.
    pub fn judged(&self, word: Word, judged: Judged, current: impl FnOnce() -> Word) {
        if is_over(word, current) {
            return;
        }
        if self.runs.push(word, judged, aside(self.successes.own(), word)) || judged.kind != Kind::Failure {
            return;
        }
        let spilled = if judged.slow { &self.slow_spilled } else { &self.spilled };
        if !spilled.add(word) {
            spilled.begin(word);
        }
    }

    /// The dependency asked to be left alone for so many milliseconds.
    pub fn retry_after(&self, word: Word, millis: u64, current: impl FnOnce() -> Word) {
        if !is_over(word, current) {
            let judged = Judged { kind: Kind::RetryAfter, slow: false, cause: 0, book: 0 };
            self.runs.push(word, judged, millis);
        }
    }

    /// Changes with everything that is counted.
    pub(crate) fn stamp(&self) -> u64 {
        [
            &self.successes,
            &self.slow_successes,
            &self.ignored,
            &self.abandoned,
            &self.rejected,
            &self.spilled,
            &self.slow_spilled,
        ]
        .into_iter()
        .fold(self.runs.stamp(), |stamp, counter| stamp.rotate_left(7).wrapping_add(counter.read().raw()))
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self::new()
    }
}

/// The first of a stretch in this lane, or one that comes too late.
#[cold]
#[inline(never)]
fn begin(counter: &Counter, word: Word, current: impl FnOnce() -> Word) {
    if !is_over(word, current) {
        counter.begin(word);
    }
}

fn is_over(word: Word, current: impl FnOnce() -> Word) -> bool {
    current().tag() != word.tag()
}
