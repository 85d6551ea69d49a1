//! The rules against a deliberately naive model: it keeps every call as a record and works everything out anew at
//! each step. No ring, no sum, no run, no cache. Time jumps, also backwards; reports come late, twice, with
//! generations and probes that are old or made up.
//!
//! Proved by breaking the rules on purpose, one at a time, each found: `>=` to `>` in a rate, in a count and in the open
//! deadline; no deduplication; entries from before the stretch let in; one call too many kept of the last N; a streak
//! that survives a success, or its forgotten instance; half-open without the quorum, with one place too few given
//! back, with probes for those that failed, with leases that end at their deadline, with a limit that closes after a
//! failure; and the rules not looking at what came with the end of a period.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::world::*;
use panelboard_core::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const FORGET_MS: u64 = 60_000;
const KNOWN_MS: u64 = 10_000;

/// One counted call.
#[derive(Clone, Copy, Debug)]
struct Call {
    who: usize,
    at: u64,
    failed: bool,
    slow: bool,
}

#[derive(Clone, Debug)]
enum State {
    Closed { calls: Vec<Call>, streaks: BTreeMap<usize, u64>, unjudged: Option<u64> },
    Open { until: u64, reopenings: u32 },
    HalfOpen { reopenings: u32, leases: Vec<Lease>, probes: Vec<Probed>, asked: Option<u64> },
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    who: usize,
    id: ProbeId,
    ends: u64,
}

/// A probe that came back with an outcome.
#[derive(Clone, Copy, Debug)]
struct Probed {
    who: usize,
    failed: bool,
    slow: bool,
    /// Whether its place came back.
    back: bool,
}

#[derive(Clone, Debug)]
struct Model {
    spec: PolicySpec,
    state: State,
    entered: u64,
    seen: u64,
    heard: BTreeMap<usize, u64>,
    sequences: BTreeMap<usize, u64>,
    sweep_at: u64,
    moves: Vec<&'static str>,
}

impl Model {
    fn new(spec: PolicySpec) -> Self {
        let state = State::Closed { calls: Vec::new(), streaks: BTreeMap::new(), unjudged: None };
        let (heard, sequences) = (BTreeMap::new(), BTreeMap::new());
        Self { spec, state, entered: 0, seen: 0, heard, sequences, sweep_at: 1_000, moves: Vec::new() }
    }

    fn name(&self) -> &'static str {
        match self.state {
            State::Closed { .. } => "CLOSED",
            State::Open { .. } => "OPEN",
            State::HalfOpen { .. } => "HALF_OPEN",
        }
    }

    fn enter(&mut self, state: State) {
        (self.state, self.entered) = (state, self.seen);
        self.moves.push(self.name());
    }

    fn known(&self) -> u32 {
        u32::try_from(self.heard.values().filter(|heard| self.seen < **heard + KNOWN_MS).count()).unwrap()
    }

    // Windows.

    fn withins(&self) -> Vec<u64> {
        let window = |rule: &Rule| match rule.window() {
            Some(Window::Within(span)) => Some(u64::try_from(span.as_millis()).unwrap()),
            _ => None,
        };
        self.spec.trip.iter().filter_map(window).collect()
    }

    fn longest(&self) -> u64 {
        self.withins().into_iter().max().unwrap_or(60_000)
    }

    /// The one thing that is shared with the rules: how fine time is cut.
    fn width(&self) -> u64 {
        let shortest = self.withins().into_iter().min().unwrap_or(self.longest());
        (shortest / 10).min(self.longest() / 100).max(1).max(self.longest() / 600)
    }

    fn is_within(&self, at: u64, span: u64) -> bool {
        at / self.width() + span / self.width() > self.seen / self.width()
    }

    fn in_window(&self, window: Window) -> Vec<Call> {
        let State::Closed { calls, .. } = &self.state else { return Vec::new() };
        match window {
            Window::Within(span) => {
                let span = u64::try_from(span.as_millis()).unwrap();
                calls.iter().filter(|call| self.is_within(call.at, span)).copied().collect()
            }
            Window::Last(size) => (0..NAMES.len())
                .flat_map(|who| calls.iter().rev().filter(move |call| call.who == who).take(size as usize))
                .copied()
                .collect(),
        }
    }

    /// (calls, matched, crossed) of each rule.
    fn readings(&self, reached: u64) -> Vec<(u64, u64, bool)> {
        let State::Closed { streaks, .. } = &self.state else { return Vec::new() };
        let count =
            |calls: &[Call], is: fn(&Call) -> bool| calls.iter().filter(|call| is(call)).count() as u64;
        let longest = streaks.values().copied().max().unwrap_or(0).max(reached);
        let read = |rule: &Rule| {
            let calls = rule.window().map(|window| self.in_window(window)).unwrap_or_default();
            let (all, failed) = (calls.len() as u64, count(&calls, |call| call.failed));
            let slow = count(&calls, |call| call.slow);
            let is_reached = |matched: u64, threshold: Rate, minimum: u32| {
                all >= u64::from(minimum) && matched * 10_000 >= all * u64::from(threshold.hundredths())
            };
            match *rule {
                Rule::FailureRate { threshold, minimum_calls, .. } => {
                    (all, failed, is_reached(failed, threshold, minimum_calls))
                }
                Rule::SlowRate { threshold, minimum_calls, .. } => {
                    (all, slow, is_reached(slow, threshold, minimum_calls))
                }
                Rule::Failures { threshold, .. } => (all, failed, failed >= u64::from(threshold)),
                Rule::ConsecutiveFailures { threshold } => {
                    (longest, longest, longest >= u64::from(threshold))
                }
            }
        };
        self.spec.trip.iter().map(read).collect()
    }

    fn judge(&mut self, reached: u64) {
        if self.readings(reached).iter().any(|reading| reading.2) {
            self.open(0);
        }
    }

    fn open(&mut self, reopenings: u32) {
        let until = self.seen + self.wait(reopenings);
        self.enter(State::Open { until, reopenings });
    }

    fn wait(&self, reopenings: u32) -> u64 {
        let (first, most) =
            (self.spec.open.wait.as_millis() as u64, self.spec.open.max_wait.as_millis() as u64);
        (first * 2u64.pow(reopenings.min(20))).min(most)
    }

    fn close(&mut self) {
        self.enter(State::Closed { calls: Vec::new(), streaks: BTreeMap::new(), unjudged: None });
    }

    fn half_open(&mut self, reopenings: u32) {
        self.enter(State::HalfOpen { reopenings, leases: Vec::new(), probes: Vec::new(), asked: None });
    }

    // Time.

    fn arrive(&mut self, now: u64, who: Option<usize>) {
        self.seen = self.seen.max(now);
        if let Some(who) = who {
            self.heard.insert(who, self.seen);
        }
        self.due();
        if self.seen >= self.sweep_at {
            self.sweep_at = self.seen + 1_000;
            self.forget(None);
        }
    }

    /// Forgets the tallies of instances without calls for long: of one, or of all.
    fn forget(&mut self, only: Option<usize>) {
        let (after, seen) = (self.longest().max(FORGET_MS), self.seen);
        let State::Closed { calls, streaks, .. } = &mut self.state else { return };
        for who in 0..NAMES.len() {
            let newest = calls.iter().filter(|call| call.who == who).map(|call| call.at).max();
            if only.is_none_or(|only| only == who) && newest.is_some_and(|newest| seen >= newest + after) {
                calls.retain(|call| call.who != who);
                streaks.remove(&who);
            }
        }
    }

    fn due(&mut self) {
        let seen = self.seen;
        match &mut self.state {
            State::Closed { unjudged, .. } => {
                if let Some(reached) = unjudged.take() {
                    self.judge(reached);
                }
            }
            State::Open { until, reopenings } => {
                let reopenings = *reopenings;
                if seen >= *until {
                    self.half_open(reopenings);
                }
            }
            State::HalfOpen { leases, probes, asked, .. } => {
                leases.retain(|lease| seen < lease.ends);
                if leases.is_empty() && probes.is_empty() {
                    *asked = None;
                }
                let limit = self.spec.half_open.limit.unwrap().as_millis() as u64;
                if asked.is_some_and(|asked| seen >= asked + limit) {
                    self.reach_limit();
                } else {
                    self.decide();
                }
            }
        }
    }

    fn reach_limit(&mut self) {
        let State::HalfOpen { reopenings, probes, .. } = &self.state else { return };
        let (reopenings, failed) = (*reopenings, probes.iter().any(|probe| probe.failed));
        let slow = self.has_slow_rule() && probes.iter().any(|probe| probe.slow);
        let succeeded = probes.iter().any(|probe| !probe.failed);
        if succeeded && !failed && !slow { self.close() } else { self.open(reopenings + u32::from(failed)) }
    }

    // Half-open.

    fn has_slow_rule(&self) -> bool {
        self.spec.trip.iter().any(|rule| matches!(rule, Rule::SlowRate { .. }))
    }

    fn least(&self, is_slow: bool) -> Option<u32> {
        let permitted = self.spec.half_open.permitted_calls;
        let rates = self.spec.trip.iter().filter_map(|rule| match rule {
            Rule::FailureRate { threshold, .. } if !is_slow => Some(threshold.hundredths()),
            Rule::SlowRate { threshold, .. } if is_slow => Some(threshold.hundredths()),
            _ => None,
        });
        rates.min().map(|lowest| (1..=permitted).find(|n| n * 10_000 >= lowest * permitted).unwrap())
    }

    fn quorum(&self) -> u32 {
        self.spec.guard.min_instances.min(self.known()).max(1)
    }

    fn agree(&self) -> bool {
        let State::HalfOpen { probes, .. } = &self.state else { return false };
        let failed = (0..NAMES.len()).filter(|who| probes.iter().any(|p| p.failed && p.who == *who)).count();
        failed >= self.quorum() as usize
    }

    fn decide(&mut self) {
        let State::HalfOpen { reopenings, probes, .. } = &self.state else { return };
        let count = |is: fn(&Probed) -> bool| u32::try_from(probes.iter().filter(|p| is(p)).count()).unwrap();
        let (failed, slow) = (count(|p| p.failed), count(|p| p.slow));
        let (succeeded, fast) = (count(|p| !p.failed), count(|p| !p.slow));
        let permitted = self.spec.half_open.permitted_calls;
        let to_open = self.least(false).unwrap_or(1);
        let known = self.known();
        let needed = if known <= 1 { to_open } else { to_open.min(known).max(self.quorum()) };
        let reopenings = reopenings + 1;
        if failed >= needed && self.agree() || self.least(true).is_some_and(|least| slow >= least) {
            self.open(reopenings);
        } else if succeeded > permitted - to_open
            && self.least(true).is_none_or(|least| fast > permitted - least)
        {
            self.close();
        }
    }

    fn places(&self) -> u32 {
        let State::HalfOpen { leases, probes, .. } = &self.state else { return 0 };
        let used = leases.len() + probes.iter().filter(|probe| !probe.back).count();
        self.spec.half_open.permitted_calls.saturating_sub(u32::try_from(used).unwrap())
    }

    /// Whether this instance is granted a call.
    fn grants(&self, who: usize) -> bool {
        match &self.state {
            State::Closed { .. } => true,
            State::Open { .. } => false,
            State::HalfOpen { leases, probes, .. } => {
                let its = |is_failed: bool| probes.iter().any(|p| p.who == who && p.failed == is_failed);
                let has_one_out = leases.iter().any(|lease| lease.who == who);
                self.places() > 0 && (self.known() <= 1 || !its(true) && (!has_one_out || its(false)))
            }
        }
    }

    fn lease(&mut self, who: usize, id: ProbeId) {
        let timeout = self.spec.half_open.probe_timeout.as_millis() as u64;
        let (ends, seen) = (self.seen + timeout + 1_000, self.seen);
        let State::HalfOpen { leases, asked, .. } = &mut self.state else { return };
        leases.push(Lease { who, id, ends });
        asked.get_or_insert(seen);
    }

    // Reports.

    fn report(&mut self, who: usize, entry: &Entry, is_current: bool, moved: bool) -> Reported {
        if let Some(sequence) = entry.sequence {
            let last = self.sequences.get(&who).copied();
            if last.is_some_and(|last| sequence <= last) {
                return Reported::Duplicate;
            }
            self.sequences.insert(who, sequence);
        }
        if entry.generation.is_some() && !is_current {
            return Reported::StaleGeneration;
        }
        let at = entry.at.map_or(self.seen, |at| at.as_millis().min(self.seen));
        let (is_counting, counted) =
            (matches!(self.state, State::Closed { .. }), entry.outcomes.counted() > 0);
        if is_counting {
            if at < self.entered || !self.is_within(at, self.longest()) {
                return Reported::TooOld;
            }
            if counted {
                self.count(who, entry, at, moved);
            }
            return Reported::Counted;
        }
        if entry.generation.is_none() {
            return Reported::StaleGeneration;
        }
        match &mut self.state {
            State::HalfOpen { leases, .. } => {
                let Some(id) = entry.probe else {
                    return if counted { Reported::UnknownProbe } else { Reported::Counted };
                };
                let Some(place) = leases.iter().position(|lease| lease.id == id && lease.who == who) else {
                    return Reported::UnknownProbe;
                };
                leases.remove(place);
                self.probed(who, entry.outcomes);
                Reported::Counted
            }
            _ if counted => Reported::StaleGeneration,
            _ => Reported::Counted,
        }
    }

    fn probed(&mut self, who: usize, outcomes: Outcomes) {
        let failed = outcomes.failures > 0;
        if outcomes.counted() > 0 {
            let slow = if failed { outcomes.slow_failures > 0 } else { outcomes.slow_successes > 0 };
            let State::HalfOpen { probes, .. } = &mut self.state else { return };
            probes.push(Probed { who, failed, slow, back: false });
            let back = failed && !self.agree();
            let State::HalfOpen { probes, .. } = &mut self.state else { return };
            probes.last_mut().unwrap().back = back;
        }
        if let State::HalfOpen { leases, probes, asked, .. } = &mut self.state
            && leases.is_empty()
            && probes.is_empty()
        {
            *asked = None;
        }
        self.decide();
    }

    fn count(&mut self, who: usize, entry: &Entry, at: u64, moved: bool) {
        self.forget(Some(who));
        let State::Closed { calls, streaks, unjudged } = &mut self.state else { return };
        calls.extend(spread(who, entry, at));
        let Streaks { leading, longest, trailing } = entry.streaks();
        let streak = streaks.entry(who).or_default();
        let mut reached = (*streak + leading).max(longest);
        *streak = if entry.outcomes.successes == 0 { *streak + entry.outcomes.failures } else { trailing };
        reached = reached.max(*streak);
        if moved {
            *unjudged = Some(reached);
        } else {
            self.judge(reached);
        }
    }
}

/// An entry's calls one by one: spread evenly, the trailing streak last.
fn spread(who: usize, entry: &Entry, at: u64) -> Vec<Call> {
    let Outcomes { successes, failures, slow_successes, slow_failures, .. } = entry.outcomes;
    let trailing = entry.streaks().trailing;
    let body = successes + failures - trailing;
    // Every time that the share so far passes a whole number, it is the turn of one of them.
    let is_turn = |n: u64, some: u64, all: u64| (n + 1) * some / all > n * some / all;
    let (mut succeeded, mut failed_so_far) = (0, 0);
    let call = |n: u64| {
        let failed = n >= body || is_turn(n, failures - trailing, body);
        let so_far = if failed { &mut failed_so_far } else { &mut succeeded };
        *so_far += 1;
        let nth = *so_far - 1;
        let slow = if failed {
            is_turn(nth, slow_failures, failures)
        } else {
            is_turn(nth, slow_successes, successes)
        };
        Call { who, at, failed, slow }
    };
    (0..successes + failures).map(call).collect()
}

// What is done.

#[derive(Clone, Copy, Debug)]
enum Naming {
    Current,
    Nothing,
    Before,
    MadeUp,
}

#[derive(Clone, Copy, Debug)]
enum Numbering {
    Next,
    Nothing,
    Repeat,
}

#[derive(Clone, Copy, Debug)]
enum Probing {
    Own,
    Anothers,
    MadeUp,
    Nothing,
}

#[derive(Clone, Debug)]
enum Op {
    Pass(i64),
    ToDeadline,
    Tick,
    Acquire(usize),
    Report(usize, Naming, Numbering, Probing, Option<u64>, Outcomes, Option<Streaks>),
    Move(u8),
}

fn ops() -> impl Strategy<Value = Op> {
    let who = 0..NAMES.len();
    let outcomes = prop_oneof![
        6 => (0u64..4, 0u64..4),
        1 => (0u64..30, 0u64..30),
        1 => Just((0, 0)),
    ]
    .prop_flat_map(|(successes, failures)| {
        (0..=successes, 0..=failures, 0u64..2).prop_map(move |(slow_successes, slow_failures, ignored)| {
            Outcomes { successes, failures, slow_successes, slow_failures, ignored, ..Outcomes::default() }
        })
    });
    let streaks = (0u64..5, 0u64..5, 0u64..5).prop_map(|(leading, longest, trailing)| Streaks {
        leading,
        longest,
        trailing,
    });
    let naming = prop_oneof![
        8 => Just(Naming::Current),
        3 => Just(Naming::Nothing),
        1 => Just(Naming::Before),
        1 => Just(Naming::MadeUp)
    ];
    let numbering =
        prop_oneof![4 => Just(Numbering::Next), 2 => Just(Numbering::Nothing), 1 => Just(Numbering::Repeat)];
    let probing = prop_oneof![
        12 => Just(Probing::Own),
        1 => Just(Probing::Anothers),
        1 => Just(Probing::MadeUp),
        1 => Just(Probing::Nothing)
    ];
    let late =
        prop_oneof![3 => Just(None), 1 => (0u64..3_000).prop_map(Some), 1 => (0u64..90_000).prop_map(Some)];
    let report = (who.clone(), naming, numbering, probing, late, outcomes, prop::option::of(streaks));
    prop_oneof![
        2 => (-500i64..1_500).prop_map(Op::Pass),
        1 => (0i64..15_000).prop_map(Op::Pass),
        1 => prop_oneof![Just(-100_000i64), Just(61_000), Just(200_000)].prop_map(Op::Pass),
        1 => Just(Op::ToDeadline),
        1 => Just(Op::Tick),
        6 => who.prop_map(Op::Acquire),
        12 => report.prop_map(|(who, naming, numbering, probing, late, outcomes, streaks)| {
            Op::Report(who, naming, numbering, probing, late, outcomes, streaks)
        }),
        1 => (0u8..4).prop_map(Op::Move),
    ]
}

/// Mostly half-open: probes are taken and come back, the limit passes, and what is reported by hand ends a period.
fn probing_ops() -> impl Strategy<Value = Op> {
    let who = 0..NAMES.len();
    let one = prop_oneof![5 => Just(successes(1)), 5 => Just(failures(1)), 1 => Just(ignored()), 1 => Just(abandoned())];
    let slow = (one, any::<bool>()).prop_map(|(outcomes, slow)| {
        let (slow_successes, slow_failures) =
            if slow { (outcomes.successes, outcomes.failures) } else { (0, 0) };
        Outcomes { slow_successes, slow_failures, ..outcomes }
    });
    let probe = |who, outcomes| {
        Op::Report(who, Naming::Current, Numbering::Nothing, Probing::Own, None, outcomes, None)
    };
    let by_hand = |who, n| {
        Op::Report(who, Naming::Nothing, Numbering::Nothing, Probing::Nothing, None, failures(n), None)
    };
    prop_oneof![
        20 => who.clone().prop_map(Op::Acquire),
        14 => (who.clone(), slow).prop_map(move |(who, outcomes)| probe(who, outcomes)),
        5 => (who, 1u64..40).prop_map(move |(who, n)| by_hand(who, n)),
        2 => (0i64..3_000).prop_map(Op::Pass),
        3 => (5_000i64..20_000).prop_map(Op::Pass),
        1 => Just(Op::ToDeadline),
        1 => Just(Op::Move(2)),
    ]
}

fn policies() -> impl Strategy<Value = PolicySpec> {
    let percent = || prop_oneof![Just(1u32), Just(33), Just(50), Just(67), Just(100), 1u32..=100];
    let window = |size: u32| {
        prop_oneof![Just(within(1_000)), Just(within(2_500)), Just(within(10_000)), Just(Window::Last(size))]
    };
    let rule = move |size: u32| {
        prop_oneof![
            (percent(), window(size), 1..=size).prop_map(|(p, w, m)| rate(p, w, m)),
            (percent(), window(size), 1..=size).prop_map(|(p, w, m)| slow_rate(p, w, m)),
            (1u32..15, window(size)).prop_map(|(threshold, window)| Rule::Failures { threshold, window }),
            (1u32..12).prop_map(|threshold| Rule::ConsecutiveFailures { threshold }),
        ]
    };
    let trip = (2u32..20).prop_flat_map(move |size| prop::collection::vec(rule(size), 1..4));
    (trip, 1u32..6, 1u32..4, 500u64..20_000).prop_map(|(trip, permitted_calls, min_instances, limit)| {
        PolicySpec {
            half_open: HalfOpenSpec { permitted_calls, limit: Some(ms(limit)), ..HalfOpenSpec::default() },
            guard: GuardSpec { min_instances },
            ..spec(trip)
        }
    })
}

/// The breaker and the model side by side.
struct Pair {
    world: World,
    model: Model,
    generations: Vec<Generation>,
    /// Probes that were granted, the newest last.
    probes: Vec<(usize, ProbeId)>,
    numbers: u64,
    sent: BTreeMap<usize, Entry>,
}

impl Pair {
    fn new(spec: PolicySpec) -> Self {
        let world = World::new(policy(spec.clone()));
        let generations = vec![world.breaker.generation()];
        let (model, probes, sent) = (Model::new(spec), Vec::new(), BTreeMap::new());
        Self { world, model, generations, probes, numbers: 0, sent }
    }

    fn step(&mut self, op: &Op) {
        self.forget();
        match op {
            Op::Pass(millis) => self.world.now = self.world.now.saturating_add_signed(*millis),
            Op::ToDeadline => {
                if let Some(deadline) = self.world.breaker.deadline() {
                    self.world.now = deadline.as_millis();
                    self.tick();
                }
            }
            Op::Tick => self.tick(),
            Op::Acquire(who) => self.acquire(*who),
            Op::Report(who, naming, numbering, probing, late, outcomes, streaks) => {
                let entry = self.entry(*who, *naming, *numbering, *probing, *late, *outcomes, *streaks);
                self.report(*who, &entry);
            }
            Op::Move(target) => self.command(*target),
        }
        self.compare();
    }

    /// A sequence is remembered as long as its instance is, so a repeat long after is none.
    fn forget(&mut self) {
        let (now, heard) = (self.model.seen.max(self.world.now), &self.model.heard);
        self.sent.retain(|who, _| heard.get(who).is_some_and(|heard| now < heard + FORGET_MS));
    }

    fn tick(&mut self) {
        self.world.tick();
        self.model.arrive(self.world.now, None);
    }

    fn acquire(&mut self, who: usize) {
        self.model.arrive(self.world.now, Some(who));
        let decision = self.world.acquire(NAMES[who]);
        assert_eq!(matches!(decision, Decision::Granted(_)), self.model.grants(who), "{decision:?}");
        if let Decision::Granted(Grant { probe, .. }) = decision {
            assert_eq!(probe.is_some(), self.model.name() == "HALF_OPEN");
            if let Some(id) = probe {
                self.model.lease(who, id);
                self.probes.push((who, id));
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn entry(
        &mut self,
        who: usize,
        naming: Naming,
        numbering: Numbering,
        probing: Probing,
        late: Option<u64>,
        outcomes: Outcomes,
        streaks: Option<Streaks>,
    ) -> Entry {
        if let (Numbering::Repeat, Some(sent)) = (numbering, self.sent.get(&who)) {
            return sent.clone();
        }
        self.numbers += 1;
        let entry = Entry {
            generation: match naming {
                Naming::Current => Some(self.world.breaker.generation()),
                Naming::Nothing => None,
                Naming::Before => Some(self.generations[self.generations.len().saturating_sub(2)]),
                Naming::MadeUp => Some(Generation { epoch: 9, revision: 9 }),
            },
            sequence: matches!(numbering, Numbering::Next).then_some(self.numbers),
            at: late.map(|late| Timestamp::from_millis(self.world.now.saturating_sub(late))),
            outcomes,
            streaks,
            probe: match probing {
                Probing::Own => self.own_probe(who),
                Probing::Anothers => self.probes.iter().find(|probe| probe.0 != who).map(|probe| probe.1),
                Probing::MadeUp => Some(ProbeId(1)),
                Probing::Nothing => None,
            },
            ..Entry::default()
        };
        if entry.sequence.is_some() {
            self.sent.insert(who, entry.clone());
        }
        entry
    }

    /// A probe that this instance has out, else one that it had.
    fn own_probe(&self, who: usize) -> Option<ProbeId> {
        let out = match &self.model.state {
            State::HalfOpen { leases, .. } => leases.iter().find(|lease| lease.who == who),
            _ => None,
        };
        let had = || self.probes.iter().rev().find(|probe| probe.0 == who);
        out.map(|lease| lease.id).or_else(|| had().map(|probe| probe.1))
    }

    fn report(&mut self, who: usize, entry: &Entry) {
        let moves = self.model.moves.len();
        self.model.arrive(self.world.now, Some(who));
        let moved = self.model.moves.len() > moves;
        // A generation that was current ends if the call's own time ends the stretch.
        let is_current = !moved && entry.generation == Some(self.world.breaker.generation());
        let expected = self.model.report(who, entry, is_current, moved);
        assert!(self.model.moves.len() <= moves + 1, "two moves in one call");
        let reported = self.world.report_as(NAMES[who], Some("s"), entry);
        assert_eq!(reported, expected, "{entry:?}");
    }

    fn command(&mut self, target: u8) {
        self.model.seen = self.model.seen.max(self.world.now);
        match target {
            0 => {
                self.world.transition_to(Target::Closed).unwrap();
                if self.model.name() != "CLOSED" {
                    self.model.close();
                }
            }
            1 => {
                self.world.transition_to(Target::Open { wait: None }).unwrap();
                match self.model.state {
                    State::Open { reopenings, .. } => {
                        let until = self.model.seen + self.model.wait(reopenings);
                        self.model.state = State::Open { until, reopenings };
                    }
                    State::HalfOpen { reopenings, .. } => self.model.open(reopenings),
                    State::Closed { .. } => self.model.open(0),
                }
            }
            2 => {
                self.world.transition_to(Target::HalfOpen).unwrap();
                match self.model.state {
                    State::Open { reopenings, .. } => self.model.half_open(reopenings),
                    State::HalfOpen { .. } => {}
                    State::Closed { .. } => self.model.half_open(0),
                }
            }
            _ => {
                self.world.reset();
                self.model.close();
            }
        }
    }

    fn compare(&mut self) {
        let (world, model) = (&self.world, &self.model);
        assert_eq!(world.state(), model.name());
        let arrows: Vec<&str> = world
            .changes
            .iter()
            .filter_map(|change| match change {
                Change::Transition(transition) => Some(transition.to.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(arrows, model.moves);
        match &model.state {
            State::Closed { .. } => {
                let at = Timestamp::from_millis(model.seen);
                let found: Vec<_> =
                    world.breaker.readings(at).iter().map(|r| (r.calls, r.matched, r.crossed)).collect();
                assert_eq!(found, model.readings(0));
            }
            State::Open { until, .. } => {
                assert_eq!(world.breaker.deadline(), Some(Timestamp::from_millis(*until)));
            }
            State::HalfOpen { leases, .. } => {
                assert_eq!(world.breaker.probes_leased() as usize, leases.len());
                let is_free = world.status().admission == Admission::Probe;
                assert_eq!(is_free, model.places() > 0);
            }
        }
        if self.generations.last() != Some(&world.breaker.generation()) {
            self.generations.push(world.breaker.generation());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_rules_do_what_a_naive_model_does(spec in policies(), ops in prop::collection::vec(ops(), 1..120)) {
        let mut pair = Pair::new(spec);
        for op in &ops {
            pair.step(op);
        }
    }
}

// Periods are short and their corners rare: four times as many as of the others.
proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4 * ProptestConfig::default().cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_half_open_period_does_what_a_naive_model_does(
        spec in policies(),
        ops in prop::collection::vec(probing_ops(), 1..80),
    ) {
        let mut pair = Pair::new(spec);
        pair.step(&Op::Move(2));
        for op in &ops {
            pair.step(op);
        }
    }
}
