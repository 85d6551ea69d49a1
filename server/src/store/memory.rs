//! The reference: everything in a map, gone with the process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Store;
use super::batch::{Batch, Write};
use super::error::{CommitError, Conflict, Fault};
use super::record::{Key, Record, StoreId, Value, Version};

/// A store without a disk, for tests and for servers that need to remember nothing.
#[derive(Debug)]
pub struct Memory {
    id: StoreId,
    // A std mutex: held for a look-up or a batch, never across an await.
    contents: Mutex<Contents>,
}

#[derive(Debug)]
struct Contents {
    records: BTreeMap<Key, (Version, Value)>,
    version: Version,
    epoch: u64,
}

impl Memory {
    /// An empty store with this identity.
    pub fn new(id: StoreId) -> Self {
        let contents = Contents { records: BTreeMap::new(), version: Version::INITIAL, epoch: 0 };
        Self { id, contents: Mutex::new(contents) }
    }

    /// Nothing in here panics between two changes that belong together, so a poisoned lock still guards whole contents.
    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Memory {
    fn id(&self) -> StoreId {
        self.id
    }

    fn get(&self, key: &Key) -> Result<Option<Record>, Fault> {
        let contents = self.contents();
        Ok(contents.records.get(key).map(|stored| record(key, stored)))
    }

    fn scan(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Record>, Fault> {
        let contents = self.contents();
        let start = match after {
            Some(after) if after.as_str() >= prefix => Bound::Excluded(after.as_str()),
            _ => Bound::Included(prefix),
        };
        Ok(contents
            .records
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(key, _)| key.as_str().starts_with(prefix))
            .take(limit)
            .map(|(key, stored)| record(key, stored))
            .collect())
    }

    fn commit(&self, batch: &Batch) -> Result<Version, CommitError> {
        let mut contents = self.contents();
        if batch.is_empty() {
            return Ok(contents.version);
        }
        let conflicts: Vec<Conflict> = batch
            .writes()
            .map(|write| (write, contents.records.get(write.key()).map(|(version, _)| *version)))
            .filter(|(write, current)| !write.precondition().holds(*current))
            .map(|(write, current)| Conflict { key: write.key().clone(), current })
            .collect();
        if !conflicts.is_empty() {
            return Err(CommitError::Conflict(conflicts));
        }
        let version = contents.version.next().ok_or_else(no_more_versions)?;
        contents.version = version;
        for write in batch.writes() {
            match write {
                Write::Put { key, value, .. } => {
                    contents.records.insert(key.clone(), (version, value.clone()));
                }
                Write::Delete { key, .. } => {
                    contents.records.remove(key);
                }
            }
        }
        Ok(version)
    }

    fn next_epoch(&self, now_unix_ms: u64) -> Result<u64, Fault> {
        let mut contents = self.contents();
        let epoch = epoch_after(contents.epoch, now_unix_ms)?;
        contents.epoch = epoch;
        Ok(epoch)
    }
}

fn record(key: &Key, (version, value): &(Version, Value)) -> Record {
    Record { key: key.clone(), version: *version, value: value.clone() }
}

/// The epoch after `last`.
pub(super) fn epoch_after(last: u64, now_unix_ms: u64) -> Result<u64, Fault> {
    match last.checked_add(1) {
        Some(next) => Ok(next.max(now_unix_ms)),
        None => {
            Err(Fault::Corrupt { reason: format!("the last epoch is {last}, and there is none after it") })
        }
    }
}

/// What a store answers when its versions are used up.
pub(super) fn no_more_versions() -> Fault {
    Fault::Corrupt { reason: format!("the last version is {}, and there is none after it", u64::MAX) }
}
