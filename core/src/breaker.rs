//! One breaker: the state machine that every other file of this crate serves.

mod operator;
mod quarantine;
mod restore;
mod status;

use std::{sync::Arc, time::Duration};

use crate::{
    decision::{Decision, Grant, Rejection, RejectionReason},
    half_open::{HalfOpen, Lease, Shown, Verdict},
    ids::{Caller, Generation, Moment, Version},
    members::{Members, Slot},
    outcome::{Entry, Reported},
    policy::{Policy, RetryAfterScope},
    seed,
    state::{Closed, MetricsOnly, Open, State},
    tally::{FORGET_AFTER, Quorum, Reached, Reading, Tallies, Trip},
    time::Timestamp,
    transition::{Change, Crossing, OpenWait, Reason, Transition, WouldOpen},
};

pub use operator::{OverrideEnd, Refusal, Target};
pub use restore::{Stored, StoredState};
pub use status::{Admission, OverrideStatus, Recovery, Status};

/// How long a grant of CLOSED may be used by a client that does not watch the breaker.
pub const GRANT_TTL: Duration = Duration::from_secs(1);
/// How long by a client that watches it: what it hears on its stream is newer.
pub const WATCHED_GRANT_TTL: Duration = Duration::from_secs(10);
/// The availability of probes is published at most this often.
pub const AVAILABILITY_INTERVAL: Duration = Duration::from_millis(100);
/// How often idle instances are looked for, and, under METRICS_ONLY, whether a rule is still crossed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Causes that a transition names.
const TOP_CAUSES: usize = 5;
/// Instances that a transition names.
const WORST_INSTANCES: usize = 5;

/// What a breaker is made with besides its policy.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The source of all randomness. Give each breaker another one, and keep it secret: probe ids come from it.
    pub seed: u64,
    /// Instances that are counted apart; those past it share one tally.
    pub instances_max: usize,
}

/// One circuit breaker.
///
/// Calls come in any order, each with the [`Moment`] it happens at. Every call first does what time has made due,
/// so a late [`tick`](Self::tick) never matters; it makes at most one transition, and returns it. The caller
/// publishes and persists what is returned, in order. [`deadline`](Self::deadline) says when to call `tick` at the
/// latest; calling it early or twice does nothing.
#[derive(Clone, Debug)]
pub struct Breaker {
    policy: Arc<Policy>,
    settings: Settings,
    members: Members,
    state: State,
    generation: Generation,
    version: Version,
    /// When the stretch began.
    entered: Timestamp,
    /// The latest time seen: an earlier one counts as this.
    seen: Timestamp,
    last: Option<Arc<Transition>>,
    /// Probes made in this generation; part of their ids.
    probes: u64,
    sweep_at: Timestamp,
}

impl Breaker {
    /// A new breaker, CLOSED. Its first generation is `at.next`.
    pub fn new(policy: Arc<Policy>, settings: Settings, at: Moment) -> Self {
        let tallies = Tallies::new(&policy, true, at.now);
        let closed = Closed { tallies, recovering: false, unjudged: None, retry_at: None };
        Self {
            members: Members::new(settings.instances_max, at.now),
            settings,
            policy,
            state: State::Closed(closed),
            generation: Generation { epoch: at.next.epoch, revision: at.next.revision },
            version: at.next,
            entered: at.now,
            seen: at.now,
            last: None,
            probes: 0,
            sweep_at: at.now.plus(SWEEP_INTERVAL),
        }
    }

    /// Asks for leave to make one call.
    pub fn acquire(&mut self, caller: Caller<'_>, at: Moment) -> (Decision, Option<Change>) {
        let (slot, at, change) = self.hear(caller, at);
        let decision = self.decide(caller, slot, at.now);
        (decision, self.finish(change, at))
    }

    /// Takes in what became of calls.
    pub fn report(&mut self, caller: Caller<'_>, entry: &Entry, at: Moment) -> (Reported, Option<Change>) {
        let (slot, at, change) = self.hear(caller, at);
        let reported = self.admit_entry(caller, slot, entry, at.now);
        if reported != Reported::Counted {
            return (reported, self.finish(change, at));
        }
        let (reported, change) = self.record(slot, entry, change, at);
        (reported, self.finish(change, at))
    }

    /// Does what time has made due. Idempotent; may be called at any time.
    pub fn tick(&mut self, at: Moment) -> Option<Change> {
        let at = self.arrive(at);
        let change = self.settle(None, at);
        self.finish(change, at)
    }

    /// When [`tick`](Self::tick) is due at the latest; none: only calls change this breaker.
    pub fn deadline(&self) -> Option<Timestamp> {
        let own = match &self.state {
            State::Closed(closed) => {
                let unjudged = closed.unjudged.map(|_| self.seen);
                let due = [unjudged, closed.tallies.judge_at(), closed.tallies.next_look()];
                due.into_iter().flatten().min()
            }
            State::MetricsOnly(MetricsOnly { unjudged: Some(_), .. }) => Some(self.seen),
            State::MetricsOnly(only) => {
                let review = only.would_open.as_ref().map(|_| self.sweep_at);
                [review, only.tallies.judge_at()].into_iter().flatten().min()
            }
            State::HalfOpen(half_open) => {
                let (members, known) = (&self.members, self.members.known());
                let verdict = half_open.verdict(known).map(|_| self.seen);
                let lapse = half_open.heeds_known().then(|| members.next_lapse()).flatten();
                let given_up = half_open.leases.iter().filter_map(|lease| given_up_at(members, lease)).min();
                let flip = (half_open.shown.available != (half_open.places() > 0))
                    .then(|| half_open.shown.at.plus(AVAILABILITY_INTERVAL));
                let ends =
                    [half_open.first_lease_end(), half_open.limit_at(), flip, verdict, lapse, given_up];
                ends.into_iter().flatten().min()
            }
            State::Open(_) | State::ForcedOpen(_) | State::Disabled(_) => None,
        };
        [own, self.state.ends_at()].into_iter().flatten().min()
    }

    /// A session of this caller began to watch the breaker.
    pub fn watch_started(&mut self, caller: Caller<'_>, now: Timestamp) {
        let now = self.see(now);
        self.members.watch_started(caller, now);
    }

    /// A session of this caller stopped watching.
    pub fn watch_ended(&mut self, caller: Caller<'_>, now: Timestamp) {
        let now = self.see(now);
        self.members.watch_ended(caller, now);
    }

    /// Puts another policy in force. It never moves the state; an equal one is left where it is, whatever its revision.
    pub fn set_policy(&mut self, policy: Arc<Policy>, at: Moment) -> Option<Change> {
        if policy.spec() == self.policy.spec() {
            return None;
        }
        let now = self.see(at.now);
        if let Some(tallies) = self.state.tallies_mut() {
            tallies.fit(&policy, now);
        }
        self.policy = policy;
        self.version = at.next;
        Some(Change::Policy)
    }

    // What time has made due.

    fn see(&mut self, now: Timestamp) -> Timestamp {
        self.seen = self.seen.max(now);
        self.seen
    }

    fn arrive(&mut self, at: Moment) -> Moment {
        let at = Moment { now: self.see(at.now), ..at };
        self.members.count_known(at.now);
        at
    }

    /// Who calls is known before anything is decided: a verdict may depend on how many are.
    fn hear(&mut self, caller: Caller<'_>, at: Moment) -> (Slot, Moment, Option<Change>) {
        let at = self.arrive(at);
        let slot = self.members.touch(caller, at.now);
        let change = self.settle(Some(slot), at);
        (slot, at, change)
    }

    fn settle(&mut self, caller: Option<Slot>, at: Moment) -> Option<Change> {
        let change = self.due(caller, at);
        if at.now >= self.sweep_at {
            self.sweep(at.now);
        }
        change
    }

    fn due(&mut self, caller: Option<Slot>, at: Moment) -> Option<Change> {
        let ended = self.state.ends_at().is_some_and(|end| at.now >= end);
        match &mut self.state {
            State::Open(open) if ended => {
                let (waited, reopenings) = (open.wait.total, open.wait.reopenings);
                Some(self.half_open(reopenings, Reason::WaitOver { waited }, at))
            }
            State::ForcedOpen(_) if ended => {
                Some(self.half_open(0, Reason::OverrideEnded { hand: None }, at))
            }
            State::Disabled(_) | State::MetricsOnly(_) if ended => {
                Some(self.close(Reason::OverrideEnded { hand: None }, at))
            }
            State::HalfOpen(half_open) => {
                let members = &self.members;
                half_open
                    .expire(at.now, |lease| given_up_at(members, lease).is_some_and(|end| at.now >= end));
                if half_open.limit_at().is_some_and(|limit| at.now >= limit) {
                    return Some(self.reach_limit(at));
                }
                // Whoever failed may be all that is left.
                self.pass_verdict(at)
            }
            State::Closed(closed) => {
                let reached = closed.unjudged.take();
                let is_due = closed.tallies.judge_at().is_some_and(|due| at.now >= due);
                let judged = reached.is_some() || is_due;
                if judged {
                    closed.tallies.count_active(&self.policy, at.now);
                }
                // Who calls is looked at before all others, so that what it is told is true.
                judged
                    .then(|| self.judge(reached, at))
                    .flatten()
                    .or_else(|| self.look_at_instances(caller, at))
            }
            State::MetricsOnly(only) => {
                let is_due = only.would_open.is_some() && at.now >= self.sweep_at
                    || only.tallies.judge_at().is_some_and(|due| at.now >= due);
                let reached = only.unjudged.take();
                if reached.is_some() || is_due {
                    only.tallies.count_active(&self.policy, at.now);
                }
                (reached.is_some() || is_due).then(|| self.review(reached, at)).flatten()
            }
            State::Open(_) | State::ForcedOpen(_) | State::Disabled(_) => None,
        }
    }

    fn reach_limit(&mut self, at: Moment) -> Change {
        let State::HalfOpen(half_open) = &self.state else { return Change::Availability };
        let reason =
            Reason::HalfOpenLimit { probes: half_open.tally, limit: half_open.policy.half_open_limit() };
        if half_open.limit_closes() {
            return self.close(reason, at);
        }
        let grown = u32::from(half_open.tally.failed > 0);
        let (reopenings, retry_at) = (half_open.reopenings.saturating_add(grown), half_open.retry_at);
        self.open(reopenings, retry_at, Vec::new(), reason, at)
    }

    fn sweep(&mut self, now: Timestamp) {
        self.sweep_at = now.plus(SWEEP_INTERVAL);
        if let Some(tallies) = self.state.tallies_mut() {
            let members = &self.members;
            tallies.sweep(&self.policy, now, |slot| members.is_gone(slot, now));
        }
        let state = &self.state;
        let is_used = |slot| match state {
            State::HalfOpen(half_open) => half_open.uses(slot),
            _ => state.tallies().is_some_and(|tallies| tallies.holds(slot)),
        };
        self.members.sweep(self.policy.window().max(FORGET_AFTER), now, is_used);
    }

    /// The last step of every call: what watchers see of the availability of probes follows what is true.
    fn finish(&mut self, change: Option<Change>, at: Moment) -> Option<Change> {
        let State::HalfOpen(half_open) = &mut self.state else { return change };
        let available = half_open.places() > 0;
        let shown = half_open.shown;
        if change.is_some() {
            half_open.shown = Shown { available, at: at.now };
            return change;
        }
        if available == shown.available || at.now < shown.at.plus(AVAILABILITY_INTERVAL) {
            return None;
        }
        half_open.shown = Shown { available, at: at.now };
        self.version = at.next;
        Some(Change::Availability)
    }

    // Decisions.

    fn decide(&mut self, caller: Caller<'_>, slot: Slot, now: Timestamp) -> Decision {
        let watched = self.members.watches(slot, caller.session);
        let ttl = if watched { WATCHED_GRANT_TTL } else { GRANT_TTL };
        let grant = Grant { generation: self.generation, ttl, probe: None };
        let until = |end: Option<Timestamp>| end.map(|end| end.since(now));
        let rejected = |reason, retry_after| Decision::Rejected(Rejection { reason, retry_after });
        match &mut self.state {
            State::Closed(closed) => {
                if let Some(hold) = closed.tallies.kept_out(slot, now) {
                    return rejected(RejectionReason::Quarantined, Some(hold.until.since(now)));
                }
                let turn = if closed.recovering {
                    self.entered.plus(seed::admitted_after(
                        caller.instance,
                        self.generation,
                        self.policy.spec().spread,
                    ))
                } else {
                    self.entered
                };
                if now < turn {
                    return rejected(RejectionReason::Recovering, Some(turn.since(now)));
                }
                Decision::Granted(grant)
            }
            State::Disabled(_) | State::MetricsOnly(_) => Decision::Granted(grant),
            State::Open(open) => rejected(RejectionReason::Open, until(Some(open.until))),
            State::ForcedOpen(forced) => rejected(RejectionReason::ForcedOpen, until(forced.until)),
            State::HalfOpen(half_open) => {
                if let Some(until) = half_open.asked_until(slot, now) {
                    return rejected(RejectionReason::Quarantined, Some(until.since(now)));
                }
                let known = self.members.known();
                if half_open.places() == 0 || !half_open.may_probe(slot, known) {
                    let next = half_open.first_lease_end().or(half_open.limit_at());
                    return rejected(RejectionReason::ProbesTaken, until(next));
                }
                let id = seed::probe_id(self.settings.seed, self.generation, self.probes, now);
                self.probes += 1;
                half_open.lease(id, slot, caller.session.cloned(), now);
                let timeout = half_open.policy.spec().half_open.probe_timeout;
                Decision::Granted(Grant { ttl: timeout, probe: Some(id), ..grant })
            }
        }
    }

    // Reports.

    /// Whether an entry may be counted: not a duplicate, of this generation, and not too old.
    fn admit_entry(&mut self, caller: Caller<'_>, slot: Slot, entry: &Entry, now: Timestamp) -> Reported {
        if let (Some(session), Some(sequence)) = (caller.session, entry.sequence)
            && !self.members.is_new(slot, session, sequence, now)
        {
            return Reported::Duplicate;
        }
        if entry.generation.is_some_and(|generation| generation != self.generation) {
            return Reported::StaleGeneration;
        }
        let at = entry.at.map_or(now, |at| at.min(now));
        match &self.state {
            State::Closed(Closed { tallies, .. }) | State::MetricsOnly(MetricsOnly { tallies, .. }) => {
                if at < self.entered || tallies.is_past(at, now) {
                    return Reported::TooOld;
                }
                Reported::Counted
            }
            State::Disabled(_) => Reported::NotRecorded,
            State::Open(_) | State::ForcedOpen(_) | State::HalfOpen(_) if entry.generation.is_none() => {
                Reported::StaleGeneration
            }
            // Nothing was admitted under this generation, so nothing but rejections can be reported of it.
            State::Open(_) | State::ForcedOpen(_) if entry.outcomes.counted() > 0 => {
                Reported::StaleGeneration
            }
            State::Open(_) | State::ForcedOpen(_) | State::HalfOpen(_) => Reported::Counted,
        }
    }

    fn record(
        &mut self,
        slot: Slot,
        entry: &Entry,
        change: Option<Change>,
        at: Moment,
    ) -> (Reported, Option<Change>) {
        let sealed = entry.at.map_or(at.now, |sealed| sealed.min(at.now));
        let retry_at = self.policy.heeded(entry.retry_after).map(|span| sealed.plus(span));
        let may_trip = entry.outcomes.counted() > 0;
        match &mut self.state {
            State::Closed(closed) => {
                closed.retry_at = closed.retry_at.max(retry_at);
                let reached = closed.tallies.add(&self.policy, slot, entry, sealed, at.now);
                if let Some(until) = retry_at {
                    closed.tallies.ask(slot, until, at.now);
                    closed.tallies.count_active(&self.policy, at.now);
                }
                // One change per call: a call that made one already leaves the judging to the next.
                closed.unjudged = (may_trip && change.is_some()).then_some(reached);
                let change = change
                    .or_else(|| may_trip.then(|| self.judge(Some(reached), at)).flatten())
                    .or_else(|| retry_at.and_then(|_| self.heed(at)))
                    .or_else(|| self.look_at_instances(Some(slot), at));
                (Reported::Counted, change)
            }
            State::MetricsOnly(only) => {
                let reached = only.tallies.add(&self.policy, slot, entry, sealed, at.now);
                only.unjudged = (may_trip && change.is_some()).then_some(reached);
                let change = change.or_else(|| may_trip.then(|| self.review(Some(reached), at)).flatten());
                (Reported::Counted, change)
            }
            State::HalfOpen(half_open) => {
                let Some(id) = entry.probe else {
                    let known =
                        if entry.outcomes.counted() > 0 { Reported::UnknownProbe } else { Reported::Counted };
                    return (known, change);
                };
                if !half_open.take_back(id, slot, entry.outcomes, self.members.known(), at.now) {
                    return (Reported::UnknownProbe, change);
                }
                half_open.note_causes(&entry.causes);
                half_open.retry_at = half_open.retry_at.max(retry_at);
                if let Some(until) = retry_at {
                    half_open.ask(slot, until);
                }
                let change = change.or_else(|| self.pass_verdict(at));
                (Reported::Counted, change)
            }
            State::Open(_) | State::ForcedOpen(_) | State::Disabled(_) => (Reported::Counted, change),
        }
    }

    /// CLOSED: trips if a rule is crossed by a quorum.
    fn judge(&mut self, reached: Option<Reached>, at: Moment) -> Option<Change> {
        let quorum = self.quorum(at.now);
        let State::Closed(closed) = &mut self.state else { return None };
        let trip = closed.tallies.judge(&self.policy, quorum, reached, at.now)?;
        let (retry_at, readings) = (closed.retry_at, closed.tallies.readings(&self.policy, at.now));
        let crossing = crossing(&closed.tallies, &self.members, trip, quorum, at.now);
        Some(self.open(0, retry_at, readings, Reason::RuleCrossed { crossing }, at))
    }

    /// CLOSED: trips if as many instances are asked to wait as a trip needs.
    fn heed(&mut self, at: Moment) -> Option<Change> {
        if self.policy.spec().retry_after_scope != RetryAfterScope::Fleet {
            return None;
        }
        let Quorum { required, .. } = self.quorum(at.now);
        let State::Closed(closed) = &mut self.state else { return None };
        let asked = closed.tallies.asked(at.now);
        if asked < required {
            return None;
        }
        let (retry_at, readings) = (closed.retry_at, closed.tallies.readings(&self.policy, at.now));
        let longest = retry_at.map(|until| until.since(at.now)).unwrap_or_default();
        Some(self.open(0, retry_at, readings, Reason::RetryAfter { asked, required, longest }, at))
    }

    /// METRICS_ONLY: records when a rule begins to be crossed, and when it ceases to be.
    fn review(&mut self, reached: Option<Reached>, at: Moment) -> Option<Change> {
        let quorum = self.quorum(at.now);
        let State::MetricsOnly(only) = &mut self.state else { return None };
        let lasts = only.would_open.is_some();
        // How long it lasts for many instances is looked at once a second.
        if lasts && only.tallies.are_many() && at.now < self.sweep_at {
            return None;
        }
        let trip = only.tallies.judge(&self.policy, quorum, reached, at.now);
        let is_put_off = trip.is_none() && only.tallies.judge_at().is_some();
        if trip.is_some() == lasts || is_put_off {
            return None;
        }
        let would = trip.map(|trip| {
            Arc::new(WouldOpen {
                at: at.now,
                crossing: crossing(&only.tallies, &self.members, trip, quorum, at.now),
                top_causes: only.tallies.top_causes(&self.policy, TOP_CAUSES, at.now),
                active_instances: quorum.active,
                wait: self.policy.open_wait(0),
                policy_name: self.policy.name().into(),
                policy_revision: self.policy.revision(),
            })
        });
        only.would_open.clone_from(&would);
        self.version = at.next;
        Some(Change::WouldOpen { would })
    }

    /// How many instances a trip needs now.
    fn quorum(&self, now: Timestamp) -> Quorum {
        let (active, known) = (self.active_instances(now), self.members.known());
        Quorum { active, required: self.policy.spec().guard.required(active, known) }
    }

    /// HALF_OPEN: ends the period if it is certain how.
    fn pass_verdict(&mut self, at: Moment) -> Option<Change> {
        let State::HalfOpen(half_open) = &self.state else { return None };
        let (probes, reopenings) = (half_open.tally, half_open.reopenings.saturating_add(1));
        let retry_at = half_open.retry_at;
        Some(match half_open.verdict(self.members.known())? {
            Verdict::Succeeded { needed } => self.close(Reason::ProbesSucceeded { probes, needed }, at),
            Verdict::Failed { needed } => {
                self.open(reopenings, retry_at, Vec::new(), Reason::ProbesFailed { probes, needed }, at)
            }
            Verdict::Slow { needed } => {
                self.open(reopenings, retry_at, Vec::new(), Reason::ProbesSlow { probes, needed }, at)
            }
        })
    }

    // Transitions.

    fn open(
        &mut self,
        reopenings: u32,
        retry_at: Option<Timestamp>,
        readings: Vec<Reading>,
        reason: Reason,
        at: Moment,
    ) -> Change {
        let wait = self.open_wait(reopenings, retry_at, at);
        self.open_for(wait, readings, reason, at)
    }

    /// The wait that the policy gives, lengthened by what the dependency asked for, up to the policy's cap.
    fn open_wait(&self, reopenings: u32, retry_at: Option<Timestamp>, at: Moment) -> OpenWait {
        let base = self.policy.open_wait(reopenings);
        let generation = Generation { epoch: at.next.epoch, revision: at.next.revision };
        let jitter =
            seed::jitter(self.settings.seed, generation, base, self.policy.spec().open.jitter_hundredths);
        let total = base + jitter;
        let asked = retry_at.map(|retry_at| retry_at.since(at.now).min(self.policy.spec().retry_after_max));
        let retry_after = asked.filter(|asked| *asked > total);
        OpenWait { total: retry_after.unwrap_or(total), reopenings, jitter, retry_after }
    }

    fn open_for(&mut self, wait: OpenWait, readings: Vec<Reading>, reason: Reason, at: Moment) -> Change {
        let open = Open { until: at.now.plus(wait.total), wait, readings };
        self.enter(State::Open(open), reason, at)
    }

    fn half_open(&mut self, reopenings: u32, reason: Reason, at: Moment) -> Change {
        // While nobody was admitted nobody had a reason to speak: those that were there then still are.
        if matches!(self.state, State::Open(_) | State::ForcedOpen(_)) {
            self.members.presume_since(self.entered, at.now);
        }
        let half_open = HalfOpen::new(&self.policy, reopenings, at.now);
        self.enter(State::HalfOpen(half_open), reason, at)
    }

    fn close(&mut self, reason: Reason, at: Moment) -> Change {
        let came_back = matches!(self.state, State::Open(_) | State::HalfOpen(_) | State::ForcedOpen(_));
        let recovering = came_back && self.members.known() > 1 && !self.policy.spec().spread.is_zero();
        let tallies = Tallies::new(&self.policy, true, at.now);
        let closed = Closed { tallies, recovering, unjudged: None, retry_at: None };
        self.enter(State::Closed(closed), reason, at)
    }

    /// The one writer of state. Each assignment is a new generation.
    fn enter(&mut self, state: State, reason: Reason, at: Moment) -> Change {
        let (top_causes, active_instances) = (self.top_causes(at.now), self.active_instances(at.now));
        let wait = match &state {
            State::Open(open) => Some(open.wait),
            _ => None,
        };
        let generation = Generation { epoch: at.next.epoch, revision: at.next.revision };
        let transition = Arc::new(Transition {
            from: self.state.condition(),
            to: state.condition(),
            generation,
            at: at.now,
            reason,
            previous_lasted: at.now.since(self.entered),
            wait,
            top_causes,
            active_instances,
            policy_name: self.policy.name().into(),
            policy_revision: self.policy.revision(),
        });
        self.state = state;
        self.generation = generation;
        self.version = at.next;
        self.entered = at.now;
        self.probes = 0;
        self.last = Some(Arc::clone(&transition));
        Change::Transition(transition)
    }

    fn top_causes(&self, now: Timestamp) -> Vec<(crate::Cause, u64)> {
        match &self.state {
            State::HalfOpen(half_open) => half_open.top_causes(TOP_CAUSES),
            state => state.tallies().map_or_else(Vec::new, |t| t.top_causes(&self.policy, TOP_CAUSES, now)),
        }
    }
}

fn crossing(tallies: &Tallies, members: &Members, trip: Trip, quorum: Quorum, now: Timestamp) -> Crossing {
    let Trip { reading, by } = trip;
    let (affected, worst) = tallies.affected(reading.rule, WORST_INSTANCES, now);
    let name = |(slot, n)| Some((members.instance(slot)?.clone(), n));
    let worst = worst.into_iter().filter_map(name).collect();
    Crossing { reading, affected, required: quorum.required, by, worst }
}

/// When a lease is given up before its end: its session is gone and another one of its instance has taken over.
fn given_up_at(members: &Members, lease: &Lease) -> Option<Timestamp> {
    lease.session.as_ref().and_then(|session| members.replaced_at(lease.slot, session))
}
