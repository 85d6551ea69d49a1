//! Which cell to look at when.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use panelboard_core::Timestamp;

use crate::slot::Slot;

/// One time per cell.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    by_time: BTreeMap<(Timestamp, usize), Arc<Slot>>,
    times: HashMap<usize, Timestamp>,
}

impl Schedule {
    pub(super) fn put(&mut self, slot: Arc<Slot>, at: Timestamp) {
        self.forget(&slot);
        let key = key(&slot);
        self.times.insert(key, at);
        self.by_time.insert((at, key), slot);
    }

    pub(super) fn forget(&mut self, slot: &Arc<Slot>) {
        let key = key(slot);
        if let Some(at) = self.times.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    /// Takes out what is due.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<Arc<Slot>> {
        let mut due = Vec::new();
        while let Some(entry) = self.by_time.first_entry().filter(|entry| entry.key().0 <= now) {
            let (_, key) = *entry.key();
            due.push(entry.remove());
            self.times.remove(&key);
        }
        due
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.by_time.first_key_value().map(|((at, _), _)| *at)
    }
}

/// The address: a slot never moves while the schedule holds it.
fn key(slot: &Arc<Slot>) -> usize {
    Arc::as_ptr(slot) as usize
}
