//! Whether the client's thread looks often, because something may trip, or waits to be told.

use crate::sync::{AtomicBool, Ordering, fence};

/// Set while the client's thread comes by itself within a few milliseconds.
///
/// A caller that recorded something that may trip calls [`is_brisk`](Self::is_brisk) *after* that, and sees to it that
/// somebody looks if it is false. The collecting side calls [`rest`](Self::rest) *before* its last look. Between the
/// two nothing is overlooked.
#[derive(Debug)]
pub struct Pace(AtomicBool);

impl Pace {
    /// At rest.
    pub fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Whether somebody looks soon anyway. After what was recorded.
    #[inline]
    pub fn is_brisk(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed)
    }

    /// From here on somebody looks soon, again and again.
    pub fn quicken(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// From here on callers must say so themselves. Before the last look.
    pub fn rest(&self) {
        self.0.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}
