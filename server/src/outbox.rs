//! Every change of every breaker, in the order in which they are published and persisted.
//!
//! A change is put here while its breaker's lock is held, so the changes of one breaker are in order; one task takes
//! them out and hands them on. Nothing waits here: the task never blocks, so what is held stays small.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use panelboard_core::{BreakerName, Instance, Quarantine, Status, Transition, WouldOpen};
use panelboard_proto::{store, v1};
use tokio::sync::Notify;

/// One change of one breaker.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    /// Its place in the server's stream of changes.
    pub(crate) position: u64,
    /// The breaker.
    pub(crate) name: BreakerName,
    /// What changed.
    pub(crate) what: What,
}

/// What changed.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// The breaker has a new value.
    Changed {
        /// The value.
        status: Box<Status>,
        /// The transition that began its state.
        last: Option<Arc<v1::Transition>>,
        /// What the change was.
        event: Event,
        /// What is to be stored, if this change has to survive a restart.
        stored: Option<Box<store::StoredBreaker>>,
    },
    /// One instance has a new value; to all others nothing changed.
    ChangedFor {
        /// The instance.
        instance: Instance,
        /// The value.
        status: Box<Status>,
        /// The transition that began its state.
        last: Option<Arc<v1::Transition>>,
        /// What happened to the instance.
        quarantine: Arc<Quarantine>,
    },
    /// The breaker is gone.
    Deleted {
        /// The revision of its deletion.
        version: panelboard_core::Version,
        /// Whether its incidents are kept for when it comes back: it was only idle.
        keeps_history: bool,
    },
}

/// What a change was.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The breaker came to exist.
    Created,
    /// Its state changed.
    Transition {
        /// As the rules gave it.
        transition: Arc<Transition>,
        /// The incidents that it changed, as they are now.
        incidents: Vec<Arc<v1::Incident>>,
    },
    /// Under METRICS_ONLY a rule is crossed, or is not any more.
    WouldOpen {
        /// What would have opened it, if that begins a new incident.
        news: Option<Arc<WouldOpen>>,
        /// The incident that it belongs to, as it is now.
        incident: Option<Arc<v1::Incident>>,
    },
    /// Anything else that watchers must see.
    Other,
}

/// The outbox.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: Mutex<Vec<Posted>>,
    /// The position of the newest change. Written under the queue's lock.
    tail: AtomicU64,
    wake: Notify,
}

impl Outbox {
    /// The revision that the next change of a breaker gets. Call it with the breaker's lock held: every earlier change
    /// of that breaker is then in the outbox, and the number is above all of theirs.
    pub(crate) fn next_revision(&self) -> u64 {
        self.tail.load(Ordering::Acquire) + 1
    }

    /// The position of the newest change.
    pub(crate) fn position(&self) -> u64 {
        self.tail.load(Ordering::Acquire)
    }

    /// Puts a change in, and says at what position.
    pub(crate) fn post(&self, name: BreakerName, what: What) -> u64 {
        let position = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let position = self.tail.load(Ordering::Relaxed) + 1;
            queue.push(Posted { position, name, what });
            self.tail.store(position, Ordering::Release);
            position
        };
        self.wake.notify_one();
        position
    }

    /// Waits for changes and takes all there are, in order. For one task.
    pub(crate) async fn take(&self) -> Vec<Posted> {
        loop {
            let taken = std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner));
            if !taken.is_empty() {
                return taken;
            }
            self.wake.notified().await;
        }
    }
}
