//! Leave to make one call, and what became of it.

use std::{sync::Arc, time::Duration};

use panelboard_hotpath::Word;

use crate::{
    clock::Mark,
    fact::{Fact, Observation, Said},
    slot::Slot,
};

/// Leave to make one call. Say what became of it with one of the methods below.
///
/// A permit that is dropped without an outcome is *abandoned*: the call says nothing about the dependency, and if it
/// was a probe, the probe goes to somebody else. That is what happens when a future is cancelled or panics.
///
/// Dropping never waits. A permit may move to another thread, and be kept across an await. It borrows the handle it
/// came from: [`into_owned`](Self::into_owned) makes one that does not, for a task of its own. The time from the permit
/// to its outcome is the call's duration.
#[must_use = "say what became of the call, or it counts as abandoned"]
#[derive(Debug)]
pub struct Permit<'a> {
    slot: Held<'a>,
    /// The word it was admitted by.
    word: Word,
    /// The number of its probe; 0: it is none.
    probe: u64,
    began: Mark,
    retry_after: Option<Duration>,
}

#[derive(Debug)]
enum Held<'a> {
    Borrowed(&'a Slot),
    Owned(Arc<Slot>),
    /// It has ended, or nothing is recorded.
    Nothing,
}

impl<'a> Permit<'a> {
    /// For a call that the hot path admitted.
    #[inline]
    pub(crate) fn admitted(slot: &'a Slot, word: Word) -> Self {
        let began = if word.is_timed() { Mark::now() } else { Mark::UNTIMED };
        Self { slot: Held::Borrowed(slot), word, probe: 0, began, retry_after: None }
    }

    /// For a call that was admitted after a closer look.
    pub(crate) fn looked_at(slot: &'a Slot, word: Word, probe: u64) -> Self {
        Self { slot: Held::Borrowed(slot), word, probe, began: Mark::now(), retry_after: None }
    }

    /// A permit of which nothing is recorded.
    pub(crate) const fn detached() -> Self {
        Self { slot: Held::Nothing, word: Word::closer(0), probe: 0, began: Mark::UNTIMED, retry_after: None }
    }

    /// A permit that borrows nothing, for a task that outlives the handle's borrow. Costs a reference count.
    pub fn into_owned(mut self) -> Permit<'static> {
        let slot = match std::mem::replace(&mut self.slot, Held::Nothing) {
            Held::Borrowed(slot) => slot.shared().map_or(Held::Nothing, Held::Owned),
            Held::Owned(slot) => Held::Owned(slot),
            Held::Nothing => Held::Nothing,
        };
        let Self { word, probe, began, retry_after, .. } = self;
        Permit { slot, word, probe, began, retry_after }
    }

    /// Whether the call is a probe: the breaker is HALF_OPEN, and the outcome decides.
    pub fn is_probe(&self) -> bool {
        self.probe != 0
    }

    /// The call succeeded.
    #[inline]
    pub fn success(mut self) {
        if self.probe == 0 && !self.word.is_timed() && self.retry_after.is_none() {
            self.end_plainly();
        } else {
            self.end(Said::Success);
        }
    }

    /// The call failed. `cause` is one word of the policy's vocabulary, like `timeout` or `http_503`; another word
    /// counts as `other`.
    pub fn failure(mut self, cause: &str) {
        self.end(Said::Failure(cause));
    }

    /// The call says nothing about the dependency.
    pub fn ignore(mut self) {
        self.end(Said::Ignored(None));
    }

    /// The call says nothing about the dependency; its cause is counted, so that a storm of them is seen.
    pub fn ignore_as(mut self, cause: &str) {
        self.end(Said::Ignored(Some(cause)));
    }

    /// `Ok` is a success, `Err` a failure of no particular cause. Passes the result through.
    ///
    /// # Errors
    /// The one that was passed in.
    #[inline]
    pub fn record<T, E>(mut self, result: Result<T, E>) -> Result<T, E> {
        match &result {
            Ok(_) => self.success(),
            Err(_) => self.end(Said::Failure("other")),
        }
        result
    }

    /// What `classify` makes of the result. Passes the result through.
    ///
    /// # Errors
    /// The one that was passed in.
    pub fn record_with<T, E, O: Into<Observation>>(
        self,
        classify: impl FnOnce(&Result<T, E>) -> O,
        result: Result<T, E>,
    ) -> Result<T, E> {
        self.record_fact(classify(&result));
        result
    }

    /// What happened, for the breaker's policy to classify.
    pub fn record_fact(mut self, observed: impl Into<Observation>) {
        let Observation { fact, retry_after } = observed.into();
        self.retry_after = self.retry_after.max(retry_after);
        self.end(fact.into());
    }

    /// The dependency asked to be left alone for so long. Then say the outcome.
    pub fn retry_after(mut self, span: Duration) -> Self {
        self.retry_after = self.retry_after.max(Some(span));
        self
    }

    /// A success that is nothing but one more.
    #[inline]
    fn end_plainly(&mut self) {
        let slot: &Slot = match &self.slot {
            Held::Borrowed(slot) => slot,
            Held::Owned(slot) => slot,
            Held::Nothing => return,
        };
        if self.word.is_counted() && !slot.count_success(self.word) {
            slot.record(self.word, self.probe, Said::Success, Duration::ZERO, None);
        }
        // Only now: what follows is the drop, which sees that all is said.
        self.slot = Held::Nothing;
    }

    fn end(&mut self, said: Said<'_>) {
        let slot = match std::mem::replace(&mut self.slot, Held::Nothing) {
            Held::Borrowed(slot) => return self.tell(slot, said),
            Held::Owned(slot) => slot,
            Held::Nothing => return,
        };
        self.tell(&slot, said);
    }

    fn tell(&self, slot: &Slot, said: Said<'_>) {
        if self.probe != 0 {
            return slot.record(self.word, self.probe, said, self.began.elapsed(), self.retry_after);
        }
        if !self.word.is_counted() {
            return;
        }
        let code = slot.code(self.word, said);
        let took = if self.word.is_timed() { self.began.elapsed() } else { Duration::ZERO };
        let counted = slot.count(self.word, code, took, self.retry_after);
        if !counted {
            slot.record(self.word, 0, said, took, self.retry_after);
        }
    }
}

/// `Ok` is a success, `Err` a failure.
pub(crate) const fn plain<T, E>(result: &Result<T, E>) -> Fact {
    match result {
        Ok(_) => Fact::Success,
        Err(_) => Fact::Failure("other"),
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        if !matches!(self.slot, Held::Nothing) {
            self.end(Said::Abandoned);
        }
    }
}
