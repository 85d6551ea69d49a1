//! The one word that the hot path reads: whether calls pass, under which stretch, and until when that holds.

use panelboard_core::Timestamp;

/// Stretches are told apart within so many of one another: a permit that is older was out for that many transitions.
pub(crate) const STRETCHES: u32 = 1 << 22;
/// The end of time as far as the word can tell: 34 years after the client began.
const UNTIL_MAX: u64 = (1 << 40) - 1;

/// `until`, 40 bits of milliseconds | stretch, 22 bits | counted | passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

/// What an open door stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Door {
    pub(crate) stretch: u32,
    /// Whether outcomes of calls admitted here are recorded.
    pub(crate) counted: bool,
    /// Until when nothing has to be looked at; exclusive.
    pub(crate) until: Timestamp,
}

impl Word {
    /// Calls do not pass without a closer look.
    pub(crate) const SHUT: Self = Self(0);

    pub(crate) fn open(door: Door) -> Self {
        let until = door.until.as_millis().min(UNTIL_MAX);
        Self(until << 24 | u64::from(door.stretch % STRETCHES) << 2 | u64::from(door.counted) << 1 | 1)
    }

    /// The stretch, and whether it is counted, if calls pass at `now`.
    pub(crate) fn passes(self, now: Timestamp) -> Option<(u32, bool)> {
        let open = self.0 & 1 == 1 && now.as_millis() < self.0 >> 24;
        // Cut to 22 bits, so that it fits.
        open.then_some((((self.0 >> 2) as u32) % STRETCHES, self.0 & 2 != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_its_door_says_and_no_longer() {
        for (stretch, counted, until) in
            [(0, true, 1), (STRETCHES - 1, false, 123_456_789), (77, true, UNTIL_MAX)]
        {
            let word = Word::open(Door { stretch, counted, until: Timestamp::from_millis(until) });
            assert_eq!(word.passes(Timestamp::from_millis(until - 1)), Some((stretch, counted)));
            assert_eq!(word.passes(Timestamp::from_millis(until)), None);
        }
        assert_eq!(Word::SHUT.passes(Timestamp::ZERO), None);
    }
}
