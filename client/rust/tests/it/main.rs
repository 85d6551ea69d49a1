//! The client through its public door: against the real server, against one that misbehaves on command, and alone.

mod alone;
mod fake;
mod misbehaving;
mod panel;
mod protocol;
mod with_a_panel;

use std::time::{Duration, Instant};

/// Far longer than anything takes here that works.
const BOUND: Duration = Duration::from_secs(20);

/// Waits until something is true.
async fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < BOUND, "not in {BOUND:?}: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits for something that must come.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.unwrap_or_else(|_| panic!("not in {BOUND:?}: {what}"))
}
