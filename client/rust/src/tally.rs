//! What calls came to since the last drain. Bounded whatever comes in.

use std::time::Duration;

use panelboard_core::{Cause, Entry, Outcome, Outcomes, Policy, Rule, Streaks, Timestamp};

use crate::{
    fact::Ended,
    limits::{CAUSES_PER_ENTRY_MAX, COUNT_MAX, FLUSH_INTERVAL},
};

/// Outcomes of one stretch, counted up until they are drained.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    outcomes: Outcomes,
    streaks: Streaks,
    causes: Vec<(Cause, u64)>,
    retry_after: Option<Duration>,
    /// A failure came after a success: the entry alone does not show when, so it is not left lying.
    turned: bool,
    dirty_since: Option<Timestamp>,
}

impl Tally {
    pub(crate) fn add(&mut self, ended: Ended, now: Timestamp) {
        self.since(now);
        match ended.outcome {
            Some(Outcome::Success) => {
                self.successes(1);
                self.slow_successes(u64::from(ended.slow));
            }
            Some(Outcome::Failure) => self.failures(1, ended.slow),
            Some(Outcome::Ignored) => self.ignored(1),
            None => self.abandoned(1),
        }
        self.cause(ended.cause, 1);
        self.retry_after(ended.retry_after);
    }

    /// There is something in it since `at`, if not before.
    pub(crate) fn since(&mut self, at: Timestamp) {
        self.dirty_since.get_or_insert(at);
    }

    /// So many successes, one after the other.
    pub(crate) fn successes(&mut self, n: u64) {
        bump(&mut self.outcomes.successes, n);
        if n > 0 {
            self.streaks.trailing = 0;
        }
    }

    /// So many of the successes were slow.
    pub(crate) fn slow_successes(&mut self, n: u64) {
        bump(&mut self.outcomes.slow_successes, n);
    }

    /// So many failures in a row.
    pub(crate) fn failures(&mut self, n: u64, slow: bool) {
        bump(&mut self.outcomes.failures, n);
        bump(&mut self.outcomes.slow_failures, if slow { n } else { 0 });
        bump(&mut self.streaks.trailing, n);
        self.streaks.longest = self.streaks.longest.max(self.streaks.trailing);
        if self.outcomes.successes == 0 {
            bump(&mut self.streaks.leading, n);
        } else {
            self.turned = true;
        }
    }

    pub(crate) fn ignored(&mut self, n: u64) {
        bump(&mut self.outcomes.ignored, n);
    }

    pub(crate) fn abandoned(&mut self, n: u64) {
        bump(&mut self.outcomes.abandoned, n);
    }

    pub(crate) fn rejections(&mut self, n: u64) {
        bump(&mut self.outcomes.rejected, n);
    }

    pub(crate) fn retry_after(&mut self, span: Option<Duration>) {
        self.retry_after = self.retry_after.max(span);
    }

    pub(crate) fn cause(&mut self, cause: Option<Cause>, times: u64) {
        let Some(cause) = cause else { return };
        if let Some((_, n)) = self.causes.iter_mut().find(|(known, _)| *known == cause) {
            bump(n, times);
        } else if self.causes.len() < CAUSES_PER_ENTRY_MAX {
            self.causes.push((cause, times.min(COUNT_MAX)));
        }
    }

    /// What is in it.
    pub(crate) const fn outcomes(&self) -> Outcomes {
        self.outcomes
    }

    /// Whether nothing is in it.
    pub(crate) const fn is_empty(&self) -> bool {
        self.dirty_since.is_none()
    }

    /// Whether there is something in it that may trip a rule by itself.
    pub(crate) const fn has_trouble(&self) -> bool {
        self.outcomes.failures > 0 || self.outcomes.slow_successes > 0
    }

    /// Puts another one after this one.
    pub(crate) fn append(&mut self, later: Self) {
        let (mine, theirs) = (self.outcomes, later.outcomes);
        let streaks = match (mine.counted(), theirs.counted()) {
            (_, 0) => self.streaks,
            (0, _) => later.streaks,
            _ => {
                let (before, after) = (self.streaks, later.streaks);
                let across = before.trailing + after.leading;
                Streaks {
                    leading: before.leading + if mine.successes == 0 { after.leading } else { 0 },
                    longest: before.longest.max(after.longest).max(across),
                    trailing: after.trailing + if theirs.successes == 0 { before.trailing } else { 0 },
                }
            }
        };
        let turned = mine.successes > 0 && theirs.failures > 0;
        self.add_up(later, streaks, turned);
    }

    /// Puts together what another thread counted in the same time. What came when is not known between the two, so
    /// the streaks are those of an order in which it may have been: never longer than one that fits, and exact if
    /// nothing succeeded.
    pub(crate) fn join(&mut self, other: Self) {
        let (mine, theirs) = (self.outcomes, other.outcomes);
        let streaks = match (mine.counted(), theirs.counted()) {
            (_, 0) => self.streaks,
            (0, _) => other.streaks,
            _ => {
                let (a, b) = (self.streaks, other.streaks);
                let both = |a: u64, b: u64| if a > 0 && b > 0 { a + b } else { 0 };
                let (leading, trailing) = (both(a.leading, b.leading), both(a.trailing, b.trailing));
                let longest = a.longest.max(b.longest).max(leading).max(trailing);
                Streaks { leading, longest, trailing }
            }
        };
        let turned = mine.successes > 0 && theirs.failures > 0 || theirs.successes > 0 && mine.failures > 0;
        self.add_up(other, streaks, turned);
    }

    fn add_up(&mut self, other: Self, streaks: Streaks, turned: bool) {
        let (mine, theirs) = (&mut self.outcomes, other.outcomes);
        bump(&mut mine.successes, theirs.successes);
        bump(&mut mine.failures, theirs.failures);
        bump(&mut mine.slow_successes, theirs.slow_successes);
        bump(&mut mine.slow_failures, theirs.slow_failures);
        bump(&mut mine.ignored, theirs.ignored);
        bump(&mut mine.abandoned, theirs.abandoned);
        bump(&mut mine.rejected, theirs.rejected);
        // Counts are cut one by one; streaks and slow ones stay parts of them.
        let most = mine.failures;
        self.streaks = Streaks {
            leading: streaks.leading.min(most),
            longest: streaks.longest.min(most),
            trailing: streaks.trailing.min(most),
        };
        self.turned |= other.turned || turned;
        for (cause, times) in other.causes {
            self.cause(Some(cause), times);
        }
        self.retry_after(other.retry_after);
        self.dirty_since = match (self.dirty_since, other.dirty_since) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
    }

    pub(crate) fn reject(&mut self, now: Timestamp) {
        self.since(now);
        self.rejections(1);
    }

    /// Takes all there is; none if there is nothing.
    pub(crate) fn take(&mut self) -> Option<Entry> {
        self.dirty_since?;
        let taken = std::mem::take(self);
        Some(Entry {
            outcomes: taken.outcomes,
            streaks: (taken.outcomes.failures > 0).then_some(taken.streaks),
            causes: taken.causes,
            retry_after: taken.retry_after,
            ..Entry::default()
        })
    }

    /// Forgets outcomes, which belong to a stretch that is over. Rejections are for metrics and stay.
    pub(crate) fn forget_outcomes(&mut self) {
        let rejected = self.outcomes.rejected;
        let dirty_since = self.dirty_since.filter(|_| rejected > 0);
        *self =
            Self { outcomes: Outcomes { rejected, ..Outcomes::default() }, dirty_since, ..Self::default() };
    }

    /// Since when there are outcomes in it.
    pub(crate) fn waits_since(&self) -> Option<Timestamp> {
        self.dirty_since.filter(|_| self.outcomes.counted() > 0)
    }

    /// When it is to be drained, if there is anything: at once if it may move the server's verdict, else in a while.
    pub(crate) fn due(&self, policy: &Policy) -> Option<Timestamp> {
        let since = self.dirty_since?;
        Some(if self.is_urgent(policy) { since } else { since.plus(FLUSH_INTERVAL) })
    }

    fn is_urgent(&self, policy: &Policy) -> bool {
        let Outcomes { failures, .. } = self.outcomes;
        let (calls, slow) = (self.outcomes.counted(), self.outcomes.slow());
        self.turned
            || policy.spec().trip.iter().any(|rule| match rule {
                Rule::FailureRate { threshold, .. } => threshold.reached_by(failures, calls),
                Rule::SlowRate { threshold, .. } => threshold.reached_by(slow, calls),
                // Each failure counts for these, so that none waits.
                Rule::Failures { .. } | Rule::ConsecutiveFailures { .. } => failures > 0,
            })
    }
}

fn bump(count: &mut u64, by: u64) {
    *count = count.saturating_add(by).min(COUNT_MAX);
}

#[cfg(test)]
mod tests {
    use panelboard_core::{Classification, PolicySpec, Rate, Window};

    use super::*;

    fn ended(outcome: Outcome) -> Ended {
        Ended { outcome: Some(outcome), slow: false, cause: None, retry_after: None }
    }

    /// S, F and I, in order.
    fn tallied(script: &str) -> Tally {
        let mut tally = Tally::default();
        for (n, c) in script.chars().enumerate() {
            let outcome = match c {
                'S' => Outcome::Success,
                'F' => Outcome::Failure,
                _ => Outcome::Ignored,
            };
            tally.add(ended(outcome), Timestamp::from_millis(n as u64));
        }
        tally
    }

    fn policy(rule: Rule) -> Policy {
        Policy::try_new(PolicySpec { trip: vec![rule], ..PolicySpec::default() }, 1).unwrap()
    }

    fn half() -> Policy {
        policy(Rule::FailureRate {
            threshold: Rate::percent(50).unwrap(),
            window: Window::Within(Duration::from_secs(10)),
            minimum_calls: 20,
        })
    }

    #[test]
    fn streaks_are_kept_exactly() {
        let streaks = |script: &str| {
            let streaks = tallied(script).take().unwrap().streaks();
            (streaks.leading, streaks.longest, streaks.trailing)
        };
        assert_eq!(streaks("FFSFFFSF"), (2, 3, 1));
        assert_eq!(streaks("FFF"), (3, 3, 3));
        assert_eq!(streaks("FIFSF"), (2, 2, 1));
        assert_eq!(streaks("SFFS"), (0, 2, 0));
        assert_eq!(streaks("SS"), (0, 0, 0));
    }

    #[test]
    fn what_follows_goes_on_with_the_streak() {
        for split in 0..=8 {
            for script in ["FFSFFFSF", "FFFFFFFF", "SFFFSFFF", "SSSSSSSS", "FIFIIFSF"] {
                let (first, second) = script.split_at(split);
                let mut tally = tallied(first);
                tally.append(tallied(second));
                let (got, expected) = (tally.take().unwrap(), tallied(script).take().unwrap());
                assert_eq!(got.streaks(), expected.streaks(), "{first} then {second}");
                assert_eq!(got.outcomes, expected.outcomes);
            }
        }
    }

    /// All orders of what two threads did, each in its own order.
    fn shuffles(a: &str, b: &str) -> Vec<String> {
        match (a.is_empty(), b.is_empty()) {
            (true, _) => vec![b.into()],
            (_, true) => vec![a.into()],
            _ => {
                let put = |first: &str, rest: Vec<String>| {
                    rest.into_iter().map(|rest| format!("{first}{rest}")).collect::<Vec<_>>()
                };
                let mut all = put(&a[..1], shuffles(&a[1..], b));
                all.extend(put(&b[..1], shuffles(a, &b[1..])));
                all
            }
        }
    }

    #[test]
    fn two_threads_have_streaks_that_some_order_of_their_calls_gives() {
        let scripts = ["F", "S", "FF", "FS", "SF", "FFF", "SFF", "FFS", "FSF", "SFS"];
        for (a, b) in scripts.iter().flat_map(|a| scripts.iter().map(move |b| (a, b))) {
            let mut tally = tallied(a);
            tally.join(tallied(b));
            let got = tally.take().unwrap().streaks();
            let all: Vec<_> =
                shuffles(a, b).iter().map(|order| tallied(order).take().unwrap().streaks()).collect();
            for (name, one) in [
                ("leading", (|s| s.leading) as fn(&Streaks) -> u64),
                ("longest", |s| s.longest),
                ("trailing", |s| s.trailing),
            ] {
                assert!(all.iter().any(|order| one(order) == one(&got)), "{name} of {a} and {b}: {got:?}");
            }
        }
    }

    #[test]
    fn news_that_may_trip_does_not_wait() {
        let due = |script: &str, policy: &Policy| tallied(script).due(policy).map(Timestamp::as_millis);
        assert_eq!(due("F", &half()), Some(0));
        assert_eq!(due("FS", &half()), Some(0));
        assert_eq!(due("SSSSF", &half()), Some(0), "a failure after a success");
        assert_eq!(due("FSSS", &half()), Some(200));
        assert_eq!(due("SSS", &half()), Some(200));
        assert_eq!(due("FSSS", &policy(Rule::ConsecutiveFailures { threshold: 5 })), Some(0));
        assert_eq!(Tally::default().due(&half()), None);
    }

    #[test]
    fn memory_is_bounded_by_causes_and_counts() {
        let classification = Classification::default();
        let mut tally = Tally::default();
        for status in 400..599 {
            let (outcome, cause) = classification.classify(panelboard_core::Fact::HttpStatus(status));
            let ended = Ended { outcome: Some(outcome), slow: false, cause, retry_after: None };
            tally.add(ended, Timestamp::ZERO);
        }
        assert_eq!(tally.take().unwrap().causes.len(), CAUSES_PER_ENTRY_MAX);
        assert_eq!(tally.take(), None);
        let mut count = COUNT_MAX;
        bump(&mut count, 5);
        assert_eq!(count, COUNT_MAX);
    }

    #[test]
    fn a_stretch_that_is_over_leaves_only_its_rejections() {
        let mut tally = tallied("FFS");
        tally.reject(Timestamp::ZERO);
        tally.forget_outcomes();
        let entry = tally.take().unwrap();
        assert_eq!(entry.outcomes, Outcomes { rejected: 1, ..Outcomes::default() });
        let mut tally = tallied("FFS");
        tally.forget_outcomes();
        assert_eq!(tally.take(), None);
    }
}
