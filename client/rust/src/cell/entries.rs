//! Where outcomes go: into the local breaker, and sealed into entries for the server.

use panelboard_core::{Entry, Generation, Outcomes, ProbeId, Timestamp};

use super::{
    Cell,
    probes::{Lessor, Out},
};
use crate::{fact::Ended, state::Freshness, tally::Tally};

impl Cell {
    pub(super) fn drain_into_local(&mut self, now: Timestamp) {
        if let Some(entry) = self.tally.take()
            && self.local.report(&entry, now).1
        {
            self.begin_stretch();
        }
    }

    pub(super) fn end_probe(&mut self, out: Out, ended: Ended, now: Timestamp) {
        let retry_after = ended.retry_after.max(out.retry_after);
        let ended = Ended { retry_after, ..ended };
        match out.lessor {
            Lessor::Local => {
                if self.local.report_probe(out.id, entry_of(ended, now), now) {
                    self.begin_stretch();
                }
            }
            // What was recorded while not FRESH is no evidence: the probe only goes back.
            Lessor::Server { generation } if self.freshness != Freshness::Fresh => {
                self.return_probe(out.id, generation);
            }
            Lessor::Server { generation } => {
                let entry = entry_of(ended, now);
                self.outbox.queue_probe(Entry { generation: Some(generation), probe: Some(out.id), ..entry });
            }
        }
    }

    pub(super) fn return_probe(&mut self, id: ProbeId, generation: Generation) {
        let outcomes = Outcomes { abandoned: 1, ..Outcomes::default() };
        self.outbox.queue_probe(Entry {
            generation: Some(generation),
            probe: Some(id),
            outcomes,
            ..Entry::default()
        });
    }

    pub(super) fn next_entry(&mut self, now: Timestamp) -> Option<Entry> {
        if self.outbox.is_free() && !self.seal_probe(now) && self.tally_due().is_some_and(|due| now >= due) {
            self.seal_tally(now);
        }
        self.outbox.send(now)
    }

    pub(super) fn tally_due(&self) -> Option<Timestamp> {
        let may = self.freshness == Freshness::Fresh && self.outbox.is_free() && self.online;
        let due = self.tally.due(&self.policy).filter(|_| may)?;
        Some(due.max(self.outbox.free_at()))
    }

    pub(super) fn seal_probe(&mut self, now: Timestamp) -> bool {
        let Some(entry) = self.outbox.next_probe() else { return false };
        self.outbox.seal(Entry { at: self.ticks.map(|ticks| ticks.tick(now)), ..entry }, now);
        true
    }

    pub(super) fn seal_tally(&mut self, now: Timestamp) {
        let Some(generation) = self.known.as_ref().map(|known| known.generation) else { return };
        let Some(entry) = self.tally.take() else { return };
        self.local.report(&entry, now);
        let at = self.ticks.map(|ticks| ticks.tick(now));
        self.outbox.seal(Entry { generation: Some(generation), at, ..entry }, now);
    }
}

fn entry_of(ended: Ended, now: Timestamp) -> Entry {
    let mut tally = Tally::default();
    tally.add(ended, now);
    tally.take().unwrap_or_default()
}
