//! The end of the server: told to everyone who has to finish.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

/// Whether the server is ending, and how long what is open may take to end.
#[derive(Clone, Debug)]
pub(crate) struct Drain {
    grace: watch::Receiver<Option<Duration>>,
}

/// Starts the end.
#[derive(Clone, Debug)]
pub(crate) struct Drainer(Arc<watch::Sender<Option<Duration>>>);

/// A server that is not ending.
pub(crate) fn drain() -> (Drainer, Drain) {
    let (sender, grace) = watch::channel(None);
    (Drainer(Arc::new(sender)), Drain { grace })
}

impl Drainer {
    /// Starts the end: streams are to end within `grace`.
    pub(crate) fn start(&self, grace: Duration) {
        self.0.send_replace(Some(grace));
    }
}

impl Drain {
    /// Whether the end has started.
    pub(crate) fn has_started(&self) -> bool {
        self.grace.borrow().is_some()
    }

    /// Waits for the end to start, and says how long it may take.
    pub(crate) async fn started(&self) -> Duration {
        let mut grace = self.grace.clone();
        match grace.wait_for(Option::is_some).await {
            Ok(grace) => grace.unwrap_or_default(),
            // Whoever could start it is gone: so is the server.
            Err(_) => Duration::ZERO,
        }
    }
}
