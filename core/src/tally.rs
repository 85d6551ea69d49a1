//! Tallies of counted calls: one per instance, and their sums.

mod cut;
mod guard;
mod one;
mod penalty;
mod streaks;

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use crate::{
    classify::Cause,
    members::Slot,
    outcome::Entry,
    policy::{Policy, Rule, Window},
    time::Timestamp,
    window::{Counts, Geometry, Ring},
};
use cut::{Cut, EXACT_LOOK_MAX, LOOK_INTERVAL};
use one::{Tally, run_on};

pub(crate) use guard::{Quorum, Trip};
pub(crate) use penalty::Look;

/// An instance without calls for longer than this, or than the window, is forgotten.
pub(crate) const FORGET_AFTER: Duration = Duration::from_secs(60);
/// Up to so many instances are counted afresh at every call; beyond that a count may be a tenth of a second old.
pub(crate) const EXACT_COUNT_MAX: usize = 64;
/// How old a count of many instances may be.
pub(crate) const COUNT_AGE: Duration = Duration::from_millis(100);
/// The most causes that are counted apart; more than any policy can list together with the built-in ones in use.
pub(crate) const CAUSES_MAX: usize = 128;

/// One rule against what the window holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The rule.
    pub rule: Rule,
    /// Counted calls in its window, over all instances. For a streak: its length.
    pub calls: u64,
    /// Of those, the ones the rule looks at: failures, slow calls, or the longest streak of one instance.
    pub matched: u64,
    /// Whether the rule has its minimum and its threshold is reached.
    pub crossed: bool,
}

impl Reading {
    /// What a part of the calls says, with the rule's own minimum.
    fn of(rule: Rule, counts: Counts) -> Self {
        Self::with_minimum(rule, counts, rule.minimum_calls())
    }

    fn with_minimum(rule: Rule, counts: Counts, minimum_calls: u32) -> Self {
        let (calls, matched) = (counts.calls, matched(rule, counts));
        let crossed = match rule {
            Rule::FailureRate { threshold, .. } | Rule::SlowRate { threshold, .. } => {
                calls >= u64::from(minimum_calls) && threshold.reached_by(matched, calls)
            }
            Rule::Failures { threshold, .. } | Rule::ConsecutiveFailures { threshold } => {
                matched >= u64::from(threshold)
            }
        };
        Self { rule, calls, matched, crossed }
    }

    /// What the rule needs to be crossed with the calls there are: of at least its minimum, the least that match.
    pub(crate) fn needed(&self) -> u64 {
        match self.rule {
            Rule::FailureRate { threshold, minimum_calls, .. }
            | Rule::SlowRate { threshold, minimum_calls, .. } => {
                threshold.least_of(self.calls.max(minimum_calls.into()))
            }
            Rule::Failures { threshold, .. } | Rule::ConsecutiveFailures { threshold } => threshold.into(),
        }
    }
}

/// A streak of failures that an entry reached, although it may be broken by its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    slot: Slot,
    streak: u64,
}

/// The tallies of one counting stretch.
#[derive(Clone, Debug)]
pub(crate) struct Tallies {
    geometry: Geometry,
    tallies: HashMap<Slot, Tally>,
    /// The sum of all rings. Instances that are forgotten have nothing left in it.
    total: Ring,
    /// The sum of all rings of last calls.
    total_last: Counts,
    streaks: streaks::ByLength,
    causes: HashMap<Cause, Ring>,
    active: usize,
    active_at: Timestamp,
    book: Book,
}

/// What only the guard needs.
#[derive(Clone, Debug)]
struct Book {
    /// Whether instances can be kept out: not under an override.
    holds: bool,
    /// By rule: the fleet without its worst instances, where that was asked for lately.
    cuts: Vec<Option<Cut>>,
    /// By rule: instances whose own calls crossed it at their latest report.
    crossing: Vec<u32>,
    /// The instances among them.
    suspects: BTreeSet<Slot>,
    /// Instances that are quarantined for what their calls came to, and those kept out for whatever reason.
    sick: u32,
    held: BTreeSet<Slot>,
    /// Instances that the dependency asked to wait, as far as known.
    asked: BTreeSet<Slot>,
    /// When which instance is to be looked at.
    looks: BTreeSet<(Timestamp, Slot)>,
    /// Whether the fleet without its worst is crossed was put off until then.
    judge_at: Option<Timestamp>,
}

impl Book {
    fn new(policy: &Policy, holds: bool) -> Self {
        let rules = policy.spec().trip.len();
        Self {
            holds,
            cuts: vec![None; rules],
            crossing: vec![0; rules],
            suspects: BTreeSet::new(),
            sick: 0,
            held: BTreeSet::new(),
            asked: BTreeSet::new(),
            looks: BTreeSet::new(),
            judge_at: None,
        }
    }

    /// The rules that an instance's own calls cross are others than before.
    fn crossing_changed(&mut self, slot: Slot, before: u16, after: u16) {
        if before == after {
            return;
        }
        for (index, instances) in self.crossing.iter_mut().enumerate() {
            match (before >> index & 1, after >> index & 1) {
                (1, 0) => *instances = instances.saturating_sub(1),
                (0, 1) => *instances = instances.saturating_add(1),
                _ => {}
            }
        }
        if after == 0 {
            self.suspects.remove(&slot);
        } else {
            self.suspects.insert(slot);
        }
    }
}

impl Tallies {
    /// Nothing counted yet. `holds`: instances can be kept out.
    pub(crate) fn new(policy: &Policy, holds: bool, now: Timestamp) -> Self {
        Self {
            geometry: Geometry::of(policy),
            tallies: HashMap::new(),
            total: Ring::default(),
            total_last: Counts::default(),
            streaks: streaks::ByLength::new(policy),
            causes: HashMap::new(),
            active: 0,
            active_at: now,
            book: Book::new(policy, holds),
        }
    }

    /// Whether outcomes of `at` have left the window by `now`.
    pub(crate) const fn is_past(&self, at: Timestamp, now: Timestamp) -> bool {
        self.geometry.is_past(at, now)
    }

    /// Counts an entry of one instance. Returns the longest streak of failures that it made or was part of.
    pub(crate) fn add(
        &mut self,
        policy: &Policy,
        slot: Slot,
        entry: &Entry,
        at: Timestamp,
        now: Timestamp,
    ) -> Reached {
        let counts = Counts::from(entry.outcomes);
        for (cause, n) in &entry.causes {
            self.count_cause(cause, *n, at, now);
        }
        if counts.calls == 0 {
            return Reached { slot, streak: 0 };
        }
        if self.tallies.get(&slot).is_some_and(|tally| tally.is_forgotten(policy, now)) {
            self.forget(slot);
        }
        let tally = self.tallies.entry(slot).or_insert_with(|| Tally::new(at));
        tally.last_counted = tally.last_counted.max(at);
        let streak = if tally.counts_for_fleet() {
            self.add_to_fleet(policy, slot, entry, at, now)
        } else {
            self.add_to_probation(policy, slot, entry, at, now);
            0
        };
        self.count_active(policy, now);
        Reached { slot, streak }
    }

    fn add_to_fleet(
        &mut self,
        policy: &Policy,
        slot: Slot,
        entry: &Entry,
        at: Timestamp,
        now: Timestamp,
    ) -> u64 {
        let geometry = self.geometry;
        let Some(tally) = self.tallies.get_mut(&slot) else { return 0 };
        let counts = Counts::from(entry.outcomes);
        tally.ring.add(&geometry, counts, at, now);
        let cuts = &mut self.book.cuts;
        if let Some(size) = geometry.last {
            let before = tally.last.counts();
            tally.last.add(entry.outcomes, entry.streaks(), size);
            self.total_last.take(before);
            self.total_last.add(tally.last.counts());
            cuts.iter_mut().flatten().for_each(|cut| cut.last_changed(slot, before, tally.last.counts()));
        }
        self.total.add(&geometry, counts, at, now);
        cuts.iter_mut().flatten().for_each(|cut| cut.add(&geometry, slot, counts, at, now));
        if slot == Slot::OTHERS {
            // Whoever shares a tally has no streak of its own, and no vote.
            return 0;
        }
        let before = tally.streak;
        let (streak, reached) = run_on(before, entry);
        tally.streak = streak;
        self.streaks.moved(before, streak);
        if !policy.spec().guard.is_off() {
            self.look_at_own(policy, slot, entry, now);
        }
        reached
    }

    /// Each rule against what the window holds now.
    pub(crate) fn readings(&self, policy: &Policy, now: Timestamp) -> Vec<Reading> {
        policy.spec().trip.iter().map(|rule| self.reading(*rule, now)).collect()
    }

    fn reading(&self, rule: Rule, now: Timestamp) -> Reading {
        let counts = match rule.window() {
            Some(Window::Within(span)) => self.total.sum(&self.geometry, span, now),
            Some(Window::Last(_)) => self.total_last,
            None => streak_of(self.streaks.longest()),
        };
        Reading::of(rule, counts)
    }

    /// Instances that saw what the rule looks at, in its window, and the first `most` of them by how much. Somebody did,
    /// although a streak may be broken since.
    pub(crate) fn affected(&self, rule: Rule, most: usize, now: Timestamp) -> (u32, Vec<(Slot, u64)>) {
        let least = if rule.window().is_none() { u64::from(rule.threshold()) } else { 1 };
        let seen =
            |(slot, tally): (&Slot, &Tally)| (*slot, matched(rule, tally.counts(rule, &self.geometry, now)));
        let mut seen: Vec<_> = self.tallies.iter().map(seen).filter(|(_, n)| *n >= least).collect();
        let affected = u32::try_from(seen.len()).unwrap_or(u32::MAX).max(1);
        // In a tie in the order in which they came.
        let first = |seen: &(Slot, u64)| (std::cmp::Reverse(seen.1), seen.0);
        if seen.len() > most {
            seen.select_nth_unstable_by_key(most, first);
            seen.truncate(most);
        }
        seen.sort_unstable_by_key(first);
        (affected, seen)
    }

    /// The causes in the window, most frequent first, at most `most`.
    pub(crate) fn top_causes(&self, policy: &Policy, most: usize, now: Timestamp) -> Vec<(Cause, u64)> {
        let window = policy.window();
        let counted =
            |(cause, ring): (&Cause, &Ring)| (cause.clone(), ring.sum(&self.geometry, window, now).calls);
        most_frequent(self.causes.iter().map(counted), most)
    }

    /// Instances with a counted outcome in the window, or kept out.
    pub(crate) fn active(&self) -> u32 {
        u32::try_from(self.active).unwrap_or(u32::MAX)
    }

    /// Whether there are too many to look at each in each call.
    pub(crate) fn are_many(&self) -> bool {
        self.tallies.len() > EXACT_LOOK_MAX
    }

    /// Whether an instance has a tally.
    pub(crate) fn holds(&self, slot: Slot) -> bool {
        self.tallies.contains_key(&slot)
    }

    pub(crate) fn count_active(&mut self, policy: &Policy, now: Timestamp) {
        if self.tallies.len() > EXACT_COUNT_MAX && now < self.active_at.plus(COUNT_AGE) {
            return;
        }
        let window = policy.window();
        self.active_at = now;
        let is_active =
            |(slot, tally): &(&Slot, &Tally)| **slot != Slot::OTHERS && tally.is_active(window, now);
        self.active = self.tallies.iter().filter(is_active).count();
    }

    /// Forgets the instances that have not called for long, and what the guard does not need any more. `is_gone` says
    /// whether an instance that is kept out will not come back.
    pub(crate) fn sweep(&mut self, policy: &Policy, now: Timestamp, is_gone: impl Fn(Slot) -> bool) {
        let forgotten = self.tallies.iter().filter(|(_, tally)| tally.is_forgotten(policy, now));
        let forgotten: Vec<Slot> = forgotten.map(|(slot, _)| *slot).collect();
        for slot in forgotten {
            self.forget(slot);
        }
        let (geometry, window) = (self.geometry, policy.window());
        self.causes.retain(|_, ring| ring.sum(&geometry, window, now).calls > 0);
        for cut in &mut self.book.cuts {
            *cut = cut.take().filter(|cut| now < cut.used_at.plus(Duration::from_secs(1)));
        }
        self.let_go(is_gone);
        self.drop_spent_records(policy, now);
        self.count_active(policy, now);
    }

    /// Keeps what still fits under another policy.
    pub(crate) fn fit(&mut self, policy: &Policy, now: Timestamp) {
        self.start_book_anew(policy, now);
        self.streaks.fit(policy);
        let (from, to) = (self.geometry, Geometry::of(policy));
        if from == to {
            return;
        }
        self.geometry = to;
        self.total = self.total.recut(&from, &to, now);
        for ring in self.causes.values_mut() {
            *ring = ring.recut(&from, &to, now);
        }
        self.total_last = Counts::default();
        for tally in self.tallies.values_mut() {
            tally.ring = tally.ring.recut(&from, &to, now);
            match to.last {
                Some(size) => tally.last.shrink(size),
                None => tally.last = crate::window::Last::default(),
            }
            self.total_last.add(tally.last.counts());
        }
    }

    fn forget(&mut self, slot: Slot) {
        let Some(tally) = self.tallies.remove(&slot) else { return };
        self.total_last.take(tally.last.counts());
        let nothing = Counts::default();
        let cuts = self.book.cuts.iter_mut().flatten();
        cuts.for_each(|cut| cut.last_changed(slot, tally.last.counts(), nothing));
        self.streaks.moved(tally.streak, 0);
        self.book.crossing_changed(slot, tally.crossing, 0);
        self.strike_out(slot, &tally);
    }

    fn count_cause(&mut self, cause: &Cause, n: u64, at: Timestamp, now: Timestamp) {
        let counts = Counts { calls: n, ..Counts::default() };
        if let Some(ring) = self.causes.get_mut(cause) {
            ring.add(&self.geometry, counts, at, now);
        } else if self.causes.len() < CAUSES_MAX {
            self.causes.entry(cause.clone()).or_default().add(&self.geometry, counts, at, now);
        }
    }
}

/// A streak as counts: as many calls, all of them failures.
const fn streak_of(length: u64) -> Counts {
    Counts { calls: length, failures: length, slow: 0 }
}

/// The most frequent causes first, at most `most`; in a tie by name.
pub(crate) fn most_frequent(causes: impl Iterator<Item = (Cause, u64)>, most: usize) -> Vec<(Cause, u64)> {
    let mut causes: Vec<_> = causes.filter(|(_, n)| *n > 0).collect();
    causes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    causes.truncate(most);
    causes
}

const fn matched(rule: Rule, counts: Counts) -> u64 {
    match rule {
        Rule::SlowRate { .. } => counts.slow,
        Rule::FailureRate { .. } | Rule::Failures { .. } | Rule::ConsecutiveFailures { .. } => {
            counts.failures
        }
    }
}
