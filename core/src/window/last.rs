//! The last N counted calls of one instance, as runs of equal outcomes: a run of thousands costs one step.

use std::collections::VecDeque;

use super::Counts;
use crate::outcome::{Outcomes, Streaks};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    failed: bool,
    slow: bool,
}

impl Kind {
    fn times(self, n: u64) -> Counts {
        Counts { calls: n, failures: if self.failed { n } else { 0 }, slow: if self.slow { n } else { 0 } }
    }
}

/// The last calls of one instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Last {
    /// Oldest first.
    runs: VecDeque<(Kind, u64)>,
    counts: Counts,
}

impl Last {
    pub(crate) const fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether none of them is a failure or slow.
    pub(crate) const fn is_spotless(&self) -> bool {
        self.counts.failures == 0 && self.counts.slow == 0
    }

    /// Adds an entry's outcomes, spread evenly, the trailing streak last; the oldest beyond `size` leave.
    pub(crate) fn add(&mut self, outcomes: Outcomes, streaks: Streaks, size: u32) {
        let size = u64::from(size);
        let trailing = streaks.trailing.min(outcomes.failures);
        let (body_failures, successes) = (outcomes.failures - trailing, outcomes.successes);
        let body = successes.saturating_add(body_failures);
        // Slow failures are spread over all failures, slow successes over all successes.
        let slow_failure = |nth| is_step(nth, outcomes.slow_failures, outcomes.failures);
        let slow_success = |nth| is_step(nth, outcomes.slow_successes, successes);

        let skipped = body.saturating_add(trailing).saturating_sub(size).min(body);
        if body_failures == 0 && is_uniform(outcomes.slow_successes, successes) {
            self.push(Kind { failed: false, slow: outcomes.slow_successes > 0 }, body - skipped, size);
        } else {
            for at in skipped..body {
                let failures_before = steps(at, body_failures, body);
                let failed = steps(at + 1, body_failures, body) > failures_before;
                let slow =
                    if failed { slow_failure(failures_before) } else { slow_success(at - failures_before) };
                self.push(Kind { failed, slow }, 1, size);
            }
        }
        let kept = trailing.min(size);
        if is_uniform(outcomes.slow_failures, outcomes.failures) {
            self.push(Kind { failed: true, slow: outcomes.slow_failures > 0 }, kept, size);
        } else {
            for nth in outcomes.failures - kept..outcomes.failures {
                self.push(Kind { failed: true, slow: slow_failure(nth) }, 1, size);
            }
        }
    }

    /// Keeps the newest `size` only.
    pub(crate) fn shrink(&mut self, size: u32) {
        self.evict(u64::from(size));
    }

    fn push(&mut self, kind: Kind, n: u64, size: u64) {
        if n == 0 {
            return;
        }
        match self.runs.back_mut() {
            Some((last, run)) if *last == kind => *run += n,
            _ => self.runs.push_back((kind, n)),
        }
        self.counts.add(kind.times(n));
        self.evict(size);
    }

    fn evict(&mut self, size: u64) {
        while self.counts.calls > size {
            let surplus = self.counts.calls - size;
            let Some((kind, run)) = self.runs.front_mut() else { return };
            let gone = surplus.min(*run);
            let counts = kind.times(gone);
            *run -= gone;
            if *run == 0 {
                self.runs.pop_front();
            }
            self.counts.take(counts);
        }
    }
}

/// How many of `marked` fall among the first `n` of `all` when they are spread evenly.
fn steps(n: u64, marked: u64, all: u64) -> u64 {
    if all == 0 {
        0
    } else {
        u64::try_from(u128::from(n) * u128::from(marked) / u128::from(all)).unwrap_or(marked)
    }
}

/// Whether the `nth` of `all` is one of the `marked`.
fn is_step(nth: u64, marked: u64, all: u64) -> bool {
    steps(nth + 1, marked, all) > steps(nth, marked, all)
}

const fn is_uniform(marked: u64, all: u64) -> bool {
    marked == 0 || marked == all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Entry;

    fn show(last: &Last) -> String {
        let letter = |kind: &Kind| match (kind.failed, kind.slow) {
            (false, false) => "s",
            (false, true) => "S",
            (true, false) => "f",
            (true, true) => "F",
        };
        last.runs.iter().map(|(kind, n)| letter(kind).repeat(usize::try_from(*n).unwrap())).collect()
    }

    fn add(last: &mut Last, outcomes: Outcomes, streaks: Option<Streaks>, size: u32) {
        let entry = Entry { outcomes, streaks, ..Entry::default() };
        last.add(outcomes, entry.streaks(), size);
    }

    #[test]
    fn outcomes_are_spread_evenly_and_the_trailing_streak_comes_last() {
        let mut last = Last::default();
        let outcomes = Outcomes { successes: 4, failures: 4, ..Outcomes::default() };
        add(&mut last, outcomes, None, 100);
        assert_eq!(show(&last), "sfsfsfsf");
        let streaks = Streaks { trailing: 3, longest: 3, ..Streaks::default() };
        add(&mut last, outcomes, Some(streaks), 100);
        assert_eq!(show(&last), "sfsfsfsfssssffff");
    }

    #[test]
    fn only_the_last_stay_and_a_long_run_is_one_run() {
        let mut last = Last::default();
        add(&mut last, Outcomes { successes: 1_000_000, ..Outcomes::default() }, None, 10);
        assert_eq!((show(&last).as_str(), last.runs.len()), ("ssssssssss", 1));
        add(&mut last, Outcomes { failures: 3, slow_failures: 3, ..Outcomes::default() }, None, 10);
        assert_eq!(show(&last), "sssssssFFF");
        assert_eq!(last.counts(), Counts { calls: 10, failures: 3, slow: 3 });
        add(&mut last, Outcomes { successes: 2, slow_successes: 1, ..Outcomes::default() }, None, 4);
        assert_eq!(show(&last), "FFsS");
        last.shrink(1);
        assert_eq!(last.counts(), Counts { calls: 1, failures: 0, slow: 1 });
    }
}
