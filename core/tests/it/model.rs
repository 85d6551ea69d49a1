//! The rules against a deliberately naive model: it keeps every call as a record and works everything out anew at
//! each step. No ring, no sum, no run, no cache. Time jumps, also backwards; reports come late, twice, with
//! generations and probes that are old or made up.
//!
//! Proved by breaking the rules on purpose, one at a time, each found: `>=` to `>` in a rate, in a count and in the open
//! deadline; no deduplication; entries from before the stretch let in; one call too many kept of the last N; a streak
//! that survives a success, or its forgotten instance; half-open without the quorum, with one place too few given
//! back, with probes for those that failed, with leases that end at their deadline, with a limit that closes after a
//! failure; and the rules not looking at what came with the end of a period. Of the guard: one instance fewer left out, or the
//! ones with the most calls, or in a tie the one with fewer; a vote of more than half; quarantined ones without a vote; their streak
//! kept; and their calls from before kept after they are back.

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
    Closed {
        calls: Vec<Call>,
        streaks: BTreeMap<usize, u64>,
        eyes: BTreeMap<usize, Eye>,
        unjudged: Option<(usize, u64)>,
    },
    Open {
        until: u64,
        reopenings: u32,
    },
    HalfOpen {
        reopenings: u32,
        leases: Vec<Lease>,
        probes: Vec<Probed>,
        lost: Vec<usize>,
        asked: Option<u64>,
    },
}

/// What is kept in sight of one instance.
#[derive(Clone, Debug, Default)]
struct Eye {
    /// When its newest call was.
    newest: u64,
    /// By rule: whether its own calls crossed it at its latest report.
    crossing: Vec<bool>,
    since: Option<u64>,
    /// Until when it is kept out.
    held: Option<u64>,
    /// Since when it is back, and what it did.
    back: Option<(u64, Vec<Call>, Run)>,
    row: u32,
    ended: u64,
}

/// A streak and the longest it has been.
#[derive(Clone, Copy, Debug, Default)]
struct Run(u64, u64);

impl Run {
    fn on(self, entry: &Entry) -> Self {
        let Streaks { leading, longest, trailing } = entry.streaks();
        let all = entry.outcomes.successes == 0;
        let now = if all { self.0 + entry.outcomes.failures } else { trailing };
        Self(now, self.1.max(self.0 + leading).max(longest).max(now))
    }
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

fn empty() -> State {
    State::Closed { calls: Vec::new(), streaks: BTreeMap::new(), eyes: BTreeMap::new(), unjudged: None }
}

impl Model {
    fn new(spec: PolicySpec) -> Self {
        let state = empty();
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

    /// (calls, matched, crossed) of a rule by these calls, or by a streak.
    fn read(rule: &Rule, calls: &[Call], longest: u64, minimum: u32) -> (u64, u64, bool) {
        let count = |is: fn(&Call) -> bool| calls.iter().filter(|call| is(call)).count() as u64;
        let (all, failed, slow) = (calls.len() as u64, count(|call| call.failed), count(|call| call.slow));
        let is_reached = |matched: u64, threshold: Rate| {
            all > 0
                && all >= u64::from(minimum)
                && matched * 10_000 >= all * u64::from(threshold.hundredths())
        };
        match *rule {
            Rule::FailureRate { threshold, .. } => (all, failed, is_reached(failed, threshold)),
            Rule::SlowRate { threshold, .. } => (all, slow, is_reached(slow, threshold)),
            Rule::Failures { threshold, .. } => (all, failed, failed >= u64::from(threshold)),
            Rule::ConsecutiveFailures { threshold } => (longest, longest, longest >= u64::from(threshold)),
        }
    }

    fn readings(&self) -> Vec<(u64, u64, bool)> {
        let State::Closed { streaks, .. } = &self.state else { return Vec::new() };
        let longest = streaks.values().copied().max().unwrap_or(0);
        let read = |rule: &Rule| {
            let calls = rule.window().map(|window| self.in_window(window)).unwrap_or_default();
            Self::read(rule, &calls, longest, rule.minimum_calls())
        };
        self.spec.trip.iter().map(read).collect()
    }

    /// Which rules an instance's own calls cross.
    fn own(&self, who: usize) -> Vec<bool> {
        let State::Closed { streaks, .. } = &self.state else { return Vec::new() };
        let streak = streaks.get(&who).copied().unwrap_or(0);
        let read = |rule: &Rule| {
            let mut calls = rule.window().map(|window| self.in_window(window)).unwrap_or_default();
            calls.retain(|call| call.who == who);
            Self::read(rule, &calls, streak, rule.minimum_calls()).2
        };
        self.spec.trip.iter().map(read).collect()
    }

    // The guard.

    fn quorum_of(&self) -> (u32, u32) {
        let State::Closed { eyes, .. } = &self.state else { return (0, 1) };
        let (seen, window) = (self.seen, self.longest());
        let active = eyes.values().filter(|eye| seen < eye.newest + window || eye.held.is_some()).count();
        let (mut active, known) = (u32::try_from(active).unwrap(), self.known());
        if seen < self.entered + window {
            active = active.max(known);
        }
        let guard = self.spec.guard;
        let mut required = guard.min_instances;
        while u64::from(required) * 10_000 < u64::from(active) * u64::from(guard.share_hundredths) {
            required += 1;
        }
        (active, required.min(active.max(guard.min_instances.min(known))).max(1))
    }

    /// The calls that are left when the worst are left out one by one.
    fn without_the_worst(&self, rule: &Rule, mut calls: Vec<Call>, most: u32) -> Vec<Call> {
        for _ in 0..most {
            let excess = |who: usize| {
                let own: Vec<Call> = calls.iter().filter(|call| call.who == who).copied().collect();
                let (all, matched, _) = Self::read(rule, &own, 0, 1);
                let over = match rule {
                    Rule::FailureRate { threshold, .. } | Rule::SlowRate { threshold, .. } => {
                        matched as i64 * 10_000 - all as i64 * i64::from(threshold.hundredths())
                    }
                    _ => matched as i64,
                };
                (over, all)
            };
            let Some(worst) = calls.iter().map(|call| call.who).max_by_key(|who| excess(*who)) else { break };
            calls.retain(|call| call.who != worst);
        }
        calls
    }

    fn trips(&mut self, reached: Option<(usize, u64)>) -> bool {
        let (active, required) = self.quorum_of();
        let guard = self.spec.guard;
        let is_off = guard.min_instances == 1 && guard.share_hundredths == 0;
        for (index, rule) in self.spec.trip.clone().iter().enumerate() {
            let State::Closed { streaks, .. } = &self.state else { return false };
            if let Rule::ConsecutiveFailures { threshold } = rule {
                let mut long: Vec<usize> = Vec::new();
                long.extend(
                    streaks.iter().filter(|(_, n)| **n >= u64::from(*threshold)).map(|(who, _)| *who),
                );
                long.extend(reached.filter(|reached| reached.1 >= u64::from(*threshold)).map(|r| r.0));
                long.sort_unstable();
                long.dedup();
                if long.len() >= required as usize {
                    return true;
                }
            } else if self.readings()[index].2 {
                let calls = rule.window().map(|window| self.in_window(window)).unwrap_or_default();
                let minimum = rule.minimum_calls().min(guard.min_calls);
                let left = self.without_the_worst(rule, calls, required - 1);
                if is_off || Self::read(rule, &left, 0, minimum).2 {
                    return true;
                }
            }
            if !is_off && active >= 3 && self.votes(index) * 2 >= active {
                // What was true at a report may be so no more; once that is seen it counts for the next report only.
                for who in 0..NAMES.len() {
                    let is_true = self.own(who).get(index).copied().unwrap_or(false);
                    let State::Closed { eyes, .. } = &mut self.state else { return false };
                    if let Some(eye) = eyes.get_mut(&who)
                        && let Some(crossing) = eye.crossing.get_mut(index)
                    {
                        *crossing = *crossing && is_true;
                    }
                }
                let votes = self.votes(index);
                if votes > 0 && votes * 2 >= active {
                    return true;
                }
            }
        }
        false
    }

    fn votes(&self, index: usize) -> u32 {
        let State::Closed { eyes, .. } = &self.state else { return 0 };
        let is_for = |eye: &&Eye| eye.held.is_some() || eye.crossing.get(index).copied().unwrap_or(false);
        u32::try_from(eyes.values().filter(is_for).count()).unwrap()
    }

    fn quarantine(&mut self, who: usize) {
        let now = self.seen;
        let memory = self.longest().max(FORGET_MS);
        let State::Closed { eyes, streaks, .. } = &self.state else { return };
        let (mut eyes, mut streaks) = (eyes.clone(), streaks.clone());
        let eye = eyes.get_mut(&who).unwrap();
        let row = if now < eye.ended + memory { eye.row } else { 0 };
        eye.held = Some(now + self.wait(row));
        (eye.row, eye.since, eye.back) = (row + 1, None, None);
        eye.crossing.clear();
        streaks.remove(&who);
        if let State::Closed { eyes: old, streaks: old_streaks, .. } = &mut self.state {
            (*old, *old_streaks) = (eyes, streaks);
        }
    }

    /// Whether something with one of the instances is due.
    fn has_look(&self, now: u64) -> bool {
        let State::Closed { eyes, .. } = &self.state else { return false };
        let is_due = |eye: &Eye| {
            eye.held.is_some_and(|until| now >= until) || eye.since.is_some_and(|since| now >= since + 1_000)
        };
        eyes.values().any(is_due)
    }

    /// Does what is due with the instances; all of it, where the rules do one thing in a call.
    fn look(&mut self) {
        let now = self.seen;
        for who in 0..NAMES.len() {
            let crosses = self.own(who).contains(&true);
            let State::Closed { eyes, calls, .. } = &mut self.state else { return };
            let Some(eye) = eyes.get_mut(&who) else { continue };
            if eye.held.is_some_and(|until| now >= until) {
                (eye.held, eye.ended) = (None, now);
                eye.back = Some((now, Vec::new(), Run::default()));
                calls.retain(|call| call.who != who);
            } else if eye.since.is_some_and(|since| now >= since + 1_000) {
                if crosses {
                    self.quarantine(who);
                } else {
                    eye.since = None;
                    eye.crossing.clear();
                }
            }
        }
    }

    fn judge(&mut self, reached: Option<(usize, u64)>) -> bool {
        let trips = self.trips(reached);
        if trips {
            self.open(0);
        }
        trips
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
        self.enter(empty());
    }

    fn half_open(&mut self, reopenings: u32) {
        if matches!(self.state, State::Open { .. }) {
            // Those that were there when nobody was admitted any more still are.
            let (entered, seen) = (self.entered, self.seen);
            let heard = self.heard.values_mut().filter(|heard| **heard + KNOWN_MS > entered);
            heard.for_each(|heard| *heard = seen);
        }
        let (leases, probes, lost) = (Vec::new(), Vec::new(), Vec::new());
        self.enter(State::HalfOpen { reopenings, leases, probes, lost, asked: None });
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
        let State::Closed { calls, streaks, eyes, .. } = &mut self.state else { return };
        for who in 0..NAMES.len() {
            let is_old = |eye: &Eye| seen >= eye.newest.max(eye.ended) + after && eye.held.is_none();
            if only.is_none_or(|only| only == who) && eyes.get(&who).is_some_and(is_old) {
                calls.retain(|call| call.who != who);
                streaks.remove(&who);
                eyes.remove(&who);
            }
        }
    }

    fn due(&mut self) {
        let seen = self.seen;
        match &mut self.state {
            State::Closed { unjudged, .. } => {
                let reached = unjudged.take();
                if reached.is_none() || !self.judge(reached) {
                    self.look();
                }
            }
            State::Open { until, reopenings } => {
                let reopenings = *reopenings;
                if seen >= *until {
                    self.half_open(reopenings);
                }
            }
            State::HalfOpen { leases, probes, lost, asked, .. } => {
                lost.extend(leases.iter().filter(|lease| seen >= lease.ends).map(|lease| lease.who));
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

    fn is_bad(&self, probe: &Probed) -> bool {
        probe.failed || probe.slow && self.has_slow_rule()
    }

    fn bad_instances(&self) -> usize {
        let State::HalfOpen { probes, .. } = &self.state else { return 0 };
        (0..NAMES.len()).filter(|who| probes.iter().any(|p| self.is_bad(p) && p.who == *who)).count()
    }

    fn agree(&self) -> bool {
        self.bad_instances() >= self.quorum() as usize
    }

    fn decide(&mut self) {
        let State::HalfOpen { reopenings, probes, .. } = &self.state else { return };
        let count = |is: fn(&Probed) -> bool| u32::try_from(probes.iter().filter(|p| is(p)).count()).unwrap();
        let (failed, slow) = (count(|p| p.failed), count(|p| p.slow));
        let (succeeded, fast) = (count(|p| !p.failed), count(|p| !p.slow));
        let permitted = self.spec.half_open.permitted_calls;
        let to_open = self.least(false).unwrap_or(1);
        let most = if self.known() <= 1 { 1_000_000 } else { self.known() };
        let is_over = failed >= to_open.min(most)
            || self.least(true).is_some_and(|least| slow >= least.min(most))
            || self.bad_instances() >= most as usize;
        let reopenings = reopenings + 1;
        if self.agree() && is_over {
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
            State::Closed { eyes, .. } => eyes.get(&who).is_none_or(|eye| eye.held.is_none()),
            State::Open { .. } => false,
            State::HalfOpen { leases, probes, lost, .. } => {
                let its = |is_bad: bool| probes.iter().any(|p| p.who == who && self.is_bad(p) == is_bad);
                let has_one_out = leases.iter().any(|lease| lease.who == who);
                let had_its_turn = its(true) || lost.contains(&who);
                self.places() > 0 && (self.known() <= 1 || !had_its_turn && (!has_one_out || its(false)))
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
            let back = self.is_bad(&Probed { who, failed, slow, back: false }) && !self.agree();
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
        let (guard, rules) = (self.spec.guard, self.spec.trip.clone());
        let now = self.seen;
        let State::Closed { calls, streaks, eyes, .. } = &mut self.state else { return };
        let eye = eyes.entry(who).or_insert_with(|| Eye { newest: at, ..Eye::default() });
        eye.newest = eye.newest.max(at);
        let (mut reached, mut relapsed) = (0, false);
        if let Some((since, did, run)) = &mut eye.back {
            if at >= *since {
                did.extend(spread(who, entry, at));
                *run = run.on(entry);
                let enough = guard.min_calls;
                if did.len() >= enough as usize {
                    let crosses =
                        |rule: &Rule| Self::read(rule, did, run.1, rule.minimum_calls().min(enough)).2;
                    relapsed = rules.iter().any(crosses);
                    if !relapsed {
                        eye.back = None;
                    }
                }
            }
        } else if eye.held.is_none() {
            calls.extend(spread(who, entry, at));
            let streak = streaks.entry(who).or_default();
            let Run(after, longest) = Run(*streak, 0).on(entry);
            (*streak, reached) = (after, longest);
            let crossing = self.own(who);
            let is_off = guard.min_instances == 1 && guard.share_hundredths == 0;
            let State::Closed { eyes, .. } = &mut self.state else { return };
            let eye = eyes.get_mut(&who).unwrap();
            if !is_off {
                eye.since = if crossing.contains(&true) { eye.since.or(Some(now)) } else { None };
                eye.crossing = crossing;
            }
        }
        if moved {
            let State::Closed { unjudged, .. } = &mut self.state else { return };
            *unjudged = Some((who, reached));
        } else if !self.judge(Some((who, reached))) && relapsed {
            self.quarantine(who);
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
    let share = prop_oneof![2 => Just(0u32), 2 => Just(2_000), 1 => Just(5_000), 1 => Just(10_000)];
    let guard = (1u32..4, share, 1u32..8).prop_map(|(min_instances, share_hundredths, min_calls)| {
        GuardSpec { min_instances, share_hundredths, min_calls }
    });
    (trip, 1u32..6, guard, 500u64..20_000).prop_map(|(trip, permitted_calls, guard, limit)| PolicySpec {
        half_open: HalfOpenSpec { permitted_calls, limit: Some(ms(limit)), ..HalfOpenSpec::default() },
        guard,
        ..spec(trip)
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
        self.look(op);
        match op {
            Op::Pass(millis) => self.world.now = self.world.now.saturating_add_signed(*millis),
            Op::ToDeadline => {
                if let Some(deadline) = self.world.breaker.deadline() {
                    self.world.now = deadline.as_millis();
                    self.look(&Op::Tick);
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

    /// The rules do one thing in a call, and in which order is no matter of the model: where several things may be due
    /// with instances, all are done first.
    fn look(&mut self, op: &Op) {
        if matches!(op, Op::Pass(_) | Op::ToDeadline | Op::Move(_)) || !self.model.has_look(self.world.now) {
            return;
        }
        for _ in 0..20 {
            self.world.tick();
        }
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
                assert_eq!(found, model.readings());
                for (who, name) in NAMES.iter().enumerate() {
                    let kept_out =
                        world.breaker.quarantine_of(&instance(name), at).map(|q| q.until.as_millis());
                    let State::Closed { eyes, .. } = &model.state else { return };
                    let held = eyes.get(&who).and_then(|eye| eye.held).filter(|until| model.seen < *until);
                    assert_eq!(kept_out, held, "{name}");
                }
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
