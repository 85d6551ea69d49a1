//! One file on disk, for a server by itself. The default.

mod file;
mod held;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use redb::Database;

use super::Store;
use super::batch::Batch;
use super::error::{CommitError, Fault};
use super::record::{Key, Record, StoreId, Version};

use held::HeldFile;

pub use file::{FILE_NAME, OpenError};

/// A store in one [redb](https://docs.rs/redb) file.
///
/// After a failed write redb refuses the file until it is opened anew, even when the disk has room again. So a
/// failure closes it, and the next call opens it again; the file stays locked against other processes meanwhile. Each attempt
/// reads the whole file, so callers wait between attempts.
#[derive(Debug)]
pub struct Embedded {
    path: PathBuf,
    id: StoreId,
    /// Shared by whoever reads or writes, exclusive for whoever opens or closes.
    slot: RwLock<Slot>,
    /// Keeps the file locked whatever becomes of `slot`; below it, so that the file is closed before it is unlocked.
    file: HeldFile,
}

#[derive(Debug)]
enum Slot {
    Open { database: Database },
    Failed { reason: String },
}

impl Embedded {
    /// Opens [`FILE_NAME`] in this directory, making both if they do not exist; a store that is made gets the identity
    /// `fresh`.
    pub fn open(dir: &Path, fresh: StoreId) -> Result<Self, OpenError> {
        let file::Opened { path, database, file, id } = file::open(dir, fresh)?;
        Ok(Self { path, id, slot: RwLock::new(Slot::Open { database }), file })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs a transaction, on a file opened anew if the last one failed.
    fn transact<T>(&self, run: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, Fault> {
        self.recover()?;
        let slot = self.slot.read().unwrap_or_else(PoisonError::into_inner);
        let result = match &*slot {
            Slot::Open { database } => run(database),
            // Somebody else's transaction failed since.
            Slot::Failed { reason } => return Err(Fault::Unavailable { reason: reason.clone() }),
        };
        drop(slot);
        result.map_err(|err| self.fail(err))
    }

    /// Opens the file again if it was closed by a failure.
    fn recover(&self) -> Result<(), Fault> {
        if let Slot::Open { .. } = &*self.slot.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(());
        }
        let mut slot = self.slot.write().unwrap_or_else(PoisonError::into_inner);
        let Slot::Failed { reason } = &*slot else { return Ok(()) };
        let database = file::reopen(&self.path, &self.file, self.id)?;
        tracing::info!(path = %self.path.display(), after = %reason, "the store is open again");
        *slot = Slot::Open { database };
        Ok(())
    }

    /// Closes the file: whatever redb holds in memory is not to be trusted after a failure.
    fn fail(&self, err: redb::Error) -> Fault {
        let fault = fault_of(&self.path, err);
        *self.slot.write().unwrap_or_else(PoisonError::into_inner) =
            Slot::Failed { reason: fault.to_string() };
        fault
    }
}

impl Store for Embedded {
    fn id(&self) -> StoreId {
        self.id
    }

    fn get(&self, key: &Key) -> Result<Option<Record>, Fault> {
        self.transact(|database| tables::get(database, key))
    }

    fn scan(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Record>, Fault> {
        self.transact(|database| tables::scan(database, prefix, after, limit))
    }

    fn commit(&self, batch: &Batch) -> Result<Version, CommitError> {
        self.transact(|database| tables::commit(database, batch))?
    }

    fn next_epoch(&self, now_unix_ms: u64) -> Result<u64, Fault> {
        self.transact(|database| tables::next_epoch(database, now_unix_ms))?
    }
}

/// What an error of redb means to a caller.
fn fault_of(path: &Path, err: redb::Error) -> Fault {
    use std::io::ErrorKind;

    let reason = format!("{}: {err}", path.display());
    match err {
        // The file ends early or holds what redb did not write.
        redb::Error::Io(io) if matches!(io.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData) => {
            Fault::Corrupt { reason }
        }
        redb::Error::Corrupted(_)
        | redb::Error::TableDoesNotExist(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TypeDefinitionChanged { .. } => Fault::Corrupt { reason },
        _ => Fault::Unavailable { reason },
    }
}
