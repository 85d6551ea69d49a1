//! A ring of time buckets that several windows share. Only buckets that hold something exist, so memory follows
//! activity, at most [`BUCKETS_MAX`] buckets.

use std::{collections::VecDeque, time::Duration};

use super::Counts;
use crate::{
    policy::Policy,
    time::{Timestamp, millis},
};

/// The most buckets of a ring: ten for the shortest of windows that are at most sixty times apart.
#[cfg(test)]
pub(crate) const BUCKETS_MAX: u64 = 600;

/// How a policy's windows are cut into buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// A bucket's width in milliseconds.
    pub(crate) width_ms: u64,
    /// Buckets of the longest window.
    pub(crate) buckets: u64,
    /// The size of the ring of last calls.
    pub(crate) last: Option<u32>,
}

impl Geometry {
    /// At least ten buckets for the shortest window, a hundred for the longest where that is finer.
    pub(crate) fn of(policy: &Policy) -> Self {
        let longest = millis(policy.window());
        let shortest = policy.withins().min().map_or(longest, millis);
        let width_ms = (shortest / 10).min(longest / 100).max(1);
        Self { width_ms, buckets: longest / width_ms, last: policy.last() }
    }

    pub(crate) const fn index(&self, at: Timestamp) -> u64 {
        at.as_millis() / self.width_ms
    }

    /// Whether outcomes of `at` have left the longest window by `now`.
    pub(crate) const fn is_past(&self, at: Timestamp, now: Timestamp) -> bool {
        self.index(now).saturating_sub(self.index(at)) >= self.buckets
    }
}

/// What was counted when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    /// By bucket index, oldest first.
    buckets: VecDeque<(u64, Counts)>,
    /// Failures and slow calls in all buckets, so that a ring without any is told at once.
    bad: u128,
}

impl Ring {
    /// Adds counts at `at` and drops what has left the longest window by `now`.
    pub(crate) fn add(&mut self, geometry: &Geometry, counts: Counts, at: Timestamp, now: Timestamp) {
        self.prune(geometry, now);
        if geometry.is_past(at, now) {
            return;
        }
        let index = geometry.index(at);
        self.bad += bad(counts);
        let place = self.buckets.iter().rposition(|&(other, _)| other <= index);
        match place {
            Some(place) if self.buckets[place].0 == index => self.buckets[place].1.add(counts),
            Some(place) => self.buckets.insert(place + 1, (index, counts)),
            None => self.buckets.push_front((index, counts)),
        }
    }

    /// The sum of the last `span` by `now`: an outcome leaves at most one bucket early, and never late.
    pub(crate) fn sum(&self, geometry: &Geometry, span: Duration, now: Timestamp) -> Counts {
        let buckets = (millis(span) / geometry.width_ms).max(1);
        let newest = geometry.index(now);
        let mut sum = Counts::default();
        for &(_, counts) in
            self.buckets.iter().rev().take_while(|&&(index, _)| newest.saturating_sub(index) < buckets)
        {
            sum.add(counts);
        }
        sum
    }

    /// Whether nothing in it is a failure or slow: no rule can be crossed by it.
    pub(crate) const fn is_spotless(&self) -> bool {
        self.bad == 0
    }

    /// Takes the counts of another ring out of this one, which is a sum that they went into.
    pub(crate) fn take(&mut self, other: &Self) {
        let mut theirs = other.buckets.iter().peekable();
        for (index, counts) in &mut self.buckets {
            while theirs.next_if(|(other, _)| other < index).is_some() {}
            if let Some((_, taken)) = theirs.next_if(|(other, _)| other == index) {
                let before = bad(*counts);
                counts.take(*taken);
                self.bad = self.bad.saturating_sub(before - bad(*counts));
            }
        }
    }

    /// The same counts, cut anew.
    pub(crate) fn recut(&self, from: &Geometry, to: &Geometry, now: Timestamp) -> Self {
        let mut ring = Self::default();
        for &(index, counts) in &self.buckets {
            ring.add(to, counts, Timestamp::from_millis(index.saturating_mul(from.width_ms)), now);
        }
        ring
    }

    fn prune(&mut self, geometry: &Geometry, now: Timestamp) {
        let newest = geometry.index(now);
        while self.buckets.front().is_some_and(|&(index, _)| newest.saturating_sub(index) >= geometry.buckets)
        {
            if let Some((_, gone)) = self.buckets.pop_front() {
                self.bad = self.bad.saturating_sub(bad(gone));
            }
        }
    }
}

fn bad(counts: Counts) -> u128 {
    u128::from(counts.failures) + u128::from(counts.slow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        policy::{PolicySpec, Rule, Window},
        rate::Rate,
    };

    fn geometry(withins_ms: &[u64]) -> Geometry {
        let rule = |&ms| Rule::FailureRate {
            threshold: Rate::ALL,
            window: Window::Within(Duration::from_millis(ms)),
            minimum_calls: 1,
        };
        let trip = withins_ms.iter().map(rule).collect();
        Geometry::of(&Policy::try_new(PolicySpec { trip, ..PolicySpec::default() }, 1).unwrap())
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    const ONE: Counts = Counts { calls: 1, failures: 1, slow: 0 };

    #[test]
    fn every_window_has_ten_buckets_and_a_ring_at_most_six_hundred() {
        for withins in [
            &[100][..],
            &[1_000, 10_000],
            &[1_000, 60_000],
            &[3_600_000],
            &[86_400_000],
            &[777, 9_999],
            &[109, 6_000],
        ] {
            let geometry = geometry(withins);
            let shortest = withins.iter().min().unwrap();
            assert!(geometry.buckets <= BUCKETS_MAX, "{withins:?} {geometry:?}");
            assert!(shortest / geometry.width_ms >= 10, "{withins:?} {geometry:?}");
        }
    }

    #[test]
    fn an_outcome_leaves_at_most_one_bucket_early_and_never_late() {
        let geometry = geometry(&[1_000, 10_000]);
        let mut ring = Ring::default();
        ring.add(&geometry, ONE, at(50), at(50));
        let calls = |span_ms, now| ring.sum(&geometry, Duration::from_millis(span_ms), at(now)).calls;
        assert_eq!((calls(1_000, 999), calls(1_000, 1_050)), (1, 0));
        assert_eq!((calls(10_000, 9_999), calls(10_000, 10_050)), (1, 0));
    }

    #[test]
    fn what_is_taken_out_again_leaves_the_rest() {
        let geometry = geometry(&[1_000]);
        let (mut sum, mut one) = (Ring::default(), Ring::default());
        for (when, is_one) in [(100, true), (150, false), (300, true), (990, false)] {
            sum.add(&geometry, ONE, at(when), at(when));
            if is_one {
                one.add(&geometry, ONE, at(when), at(when));
            }
        }
        sum.take(&one);
        let left = |ring: &Ring| ring.sum(&geometry, Duration::from_secs(1), at(999));
        assert_eq!((left(&sum).calls, left(&one).calls, sum.bad), (2, 2, 2));
        sum.take(&one);
        assert_eq!(left(&sum).failures, 2, "there is nothing of it left to take");
    }

    #[test]
    fn a_ring_is_spotless_once_its_failures_have_left() {
        let geometry = geometry(&[1_000]);
        let mut ring = Ring::default();
        ring.add(&geometry, ONE, at(100), at(100));
        let well = Counts { failures: 0, ..ONE };
        ring.add(&geometry, well, at(1_000), at(1_000));
        assert!(!ring.is_spotless());
        ring.add(&geometry, well, at(1_200), at(1_200));
        assert!(ring.is_spotless());
    }

    #[test]
    fn a_late_entry_enters_where_it_happened() {
        let geometry = geometry(&[1_000]);
        let mut ring = Ring::default();
        ring.add(&geometry, ONE, at(900), at(900));
        ring.add(&geometry, ONE, at(100), at(901));
        let calls = |now| ring.sum(&geometry, Duration::from_secs(1), at(now)).calls;
        assert_eq!((calls(1_000), calls(1_200), calls(1_900)), (2, 1, 0));
    }
}
