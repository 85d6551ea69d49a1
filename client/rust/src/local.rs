//! The breaker of this client alone: the same rules, for the time without a server.
//!
//! While the server vouches for its answers it only tallies: its rules cannot be reached. When the client leaves
//! FRESH it takes over from the last status, and keeps what it has tallied.

use std::{sync::Arc, time::Duration};

use panelboard_core::{
    Breaker, Caller, Change, Condition, Decision, Entry, Grant, Instance, Moment, OpenWait, Policy,
    PolicySpec, ProbeId, Rejection, RejectionReason, Reported, Rule, Settings, StateKind, Status, Stored,
    StoredState, Timestamp, Version,
};

/// A count that no window of one client reaches.
const NEVER: u32 = panelboard_core::MINIMUM_CALLS_MAX;

/// How much the local breaker decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The server decides; this one tallies.
    Tallying,
    /// Both decide, by the fleet's thresholds.
    Seconding,
    /// This one decides, by one instance's share of the thresholds.
    Deciding {
        /// The instances that the server last counted.
        active_instances: u32,
    },
}

#[derive(Debug)]
pub(crate) struct Local {
    breaker: Breaker,
    me: Instance,
    seed: u64,
    revision: u64,
    /// The policy as the operator wrote it.
    policy: Arc<Policy>,
    role: Role,
}

impl Local {
    pub(crate) fn new(me: Instance, policy: Arc<Policy>, role: Role, seed: u64, now: Timestamp) -> Self {
        let at = Moment { now, next: Version { epoch: 0, revision: 1 } };
        let breaker = Breaker::new(in_role(&policy, role), settings(seed), at);
        Self { breaker, me, seed, revision: 1, policy, role }
    }

    /// Puts another policy in force, or the same one in another role. Tallies that still fit are kept.
    pub(crate) fn set(&mut self, policy: Arc<Policy>, role: Role, now: Timestamp) {
        if role == self.role && policy.spec() == self.policy.spec() {
            self.policy = policy;
            return;
        }
        let at = self.moment(now);
        self.breaker.set_policy(in_role(&policy, role), at);
        (self.policy, self.role) = (policy, role);
    }

    /// CLOSED with empty tallies.
    pub(crate) fn renew(&mut self, now: Timestamp) {
        let at = self.moment(now);
        self.breaker = Breaker::new(in_role(&self.policy, self.role), settings(self.seed), at);
    }

    /// Takes over a state that the server had told.
    pub(crate) fn inherit(&mut self, state: StoredState, now: Timestamp) {
        let stored = Stored { state, last: None };
        let at = self.moment(now);
        self.breaker = Breaker::restore(in_role(&self.policy, self.role), settings(self.seed), &stored, at);
    }

    /// Asks for leave to make one call. One probe at a time: a client alone has nobody to share the risk with.
    pub(crate) fn acquire(&mut self, now: Timestamp) -> (Result<Grant, Rejection>, bool) {
        let moved = self.tick(now);
        if self.breaker.condition().state == StateKind::HalfOpen && self.breaker.probes_leased() > 0 {
            let retry_after = self.breaker.deadline().map(|end| end.since(now));
            let rejection = Rejection { reason: RejectionReason::ProbesTaken, retry_after };
            return (Err(rejection), moved);
        }
        let at = self.moment(now);
        let me = self.me.clone();
        let (decision, change) = self.breaker.acquire(Caller { instance: &me, session: None }, at);
        let decision = match decision {
            Decision::Granted(grant) => Ok(grant),
            Decision::Rejected(rejection) => Err(rejection),
        };
        (decision, moved || is_transition(change.as_ref()))
    }

    /// Takes outcomes in. True if they moved the breaker.
    pub(crate) fn report(&mut self, entry: &Entry, now: Timestamp) -> (Reported, bool) {
        let at = self.moment(now);
        let me = self.me.clone();
        let (reported, change) = self.breaker.report(Caller { instance: &me, session: None }, entry, at);
        (reported, is_transition(change.as_ref()))
    }

    /// Takes the outcome of a probe in.
    pub(crate) fn report_probe(&mut self, id: ProbeId, entry: Entry, now: Timestamp) -> bool {
        let generation = Some(self.breaker.generation());
        self.report(&Entry { generation, probe: Some(id), ..entry }, now).1
    }

    /// Does what time has made due. True if that moved the breaker.
    pub(crate) fn tick(&mut self, now: Timestamp) -> bool {
        let at = self.moment(now);
        is_transition(self.breaker.tick(at).as_ref())
    }

    pub(crate) fn condition(&self) -> Condition {
        self.breaker.condition()
    }

    /// When the state ends by itself.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.breaker.deadline()
    }

    /// What keeps this client out although its breaker is CLOSED, and until when: the dependency asked it to wait. Alone
    /// it is the fleet, so what its own calls come to opens the breaker instead.
    pub(crate) fn held(&self, now: Timestamp) -> Option<(Timestamp, Arc<str>)> {
        let held = self.breaker.quarantine_of(&self.me, now)?;
        Some((held.until, held.why.to_string().into()))
    }

    /// CLOSED under no override.
    pub(crate) fn is_plainly_closed(&self) -> bool {
        self.condition() == Condition { state: StateKind::Closed, over: None }
    }

    pub(crate) fn status(&self, now: Timestamp) -> Status {
        self.breaker.status(now)
    }

    #[cfg(test)]
    pub(crate) const fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    fn moment(&mut self, now: Timestamp) -> Moment {
        self.revision += 1;
        Moment { now, next: Version { epoch: 0, revision: self.revision } }
    }
}

/// An OPEN that goes on without the server: it keeps what is left, a little longer so that a fleet that was cut off
/// together does not come back together.
pub(crate) fn inherited_open(remaining: Duration, jitter: Duration, reopenings: u32) -> StoredState {
    let remaining = remaining + jitter;
    StoredState::Open {
        wait: OpenWait { total: remaining, reopenings, jitter, retry_after: None },
        remaining,
    }
}

const fn settings(seed: u64) -> Settings {
    Settings { seed, instances_max: 1 }
}

fn is_transition(change: Option<&Change>) -> bool {
    matches!(change, Some(Change::Transition(_)))
}

fn in_role(policy: &Arc<Policy>, role: Role) -> Arc<Policy> {
    match role {
        Role::Seconding => Arc::clone(policy),
        Role::Deciding { active_instances } => Arc::new(policy.scaled_to_one_of(active_instances)),
        Role::Tallying => {
            let spec = PolicySpec { trip: tallying(&policy.spec().trip), ..policy.spec().clone() };
            // Only numbers were raised, to one that is allowed; were it refused, the rules as they are do no harm.
            Policy::try_new(spec, policy.revision()).map_or_else(|_| Arc::clone(policy), Arc::new)
        }
    }
}

/// Rules over the same windows, so that tallies fit when the rules come back, with numbers that are never reached.
fn tallying(rules: &[Rule]) -> Vec<Rule> {
    let muted = |rule: &Rule| match rule.window() {
        Some(window) => Rule::Failures { threshold: NEVER, window },
        None => Rule::ConsecutiveFailures { threshold: NEVER },
    };
    rules.iter().map(muted).collect()
}

#[cfg(test)]
mod tests {
    use panelboard_core::{Outcomes, Rate, Window};

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn local(role: Role) -> Local {
        let policy = Arc::new(Policy::try_new(PolicySpec::default(), 1).unwrap());
        Local::new(Instance::new("checkout", "a"), policy, role, 1, at(0))
    }

    fn failures(n: u64) -> Entry {
        Entry { outcomes: Outcomes { failures: n, ..Outcomes::default() }, ..Entry::default() }
    }

    #[test]
    fn while_the_server_decides_nothing_trips_and_everything_is_remembered() {
        let mut local = local(Role::Tallying);
        assert_eq!(local.report(&failures(500), at(10)), (Reported::Counted, false));
        assert!(local.acquire(at(20)).0.is_ok());
        local.set(Arc::clone(local.policy()), Role::Seconding, at(30));
        assert!(local.is_plainly_closed(), "a role never moves the state");
        assert!(local.report(&failures(1), at(40)).1, "the next outcome sees what was tallied");
        assert_eq!(local.condition().state, StateKind::Open);
    }

    #[test]
    fn last_rings_and_streaks_survive_the_change_of_roles() {
        let rules = [
            Rule::FailureRate { threshold: Rate::ALL, window: Window::Last(4), minimum_calls: 4 },
            Rule::ConsecutiveFailures { threshold: 4 },
        ];
        for rule in rules {
            let spec = PolicySpec { trip: vec![rule], ..PolicySpec::default() };
            let policy = Arc::new(Policy::try_new(spec, 1).unwrap());
            let mut local = Local::new(Instance::anonymous(), Arc::clone(&policy), Role::Tallying, 1, at(0));
            assert!(!local.report(&failures(3), at(1)).1);
            local.set(policy, Role::Seconding, at(2));
            assert!(local.report(&failures(1), at(3)).1, "{rule:?}");
        }
    }

    #[test]
    fn alone_it_trips_by_its_share() {
        let mut deciding = local(Role::Deciding { active_instances: 10 });
        assert!(!deciding.report(&failures(9), at(1)).1);
        assert!(deciding.report(&failures(1), at(2)).1, "10 of the fleet's 20 calls");
        let mut seconding = local(Role::Seconding);
        assert!(!seconding.report(&failures(19), at(1)).1);
    }

    #[test]
    fn it_probes_one_at_a_time() {
        let mut local = local(Role::Deciding { active_instances: 1 });
        local.inherit(inherited_open(Duration::from_secs(4), Duration::from_millis(300), 0), at(0));
        assert_eq!(local.acquire(at(4_299)).0.unwrap_err().reason, RejectionReason::Open);
        let (grant, moved) = local.acquire(at(4_300));
        assert!(moved);
        let id = grant.unwrap().probe.unwrap();
        let second = local.acquire(at(4_301)).0.unwrap_err();
        assert_eq!(second.reason, RejectionReason::ProbesTaken);
        assert!(second.retry_after.is_some());
        let success = Outcomes { successes: 1, ..Outcomes::default() };
        local.report_probe(id, Entry { outcomes: success, ..Entry::default() }, at(4_400));
        assert!(local.acquire(at(4_401)).0.unwrap().probe.is_some());
    }
}
