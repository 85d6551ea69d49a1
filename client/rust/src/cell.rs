//! One breaker as its client knows it: a pure state machine.
//!
//! It holds no clock, socket or task. Time is an argument; what the server said comes in as values, what is to be
//! sent goes out as values. Everything that decides about a call is here, so that all of it can be tested without
//! a network and without waiting.

mod known;
mod outbox;
mod probes;

use std::{sync::Arc, time::Duration};

use panelboard_core::{
    Admission, Cause, Condition, Entry, Generation, Instance, OnDisconnect, Outcome, Outcomes, OverrideKind,
    Policy, ProbeId, RejectionReason, StateKind, Timestamp, Version, Why, admitted_after,
};

use crate::{
    dice::Dice,
    fact::{Ended, Said},
    limits::{ACKNOWLEDGED_WITHIN, ASK_WITHIN_AFTER_OPEN, DEFAULT_TTL, HEARD_WITHIN, TTL_MAX},
    local::{Local, Role},
    rejected::Reason,
    state::{Freshness, State},
    tally::Tally,
    word::{Door, STRETCHES},
};

pub(crate) use known::{Known, Over, Quarantine};
use outbox::Outbox;
pub(crate) use probes::Ask;
use probes::{Lessor, Out, Probes};

/// What a cell is made with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) me: Instance,
    /// Until the server has told its own.
    pub(crate) policy: Arc<Policy>,
    /// The instances that the server counted when it was last heard; 1 if it never was.
    pub(crate) active_instances: u32,
    /// Instead of what the policy says.
    pub(crate) on_disconnect: Option<OnDisconnect>,
    pub(crate) seed: u64,
}

/// What the server's word for this breaker is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vouch {
    /// It never said anything.
    Never,
    /// It says that there is no such breaker.
    Unknown,
    /// A stream has delivered it.
    Held {
        /// FRESH until then unless the stream is heard again.
        fresh_until: Timestamp,
        /// STALE until then; LOCAL after.
        ends: Timestamp,
        /// The stream broke, or said that it cannot vouch: not FRESH, whatever the times say.
        cut: bool,
        /// The server said that it ends the stream and how long its word holds: the end is no break.
        announced: bool,
    },
}

/// The server's clock, as it was last heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    pub(crate) tick: u64,
    pub(crate) heard: Timestamp,
}

impl Ticks {
    /// This client's time of a server's tick.
    pub(crate) fn local(self, tick: u64) -> Timestamp {
        if tick >= self.tick {
            self.heard.plus(Duration::from_millis(tick - self.tick))
        } else {
            self.heard.minus(Duration::from_millis(self.tick - tick))
        }
    }

    /// The server's tick of this client's time.
    fn tick(self, at: Timestamp) -> Timestamp {
        Timestamp::from_millis(self.tick).plus(at.since(self.heard))
    }
}

/// Where a status came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A stream, which vouches for it.
    Stream,
    /// The answer to an Acquire or a Report.
    Answer,
}

/// Leave to make one call: what a permit remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) stretch: u32,
    pub(crate) counted: bool,
    pub(crate) probe: Option<u64>,
}

impl Ticket {
    /// For calls that pass although nobody admitted them.
    pub(crate) const UNCOUNTED: Self = Self { stretch: 0, counted: false, probe: None };
}

/// Why a call may not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) freshness: Freshness,
    pub(crate) explanation: Arc<str>,
    /// A probe is or will be asked for: the answer may be there soon after this.
    pub(crate) asked_at: Option<Timestamp>,
}

/// What the agent has to do for a cell.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// Ask the server for a probe.
    pub(crate) ask: bool,
    /// Send this.
    pub(crate) report: Option<Entry>,
    /// The freshness before and after, if it changed.
    pub(crate) turned: Option<(Freshness, Freshness)>,
}

#[derive(Debug)]
pub(crate) struct Cell {
    setup: Setup,
    dice: Dice,
    known: Option<Known>,
    policy: Arc<Policy>,
    active_instances: u32,
    vouch: Vouch,
    ticks: Option<Ticks>,
    /// A stream is there, so that what is sent may arrive.
    online: bool,
    /// The store behind the server is another one: older versions than the one known are news.
    reset: bool,
    freshness: Freshness,
    turned_from: Option<Freshness>,
    local: Local,
    stretch: u32,
    tally: Tally,
    outbox: Outbox,
    probes: Probes,
}

impl Cell {
    pub(crate) fn new(setup: Setup, now: Timestamp) -> Self {
        let mut dice = Dice::new(setup.seed);
        let role = Role::Deciding { active_instances: setup.active_instances };
        let local = Local::new(setup.me.clone(), Arc::clone(&setup.policy), role, dice.next(), now);
        Self {
            policy: Arc::clone(&setup.policy),
            active_instances: setup.active_instances,
            setup,
            dice,
            known: None,
            vouch: Vouch::Never,
            ticks: None,
            online: false,
            reset: false,
            freshness: Freshness::Local,
            turned_from: None,
            local,
            stretch: 0,
            tally: Tally::default(),
            outbox: Outbox::default(),
            probes: Probes::default(),
        }
    }

    // What callers do.

    /// Asks for leave to make one call. In HALF_OPEN without a probe at hand, one is wanted from now on.
    pub(crate) fn admit(&mut self, now: Timestamp) -> Result<Ticket, Refusal> {
        self.turn(now);
        match self.freshness {
            Freshness::Fresh => self.admit_fresh(now),
            Freshness::Stale | Freshness::Local => self.admit_local(now),
        }
    }

    /// A call was turned away. Not counted in [`admit`](Self::admit), because a caller may wait and ask again.
    pub(crate) fn rejected(&mut self, now: Timestamp) {
        self.tally.reject(now);
    }

    /// What would pass without a closer look, and until when.
    pub(crate) fn door(&self, now: Timestamp) -> Option<Door> {
        let turn = self.turns_at();
        let open = |counted, until| {
            Some(Door { stretch: self.stretch, counted, until }).filter(|door| now < door.until)
        };
        if turn.is_some_and(|turn| now >= turn) || self.recovering_until().is_some_and(|turn| now < turn) {
            return None;
        }
        let until = turn.unwrap_or(Timestamp::from_millis(u64::MAX));
        match (self.freshness, &self.known) {
            (Freshness::Fresh, Some(known)) => {
                let passes = known.admission == Admission::Allow && self.quarantined(now).is_none();
                passes.then(|| open(!is_disabled(known), until)).flatten()
            }
            (Freshness::Fresh, None) => None,
            (Freshness::Stale, _) => self.local.is_plainly_closed().then(|| open(true, until)).flatten(),
            (Freshness::Local, _) => {
                let passes = self.local.is_plainly_closed() && self.on_disconnect() != OnDisconnect::Deny;
                passes.then(|| open(true, until)).flatten()
            }
        }
    }

    /// Takes in what became of a call.
    pub(crate) fn record(
        &mut self,
        ticket: Ticket,
        said: Said<'_>,
        took: Duration,
        retry_after: Option<Duration>,
        now: Timestamp,
    ) {
        self.turn(now);
        let (outcome, cause) = said.classified(&self.policy.spec().classification);
        let slow = self.policy.slower_than().is_some_and(|threshold| took > threshold);
        let ended = Ended { outcome, slow, cause, retry_after };
        match ticket.probe {
            Some(serial) => {
                if let Some(out) = self.probes.take_back(serial) {
                    self.end_probe(out, ended, now);
                }
            }
            None if ticket.counted && ticket.stretch == self.stretch => {
                self.tally.add(ended, now);
                if self.freshness != Freshness::Fresh {
                    self.drain_into_local(now);
                }
            }
            // Admitted in a stretch that is over: it says nothing about this one.
            None => {}
        }
    }

    // What the server says.

    /// The policy in force.
    pub(crate) const fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// A status. False if a newer one is known.
    pub(crate) fn apply(&mut self, status: Known, source: Source, now: Timestamp) -> bool {
        self.turn(now);
        let before = self.known.as_ref().map(|known| (known.generation, known.version));
        if before.is_some_and(|(_, version)| status.version < version) && !self.reset {
            return false;
        }
        let new_stretch = before.is_none_or(|(generation, _)| status.generation != generation);
        let news = before.is_none_or(|(_, version)| status.version != version);
        if let Some(policy) = &status.policy {
            self.policy = Arc::clone(policy);
        }
        self.active_instances = status.active_instances.max(1);
        if new_stretch {
            self.tally.forget_outcomes();
            self.outbox.forget_before(status.generation.epoch);
            self.probes.forget();
            self.begin_stretch();
        }
        if news && status.admission == Admission::Probe {
            self.probes.available(now);
        }
        self.local.set(Arc::clone(&self.policy), self.role(), now);
        let inheritance = status.inheritance(&mut self.dice, now);
        match (self.freshness, inheritance) {
            (Freshness::Fresh, _) if new_stretch => self.local.renew(now),
            (Freshness::Fresh, _) => {}
            (_, Some(state)) if news => self.local.inherit(state, now),
            (_, None) if new_stretch => self.local.renew(now),
            (_, _) => {}
        }
        self.known = Some(status);
        if source == Source::Stream {
            self.reset = false;
            let ends = match self.vouch {
                Vouch::Held { ends, .. } => ends.max(now.plus(DEFAULT_TTL)),
                Vouch::Never | Vouch::Unknown => now.plus(DEFAULT_TTL),
            };
            self.hold_until(now.plus(HEARD_WITHIN), ends);
        } else if self.vouch == Vouch::Unknown {
            self.vouch = Vouch::Never;
        }
        self.turn(now);
        true
    }

    /// A message came on the stream that delivered this breaker.
    pub(crate) fn heard(&mut self, ticks: Option<Ticks>, now: Timestamp) {
        self.online = true;
        self.ticks = ticks.or(self.ticks);
        if let Vouch::Held { fresh_until, announced: false, .. } = &mut self.vouch {
            *fresh_until = now.plus(HEARD_WITHIN);
        }
        self.turn(now);
    }

    /// An answer told the server's clock.
    pub(crate) fn ticked(&mut self, tick: u64, now: Timestamp) {
        if self.online {
            self.ticks = Some(Ticks { tick, heard: now });
        }
    }

    /// The stream owes nothing: what it delivered is current, and holds for so long.
    pub(crate) fn vouched(&mut self, ttl: Option<Duration>, now: Timestamp) {
        if self.known.is_some() && self.vouch != Vouch::Unknown {
            self.hold_until(now.plus(HEARD_WITHIN), now.plus(ttl.unwrap_or(DEFAULT_TTL).min(TTL_MAX)));
        }
        self.outbox.hurry(now);
        self.turn(now);
    }

    /// The server will end the stream; what it delivered holds for so long all the same.
    pub(crate) fn draining(&mut self, ttl: Option<Duration>, now: Timestamp) {
        let ends = now.plus(ttl.unwrap_or(DEFAULT_TTL).min(TTL_MAX));
        if let Vouch::Held { cut: false, .. } = self.vouch {
            self.vouch = Vouch::Held { fresh_until: ends, ends, cut: false, announced: true };
        }
        self.turn(now);
    }

    /// The stream is gone.
    pub(crate) fn lost(&mut self, now: Timestamp) {
        self.online = false;
        if let Vouch::Held { announced: false, cut, .. } = &mut self.vouch {
            *cut = true;
        }
        self.turn(now);
    }

    /// The server cannot vouch for this breaker.
    pub(crate) fn unavailable(&mut self, now: Timestamp) {
        if let Vouch::Held { cut, .. } = &mut self.vouch {
            *cut = true;
        }
        self.turn(now);
    }

    /// What is known may be of another store: it stays as STALE until the new snapshot is complete.
    pub(crate) fn reset(&mut self, now: Timestamp) {
        self.reset = true;
        self.unavailable(now);
    }

    /// There is no such breaker. True if that is news.
    pub(crate) fn not_found(&mut self, now: Timestamp) -> bool {
        let news = self.vouch != Vouch::Unknown;
        self.forget(now);
        self.vouch = Vouch::Unknown;
        self.turn(now);
        news
    }

    /// The breaker was deleted at this version.
    pub(crate) fn deleted(&mut self, version: Version, now: Timestamp) {
        if self.known.as_ref().is_none_or(|known| version >= known.version) {
            self.forget(now);
        }
    }

    /// The breaker is gone, and what was known of it.
    pub(crate) fn forget(&mut self, now: Timestamp) {
        self.turn(now);
        if self.known.take().is_some() {
            self.probes.forget();
            self.tally.forget_outcomes();
            self.begin_stretch();
            self.local.renew(now);
        }
        self.vouch = Vouch::Never;
        self.turn(now);
    }

    /// The server's answer to an ask: a probe, good for so long.
    pub(crate) fn granted(&mut self, id: ProbeId, generation: Generation, timeout: Duration, now: Timestamp) {
        self.turn(now);
        let is_current = self.known.as_ref().is_some_and(|known| known.generation == generation);
        if self.freshness == Freshness::Fresh && is_current {
            self.probes.hold(id, generation, timeout, now);
        } else {
            self.probes.refused(None, now);
            self.return_probe(id, generation);
        }
    }

    /// The server's answer to an ask: no probe now.
    pub(crate) fn refused(&mut self, retry_after: Option<Duration>, now: Timestamp) {
        self.turn(now);
        self.probes.refused(retry_after, now);
    }

    /// An entry was answered.
    pub(crate) fn acknowledged(&mut self, sequence: u64, now: Timestamp) {
        self.outbox.acknowledge(sequence);
        self.turn(now);
    }

    /// An entry was not answered: it is sent again after a while.
    pub(crate) fn unanswered(&mut self, sequence: u64, again_after: Duration, now: Timestamp) {
        self.outbox.again(sequence, again_after, now);
        self.turn(now);
    }

    // What the agent does.

    /// Does what time has made due, and says what is to be sent. With `may_send` false nothing is sealed.
    pub(crate) fn step(&mut self, now: Timestamp, may_send: bool) -> Step {
        self.turn(now);
        if let Some(held) = self.probes.take_unused(now) {
            self.return_probe(held.id, held.generation);
        }
        let ask = self.freshness == Freshness::Fresh && self.probes.ask_now(now);
        let report = if may_send && self.online { self.next_entry(now) } else { None };
        let turned =
            self.turned_from.take().filter(|from| *from != self.freshness).map(|from| (from, self.freshness));
        Step { ask, report, turned }
    }

    /// When [`step`](Self::step) is due at the latest.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        let outbox = self.outbox.due().filter(|_| self.online);
        [
            self.turned_from.map(|_| Timestamp::ZERO),
            outbox,
            self.tally_due(),
            self.probes.due(),
            self.turns_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// All that is left to say, at the end: probes go back, and what was recorded while FRESH is sealed.
    pub(crate) fn close(&mut self, now: Timestamp) -> Option<Entry> {
        self.turn(now);
        if let Some(held) = self.probes.take_held() {
            self.return_probe(held.id, held.generation);
        }
        for out in self.probes.take_all() {
            self.end_probe(out, Ended { outcome: None, slow: false, cause: None, retry_after: None }, now);
        }
        if self.outbox.is_free() && !self.seal_probe(now) && self.freshness == Freshness::Fresh {
            self.seal_tally(now);
        }
        if self.online { self.outbox.send(now) } else { None }
    }

    // Looking.

    pub(crate) const fn freshness(&self) -> Freshness {
        self.freshness
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.vouch == Vouch::Unknown
    }

    pub(crate) fn is_asking(&self) -> Ask {
        self.probes.ask()
    }

    pub(crate) fn state(&mut self, now: Timestamp) -> State {
        self.turn(now);
        self.condition().into()
    }

    pub(crate) fn status(&mut self, now: Timestamp) -> crate::state::Status {
        self.turn(now);
        let ends = match (self.freshness, &self.known) {
            (Freshness::Fresh, Some(known)) => known.deadline,
            _ => self.local.status(now).deadline,
        };
        crate::state::Status {
            state: self.condition().into(),
            freshness: self.freshness,
            explanation: self.explanation(now),
            ends_in: ends.map(|end| end.since(now)),
            generation: self.known.as_ref().map(|known| known.generation),
            policy: self.policy.name().into(),
            policy_revision: self.policy.revision(),
            active_instances: self.active_instances,
        }
    }

    // Freshness.

    fn freshness_at(&self, now: Timestamp) -> Freshness {
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
    fn turns_at(&self) -> Option<Timestamp> {
        match (self.vouch, self.freshness) {
            (Vouch::Never | Vouch::Unknown, _) | (_, Freshness::Local) => None,
            (Vouch::Held { ends, .. }, Freshness::Stale) => Some(ends),
            (Vouch::Held { fresh_until, ends, .. }, Freshness::Fresh) => {
                Some(self.overdue_at().map_or(fresh_until, |overdue| overdue.min(fresh_until)).min(ends))
            }
        }
    }

    /// When outcomes have waited for too long: for their acknowledgement, or, between two streams, to be sent.
    fn overdue_at(&self) -> Option<Timestamp> {
        let unsent = self.tally.waits_since().filter(|_| !self.online);
        self.outbox.overdue_at().or(unsent.map(|since| since.plus(ACKNOWLEDGED_WITHIN)))
    }

    fn hold_until(&mut self, fresh_until: Timestamp, ends: Timestamp) {
        self.vouch = Vouch::Held { fresh_until, ends, cut: false, announced: false };
    }

    /// Every call begins with this: what time has made true is true before anything else happens.
    fn turn(&mut self, now: Timestamp) {
        while let Some(out) = self.probes.take_overrun(now) {
            let slow =
                self.policy.slower_than().is_some_and(|t| self.policy.spec().half_open.probe_timeout > t);
            let cause: Cause = self.policy.spec().classification.cause("timeout");
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
    fn leave_fresh(&mut self, now: Timestamp) {
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
    fn come_back(&mut self, now: Timestamp) {
        self.tally.forget_outcomes();
        if !self.local.is_plainly_closed() {
            self.local.renew(now);
            self.begin_stretch();
        }
    }

    const fn role(&self) -> Role {
        match self.freshness {
            Freshness::Fresh => Role::Tallying,
            Freshness::Stale => Role::Seconding,
            Freshness::Local => Role::Deciding { active_instances: self.active_instances },
        }
    }

    fn begin_stretch(&mut self) {
        self.stretch = (self.stretch + 1) % STRETCHES;
    }

    // Decisions.

    fn admit_fresh(&mut self, now: Timestamp) -> Result<Ticket, Refusal> {
        let Some(known) = &self.known else { return self.admit_local(now) };
        if let Some(quarantine) = self.quarantined(now) {
            let (explanation, until) = (Arc::clone(&quarantine.explanation), quarantine.until);
            return Err(self.refusal(Reason::Quarantined, until, explanation, now));
        }
        let is_over = |end: Option<Timestamp>| end.is_some_and(|end| now >= end);
        match (known.admission, &known.over, known.state) {
            (Admission::Allow, _, _) => self.admit_unless_recovering(!is_disabled(known), now),
            (Admission::Probe, _, _) | (Admission::Reject, None, StateKind::HalfOpen) => {
                self.admit_probe(now)
            }
            (Admission::Reject, Some(over), _) => {
                if is_over(over.until) {
                    return self.admit_probe(now);
                }
                let (explanation, until) = (over.hand.to_string().into(), over.until);
                Err(self.refusal(Reason::ForcedOpen, until, explanation, now))
            }
            (Admission::Reject, None, StateKind::Open) if is_over(known.deadline) => self.admit_probe(now),
            (Admission::Reject, None, StateKind::Open | StateKind::Closed) => {
                let (explanation, until) = (Arc::clone(&known.explanation), known.deadline);
                Err(self.refusal(Reason::Open, until, explanation, now))
            }
        }
    }

    /// HALF_OPEN: the probe at hand, or none yet.
    fn admit_probe(&mut self, now: Timestamp) -> Result<Ticket, Refusal> {
        if let Some(held) = self.probes.take_held() {
            let lessor = Lessor::Server { generation: held.generation };
            if let Some(serial) = self.probes.give(held.id, lessor, held.deadline) {
                return Ok(Ticket { stretch: self.stretch, counted: true, probe: Some(serial) });
            }
            self.return_probe(held.id, held.generation);
        }
        let (admission, ask_within) = match &self.known {
            Some(known) if known.state == StateKind::HalfOpen => (known.admission, known.ask_within),
            Some(known) => (Admission::Probe, known.ask_within.max(ASK_WITHIN_AFTER_OPEN)),
            None => (Admission::Reject, Duration::ZERO),
        };
        // Nobody asks for what the server says is not there, or said it would not give yet.
        let held_back = self.probes.held_back_until(now);
        if admission == Admission::Reject || held_back.is_some() {
            return Err(self.refusal(Reason::ProbesTaken, held_back, "".into(), now));
        }
        let dice = &mut self.dice;
        let at = self.probes.want(|| dice.up_to(ask_within), now);
        let refusal = self.refusal(Reason::ProbesTaken, Some(at), "".into(), now);
        Err(Refusal { asked_at: Some(at), ..refusal })
    }

    fn admit_local(&mut self, now: Timestamp) -> Result<Ticket, Refusal> {
        let over = self.local.condition().over;
        if self.freshness == Freshness::Local && over.is_none() {
            match self.on_disconnect() {
                OnDisconnect::Local => {}
                OnDisconnect::Allow => {
                    return Ok(Ticket { stretch: self.stretch, counted: true, probe: None });
                }
                OnDisconnect::Deny => {
                    return Err(self.refusal(Reason::Disconnected, None, "".into(), now));
                }
            }
        }
        let (decision, moved) = self.local.acquire(now);
        if moved {
            self.begin_stretch();
        }
        match decision {
            Ok(grant) => match grant.probe {
                Some(id) => {
                    let serial = self.probes.give(id, Lessor::Local, now.plus(grant.ttl));
                    let ticket =
                        serial.map(|n| Ticket { stretch: self.stretch, counted: true, probe: Some(n) });
                    ticket.ok_or_else(|| self.refusal(Reason::ProbesTaken, None, "".into(), now))
                }
                None => self.admit_unless_recovering(over != Some(OverrideKind::Disabled), now),
            },
            Err(rejection) => {
                let reason = match rejection.reason {
                    RejectionReason::Open => Reason::Open,
                    RejectionReason::ProbesTaken => Reason::ProbesTaken,
                    RejectionReason::ForcedOpen => Reason::ForcedOpen,
                    RejectionReason::Recovering => Reason::Recovering,
                };
                let explanation = match reason {
                    Reason::ForcedOpen => self
                        .known
                        .as_ref()
                        .and_then(|known| known.over.as_ref())
                        .map_or_else(|| "".into(), |over| over.hand.to_string().into()),
                    Reason::Open => self.explanation(now),
                    _ => "".into(),
                };
                let until = rejection.retry_after.map(|span| now.plus(span));
                Err(self.refusal(reason, until, explanation, now))
            }
        }
    }

    fn admit_unless_recovering(&self, counted: bool, now: Timestamp) -> Result<Ticket, Refusal> {
        match self.recovering_until() {
            Some(turn) if now < turn => Err(self.refusal(Reason::Recovering, Some(turn), "".into(), now)),
            _ => Ok(Ticket { stretch: self.stretch, counted, probe: None }),
        }
    }

    fn refusal(
        &self,
        reason: Reason,
        until: Option<Timestamp>,
        explanation: Arc<str>,
        now: Timestamp,
    ) -> Refusal {
        let retry_after = until.map(|until| until.since(now));
        Refusal { reason, retry_after, freshness: self.freshness, explanation, asked_at: None }
    }

    /// This instance's turn after the breaker closed.
    fn recovering_until(&self) -> Option<Timestamp> {
        let known = self.known.as_ref()?;
        let (spread, since) = known.recovery.filter(|_| known.state == StateKind::Closed)?;
        Some(since.plus(admitted_after(&self.setup.me, known.generation, spread)))
    }

    fn quarantined(&self, now: Timestamp) -> Option<&Quarantine> {
        let quarantine = self.known.as_ref()?.quarantine.as_ref()?;
        quarantine.until.is_none_or(|until| now < until).then_some(quarantine)
    }

    fn on_disconnect(&self) -> OnDisconnect {
        self.setup.on_disconnect.unwrap_or(self.policy.spec().on_disconnect)
    }

    fn condition(&self) -> Condition {
        match (self.freshness, &self.known) {
            (Freshness::Fresh, Some(known)) => known.condition(),
            _ => self.local.condition(),
        }
    }

    fn explanation(&self, now: Timestamp) -> Arc<str> {
        let told = || self.known.as_ref().map_or_else(|| "".into(), |known| Arc::clone(&known.explanation));
        if self.freshness == Freshness::Fresh {
            return told();
        }
        self.local.status(now).last.map_or_else(told, |last| Why(&last).to_string().into())
    }

    // Entries.

    fn drain_into_local(&mut self, now: Timestamp) {
        if let Some(entry) = self.tally.take()
            && self.local.report(&entry, now).1
        {
            self.begin_stretch();
        }
    }

    fn end_probe(&mut self, out: Out, ended: Ended, now: Timestamp) {
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

    fn return_probe(&mut self, id: ProbeId, generation: Generation) {
        let outcomes = Outcomes { abandoned: 1, ..Outcomes::default() };
        self.outbox.queue_probe(Entry {
            generation: Some(generation),
            probe: Some(id),
            outcomes,
            ..Entry::default()
        });
    }

    fn next_entry(&mut self, now: Timestamp) -> Option<Entry> {
        if self.outbox.is_free() && !self.seal_probe(now) && self.tally_due().is_some_and(|due| now >= due) {
            self.seal_tally(now);
        }
        self.outbox.send(now)
    }

    fn tally_due(&self) -> Option<Timestamp> {
        let may = self.freshness == Freshness::Fresh && self.outbox.is_free() && self.online;
        let due = self.tally.due(&self.policy).filter(|_| may)?;
        Some(due.max(self.outbox.free_at()))
    }

    fn seal_probe(&mut self, now: Timestamp) -> bool {
        let Some(entry) = self.outbox.next_probe() else { return false };
        self.outbox.seal(Entry { at: self.ticks.map(|ticks| ticks.tick(now)), ..entry }, now);
        true
    }

    fn seal_tally(&mut self, now: Timestamp) {
        let Some(generation) = self.known.as_ref().map(|known| known.generation) else { return };
        let Some(entry) = self.tally.take() else { return };
        self.local.report(&entry, now);
        let at = self.ticks.map(|ticks| ticks.tick(now));
        self.outbox.seal(Entry { generation: Some(generation), at, ..entry }, now);
    }
}

fn is_disabled(known: &Known) -> bool {
    known.over.as_ref().is_some_and(|over| over.kind == OverrideKind::Disabled)
}

fn entry_of(ended: Ended, now: Timestamp) -> Entry {
    let mut tally = Tally::default();
    tally.add(ended, now);
    tally.take().unwrap_or_default()
}

#[cfg(test)]
mod tests;
