//! How the client knows: FRESH, STALE, LOCAL, and what each turn from one to the other means.

use std::sync::Arc;

use panelboard_core::{Outcome, Timestamp};
use panelboard_hotpath::TAGS;

use super::{Cell, Vouch};
use crate::{fact::Ended, limits::ACKNOWLEDGED_WITHIN, local::Role, state::Freshness};

impl Cell {
    pub(super) fn freshness_at(&self, now: Timestamp) -> Freshness {
        match self.vouch {
            Vouch::Never | Vouch::Unknown => Freshness::Local,
            Vouch::Held { ends, .. } if now >= ends => Freshness::Local,
            Vouch::Held { cut: true, .. } => Freshness::Stale,
            Vouch::Held { fresh_until, .. } => {
                let overdue = self.overdue_at().is_some_and(|overdue| now >= overdue);
                if now >= fresh_until || overdue { Freshness::Stale } else { Freshness::Fresh }
            }
        }
    }

    /// When the freshness changes if nothing is heard.
    pub(super) fn turns_at(&self) -> Option<Timestamp> {
        match (self.vouch, self.freshness) {
            (Vouch::Never | Vouch::Unknown, _) | (_, Freshness::Local) => None,
            (Vouch::Held { ends, .. }, Freshness::Stale) => Some(ends),
            (Vouch::Held { fresh_until, ends, .. }, Freshness::Fresh) => {
                Some(self.overdue_at().map_or(fresh_until, |overdue| overdue.min(fresh_until)).min(ends))
            }
        }
    }

    /// When outcomes have waited for too long: for their acknowledgement, or, between two streams, to be sent.
    pub(super) fn overdue_at(&self) -> Option<Timestamp> {
        let unsent = self.tally.waits_since().filter(|_| !self.online);
        self.outbox.overdue_at().or(unsent.map(|since| since.plus(ACKNOWLEDGED_WITHIN)))
    }

    pub(super) fn hold_until(&mut self, fresh_until: Timestamp, ends: Timestamp) {
        self.vouch = Vouch::Held { fresh_until, ends, cut: false, announced: false };
    }

    /// Every call begins with this: what time has made true is true before anything else happens.
    pub(super) fn turn(&mut self, now: Timestamp) {
        while let Some(out) = self.probes.take_overrun(now) {
            let slow =
                self.policy.slower_than().is_some_and(|t| self.policy.spec().half_open.probe_timeout > t);
            let cause = self.policy.spec().classification.cause("timeout");
            let ended =
                Ended { outcome: Some(Outcome::Failure), slow, cause: Some(cause), retry_after: None };
            self.end_probe(out, ended, now);
        }
        let next = self.freshness_at(now);
        if next != self.freshness {
            if let Vouch::Held { cut, .. } = &mut self.vouch
                && !self.online
            {
                // An announced end went on for too long: only another stream mends that.
                *cut = true;
            }
            let before = std::mem::replace(&mut self.freshness, next);
            self.turned_from.get_or_insert(before);
            if before == Freshness::Fresh {
                self.leave_fresh(now);
            } else {
                self.local.set(Arc::clone(&self.policy), self.role(), now);
                if next == Freshness::Fresh {
                    self.come_back(now);
                }
            }
        }
        if self.freshness != Freshness::Fresh && self.local.tick(now) {
            self.begin_stretch();
        }
    }

    /// The local breaker takes over: from the last status, with what it has tallied.
    pub(super) fn leave_fresh(&mut self, now: Timestamp) {
        // Recorded while FRESH, but the server cannot be told now: the local breaker's own from here on.
        self.drain_into_local(now);
        self.probes.stop_asking();
        if let Some(held) = self.probes.take_held() {
            self.return_probe(held.id, held.generation);
        }
        self.local.set(Arc::clone(&self.policy), self.role(), now);
        if let Some(state) = self.known.as_ref().and_then(|known| known.inheritance(&mut self.dice, now)) {
            self.local.inherit(state, now);
            self.begin_stretch();
        }
    }

    /// The server decides again. What was recorded meanwhile is the local breaker's alone and never sent.
    pub(super) fn come_back(&mut self, now: Timestamp) {
        self.tally.forget_outcomes();
        if !self.local.is_plainly_closed() {
            self.local.renew(now);
            self.begin_stretch();
        }
    }

    pub(super) const fn role(&self) -> Role {
        match self.freshness {
            Freshness::Fresh => Role::Tallying,
            Freshness::Stale => Role::Seconding,
            Freshness::Local => Role::Deciding { active_instances: self.active_instances },
        }
    }

    pub(super) fn begin_stretch(&mut self) {
        self.stretch = (self.stretch + 1) % TAGS;
    }
}
