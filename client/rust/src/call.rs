//! Calls through a breaker, in one step.

use std::{error::Error, fmt, future::Future};

use crate::{
    breaker::Breaker,
    fact::Observation,
    permit::plain,
    rejected::{Reason, Rejected},
};

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
            Self::Rejected(_) => None,
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
        let permit = self.acquire().await.map_err(CallError::Rejected)?;
        let result = call().await;
        permit.record_with(classify, result).map_err(CallError::Failed)
    }
}
