//! Resume tokens: opaque to clients, bound to the store, the epoch and the selection.

use crate::store::StoreId;

const FORMAT: u8 = 1;
const BYTES: usize = 1 + 16 + 8 + 8 + 8;

/// A place in the server's stream of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The store.
    pub(crate) store: StoreId,
    /// The epoch: positions start anew with each.
    pub(crate) epoch: u64,
    /// The selection's digest.
    pub(crate) selection: u64,
    /// Everything up to here was delivered.
    pub(crate) position: u64,
}

impl Token {
    /// As bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.push(FORMAT);
        bytes.extend(self.store.as_u128().to_be_bytes());
        for word in [self.epoch, self.selection, self.position] {
            bytes.extend(word.to_be_bytes());
        }
        bytes
    }

    /// From bytes; none if they are not a token.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&FORMAT, rest) = bytes.split_first()? else { return None };
        let (store, rest) = rest.split_first_chunk::<16>()?;
        let (epoch, rest) = rest.split_first_chunk::<8>()?;
        let (selection, rest) = rest.split_first_chunk::<8>()?;
        let position: &[u8; 8] = rest.try_into().ok()?;
        Some(Self {
            store: StoreId::from_u128(u128::from_be_bytes(*store)),
            epoch: u64::from_be_bytes(*epoch),
            selection: u64::from_be_bytes(*selection),
            position: u64::from_be_bytes(*position),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_and_garbage_does_not() {
        let token = Token { store: StoreId::from_u128(7), epoch: 1, selection: 2, position: 3 };
        let bytes = token.encode();
        assert_eq!(Token::decode(&bytes), Some(token));
        assert_eq!(Token::decode(&bytes[..BYTES - 1]), None);
        assert_eq!(Token::decode(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(Token::decode(b"garbage"), None);
        assert_eq!(Token::decode(b""), None);
    }
}
