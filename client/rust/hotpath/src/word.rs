//! The one word that a check reads: whether calls pass, under which stretch, or why not and until when.
//!
//! | bits | pass | reject |
//! |---|---|---|
//! | 0–1 | kind: 0 look closer, 1 pass, 2 reject | |
//! | 2–23 | tag of the stretch | tag |
//! | 24–27 | counted, timed, settled, plain | from here on: |
//! | 28– | number of the permit's probe, 0: none | reason 3, freshness 2, sentence 8, retry-after 27 (ms; all ones: none) |
//!
//! There is no time in it: the client's thread flips it when a time is over.

use std::fmt;

use crate::sync::{AtomicU64, Ordering};

/// Stretches are told apart within so many of one another.
pub const TAGS: u32 = 1 << 22;

pub(crate) const TAG_SHIFT: u32 = 2;
pub(crate) const TAG_MASK: u64 = (TAGS as u64 - 1) << TAG_SHIFT;
pub(crate) const ABOVE_TAG: u32 = 24;

const KIND_MASK: u64 = 3;
const PASS: u64 = 1;
const REJECT: u64 = 2;

const COUNTED: u64 = 1 << ABOVE_TAG;
const TIMED: u64 = 1 << (ABOVE_TAG + 1);
const SETTLED: u64 = 1 << (ABOVE_TAG + 2);
const PLAIN: u64 = 1 << (ABOVE_TAG + 3);
const PROBE_SHIFT: u32 = ABOVE_TAG + 4;

const REASON_SHIFT: u32 = ABOVE_TAG;
const FRESHNESS_SHIFT: u32 = REASON_SHIFT + 3;
const SENTENCE_SHIFT: u32 = FRESHNESS_SHIFT + 2;
const RETRY_SHIFT: u32 = SENTENCE_SHIFT + 8;
/// No retry-after; a longer one than what is below it is cut to that, 37 hours.
const RETRY_NONE: u64 = (1 << (64 - RETRY_SHIFT)) - 1;

/// What is known of a breaker, for a check. A permit keeps the word it was admitted by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word(pub(crate) u64);

/// Calls pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The stretch; cut to [`TAGS`].
    pub tag: u32,
    /// Outcomes of calls admitted here are recorded.
    pub counted: bool,
    /// Each call is timed.
    pub timed: bool,
    /// What may trip is settled at once with the local breaker, because nobody else decides.
    pub settled: bool,
    /// Outcomes are classified by the defaults.
    pub plain: bool,
}

/// Calls do not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The stretch; cut to [`TAGS`].
    pub tag: u32,
    /// The caller's code for why, below 8.
    pub reason: u8,
    /// The caller's code for how that is known, below 4.
    pub freshness: u8,
    /// Which sentence explains it.
    pub sentence: u8,
    /// Milliseconds after which asking again can succeed.
    pub retry_after: Option<u32>,
}

/// A word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The word does not say: look closer.
    Closer,
    /// Calls pass.
    Pass(Pass),
    /// Calls do not pass.
    Reject(Reject),
}

impl Word {
    /// Nothing is decided without a closer look.
    pub const fn closer(tag: u32) -> Self {
        Self(tag_bits(tag))
    }

    /// Calls pass.
    pub const fn pass(pass: Pass) -> Self {
        let mut word = tag_bits(pass.tag) | PASS;
        if pass.counted {
            word |= COUNTED;
        }
        if pass.timed {
            word |= TIMED;
        }
        if pass.settled {
            word |= SETTLED;
        }
        if pass.plain {
            word |= PLAIN;
        }
        Self(word)
    }

    /// Calls do not pass.
    pub const fn reject(reject: Reject) -> Self {
        let retry = match reject.retry_after {
            None => RETRY_NONE,
            Some(millis) if (millis as u64) < RETRY_NONE => millis as u64,
            Some(_) => RETRY_NONE - 1,
        };
        Self(
            tag_bits(reject.tag)
                | REJECT
                | (reject.reason as u64 & 7) << REASON_SHIFT
                | (reject.freshness as u64 & 3) << FRESHNESS_SHIFT
                | (reject.sentence as u64) << SENTENCE_SHIFT
                | retry << RETRY_SHIFT,
        )
    }

    /// Whether calls pass.
    #[inline]
    pub const fn passes(self) -> bool {
        self.0 & KIND_MASK == PASS
    }

    /// Whether calls pass, are counted and are not timed: nothing else is to be thought of.
    #[inline]
    pub const fn passes_plainly(self) -> bool {
        self.0 & (KIND_MASK | COUNTED | TIMED) == PASS | COUNTED
    }

    /// The word that the permit of a probe keeps. `number` is cut to 36 bits.
    #[must_use]
    pub const fn with_probe(self, number: u64) -> Self {
        Self(self.0 & !(u64::MAX << PROBE_SHIFT) | number << PROBE_SHIFT)
    }

    /// The number of the permit's probe; 0: it is none. Only for a word that passes.
    #[inline]
    pub const fn probe(self) -> u64 {
        self.0 >> PROBE_SHIFT
    }

    /// Whether calls are turned away without a closer look.
    #[inline]
    pub const fn rejects(self) -> bool {
        self.0 & KIND_MASK == REJECT
    }

    /// Whether outcomes are recorded. Only for a word that passes.
    #[inline]
    pub const fn is_counted(self) -> bool {
        self.0 & COUNTED != 0
    }

    /// Whether each call is timed. Only for a word that passes.
    #[inline]
    pub const fn is_timed(self) -> bool {
        self.0 & TIMED != 0
    }

    /// Whether what may trip is settled at once. Only for a word that passes.
    #[inline]
    pub const fn is_settled(self) -> bool {
        self.0 & SETTLED != 0
    }

    /// Whether outcomes are classified by the defaults. Only for a word that passes.
    #[inline]
    pub const fn is_plain(self) -> bool {
        self.0 & PLAIN != 0
    }

    /// The stretch.
    #[inline]
    pub const fn tag(self) -> u32 {
        ((self.0 & TAG_MASK) >> TAG_SHIFT) as u32
    }

    /// Takes a word that rejects apart. Of another word it says nothing of use.
    #[inline]
    pub const fn as_reject(self) -> Reject {
        Reject {
            tag: self.tag(),
            reason: (self.0 >> REASON_SHIFT & 7) as u8,
            freshness: (self.0 >> FRESHNESS_SHIFT & 3) as u8,
            sentence: (self.0 >> SENTENCE_SHIFT) as u8,
            retry_after: match self.0 >> RETRY_SHIFT {
                RETRY_NONE => None,
                millis => Some(millis as u32),
            },
        }
    }

    /// Takes it apart.
    #[inline]
    pub const fn look(self) -> Look {
        match self.0 & KIND_MASK {
            PASS => Look::Pass(Pass {
                tag: self.tag(),
                counted: self.is_counted(),
                timed: self.is_timed(),
                settled: self.is_settled(),
                plain: self.is_plain(),
            }),
            REJECT => Look::Reject(self.as_reject()),
            _ => Look::Closer,
        }
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.look().fmt(f)
    }
}

pub(crate) const fn tag_bits(tag: u32) -> u64 {
    ((tag % TAGS) as u64) << TAG_SHIFT
}

/// Where a breaker's word stands: on a cache line of its own, for all threads read it at every call.
#[derive(Debug)]
#[repr(align(128))]
pub struct Gate(AtomicU64);

impl Gate {
    /// A gate that asks for a closer look.
    pub fn new() -> Self {
        Self(AtomicU64::new(Word::closer(0).0))
    }

    /// The word as it stands.
    #[inline]
    pub fn read(&self) -> Word {
        Word(self.0.load(Ordering::Acquire))
    }

    /// Sets the word. Left alone if it says that already, so that callers keep their copy of the line.
    pub fn set(&self, word: Word) {
        if self.0.load(Ordering::Relaxed) != word.0 {
            self.0.store(word.0, Ordering::Release);
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_was_put_into_it() {
        for (tag, bits) in [(0, 0), (TAGS - 1, 15), (77, 5), (1, 10)] {
            let pass = Pass {
                tag,
                counted: bits & 1 != 0,
                timed: bits & 2 != 0,
                settled: bits & 4 != 0,
                plain: bits & 8 != 0,
            };
            let word = Word::pass(pass);
            assert_eq!(word.look(), Look::Pass(pass));
            assert!(word.passes() && !word.rejects());
            assert_eq!(word.passes_plainly(), pass.counted && !pass.timed);
            assert_eq!((word.probe(), word.with_probe(77).probe()), (0, 77));
            assert_eq!(word.with_probe(77).look(), Look::Pass(pass));
            assert_eq!((word.tag(), word.is_counted()), (tag, pass.counted));
        }
        for retry_after in [None, Some(0), Some(4_260), Some(RETRY_NONE as u32 - 1)] {
            let reject = Reject { tag: TAGS - 2, reason: 7, freshness: 3, sentence: 255, retry_after };
            let word = Word::reject(reject);
            assert_eq!(word.look(), Look::Reject(reject));
            assert!(word.rejects() && !word.passes());
        }
        let closer = Word::closer(9);
        assert_eq!((closer.look(), closer.tag()), (Look::Closer, 9));
        assert!(!closer.passes() && !closer.rejects());
    }

    #[test]
    fn a_wait_that_does_not_fit_is_the_longest_that_does() {
        let reject = Reject { tag: 0, reason: 0, freshness: 0, sentence: 0, retry_after: Some(u32::MAX) };
        let Look::Reject(read) = Word::reject(reject).look() else { panic!("it rejects") };
        assert_eq!(read.retry_after, Some(RETRY_NONE as u32 - 1));
    }

    #[test]
    fn a_gate_has_a_line_of_its_own() {
        assert_eq!((align_of::<Gate>(), size_of::<Gate>()), (128, 128));
    }
}
