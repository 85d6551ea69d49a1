//! Metrics of one breaker.
//!
//! What can take few values is there from the first scrape on, at 0, so that the first increase can be seen; causes
//! and transitions come to exist as they happen.

use std::sync::Arc;

use metrics::Label;
use panelboard_core::{Condition, OverrideKind, Reading, RejectionReason, Rule, StateKind, Timestamp};
use panelboard_proto::v1;

use super::{counter, families as f, gauge, label, shared};
use crate::history;
use crate::slot::{Counters, RECOVERIES, Slot};

const CONDITIONS: [Condition; 6] = [
    Condition { state: StateKind::Closed, over: None },
    Condition { state: StateKind::Open, over: None },
    Condition { state: StateKind::HalfOpen, over: None },
    Condition { state: StateKind::Open, over: Some(OverrideKind::ForcedOpen) },
    Condition { state: StateKind::Closed, over: Some(OverrideKind::Disabled) },
    Condition { state: StateKind::Closed, over: Some(OverrideKind::MetricsOnly) },
];
const OUTCOMES: [&str; 4] = ["success", "failure", "ignored", "abandoned"];
const REASONS: [&str; 6] = [
    RejectionReason::Open.as_str(),
    RejectionReason::ProbesTaken.as_str(),
    RejectionReason::ForcedOpen.as_str(),
    RejectionReason::Quarantined.as_str(),
    RejectionReason::Recovering.as_str(),
    "client",
];

const QUARANTINE_REASONS: [&str; 3] = ["crossed", "relapsed", "retry_after"];

/// A breaker at one moment: what is read under its lock, to be shown without it.
#[derive(Debug)]
pub(super) struct Seen {
    name: Arc<str>,
    owner: String,
    condition: Condition,
    counters: Counters,
    would_open_seconds: u64,
    /// The transition that began the state, and when that was.
    last: Option<(Arc<v1::Transition>, u64)>,
    /// The most frequent cause in the window that tripped it, also after it has reopened.
    top_cause: String,
    failures: Option<Gauged>,
    slow: Option<Gauged>,
    active_instances: u32,
    quarantined_instances: u32,
    probes_leased: u32,
    probes_expired: u32,
}

/// What a rule sees in its window.
#[derive(Clone, Copy, Debug)]
struct Gauged {
    calls: u64,
    matched: u64,
    minimum_calls: u32,
}

impl Seen {
    /// Reads a breaker; none: it has just been deleted.
    pub(super) fn of(slot: &Slot, now: Timestamp) -> Option<Self> {
        let cell = slot.lock();
        if cell.deleted {
            return None;
        }
        let breaker = &cell.breaker;
        let (policy, readings) = (breaker.policy(), breaker.readings(now));
        let gauged = |matches: fn(&Rule) -> bool| {
            let rule = policy.spec().trip.iter().find(|rule| matches(rule))?;
            Some(Gauged::new(rule, readings.iter().find(|reading| matches(&reading.rule))))
        };
        let incident = cell.incidents.back().filter(|incident| history::lasts(incident));
        let opened = incident.and_then(|incident| incident.opened.as_ref());
        let top_cause = opened.and_then(|opened| opened.top_causes.first());
        let is_half_open = breaker.condition().state == StateKind::HalfOpen;
        Some(Self {
            name: slot.name.shared(),
            owner: policy.spec().owner.clone(),
            condition: breaker.condition(),
            would_open_seconds: cell.counters.would_open.lasted(now).as_secs(),
            top_cause: top_cause.map(|top| top.cause.clone()).unwrap_or_default(),
            last: cell.last.clone().map(|last| (last, cell.since_unix_ms)),
            failures: gauged(|rule| matches!(rule, Rule::FailureRate { .. }))
                .or_else(|| gauged(|rule| matches!(rule, Rule::Failures { .. }))),
            slow: gauged(|rule| matches!(rule, Rule::SlowRate { .. })),
            active_instances: breaker.status(now).active_instances,
            quarantined_instances: breaker.quarantined_instances(),
            probes_leased: breaker.probes_leased(),
            probes_expired: if is_half_open {
                breaker.probes_expired()
            } else {
                cell.counters.probes_expired
            },
            counters: cell.counters.clone(),
        })
    }

    /// Sets it into the recorder in force.
    pub(super) fn show(&self) {
        for condition in CONDITIONS {
            let labels = self.labels([label("state", condition.as_str())]);
            gauge(&f::STATE, labels, f64::from(u8::from(condition == self.condition)));
        }
        self.show_counters();
        self.show_window();
        gauge(&f::ACTIVE_INSTANCES, self.labels([]), self.active_instances.into());
        gauge(&f::QUARANTINED, self.labels([]), self.quarantined_instances.into());
        gauge(&f::PROBES_LEASED, self.labels([]), self.probes_leased.into());
        gauge(&f::PROBES_EXPIRED, self.labels([]), self.probes_expired.into());
        if let Some((last, since_unix_ms)) = &self.last {
            gauge(&f::LAST_TRANSITION, self.labels([]), *since_unix_ms as f64 / 1_000.0);
            if self.condition.state == StateKind::Open {
                let info = [
                    label("rule", rule_of(last)),
                    label("top_cause", self.top_cause.clone()),
                    label("owner", self.owner.clone()),
                ];
                gauge(&f::OPEN_INFO, self.labels(info), 1.0);
            }
        }
    }

    fn show_counters(&self) {
        let counters = &self.counters;
        for outcome in OUTCOMES {
            let count = counters.calls.get(outcome).copied().unwrap_or(0);
            counter(&f::CALLS, self.labels([label("outcome", outcome)]), count);
        }
        counter(&f::SLOW_CALLS, self.labels([]), counters.slow);
        for (cause, count) in &counters.causes {
            counter(&f::CAUSES, self.labels([shared("cause", cause)]), *count);
        }
        for reason in REASONS {
            let count = counters.rejected.get(reason).copied().unwrap_or(0);
            counter(&f::REJECTED, self.labels([label("reason", reason)]), count);
        }
        for ((from, to, rule), count) in &counters.transitions {
            let labels = self.labels([label("from", *from), label("to", *to), label("rule", *rule)]);
            counter(&f::TRANSITIONS, labels, *count);
        }
        for result in RECOVERIES {
            let count = counters.recoveries.get(result).copied().unwrap_or(0);
            counter(&f::RECOVERIES, self.labels([label("result", result)]), count);
        }
        for why in QUARANTINE_REASONS {
            let count = counters.quarantines.get(why).copied().unwrap_or(0);
            counter(&f::QUARANTINES, self.labels([label("reason", why)]), count);
        }
        counter(&f::WOULD_OPEN, self.labels([]), self.would_open_seconds);
    }

    fn show_window(&self) {
        if let Some(failures) = self.failures {
            gauge(&f::FAILURE_RATIO, self.labels([]), failures.ratio());
            let calls = [("failure", failures.matched), ("success", failures.calls - failures.matched)];
            for (outcome, count) in calls {
                gauge(&f::WINDOW_CALLS, self.labels([label("outcome", outcome)]), count as f64);
            }
        }
        if let Some(slow) = self.slow {
            gauge(&f::SLOW_RATIO, self.labels([]), slow.ratio());
            if self.failures.is_none() {
                let calls = [("slow", slow.matched), ("fast", slow.calls - slow.matched)];
                for (outcome, count) in calls {
                    gauge(&f::WINDOW_CALLS, self.labels([label("outcome", outcome)]), count as f64);
                }
            }
        }
        if let Some(first) = self.failures.or(self.slow) {
            gauge(&f::MINIMUM_CALLS, self.labels([]), first.minimum_calls.into());
        }
    }

    fn labels<const N: usize>(&self, more: [Label; N]) -> Vec<Label> {
        let mut labels = Vec::with_capacity(N + 1);
        labels.push(shared("breaker", &self.name));
        labels.extend(more);
        labels
    }
}

impl Gauged {
    fn new(rule: &Rule, reading: Option<&Reading>) -> Self {
        let (calls, matched) = reading.map_or((0, 0), |reading| (reading.calls, reading.matched));
        Self { calls, matched: matched.min(calls), minimum_calls: rule.minimum_calls() }
    }

    fn ratio(self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.matched as f64 / self.calls as f64 }
    }
}

/// The rule that was crossed, else the reason's own word, as transitions are counted.
fn rule_of(transition: &v1::Transition) -> String {
    match &transition.crossing {
        Some(crossing) => crossing.measure.clone(),
        None => {
            let name = transition.reason().as_str_name();
            name.strip_prefix("TRANSITION_REASON_").unwrap_or(name).to_lowercase()
        }
    }
}
