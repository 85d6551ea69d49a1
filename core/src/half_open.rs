//! The half-open period: leased probes and the verdict over them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    classify::Cause,
    ids::{ProbeId, Session},
    members::Slot,
    outcome::Outcomes,
    policy::Policy,
    tally::{CAUSES_MAX, most_frequent},
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
    /// Of the failed ones, those that ran past the deadline they were granted.
    pub overdue: u32,
    /// Leases that ended without an outcome: their client is gone.
    pub expired: u32,
}

impl ProbeTally {
    pub(crate) const fn outcomes(&self) -> u32 {
        self.succeeded + self.failed
    }

    /// The probes that a number of them is a part of: those permitted, or more if places came back.
    pub(crate) fn all(&self) -> u32 {
        self.permitted.max(self.outcomes())
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
    /// Instances with a bad probe: a failed one, or a slow one where a rule looks at that.
    bad_by: Vec<Slot>,
    /// Instances that let a lease run out.
    lost_by: Vec<Slot>,
    /// Instances that the dependency asked to wait, and until when.
    asked: Vec<(Slot, Timestamp)>,
    /// Bad probes whose place came back.
    returned: u32,
    causes: BTreeMap<Cause, u64>,
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
            bad_by: Vec::new(),
            lost_by: Vec::new(),
            asked: Vec::new(),
            returned: 0,
            causes: BTreeMap::new(),
            asked_since: None,
            retry_at: None,
            shown: Shown { available: true, at: now },
        }
    }

    /// Places for another probe. Ignored and abandoned probes came back, and so did bad ones of too few instances.
    pub(crate) fn places(&self) -> u32 {
        let out = u32::try_from(self.leases.len()).unwrap_or(u32::MAX);
        let used = out + (self.tally.outcomes() - self.returned);
        // Leases never exceed the permitted calls, whatever came back.
        self.tally.permitted.saturating_sub(used)
    }

    /// Whether this instance may have a probe: one at a time until its first success, none after a bad one and none after
    /// one that never came back. A sole instance is exempt.
    pub(crate) fn may_probe(&self, slot: Slot, known: u32) -> bool {
        if is_sole(known) {
            return true;
        }
        let has_one_out = self.leases.iter().any(|lease| lease.slot == slot);
        let had_its_turn = self.bad_by.contains(&slot) || self.lost_by.contains(&slot);
        !had_its_turn && (!has_one_out || self.succeeded_by.contains(&slot))
    }

    pub(crate) fn lease(&mut self, id: ProbeId, slot: Slot, session: Option<Session>, now: Timestamp) {
        let ends = now.plus(self.policy.spec().half_open.probe_timeout).plus(LEASE_GRACE);
        self.leases.push(Lease { id, slot, session, ends });
        self.asked_since.get_or_insert(now);
    }

    /// Takes a lease back with the outcome of its probe, if this instance holds it. An outcome that says nothing
    /// leaves the place to another, and so does a bad one while fewer instances had one than a quorum: whoever asks
    /// first does not decide alone.
    pub(crate) fn take_back(
        &mut self,
        id: ProbeId,
        slot: Slot,
        outcomes: Outcomes,
        known: u32,
        now: Timestamp,
    ) -> bool {
        let Some(place) = self.leases.iter().position(|lease| lease.id == id && lease.slot == slot) else {
            return false;
        };
        let lease = self.leases.swap_remove(place);
        let failed = outcomes.failures > 0;
        let slow = if failed { outcomes.slow_failures > 0 } else { outcomes.slow_successes > 0 };
        if failed {
            self.tally.failed += 1;
            self.tally.overdue += u32::from(now.plus(LEASE_GRACE) >= lease.ends);
        } else if outcomes.successes > 0 {
            self.tally.succeeded += 1;
        } else {
            self.rest();
            return true;
        }
        self.tally.slow += u32::from(slow);
        if failed || slow && self.policy.verdict().slow.is_some() {
            note(&mut self.bad_by, slot);
            // Those that share a place have no say: one of them may be sick and speak for all.
            self.returned += u32::from(slot == Slot::OTHERS || !self.agree(known));
        } else {
            note(&mut self.succeeded_by, slot);
        }
        true
    }

    /// The dependency asked an instance to wait: it has no probe until then, and the others may.
    pub(crate) fn ask(&mut self, slot: Slot, until: Timestamp) {
        match self.asked.iter_mut().find(|(other, _)| *other == slot) {
            Some((_, earlier)) => *earlier = until.max(*earlier),
            None if slot == Slot::OTHERS => {}
            None => self.asked.push((slot, until)),
        }
    }

    /// Until when an instance is to wait, if it is now.
    pub(crate) fn asked_until(&self, slot: Slot, now: Timestamp) -> Option<Timestamp> {
        let asked = self.asked.iter().find(|(other, _)| *other == slot);
        asked.map(|(_, until)| *until).filter(|until| now < *until)
    }

    /// Counts the causes of a probe that came back.
    pub(crate) fn note_causes(&mut self, causes: &[(Cause, u64)]) {
        for (cause, n) in causes {
            if self.causes.len() < CAUSES_MAX || self.causes.contains_key(cause) {
                let count = self.causes.entry(cause.clone()).or_default();
                *count = count.saturating_add(*n);
            }
        }
    }

    /// The causes of the period, most frequent first, at most `most`.
    pub(crate) fn top_causes(&self, most: usize) -> Vec<(Cause, u64)> {
        most_frequent(self.causes.iter().map(|(cause, n)| (cause.clone(), *n)), most)
    }

    /// Ends the leases whose time is over, and those whose client is gone.
    pub(crate) fn expire(&mut self, now: Timestamp, is_gone: impl Fn(&Lease) -> bool) {
        let before = self.leases.len();
        let lost_by = &mut self.lost_by;
        self.leases.retain(|lease| {
            if now >= lease.ends {
                note(lost_by, lease.slot);
            }
            now < lease.ends && !is_gone(lease)
        });
        self.tally.expired += u32::try_from(before - self.leases.len()).unwrap_or(0);
        self.rest();
    }

    /// The verdict, as soon as it is certain.
    pub(crate) fn verdict(&self, known: u32) -> Option<Verdict> {
        let rule = self.policy.verdict();
        let ProbeTally { succeeded, failed, slow, .. } = self.tally;
        // Each instance has one bad probe at most, unless it is alone.
        let most = if is_sole(known) { u32::MAX } else { known };
        let to_open = rule.failures_to_open.min(most);
        let slow_to_open = rule.slow.map(|slow_rule| slow_rule.to_open.min(most));
        if self.agree(known) {
            let quorum = self.quorum(known);
            if failed >= to_open {
                return Some(Verdict::Failed { needed: to_open.max(quorum).min(failed) });
            }
            if let Some(to_open) = slow_to_open
                && slow >= to_open
            {
                return Some(Verdict::Slow { needed: to_open.max(quorum).min(slow) });
            }
            // Some failed, the others were slow: nobody is left to ask.
            if self.bad() >= most {
                return Some(if failed > slow {
                    Verdict::Failed { needed: failed }
                } else {
                    Verdict::Slow { needed: slow }
                });
            }
        }
        let fast_enough =
            rule.slow.is_none_or(|slow_rule| succeeded + failed - slow >= slow_rule.fast_to_close);
        let needed = rule.successes_to_close;
        (succeeded >= needed && fast_enough).then_some(Verdict::Succeeded { needed })
    }

    /// Whether fewer known instances could make a verdict certain.
    pub(crate) const fn heeds_known(&self) -> bool {
        !self.bad_by.is_empty()
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
            || self.bad_by.contains(&slot)
            || self.lost_by.contains(&slot)
            || self.asked.iter().any(|(other, _)| *other == slot)
    }

    /// With no lease out and no outcome in, nobody has asked: the limit does not run.
    fn rest(&mut self) {
        if self.leases.is_empty() && self.tally.outcomes() == 0 {
            self.asked_since = None;
        }
    }

    /// Whether as many instances had a bad probe as must have before it reopens.
    fn agree(&self, known: u32) -> bool {
        self.bad() >= self.quorum(known)
    }

    /// Instances with a bad probe, each of its own.
    fn bad(&self) -> u32 {
        let bad = self.bad_by.iter().filter(|slot| **slot != Slot::OTHERS);
        u32::try_from(bad.count()).unwrap_or(u32::MAX)
    }

    /// Instances that must have had a bad probe before it reopens.
    fn quorum(&self, known: u32) -> u32 {
        self.policy.spec().guard.min_instances.min(known).max(1)
    }
}

fn note(slots: &mut Vec<Slot>, slot: Slot) {
    if !slots.contains(&slot) {
        slots.push(slot);
    }
}

/// One instance alone is the fleet.
const fn is_sole(known: u32) -> bool {
    known <= 1
}
