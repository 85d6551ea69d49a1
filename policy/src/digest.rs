//! A fingerprint that stays the same over restarts and versions, to tell whether something has changed.

use std::fmt;

/// 128 bits of FNV-1a. It is no defence against somebody who looks for a collision; who writes policies has no need
/// of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(u128);

const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

impl Digest {
    /// Of nothing.
    pub(crate) const EMPTY: Self = Self(START);

    /// With these bytes behind what was there. Their number goes in too, so that `ab`, `c` is not `a`, `bc`.
    #[must_use]
    pub(crate) fn with(self, bytes: &[u8]) -> Self {
        let length = (bytes.len() as u64).to_le_bytes();
        let step = |digest: u128, byte: &u8| (digest ^ u128::from(*byte)).wrapping_mul(PRIME);
        Self(length.iter().chain(bytes).fold(self.0, step))
    }

    /// As bytes, to be stored.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// From what [`Self::to_bytes`] gave.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fnv_1a_and_stays_it() {
        // The published value for "foobar", reached without the length.
        let fold = b"foobar".iter().fold(START, |d, b| (d ^ u128::from(*b)).wrapping_mul(PRIME));
        assert_eq!(fold, 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
        assert_eq!(Digest::from_bytes(Digest(fold).to_bytes()), Digest(fold));
    }

    #[test]
    fn where_a_word_ends_matters() {
        let of =
            |words: &[&str]| words.iter().fold(Digest::EMPTY, |digest, word| digest.with(word.as_bytes()));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["", "a"]), of(&["a", ""]));
        assert_ne!(of(&[]), of(&[""]));
    }
}
