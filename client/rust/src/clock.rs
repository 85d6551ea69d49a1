//! The one place that reads a clock. Everything else is told what time it is.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use panelboard_core::Timestamp;

/// A monotonic clock that began with its client. A step of the wall clock does not move it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::ZERO.plus(self.origin.elapsed())
    }

    /// The instant that `at` stands for, never before it: a timer set to it does not fire early.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        // A year is as good as never, and cannot overflow an instant.
        let span = at.since(Timestamp::ZERO).min(Duration::from_secs(365 * 24 * 3600));
        self.origin + span
    }
}

/// When a call began, for its duration. The processor's own counter where there is one that can be relied on: calls
/// are timed at both ends, and this costs less than half of what the system's clock does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u64);

impl Mark {
    /// For calls that are not timed.
    pub(crate) const UNTIMED: Self = Self(0);

    #[inline]
    pub(crate) fn now() -> Self {
        Self(ticks().raw())
    }

    #[inline]
    pub(crate) fn elapsed(self) -> Duration {
        if self.0 == 0 {
            return Duration::ZERO;
        }
        let ticks = ticks();
        Duration::from_nanos(ticks.delta_as_nanos(self.0, ticks.raw()))
    }
}

/// Calibrated once per process, in about a millisecond.
#[inline]
pub(crate) fn ticks() -> &'static quanta::Clock {
    static TICKS: OnceLock<quanta::Clock> = OnceLock::new();
    TICKS.get_or_init(quanta::Clock::new)
}
