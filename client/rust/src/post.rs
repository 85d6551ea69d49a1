//! What handles and permits leave for the agent. Never blocks, and is bounded by the number of breakers.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use crate::{client::NotReady, clock::Clock, limits::WAITERS_MAX, mode::Mode, slot::Slot};

#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) clock: Clock,
    pub(crate) mode: Mode,
    pub(crate) probe_wait: Duration,
    mail: Mutex<Mail>,
    /// The agent is gone: nothing is left for it.
    closed: AtomicBool,
    pub(crate) notify: Notify,
}

/// All that lies there.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    /// Breakers that have something due; each at most once.
    pub(crate) due: Vec<Arc<Slot>>,
    /// Breakers that are new.
    pub(crate) made: Vec<Arc<Slot>>,
    /// Callers that wait for their breakers to be FRESH.
    pub(crate) readies: Vec<Ready>,
    /// The client ends; whoever waits for that is told.
    pub(crate) ending: bool,
    pub(crate) ended: Vec<oneshot::Sender<()>>,
}

#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) bound: Duration,
    pub(crate) slots: Vec<Arc<Slot>>,
    pub(crate) answer: oneshot::Sender<Result<(), NotReady>>,
}

impl Post {
    pub(crate) fn new(clock: Clock, mode: Mode, probe_wait: Duration) -> Self {
        let closed = AtomicBool::new(false);
        Self { clock, mode, probe_wait, mail: Mutex::default(), closed, notify: Notify::new() }
    }

    /// The breaker has something due.
    pub(crate) fn mail(&self, slot: &Arc<Slot>) {
        if !slot.mailed.swap(true, Ordering::AcqRel) {
            self.put(|mail| mail.due.push(Arc::clone(slot)));
        }
    }

    /// Leaves something else.
    pub(crate) fn put(&self, what: impl FnOnce(&mut Mail)) {
        let mut mail = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
        // Looked at under the lock, so that nothing is put in after the last look.
        if !self.closed.load(Ordering::Relaxed) {
            what(&mut mail);
            self.notify.notify_one();
        }
    }

    /// The agent ends. Returns what was left for it.
    pub(crate) fn close(&self) -> Mail {
        let mut mail = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
        self.closed.store(true, Ordering::Release);
        std::mem::take(&mut *mail)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits for readiness. False: too many wait already.
    pub(crate) fn ready(&self, ready: Ready) -> bool {
        let mut ready = Some(ready);
        self.put(|mail| {
            if mail.readies.len() < WAITERS_MAX {
                mail.readies.extend(ready.take());
            }
        });
        ready.is_none()
    }

    /// Takes all that lies there.
    pub(crate) fn take(&self) -> Mail {
        let mail = std::mem::take(&mut *self.mail.lock().unwrap_or_else(PoisonError::into_inner));
        for slot in &mail.due {
            // Before the agent looks: what becomes due from here on is mailed again.
            slot.mailed.store(false, Ordering::Release);
        }
        mail
    }
}
