//! What a store holds.

use std::borrow::Borrow;
use std::fmt;

use bytes::Bytes;

use crate::limits::{STORE_KEY_BYTES, STORE_VALUE_BYTES};

/// One record as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it is.
    pub key: Key,
    /// The commit that wrote it.
    pub version: Version,
    /// What it holds.
    pub value: Value,
}

/// The name of a record: 1 to 512 bytes of text without control characters, ordered by its bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// Checks a key.
    pub fn new(key: impl Into<String>) -> Result<Self, KeyError> {
        let key = key.into();
        if key.is_empty() {
            return Err(KeyError::Empty);
        }
        if key.len() > STORE_KEY_BYTES {
            return Err(KeyError::TooLong { start: key.chars().take(40).collect() });
        }
        match key.chars().find(|c| c.is_control()) {
            Some(control) => Err(KeyError::Control { key, control }),
            None => Ok(Self(key)),
        }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Why a text is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is no text.
    #[error("a key of the store cannot be empty")]
    Empty,
    /// It is longer than [`STORE_KEY_BYTES`].
    #[error("the key of the store beginning {start:?} is longer than {STORE_KEY_BYTES} bytes")]
    TooLong {
        /// How it begins.
        start: String,
    },
    /// It holds a control character.
    #[error("the key of the store {key:?} holds the control character {control:?}")]
    Control {
        /// The whole text.
        key: String,
        /// The first one.
        control: char,
    },
}

/// The bytes of a record: at most 1 MiB. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Bytes);

impl Value {
    /// Checks a value.
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self, ValueError> {
        let bytes = bytes.into();
        if bytes.len() > STORE_VALUE_BYTES {
            return Err(ValueError { bytes: bytes.len() });
        }
        Ok(Self(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, to keep.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// A value is too large.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a value of {bytes} bytes is larger than the {STORE_VALUE_BYTES} the store takes")]
pub struct ValueError {
    /// How large it is.
    pub bytes: usize,
}

/// The number of a commit. It grows with each one and is never used again, whatever is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// The version of a store that nobody has written to yet. No record has it.
    pub(super) const INITIAL: Version = Version(0);

    pub(super) const fn from_u64(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The next commit's; `None` after the last there can be.
    pub(super) fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which store it is: 128 random bits, drawn when it is made.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId(u128);

impl StoreId {
    /// From bits that were drawn at random or read back.
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// Its bits.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreId({self})")
    }
}
