//! The penalty box in an instance's tally: when one is kept out while the fleet goes on, and how it comes back.

use std::{sync::Arc, time::Duration};

use super::{
    Book, Tallies, most_frequent,
    one::{Hold, Probation, Record, SICK_AFTER, Tally},
};
use crate::{
    classify::Cause,
    members::Slot,
    outcome::Entry,
    policy::Policy,
    quarantine::{Held, QuarantineEvent},
    time::Timestamp,
};

/// The causes that a quarantine names.
const TOP_CAUSES: usize = 5;

/// What a look at an instance changed.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) slot: Slot,
    pub(crate) event: QuarantineEvent,
    pub(crate) why: Held,
    pub(crate) causes: Arc<[(Cause, u64)]>,
    pub(crate) until: Timestamp,
    pub(crate) wait: Duration,
    pub(crate) before: u32,
}

impl Look {
    fn at(slot: Slot, hold: &Hold, event: QuarantineEvent) -> Self {
        let Hold { until, wait, why, before, .. } = *hold;
        Self { slot, event, why, causes: Arc::clone(&hold.causes), until, wait, before }
    }
}

impl Tallies {
    /// When the next instance is to be looked at.
    pub(crate) fn next_look(&self) -> Option<Timestamp> {
        self.book.looks.first().map(|(at, _)| *at)
    }

    /// Looks at the instances whose time has come, `first` before all others, until something changes with one.
    pub(crate) fn look(&mut self, policy: &Policy, first: Option<Slot>, now: Timestamp) -> Option<Look> {
        if let Some(slot) = first
            && self.look_at(slot).is_some_and(|at| at <= now)
            && let Some(look) = self.look_at_one(policy, slot, now)
        {
            return Some(look);
        }
        while let Some(&(at, slot)) = self.book.looks.first()
            && at <= now
        {
            if let Some(look) = self.look_at_one(policy, slot, now) {
                return Some(look);
            }
            if self.look_at(slot) != Some(at) {
                self.book.looks.remove(&(at, slot));
            }
        }
        None
    }

    /// What keeps an instance out now, and until when.
    pub(crate) fn kept_out(&self, slot: Slot, now: Timestamp) -> Option<Look> {
        let hold = self.tallies.get(&slot)?.record.as_ref()?.hold.as_ref()?;
        (now < hold.until).then(|| Look::at(slot, hold, QuarantineEvent::Began))
    }

    /// Since when an instance is kept out.
    pub(crate) fn kept_out_since(&self, slot: Slot) -> Option<Timestamp> {
        Some(self.tallies.get(&slot)?.record.as_ref()?.hold.as_ref()?.began)
    }

    /// How many are kept out now.
    pub(crate) fn number_kept_out(&self) -> u32 {
        u32::try_from(self.book.held.len()).unwrap_or(u32::MAX)
    }

    /// Who they are.
    pub(crate) fn all_kept_out(&self) -> impl Iterator<Item = Slot> + '_ {
        self.book.held.iter().copied()
    }

    /// The dependency asked an instance to wait.
    pub(crate) fn ask(&mut self, slot: Slot, until: Timestamp, now: Timestamp) {
        if slot == Slot::OTHERS || !self.book.holds || until <= now {
            return;
        }
        let tally = self.tallies.entry(slot).or_insert_with(|| Tally::new(now));
        let record = tally.record_mut();
        record.asked = record.asked.max(Some(until));
        self.book.asked.insert(slot);
        self.reschedule(slot, now);
    }

    /// Instances that are asked to wait now.
    pub(crate) fn asked(&mut self, now: Timestamp) -> u32 {
        let tallies = &self.tallies;
        let is_asked = |slot: &Slot| {
            let record = tallies.get(slot).and_then(|tally| tally.record.as_ref());
            record.and_then(|record| record.asked).is_some_and(|asked| now < asked)
        };
        self.book.asked.retain(is_asked);
        u32::try_from(self.book.asked.len()).unwrap_or(u32::MAX)
    }

    /// An instance's own calls were counted: whether they cross a rule, and since when.
    pub(super) fn look_at_own(&mut self, policy: &Policy, slot: Slot, entry: &Entry, now: Timestamp) {
        let Some(tally) = self.tallies.get_mut(&slot) else { return };
        let before = tally.crossing;
        tally.crossing = tally.crossings(policy, &self.geometry, now);
        let crossing = tally.crossing;
        self.book.crossing_changed(slot, before, crossing);
        let is_since = tally.record.as_ref().is_some_and(|record| record.since.is_some());
        if self.book.holds && (crossing != 0) != is_since {
            let record = tally.record_mut();
            record.since = (crossing != 0).then_some(now);
            record.causes.clear();
        }
        if let Some(record) = tally.record.as_mut().filter(|record| record.since.is_some()) {
            record.note_causes(&entry.causes);
        }
        if (crossing != 0) != is_since {
            self.reschedule(slot, now);
        }
    }

    /// Counts an entry of an instance that is kept out, or that came back and is not of the fleet again yet.
    pub(super) fn add_to_probation(
        &mut self,
        policy: &Policy,
        slot: Slot,
        entry: &Entry,
        at: Timestamp,
        now: Timestamp,
    ) {
        let Some(record) = self.tallies.get_mut(&slot).and_then(|tally| tally.record.as_mut()) else {
            return;
        };
        // What was begun before the quarantine says nothing about what is after it.
        if let Some(probation) = record.probation.as_mut().filter(|probation| at >= probation.since)
            && probation.relapse.is_none()
        {
            if probation.passes(policy, entry) {
                record.probation = None;
            }
            record.note_causes(&entry.causes);
            self.reschedule(slot, now);
        }
    }

    /// Forgets the ones that are kept out and will not come back: a vote is theirs who are there. Nobody is told, for
    /// nobody is there.
    pub(super) fn let_go(&mut self, is_gone: impl Fn(Slot) -> bool) {
        let gone: Vec<Slot> = self.book.held.iter().copied().filter(|slot| is_gone(*slot)).collect();
        for slot in gone {
            self.take_out_of_totals(slot);
            self.forget(slot);
        }
    }

    pub(super) fn drop_spent_records(&mut self, policy: &Policy, now: Timestamp) {
        for tally in self.tallies.values_mut() {
            tally.record = tally.record.take().filter(|r| r.look_at.is_some() || !r.is_spent(policy, now));
        }
    }

    /// Another policy has other rules: whose own calls cross one shows at its next report. Who is kept out stays so.
    pub(super) fn start_book_anew(&mut self, policy: &Policy, now: Timestamp) {
        let rules = policy.spec().trip.len();
        let book = &mut self.book;
        (book.cuts, book.crossing) = (vec![None; rules], vec![0; rules]);
        let suspects = std::mem::take(&mut book.suspects);
        book.judge_at = None;
        let had_records = self.tallies.iter().filter(|(_, tally)| tally.record.is_some());
        let slots: Vec<Slot> = had_records.map(|(slot, _)| *slot).chain(suspects).collect();
        for slot in slots {
            if let Some(tally) = self.tallies.get_mut(&slot) {
                tally.crossing = 0;
                if let Some(record) = &mut tally.record {
                    record.since = None;
                }
                self.reschedule(slot, now);
            }
        }
    }

    /// An instance is forgotten, and what the guard held of it.
    pub(super) fn strike_out(&mut self, slot: Slot, tally: &Tally) {
        if let Some(at) = tally.record.as_ref().and_then(|record| record.look_at) {
            self.book.looks.remove(&(at, slot));
        }
        self.book.asked.remove(&slot);
        if self.book.held.remove(&slot) && tally.sick().is_some() {
            self.book.sick = self.book.sick.saturating_sub(1);
        }
    }

    fn look_at(&self, slot: Slot) -> Option<Timestamp> {
        self.tallies.get(&slot)?.record.as_ref()?.look_at
    }

    fn look_at_one(&mut self, policy: &Policy, slot: Slot, now: Timestamp) -> Option<Look> {
        let look = self.step(policy, slot, now);
        self.reschedule(slot, now);
        look
    }

    /// One change at most with one instance.
    fn step(&mut self, policy: &Policy, slot: Slot, now: Timestamp) -> Option<Look> {
        let record = self.tallies.get(&slot)?.record.as_deref()?;
        if let Some(hold) = &record.hold
            && now >= hold.until
        {
            let hold = hold.clone();
            return Some(self.release(slot, &hold, now));
        }
        let row = record.row(policy, now);
        if let Some(reading) = record.probation.and_then(|probation| probation.relapse) {
            return self.quarantine(policy, slot, row, Held::Relapsed { reading }, now);
        }
        if let Some(since) = record.since.filter(|since| now >= since.plus(SICK_AFTER)) {
            match self.tallies.get(&slot)?.crossed(policy, &self.geometry, now) {
                Some(reading) => {
                    let why = Held::Crossed { reading, lasted: now.since(since) };
                    return self.quarantine(policy, slot, row, why, now);
                }
                None => self.clear_crossing(slot),
            }
        }
        self.heed(slot, now)
    }

    fn clear_crossing(&mut self, slot: Slot) {
        let Some(tally) = self.tallies.get_mut(&slot) else { return };
        self.book.crossing_changed(slot, tally.crossing, 0);
        tally.crossing = 0;
        tally.record_mut().since = None;
    }

    fn quarantine(
        &mut self,
        policy: &Policy,
        slot: Slot,
        row: u32,
        why: Held,
        now: Timestamp,
    ) -> Option<Look> {
        self.clear_crossing(slot);
        let tally = self.tallies.get_mut(&slot)?;
        // A streak has no age, so it would speak for the fleet as long as the instance is kept out.
        self.streaks.moved(tally.streak, 0);
        tally.streak = 0;
        let record = tally.record_mut();
        let asked = record.asked.map_or(Duration::ZERO, |asked| asked.since(now));
        let wait = policy.open_wait(row).max(asked);
        let causes = most_frequent(record.causes.drain(..), TOP_CAUSES).into();
        let hold = Hold { until: now.plus(wait), wait, why, causes, before: row, began: now };
        record.hold = Some(hold.clone());
        (record.probation, record.row) = (None, row.saturating_add(1));
        self.book.held.insert(slot);
        self.book.sick += 1;
        Some(Look::at(slot, &hold, QuarantineEvent::Began))
    }

    fn heed(&mut self, slot: Slot, now: Timestamp) -> Option<Look> {
        let record = self.tallies.get_mut(&slot)?.record.as_deref_mut()?;
        let until = record.asked?;
        if until <= now {
            record.asked = None;
            return None;
        }
        if !record.is_asked_longer() {
            return None;
        }
        let (event, began) = match &record.hold {
            Some(hold) => (QuarantineEvent::Extended, hold.began),
            None => (QuarantineEvent::Began, now),
        };
        let wait = until.since(now);
        let (why, causes) = (Held::RetryAfter { asked: wait }, Arc::default());
        let hold = Hold { until, wait, why, causes, before: 0, began };
        record.hold = Some(hold.clone());
        self.book.held.insert(slot);
        Some(Look::at(slot, &hold, event))
    }

    fn release(&mut self, slot: Slot, hold: &Hold, now: Timestamp) -> Look {
        self.book.held.remove(&slot);
        if hold.why.is_sick() {
            self.book.sick = self.book.sick.saturating_sub(1);
            self.take_out_of_totals(slot);
        }
        if let Some(tally) = self.tallies.get_mut(&slot) {
            let record: &mut Record = tally.record_mut();
            record.hold = None;
            record.asked = record.asked.filter(|asked| *asked > now);
            if hold.why.is_sick() {
                (record.ended, record.probation) = (now, Some(Probation::new(now)));
            }
        }
        Look::at(slot, hold, QuarantineEvent::Ended)
    }

    /// What an instance did before its quarantine is over with it.
    fn take_out_of_totals(&mut self, slot: Slot) {
        let Some(tally) = self.tallies.get_mut(&slot) else { return };
        self.total.take(&tally.ring);
        self.total_last.take(tally.last.counts());
        (tally.ring, tally.last) = Default::default();
        self.book.cuts.iter_mut().for_each(|cut| *cut = None);
    }

    fn reschedule(&mut self, slot: Slot, now: Timestamp) {
        let Some(record) = self.tallies.get_mut(&slot).and_then(|tally| tally.record.as_mut()) else {
            return;
        };
        let next = if self.book.holds { record.next_look(now) } else { None };
        if next != record.look_at {
            let Book { looks, .. } = &mut self.book;
            if let Some(at) = record.look_at {
                looks.remove(&(at, slot));
            }
            looks.extend(next.map(|at| (at, slot)));
            record.look_at = next;
        }
    }
}
