//! What is written in one commit.

use std::collections::BTreeMap;

use super::record::{Key, Value, Version};
use crate::limits::STORE_BATCH_WRITES;

/// What must be true of a record for it to be written. There is no write without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// No record has this key.
    Absent,
    /// The record is still at this version.
    At(Version),
}

impl Precondition {
    /// Whether it holds for a record at `current`.
    pub(super) fn holds(self, current: Option<Version>) -> bool {
        match self {
            Precondition::Absent => current.is_none(),
            Precondition::At(version) => current == Some(version),
        }
    }
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Makes or replaces a record.
    Put {
        /// Where.
        key: Key,
        /// What it will hold.
        value: Value,
        /// If this holds.
        when: Precondition,
    },
    /// Removes a record.
    Delete {
        /// Where.
        key: Key,
        /// If it is still at this version.
        at: Version,
    },
}

impl Write {
    /// The record it is about.
    pub fn key(&self) -> &Key {
        match self {
            Write::Put { key, .. } | Write::Delete { key, .. } => key,
        }
    }

    /// What must be true of that record.
    pub fn precondition(&self) -> Precondition {
        match self {
            Write::Put { when, .. } => *when,
            Write::Delete { at, .. } => Precondition::At(*at),
        }
    }
}

/// Writes that happen together or not at all: at most one per record, at most [`STORE_BATCH_WRITES`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    writes: BTreeMap<Key, Write>,
}

impl Batch {
    /// Without writes.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one write.
    pub fn of(write: Write) -> Self {
        Self { writes: BTreeMap::from([(write.key().clone(), write)]) }
    }

    /// Adds a write.
    pub fn push(&mut self, write: Write) -> Result<(), BatchError> {
        if self.writes.contains_key(write.key()) {
            return Err(BatchError::Repeated { key: write.key().clone() });
        }
        if self.writes.len() >= STORE_BATCH_WRITES {
            return Err(BatchError::Full);
        }
        self.writes.insert(write.key().clone(), write);
        Ok(())
    }

    /// Takes a write out again, such as one that was in conflict.
    pub fn remove(&mut self, key: &Key) -> Option<Write> {
        self.writes.remove(key)
    }

    /// The writes, in byte order of their keys.
    pub fn writes(&self) -> impl ExactSizeIterator<Item = &Write> {
        self.writes.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

/// Why a write cannot join a batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The batch already writes this record, and which of the two is meant to last is not for the store to guess.
    #[error("the batch already has a write of {key}")]
    Repeated {
        /// The record.
        key: Key,
    },
    /// The batch is full: commit it and begin another.
    #[error("a batch has at most {STORE_BATCH_WRITES} writes: commit it and begin another")]
    Full,
}
