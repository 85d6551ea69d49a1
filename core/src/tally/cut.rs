//! The fleet without its worst instances, for one rule.
//!
//! Which ones are the worst is found by a look at every instance. To do that in each report would cost what the guard may
//! not cost, so the last answer is kept as a witness: as long as the rule is not crossed without *those*, it is not
//! crossed without the worst either, for leaving out the worst leaves the least. The sum without them is kept up like
//! the totals, and only when it is crossed are the worst looked for again.

use std::{cmp::Reverse, time::Duration};

use super::{Reading, matched};
use crate::{
    members::Slot,
    policy::{Rule, Window},
    time::Timestamp,
    window::{Counts, Geometry, Ring},
};

/// Up to so many instances the worst are looked for whenever it matters; beyond that not again for [`LOOK_INTERVAL`].
pub(super) const EXACT_LOOK_MAX: usize = 256;
/// By so much a trip of a bigger fleet can be late.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The fleet without some instances.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// Who is left out, in order; those that share a tally are left out too.
    left_out: Vec<Slot>,
    rest: Ring,
    rest_last: Counts,
    pub(super) made_at: Timestamp,
    pub(super) used_at: Timestamp,
}

/// What one instance counts in the rule's window.
pub(super) struct Share {
    pub(super) slot: Slot,
    pub(super) counts: Counts,
}

impl Cut {
    pub(super) fn new(left_out: Vec<Slot>, rest: Ring, rest_last: Counts, now: Timestamp) -> Self {
        Self { left_out, rest, rest_last, made_at: now, used_at: now }
    }

    pub(super) fn leaves_out(&self, slot: Slot) -> bool {
        slot == Slot::OTHERS || self.left_out.binary_search(&slot).is_ok()
    }

    pub(super) const fn size(&self) -> usize {
        self.left_out.len()
    }

    /// Outcomes of an instance went into the totals.
    pub(super) fn add(
        &mut self,
        geometry: &Geometry,
        slot: Slot,
        counts: Counts,
        at: Timestamp,
        now: Timestamp,
    ) {
        if !self.leaves_out(slot) {
            self.rest.add(geometry, counts, at, now);
        }
    }

    /// What an instance counts of its last calls changed.
    pub(super) fn last_changed(&mut self, slot: Slot, before: Counts, after: Counts) {
        if !self.leaves_out(slot) {
            self.rest_last.take(before);
            self.rest_last.add(after);
        }
    }

    pub(super) fn counts(&self, rule: Rule, geometry: &Geometry, now: Timestamp) -> Counts {
        match rule.window() {
            Some(Window::Within(span)) => self.rest.sum(geometry, span, now),
            Some(Window::Last(_)) | None => self.rest_last,
        }
    }
}

/// The worst `most` of them: those with the largest excess, in a tie the ones with more calls. In order of their places.
pub(super) fn worst(rule: Rule, mut shares: Vec<Share>, most: usize) -> Vec<Share> {
    let most = most.min(shares.len());
    if most == 0 {
        return Vec::new();
    }
    shares.select_nth_unstable_by_key(most - 1, |share| {
        (Reverse(excess(rule, share.counts)), Reverse(share.counts.calls), share.slot)
    });
    shares.truncate(most);
    shares.sort_unstable_by_key(|share| share.slot);
    shares
}

/// By how much a part of the calls is over the threshold, in ten-thousandths of a call; for a count rule the count.
pub(super) fn excess(rule: Rule, counts: Counts) -> i128 {
    let found = i128::from(matched(rule, counts));
    match rule {
        Rule::FailureRate { threshold, .. } | Rule::SlowRate { threshold, .. } => {
            found * 10_000 - i128::from(threshold.hundredths()) * i128::from(counts.calls)
        }
        Rule::Failures { .. } | Rule::ConsecutiveFailures { .. } => found,
    }
}

/// Whether what is left crosses the rule, with the smaller one of its own minimum and the guard's.
pub(super) fn is_crossed(rule: Rule, left: Counts, min_calls: u32) -> bool {
    Reading::with_minimum(rule, left, min_calls.min(rule.minimum_calls())).crossed
}

/// Whether it is not crossed whatever the minimum is: then it is not crossed without the worst either.
pub(super) fn is_surely_below(rule: Rule, left: Counts) -> bool {
    !Reading::with_minimum(rule, left, 1).crossed
}
