//! Reading lanes: what is new since the last look.

use crate::{
    counter::{Count, Counter},
    lane::Lane,
    lanes::Lanes,
    runs::{Judged, Kind, Mark},
    word::Word,
};

/// A piece of what a lane had that was new. The pieces of one lane come in the order in which its thread counted
/// them, as far as that matters for streaks, and end with [`LaneEnds`](Self::LaneEnds).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// So many successes.
    Successes(u64),
    /// So many of all successes were slow.
    SlowSuccesses(u64),
    /// The same thing so many times.
    Judged(Judged, u64),
    /// So many said nothing, without a cause.
    Ignored(u64),
    /// So many permits came back without an outcome.
    Abandoned(u64),
    /// So many were turned away.
    Rejected(u64),
    /// The dependency asked to be left alone for so many milliseconds.
    RetryAfter(u64),
    /// That was this thread's.
    LaneEnds,
}

/// Reads the lanes of one breaker. There is one per breaker, used by one thread at a time.
#[derive(Debug, Default)]
pub struct Collector {
    seen: Vec<Seen>,
}

/// What was seen of one lane.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    successes: Count,
    slow_successes: Count,
    ignored: Count,
    abandoned: Count,
    rejected: Count,
    spilled: Count,
    slow_spilled: Count,
    runs: Mark,
}

impl Collector {
    /// Passes on what is new in the stretch of `word`; what is of another stretch is dropped.
    pub fn collect(&mut self, lanes: &Lanes, word: Word, mut piece: impl FnMut(Piece)) {
        for (number, lane) in lanes.iter() {
            if self.seen.len() <= number {
                self.seen.resize_with(number + 1, Seen::default);
            }
            self.seen[number].look(lane, word, &mut piece);
        }
    }
}

impl Seen {
    /// Passes on what is new in one lane.
    pub fn look(&mut self, lane: &Lane, word: Word, piece: &mut impl FnMut(Piece)) {
        let mut any = false;
        let mut tell = |what| {
            any = true;
            piece(what);
        };
        let told = self.successes.of(word).unwrap_or(0);
        // Successes counted up to the run that is passed on.
        let mut before = told;
        lane.runs.read(&mut self.runs, word, |run| {
            let Judged { kind, .. } = run.judged;
            if kind == Kind::RetryAfter {
                return tell(Piece::RetryAfter(run.aside));
            }
            if run.aside > before {
                tell(Piece::Successes(run.aside - before));
                before = run.aside;
            }
            tell(Piece::Judged(run.judged, run.times));
        });
        // Read after the runs, so that a run never shows more successes than this.
        let all = fresh(&lane.successes, &mut self.successes, word);
        let mut count = |n: u64, what: fn(u64) -> Piece| {
            if n > 0 {
                tell(what(n));
            }
        };
        count(all.saturating_sub(before - told), Piece::Successes);
        count(fresh(&lane.slow_successes, &mut self.slow_successes, word), Piece::SlowSuccesses);
        count(fresh(&lane.ignored, &mut self.ignored, word), Piece::Ignored);
        count(fresh(&lane.abandoned, &mut self.abandoned, word), Piece::Abandoned);
        count(fresh(&lane.rejected, &mut self.rejected, word), Piece::Rejected);
        for (counter, seen, slow) in
            [(&lane.spilled, &mut self.spilled, false), (&lane.slow_spilled, &mut self.slow_spilled, true)]
        {
            let n = fresh(counter, seen, word);
            if n > 0 {
                tell(Piece::Judged(Judged { kind: Kind::Failure, slow, cause: 0, book: 0 }, n));
            }
        }
        if any {
            piece(Piece::LaneEnds);
        }
    }
}

fn fresh(counter: &Counter, seen: &mut Count, word: Word) -> u64 {
    let now = counter.read();
    let before = std::mem::replace(seen, now);
    now.since(before, word)
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

    struct One {
        lane: Lane,
        seen: Seen,
        tag: u32,
    }

    impl One {
        fn new() -> Self {
            Self { lane: Lane::new(), seen: Seen::default(), tag: 1 }
        }

        fn success(&self, n: u64) {
            (0..n).for_each(|_| self.lane.success(word(self.tag), || word(self.tag)));
        }

        fn fail(&self, n: u64) {
            (0..n).for_each(|_| self.lane.judged(word(self.tag), failure(3), || word(self.tag)));
        }

        fn look(&mut self) -> Vec<Piece> {
            let mut found = Vec::new();
            self.seen.look(&self.lane, word(self.tag), &mut |piece| found.push(piece));
            found
        }
    }

    #[test]
    fn pieces_come_in_the_threads_order() {
        let mut one = One::new();
        one.success(5);
        one.fail(2);
        one.success(1);
        one.fail(1);
        one.success(4);
        let failed = |n| Piece::Judged(failure(3), n);
        let expected = [
            Piece::Successes(5),
            failed(2),
            Piece::Successes(1),
            failed(1),
            Piece::Successes(4),
            Piece::LaneEnds,
        ];
        assert_eq!(one.look(), expected);
        assert_eq!(one.look(), []);
        one.fail(1);
        assert_eq!(one.look(), [failed(1), Piece::LaneEnds], "the four were told before");
    }

    #[test]
    fn what_a_stretch_left_behind_is_not_of_the_next() {
        let mut one = One::new();
        one.success(3);
        one.fail(3);
        one.tag = 2;
        one.success(1);
        assert_eq!(one.look(), [Piece::Successes(1), Piece::LaneEnds]);
        one.lane.success(word(1), || word(2));
        one.lane.judged(word(1), failure(3), || word(2));
        assert_eq!(one.look(), [], "it was admitted in the stretch before");
    }

    #[test]
    fn failures_past_the_ring_are_counted() {
        let mut one = One::new();
        for _ in 0..100 {
            one.success(1);
            one.fail(1);
        }
        let (mut successes, mut failures) = (0, 0);
        for piece in one.look() {
            match piece {
                Piece::Successes(n) => successes += n,
                Piece::Judged(_, n) => failures += n,
                _ => {}
            }
        }
        assert_eq!((successes, failures), (100, 100));
    }

    #[test]
    fn everything_else_is_told_as_well() {
        let mut one = One::new();
        let now = || word(1);
        one.lane.slow_success(word(1), now);
        one.lane.ignored(word(1), now);
        one.lane.abandoned(word(1), now);
        one.lane.rejected(word(1), now);
        one.lane.retry_after(word(1), 1_500, now);
        let expected = [
            Piece::RetryAfter(1_500),
            Piece::Successes(1),
            Piece::SlowSuccesses(1),
            Piece::Ignored(1),
            Piece::Abandoned(1),
            Piece::Rejected(1),
            Piece::LaneEnds,
        ];
        assert_eq!(one.look(), expected);
    }

    #[test]
    fn lanes_of_many_threads_add_up() {
        // Under Miri each costs a good part of a millisecond.
        const EACH: u64 = if cfg!(miri) { 20 } else { 1_000 };
        let lanes = Lanes::new();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    let lane = lanes.mine().unwrap();
                    for _ in 0..EACH {
                        lane.success(word(1), || word(1));
                    }
                });
            }
        });
        let before = lanes.stamp();
        let mut total = 0;
        let mut collector = Collector::default();
        collector.collect(&lanes, word(1), |piece| {
            if let Piece::Successes(n) = piece {
                total += n;
            }
        });
        assert_eq!((total, lanes.stamp()), (20 * EACH, before), "looking changes nothing");
    }
}
