//! Every breaker by name, and the one way in which a change leaves it.
//!
//! A call locks its breaker, runs the rules, puts what changed into the [`Outbox`] and unlocks. Map guards never live
//! across an await or a second access to the map: slots are cloned out.

mod restore;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use dashmap::{DashMap, mapref::entry::Entry as MapEntry};
use panelboard_core::{
    Breaker, BreakerName, Caller, Change, Decision, Moment, Pattern, Policy, Reason, Reported, Settings,
    StateKind, Status, Timestamp, Version,
};
use panelboard_proto::{
    convert::{entry_from_wire, transition_to_wire},
    store, v1,
};

use crate::{
    clock::Clock,
    history,
    limits::Limits,
    nearest,
    outbox::{Event, Outbox, What},
    policies::Policies,
    slot::{Cell, Counters, Slot},
    timer::Timer,
};

pub(crate) use restore::Dormant;

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
    /// No policy matches it.
    #[error("no breaker \"{name}\" exists and no policy matches the name{}", suggestion(.nearest.as_deref()))]
    NotFound {
        /// The name.
        name: BreakerName,
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

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(": did you mean \"{name}\"?")).unwrap_or_default()
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
        self.find(name).ok_or_else(|| self.missing(name))
    }

    /// A breaker that exists, or that a policy's pattern makes now.
    ///
    /// # Errors
    /// [`Missing`] if no policy matches, or too many exist.
    pub(crate) fn find_or_make(&self, name: &BreakerName) -> Result<Arc<Slot>, Missing> {
        if let Some(slot) = self.find(name) {
            return Ok(slot);
        }
        let policy = self.policies().resolve(name).cloned().ok_or_else(|| self.missing(name))?;
        // Counted before the map's entry is taken: a second access under it could deadlock. The limit may so be
        // exceeded by as many calls as run at the same instant.
        if self.slots.len() >= self.limits.breakers {
            return Err(Missing::TooMany { name: name.clone(), limit: self.limits.breakers });
        }
        Ok(self.make(name, policy))
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

    fn missing(&self, name: &BreakerName) -> Missing {
        let names = self.names(None);
        let nearest = nearest::nearest(name.as_str(), names.iter().map(BreakerName::as_str));
        Missing::NotFound { name: name.clone(), nearest: nearest.map(String::from) }
    }

    // Calls.

    /// Asks for leave to make one call. Nothing may be awaited after it: a probe may have been taken.
    pub(crate) fn acquire(&self, slot: &Arc<Slot>, caller: Caller<'_>) -> (Decision, After) {
        self.with(slot, |cell, at| {
            cell.last_used = at.now;
            let (decision, change) = cell.breaker.acquire(caller, at);
            if let Decision::Rejected(rejection) = &decision {
                cell.counters.count_rejection(rejection);
            }
            (decision, change)
        })
    }

    /// Takes in one entry.
    pub(crate) fn report(
        &self,
        slot: &Arc<Slot>,
        caller: Caller<'_>,
        entry: &v1::ReportEntry,
    ) -> (Reported, After) {
        self.with(slot, |cell, at| {
            cell.last_used = at.now;
            let entry = entry_from_wire(entry, cell.breaker.policy());
            let (reported, change) = cell.breaker.report(caller, &entry, at);
            cell.counters.count_entry(&entry, reported, self.limits.causes_per_breaker);
            (reported, change)
        })
    }

    /// Does what time has made due and looks.
    pub(crate) fn look(&self, slot: &Arc<Slot>) -> After {
        self.with(slot, |cell, at| ((), cell.breaker.tick(at))).1
    }

    /// A session began to watch.
    pub(crate) fn watch_started(&self, slot: &Arc<Slot>, caller: Caller<'_>) {
        let mut cell = slot.lock();
        cell.last_used = self.clock.now();
        let now = cell.last_used;
        cell.breaker.watch_started(caller, now);
    }

    /// A session stopped watching.
    pub(crate) fn watch_ended(&self, slot: &Arc<Slot>, caller: Caller<'_>) {
        let mut cell = slot.lock();
        cell.last_used = self.clock.now();
        let now = cell.last_used;
        cell.breaker.watch_ended(caller, now);
    }

    /// The position of the transition into HALF_OPEN, if the breaker is HALF_OPEN now: it must be durable before the
    /// first probe is leased.
    pub(crate) fn half_open_since(&self, slot: &Arc<Slot>) -> Option<u64> {
        self.look(slot);
        let cell = slot.lock();
        (cell.breaker.condition().state == StateKind::HalfOpen).then_some(cell.position)
    }

    /// Runs the timer's part: the deadline of one breaker has come.
    pub(crate) fn fire(&self, name: &BreakerName) {
        if let Some(slot) = self.find(name) {
            slot.lock().armed = None;
            self.look(&slot);
        }
    }

    /// Runs `call` on a locked breaker, and sends off what changed.
    fn with<R>(
        &self,
        slot: &Arc<Slot>,
        call: impl FnOnce(&mut Cell, Moment) -> (R, Option<Change>),
    ) -> (R, After) {
        let mut cell = slot.lock();
        let at = self.moment();
        let (result, change) = call(&mut cell, at);
        if let Some(change) = change
            && !cell.deleted
        {
            self.post(&slot.name, &mut cell, &change, at.now);
        }
        self.rearm(&slot.name, &mut cell);
        let after = After {
            status: cell.breaker.status(at.now),
            last: cell.last.clone(),
            progress: cell.breaker.progress(at.now),
            now: at.now,
        };
        (result, after)
    }

    fn moment(&self) -> Moment {
        let next = Version { epoch: self.epoch, revision: self.outbox.next_revision() };
        Moment { now: self.clock.now(), next }
    }

    fn rearm(&self, name: &BreakerName, cell: &mut Cell) {
        let deadline = cell.breaker.deadline();
        if let Some(deadline) = deadline
            && cell.armed.is_none_or(|armed| deadline < armed)
        {
            cell.armed = Some(deadline);
            self.timer.arm(deadline, name.clone());
        }
    }

    /// The one way out for a change. The breaker's lock is held.
    fn post(&self, name: &BreakerName, cell: &mut Cell, change: &Change, now: Timestamp) {
        let event = match change {
            Change::Transition(transition) => {
                let unix_ms = self.clock.unix_ms();
                let wire = transition_to_wire(transition, unix_ms);
                let incident = history::record(&mut cell.incidents, transition, &wire, &self.limits);
                history::prune(&mut cell.incidents, unix_ms, &self.limits);
                cell.last = Some(Arc::new(wire));
                cell.since_unix_ms = unix_ms;
                count_transition(&mut cell.counters, transition);
                Event::Transition { transition: Arc::clone(transition), incident }
            }
            Change::Extended { .. } | Change::Availability | Change::WouldOpen { .. } | Change::Policy => {
                Event::Other
            }
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
            match policies.resolve(&slot.name) {
                Some(policy) => {
                    let policy = Arc::clone(policy);
                    self.with(&slot, |cell, at| ((), cell.breaker.set_policy(policy, at)));
                }
                None => self.delete(&slot),
            }
        }
        self.make_named();
    }

    /// Deletes the breakers that patterns made, that admit or rest, and that nobody has used for long. `is_named` tells
    /// whether a watch names one.
    pub(crate) fn expire_idle(&self, is_named: impl Fn(&BreakerName) -> bool) {
        let policies = self.policies();
        let now = self.clock.now();
        for slot in self.all() {
            let is_exact = |entry: &crate::policies::Entry| {
                entry.patterns().iter().any(|pattern| pattern.exact().as_ref() == Some(&slot.name))
            };
            if policies.entry(&slot.name).is_some_and(is_exact) || is_named(&slot.name) {
                continue;
            }
            let idle = {
                let cell = slot.lock();
                let rests = matches!(
                    (cell.breaker.condition().over, cell.breaker.condition().state),
                    (None, StateKind::Closed | StateKind::HalfOpen)
                );
                rests && now >= cell.last_used.plus(self.limits.idle_breaker_age)
            };
            if idle {
                self.delete(&slot);
            }
        }
    }

    fn make_named(&self) {
        let policies = self.policies();
        for name in policies.exact_names() {
            if self.find(name).is_none()
                && let Some(policy) = policies.resolve(name)
            {
                self.make(name, Arc::clone(policy));
            }
        }
    }

    /// Makes the breakers of the store that a policy still matches: one that was open is open for whoever looks or
    /// watches, before anybody calls.
    fn make_stored(&self) {
        let policies = self.policies();
        let mut names: Vec<_> =
            self.dormant.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        names.sort();
        for name in names.iter().take(self.limits.breakers) {
            if let Some(policy) = policies.resolve(name) {
                self.make(name, Arc::clone(policy));
            }
        }
    }

    fn make(&self, name: &BreakerName, policy: Arc<Policy>) -> Arc<Slot> {
        let dormant = self.dormant.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        let at = self.moment();
        let cell = self.cell(name, policy, dormant, at);
        match self.slots.entry(name.clone()) {
            // Another call made it first.
            MapEntry::Occupied(entry) => Arc::clone(entry.get()),
            MapEntry::Vacant(entry) => {
                let slot = Arc::new(Slot::new(name.clone(), cell));
                let mut cell = slot.lock();
                let what = What::Changed {
                    status: Box::new(cell.breaker.status(at.now)),
                    last: cell.last.clone(),
                    event: Event::Created,
                    stored: None,
                };
                cell.position = self.outbox.post(name.clone(), what);
                self.rearm(name, &mut cell);
                drop(cell);
                entry.insert(Arc::clone(&slot));
                slot
            }
        }
    }

    fn cell(&self, name: &BreakerName, policy: Arc<Policy>, dormant: Option<Dormant>, at: Moment) -> Cell {
        let settings =
            Settings { seed: seed_of(self.seed, name), instances_max: self.limits.instances_per_breaker };
        let unix_ms = self.clock.unix_ms();
        let mut dormant = dormant.unwrap_or_default();
        history::prune(&mut dormant.incidents, unix_ms, &self.limits);
        let (breaker, last, since_unix_ms) = match dormant.record {
            None => (Breaker::new(policy, settings, at), None, unix_ms),
            Some(record) => restore::from_record(record, policy, settings, at, unix_ms),
        };
        Cell {
            breaker,
            last,
            since_unix_ms,
            incidents: dormant.incidents,
            counters: Counters::default(),
            position: 0,
            last_used: at.now,
            armed: None,
            deleted: false,
        }
    }

    fn delete(&self, slot: &Arc<Slot>) {
        // Out of the map first: a lookup that comes later makes a new one.
        self.slots.remove_if(&slot.name, |_, held| Arc::ptr_eq(held, slot));
        let mut cell = slot.lock();
        if !cell.deleted {
            cell.deleted = true;
            let version = Version { epoch: self.epoch, revision: self.outbox.next_revision() };
            self.outbox.post(slot.name.clone(), What::Deleted { version });
        }
    }
}

fn count_transition(counters: &mut Counters, transition: &panelboard_core::Transition) {
    let (from, to) = (transition.from.as_str(), transition.to.as_str());
    *counters.transitions.entry((from, to, transition.reason.label())).or_default() += 1;
    let recovery = match &transition.reason {
        Reason::ProbesSucceeded { .. } => "closed",
        Reason::ProbesFailed { .. } | Reason::ProbesSlow { .. } => "reopened",
        Reason::HalfOpenLimit { .. } if transition.to.state == StateKind::Closed => "closed_at_limit",
        Reason::HalfOpenLimit { .. } => "reopened_at_limit",
        _ => return,
    };
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
