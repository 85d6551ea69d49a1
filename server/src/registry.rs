//! Every breaker by name, and the one way in which a change leaves it.
//!
//! A call locks its breaker, runs the rules, puts what changed into the [`Outbox`] and unlocks. Map guards never live
//! across an await or a second access to the map: slots are cloned out.

mod restore;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use dashmap::{DashMap, mapref::entry::Entry as MapEntry};
use panelboard_core::{
    Breaker, BreakerName, Caller, Change, Condition, Decision, Moment, Pattern, Policy, Reason, Reported,
    Settings, StateKind, Status, Timestamp, Transition, Version,
};
use panelboard_proto::{
    convert::{entry_from_wire, transition_to_wire},
    store, v1,
};

use crate::{
    clock::Clock,
    history,
    limits::Limits,
    metrics::{Clients, Reports},
    nearest,
    outbox::{Event, Outbox, What},
    policies::Policies,
    slot::{Cell, Counters, Slot},
    timer::Timer,
};

pub(crate) use restore::Dormant;
use restore::Restored;

/// Every breaker by name.
#[derive(Debug)]
pub(crate) struct Registry {
    slots: DashMap<BreakerName, Arc<Slot>>,
    policies: RwLock<Policies>,
    /// Breakers as they were stored, until they are made again.
    dormant: Mutex<HashMap<BreakerName, Dormant>>,
    /// What changed.
    pub(crate) outbox: Outbox,
    /// What is due.
    pub(crate) timer: Timer,
    /// The server's clock.
    pub(crate) clock: Clock,
    /// The server's epoch.
    pub(crate) epoch: u64,
    /// The server's limits.
    pub(crate) limits: Limits,
    /// How reloads of the policies went.
    pub(crate) reloads: Reloads,
    /// Entries of reports, by what became of them.
    pub(crate) reports: Reports,
    /// Client sessions that watch.
    pub(crate) clients: Clients,
    /// Where the seeds of breakers come from.
    seed: u64,
}

/// How reloads of the policies went, for metrics.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    succeeded: AtomicU64,
    failed: AtomicU64,
}

impl Reloads {
    /// One was put in force.
    pub(crate) fn succeeded(&self) {
        self.succeeded.fetch_add(1, Ordering::Relaxed);
    }

    /// One was refused.
    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Those put in force and those refused.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.succeeded.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}

/// Why there is no breaker of a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    /// There is none, and whoever asked makes none.
    #[error("no breaker \"{name}\" exists {}{}", outlook(*.matched), suggestion(.nearest.as_deref()))]
    NotFound {
        /// The name.
        name: BreakerName,
        /// A policy matches it, so that its first use makes it: looking is none.
        matched: bool,
        /// The nearest name that exists.
        nearest: Option<String>,
    },
    /// A pattern would make it, but there are too many.
    #[error("there are {limit} breakers, as many as limits.breakers allows: \"{name}\" was not made")]
    TooMany {
        /// The name.
        name: BreakerName,
        /// The limit.
        limit: usize,
    },
}

const fn outlook(matched: bool) -> &'static str {
    if matched { "yet: the first call, report or watch makes it" } else { "and no policy matches the name" }
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(": did you mean \"{name}\"?")).unwrap_or_default()
}

/// Names that a wrong one is compared with at most.
const NEAREST_AMONG: usize = 2_000;

/// What Acquire came to.
#[derive(Clone, Debug)]
pub(crate) enum Acquired {
    /// A decision.
    Decided {
        /// The decision.
        decision: Decision,
        /// The breaker after it.
        after: Box<After>,
    },
    /// None yet: the half-open period is not durable, and a probe of it must not be leased before it is.
    NotDurable {
        /// The position that has to be durable.
        position: u64,
    },
}

/// A breaker after a call.
#[derive(Clone, Debug)]
pub(crate) struct After {
    /// Its status.
    pub(crate) status: Status,
    /// The transition that began its state.
    pub(crate) last: Option<Arc<v1::Transition>>,
    /// How far it is from its next state, for people.
    pub(crate) progress: String,
    /// When.
    pub(crate) now: Timestamp,
}

impl Registry {
    /// A registry of the breakers that the policies name and of those in the store, `dormant`. What no policy matches
    /// stays dormant until one does.
    pub(crate) fn new(
        clock: Clock,
        epoch: u64,
        seed: u64,
        limits: Limits,
        policies: Policies,
        dormant: HashMap<BreakerName, Dormant>,
    ) -> Self {
        let registry = Self {
            slots: DashMap::new(),
            policies: RwLock::new(policies),
            dormant: Mutex::new(dormant),
            outbox: Outbox::default(),
            timer: Timer::default(),
            clock,
            epoch,
            limits,
            reloads: Reloads::default(),
            reports: Reports::default(),
            clients: Clients::default(),
            seed,
        };
        registry.make_named();
        registry.make_stored();
        registry
    }

    // Looking up.

    /// The policies in force.
    pub(crate) fn policies(&self) -> Policies {
        self.policies.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A breaker that exists.
    pub(crate) fn find(&self, name: &BreakerName) -> Option<Arc<Slot>> {
        self.slots.get(name).map(|slot| Arc::clone(&slot))
    }

    /// A breaker that exists, or the reason why it does not.
    ///
    /// # Errors
    /// [`Missing::NotFound`] with the nearest name there is.
    pub(crate) fn look_up(&self, name: &BreakerName) -> Result<Arc<Slot>, Missing> {
        self.find(name).ok_or_else(|| {
            let matched = self.policies().resolve(name).is_some();
            self.with_nearest(Missing::NotFound { name: name.clone(), matched, nearest: None })
        })
    }

    /// A breaker that exists, or that a policy's pattern makes now.
    ///
    /// # Errors
    /// [`Missing`] if no policy matches, or too many exist. It names no nearest name: see [`Self::with_nearest`].
    fn find_or_make(&self, name: &BreakerName) -> Result<Arc<Slot>, Missing> {
        if let Some(slot) = self.find(name) {
            return Ok(slot);
        }
        // Held until it is made: whoever changes the policies meanwhile finds it among the breakers.
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        let Some(policy) = policies.resolve(name) else {
            return Err(Missing::NotFound { name: name.clone(), matched: false, nearest: None });
        };
        // Counted before the map's entry is taken: a second access under it could deadlock. The limit may so be
        // exceeded by as many calls as run at the same instant.
        if self.slots.len() >= self.limits.breakers {
            return Err(Missing::TooMany { name: name.clone(), limit: self.limits.breakers });
        }
        Ok(self.make(name, Arc::clone(policy)))
    }

    /// The same with the nearest name that exists. It is a search over many names: do it for few.
    pub(crate) fn with_nearest(&self, missing: Missing) -> Missing {
        let Missing::NotFound { name, matched, .. } = &missing else { return missing };
        let wrong = name.as_str().as_bytes();
        // Comparing is expensive and the wrong name may come from anybody: a slip of the hand leaves the first or the
        // last letter as it was, and adds or drops few.
        let is_alike = |known: &[u8]| {
            let ends = |f: fn(&[u8]) -> Option<&u8>| f(known).map(u8::to_ascii_lowercase);
            let same = |f: fn(&[u8]) -> Option<&u8>| ends(f) == f(wrong).map(u8::to_ascii_lowercase);
            known.len().abs_diff(wrong.len()) * 3 <= known.len().max(wrong.len())
                && (same(<[u8]>::first) || same(<[u8]>::last))
        };
        let alike = self.slots.iter().filter(|slot| is_alike(slot.name.as_str().as_bytes()));
        let names: Vec<_> = alike.map(|slot| slot.name.clone()).take(NEAREST_AMONG).collect();
        let nearest = nearest::nearest(name.as_str(), names.iter().map(BreakerName::as_str));
        Missing::NotFound { name: name.clone(), matched: *matched, nearest: nearest.map(String::from) }
    }

    /// All names, in order, that match a pattern.
    pub(crate) fn names(&self, pattern: Option<&Pattern>) -> Vec<BreakerName> {
        let matches = |name: &BreakerName| pattern.is_none_or(|pattern| pattern.matches(name));
        let mut names: Vec<_> = self.slots.iter().map(|slot| slot.name.clone()).filter(matches).collect();
        names.sort();
        names
    }

    /// All breakers there are now, in no order.
    pub(crate) fn all(&self) -> Vec<Arc<Slot>> {
        self.slots.iter().map(|slot| Arc::clone(&slot)).collect()
    }

    // Calls.

    /// Asks for leave to make one call. `durable` is the position up to which everything is durable; none: do not mind.
    /// Nothing may be awaited after a decision: a probe may have been taken.
    ///
    /// # Errors
    /// As [`Self::find_or_make`].
    pub(crate) fn acquire(
        &self,
        name: &BreakerName,
        caller: Caller<'_>,
        durable: Option<u64>,
    ) -> Result<Acquired, Missing> {
        self.with_live(name, |cell, now| {
            // What time has made due comes first: a half-open period that begins here has its first probe here.
            self.apply(name, cell, now, |cell, at| ((), cell.breaker.tick(at)));
            let probes = cell.breaker.condition() == Condition { state: StateKind::HalfOpen, over: None };
            if probes && durable.is_some_and(|durable| durable < cell.position) {
                return Acquired::NotDurable { position: cell.position };
            }
            let decision = self.apply(name, cell, now, |cell, at| {
                cell.last_used = now;
                let (decision, change) = cell.breaker.acquire(caller, at);
                if let Decision::Rejected(rejection) = &decision {
                    cell.counters.count_rejection(rejection);
                }
                (decision, change)
            });
            Acquired::Decided { decision, after: Box::new(after(cell, now)) }
        })
    }

    /// Takes in one entry.
    ///
    /// # Errors
    /// As [`Self::find_or_make`].
    pub(crate) fn report(
        &self,
        name: &BreakerName,
        caller: Caller<'_>,
        entry: &v1::ReportEntry,
    ) -> Result<(Reported, After), Missing> {
        self.with_live(name, |cell, now| {
            let reported = self.apply(name, cell, now, |cell, at| {
                cell.last_used = now;
                let entry = entry_from_wire(entry, cell.breaker.policy());
                let (reported, change) = cell.breaker.report(caller, &entry, at);
                cell.counters.count_entry(&entry, reported, self.limits.causes_per_breaker);
                self.reports.taken(reported);
                (reported, change)
            });
            (reported, after(cell, now))
        })
    }

    /// Does what time has made due and looks.
    pub(crate) fn look(&self, slot: &Arc<Slot>) -> After {
        let mut cell = slot.lock();
        let now = self.clock.now();
        self.apply(&slot.name, &mut cell, now, |cell, at| ((), cell.breaker.tick(at)));
        after(&cell, now)
    }

    /// A watch names a breaker: it is made if it can be, and that is a use of it.
    ///
    /// # Errors
    /// As [`Self::find_or_make`].
    pub(crate) fn name_in_watch(&self, name: &BreakerName) -> Result<(), Missing> {
        self.with_live(name, |cell, now| cell.last_used = now)
    }

    /// A session began to watch. That keeps no breaker from expiring: only a watch that names it does.
    pub(crate) fn watch_started(&self, slot: &Slot, caller: Caller<'_>) {
        slot.lock().breaker.watch_started(caller, self.clock.now());
    }

    /// A session stopped watching.
    pub(crate) fn watch_ended(&self, slot: &Slot, caller: Caller<'_>) {
        let mut cell = slot.lock();
        cell.breaker.watch_ended(caller, self.clock.now());
        // One known instance less may be what a verdict waits for.
        self.rearm(&slot.name, &mut cell);
    }

    /// Runs the timer's part: the deadline of one breaker has come.
    pub(crate) fn fire(&self, name: &BreakerName, at: Timestamp) {
        let Some(slot) = self.find(name) else { return };
        // It may have been armed for an earlier one in the meantime.
        if slot.lock().armed.take_if(|armed| *armed == at).is_some() {
            self.look(&slot);
        }
    }

    /// Runs `call` on the locked breaker of this name, which exists or is made.
    fn with_live<R>(
        &self,
        name: &BreakerName,
        call: impl FnOnce(&mut Cell, Timestamp) -> R,
    ) -> Result<R, Missing> {
        loop {
            let slot = self.find_or_make(name)?;
            let mut cell = slot.lock();
            // Deleted between the look-up and the lock: what is done to it would be lost.
            if !cell.deleted {
                return Ok(call(&mut cell, self.clock.now()));
            }
        }
    }

    /// Runs `call` on a locked breaker, and sends off what changed.
    fn apply<R>(
        &self,
        name: &BreakerName,
        cell: &mut Cell,
        now: Timestamp,
        call: impl FnOnce(&mut Cell, Moment) -> (R, Option<Change>),
    ) -> R {
        let (result, change) = call(cell, self.moment(now));
        if let Some(change) = change
            && !cell.deleted
        {
            self.post(name, cell, &change, now);
        }
        self.rearm(name, cell);
        result
    }

    /// Call it with the breaker's lock held.
    fn moment(&self, now: Timestamp) -> Moment {
        Moment { now, next: Version { epoch: self.epoch, revision: self.outbox.next_revision() } }
    }

    fn rearm(&self, name: &BreakerName, cell: &mut Cell) {
        let deadline = cell.breaker.deadline();
        if let Some(deadline) = deadline
            && cell.armed.is_none_or(|armed| deadline < armed)
        {
            let before = cell.armed.replace(deadline);
            self.timer.arm(deadline, name.clone(), before);
        }
    }

    /// The one way out for a change. The breaker's lock is held.
    fn post(&self, name: &BreakerName, cell: &mut Cell, change: &Change, now: Timestamp) {
        let event = match change {
            Change::Transition(transition) => {
                let unix_ms = self.clock.unix_ms();
                let transition = &cell.with_its_past(transition, unix_ms);
                let wire = transition_to_wire(transition, unix_ms);
                let incident = history::record(&mut cell.incidents, transition, &wire, &self.limits);
                history::prune(&mut cell.incidents, unix_ms, &self.limits);
                cell.last = Some(Arc::new(wire));
                cell.since_unix_ms = unix_ms;
                cell.counters.would_open.end(now);
                count_transition(&mut cell.counters, transition);
                Event::Transition { transition: Arc::clone(transition), incident }
            }
            Change::WouldOpen { crossing } => {
                match crossing {
                    Some(_) => cell.counters.would_open.begin(now),
                    None => cell.counters.would_open.end(now),
                }
                Event::Other
            }
            Change::Extended { .. } | Change::Availability | Change::Policy => Event::Other,
        };
        let is_stored = matches!(change, Change::Transition(_) | Change::Extended { .. });
        let stored = is_stored.then(|| Box::new(self.stored(cell, now)));
        let what = What::Changed {
            status: Box::new(cell.breaker.status(now)),
            last: cell.last.clone(),
            event,
            stored,
        };
        let position = self.outbox.post(name.clone(), what);
        if matches!(change, Change::Transition(_)) {
            cell.position = position;
        }
    }

    fn stored(&self, cell: &Cell, now: Timestamp) -> store::StoredBreaker {
        restore::to_record(
            &cell.breaker.stored(now),
            cell.last.as_deref(),
            cell.since_unix_ms,
            self.clock.unix_ms(),
        )
    }

    // Policies and names.

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

    fn make_named(&self) {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        for name in policies.exact_names() {
            if let Some(policy) = policies.resolve(name) {
                self.make(name, Arc::clone(policy));
            }
        }
    }

    /// Makes the breakers of the store that a policy matches: one that was open is open for whoever looks or watches,
    /// before anybody calls.
    fn make_stored(&self) {
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
    fn make(&self, name: &BreakerName, policy: Arc<Policy>) -> Arc<Slot> {
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

/// Why a breaker is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deletion {
    /// Nobody used it for long: its incidents stay for when somebody does.
    Idle,
    /// No policy matches it any more: nothing of it stays.
    Forgotten,
}

fn after(cell: &Cell, now: Timestamp) -> After {
    After {
        status: cell.breaker.status(now),
        last: cell.last.clone(),
        progress: cell.breaker.progress(now),
        now,
    }
}

fn count_transition(counters: &mut Counters, transition: &Transition) {
    let (from, to) = (transition.from.as_str(), transition.to.as_str());
    *counters.transitions.entry((from, to, transition.reason.label())).or_default() += 1;
    let is_closed = transition.to.state == StateKind::Closed;
    let (recovery, probes) = match &transition.reason {
        Reason::ProbesSucceeded { probes, .. } => ("closed", probes),
        Reason::ProbesFailed { probes, .. } | Reason::ProbesSlow { probes, .. } => ("reopened", probes),
        Reason::HalfOpenLimit { probes, .. } if is_closed => ("closed_at_limit", probes),
        Reason::HalfOpenLimit { probes, .. } => ("reopened_at_limit", probes),
        _ => return,
    };
    counters.probes_expired = probes.expired;
    *counters.recoveries.entry(recovery).or_default() += 1;
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
