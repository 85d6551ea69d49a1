//! A fleet and its breaker in virtual time: clients that watch, call, report and probe as ours do, over the real rules.
//! No clock, no thread, no socket: a run is a function of its plan and its seed.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    sync::Arc,
    time::Duration,
};

use panelboard_core::*;

/// The finalizer of SplitMix64 over a counter: all the randomness there is.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    fn is_one_of(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }
}

/// One pod as a plan describes it.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) name: String,
    /// Calls per second.
    pub(crate) rate: f64,
    /// Its own path to the provider is broken from then on, until then.
    pub(crate) sick: Option<(u64, u64)>,
    /// Its calls are slow, too.
    pub(crate) slow: bool,
    /// It takes probes and never gives them back.
    pub(crate) leaks: bool,
    /// It waits so long before it asks for a probe.
    pub(crate) asks_after: u64,
    /// It lives from then on, until then.
    pub(crate) lives: (u64, u64),
}

impl Pod {
    pub(crate) fn new(name: impl Into<String>, rate: f64) -> Self {
        let name = name.into();
        Self { name, rate, sick: None, slow: false, leaks: false, asks_after: 0, lives: (0, u64::MAX) }
    }

    pub(crate) const fn sick_from(mut self, from: u64) -> Self {
        self.sick = Some((from, u64::MAX));
        self
    }
}

/// What happens in a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) pods: Vec<Pod>,
    pub(crate) policy: PolicySpec,
    /// The provider is down from then on, until then.
    pub(crate) outage: Option<(u64, u64)>,
    /// Of a thousand calls that reach the provider, so many fail.
    pub(crate) noise: u64,
    /// The server is killed and comes back at these times.
    pub(crate) restarts: Vec<u64>,
    /// An operator closes the breaker at these times.
    pub(crate) closes: Vec<u64>,
    /// After a close or a restart only the first pod speaks for so long.
    pub(crate) first_alone: u64,
    pub(crate) lasts: u64,
}

impl Plan {
    pub(crate) fn of(pods: Vec<Pod>, lasts: u64) -> Self {
        Self {
            pods,
            policy: PolicySpec::default(),
            outage: None,
            noise: 0,
            restarts: Vec::new(),
            closes: Vec::new(),
            first_alone: 0,
            lasts,
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// When, from what to what, and in words.
    pub(crate) transitions: Vec<(u64, StateKind, StateKind, String)>,
    /// When who was quarantined.
    pub(crate) quarantined: Vec<(u64, String)>,
    /// Failed calls since the first fault until the fleet had stopped, or until the end if it did not.
    pub(crate) failed: u64,
    /// Those of them that other pods than the sick ones made.
    pub(crate) failed_of_others: u64,
    /// Calls of pods that were never sick, refused.
    pub(crate) refused_to_others: u64,
    /// The same, of each pod in the last five seconds: calls made and refused.
    pub(crate) at_the_end: Vec<(String, u64, u64)>,
    pub(crate) last_state: Option<StateKind>,
    pub(crate) quarantined_at_the_end: u32,
    pub(crate) known_at_the_end: u32,
}

impl Report {
    /// When it first opened because a rule was crossed or probes failed.
    pub(crate) fn tripped(&self) -> Option<u64> {
        self.transitions.iter().find(|t| t.1 == StateKind::Closed && t.2 == StateKind::Open).map(|t| t.0)
    }

    pub(crate) fn opened(&self) -> usize {
        self.transitions.iter().filter(|t| t.2 == StateKind::Open).count()
    }

    pub(crate) fn closed_after(&self, from: u64) -> Option<u64> {
        self.transitions.iter().find(|t| t.0 >= from && t.2 == StateKind::Closed).map(|t| t.0)
    }
}

/// What a pod knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct View {
    admission: Admission,
    generation: Generation,
    /// Kept out, alone, until then.
    held: u64,
    /// Not before then: the spread after closing.
    from: u64,
}

#[derive(Clone, Debug)]
struct Client {
    plan: Pod,
    instance: Instance,
    session: Session,
    view: View,
    outcomes: Outcomes,
    sealed_at: Option<u64>,
    sequence: u64,
    asks_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begin(usize),
    End(usize),
    Call(usize),
    Send(usize),
    /// A status arrives.
    Hear(usize, usize),
    /// A probe's call is over.
    Probed(usize, u64, bool),
    Restart,
    Close,
}

/// A run under way.
struct Run {
    plan: Plan,
    rng: Rng,
    breaker: Breaker,
    clients: Vec<Client>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    revision: u64,
    epoch: u64,
    now: u64,
    /// Statuses on their way, by number.
    sent: VecDeque<(usize, View)>,
    sent_before: usize,
    alone_until: u64,
    first_fault: u64,
    stopped: bool,
    report: Report,
    made: Vec<(u64, u64)>,
}

const SEED: u64 = 7;
const INSTANCES_MAX: usize = 10_000;
/// A failure is reported within 20 ms, successes within 200 ms.
const SOON: u64 = 20;
const LATER: u64 = 200;
/// A message takes 2 to 12 ms.
const WAY: (u64, u64) = (2, 10);
/// A call that succeeds takes 20 ms, one that fails 100 ms.
const TOOK: (u64, u64) = (20, 100);
const END: u64 = 5_000;

/// Plays a plan.
pub(crate) fn run(plan: &Plan, guard: GuardSpec, seed: u64) -> Report {
    let mut plan = plan.clone();
    plan.policy.guard = guard;
    let policy = Arc::new(Policy::try_new(plan.policy.clone(), 1).expect("a valid policy"));
    let at = Moment { now: Timestamp::ZERO, next: Version { epoch: 1, revision: 1 } };
    let settings = Settings { seed: SEED, instances_max: INSTANCES_MAX };
    let breaker = Breaker::new(policy, settings, at);
    let sick = plan.pods.iter().filter_map(|pod| pod.sick.map(|sick| sick.0.max(pod.lives.0)));
    let first_fault = sick.chain(plan.outage.map(|outage| outage.0)).min().unwrap_or(u64::MAX);
    let mut run = Run {
        rng: Rng::new(seed),
        breaker,
        clients: Vec::new(),
        events: BinaryHeap::new(),
        order: 0,
        revision: 1,
        epoch: 1,
        now: 0,
        sent: VecDeque::new(),
        sent_before: 0,
        alone_until: 0,
        first_fault,
        stopped: false,
        report: Report::default(),
        made: vec![(0, 0); plan.pods.len()],
        plan,
    };
    run.play();
    run.report
}

impl Run {
    fn play(&mut self) {
        for index in 0..self.plan.pods.len() {
            let plan = self.plan.pods[index].clone();
            let view =
                View { admission: Admission::Allow, generation: self.breaker.generation(), held: 0, from: 0 };
            let (begins, ends) = plan.lives;
            self.clients.push(Client {
                instance: Instance::new("checkout", &plan.name),
                session: Session(format!("session-{index}").into()),
                plan,
                view,
                outcomes: Outcomes::default(),
                sealed_at: None,
                sequence: 0,
                asks_at: None,
            });
            self.push(begins, Event::Begin(index));
            if ends != u64::MAX {
                self.push(ends, Event::End(index));
            }
        }
        for at in self.plan.restarts.clone() {
            self.push(at, Event::Restart);
        }
        for at in self.plan.closes.clone() {
            self.push(at, Event::Close);
        }
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > self.plan.lasts {
                break;
            }
            self.tick_until(at);
            self.now = at;
            self.step(event);
        }
        self.tick_until(self.plan.lasts);
        let status = self.breaker.status(self.time());
        self.report.last_state = Some(status.state);
        self.report.quarantined_at_the_end = status.quarantined_instances;
        self.report.known_at_the_end = self.breaker.known_instances();
        let names = self.clients.iter().map(|client| client.plan.name.clone());
        self.report.at_the_end = names.zip(&self.made).map(|(name, made)| (name, made.0, made.1)).collect();
    }

    fn push(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    const fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    const fn moment(&self) -> Moment {
        Moment { now: self.time(), next: Version { epoch: self.epoch, revision: self.revision + 1 } }
    }

    /// The server's timer.
    fn tick_until(&mut self, until: u64) {
        while let Some(deadline) = self.breaker.deadline().filter(|deadline| deadline.as_millis() <= until) {
            self.now = self.now.max(deadline.as_millis());
            let change = self.breaker.tick(self.moment());
            self.note(change);
        }
    }

    fn note(&mut self, change: Option<Change>) {
        let Some(change) = change else { return };
        self.revision += 1;
        match change {
            Change::Transition(transition) => {
                let words = transition.to_string();
                self.report.transitions.push((self.now, transition.from.state, transition.to.state, words));
                if transition.to.state == StateKind::Open && transition.from.state == StateKind::Closed {
                    self.stopped = true;
                }
                self.tell_all();
            }
            Change::Quarantine(quarantine) => {
                if quarantine.event == QuarantineEvent::Began {
                    self.report.quarantined.push((self.now, quarantine.instance.id.to_string()));
                }
                let who = self.clients.iter().position(|client| client.instance == quarantine.instance);
                who.into_iter().for_each(|who| self.tell(who));
            }
            Change::Availability | Change::Extended { .. } | Change::Policy => self.tell_all(),
            Change::WouldOpen { .. } => {}
        }
    }

    fn tell_all(&mut self) {
        (0..self.clients.len()).for_each(|who| self.tell(who));
    }

    /// Sends a pod what it may do.
    fn tell(&mut self, who: usize) {
        let (status, instance) = (self.breaker.status(self.time()), &self.clients[who].instance);
        let held = self.breaker.quarantine_of(instance, self.time()).map_or(0, |held| held.until.as_millis());
        let from = status.recovery.map_or(0, |recovery| {
            let after = admitted_after(instance, status.generation, recovery.spread);
            recovery.since.plus(after).as_millis()
        });
        let view = View { admission: status.admission, generation: status.generation, held, from };
        self.sent.push_back((who, view));
        let number = self.sent_before + self.sent.len() - 1;
        let way = WAY.0 + self.rng.below(WAY.1);
        self.push(self.now + way, Event::Hear(who, number));
        while self.sent.len() > 200_000 {
            self.sent.pop_front();
            self.sent_before += 1;
        }
    }

    fn lives(&self, who: usize) -> bool {
        let (begins, ends) = self.clients[who].plan.lives;
        begins <= self.now && self.now < ends
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Begin(who) => {
                self.watch(who, true);
                self.tell(who);
                let wait = self.rng.below(self.interval(who).max(1));
                self.push(self.now + wait, Event::Call(who));
            }
            Event::End(who) => self.watch(who, false),
            Event::Call(who) if self.lives(who) => self.call(who),
            Event::Send(who) if self.lives(who) => self.send(who),
            Event::Hear(who, number) => {
                let Some(&(_, view)) = number.checked_sub(self.sent_before).and_then(|n| self.sent.get(n))
                else {
                    return;
                };
                let client = &mut self.clients[who];
                if view.generation < client.view.generation {
                    return;
                }
                if view.generation > client.view.generation {
                    // What was recorded under another generation is not reported.
                    (client.outcomes, client.sealed_at) = (Outcomes::default(), None);
                }
                let begins = view.admission == Admission::Probe && client.view.admission != Admission::Probe;
                if begins {
                    client.asks_at = Some(self.now + client.plan.asks_after);
                }
                client.view = view;
            }
            Event::Probed(who, id, failed) => self.probed(who, ProbeId(id), failed),
            Event::Restart => self.restart(),
            Event::Close => {
                let hand = Hand { who: "simulation".into(), why: "as planned".into() };
                let change = self.breaker.reset(hand, self.moment());
                self.note(Some(change));
                self.alone_until = self.now + self.plan.first_alone;
            }
            Event::Call(_) | Event::Send(_) => {}
        }
    }

    fn watch(&mut self, who: usize, starts: bool) {
        let (now, client) = (self.time(), &self.clients[who]);
        let caller = Caller { instance: &client.instance, session: Some(&client.session) };
        if starts {
            self.breaker.watch_started(caller, now);
        } else {
            self.breaker.watch_ended(caller, now);
        }
    }

    /// The server is killed and starts again from what it stored; the first pod is back first.
    fn restart(&mut self) {
        let (stored, policy) = (self.breaker.stored(self.time()), Arc::clone(self.breaker.policy()));
        (self.epoch, self.revision) = (self.epoch + 1, 1);
        let settings = Settings { seed: SEED, instances_max: INSTANCES_MAX };
        let at = Moment { now: self.time(), next: Version { epoch: self.epoch, revision: 1 } };
        self.breaker = Breaker::restore(policy, settings, &stored, at);
        self.alone_until = self.now + self.plan.first_alone;
        for who in 0..self.clients.len() {
            let back = if who == 0 { 0 } else { self.plan.first_alone };
            if self.lives(who) {
                self.push(self.now + back, Event::Begin(who));
            }
        }
        // Their old calls go on in new loops.
        let (lasts, mut kept) = (self.plan.lasts, BinaryHeap::new());
        for Reverse((at, order, event)) in self.events.drain() {
            if !matches!(event, Event::Call(_) | Event::Hear(..)) && at <= lasts {
                kept.push(Reverse((at, order, event)));
            }
        }
        self.events = kept;
        for client in &mut self.clients {
            (client.outcomes, client.sealed_at) = (Outcomes::default(), None);
            client.view.generation = self.breaker.generation();
        }
    }

    /// Milliseconds between two rounds of calls.
    fn interval(&self, who: usize) -> u64 {
        let rate = self.clients[who].plan.rate;
        if rate >= 100.0 { 10 } else { (1_000.0 / rate) as u64 }
    }

    fn fails(&mut self, who: usize) -> bool {
        let is_in = |span: Option<(u64, u64)>| span.is_some_and(|(from, to)| (from..to).contains(&self.now));
        is_in(self.plan.outage)
            || is_in(self.clients[who].plan.sick)
            || self.plan.noise > 0 && self.rng.is_one_of(self.plan.noise)
    }

    fn call(&mut self, who: usize) {
        let interval = self.interval(who);
        let next = interval * 3 / 4 + self.rng.below(interval / 2 + 1);
        self.push(self.now + next, Event::Call(who));
        if who > 0 && self.now < self.alone_until {
            return;
        }
        // Of one that makes hundreds of calls a second, several are made at once.
        let rate = self.clients[who].plan.rate;
        let calls = if rate >= 100.0 { (rate / 100.0) as u64 } else { 1 };
        let view = self.clients[who].view;
        if self.now < view.held || self.now < view.from || view.admission == Admission::Reject {
            return self.refused(who, calls);
        }
        if view.admission == Admission::Probe {
            return self.probe(who, calls);
        }
        for _ in 0..calls {
            let failed = self.fails(who);
            self.made(who, failed);
            let client = &mut self.clients[who];
            let slow = client.plan.slow && client.plan.sick.is_some_and(|sick| self.now >= sick.0);
            if failed && !slow {
                client.outcomes.failures += 1;
            } else {
                client.outcomes.successes += 1;
                client.outcomes.slow_successes += u64::from(slow);
            }
        }
        let has_failures = self.clients[who].outcomes.failures > 0;
        let within = if has_failures { SOON } else { LATER };
        let at = self.now + within;
        if self.clients[who].sealed_at.is_none_or(|sealed_at| at < sealed_at) {
            self.clients[who].sealed_at = Some(at);
            self.push(at, Event::Send(who));
        }
    }

    fn made(&mut self, who: usize, failed: bool) {
        if self.now + END >= self.plan.lasts {
            self.made[who].0 += 1;
        }
        let is_slow = self.clients[who].plan.slow;
        if failed && !self.stopped && self.now >= self.first_fault && !is_slow {
            self.report.failed += 1;
            self.report.failed_of_others += u64::from(self.clients[who].plan.sick.is_none());
        }
    }

    fn refused(&mut self, who: usize, calls: u64) {
        if self.now + END >= self.plan.lasts {
            self.made[who].1 += calls;
        }
        if self.clients[who].plan.sick.is_none() {
            self.report.refused_to_others += calls;
        }
    }

    fn send(&mut self, who: usize) {
        let client = &mut self.clients[who];
        if client.sealed_at != Some(self.now) {
            return;
        }
        client.sealed_at = None;
        client.sequence += 1;
        let entry = Entry {
            generation: Some(client.view.generation),
            sequence: Some(client.sequence),
            outcomes: std::mem::take(&mut client.outcomes),
            ..Entry::default()
        };
        self.deliver(who, &entry);
    }

    fn deliver(&mut self, who: usize, entry: &Entry) {
        let client = &self.clients[who];
        let caller = Caller { instance: &client.instance, session: Some(&client.session) };
        let at = Moment {
            now: Timestamp::from_millis(self.now),
            next: Version { epoch: self.epoch, revision: self.revision + 1 },
        };
        let (_, change) = self.breaker.report(caller, entry, at);
        self.note(change);
    }

    fn probe(&mut self, who: usize, calls: u64) {
        if self.clients[who].asks_at.is_some_and(|asks_at| self.now < asks_at) {
            return self.refused(who, calls);
        }
        let client = &self.clients[who];
        let caller = Caller { instance: &client.instance, session: Some(&client.session) };
        let at = Moment {
            now: Timestamp::from_millis(self.now),
            next: Version { epoch: self.epoch, revision: self.revision + 1 },
        };
        let (decision, change) = self.breaker.acquire(caller, at);
        self.note(change);
        match decision {
            Decision::Granted(Grant { probe: Some(id), .. }) => {
                self.refused(who, calls - 1);
                if self.clients[who].plan.leaks {
                    return;
                }
                let failed = self.fails(who);
                self.made(who, failed);
                let took = if failed { TOOK.1 } else { TOOK.0 };
                self.push(self.now + took, Event::Probed(who, id.0, failed));
            }
            Decision::Granted(_) => {}
            Decision::Rejected(_) => self.refused(who, calls),
        }
    }

    fn probed(&mut self, who: usize, id: ProbeId, failed: bool) {
        let slow = self.clients[who].plan.slow && self.clients[who].plan.sick.is_some();
        let outcomes = if failed && !slow {
            Outcomes { failures: 1, ..Outcomes::default() }
        } else {
            Outcomes { successes: 1, slow_successes: u64::from(slow), ..Outcomes::default() }
        };
        let generation = Some(self.breaker.generation());
        self.deliver(who, &Entry { generation, probe: Some(id), outcomes, ..Entry::default() });
    }
}

/// So many pods that make so many calls a second each.
pub(crate) fn pods(n: usize, rate: f64) -> Vec<Pod> {
    (0..n).map(|n| Pod::new(format!("pod-{n}"), rate)).collect()
}

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
