//! One breaker with its clock and its numbering, so that a test says only what it is about. Every call goes through
//! [`World::note`], which holds what must hold after any call.

use std::{sync::Arc, time::Duration};

use panelboard_core::*;

pub(crate) const SETTINGS: Settings = Settings { seed: 7, instances_max: 100 };

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) breaker: Breaker,
    pub(crate) now: u64,
    revision: u64,
    /// Every change, in order.
    pub(crate) changes: Vec<Change>,
}

impl World {
    pub(crate) fn new(policy: Policy) -> Self {
        Self::with(policy, SETTINGS)
    }

    pub(crate) fn with(policy: Policy, settings: Settings) -> Self {
        let at = Moment { now: Timestamp::ZERO, next: Version { epoch: 1, revision: 1 } };
        Self::of(Breaker::new(Arc::new(policy), settings, at))
    }

    pub(crate) fn of(breaker: Breaker) -> Self {
        let (now, revision) = (breaker.entered().as_millis(), breaker.version().revision);
        Self { breaker, now, revision, changes: Vec::new() }
    }

    /// Now, and the number that a change would get.
    pub(crate) const fn moment(&self) -> Moment {
        Moment {
            now: Timestamp::from_millis(self.now),
            next: Version { epoch: 1, revision: self.revision + 1 },
        }
    }

    /// Moves the clock without telling the breaker.
    pub(crate) fn pass(&mut self, millis: u64) -> &mut Self {
        self.now = self.now.saturating_add(millis);
        self
    }

    /// What must hold after every call: one number per change, a new generation per transition and only then.
    fn note(&mut self, before: &Breaker, change: Option<Change>) -> Option<Change> {
        let (old, new) = (before.generation(), self.breaker.generation());
        match &change {
            Some(Change::Transition(transition)) => {
                assert!(new > old, "a transition without a new generation: {old} to {new}");
                assert_eq!(transition.generation, new);
                assert_eq!(transition.from, before.condition());
                assert_eq!(transition.to, self.breaker.condition());
            }
            Some(_) => assert_eq!((old, before.condition()), (new, self.breaker.condition())),
            None => {
                assert_eq!((old, before.condition()), (new, self.breaker.condition()));
                assert_eq!(before.version(), self.breaker.version(), "a new version that nobody is told of");
            }
        }
        if change.is_some() {
            self.revision += 1;
            assert_eq!(self.breaker.version(), Version { epoch: 1, revision: self.revision });
            self.changes.extend(change.clone());
        }
        if let (Some(permitted), out) = (self.permitted(), self.breaker.probes_leased()) {
            assert!(out <= permitted, "{out} leases out of {permitted}");
        }
        change
    }

    fn permitted(&self) -> Option<u32> {
        let half_open = self.state() == "HALF_OPEN";
        // A period goes on under the policy it began with, so the policy is asked only if it did not change.
        let unchanged = !self.changes.iter().any(|change| matches!(change, Change::Policy));
        (half_open && unchanged).then(|| self.breaker.policy().spec().half_open.permitted_calls)
    }

    pub(crate) fn acquire(&mut self, who: &str) -> Decision {
        self.acquire_as(who, None)
    }

    pub(crate) fn acquire_as(&mut self, who: &str, session: Option<&str>) -> Decision {
        let before = self.breaker.clone();
        let (instance, session) = (instance(who), session.map(session_of));
        let caller = Caller { instance: &instance, session: session.as_ref() };
        let (decision, change) = self.breaker.acquire(caller, self.moment());
        self.note(&before, change);
        decision
    }

    /// Asks, and takes a grant for granted.
    pub(crate) fn grant(&mut self, who: &str) -> Grant {
        match self.acquire(who) {
            Decision::Granted(grant) => grant,
            Decision::Rejected(rejection) => panic!("{who} at {} ms: {rejection:?}", self.now),
        }
    }

    /// Asks, and takes a refusal for granted.
    pub(crate) fn refusal(&mut self, who: &str) -> Rejection {
        match self.acquire(who) {
            Decision::Granted(grant) => panic!("{who} at {} ms: {grant:?}", self.now),
            Decision::Rejected(rejection) => rejection,
        }
    }

    pub(crate) fn report(&mut self, who: &str, entry: &Entry) -> Reported {
        self.report_as(who, None, entry)
    }

    pub(crate) fn report_as(&mut self, who: &str, session: Option<&str>, entry: &Entry) -> Reported {
        let before = self.breaker.clone();
        let (instance, session) = (instance(who), session.map(session_of));
        let caller = Caller { instance: &instance, session: session.as_ref() };
        let (reported, change) = self.breaker.report(caller, entry, self.moment());
        self.note(&before, change);
        reported
    }

    /// Reports the outcome of a grant.
    pub(crate) fn end(&mut self, who: &str, grant: Grant, outcomes: Outcomes) -> Reported {
        self.report(
            who,
            &Entry { generation: Some(grant.generation), probe: grant.probe, outcomes, ..Entry::default() },
        )
    }

    /// Reports outcomes by hand: without a generation.
    pub(crate) fn by_hand(&mut self, who: &str, outcomes: Outcomes) -> Reported {
        self.report(who, &Entry { outcomes, ..Entry::default() })
    }

    pub(crate) fn tick(&mut self) -> Option<Change> {
        let before = self.breaker.clone();
        let change = self.breaker.tick(self.moment());
        self.note(&before, change)
    }

    pub(crate) fn watch(&mut self, who: &str, session: &str, starts: bool) -> &mut Self {
        let before = self.breaker.clone();
        let (instance, session) = (instance(who), session_of(session));
        let caller = Caller { instance: &instance, session: Some(&session) };
        let now = Timestamp::from_millis(self.now);
        if starts {
            self.breaker.watch_started(caller, now);
        } else {
            self.breaker.watch_ended(caller, now);
        }
        self.note(&before, None);
        self
    }

    pub(crate) fn transition_to(&mut self, to: Target) -> Result<Option<Change>, Refusal> {
        let before = self.breaker.clone();
        let change = self.breaker.transition_to(to, hand(), self.moment())?;
        Ok(self.note(&before, change))
    }

    pub(crate) fn reset(&mut self) -> &mut Self {
        let before = self.breaker.clone();
        let change = self.breaker.reset(hand(), self.moment());
        self.note(&before, Some(change));
        self
    }

    pub(crate) fn set_override(&mut self, kind: OverrideKind, lasting: Option<Duration>) -> &mut Self {
        let before = self.breaker.clone();
        let change = self.breaker.set_override(kind, hand(), lasting, self.moment());
        self.note(&before, Some(change));
        self
    }

    pub(crate) fn clear_override(&mut self, end: OverrideEnd) -> Result<Change, Refusal> {
        let before = self.breaker.clone();
        let change = self.breaker.clear_override(end, hand(), self.moment())?;
        self.note(&before, Some(change.clone()));
        Ok(change)
    }

    pub(crate) fn set_policy(&mut self, policy: Policy) -> Option<Change> {
        let before = self.breaker.clone();
        let change = self.breaker.set_policy(Arc::new(policy), self.moment());
        self.note(&before, change)
    }

    /// Stores it and makes another one of what was stored, at the same time.
    pub(crate) fn restart(&mut self) -> &mut Self {
        let stored = self.breaker.stored(Timestamp::from_millis(self.now));
        let policy = Arc::clone(self.breaker.policy());
        self.breaker = Breaker::restore(policy, SETTINGS, &stored, self.moment());
        self.revision += 1;
        self
    }

    /// The state's name, or the override's above it.
    pub(crate) fn state(&self) -> &'static str {
        self.breaker.condition().as_str()
    }

    /// The transitions so far, as `CLOSED>OPEN`.
    pub(crate) fn path(&self) -> Vec<String> {
        let transitions = self.changes.iter().filter_map(|change| match change {
            Change::Transition(transition) => Some(format!("{}>{}", transition.from, transition.to)),
            _ => None,
        });
        transitions.collect()
    }

    pub(crate) fn status(&self) -> Status {
        self.breaker.status(Timestamp::from_millis(self.now))
    }

    pub(crate) fn readings(&self) -> Vec<Reading> {
        self.breaker.readings(Timestamp::from_millis(self.now))
    }

    /// Follows the deadlines without any other call until none is left, at most `most` of them.
    pub(crate) fn rest(&mut self, most: usize) -> usize {
        for steps in 0..most {
            let Some(deadline) = self.breaker.deadline() else { return steps };
            self.now = self.now.max(deadline.as_millis());
            self.tick();
        }
        panic!("after {most} deadlines it does not rest: {}", self.state())
    }
}

pub(crate) fn instance(who: &str) -> Instance {
    Instance::new("checkout", who)
}

fn session_of(name: &str) -> Session {
    Session(name.into())
}

pub(crate) fn hand() -> Hand {
    Hand { who: "operator".into(), why: "test".into() }
}

/// A policy of these rules: waits of 5 s without jitter, no spread.
pub(crate) fn spec(trip: Vec<Rule>) -> PolicySpec {
    PolicySpec {
        trip,
        open: OpenSpec { jitter_hundredths: 0, ..OpenSpec::default() },
        spread: Duration::ZERO,
        ..PolicySpec::default()
    }
}

pub(crate) fn policy(spec: PolicySpec) -> Policy {
    Policy::try_new(spec, 1).unwrap_or_else(|violations| panic!("{violations:?}"))
}

pub(crate) fn rate(percent: u32, window: Window, minimum_calls: u32) -> Rule {
    Rule::FailureRate { threshold: Rate::percent(percent).expect("a rate"), window, minimum_calls }
}

pub(crate) fn slow_rate(percent: u32, window: Window, minimum_calls: u32) -> Rule {
    let (threshold, slower_than) = (Rate::percent(percent).expect("a rate"), Duration::from_secs(1));
    Rule::SlowRate { threshold, slower_than, window, minimum_calls }
}

pub(crate) const fn within(millis: u64) -> Window {
    Window::Within(Duration::from_millis(millis))
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn successes(successes: u64) -> Outcomes {
    Outcomes { successes, ..Outcomes::default() }
}

pub(crate) fn failures(failures: u64) -> Outcomes {
    Outcomes { failures, ..Outcomes::default() }
}

pub(crate) fn ignored() -> Outcomes {
    Outcomes { ignored: 1, ..Outcomes::default() }
}

pub(crate) fn abandoned() -> Outcomes {
    Outcomes { abandoned: 1, ..Outcomes::default() }
}
