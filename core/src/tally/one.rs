//! One instance's counted calls, and what the guard holds of it.

use std::{sync::Arc, time::Duration};

use super::{FORGET_AFTER, Reading};
use crate::{
    classify::Cause,
    outcome::Entry,
    policy::{Policy, Rule, Window},
    quarantine::Held,
    time::Timestamp,
    window::{Counts, Geometry, Last, Ring},
};

/// How long an instance's own crossing lasts before it is quarantined.
pub(crate) const SICK_AFTER: Duration = Duration::from_secs(1);
/// The most causes that are counted of one instance.
const CAUSES_MAX: usize = 16;
/// A retry-after moves an end only if it moves it by as much.
const EXTENDED_BY: Duration = Duration::from_millis(100);

/// One instance's counted calls.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) ring: Ring,
    pub(super) last: Last,
    /// Failures in a row, up to now.
    pub(super) streak: u64,
    /// When its newest counted call ended, as far as the entries say.
    pub(super) last_counted: Timestamp,
    /// The rules that its own calls crossed at its latest report: a bit each.
    pub(super) crossing: u16,
    /// None for the many that nothing is wrong with.
    pub(super) record: Option<Box<Record>>,
}

/// What the guard holds of an instance.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// Since when its own calls cross a rule.
    pub(super) since: Option<Timestamp>,
    pub(super) hold: Option<Hold>,
    /// After a quarantine for its own crossing: the calls since, which are not the fleet's yet.
    pub(super) probation: Option<Probation>,
    /// Until when the dependency asked it to wait.
    pub(super) asked: Option<Timestamp>,
    /// The causes it reported since its crossing began, or since it is back.
    pub(super) causes: Vec<(Cause, u64)>,
    /// Quarantines in a row, and when the last one of them ended.
    pub(super) row: u32,
    pub(super) ended: Timestamp,
    /// When it is looked at next, as it stands in the queue.
    pub(super) look_at: Option<Timestamp>,
}

/// An instance is kept out.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) until: Timestamp,
    pub(super) wait: Duration,
    pub(super) why: Held,
    pub(super) causes: Arc<[(Cause, u64)]>,
    pub(super) before: u32,
    pub(super) began: Timestamp,
}

/// The first calls after a quarantine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probation {
    pub(super) since: Timestamp,
    counts: Counts,
    streak: u64,
    longest: u64,
    /// The rule that they cross.
    pub(super) relapse: Option<Reading>,
}

impl Tally {
    pub(super) fn new(at: Timestamp) -> Self {
        let (ring, last) = (Ring::default(), Last::default());
        Self { ring, last, streak: 0, last_counted: at, crossing: 0, record: None }
    }

    /// What it counts in a rule's window; a streak counts for both.
    pub(super) fn counts(&self, rule: Rule, geometry: &Geometry, now: Timestamp) -> Counts {
        match rule.window() {
            Some(Window::Within(span)) => self.ring.sum(geometry, span, now),
            Some(Window::Last(_)) => self.last.counts(),
            None => Counts { calls: self.streak, failures: self.streak, slow: 0 },
        }
    }

    /// The first rule that its own calls cross now, with the rule's own minimum.
    pub(super) fn crossed(&self, policy: &Policy, geometry: &Geometry, now: Timestamp) -> Option<Reading> {
        self.own_readings(policy, geometry, now).find(|reading| reading.crossed)
    }

    /// The rules that its own calls cross now, a bit each.
    pub(super) fn crossings(&self, policy: &Policy, geometry: &Geometry, now: Timestamp) -> u16 {
        if self.streak == 0 && self.ring.is_spotless() && self.last.is_spotless() {
            return 0;
        }
        let bits = self.own_readings(policy, geometry, now).enumerate();
        bits.fold(0, |bits, (index, reading)| bits | u16::from(reading.crossed) << index)
    }

    fn own_readings(
        &self,
        policy: &Policy,
        geometry: &Geometry,
        now: Timestamp,
    ) -> impl Iterator<Item = Reading> {
        policy.spec().trip.iter().map(move |rule| Reading::of(*rule, self.counts(*rule, geometry, now)))
    }

    /// The quarantine that it is in: for what its calls came to, and not at the dependency's wish.
    pub(super) fn sick(&self) -> Option<&Hold> {
        self.record.as_ref()?.hold.as_ref().filter(|hold| hold.why.is_sick())
    }

    /// Whether its calls are the fleet's.
    pub(super) fn counts_for_fleet(&self) -> bool {
        self.record.as_ref().is_none_or(|record| record.probation.is_none()) && self.sick().is_none()
    }

    pub(super) fn is_active(&self, window: Duration, now: Timestamp) -> bool {
        let is_held = || self.record.as_ref().is_some_and(|record| record.hold.is_some());
        now < self.last_counted.plus(window) || is_held()
    }

    /// Whether it did not call for long, and was not kept from it.
    pub(super) fn is_forgotten(&self, policy: &Policy, now: Timestamp) -> bool {
        let (is_held, ended) = self
            .record
            .as_ref()
            .map_or((false, Timestamp::ZERO), |record| (record.hold.is_some(), record.ended));
        now >= self.last_counted.max(ended).plus(memory(policy)) && !is_held
    }

    pub(super) fn record_mut(&mut self) -> &mut Record {
        self.record.get_or_insert_default()
    }
}

/// How long an instance without calls is remembered, and a quarantine for the one that follows.
pub(super) fn memory(policy: &Policy) -> Duration {
    policy.window().max(FORGET_AFTER)
}

impl Record {
    /// When it has to be looked at.
    pub(super) fn next_look(&self, now: Timestamp) -> Option<Timestamp> {
        let relapsed = self.probation.is_some_and(|probation| probation.relapse.is_some());
        if relapsed || self.is_asked_longer() {
            return Some(now);
        }
        let sick = self.since.map(|since| since.plus(SICK_AFTER));
        [sick, self.hold.as_ref().map(|hold| hold.until)].into_iter().flatten().min()
    }

    /// Whether a retry-after asks for a wait that it is not in yet.
    pub(super) fn is_asked_longer(&self) -> bool {
        self.asked.is_some_and(|asked| match &self.hold {
            None => true,
            Some(hold) => !hold.why.is_sick() && asked >= hold.until.plus(EXTENDED_BY),
        })
    }

    /// Counts causes, so that a quarantine can name them.
    pub(super) fn note_causes(&mut self, causes: &[(Cause, u64)]) {
        for (cause, n) in causes {
            let has_room = self.causes.len() < CAUSES_MAX;
            match self.causes.iter_mut().find(|(known, _)| known == cause) {
                Some((_, count)) => *count = count.saturating_add(*n),
                None if has_room => self.causes.push((cause.clone(), *n)),
                None => {}
            }
        }
    }

    /// Whether nothing of it matters any more.
    pub(super) fn is_spent(&self, policy: &Policy, now: Timestamp) -> bool {
        let is_at_rest = self.since.is_none() && self.hold.is_none() && self.probation.is_none();
        let is_recent = self.row > 0 && now < self.ended.plus(memory(policy));
        is_at_rest && !is_recent && self.asked.is_none_or(|asked| asked <= now)
    }

    /// Quarantines in a row before one that begins now.
    pub(super) fn row(&self, policy: &Policy, now: Timestamp) -> u32 {
        if now < self.ended.plus(memory(policy)) { self.row } else { 0 }
    }
}

impl Probation {
    pub(super) fn new(since: Timestamp) -> Self {
        Self { since, counts: Counts::default(), streak: 0, longest: 0, relapse: None }
    }

    /// Counts an entry. True once the calls are enough and cross no rule: the instance is one of the fleet again.
    pub(super) fn passes(&mut self, policy: &Policy, entry: &Entry) -> bool {
        self.counts.add(entry.outcomes.into());
        let (streak, longest) = run_on(self.streak, entry);
        (self.streak, self.longest) = (streak, self.longest.max(longest));
        let enough = policy.spec().guard.min_calls;
        if self.counts.calls < enough.into() {
            return false;
        }
        let streak = Counts { calls: self.longest, failures: self.longest, slow: 0 };
        let readings = policy.spec().trip.iter().map(|rule| {
            let counts = if rule.window().is_some() { self.counts } else { streak };
            Reading::with_minimum(*rule, counts, enough.min(rule.minimum_calls()))
        });
        self.relapse = readings.into_iter().find(|reading| reading.crossed);
        self.relapse.is_none()
    }
}

/// A streak of failures goes on with an entry: how long it is afterwards, and the longest it reached.
pub(super) fn run_on(before: u64, entry: &Entry) -> (u64, u64) {
    let streaks = entry.streaks();
    let reached = before.saturating_add(streaks.leading).max(streaks.longest);
    let after = if entry.outcomes.successes == 0 {
        before.saturating_add(entry.outcomes.failures)
    } else {
        streaks.trailing
    };
    (after, reached.max(after))
}
