//! What is on its way to the server: one unacknowledged entry per breaker, resent unchanged.

use std::{collections::VecDeque, time::Duration};

use panelboard_core::{Entry, Generation, Timestamp};

use crate::limits::{ACKNOWLEDGED_WITHIN, FLUSH_INTERVAL_MIN, PROBES_OUT_MAX};

/// The entries of one breaker in this session.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    last_sequence: u64,
    last_sealed: Option<Timestamp>,
    pending: Option<Pending>,
    /// Outcomes of probes: each is an entry of its own and goes before all else.
    probes: VecDeque<Entry>,
}

#[derive(Debug)]
struct Pending {
    entry: Entry,
    /// Since when it waits for its acknowledgement.
    since: Timestamp,
    in_flight: bool,
    not_before: Timestamp,
}

impl Outbox {
    /// Whether a new entry can be sealed.
    pub(crate) const fn is_free(&self) -> bool {
        self.pending.is_none()
    }

    /// When the next tally may be sealed at the earliest.
    pub(crate) fn free_at(&self) -> Timestamp {
        self.last_sealed.map_or(Timestamp::ZERO, |sealed| sealed.plus(FLUSH_INTERVAL_MIN))
    }

    pub(crate) fn queue_probe(&mut self, entry: Entry) {
        if self.probes.len() < PROBES_OUT_MAX {
            self.probes.push_back(entry);
        }
    }

    pub(crate) fn next_probe(&mut self) -> Option<Entry> {
        self.probes.pop_front()
    }

    /// Numbers an entry and keeps it until it is answered.
    pub(crate) fn seal(&mut self, entry: Entry, now: Timestamp) {
        self.last_sequence += 1;
        if entry.probe.is_none() {
            self.last_sealed = Some(now);
        }
        let entry = Entry { sequence: Some(self.last_sequence), ..entry };
        self.pending = Some(Pending { entry, since: now, in_flight: false, not_before: now });
    }

    /// The entry to send now, if it is not on its way already.
    pub(crate) fn send(&mut self, now: Timestamp) -> Option<Entry> {
        let pending = self.pending.as_mut().filter(|p| !p.in_flight && now >= p.not_before)?;
        pending.in_flight = true;
        Some(pending.entry.clone())
    }

    /// The entry was answered. False for the answer to another one.
    pub(crate) fn acknowledge(&mut self, sequence: u64) -> bool {
        let is_it = self.pending.as_ref().is_some_and(|p| p.entry.sequence == Some(sequence));
        if is_it {
            self.pending = None;
        }
        is_it
    }

    /// The entry was not answered: again, unchanged, after a while.
    pub(crate) fn again(&mut self, sequence: u64, after: Duration, now: Timestamp) {
        if let Some(pending) = self.pending.as_mut().filter(|p| p.entry.sequence == Some(sequence)) {
            pending.in_flight = false;
            pending.not_before = now.plus(after);
        }
    }

    /// The server is back: nothing waits for its next try.
    pub(crate) fn hurry(&mut self, now: Timestamp) {
        if let Some(pending) = &mut self.pending {
            pending.not_before = pending.not_before.min(now);
        }
    }

    /// Forgets what was admitted before this epoch: the server that counted it is gone, with its clock.
    pub(crate) fn forget_before(&mut self, epoch: u64) {
        let is_old = |generation: Option<Generation>| generation.is_some_and(|g| g.epoch < epoch);
        if self.pending.as_ref().is_some_and(|p| is_old(p.entry.generation)) {
            self.pending = None;
        }
        self.probes.retain(|entry| !is_old(entry.generation));
    }

    /// When an unanswered entry says that the server is away; none without one.
    pub(crate) fn overdue_at(&self) -> Option<Timestamp> {
        self.pending.as_ref().map(|pending| pending.since.plus(ACKNOWLEDGED_WITHIN))
    }

    /// When there is something to send, apart from the tally.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        match &self.pending {
            Some(pending) => (!pending.in_flight).then_some(pending.not_before),
            None => (!self.probes.is_empty()).then_some(Timestamp::ZERO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn one_entry_at_a_time_and_unchanged_until_it_is_answered() {
        let mut outbox = Outbox::default();
        outbox.seal(Entry { at: Some(at(7)), ..Entry::default() }, at(0));
        let first = outbox.send(at(0)).unwrap();
        assert_eq!((first.sequence, outbox.send(at(0)), outbox.is_free()), (Some(1), None, false));
        outbox.again(1, Duration::from_millis(300), at(50));
        assert_eq!(outbox.send(at(349)), None);
        assert_eq!(outbox.send(at(350)), Some(first));
        assert_eq!(outbox.overdue_at(), Some(at(1_000)), "counted from the first try");
        assert!(!outbox.acknowledge(2) && outbox.acknowledge(1) && outbox.is_free());
        outbox.seal(Entry::default(), at(400));
        assert_eq!(outbox.send(at(400)).unwrap().sequence, Some(2));
    }

    #[test]
    fn a_new_epoch_clears_what_the_old_server_counted() {
        let generation = Some(Generation { epoch: 4, revision: 9 });
        let mut outbox = Outbox::default();
        outbox.seal(Entry { generation, ..Entry::default() }, at(0));
        outbox.queue_probe(Entry { generation, ..Entry::default() });
        outbox.forget_before(4);
        assert!(!outbox.is_free());
        outbox.forget_before(5);
        assert!(outbox.is_free() && outbox.next_probe().is_none());
    }

    #[test]
    fn tallies_keep_their_distance_and_probes_do_not() {
        let mut outbox = Outbox::default();
        outbox.seal(Entry { probe: Some(panelboard_core::ProbeId(1)), ..Entry::default() }, at(100));
        assert_eq!(outbox.free_at(), at(0));
        outbox.seal(Entry::default(), at(100));
        assert_eq!(outbox.free_at(), at(120));
    }
}
