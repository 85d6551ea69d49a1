//! How breakers come to exist and go: named by policies, made by patterns, restored from the store, deleted when no policy
//! matches them or nobody uses them.
//!
//! Locks are taken in one order: policies, then a shard of the map, then a breaker, then the dormant or the outbox.

use std::{
    collections::VecDeque,
    sync::{Arc, PoisonError},
};

use dashmap::mapref::entry::Entry as MapEntry;
use panelboard_core::{
    Breaker, BreakerName, Change, Condition, Moment, Policy, Settings, StateKind, Transition, Version,
};
use panelboard_proto::v1;

use super::{Dormant, Registry, restore, restore::Restored};
use crate::{
    history,
    outbox::{Event, What},
    policies::Policies,
    slot::{Cell, Counters, Slot},
};

/// Why a breaker is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deletion {
    /// Nobody used it for long: its incidents stay for when somebody does.
    Idle,
    /// No policy matches it any more: nothing of it stays.
    Forgotten,
}

impl Registry {
    /// Puts other policies in force: breakers they name come to exist, breakers that none matches any more are gone.
    pub(crate) fn set_policies(&self, policies: &Policies) {
        *self.policies.write().unwrap_or_else(PoisonError::into_inner) = policies.clone();
        for slot in self.all() {
            let Some(policy) = policies.resolve(&slot.name) else {
                self.delete(&slot, Deletion::Forgotten, |_| true);
                continue;
            };
            let mut cell = slot.lock();
            let (policy, now) = (Arc::clone(policy), self.clock.now());
            self.apply(&slot.name, &mut cell, now, |cell, at| ((), cell.breaker.set_policy(policy, at)));
        }
        self.make_named();
        self.make_stored();
    }

    /// Deletes the breakers that patterns made, that admit or rest, and that nobody has used for long. `is_named` tells
    /// whether a watch names one, which is a use.
    pub(crate) fn expire_idle(&self, is_named: impl Fn(&BreakerName) -> bool) {
        let policies = self.policies();
        let now = self.clock.now();
        for slot in self.all() {
            let is_exact = |entry: &crate::policies::Entry| {
                entry.patterns().iter().any(|pattern| pattern.exact().as_ref() == Some(&slot.name))
            };
            if policies.entry(&slot.name).is_some_and(is_exact) {
                continue;
            }
            if is_named(&slot.name) {
                slot.lock().last_used = now;
                continue;
            }
            let age = self.limits.idle_breaker_age;
            self.delete(&slot, Deletion::Idle, |cell| {
                let Condition { state, over } = cell.breaker.condition();
                let rests = over.is_none() && matches!(state, StateKind::Closed | StateKind::HalfOpen);
                rests && now >= cell.last_used.plus(age)
            });
        }
    }

    pub(super) fn make_named(&self) {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        for name in policies.exact_names() {
            if let Some(policy) = policies.resolve(name) {
                self.make(name, Arc::clone(policy));
            }
        }
    }

    /// Makes the breakers of the store that a policy matches: one that was open is open for whoever looks or watches,
    /// before anybody calls.
    pub(super) fn make_stored(&self) {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<_> = {
            let dormant = self.dormant.lock().unwrap_or_else(PoisonError::into_inner);
            // Of one that was idle only incidents are left: it is made when it is used again.
            let stored = dormant.iter().filter(|(_, dormant)| dormant.record.is_some());
            stored.map(|(name, _)| name.clone()).collect()
        };
        names.sort();
        for name in names.iter().take(self.limits.breakers) {
            if let Some(policy) = policies.resolve(name) {
                self.make(name, Arc::clone(policy));
            }
        }
    }

    /// Makes a breaker if there is none. The policies are locked, so that the one it is made with is in force.
    pub(super) fn make(&self, name: &BreakerName, policy: Arc<Policy>) -> Arc<Slot> {
        match self.slots.entry(name.clone()) {
            MapEntry::Occupied(entry) => Arc::clone(entry.get()),
            // The entry stays locked until the change is in the outbox, so that a deletion of the same name is told
            // before it or after it, as it happened.
            MapEntry::Vacant(entry) => {
                let now = self.clock.now();
                let (cell, restored) = self.cell(name, policy, self.moment(now));
                let slot = Arc::new(Slot::new(name.clone(), cell));
                let mut cell = slot.lock();
                if let Some(transition) = restored {
                    self.post(name, &mut cell, &Change::Transition(transition), now);
                } else {
                    let what = What::Changed {
                        status: Box::new(cell.breaker.status(now)),
                        last: cell.last.clone(),
                        event: Event::Created,
                        stored: None,
                    };
                    cell.position = self.outbox.post(name.clone(), what);
                }
                self.rearm(name, &mut cell);
                drop(cell);
                entry.insert(Arc::clone(&slot));
                slot
            }
        }
    }

    /// What is behind a new slot's lock, and the transition that restoring it was.
    fn cell(&self, name: &BreakerName, policy: Arc<Policy>, at: Moment) -> (Cell, Option<Arc<Transition>>) {
        let settings =
            Settings { seed: seed_of(self.seed, name), instances_max: self.limits.instances_per_breaker };
        let unix_ms = self.clock.unix_ms();
        let dormant = self.dormant.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        let mut dormant = dormant.unwrap_or_default();
        history::prune(&mut dormant.incidents, unix_ms, &self.limits);
        let was_stored = dormant.record.is_some();
        let restored = match dormant.record {
            None => Restored::fresh(Breaker::new(policy, settings, at), unix_ms),
            Some(record) => restore::from_record(record, policy, settings, at, unix_ms),
        };
        let cell = Cell {
            breaker: restored.breaker,
            last: restored.last,
            since_unix_ms: restored.since_unix_ms,
            would: None,
            incidents: dormant.incidents,
            counters: Counters::default(),
            position: 0,
            last_used: at.now,
            armed: None,
            deleted: false,
            carried_over: was_stored && restored.transition.is_none(),
        };
        (cell, restored.transition)
    }

    /// Keeps the incidents of a breaker that was idle for when it is used again. Past the limit they are in the store
    /// only, and back after a restart.
    fn remember(&self, name: &BreakerName, incidents: VecDeque<Arc<v1::Incident>>) {
        let mut dormant = self.dormant.lock().unwrap_or_else(PoisonError::into_inner);
        if dormant.len() < self.limits.breakers {
            dormant.insert(name.clone(), Dormant { record: None, incidents });
        }
    }

    /// Deletes a breaker, if it is so when it is locked.
    fn delete(&self, slot: &Arc<Slot>, deletion: Deletion, is_so: impl FnOnce(&Cell) -> bool) {
        // Marked, told and out of the map in one step: whoever looks it up later makes a new one, and that is told later.
        self.slots.remove_if(&slot.name, |name, held| {
            let mut cell = held.lock();
            if !Arc::ptr_eq(held, slot) || !is_so(&cell) {
                return false;
            }
            cell.deleted = true;
            let keeps_history = deletion == Deletion::Idle;
            if keeps_history && !cell.incidents.is_empty() {
                self.remember(name, std::mem::take(&mut cell.incidents));
            }
            let version = Version { epoch: self.epoch, revision: self.outbox.next_revision() };
            self.outbox.post(name.clone(), What::Deleted { version, keeps_history });
            true
        });
    }
}

/// Each breaker gets a seed of its own.
fn seed_of(seed: u64, name: &BreakerName) -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    // Keyed anew in each process, so that probe ids cannot be computed from what is public.
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(seed);
    hasher.write(name.as_str().as_bytes());
    hasher.finish()
}
