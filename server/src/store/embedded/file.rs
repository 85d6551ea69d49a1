//! Making, locking and opening the file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use redb::{Builder, Database, DatabaseError};

use super::held::HeldFile;
use super::tables::{self, FORMAT_NOW};
use super::{StoreId, fault_of};
use crate::store::Fault;

/// The file's name in the data directory.
pub const FILE_NAME: &str = "panelboard.redb";

/// A new store gets its own name only when it is whole, so that a crash while it is made leaves none.
const UNFINISHED_NAME: &str = "panelboard.redb.new";

/// redb would take up to a gigabyte. A store of 100,000 breakers is some tens of megabytes.
const CACHE_BYTES: usize = 64 << 20;

/// An open file.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) database: Database,
    pub(super) file: HeldFile,
    pub(super) id: StoreId,
}

/// Opens the store in this directory, or makes one with the identity `fresh`.
pub(super) fn open(dir: &Path, fresh: StoreId) -> Result<Opened, OpenError> {
    fs::create_dir_all(dir).map_err(|source| OpenError::Directory { dir: dir.to_owned(), source })?;
    let path = dir.join(FILE_NAME);
    if !path.try_exists().map_err(|source| io_error(&path, source))?
        && let Some(opened) = create(dir, &path, fresh)?
    {
        return Ok(opened);
    }
    open_existing(path)
}

/// Opens the file again after a failure.
pub(super) fn reopen(path: &Path, file: &HeldFile, id: StoreId) -> Result<Database, Fault> {
    let corrupt = |reason| Fault::Corrupt { reason };
    let empty =
        file.metadata().map_err(|err| Fault::Unavailable { reason: io_error(path, err).to_string() })?.len()
            == 0;
    if empty {
        return Err(corrupt(OpenError::Empty { path: path.to_owned() }.to_string()));
    }
    let database = match catching(|| database(file)) {
        Ok(Ok(database)) => database,
        Ok(Err(err)) => return Err(fault_of(path, err.into())),
        Err(panicked) => return Err(corrupt(format!("{}: {panicked}", path.display()))),
    };
    let found = tables::about(&database).map_err(|err| fault_of(path, err))?.id;
    if found != id {
        return Err(corrupt(format!("{} is store {found} now and was {id}", path.display())));
    }
    Ok(database)
}

/// Makes a store, unless somebody else has by the time we hold the lock.
fn create(dir: &Path, path: &Path, id: StoreId) -> Result<Option<Opened>, OpenError> {
    let unfinished = dir.join(UNFINISHED_NAME);
    let file = lock(open_file(OpenOptions::new().create(true).truncate(false), &unfinished)?, path)?;
    // Our file may have become the store of another process between our opening it and locking it.
    if path.try_exists().map_err(|source| io_error(path, source))? {
        // Nobody makes a store any more, so whoever made this name has no use for it. If it is gone, so much the better.
        let _ = fs::remove_file(&unfinished);
        return Ok(None);
    }
    // Whatever a crash left there.
    file.set_len(0).map_err(|source| io_error(&unfinished, source))?;
    let database = database(&file).map_err(|err| open_error(path, err.into()))?;
    tables::create(&database, id).map_err(|err| open_error(path, err))?;
    fs::rename(&unfinished, path).and_then(|()| sync_dir(dir)).map_err(|source| io_error(path, source))?;
    Ok(Some(Opened { path: path.to_owned(), database, file, id }))
}

fn open_existing(path: PathBuf) -> Result<Opened, OpenError> {
    let file = lock(open_file(&mut OpenOptions::new(), &path)?, &path)?;
    // redb would make a new store of an empty file, and everything stored would be gone without a word.
    if file.metadata().map_err(|source| io_error(&path, source))?.len() == 0 {
        return Err(OpenError::Empty { path });
    }
    let database = match catching(|| database(&file)) {
        Ok(Ok(database)) => database,
        Ok(Err(DatabaseError::UpgradeRequired(version))) => {
            return Err(OpenError::NotAStore {
                path,
                found: format!("a redb file of the old format {version}"),
            });
        }
        Ok(Err(err)) => return Err(open_error(&path, err.into())),
        Err(panicked) => return Err(OpenError::Damaged { path, reason: panicked }),
    };
    let about = match tables::about(&database) {
        Ok(about) => about,
        Err(redb::Error::TableDoesNotExist(_) | redb::Error::TableTypeMismatch { .. }) => {
            return Err(OpenError::NotAStore { path, found: "a redb file with other tables".to_owned() });
        }
        Err(err) => return Err(open_error(&path, err)),
    };
    if about.format != FORMAT_NOW {
        return Err(OpenError::OtherFormat { path, found: about.format });
    }
    Ok(Opened { path, database, file, id: about.id })
}

/// Opens the file with redb. The check reads all of it, and turns into an error what would panic later.
fn database(file: &HeldFile) -> Result<Database, DatabaseError> {
    Builder::new()
        .set_cache_size(CACHE_BYTES)
        .set_check_integrity_on_open(true)
        .create_with_backend(file.backend()?)
}

/// redb asserts that a file is what it wrote; a file that is not must be an error, never the end of the process.
fn catching<T>(open: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(open)).map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("it cannot be read").to_owned()
    })
}

fn open_file(options: &mut OpenOptions, path: &Path) -> Result<File, OpenError> {
    options.read(true).write(true).open(path).map_err(|source| io_error(path, source))
}

fn lock(file: File, path: &Path) -> Result<HeldFile, OpenError> {
    HeldFile::lock(file).map_err(|err| match err {
        TryLockError::WouldBlock => OpenError::Locked { path: path.to_owned() },
        TryLockError::Error(source) => io_error(path, source),
    })
}

/// Makes a rename durable.
fn sync_dir(dir: &Path) -> io::Result<()> {
    // Only Unix can open a directory as a file.
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}

fn io_error(path: &Path, source: io::Error) -> OpenError {
    OpenError::Io { path: path.to_owned(), source }
}

fn open_error(path: &Path, err: redb::Error) -> OpenError {
    let path = path.to_owned();
    match err {
        redb::Error::Io(io) if io.kind() == io::ErrorKind::InvalidData => {
            OpenError::NotAStore { path, found: io.to_string() }
        }
        redb::Error::Io(io) if io.kind() == io::ErrorKind::UnexpectedEof => {
            OpenError::Damaged { path, reason: "it ends too early".to_owned() }
        }
        redb::Error::Io(source) => OpenError::Io { path, source },
        other => OpenError::Damaged { path, reason: other.to_string() },
    }
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The data directory cannot be made or used.
    #[error("cannot use {} as the data directory: {source}; make it writable, or name another with --data-dir", dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be opened, locked, read or written.
    #[error("cannot open {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("{} is in use by another process: stop that one, or name another directory with --data-dir", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// It exists and holds nothing. No server leaves it so: it was truncated.
    #[error("{} is empty, so it was truncated: restore it from a backup, or delete it to start without the policies, \
             overrides and breaker states it held", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It is something else.
    #[error("{} is not a Panelboard store ({found}): move it away, or name another directory with --data-dir", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        found: String,
    },
    /// It was a store and cannot be read.
    #[error("{} is damaged ({reason}): restore it from a backup, or move it away to start without the policies, \
             overrides and breaker states it held", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// A version of Panelboard that this one does not know wrote it.
    #[error("{} has format {found} and this version reads format {FORMAT_NOW}: start the version that wrote it", path.display())]
    OtherFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u128,
    },
}
