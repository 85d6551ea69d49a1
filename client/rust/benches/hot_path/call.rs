//! What all contestants do: ask, make the call, record how it went.

use std::{error::Error, fmt, hint::black_box};

/// One thread's way to a breaker.
pub(crate) trait Call {
    /// Asks, makes a call that succeeds, and records that. Whether it was admitted; if not, the refusal was looked at.
    fn succeed(&mut self) -> bool;
    /// The same with a call that fails.
    fn fail(&mut self) -> bool;
}

/// The call itself: as little as there can be that the compiler does not see through.
#[inline(always)]
pub(crate) fn work() -> Result<u64, Failed> {
    Ok(black_box(1))
}

#[inline(always)]
pub(crate) fn failing_work() -> Result<u64, Failed> {
    black_box(1_u64);
    Err(Failed)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed;

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("failed")
    }
}

impl Error for Failed {}
