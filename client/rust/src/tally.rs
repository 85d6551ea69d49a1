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
        self.dirty_since.get_or_insert(now);
        match ended.outcome {
            Some(Outcome::Success) => {
                bump(&mut self.outcomes.successes, 1);
                bump(&mut self.outcomes.slow_successes, u64::from(ended.slow));
                self.streaks.trailing = 0;
            }
            Some(Outcome::Failure) => {
                bump(&mut self.outcomes.failures, 1);
                bump(&mut self.outcomes.slow_failures, u64::from(ended.slow));
                self.streaks.trailing += 1;
                self.streaks.longest = self.streaks.longest.max(self.streaks.trailing);
                if self.outcomes.successes == 0 {
                    self.streaks.leading += 1;
                } else {
                    self.turned = true;
                }
            }
            Some(Outcome::Ignored) => bump(&mut self.outcomes.ignored, 1),
            None => bump(&mut self.outcomes.abandoned, 1),
        }
        if let Some(cause) = ended.cause {
            self.count(cause);
        }
        self.retry_after = self.retry_after.max(ended.retry_after);
    }

    pub(crate) fn reject(&mut self, now: Timestamp) {
        self.dirty_since.get_or_insert(now);
        bump(&mut self.outcomes.rejected, 1);
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

    fn count(&mut self, cause: Cause) {
        if let Some((_, n)) = self.causes.iter_mut().find(|(known, _)| *known == cause) {
            bump(n, 1);
        } else if self.causes.len() < CAUSES_PER_ENTRY_MAX {
            self.causes.push((cause, 1));
        }
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
