//! From the lanes' pieces to a tally.

use std::time::Duration;

use panelboard_core::Timestamp;
use panelboard_hotpath::{Kind, Piece};

use crate::{codebook::CodeBook, tally::Tally};

/// Makes one tally of what all threads counted since `since`.
#[derive(Debug)]
pub(crate) struct Gather<'a> {
    book: &'a CodeBook,
    since: Timestamp,
    all: Tally,
    lane: Tally,
}

impl<'a> Gather<'a> {
    pub(crate) fn new(book: &'a CodeBook, since: Timestamp) -> Self {
        Self { book, since, all: Tally::default(), lane: Tally::default() }
    }

    pub(crate) fn take(&mut self, piece: Piece) {
        let lane = &mut self.lane;
        lane.since(self.since);
        match piece {
            Piece::Successes(n) => lane.successes(n),
            Piece::SlowSuccesses(n) => lane.slow_successes(n),
            Piece::Ignored(n) => lane.ignored(n),
            Piece::Abandoned(n) => lane.abandoned(n),
            Piece::Rejected(n) => lane.rejections(n),
            Piece::RetryAfter(millis) => lane.retry_after(Some(Duration::from_millis(millis))),
            Piece::Judged(judged, n) => {
                match judged.kind {
                    Kind::Failure => lane.failures(n, judged.slow),
                    Kind::Ignored => lane.ignored(n),
                    Kind::Named | Kind::RetryAfter => {}
                }
                lane.cause(self.book.cause(judged.cause, judged.book), n);
            }
            Piece::LaneEnds => self.all.join(std::mem::take(lane)),
        }
    }

    /// The tally; none if there was nothing.
    pub(crate) fn done(self) -> Option<Tally> {
        (!self.all.is_empty()).then_some(self.all)
    }
}

#[cfg(test)]
mod tests {
    use panelboard_core::Cause;
    use panelboard_hotpath::{Collector, Judged, Lanes, Pass, Word};

    use super::*;
    use crate::{codebook::Code, fact::Said};

    #[test]
    fn what_threads_count_comes_out_as_one_entry() {
        let word = Word::pass(Pass { tag: 3, counted: true, timed: true, settled: false, plain: true });
        let (lanes, book) = (Lanes::new(), CodeBook::plain());
        let fail = |cause: &str, slow: bool| {
            let Code { cause, edition, .. } = book.code(Said::Failure(cause));
            let judged = Judged { kind: Kind::Failure, slow, cause, book: edition };
            lanes.mine().unwrap().judged(word, judged, || word);
        };
        fail("timeout", false);
        fail("timeout", true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                lanes.mine().unwrap().success(word, || word);
                fail("dns", false);
                lanes.mine().unwrap().retry_after(word, 1_500, || word);
            });
        });
        let mut gather = Gather::new(&book, Timestamp::from_millis(7));
        Collector::default().collect(&lanes, word, |piece| gather.take(piece));
        let entry = gather.done().unwrap().take().unwrap();
        assert_eq!((entry.outcomes.successes, entry.outcomes.failures), (1, 3));
        assert_eq!(
            (entry.outcomes.slow_failures, entry.retry_after),
            (1, Some(Duration::from_millis(1_500)))
        );
        let causes: Vec<_> = entry.causes.iter().map(|(cause, n)| (Cause::as_str(cause), *n)).collect();
        assert!(causes.contains(&("timeout", 2)) && causes.contains(&("dns", 1)), "{causes:?}");
        assert_eq!(entry.streaks().trailing, 3, "all threads ended with failures");
        assert!(Gather::new(&book, Timestamp::ZERO).done().is_none());
    }
}
