//! What can go wrong, split by what a caller does about it.

use super::record::{Key, Version};

/// Why a batch was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Preconditions did not hold; nothing was written. Read what is there and decide again.
    #[error("{}", first_of(.0))]
    Conflict(
        /// All of them, in byte order of the keys; never none.
        Vec<Conflict>,
    ),
    /// The store failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A precondition that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The record.
    pub key: Key,
    /// Where it is now, if it exists.
    pub current: Option<Version>,
}

/// The store itself failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// For now: a full disk, an unreachable server. Try again later; the store mends itself when it can. Whether what
    /// was being written got there is unknown.
    #[error("the store is unavailable, and what was being written may or may not be there: {reason}")]
    Unavailable {
        /// What happened.
        reason: String,
    },
    /// For good: what is stored cannot be read. No retry helps, a person must look.
    #[error("the store is damaged: {reason}")]
    Corrupt {
        /// What was found.
        reason: String,
    },
}

fn first_of(conflicts: &[Conflict]) -> String {
    let more = match conflicts.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    match conflicts.first() {
        Some(Conflict { key, current: Some(version) }) => format!("{key} is at version {version} now{more}"),
        Some(Conflict { key, current: None }) => format!("{key} does not exist{more}"),
        None => "a precondition did not hold".to_owned(),
    }
}
