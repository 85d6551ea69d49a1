//! Policies.

use std::time::Duration;

use panelboard_core::{
    Classification, GuardSpec, HalfOpenSpec, OnDisconnect, OpenSpec, Policy, PolicySpec, Rate,
    RetryAfterScope, Rule, Violation, Window,
};

use super::{duration_from_wire, duration_to_wire};
use crate::v1;

/// A policy as a message.
pub fn policy_to_wire(policy: &Policy) -> v1::Policy {
    let spec = policy.spec();
    let verdict = policy.verdict();
    v1::Policy {
        name: spec.name.clone(),
        revision: policy.revision(),
        description: spec.description.clone(),
        owner: spec.owner.clone(),
        runbook: spec.runbook.clone(),
        degrades_to: spec.degrades_to.clone(),
        trip: spec.trip.iter().map(rule_to_wire).collect(),
        open: Some(v1::OpenPolicy {
            wait: Some(duration_to_wire(spec.open.wait)),
            multiplier: spec.open.multiplier_hundredths,
            max_wait: Some(duration_to_wire(spec.open.max_wait)),
            jitter: spec.open.jitter_hundredths,
        }),
        half_open: Some(v1::HalfOpenPolicy {
            permitted_calls: spec.half_open.permitted_calls,
            probe_timeout: Some(duration_to_wire(spec.half_open.probe_timeout)),
            limit: Some(duration_to_wire(policy.half_open_limit())),
            successes_to_close: verdict.successes_to_close,
            failures_to_open: verdict.failures_to_open,
        }),
        spread: Some(duration_to_wire(spec.spread)),
        guard: Some(v1::GuardPolicy {
            min_instances: spec.guard.min_instances,
            share: Some(spec.guard.share_hundredths),
            min_calls: Some(spec.guard.min_calls),
        }),
        classification: Some(v1::Classification {
            failure: spec.classification.failure.clone(),
            ignored: spec.classification.ignored.clone(),
            success: spec.classification.success.clone(),
        }),
        on_disconnect: match spec.on_disconnect {
            OnDisconnect::Local => v1::OnDisconnect::Local,
            OnDisconnect::Allow => v1::OnDisconnect::Allow,
            OnDisconnect::Deny => v1::OnDisconnect::Deny,
        }
        .into(),
        retry_after: Some(v1::RetryAfterPolicy {
            max: Some(duration_to_wire(spec.retry_after_max)),
            scope: match spec.retry_after_scope {
                RetryAfterScope::Instance => v1::RetryAfterScope::Instance,
                RetryAfterScope::Fleet => v1::RetryAfterScope::Fleet,
                RetryAfterScope::Off => v1::RetryAfterScope::Off,
            }
            .into(),
        }),
    }
}

/// A message as a policy. What is absent takes its default.
///
/// # Errors
/// All that is wrong with it.
pub fn policy_from_wire(wire: &v1::Policy) -> Result<Policy, Vec<Violation>> {
    let default = PolicySpec::default();
    let mut wrong = Vec::new();
    let mut span = |path: &str, wire: Option<&prost_types::Duration>, absent: Duration| match wire {
        None => absent,
        Some(wire) => duration_from_wire(wire).unwrap_or_else(|| {
            wrong.push(violation(path, "is negative or not a duration"));
            absent
        }),
    };
    let open = wire.open.as_ref().map_or(default.open, |open| OpenSpec {
        wait: span("open.wait", open.wait.as_ref(), default.open.wait),
        multiplier_hundredths: open.multiplier,
        max_wait: span("open.max_wait", open.max_wait.as_ref(), default.open.max_wait),
        jitter_hundredths: open.jitter,
    });
    let some = |n: u32| (n != 0).then_some(n);
    let half_open = wire.half_open.as_ref().map_or(default.half_open, |half_open| HalfOpenSpec {
        permitted_calls: half_open.permitted_calls,
        probe_timeout: span(
            "half_open.probe_timeout",
            half_open.probe_timeout.as_ref(),
            default.half_open.probe_timeout,
        ),
        limit: half_open.limit.as_ref().and_then(duration_from_wire),
        successes_to_close: some(half_open.successes_to_close),
        failures_to_open: some(half_open.failures_to_open),
    });
    let spread = span("close.spread", wire.spread.as_ref(), default.spread);
    let asked = wire.retry_after.as_ref().and_then(|retry_after| retry_after.max.as_ref());
    let retry_after_max = span("retry_after.max", asked, default.retry_after_max);
    let mut trip = Vec::new();
    for (index, rule) in wire.trip.iter().enumerate() {
        match rule_from_wire(rule) {
            Ok(rule) => trip.push(rule),
            Err(message) => wrong.push(violation(&format!("trip[{index}]"), message)),
        }
    }
    let lists = wire.classification.clone().unwrap_or_default();
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let spec = PolicySpec {
        name: wire.name.clone(),
        description: wire.description.clone(),
        owner: wire.owner.clone(),
        runbook: wire.runbook.clone(),
        degrades_to: wire.degrades_to.clone(),
        trip,
        open,
        half_open,
        spread,
        guard: wire.guard.map_or(default.guard, |guard| GuardSpec {
            min_instances: guard.min_instances,
            share_hundredths: guard.share.unwrap_or(default.guard.share_hundredths),
            min_calls: guard.min_calls.unwrap_or(default.guard.min_calls),
        }),
        classification: Classification {
            failure: lists.failure,
            ignored: lists.ignored,
            success: lists.success,
        },
        retry_after_scope: match wire.retry_after.unwrap_or_default().scope() {
            v1::RetryAfterScope::Unspecified | v1::RetryAfterScope::Instance => RetryAfterScope::Instance,
            v1::RetryAfterScope::Fleet => RetryAfterScope::Fleet,
            v1::RetryAfterScope::Off => RetryAfterScope::Off,
        },
        retry_after_max,
        on_disconnect: match wire.on_disconnect() {
            v1::OnDisconnect::Unspecified | v1::OnDisconnect::Local => OnDisconnect::Local,
            v1::OnDisconnect::Allow => OnDisconnect::Allow,
            v1::OnDisconnect::Deny => OnDisconnect::Deny,
        },
    };
    Policy::try_new(spec, wire.revision)
}

fn violation(path: &str, message: &str) -> Violation {
    Violation { path: path.into(), message: message.into() }
}

fn rule_to_wire(rule: &Rule) -> v1::TripRule {
    use v1::trip_rule::{Measure, Window as Wire};
    let measure = match rule {
        Rule::FailureRate { threshold, .. } => Measure::FailureRate(threshold.hundredths()),
        Rule::SlowRate { threshold, slower_than, .. } => Measure::SlowRate(v1::SlowRate {
            rate: threshold.hundredths(),
            slower_than: Some(duration_to_wire(*slower_than)),
        }),
        Rule::Failures { threshold, .. } => Measure::Failures(*threshold),
        Rule::ConsecutiveFailures { threshold } => Measure::ConsecutiveFailures(*threshold),
    };
    let window = rule.window().map(|window| match window {
        Window::Within(span) => Wire::Within(duration_to_wire(span)),
        Window::Last(size) => Wire::Last(size),
    });
    v1::TripRule { measure: Some(measure), window, minimum_calls: rule.minimum_calls() }
}

fn rule_from_wire(wire: &v1::TripRule) -> Result<Rule, &'static str> {
    use v1::trip_rule::{Measure, Window as Wire};
    let window = || match &wire.window {
        Some(Wire::Within(span)) => duration_from_wire(span).map(Window::Within).ok_or("within is negative"),
        Some(Wire::Last(size)) => Ok(Window::Last(*size)),
        None => Err("has no window: give within or last"),
    };
    let rate = |hundredths| {
        Rate::from_hundredths(hundredths).ok_or("the rate is not 1 to 10,000 hundredths of a percent")
    };
    let minimum_calls = wire.minimum_calls;
    match &wire.measure {
        Some(Measure::FailureRate(hundredths)) => {
            Ok(Rule::FailureRate { threshold: rate(*hundredths)?, window: window()?, minimum_calls })
        }
        Some(Measure::SlowRate(slow)) => Ok(Rule::SlowRate {
            threshold: rate(slow.rate)?,
            slower_than: slow
                .slower_than
                .as_ref()
                .and_then(duration_from_wire)
                .ok_or("has no slower_than")?,
            window: window()?,
            minimum_calls,
        }),
        Some(Measure::Failures(threshold)) => Ok(Rule::Failures { threshold: *threshold, window: window()? }),
        Some(Measure::ConsecutiveFailures(threshold)) => {
            Ok(Rule::ConsecutiveFailures { threshold: *threshold })
        }
        None => Err("has no measure"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_survives_the_wire() {
        let trip = vec![
            Rule::FailureRate {
                threshold: Rate::percent(50).unwrap(),
                window: Window::Last(7),
                minimum_calls: 3,
            },
            Rule::SlowRate {
                threshold: Rate::percent(80).unwrap(),
                slower_than: Duration::from_millis(1_500),
                window: Window::Within(Duration::from_secs(9)),
                minimum_calls: 4,
            },
            Rule::Failures { threshold: 5, window: Window::Within(Duration::from_secs(10)) },
            Rule::ConsecutiveFailures { threshold: 6 },
        ];
        let guard = GuardSpec { min_instances: 4, share_hundredths: 0, min_calls: 9 };
        let retry_after_scope = RetryAfterScope::Fleet;
        let spec = PolicySpec { trip, guard, retry_after_scope, ..PolicySpec::default() };
        let policy = Policy::try_new(spec, 3).unwrap();
        let back = policy_from_wire(&policy_to_wire(&policy)).unwrap();
        assert_eq!(back.spec().trip, policy.spec().trip);
        assert_eq!((back.spec().guard, back.spec().retry_after_scope), (guard, retry_after_scope));
        assert_eq!((back.verdict(), back.half_open_limit()), (policy.verdict(), policy.half_open_limit()));
        assert_eq!(policy_to_wire(&back), policy_to_wire(&policy));
    }

    #[test]
    fn what_an_older_server_does_not_send_has_its_default() {
        let mut wire = policy_to_wire(&Policy::try_new(PolicySpec::default(), 1).unwrap());
        wire.guard = Some(v1::GuardPolicy { min_instances: 3, ..v1::GuardPolicy::default() });
        wire.retry_after = Some(v1::RetryAfterPolicy { max: None, scope: 99 });
        let back = policy_from_wire(&wire).unwrap();
        let default = PolicySpec::default();
        assert_eq!(back.spec().guard, GuardSpec { min_instances: 3, ..default.guard });
        assert_eq!(back.spec().retry_after_scope, RetryAfterScope::Instance);
        assert_eq!(back.spec().retry_after_max, default.retry_after_max);
    }
}
