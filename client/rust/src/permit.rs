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
    /// The word it was admitted by, with the number of its probe.
    word: Word,
    began: Mark,
}

/// Where the outcome goes.
#[derive(Debug)]
enum Held<'a> {
    Borrowed(&'a Slot),
    Owned(Arc<Slot>),
    /// It has ended, or nothing is recorded.
    Nothing,
}

impl<'a> Permit<'a> {
    #[inline]
    pub(crate) const fn new(slot: &'a Slot, word: Word, began: Mark) -> Self {
        Self { slot: Held::Borrowed(slot), word, began }
    }

    /// Takes it apart, without an outcome.
    pub(crate) fn into_parts(self) -> (Word, Mark) {
        let (_, word, began) = self.apart();
        (word, began)
    }

    #[inline]
    fn apart(mut self) -> (Held<'a>, Word, Mark) {
        let slot = std::mem::replace(&mut self.slot, Held::Nothing);
        let (word, began) = (self.word, self.began);
        // It holds nothing any more; without its drop the parts stay in registers.
        std::mem::forget(self);
        (slot, word, began)
    }

    /// A permit of which nothing is recorded.
    pub(crate) const fn detached() -> Self {
        Self { slot: Held::Nothing, word: Word::closer(0), began: Mark::UNTIMED }
    }

    /// A permit that borrows nothing, for a task that outlives the handle's borrow. Costs a reference count.
    pub fn into_owned(mut self) -> Permit<'static> {
        let slot = match std::mem::replace(&mut self.slot, Held::Nothing) {
            Held::Borrowed(slot) => slot.shared().map_or(Held::Nothing, Held::Owned),
            Held::Owned(slot) => Held::Owned(slot),
            Held::Nothing => Held::Nothing,
        };
        Permit { slot, word: self.word, began: self.began }
    }

    /// Whether the call is a probe: the breaker is HALF_OPEN, and the outcome decides.
    pub fn is_probe(&self) -> bool {
        self.word.probe() != 0 && !matches!(self.slot, Held::Nothing)
    }

    /// The call succeeded.
    #[inline]
    pub fn success(self) {
        let (slot, word, began) = self.apart();
        match slot {
            Held::Borrowed(slot) if word.passes_plainly() && slot.count_success(word) => {}
            Held::Borrowed(slot) => slot.succeed(word, began),
            Held::Owned(slot) => slot.succeed(word, began),
            Held::Nothing => {}
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
    pub fn record<T, E>(self, result: Result<T, E>) -> Result<T, E> {
        match &result {
            Ok(_) => self.success(),
            Err(_) => self.failure("other"),
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
        if let Some(span) = retry_after {
            self.hint(span);
        }
        self.end(fact.into());
    }

    /// The dependency asked to be left alone for so long. Then say the outcome.
    pub fn retry_after(self, span: Duration) -> Self {
        self.hint(span);
        self
    }

    fn hint(&self, span: Duration) {
        match &self.slot {
            Held::Borrowed(slot) => slot.hint(self.word, span),
            Held::Owned(slot) => slot.hint(self.word, span),
            Held::Nothing => {}
        }
    }

    #[inline(never)]
    fn end(&mut self, said: Said<'_>) {
        match std::mem::replace(&mut self.slot, Held::Nothing) {
            Held::Borrowed(slot) => slot.end(self.word, said, self.began),
            Held::Owned(slot) => slot.end(self.word, said, self.began),
            Held::Nothing => {}
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
