//! A subscriber: a dirty set and a bell.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Mutex, PoisonError},
};

use panelboard_core::{BreakerName, Instance};
use tokio::sync::Notify;

use super::Selection;

/// Who watches a selection.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(super) id: u64,
    pub(super) instance: Instance,
    pub(super) selection: Selection,
    dirty: Mutex<Dirty>,
    bell: Notify,
}

/// Names whose latest value is owed, each once, in the order in which they were marked first.
#[derive(Debug, Default)]
struct Dirty {
    order: VecDeque<BreakerName>,
    marked: HashSet<BreakerName>,
}

impl Subscriber {
    pub(super) fn new(id: u64, instance: Instance, selection: Selection) -> Self {
        Self { id, instance, selection, dirty: Mutex::default(), bell: Notify::new() }
    }

    /// Marks a name. As many marks as there are breakers is the most there can be.
    pub(super) fn mark(&self, name: &BreakerName) {
        {
            let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
            if dirty.marked.insert(name.clone()) {
                dirty.order.push_back(name.clone());
            }
        }
        self.bell.notify_one();
    }

    pub(super) fn take(&self, most: usize) -> Vec<BreakerName> {
        let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        let most = most.min(dirty.order.len());
        let names: Vec<_> = dirty.order.drain(..most).collect();
        for name in &names {
            dirty.marked.remove(name);
        }
        names
    }

    /// Waits until something may be owed.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }
}
