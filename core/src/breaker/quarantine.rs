//! Instances that are kept out while the fleet goes on.

use std::sync::Arc;

use super::Breaker;
use crate::{
    ids::{Instance, Moment},
    members::Slot,
    quarantine::Quarantine,
    state::State,
    tally::Look,
    time::Timestamp,
    transition::Change,
};

impl Breaker {
    /// What keeps this instance out now although the breaker is CLOSED; none if nothing does. It says so until its
    /// [`until`](Quarantine::until), whether or not a tick has come.
    pub fn quarantine_of(&self, instance: &Instance, now: Timestamp) -> Option<Quarantine> {
        self.quarantine_at(self.members.slot_of(instance)?, self.seen.max(now))
    }

    /// All that are kept out now, at most `most`, in no order.
    pub fn quarantines(&self, most: usize, now: Timestamp) -> Vec<Quarantine> {
        let now = self.seen.max(now);
        let State::Closed(closed) = &self.state else { return Vec::new() };
        closed.tallies.all_kept_out().filter_map(|slot| self.quarantine_at(slot, now)).take(most).collect()
    }

    /// How many instances are kept out while the breaker is CLOSED.
    pub fn quarantined_instances(&self) -> u32 {
        match &self.state {
            State::Closed(closed) => closed.tallies.number_kept_out(),
            _ => 0,
        }
    }

    /// Looks at the instances whose time has come, `caller` first: one is quarantined, or let go.
    pub(super) fn look_at_instances(&mut self, caller: Option<Slot>, at: Moment) -> Option<Change> {
        let State::Closed(closed) = &mut self.state else { return None };
        let look = closed.tallies.look(&self.policy, caller, at.now)?;
        closed.tallies.count_active(&self.policy, at.now);
        let quarantine = self.quarantine(look, at.now, at.now)?;
        self.version = at.next;
        Some(Change::Quarantine(Arc::new(quarantine)))
    }

    fn quarantine_at(&self, slot: Slot, now: Timestamp) -> Option<Quarantine> {
        let State::Closed(closed) = &self.state else { return None };
        let look = closed.tallies.kept_out(slot, now)?;
        self.quarantine(look, closed.tallies.kept_out_since(slot)?, now)
    }

    fn quarantine(&self, look: Look, at: Timestamp, now: Timestamp) -> Option<Quarantine> {
        let Look { slot, event, why, causes, until, wait, before } = look;
        let quorum = self.quorum(now);
        Some(Quarantine {
            instance: self.members.instance(slot)?.clone(),
            event,
            why,
            top_causes: causes.to_vec(),
            at,
            until,
            wait,
            before,
            generation: self.generation,
            active_instances: quorum.active,
            required_instances: quorum.required,
            policy_name: self.policy.name().into(),
            policy_revision: self.policy.revision(),
        })
    }
}
