//! The half-open period: leased probes and the verdict over them.

use std::{sync::Arc, time::Duration};

use crate::{
    ids::{ProbeId, Session},
    members::Slot,
    outcome::Outcomes,
    policy::Policy,
    time::Timestamp,
};

/// A lease ends so much after the deadline that was granted: its client reports a probe that ran past its deadline
/// as a failure, and that report needs time to arrive.
pub const LEASE_GRACE: Duration = Duration::from_secs(1);

/// What the probes of a period came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeTally {
    /// Probes of the period.
    pub permitted: u32,
    /// Probes that succeeded, slow ones included.
    pub succeeded: u32,
    /// Probes that failed, slow ones included.
    pub failed: u32,
    /// Probes that were slow.
    pub slow: u32,
    /// Leases that ended without an outcome: their client is gone.
    pub expired: u32,
}

impl ProbeTally {
    pub(crate) const fn outcomes(&self) -> u32 {
        self.succeeded + self.failed
    }
}

/// A probe that is out.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) id: ProbeId,
    pub(crate) slot: Slot,
    pub(crate) session: Option<Session>,
    /// When it ends without an outcome.
    pub(crate) ends: Timestamp,
}

/// How a period ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Failed { needed: u32 },
    Slow { needed: u32 },
    Succeeded { needed: u32 },
}

/// One half-open period. It ends under the policy it began with.
#[derive(Clone, Debug)]
pub(crate) struct HalfOpen {
    pub(crate) policy: Arc<Policy>,
    pub(crate) reopenings: u32,
    pub(crate) leases: Vec<Lease>,
    pub(crate) tally: ProbeTally,
    succeeded_by: Vec<Slot>,
    failed_by: Vec<Slot>,
    /// Since when the limit runs: a lease is out or an outcome has come in.
    asked_since: Option<Timestamp>,
    /// The latest instant that a dependency asked to wait for.
    pub(crate) retry_at: Option<Timestamp>,
    /// Whether probes were last shown to be available, and since when.
    pub(crate) shown: Shown,
}

/// What watchers were last told about the availability of probes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) available: bool,
    pub(crate) at: Timestamp,
}

impl HalfOpen {
    pub(crate) fn new(policy: &Arc<Policy>, reopenings: u32, now: Timestamp) -> Self {
        let permitted = policy.spec().half_open.permitted_calls;
        Self {
            policy: Arc::clone(policy),
            reopenings,
            leases: Vec::new(),
            tally: ProbeTally { permitted, ..ProbeTally::default() },
            succeeded_by: Vec::new(),
            failed_by: Vec::new(),
            asked_since: None,
            retry_at: None,
            shown: Shown { available: true, at: now },
        }
    }

    /// Places for another probe. Ignored and abandoned probes came back; until a quorum of instances failed, so does
    /// the place of a failed one, so that whoever asks first does not decide alone.
    pub(crate) fn places(&self, known: u32) -> u32 {
        let out = u32::try_from(self.leases.len()).unwrap_or(u32::MAX);
        let returned = self.tally.failed.min(self.quorum(known) - 1);
        let used = out + self.tally.succeeded + (self.tally.failed - returned);
        // Leases never exceed the permitted calls, whatever came back.
        self.tally.permitted.saturating_sub(used)
    }

    /// Whether this instance may have a probe: one at a time until its first success, none after a failure. A sole
    /// instance is exempt.
    pub(crate) fn may_probe(&self, slot: Slot, known: u32) -> bool {
        if is_sole(known) {
            return true;
        }
        let has_one_out = self.leases.iter().any(|lease| lease.slot == slot);
        !self.failed_by.contains(&slot) && (!has_one_out || self.succeeded_by.contains(&slot))
    }

    pub(crate) fn lease(&mut self, id: ProbeId, slot: Slot, session: Option<Session>, now: Timestamp) {
        let ends = now.plus(self.policy.spec().half_open.probe_timeout).plus(LEASE_GRACE);
        self.leases.push(Lease { id, slot, session, ends });
        self.asked_since.get_or_insert(now);
    }

    /// Takes a lease back, if this instance holds it.
    pub(crate) fn take(&mut self, id: ProbeId, slot: Slot) -> Option<Lease> {
        let place = self.leases.iter().position(|lease| lease.id == id && lease.slot == slot)?;
        let lease = self.leases.swap_remove(place);
        self.rest();
        Some(lease)
    }

    /// Takes the outcome of a probe in. One that says nothing leaves its place to another.
    pub(crate) fn record(&mut self, slot: Slot, outcomes: Outcomes, now: Timestamp) {
        let by = if outcomes.failures > 0 {
            self.tally.failed += 1;
            self.tally.slow += u32::from(outcomes.slow_failures > 0);
            &mut self.failed_by
        } else if outcomes.successes > 0 {
            self.tally.succeeded += 1;
            self.tally.slow += u32::from(outcomes.slow_successes > 0);
            &mut self.succeeded_by
        } else {
            return;
        };
        if !by.contains(&slot) {
            by.push(slot);
        }
        self.asked_since.get_or_insert(now);
    }

    /// Ends the leases whose client is gone.
    pub(crate) fn expire(&mut self, now: Timestamp, is_gone: impl Fn(&Lease) -> bool) {
        let before = self.leases.len();
        self.leases.retain(|lease| now < lease.ends && !is_gone(lease));
        self.tally.expired += u32::try_from(before - self.leases.len()).unwrap_or(0);
        self.rest();
    }

    /// The verdict, as soon as it is certain.
    pub(crate) fn verdict(&self, known: u32) -> Option<Verdict> {
        let rule = self.policy.verdict();
        let ProbeTally { succeeded, failed, slow, .. } = self.tally;
        let quorum = self.quorum(known);
        let failures_to_open =
            if is_sole(known) { rule.failures_to_open } else { rule.failures_to_open.min(known).max(quorum) };
        let agree = u32::try_from(self.failed_by.len()).unwrap_or(u32::MAX) >= quorum;
        if failed >= failures_to_open && agree {
            return Some(Verdict::Failed { needed: failures_to_open });
        }
        if let Some(slow_rule) = rule.slow
            && slow >= slow_rule.to_open
        {
            return Some(Verdict::Slow { needed: slow_rule.to_open });
        }
        let fast_enough =
            rule.slow.is_none_or(|slow_rule| succeeded + failed - slow >= slow_rule.fast_to_close);
        let needed = rule.successes_to_close;
        (succeeded >= needed && fast_enough).then_some(Verdict::Succeeded { needed })
    }

    /// When the limit is reached, if it runs.
    pub(crate) fn limit_at(&self) -> Option<Timestamp> {
        self.asked_since.map(|since| since.plus(self.policy.half_open_limit()))
    }

    /// Whether the limit closes: some success and nothing bad.
    pub(crate) fn limit_closes(&self) -> bool {
        let bad_slow = self.policy.verdict().slow.is_some() && self.tally.slow > 0;
        self.tally.succeeded > 0 && self.tally.failed == 0 && !bad_slow
    }

    /// When the first lease ends.
    pub(crate) fn first_lease_end(&self) -> Option<Timestamp> {
        self.leases.iter().map(|lease| lease.ends).min()
    }

    pub(crate) fn uses(&self, slot: Slot) -> bool {
        self.leases.iter().any(|lease| lease.slot == slot)
            || self.succeeded_by.contains(&slot)
            || self.failed_by.contains(&slot)
    }

    /// With no lease out and no outcome in, nobody has asked: the limit does not run.
    fn rest(&mut self) {
        if self.leases.is_empty() && self.tally.outcomes() == 0 {
            self.asked_since = None;
        }
    }

    /// Instances that must have failed before it reopens.
    fn quorum(&self, known: u32) -> u32 {
        self.policy.spec().guard.min_instances.min(known).max(1)
    }
}

/// One instance alone is the fleet.
const fn is_sole(known: u32) -> bool {
    known <= 1
}
