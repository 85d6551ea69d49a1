//! Calls on a breaker, and the one way in which a change leaves it: lock, run the rules, post what changed, unlock.

use std::sync::Arc;

use panelboard_core::{
    BreakerName, Caller, Change, Condition, Decision, Instance, Moment, Quarantine, QuarantineEvent, Reason,
    Reported, StateKind, Status, Timestamp, Transition, Version, WouldOpen,
};
use panelboard_proto::{
    convert::{
        Times, entry_from_wire, quarantine_to_wire, status_to_wire, transition_to_wire, would_open_to_wire,
    },
    store, v1,
};

use super::{Missing, Registry, restore};
use crate::{
    history,
    outbox::{Event, What},
    slot::{Cell, Counters, Slot},
};

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
    /// What METRICS_ONLY keeps from happening.
    pub(crate) would: Option<Arc<v1::WouldOpen>>,
    /// What keeps out the instance that called, although the fleet is CLOSED.
    pub(crate) quarantine: Option<v1::Quarantine>,
    /// When.
    pub(crate) now: Timestamp,
}

impl After {
    /// As a message: what is left of its times, with the policy or without.
    pub(crate) fn to_wire(&self, name: &BreakerName, with_policy: bool) -> v1::BreakerStatus {
        let last = self.last.as_deref().cloned();
        let times = Times::LeftFrom(self.now);
        let mut wire = status_to_wire(name.as_str(), &self.status, last, with_policy, times);
        wire.quarantine.clone_from(&self.quarantine);
        if let Some(over) = &mut wire.r#override {
            over.would = self.would.as_deref().cloned();
        }
        wire
    }

    /// Why a call is refused, in a sentence: what concerns the instance comes before what concerns all.
    pub(crate) fn why(&self) -> &str {
        let own = self.quarantine.as_ref().map(|quarantine| quarantine.explanation.as_str());
        own.or(self.last.as_deref().map(|last| last.explanation.as_str())).unwrap_or_default()
    }
}

/// A breaker that somebody looks at.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// As it is.
    pub(crate) after: After,
    /// How far it is from its next state, for people. A sentence costs more than a decision, so it is not made of each.
    pub(crate) progress: String,
}

impl Registry {
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
            let after = self.after(cell, Some(caller.instance), now);
            Acquired::Decided { decision, after: Box::new(after) }
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
    ) -> Result<(Reported, Seen), Missing> {
        self.with_live(name, |cell, now| {
            let reported = self.apply(name, cell, now, |cell, at| {
                cell.last_used = now;
                let entry = entry_from_wire(entry, cell.breaker.policy());
                let (reported, change) = cell.breaker.report(caller, &entry, at);
                cell.counters.count_entry(&entry, reported, self.limits.causes_per_breaker);
                self.reports.taken(reported);
                (reported, change)
            });
            (reported, self.seen(cell, Some(caller.instance), now))
        })
    }

    /// Does what time has made due and looks.
    pub(crate) fn look(&self, slot: &Slot) -> Seen {
        self.look_closely(slot, |_, seen| seen)
    }

    /// The same, with whatever else is to be seen at that instant.
    pub(crate) fn look_closely<R>(&self, slot: &Slot, look: impl FnOnce(&mut Cell, Seen) -> R) -> R {
        let mut cell = slot.lock();
        let now = self.clock.now();
        self.apply(&slot.name, &mut cell, now, |cell, at| ((), cell.breaker.tick(at)));
        let seen = self.seen(&cell, None, now);
        look(&mut cell, seen)
    }

    /// What keeps an instance out now in this stretch, as its streams are told.
    pub(crate) fn quarantine_of(
        &self,
        slot: &Slot,
        instance: &Instance,
        stretch: Option<v1::Generation>,
    ) -> Option<v1::Quarantine> {
        let (cell, now) = (slot.lock(), self.clock.now());
        let quarantine = cell.breaker.quarantine_of(instance, now);
        drop(cell);
        let quarantine = quarantine.filter(|held| Some(held.generation.into()) == stretch)?;
        Some(self.quarantine_to_wire(&quarantine, Times::Ticks, now))
    }

    /// As a message.
    pub(crate) fn quarantine_to_wire(
        &self,
        quarantine: &Quarantine,
        times: Times,
        now: Timestamp,
    ) -> v1::Quarantine {
        let ago = u64::try_from(now.since(quarantine.at).as_millis()).unwrap_or(u64::MAX);
        quarantine_to_wire(quarantine, times, self.clock.unix_ms().saturating_sub(ago))
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
    pub(super) fn with_live<R>(
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
    pub(super) fn apply<R>(
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
    pub(super) fn moment(&self, now: Timestamp) -> Moment {
        Moment { now, next: Version { epoch: self.epoch, revision: self.outbox.next_revision() } }
    }

    pub(super) fn rearm(&self, name: &BreakerName, cell: &mut Cell) {
        let deadline = cell.breaker.deadline();
        if let Some(deadline) = deadline
            && cell.armed.is_none_or(|armed| deadline < armed)
        {
            let before = cell.armed.replace(deadline);
            self.timer.arm(deadline, name.clone(), before);
        }
    }

    /// The one way out for a change. The breaker's lock is held.
    pub(super) fn post(&self, name: &BreakerName, cell: &mut Cell, change: &Change, now: Timestamp) {
        let event = match change {
            Change::Transition(transition) => self.note_transition(cell, transition, now),
            Change::WouldOpen { would: Some(would) } => self.note_would_open(cell, would, now),
            Change::WouldOpen { would: None } => {
                cell.counters.would_open.end(now);
                cell.would = None;
                let incident = history::record_would_not_open(&mut cell.incidents, self.clock.unix_ms());
                Event::WouldOpen { news: None, incident }
            }
            Change::Quarantine(quarantine) => return self.post_quarantine(name, cell, quarantine, now),
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

    fn note_transition(&self, cell: &mut Cell, transition: &Arc<Transition>, now: Timestamp) -> Event {
        let unix_ms = self.clock.unix_ms();
        let transition = &cell.with_its_past(transition, unix_ms);
        let wire = transition_to_wire(transition, unix_ms);
        let incidents = history::record(&mut cell.incidents, transition, &wire, &self.limits);
        history::prune(&mut cell.incidents, unix_ms, &self.limits);
        (cell.last, cell.would) = (Some(Arc::new(wire)), None);
        cell.since_unix_ms = unix_ms;
        cell.counters.would_open.end(now);
        count_transition(&mut cell.counters, transition);
        Event::Transition { transition: Arc::clone(transition), incidents }
    }

    fn note_would_open(&self, cell: &mut Cell, would: &Arc<WouldOpen>, now: Timestamp) -> Event {
        cell.counters.would_open.begin(now);
        let wire = would_open_to_wire(would, self.clock.unix_ms());
        let (incident, is_new) = history::record_would_open(&mut cell.incidents, wire.clone(), &self.limits);
        cell.would = Some(Arc::new(wire));
        Event::WouldOpen { news: is_new.then(|| Arc::clone(would)), incident }
    }

    fn post_quarantine(
        &self,
        name: &BreakerName,
        cell: &mut Cell,
        quarantine: &Arc<Quarantine>,
        now: Timestamp,
    ) {
        if quarantine.event == QuarantineEvent::Began {
            *cell.counters.quarantines.entry(quarantine.why.label()).or_default() += 1;
        }
        let what = What::ChangedFor {
            instance: quarantine.instance.clone(),
            status: Box::new(cell.breaker.status(now)),
            last: cell.last.clone(),
            quarantine: Arc::clone(quarantine),
        };
        self.outbox.post(name.clone(), what);
    }

    pub(super) fn stored(&self, cell: &Cell, now: Timestamp) -> store::StoredBreaker {
        restore::to_record(
            &cell.breaker.stored(now),
            cell.last.as_deref(),
            cell.since_unix_ms,
            self.clock.unix_ms(),
        )
    }

    /// A breaker as it is, to one instance or to nobody in particular.
    fn after(&self, cell: &Cell, to: Option<&Instance>, now: Timestamp) -> After {
        let status = cell.breaker.status(now);
        let to = to.filter(|_| status.quarantined_instances > 0);
        let quarantine = to.and_then(|instance| cell.breaker.quarantine_of(instance, now));
        let times = Times::LeftFrom(now);
        let quarantine = quarantine.map(|held| self.quarantine_to_wire(&held, times, now));
        After { status, last: cell.last.clone(), would: cell.would.clone(), quarantine, now }
    }

    fn seen(&self, cell: &Cell, to: Option<&Instance>, now: Timestamp) -> Seen {
        Seen { after: self.after(cell, to, now), progress: cell.breaker.progress(now) }
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
