//! Outcomes that are more than a count, in their order: a short ring of runs, from one thread to another.
//!
//! A run is the same thing again and again with no success in between, so an outage takes one place however many
//! calls it fails. The last run stays in its place and may grow until there is another one.

use crate::{
    counter::Count,
    sync::{AtomicU64, Ordering},
    word::{ABOVE_TAG, TAG_MASK, Word},
};

/// Causes are numbers below this.
pub const CAUSES_MAX: u16 = 1 << 11;
/// Code books, which say what a number means, are told apart within so many of one another.
pub const BOOKS: u8 = 1 << 3;

#[cfg(not(loom))]
const PLACES: usize = 24;
#[cfg(loom)]
const PLACES: usize = 2;

const KIND_SHIFT: u32 = ABOVE_TAG;
const SLOW_SHIFT: u32 = KIND_SHIFT + 2;
const BOOK_SHIFT: u32 = SLOW_SHIFT + 1;
const CAUSE_SHIFT: u32 = BOOK_SHIFT + 3;

const TIMES_MASK: u64 = (1 << ABOVE_TAG) - 1;
/// What is kept next to the number of times: 40 bits.
const ASIDE_MAX: u64 = u64::MAX >> ABOVE_TAG;

/// What a run is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Calls that failed.
    Failure,
    /// Calls that say nothing about the dependency, for a cause.
    Ignored,
    /// The dependency asked to be left alone.
    RetryAfter,
    /// Successes that are counted by cause as well: the count itself is elsewhere.
    Named,
}

/// An outcome that is more than a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// What it is.
    pub kind: Kind,
    /// The call was slow.
    pub slow: bool,
    /// The cause's number in the code book; 0: none.
    pub cause: u16,
    /// Which code book.
    pub book: u8,
}

#[derive(Debug)]
struct Place {
    /// The tag, and what the run is of. Never changes while it is to be read.
    what: AtomicU64,
    /// How often, and aside of it the successes counted before it, or for a retry-after its milliseconds.
    run: AtomicU64,
}

/// The ring. One thread pushes, one reads.
#[derive(Debug)]
pub(crate) struct Runs {
    places: [Place; PLACES],
    /// Runs ever begun.
    head: AtomicU64,
    /// Runs that were read to their end.
    tail: AtomicU64,
}

/// How far the reader is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    tail: u64,
    /// How much of the run at the tail it has seen.
    times: u64,
}

/// A run as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) judged: Judged,
    /// How often since the last look.
    pub(crate) times: u64,
    /// Successes counted before it, or milliseconds.
    pub(crate) aside: u64,
}

impl Runs {
    pub(crate) fn new() -> Self {
        let place = || Place { what: AtomicU64::new(0), run: AtomicU64::new(0) };
        Self { places: std::array::from_fn(|_| place()), head: AtomicU64::new(0), tail: AtomicU64::new(0) }
    }

    /// Adds one. `aside` is cut to 40 bits. False if there is no place. Only the ring's owner may call this.
    pub(crate) fn push(&self, word: Word, judged: Judged, aside: u64) -> bool {
        let what = encode(word, judged);
        let aside = aside.min(ASIDE_MAX) << ABOVE_TAG;
        let head = self.head.load(Ordering::Relaxed);
        if let Some(last) = head.checked_sub(1) {
            let place = self.place(last);
            let run = place.run.load(Ordering::Relaxed);
            let goes_on = place.what.load(Ordering::Relaxed) == what
                && run & !TIMES_MASK == aside
                && run & TIMES_MASK < TIMES_MASK;
            if goes_on {
                place.run.store(run + 1, Ordering::Release);
                return true;
            }
        }
        if head - self.tail.load(Ordering::Acquire) >= PLACES as u64 {
            return false;
        }
        let place = self.place(head);
        place.what.store(what, Ordering::Relaxed);
        place.run.store(aside | 1, Ordering::Relaxed);
        self.head.store(head + 1, Ordering::Release);
        true
    }

    /// Reads what is new, in its order; skips what is of another stretch than `word`. Only one reader may call this,
    /// always with the same mark.
    pub(crate) fn read(&self, mark: &mut Mark, word: Word, mut run: impl FnMut(Run)) {
        let head = self.head.load(Ordering::Acquire);
        while mark.tail < head {
            let place = self.place(mark.tail);
            let now = place.run.load(Ordering::Acquire);
            let times = (now & TIMES_MASK) - mark.times;
            let what = place.what.load(Ordering::Relaxed);
            if times > 0 && (what ^ word.0) & TAG_MASK == 0 {
                run(Run { judged: decode(what), times, aside: now >> ABOVE_TAG });
            }
            if mark.tail + 1 == head {
                // It may still grow.
                mark.times += times;
                break;
            }
            // Its owner has left it, before it moved the head on: this was all of it.
            *mark = Mark { tail: mark.tail + 1, times: 0 };
        }
        self.tail.store(mark.tail, Ordering::Release);
    }

    /// Changes with everything that is pushed.
    pub(crate) fn stamp(&self) -> u64 {
        let head = self.head.load(Ordering::Acquire);
        let growing = head.checked_sub(1).map_or(0, |last| self.place(last).run.load(Ordering::Acquire));
        head << ABOVE_TAG | (growing & TIMES_MASK)
    }

    fn place(&self, n: u64) -> &Place {
        // Cut to the number of places, so that it fits.
        &self.places[(n % PLACES as u64) as usize]
    }
}

/// The successes of this stretch that an owner counted so far, as what is kept aside.
pub(crate) fn aside(count: Count, word: Word) -> u64 {
    count.of(word).unwrap_or(0)
}

fn encode(word: Word, judged: Judged) -> u64 {
    let kind = match judged.kind {
        Kind::Failure => 0,
        Kind::Ignored => 1,
        Kind::RetryAfter => 2,
        Kind::Named => 3,
    };
    (word.0 & TAG_MASK)
        | kind << KIND_SHIFT
        | u64::from(judged.slow) << SLOW_SHIFT
        | u64::from(judged.book % BOOKS) << BOOK_SHIFT
        | u64::from(judged.cause % CAUSES_MAX) << CAUSE_SHIFT
}

fn decode(what: u64) -> Judged {
    Judged {
        kind: match what >> KIND_SHIFT & 3 {
            0 => Kind::Failure,
            1 => Kind::Ignored,
            2 => Kind::RetryAfter,
            _ => Kind::Named,
        },
        slow: what >> SLOW_SHIFT & 1 == 1,
        book: (what >> BOOK_SHIFT) as u8 % BOOKS,
        cause: (what >> CAUSE_SHIFT) as u16 % CAUSES_MAX,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::word::Pass;

    fn word(tag: u32) -> Word {
        Word::pass(Pass { tag, counted: true, timed: false, settled: false, plain: false })
    }

    fn failure(cause: u16) -> Judged {
        Judged { kind: Kind::Failure, slow: false, cause, book: 0 }
    }

    fn read(runs: &Runs, mark: &mut Mark, tag: u32) -> Vec<(u16, u64, u64)> {
        let mut found = Vec::new();
        runs.read(mark, word(tag), |run| found.push((run.judged.cause, run.times, run.aside)));
        found
    }

    #[test]
    fn a_judgement_comes_out_as_it_went_in() {
        for kind in [Kind::Failure, Kind::Ignored, Kind::RetryAfter, Kind::Named] {
            for (slow, cause, book) in [(false, 0, 0), (true, CAUSES_MAX - 1, BOOKS - 1)] {
                let judged = Judged { kind, slow, cause, book };
                assert_eq!(decode(encode(word(5), judged)), judged);
            }
        }
    }

    #[test]
    fn the_same_again_is_one_run_and_may_grow_after_it_was_read() {
        let (runs, mut mark) = (Runs::new(), Mark::default());
        for _ in 0..3 {
            assert!(runs.push(word(1), failure(7), 10));
        }
        assert_eq!(read(&runs, &mut mark, 1), [(7, 3, 10)]);
        assert_eq!(read(&runs, &mut mark, 1), []);
        runs.push(word(1), failure(7), 10);
        runs.push(word(1), failure(7), 11);
        assert_eq!(read(&runs, &mut mark, 1), [(7, 1, 10), (7, 1, 11)], "a success came in between");
    }

    #[test]
    fn many_of_the_same_take_one_place_and_others_wait_for_a_reader() {
        // Under Miri each costs microseconds.
        const MANY: u64 = if cfg!(miri) { 1_000 } else { 1_000_000 };
        let (runs, mut mark) = (Runs::new(), Mark::default());
        for _ in 0..MANY {
            assert!(runs.push(word(1), failure(1), 0));
        }
        for n in 1..PLACES as u64 {
            assert!(runs.push(word(1), failure(1), n));
        }
        assert!(!runs.push(word(1), failure(1), 99));
        let all: u64 = read(&runs, &mut mark, 1).iter().map(|(_, times, _)| times).sum();
        assert_eq!(all, MANY + PLACES as u64 - 1);
        assert!(runs.push(word(1), failure(1), 99), "all but the last were read to their end");
    }

    #[test]
    fn what_is_of_another_stretch_is_skipped_for_good() {
        let (runs, mut mark) = (Runs::new(), Mark::default());
        runs.push(word(1), failure(1), 0);
        runs.push(word(2), failure(2), 0);
        assert_eq!(read(&runs, &mut mark, 2), [(2, 1, 0)]);
        assert_eq!(read(&runs, &mut mark, 1), []);
    }

    #[test]
    fn a_stamp_changes_with_everything() {
        let runs = Runs::new();
        let mut stamps = vec![runs.stamp()];
        for cause in [1, 1, 2, 2, 1] {
            runs.push(word(1), failure(cause), 0);
            stamps.push(runs.stamp());
        }
        assert!(stamps.windows(2).all(|pair| pair[0] != pair[1]), "{stamps:?}");
    }
}
