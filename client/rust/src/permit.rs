//! Leave to make one call, and what became of it.

use std::{sync::Arc, time::Duration};

use crate::{
    cell::Ticket,
    clock::Mark,
    fact::{Fact, Observation, Said},
    slot::Slot,
};

/// Leave to make one call. Say what became of it with one of the methods below.
///
/// A permit that is dropped without an outcome is *abandoned*: the call says nothing about the dependency, and if it
/// was a probe, the probe goes to somebody else. That is what happens when a future is cancelled or panics.
///
/// Dropping never waits. A permit may move to another thread. The time from the permit to its outcome is the call's
/// duration.
#[must_use = "say what became of the call, or it counts as abandoned"]
#[derive(Debug)]
pub struct Permit {
    open: Option<Open>,
    retry_after: Option<Duration>,
}

#[derive(Debug)]
struct Open {
    slot: Arc<Slot>,
    ticket: Ticket,
    began: Mark,
}

impl Permit {
    pub(crate) fn new(slot: Arc<Slot>, ticket: Ticket) -> Self {
        let began = slot.post.clock.mark();
        Self { open: Some(Open { slot, ticket, began }), retry_after: None }
    }

    /// A permit of which nothing is recorded.
    pub(crate) const fn detached() -> Self {
        Self { open: None, retry_after: None }
    }

    /// Whether the call is a probe: the breaker is HALF_OPEN, and the outcome decides.
    pub fn is_probe(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.ticket.probe.is_some())
    }

    /// The call succeeded.
    pub fn success(mut self) {
        self.end(Said::Success);
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
    pub fn record<T, E>(self, result: Result<T, E>) -> Result<T, E> {
        self.record_with(|result| plain(result), result)
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

    fn end(&mut self, said: Said<'_>) {
        let Some(Open { slot, ticket, began }) = self.open.take() else { return };
        if !ticket.counted {
            return;
        }
        let (took, retry_after) = (began.elapsed(), self.retry_after);
        slot.with(|cell, now| cell.record(ticket, said, took, retry_after, now));
    }
}

/// `Ok` is a success, `Err` a failure.
pub(crate) const fn plain<T, E>(result: &Result<T, E>) -> Fact {
    match result {
        Ok(_) => Fact::Success,
        Err(_) => Fact::Failure("other"),
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.end(Said::Abandoned);
    }
}
