//! The one place that reads a clock. Everything else is told what time it is.

use std::time::{Duration, Instant};

use panelboard_core::Timestamp;

/// A monotonic clock that began with its client. A step of the wall clock does not move it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

/// When something began, finer than a [`Timestamp`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::ZERO.plus(self.origin.elapsed())
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark(Instant::now())
    }

    /// The instant that `at` stands for, never before it: a timer set to it does not fire early.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        // A year is as good as never, and cannot overflow an instant.
        let span = at.since(Timestamp::ZERO).min(Duration::from_secs(365 * 24 * 3600));
        self.origin + span
    }
}

impl Mark {
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
