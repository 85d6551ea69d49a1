//! Tallies of counted calls: one per instance, and their sums.

mod streaks;

use std::{collections::HashMap, time::Duration};

use crate::{
    classify::Cause,
    members::Slot,
    outcome::Entry,
    policy::{Policy, Rule, Window},
    time::Timestamp,
    window::{Counts, Geometry, Last, Ring},
};

/// An instance without calls for longer than this, or than the window, is forgotten.
pub(crate) const FORGET_AFTER: Duration = Duration::from_secs(60);
/// Up to so many instances are counted afresh at every call; beyond that a count may be a tenth of a second old.
pub(crate) const EXACT_COUNT_MAX: usize = 64;
/// How old a count of many instances may be.
pub(crate) const COUNT_AGE: Duration = Duration::from_millis(100);
/// The most causes that are counted apart; more than any policy can list together with the built-in ones in use.
pub(crate) const CAUSES_MAX: usize = 128;

/// One instance's counted calls.
#[derive(Clone, Debug)]
struct Tally {
    ring: Ring,
    last: Last,
    /// Failures in a row, up to now.
    streak: u64,
    /// When its newest counted call ended, as far as the entries say.
    last_counted: Timestamp,
}

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
    fn new(rule: Rule, calls: u64, matched: u64) -> Self {
        let crossed = match rule {
            Rule::FailureRate { threshold, minimum_calls, .. }
            | Rule::SlowRate { threshold, minimum_calls, .. } => {
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
}

impl Tallies {
    pub(crate) fn new(policy: &Policy, now: Timestamp) -> Self {
        Self {
            geometry: Geometry::of(policy),
            tallies: HashMap::new(),
            total: Ring::default(),
            total_last: Counts::default(),
            streaks: streaks::ByLength::default(),
            causes: HashMap::new(),
            active: 0,
            active_at: now,
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
    ) -> u64 {
        let counts = Counts::from(entry.outcomes);
        for (cause, n) in &entry.causes {
            self.count_cause(cause, *n, at, now);
        }
        if counts.calls == 0 {
            return self.tallies.get(&slot).map_or(0, |tally| tally.streak);
        }
        if self.tallies.get(&slot).is_some_and(|tally| is_forgotten(policy, tally, now)) {
            self.forget(slot);
        }
        let geometry = self.geometry;
        let tally = self.tallies.entry(slot).or_insert_with(|| Tally {
            ring: Ring::default(),
            last: Last::default(),
            streak: 0,
            last_counted: at,
        });
        let streaks = entry.streaks();
        tally.last_counted = tally.last_counted.max(at);
        tally.ring.add(&geometry, counts, at, now);
        if let Some(size) = geometry.last {
            let before = tally.last.counts();
            tally.last.add(entry.outcomes, streaks, size);
            self.total_last.take(before);
            self.total_last.add(tally.last.counts());
        }
        let before = tally.streak;
        let reached = before.saturating_add(streaks.leading).max(streaks.longest);
        tally.streak = if entry.outcomes.successes == 0 {
            before.saturating_add(entry.outcomes.failures)
        } else {
            streaks.trailing
        };
        let reached = reached.max(tally.streak);
        self.streaks.moved(before, tally.streak);
        self.total.add(&geometry, counts, at, now);
        self.count_active(policy, now);
        reached
    }

    /// The rule that is crossed, if one is. `reached` is a streak that may have been broken since.
    pub(crate) fn crossed(&self, policy: &Policy, reached: u64, now: Timestamp) -> Option<Reading> {
        let streak = reached.max(self.streaks.longest());
        let readings = policy.spec().trip.iter().map(|rule| match rule {
            Rule::ConsecutiveFailures { .. } => Reading::new(*rule, streak, streak),
            _ => self.reading(*rule, now),
        });
        readings.into_iter().find(|reading| reading.crossed)
    }

    /// Each rule against what the window holds now.
    pub(crate) fn readings(&self, policy: &Policy, now: Timestamp) -> Vec<Reading> {
        policy.spec().trip.iter().map(|rule| self.reading(*rule, now)).collect()
    }

    fn reading(&self, rule: Rule, now: Timestamp) -> Reading {
        let counts = match rule.window() {
            Some(Window::Within(span)) => self.total.sum(&self.geometry, span, now),
            Some(Window::Last(_)) => self.total_last,
            None => {
                let longest = self.streaks.longest();
                return Reading::new(rule, longest, longest);
            }
        };
        Reading::new(rule, counts.calls, matched(rule, counts))
    }

    /// Instances that saw what the rule looks at, in its window. Somebody did, although a streak may be broken since.
    pub(crate) fn affected(&self, rule: Rule, now: Timestamp) -> u32 {
        let affected = self.tallies.values().filter(|tally| match (rule, rule.window()) {
            (_, Some(Window::Within(span))) => matched(rule, tally.ring.sum(&self.geometry, span, now)) > 0,
            (_, Some(Window::Last(_))) => matched(rule, tally.last.counts()) > 0,
            (rule, None) => tally.streak >= u64::from(rule.threshold()),
        });
        u32::try_from(affected.count()).unwrap_or(u32::MAX).max(1)
    }

    /// The causes in the window, most frequent first, at most `most`.
    pub(crate) fn top_causes(&self, policy: &Policy, most: usize, now: Timestamp) -> Vec<(Cause, u64)> {
        let window = policy.window();
        let counted =
            |(cause, ring): (&Cause, &Ring)| (cause.clone(), ring.sum(&self.geometry, window, now).calls);
        most_frequent(self.causes.iter().map(counted), most)
    }

    /// Instances with a counted outcome in the window.
    pub(crate) fn active(&self) -> u32 {
        u32::try_from(self.active).unwrap_or(u32::MAX)
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
        self.active = self.tallies.values().filter(|tally| now < tally.last_counted.plus(window)).count();
    }

    /// Forgets the instances that have not called for long.
    pub(crate) fn sweep(&mut self, policy: &Policy, now: Timestamp) {
        let gone: Vec<Slot> = self
            .tallies
            .iter()
            .filter(|(_, tally)| is_forgotten(policy, tally, now))
            .map(|(slot, _)| *slot)
            .collect();
        for slot in gone {
            self.forget(slot);
        }
        let (geometry, window) = (self.geometry, policy.window());
        self.causes.retain(|_, ring| ring.sum(&geometry, window, now).calls > 0);
        self.count_active(policy, now);
    }

    /// Keeps what still fits under another policy.
    pub(crate) fn fit(&mut self, policy: &Policy, now: Timestamp) {
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
                None => tally.last = Last::default(),
            }
            self.total_last.add(tally.last.counts());
        }
    }

    fn forget(&mut self, slot: Slot) {
        if let Some(tally) = self.tallies.remove(&slot) {
            self.total_last.take(tally.last.counts());
            self.streaks.moved(tally.streak, 0);
        }
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

fn is_forgotten(policy: &Policy, tally: &Tally, now: Timestamp) -> bool {
    now >= tally.last_counted.plus(policy.window().max(FORGET_AFTER))
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
