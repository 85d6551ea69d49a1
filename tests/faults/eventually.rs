//! Waiting for events, with bounds that allow for a machine that is busy with something else.

use std::{
    future::Future,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// How often something is looked at that cannot tell by itself.
const LOOK: Duration = Duration::from_millis(5);
/// What anything may take beyond what is documented, on a machine with nothing else to do.
const MARGIN: Duration = Duration::from_millis(500);

/// The longest time for which a thread of this process that wanted to run could not, in milliseconds.
static STALLED: AtomicU64 = AtomicU64::new(0);

/// Starts to observe how long threads have to wait for a core.
pub(crate) fn keep_time() {
    let observe = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            // Ends with the process.
            loop {
                let began = Instant::now();
                tokio::time::sleep(LOOK).await;
                let late = began.elapsed().saturating_sub(LOOK).as_millis();
                STALLED.fetch_max(u64::try_from(late).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        });
    };
    drop(std::thread::Builder::new().name("time-keeper".into()).spawn(observe).expect("a thread"));
}

/// The longest time for which this process could not run although it wanted to.
pub(crate) fn stalled() -> Duration {
    Duration::from_millis(STALLED.load(Ordering::Relaxed))
}

/// What may be added to each upper bound; never to a lower one.
pub(crate) fn slack() -> Duration {
    MARGIN + 2 * stalled()
}

/// Waits until something is true, and panics if it is not within the bound. Returns how long it took.
pub(crate) async fn until(what: &str, bound: Duration, mut is_true: impl FnMut() -> bool) -> Duration {
    until_some(what, bound, async || is_true().then_some(())).await.1
}

/// The same for something that is asked for, and may not be there yet.
pub(crate) async fn until_some<T>(
    what: &str,
    bound: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> (T, Duration) {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return (found, began.elapsed());
        }
        let waited = began.elapsed();
        assert!(waited <= bound + slack(), "not within {bound:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits for a future that must end.
pub(crate) async fn within<T>(what: &str, bound: Duration, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(bound + slack(), future).await {
        Ok(done) => done,
        Err(_) => panic!("not within {bound:?}: {what}"),
    }
}
