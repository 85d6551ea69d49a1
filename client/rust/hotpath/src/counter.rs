//! A count within one stretch, and the stretch's tag, in one word: written by one thread, read by another.

use crate::{
    sync::{AtomicU64, Ordering},
    word::{ABOVE_TAG, TAG_MASK, Word},
};

const ONE: u64 = 1 << ABOVE_TAG;

/// Counts on and on; wraps after 2⁴⁰, which whoever reads the difference in time does not notice.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

/// What a counter said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count(u64);

impl Counter {
    /// One more in the stretch of `word`. False if the counter is not of that stretch. Only its owner may call this.
    #[inline]
    pub(crate) fn add(&self, word: Word) -> bool {
        let count = self.0.load(Ordering::Relaxed);
        let fits = (count ^ word.0) & TAG_MASK == 0;
        if fits {
            self.0.store(count.wrapping_add(ONE), Ordering::Release);
        }
        fits
    }

    /// Begins to count in the stretch of `word`, with one. Only its owner may call this.
    pub(crate) fn begin(&self, word: Word) {
        self.0.store((word.0 & TAG_MASK) | ONE, Ordering::Release);
    }

    #[inline]
    pub(crate) fn read(&self) -> Count {
        Count(self.0.load(Ordering::Acquire))
    }

    /// What the owner itself knows.
    #[inline]
    pub(crate) fn own(&self) -> Count {
        Count(self.0.load(Ordering::Relaxed))
    }
}

impl Count {
    /// The count, if it is of this stretch.
    #[inline]
    pub(crate) const fn of(self, word: Word) -> Option<u64> {
        if (self.0 ^ word.0) & TAG_MASK == 0 { Some(self.0 >> ABOVE_TAG) } else { None }
    }

    /// How many more than `before`, in this stretch.
    pub(crate) fn since(self, before: Self, word: Word) -> u64 {
        let Some(now) = self.of(word) else { return 0 };
        let before = before.of(word).unwrap_or(0);
        now.wrapping_sub(before) & (u64::MAX >> ABOVE_TAG)
    }

    pub(crate) const fn raw(self) -> u64 {
        self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::word::Pass;

    fn word(tag: u32) -> Word {
        Word::pass(Pass { tag, counted: true, timed: true, settled: true, plain: false })
    }

    #[test]
    fn a_count_is_of_one_stretch() {
        let counter = Counter::default();
        counter.begin(word(3));
        assert!(counter.add(word(3)) && !counter.add(word(4)));
        assert_eq!((counter.read().of(word(3)), counter.read().of(word(4))), (Some(2), None));
        let before = counter.read();
        counter.begin(word(4));
        assert_eq!(counter.read().since(before, word(4)), 1);
        assert_eq!(counter.read().since(before, word(3)), 0, "the stretch is over");
    }

    #[test]
    fn the_difference_survives_the_end_of_the_count() {
        let counter = Counter(AtomicU64::new(word(9).0 & TAG_MASK | u64::MAX << ABOVE_TAG));
        let before = counter.read();
        assert!(counter.add(word(9)) && counter.add(word(9)));
        assert_eq!(counter.read().since(before, word(9)), 2);
        assert_eq!(counter.read().0 & TAG_MASK, word(9).0 & TAG_MASK, "the tag is untouched");
    }
}
