//! The one place where the server reads a clock. The rules get time as an argument.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use panelboard_core::Timestamp;
use tokio::sync::watch;

/// The server's clock: milliseconds since it started, and the wall clock for people and for the store.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System { started: Instant },
    Manual { now_ms: Arc<watch::Sender<u64>>, started_unix_ms: u64 },
}

impl Clock {
    /// The machine's clock. Its ticks never go back, whatever is done to the wall clock.
    pub fn system() -> Self {
        Self(Source::System { started: Instant::now() })
    }

    /// A clock that stands still until it is advanced: for tests that would have to wait otherwise.
    pub fn manual() -> Self {
        let (now_ms, _) = watch::channel(0);
        Self(Source::Manual { now_ms: Arc::new(now_ms), started_unix_ms: system_unix_ms() })
    }

    /// Advances a manual clock and wakes whoever waits for it. Does nothing to the machine's clock.
    pub fn advance(&self, span: Duration) {
        if let Source::Manual { now_ms, .. } = &self.0 {
            let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
            now_ms.send_modify(|now| *now = now.saturating_add(millis));
        }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System { started } => Timestamp::ZERO.plus(started.elapsed()),
            Source::Manual { now_ms, .. } => Timestamp::from_millis(*now_ms.borrow()),
        }
    }

    /// The wall clock, in milliseconds since the Unix epoch.
    pub fn unix_ms(&self) -> u64 {
        match &self.0 {
            Source::System { .. } => system_unix_ms(),
            Source::Manual { now_ms, started_unix_ms } => started_unix_ms.saturating_add(*now_ms.borrow()),
        }
    }

    /// Waits until `at`.
    pub async fn sleep_until(&self, at: Timestamp) {
        match &self.0 {
            Source::System { .. } => tokio::time::sleep(at.since(self.now())).await,
            Source::Manual { now_ms, .. } => {
                let mut now = now_ms.subscribe();
                // The sender lives in this clock, so the channel cannot be closed.
                let _ = now.wait_for(|now| *now >= at.as_millis()).await;
            }
        }
    }
}

fn system_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
