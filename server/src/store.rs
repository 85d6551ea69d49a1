//! The store: what must outlive the process, as bytes under keys.
//!
//! It knows nothing of breakers or policies. One contract, [`Store`], and one suite of tests that every store passes;
//! [`Memory`] is the reference, [`Embedded`] one file on disk.

mod batch;
mod embedded;
mod error;
mod handle;
mod memory;
mod record;

use std::fmt;

pub use batch::{Batch, BatchError, Precondition, Write};
pub use embedded::{Embedded, FILE_NAME, OpenError};
pub use error::{CommitError, Conflict, Fault};
pub use handle::Handle;
pub use memory::Memory;
pub use record::{Key, KeyError, Record, StoreId, Value, ValueError, Version};

/// Records with versions, written only under preconditions.
///
/// - A [`Batch`] is written whole or not at all, and is durable when [`commit`](Store::commit) returns.
/// - Every commit gets a [`Version`] above all earlier ones, of any record, for the life of the store: a record
///   deleted and made again never repeats one.
/// - Readers see whole batches only.
///
/// The methods block, because disks do and because a simulation must be able to step through them; a store that talks to a
/// network blocks on its own runtime. On a runtime's threads use [`Handle`], which moves each call to a thread where
/// blocking hurts nobody. Calls may come from several threads at once; commits take effect one after another.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Which store this is. Given to it when it was made and never changed, so that what was handed out about one
    /// store (a resume token) is not mistaken for another's.
    fn id(&self) -> StoreId;

    /// One record.
    fn get(&self, key: &Key) -> Result<Option<Record>, Fault>;

    /// Up to `limit` records whose keys begin with `prefix`, in byte order of the keys, those behind `after` only.
    ///
    /// Each page is a consistent view; several pages are so only if nobody writes in between.
    fn scan(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Record>, Fault>;

    /// Writes a batch, if every one of its preconditions holds, and says under which version.
    ///
    /// After [`Fault::Unavailable`] it is *unknown* whether the batch was written; sent again unchanged it either is
    /// written or conflicts with itself, and a read tells which. An empty batch changes nothing and gives the
    /// version of the last commit.
    fn commit(&self, batch: &Batch) -> Result<Version, CommitError>;

    /// Starts a new epoch, durable when this returns: one above the last, or the unix time in milliseconds if that is
    /// later. The time keeps epochs growing over a store that was lost or restored from a backup.
    fn next_epoch(&self, now_unix_ms: u64) -> Result<u64, Fault>;

    /// All records whose keys begin with `prefix`, in pages, in byte order of the keys.
    fn scan_all(&self, prefix: &str) -> Result<Vec<Record>, Fault> {
        // Bounds what a store has to hold in one answer, not what we hold.
        const PAGE: usize = 1_000;
        let mut records = Vec::new();
        loop {
            let page = self.scan(prefix, records.last().map(|record: &Record| &record.key), PAGE)?;
            let last = page.len() < PAGE;
            records.extend(page);
            if last {
                return Ok(records);
            }
        }
    }

    /// Writes one record.
    fn put(&self, key: Key, value: Value, when: Precondition) -> Result<Version, CommitError> {
        self.commit(&Batch::of(Write::Put { key, value, when }))
    }

    /// Deletes one record that is still at this version.
    fn delete(&self, key: Key, at: Version) -> Result<Version, CommitError> {
        self.commit(&Batch::of(Write::Delete { key, at }))
    }
}
