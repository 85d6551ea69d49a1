//! When a rule trips the fleet: a quorum decides, by its calls or by its votes.

use super::{
    Counts, LOOK_INTERVAL, Reached, Reading, Tallies,
    cut::{self, Cut, Share},
    streak_of,
};
use crate::{
    members::Slot,
    policy::{Policy, Rule},
    time::Timestamp,
    transition::TripBy,
};

/// Fewer active instances than this do not vote.
const VOTERS_MIN: u32 = 3;

/// What a decision of the fleet needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quorum {
    pub(crate) active: u32,
    pub(crate) required: u32,
}

/// A rule that trips the fleet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trip {
    pub(crate) reading: Reading,
    pub(crate) by: TripBy,
}

/// What the fleet without its worst instances says.
enum Rest {
    Crossed {
        left_out: u32,
        counts: Counts,
    },
    Below,
    /// Nobody has looked yet.
    Ask(Timestamp),
}

impl Tallies {
    /// The first rule that trips the fleet. `reached` is the streak of the entry that is looked at.
    pub(crate) fn judge(
        &mut self,
        policy: &Policy,
        quorum: Quorum,
        reached: Option<Reached>,
        now: Timestamp,
    ) -> Option<Trip> {
        self.book.judge_at = None;
        let (rules, guard) = (&policy.spec().trip, policy.spec().guard);
        for (index, rule) in rules.iter().enumerate() {
            let trip = match rule {
                Rule::ConsecutiveFailures { .. } => self.streaks_trip(*rule, quorum, reached),
                _ if guard.is_off() => {
                    let reading = self.reading(*rule, now);
                    let by = TripBy::Calls { left_out: 0, calls: reading.calls, matched: reading.matched };
                    reading.crossed.then_some(Trip { reading, by })
                }
                _ => self.calls_trip(policy, index, quorum, now),
            };
            let trip = trip
                .or_else(|| if guard.is_off() { None } else { self.votes_trip(policy, index, quorum, now) });
            if trip.is_some() {
                return trip;
            }
        }
        None
    }

    /// When a fleet too big to be looked at in each report is to be judged again.
    pub(crate) const fn judge_at(&self) -> Option<Timestamp> {
        self.book.judge_at
    }

    fn streaks_trip(&self, rule: Rule, quorum: Quorum, reached: Option<Reached>) -> Option<Trip> {
        let threshold = u64::from(rule.threshold());
        let mut instances = self.streaks.reaching(threshold);
        let mut longest = self.streaks.longest();
        if let Some(Reached { slot, streak }) = reached {
            let goes_on = self.tallies.get(&slot).is_some_and(|tally| tally.streak >= threshold);
            instances += u32::from(streak >= threshold && !goes_on);
            longest = longest.max(streak);
        }
        let reading = Reading::of(rule, streak_of(longest));
        (instances >= quorum.required).then_some(Trip { reading, by: TripBy::Streaks { instances } })
    }

    fn calls_trip(&mut self, policy: &Policy, index: usize, quorum: Quorum, now: Timestamp) -> Option<Trip> {
        let rule = policy.spec().trip[index];
        let reading = self.reading(rule, now);
        if !reading.crossed {
            return None;
        }
        match self.rest(policy, index, quorum.required - 1, now) {
            Rest::Crossed { left_out, counts } => {
                let matched = super::matched(rule, counts);
                Some(Trip { reading, by: TripBy::Calls { left_out, calls: counts.calls, matched } })
            }
            Rest::Below => None,
            Rest::Ask(at) => {
                let earliest = self.book.judge_at.map_or(at, |other| other.min(at));
                self.book.judge_at = Some(earliest);
                None
            }
        }
    }

    /// The fleet without its `most` worst instances, and without all that share a tally.
    fn rest(&mut self, policy: &Policy, index: usize, most: u32, now: Timestamp) -> Rest {
        let rule = policy.spec().trip[index];
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if let Some(cut) = &mut self.book.cuts[index] {
            cut.used_at = now;
            // A witness for fewer instances than may be left out is one for as many, too.
            if cut.size() <= most && cut::is_surely_below(rule, cut.counts(rule, &self.geometry, now)) {
                return Rest::Below;
            }
            let next = cut.made_at.plus(LOOK_INTERVAL);
            if self.are_many() && now < next {
                return Rest::Ask(next);
            }
        }
        let shares = self.tallies.iter().filter(|(slot, _)| **slot != Slot::OTHERS);
        let shares = shares
            .map(|(slot, tally)| Share { slot: *slot, counts: tally.counts(rule, &self.geometry, now) })
            .filter(|share| share.counts.calls > 0);
        let worst = cut::worst(rule, shares.collect(), most);
        let (mut rest, mut rest_last) = (self.total.clone(), self.total_last);
        for slot in worst.iter().map(|share| share.slot).chain([Slot::OTHERS]) {
            if let Some(tally) = self.tallies.get(&slot) {
                rest.take(&tally.ring);
                rest_last.take(tally.last.counts());
            }
        }
        let left_out = worst.into_iter().map(|share| share.slot).collect();
        let cut = Cut::new(left_out, rest, rest_last, now);
        let counts = cut.counts(rule, &self.geometry, now);
        let left_out = u32::try_from(cut.size()).unwrap_or(u32::MAX);
        self.book.cuts[index] = Some(cut);
        if cut::is_crossed(rule, counts, policy.spec().guard.min_calls) {
            Rest::Crossed { left_out, counts }
        } else {
            Rest::Below
        }
    }

    fn votes_trip(&mut self, policy: &Policy, index: usize, quorum: Quorum, now: Timestamp) -> Option<Trip> {
        let is_half = |votes: u32| u64::from(votes) * 2 >= u64::from(quorum.active);
        let votes = |book: &super::Book| book.crossing[index].saturating_add(book.sick);
        if quorum.active < VOTERS_MIN || !is_half(votes(&self.book)) {
            return None;
        }
        let rule = policy.spec().trip[index];
        // What an instance crossed at its latest report may have left its window since.
        let bit = 1 << index;
        let is_stale = |slot: &&Slot| {
            self.tallies.get(*slot).is_some_and(|tally| {
                let counts = tally.counts(rule, &self.geometry, now);
                tally.crossing & bit != 0 && !Reading::of(rule, counts).crossed
            })
        };
        let stale: Vec<Slot> = self.book.suspects.iter().filter(is_stale).copied().collect();
        for slot in stale {
            if let Some(tally) = self.tallies.get_mut(&slot) {
                let before = tally.crossing;
                tally.crossing &= !bit;
                self.book.crossing_changed(slot, before, tally.crossing);
            }
        }
        let votes = votes(&self.book);
        let trip = Trip { reading: self.reading(rule, now), by: TripBy::Votes { votes } };
        (is_half(votes) && votes > 0).then_some(trip)
    }
}
