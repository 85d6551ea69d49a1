//! One breaker as its client knows it: a pure state machine.
//!
//! It holds no clock, socket or task. Time is an argument; what the server said comes in as values, what is to be
//! sent goes out as values. Everything that decides about a call is here, so that all of it can be tested without
//! a network and without waiting.

mod decide;
mod door;
mod entries;
mod freshness;
mod known;
mod outbox;
mod probes;

use std::{sync::Arc, time::Duration};

use panelboard_core::{
    Admission, Entry, Generation, Instance, OnDisconnect, OverrideKind, Policy, ProbeId, Timestamp, Version,
};

use crate::{
    dice::Dice,
    fact::{Ended, Said},
    limits::{DEFAULT_TTL, HEARD_WITHIN, TTL_MAX},
    local::{Local, Role},
    rejected::{NoProbe, Reason},
    state::{Freshness, State},
    tally::Tally,
};

pub(crate) use door::Door;
pub(crate) use known::{Known, Over, Quarantine};
use outbox::Outbox;
pub(crate) use probes::Ask;
use probes::Probes;

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

/// Why a call may not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) freshness: Freshness,
    pub(crate) explanation: Arc<str>,
    /// What `ProbesTaken` means this time.
    pub(crate) no_probe: NoProbe,
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

    /// Takes in what calls came to that were admitted in this stretch.
    pub(crate) fn collect(&mut self, tally: Tally, now: Timestamp) {
        let stretch = self.stretch;
        self.turn(now);
        if stretch != self.stretch {
            // It ended before this was seen: it says nothing about the one that began.
            return;
        }
        self.tally.append(tally);
        if self.freshness != Freshness::Fresh {
            self.drain_into_local(now);
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

    /// The dependency asked a caller to leave it alone.
    pub(crate) fn hinted(&mut self, stretch: u32, probe: u64, span: Duration, now: Timestamp) {
        self.turn(now);
        if probe != 0 {
            self.probes.hinted(probe, span);
        } else if stretch == self.stretch {
            self.tally.since(now);
            self.tally.retry_after(Some(span));
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
        match status.admission {
            Admission::Probe if news => self.probes.available(now),
            // Whoever was about to ask hears that there is nothing to be had.
            Admission::Reject => self.probes.gone(),
            Admission::Probe | Admission::Allow => {}
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

    /// The client has ended: nothing will be heard any more, and the local breaker goes on alone.
    pub(crate) fn ended(&mut self, now: Timestamp) {
        self.online = false;
        self.vouch = Vouch::Never;
        self.turn(now);
    }

    /// The server cannot vouch for this breaker.
    pub(crate) fn unavailable(&mut self, now: Timestamp) {
        if let Vouch::Held { cut, .. } = &mut self.vouch {
            *cut = true;
        }
        self.turn(now);
    }

    /// A stream begins that tells everything, by a server of this epoch. Epochs of one store grow: what is known of a
    /// later one is of another store.
    pub(crate) fn began(&mut self, epoch: u64, now: Timestamp) {
        if self.known.as_ref().is_some_and(|known| known.version.epoch > epoch) {
            self.reset(now);
        }
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

    /// The stretch: what a permit of another one says does not count.
    pub(crate) const fn stretch(&self) -> u32 {
        self.stretch
    }

    pub(crate) const fn freshness(&self) -> Freshness {
        self.freshness
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.vouch == Vouch::Unknown
    }

    /// When the oldest probe that is out with a caller began.
    pub(crate) fn oldest_probe(&self) -> Option<Timestamp> {
        self.probes.oldest()
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
        let state = State::from(self.condition());
        let turn = self.recovering_until().filter(|turn| state.is_closed() && now < *turn);
        crate::state::Status {
            state,
            freshness: self.freshness,
            explanation: self.explanation(now),
            ends_in: ends.map(|end| end.since(now)),
            admitted_in: turn.map(|turn| turn.since(now)),
            generation: self.known.as_ref().map(|known| known.generation),
            policy: self.policy.name().into(),
            policy_revision: self.policy.revision(),
            active_instances: self.active_instances,
        }
    }
}

fn is_disabled(known: &Known) -> bool {
    known.over.as_ref().is_some_and(|over| over.kind == OverrideKind::Disabled)
}

#[cfg(test)]
mod tests;
