//! The store from a runtime's threads.

use std::sync::Arc;

use super::Store;
use super::batch::Batch;
use super::error::{CommitError, Fault};
use super::record::{Key, Record, StoreId, Version};

/// A cheap, clonable way to a store from async code: each call runs on a thread where blocking hurts nobody.
///
/// A call whose future is dropped still runs to its end: a dropped [`commit`](Handle::commit) may have been written.
#[derive(Debug, Clone)]
pub struct Handle {
    store: Arc<dyn Store>,
}

impl Handle {
    /// A handle to this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// See [`Store::id`].
    pub fn id(&self) -> StoreId {
        self.store.id()
    }

    /// See [`Store::get`].
    pub async fn get(&self, key: Key) -> Result<Option<Record>, Fault> {
        self.run(move |store| store.get(&key)).await?
    }

    /// See [`Store::scan_all`].
    pub async fn scan_all(&self, prefix: &'static str) -> Result<Vec<Record>, Fault> {
        self.run(move |store| store.scan_all(prefix)).await?
    }

    /// See [`Store::commit`].
    pub async fn commit(&self, batch: Batch) -> Result<Version, CommitError> {
        self.run(move |store| store.commit(&batch)).await?
    }

    /// See [`Store::next_epoch`].
    pub async fn next_epoch(&self, now_unix_ms: u64) -> Result<u64, Fault> {
        self.run(move |store| store.next_epoch(now_unix_ms)).await?
    }

    async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Store) -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let store = Arc::clone(&self.store);
        tokio::task::spawn_blocking(move || call(store.as_ref()))
            .await
            .map_err(|err| Fault::Unavailable { reason: format!("its thread ended early: {err}") })
    }
}
