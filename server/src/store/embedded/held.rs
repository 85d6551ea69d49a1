//! A locked file, and the same file as redb sees it.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::{Bound, Deref};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

/// A file that is locked against other processes for as long as this lives.
///
/// The lock is ours and not redb's, so that it holds while redb closes the file and opens it again. Otherwise
/// another server could take the file over in between, and both would believe it theirs.
#[derive(Debug)]
pub(super) struct HeldFile {
    file: File,
}

impl HeldFile {
    /// Locks the file, unless somebody else has.
    pub(super) fn lock(file: File) -> Result<Self, TryLockError> {
        file.try_lock()?;
        Ok(Self { file })
    }

    /// The file for redb to read and write.
    pub(super) fn backend(&self) -> Result<Backend, DatabaseError> {
        Ok(Backend { inner: FileBackend::new(self.file.try_clone()?)? })
    }
}

impl Deref for HeldFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for HeldFile {
    /// Closing would unlock it too, but only when the last copy is closed, and a process that is being started has one
    /// for a moment.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// A held file that redb need not lock.
#[derive(Debug)]
pub(super) struct Backend {
    inner: FileBackend,
}

impl StorageBackend for Backend {
    fn len(&self) -> Result<u64, io::Error> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.inner.write(offset, data)
    }

    /// Every part of the file is locked.
    fn try_lock_range(&self, _start: Bound<u64>, _end: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    /// And stays so.
    fn unlock_range(&self, _start: Bound<u64>, _end: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }
}
