//! From a script's words to the messages of the contract, so that a script goes through what reads real ones.

use panelboard_core::{OnDisconnect, Policy};
use panelboard_proto::{convert::policy_from_wire, v1};
use serde_json::Value;

use super::script::{OnDisconnectArg, PolicyArgs, RuleArgs, StatusArgs};

/// Milliseconds as a duration of the wire; negative ones too, for a server may send them.
pub(super) const fn span(millis: i64) -> prost_types::Duration {
    prost_types::Duration { seconds: millis / 1_000, nanos: (millis % 1_000) as i32 * 1_000_000 }
}

pub(super) fn millis(span: &prost_types::Duration) -> u64 {
    u64::try_from(span.seconds * 1_000 + i64::from(span.nanos) / 1_000_000).unwrap_or(0)
}

pub(super) const fn generation([epoch, revision]: [u64; 2]) -> v1::Generation {
    v1::Generation { epoch, revision }
}

pub(super) const fn version([epoch, revision]: [u64; 2]) -> v1::Version {
    v1::Version { epoch, revision }
}

pub(super) fn status(name: &str, args: &StatusArgs) -> Result<v1::BreakerStatus, String> {
    let (state, usual) = match args.state.as_str() {
        "CLOSED" => (v1::State::Closed, v1::Admission::Allow),
        "OPEN" => (v1::State::Open, v1::Admission::Reject),
        "HALF_OPEN" => (v1::State::HalfOpen, v1::Admission::Probe),
        other => return Err(format!("there is no state {other:?}: CLOSED, OPEN or HALF_OPEN")),
    };
    let admission = match &args.admission {
        None => usual.into(),
        Some(Value::Number(n)) => {
            n.as_i64().and_then(|n| i32::try_from(n).ok()).ok_or("the admission does not fit into 32 bits")?
        }
        Some(word) => word
            .as_str()
            .and_then(|word| v1::Admission::from_str_name(&format!("ADMISSION_{word}")))
            .ok_or_else(|| format!("there is no admission {word}: ALLOW, REJECT, PROBE or a number"))?
            .into(),
    };
    let over = match &args.over {
        None => None,
        Some(over) => Some(v1::Override {
            kind: v1::OverrideKind::from_str_name(&format!("OVERRIDE_KIND_{}", over.kind))
                .ok_or_else(|| format!("there is no override {:?}", over.kind))?
                .into(),
            who: "ana".into(),
            why: "drill".into(),
            until_tick: over.until_tick,
            remaining: over.remaining_ms.map(span),
            ..v1::Override::default()
        }),
    };
    Ok(v1::BreakerStatus {
        name: name.into(),
        admission,
        state: state.into(),
        r#override: over,
        generation: Some(generation(args.generation)),
        version: Some(version(args.version.unwrap_or(args.generation))),
        deadline_tick: args.deadline_tick,
        remaining: args.remaining_ms.map(span),
        active_instances: args.active_instances,
        ask_within: Some(span(args.ask_within_ms)),
        recovery: args.recovery.as_ref().map(|recovery| v1::Recovery {
            spread: Some(span(recovery.spread_ms)),
            since_tick: recovery.since_tick,
            elapsed: recovery.elapsed_ms.map(span),
        }),
        quarantine: args.quarantine.as_ref().map(|quarantine| v1::Quarantine {
            until_tick: quarantine.until_tick,
            remaining: quarantine.remaining_ms.map(span),
            explanation: "3 of 3 failed here".into(),
            ..v1::Quarantine::default()
        }),
        policy_revision: args.policy.as_ref().map_or(1, |policy| policy.revision),
        policy: args.policy.as_ref().map(policy_message).transpose()?,
        ..v1::BreakerStatus::default()
    })
}

/// A policy that a client can be given: a valid one.
pub(super) fn policy(args: &PolicyArgs) -> Result<Policy, String> {
    policy_from_wire(&policy_message(args)?).map_err(|wrong| crate::wire::sentence(&wrong))
}

fn policy_message(args: &PolicyArgs) -> Result<v1::Policy, String> {
    Ok(v1::Policy {
        name: "script".into(),
        revision: args.revision,
        trip: args.trip.iter().map(rule).collect::<Result<_, _>>()?,
        open: Some(v1::OpenPolicy {
            wait: Some(span(args.open.wait_ms.cast_signed())),
            multiplier: 100,
            max_wait: Some(span(args.open.wait_ms.cast_signed())),
            jitter: 0,
        }),
        half_open: Some(v1::HalfOpenPolicy {
            permitted_calls: args.half_open.permitted_calls,
            probe_timeout: Some(span(args.half_open.probe_timeout_ms.cast_signed())),
            ..v1::HalfOpenPolicy::default()
        }),
        spread: Some(span(0)),
        classification: Some(v1::Classification {
            failure: args.classification.failure.clone(),
            ignored: args.classification.ignored.clone(),
            success: args.classification.success.clone(),
        }),
        on_disconnect: match args.on_disconnect {
            OnDisconnectArg::Local => v1::OnDisconnect::Local,
            OnDisconnectArg::Allow => v1::OnDisconnect::Allow,
            OnDisconnectArg::Deny => v1::OnDisconnect::Deny,
        }
        .into(),
        ..v1::Policy::default()
    })
}

fn rule(args: &RuleArgs) -> Result<v1::TripRule, String> {
    use v1::trip_rule::{Measure, Window};
    let measure = match (args.failure_rate, args.slow_rate, args.failures, args.consecutive_failures) {
        (Some(rate), None, None, None) => Measure::FailureRate(rate),
        (None, Some(rate), None, None) => {
            let slower_than = args.slower_than_ms.map(|ms| span(ms.cast_signed()));
            Measure::SlowRate(v1::SlowRate { rate, slower_than })
        }
        (None, None, Some(n), None) => Measure::Failures(n),
        (None, None, None, Some(n)) => Measure::ConsecutiveFailures(n),
        _ => {
            return Err(
                "a rule has one measure: failure_rate, slow_rate, failures or consecutive_failures".into()
            );
        }
    };
    let window = match (args.within_ms, args.last) {
        (Some(ms), None) => Some(Window::Within(span(ms.cast_signed()))),
        (None, Some(n)) => Some(Window::Last(n)),
        (None, None) => None,
        (Some(_), Some(_)) => return Err("a rule has one window: within_ms or last".into()),
    };
    Ok(v1::TripRule { measure: Some(measure), window, minimum_calls: args.minimum_calls })
}

pub(super) const fn on_disconnect(arg: OnDisconnectArg) -> OnDisconnect {
    match arg {
        OnDisconnectArg::Local => OnDisconnect::Local,
        OnDisconnectArg::Allow => OnDisconnect::Allow,
        OnDisconnectArg::Deny => OnDisconnect::Deny,
    }
}

/// A gRPC status by its name.
pub(super) fn code(name: &str) -> Result<tonic::Code, String> {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    let place = NAMES.iter().position(|known| *known == name);
    place
        .and_then(|place| i32::try_from(place).ok())
        .map(tonic::Code::from_i32)
        .ok_or_else(|| format!("there is no gRPC status {name:?}"))
}
