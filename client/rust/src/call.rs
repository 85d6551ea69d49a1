//! Calls through a breaker, in one step.

mod span;

use std::{error::Error, fmt, future::Future};

use tracing::Instrument;

use crate::{
    breaker::Breaker,
    fact::Observation,
    fallbacks::Missed,
    permit::plain,
    rejected::{Reason, Rejected},
};
use span::CallSpan;

/// Why a call through a breaker has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError<E> {
    /// It was not admitted, so it was not made.
    Rejected(Rejected),
    /// It was made, and failed.
    Failed(E),
}

impl<E> CallError<E> {
    /// The call's own error, if it was made.
    pub fn into_failed(self) -> Option<E> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Rejected(_) => None,
        }
    }

    /// Whether it was not made.
    pub const fn is_rejected(&self) -> bool {
        matches!(self, Self::Rejected(_))
    }

    /// The rejection, if the call was not made.
    pub const fn rejected(&self) -> Option<&Rejected> {
        match self {
            Self::Rejected(rejected) => Some(rejected),
            Self::Failed(_) => None,
        }
    }

    /// Why it was not made, if it was not.
    pub const fn reason(&self) -> Option<Reason> {
        match self {
            Self::Rejected(rejected) => Some(rejected.reason()),
            Self::Failed(_) => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(rejected) => rejected.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for CallError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // So that whoever walks the chain finds it without knowing `E`.
            Self::Rejected(rejected) => Some(rejected),
            Self::Failed(error) => error.source(),
        }
    }
}

impl Breaker {
    /// Makes a call through the breaker: asks for a permit, waiting up to `probe_wait` for a probe in HALF_OPEN, runs
    /// the future on the caller's own task, times it and records the outcome. `Ok` is a success, `Err` a failure; to
    /// tell errors apart use [`call_with`](Self::call_with).
    ///
    /// Put the timeout *inside*, so that a call that takes too long ends as a failure that the breaker sees. A probe
    /// that runs past its deadline is recorded as a failure then, whatever becomes of it later.
    ///
    /// Where a subscriber takes DEBUG it is a [`tracing`] span, `breaker.call`, which the call's own spans are within.
    ///
    /// Cancel safe: a call that is dropped is abandoned.
    ///
    /// # Errors
    /// [`CallError::Rejected`] if the call was not made, else the call's own error.
    pub async fn call<T, E, F, Fut>(&self, call: F) -> Result<T, CallError<E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.call_with(plain, call).await
    }

    /// The same, with `classify` saying what a result means: a fact that the breaker's policy classifies, or a
    /// judgement of the caller's own.
    ///
    /// ```no_run
    /// # use panelboard_client::{Breaker, CallError, Fact};
    /// # enum FetchError { Status(u16), Timeout }
    /// # async fn fetch() -> Result<u64, FetchError> { Ok(1) }
    /// # async fn example(quote: Breaker) -> Result<u64, CallError<FetchError>> {
    /// let price = quote.call_with(
    ///     |result| match result {
    ///         Ok(_) => Fact::Success,
    ///         Err(FetchError::Status(status)) => Fact::HttpStatus(*status),
    ///         Err(FetchError::Timeout) => Fact::TimedOut,
    ///     },
    ///     || fetch(),
    /// ).await?;
    /// # Ok(price) }
    /// ```
    ///
    /// # Errors
    /// [`CallError::Rejected`] if the call was not made, else the call's own error.
    pub async fn call_with<T, E, O, C, F, Fut>(&self, classify: C, call: F) -> Result<T, CallError<E>>
    where
        O: Into<Observation>,
        C: FnOnce(&Result<T, E>) -> O,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let span = CallSpan::begin(self);
        let permit = match self.acquire().await {
            Ok(permit) => permit,
            Err(rejected) => {
                span.rejected(&rejected);
                return Err(CallError::Rejected(rejected));
            }
        };
        let result = span.within(call).instrument(span.span().clone()).await;
        let is_probe = permit.is_probe();
        let observed = |result: &Result<T, E>| {
            let observation = classify(result).into();
            span.ended(self, is_probe, result.is_ok(), observation.fact);
            observation
        };
        permit.record_with(observed, result).map_err(CallError::Failed)
    }

    /// Makes a call, and gives what `fallback` makes of an ending that it knows. One that it does not know it hands back;
    /// what it stands in for is counted by kind: see [`fallbacks`](Self::fallbacks).
    ///
    /// A fallback that answers a *failed* call hides it from the caller, never from the breaker.
    ///
    /// ```no_run
    /// # use panelboard_client::{Breaker, CallError, Reason};
    /// # #[derive(Debug)] enum FetchError { Timeout, Denied }
    /// # async fn fetch() -> Result<u64, FetchError> { Ok(1) }
    /// # fn cached() -> u64 { 7 }
    /// # async fn example(quote: Breaker) -> Result<u64, CallError<FetchError>> {
    /// let price = quote.call_or(|| fetch(), |error| match error {
    ///     CallError::Rejected(rejected) if rejected.reason() != Reason::ForcedOpen => Ok(cached()),
    ///     CallError::Failed(FetchError::Timeout) => Ok(cached()),
    ///     other => Err(other),
    /// }).await?;
    /// # Ok(price) }
    /// ```
    ///
    /// Cancel safe, as [`call`](Self::call) is.
    ///
    /// # Errors
    /// What the fallback hands back.
    pub async fn call_or<T, E, F, Fut, B>(&self, call: F, fallback: B) -> Result<T, CallError<E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
        B: FnOnce(CallError<E>) -> Result<T, CallError<E>>,
    {
        self.or(self.call(call).await, fallback)
    }

    /// Makes a call, and if `when` says so, another one in its place: a replica, a slower source. The other call does not
    /// go through this breaker; give it one of its own.
    ///
    /// ```no_run
    /// # use panelboard_client::{Breaker, CallError};
    /// # async fn fetch() -> Result<u64, std::io::Error> { Ok(1) }
    /// # async fn from_replica() -> Result<u64, std::io::Error> { Ok(2) }
    /// # async fn example(quote: Breaker) -> Result<u64, CallError<std::io::Error>> {
    /// let price = quote.call_or_else(|| fetch(), CallError::is_rejected, |_| from_replica()).await?;
    /// # Ok(price) }
    /// ```
    ///
    /// Counted by kind if it succeeds. Cancel safe, as far as the other call is.
    ///
    /// # Errors
    /// That of the other call, as [`CallError::Failed`], if it was made; else that of the call.
    pub async fn call_or_else<T, E, F, Fut, W, B, BackFut>(
        &self,
        call: F,
        when: W,
        fallback: B,
    ) -> Result<T, CallError<E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
        W: FnOnce(&CallError<E>) -> bool,
        B: FnOnce(CallError<E>) -> BackFut,
        BackFut: Future<Output = Result<T, E>>,
    {
        let error = match self.call(call).await {
            Err(error) if when(&error) => error,
            other => return other,
        };
        let missed = Missed::from(&error);
        let value = fallback(error).await.map_err(CallError::Failed)?;
        self.fell_back(missed);
        Ok(value)
    }

    /// The same as [`call_or`](Self::call_or) for a call that was made already, as by [`call_with`](Self::call_with).
    ///
    /// # Errors
    /// What the fallback hands back.
    pub fn or<T, E>(
        &self,
        result: Result<T, CallError<E>>,
        fallback: impl FnOnce(CallError<E>) -> Result<T, CallError<E>>,
    ) -> Result<T, CallError<E>> {
        let error = match result {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let missed = Missed::from(&error);
        let value = fallback(error)?;
        self.fell_back(missed);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{plate::Plate, rejected::NoProbe, state::Freshness};

    #[test]
    fn a_rejection_is_found_whatever_the_calls_own_error_is_and_a_failure_is_none() {
        let plate = Plate::of("call/unit-test");
        let rejected = Rejected::looked_at(plate, Reason::Open, NoProbe::Taken, Freshness::Fresh, 0, None);
        let error: CallError<std::io::Error> = CallError::Rejected(rejected);
        assert_eq!(Rejected::in_error(&error), Some(&rejected));
        let boxed: Box<dyn Error> = Box::new(std::io::Error::other(error));
        assert_eq!(Rejected::in_error(&*boxed), Some(&rejected), "wrapped");
        let failed: CallError<std::io::Error> = CallError::Failed(std::io::Error::other("refused"));
        assert!(Rejected::in_error(&failed).is_none());
    }
}
