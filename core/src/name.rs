//! Names of breakers and of policies.

use std::{fmt, sync::Arc};

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// A valid name: `[A-Za-z0-9][A-Za-z0-9._/-]{0,127}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BreakerName(Arc<str>);

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// It is empty.
    Empty,
    /// It is longer than [`NAME_BYTES_MAX`] bytes.
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// It holds a character that is not allowed at that place.
    Character {
        /// The character.
        found: char,
        /// Its place in characters, from 0.
        at: usize,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the name is empty: give one like \"checkout/shipping-quote\""),
            Self::TooLong { bytes } => {
                write!(f, "the name has {bytes} bytes, {NAME_BYTES_MAX} are allowed: shorten it")
            }
            Self::Character { found, at: 0 } => {
                write!(f, "the name starts with {found:?}: start with a letter or a digit")
            }
            Self::Character { found, at } => {
                write!(f, "the name has {found:?} at place {at}: letters, digits and . _ / - are allowed")
            }
        }
    }
}

impl std::error::Error for NameError {}

impl BreakerName {
    /// Parses a name.
    ///
    /// # Errors
    /// [`NameError`] says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > NAME_BYTES_MAX {
            return Err(NameError::TooLong { bytes: text.len() });
        }
        let bad = text
            .chars()
            .enumerate()
            .find(|&(at, c)| !(c.is_ascii_alphanumeric() || at > 0 && matches!(c, '.' | '_' | '/' | '-')));
        match bad {
            Some((at, found)) => Err(NameError::Character { found, at }),
            None => Ok(Self(text.into())),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as shared text.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl fmt::Display for BreakerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BreakerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl std::borrow::Borrow<str> for BreakerName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_letters_digits_and_four_signs() {
        for good in ["a", "checkout/shipping-quote", "0.9_x-Y/z", &"a".repeat(128)] {
            assert!(BreakerName::parse(good).is_ok(), "{good}");
        }
        assert_eq!(BreakerName::parse(""), Err(NameError::Empty));
        assert_eq!(BreakerName::parse(&"a".repeat(129)), Err(NameError::TooLong { bytes: 129 }));
        assert_eq!(BreakerName::parse("/a"), Err(NameError::Character { found: '/', at: 0 }));
        assert_eq!(BreakerName::parse("a b"), Err(NameError::Character { found: ' ', at: 1 }));
        assert_eq!(BreakerName::parse("aü"), Err(NameError::Character { found: 'ü', at: 1 }));
        assert_eq!(BreakerName::parse("a*"), Err(NameError::Character { found: '*', at: 1 }));
    }
}
