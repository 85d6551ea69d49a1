//! What explains a breaker, as JSON: the messages of the contract, with durations in milliseconds.

use panelboard_proto::{
    convert::{duration_from_wire, wall_from_wire},
    v1,
};
use serde_json::{Value, json};

/// A duration in whole milliseconds; none where there is none.
pub(super) fn span(wire: Option<&prost_types::Duration>) -> Option<u64> {
    let span = wire.and_then(duration_from_wire)?;
    Some(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// Why a state began, with all its numbers.
pub(super) fn transition(transition: &v1::Transition) -> Value {
    let mut value = json!({
        "from": transition.from().as_str_name(),
        "to": transition.to().as_str_name(),
        "from_override": over(transition.from_override()),
        "to_override": over(transition.to_override()),
        "reason": transition.reason().as_str_name(),
        "explanation": transition.explanation,
        "unix_ms": transition.time.as_ref().map(wall_from_wire),
        "previous_lasted_ms": span(transition.previous_lasted.as_ref()),
        "top_causes": causes(&transition.top_causes),
        "active_instances": transition.active_instances,
        "policy": transition.policy,
        "policy_revision": transition.policy_revision,
    });
    let extra = [
        (
            "generation",
            transition.generation.map(|stretch| json!(format!("{}.{}", stretch.epoch, stretch.revision))),
        ),
        ("crossing", transition.crossing.as_ref().map(crossing)),
        ("probes", transition.probes.as_ref().map(probes)),
        ("wait", transition.wait.as_ref().map(wait)),
        ("asked_to_wait", transition.asked_to_wait.as_ref().map(asked)),
        ("set_for_ms", span(transition.set_for.as_ref()).map(Value::from)),
        ("who", (!transition.who.is_empty()).then(|| json!(transition.who))),
        ("why", (!transition.why.is_empty()).then(|| json!(transition.why))),
    ];
    add(&mut value, extra);
    value
}

/// One instance that is kept out.
pub(super) fn quarantine(held: &v1::Quarantine) -> Value {
    let mut value = json!({
        "service": held.service,
        "instance": held.instance,
        "reason": held.reason().as_str_name(),
        "explanation": held.explanation,
        "unix_ms": held.time.as_ref().map(wall_from_wire),
        "remaining_ms": span(held.remaining.as_ref()),
        "wait_ms": span(held.wait.as_ref()),
        "in_a_row": held.in_a_row,
        "top_causes": causes(&held.top_causes),
        "active_instances": held.active_instances,
        "required_instances": held.required_instances,
        "policy": held.policy,
        "policy_revision": held.policy_revision,
    });
    let extra = [
        ("crossing", held.crossing.as_ref().map(numbers)),
        ("lasted_ms", span(held.lasted.as_ref()).map(Value::from)),
        ("asked_ms", span(held.asked.as_ref()).map(Value::from)),
    ];
    add(&mut value, extra);
    value
}

/// What METRICS_ONLY keeps from happening.
pub(super) fn would_open(would: &v1::WouldOpen) -> Value {
    json!({
        "explanation": would.explanation,
        "unix_ms": would.time.as_ref().map(wall_from_wire),
        "crossing": would.crossing.as_ref().map(crossing),
        "top_causes": causes(&would.top_causes),
        "active_instances": would.active_instances,
        "wait_ms": span(would.wait.as_ref()),
        "policy": would.policy,
        "policy_revision": would.policy_revision,
    })
}

/// From a trip to the close that ended it, or what METRICS_ONLY kept from being that.
pub(super) fn incident(incident: &v1::Incident) -> Value {
    let mut value = json!({
        "opened": incident.opened.as_ref().map(transition),
        "reopenings": incident.reopenings,
        "last_reopenings": incident.last_reopenings.iter().map(transition).collect::<Vec<_>>(),
        "closed": incident.closed.as_ref().map(transition),
    });
    let would = incident.would_open.as_ref();
    let extra = [
        ("would_open", would.map(would_open)),
        (
            "would_open_ended_unix_ms",
            would.map(|_| incident.would_open_ended.as_ref().map(wall_from_wire).into()),
        ),
    ];
    add(&mut value, extra);
    value
}

fn crossing(crossing: &v1::RuleCrossing) -> Value {
    let instance = |one: &v1::InstanceCount| json!({ "service": one.service, "instance": one.instance, "count": one.count });
    let mut value = numbers(crossing);
    let by = match crossing.by() {
        v1::TripBy::Unspecified => None,
        v1::TripBy::Calls | v1::TripBy::Streaks => Some(json!("calls")),
        v1::TripBy::Votes => Some(json!("votes")),
    };
    let is_calls = crossing.by() == v1::TripBy::Calls;
    let of_calls = |n: u64| is_calls.then(|| json!(n));
    let extra = [
        ("affected_instances", Some(crossing.affected_instances.into())),
        ("required_instances", Some(crossing.required_instances.into())),
        ("by", by),
        ("left_out_instances", of_calls(crossing.left_out_instances.into())),
        ("other_calls", of_calls(crossing.other_calls)),
        ("other_matched", of_calls(crossing.other_matched)),
        ("agreeing_instances", (!is_calls).then(|| crossing.agreeing_instances.into())),
        ("top_instances", Some(crossing.top_instances.iter().map(instance).collect())),
    ];
    add(&mut value, extra);
    value
}

/// A rule and its exact numbers, without who crossed it.
fn numbers(crossing: &v1::RuleCrossing) -> Value {
    let mut value = json!({
        "rule": crossing.rule,
        "measure": crossing.measure,
        "calls": crossing.calls,
        "matched": crossing.matched,
        "threshold": crossing.threshold,
        "minimum_calls": crossing.minimum_calls,
    });
    let extra = [
        ("within_ms", span(crossing.within.as_ref()).map(Value::from)),
        ("last", (crossing.last > 0).then(|| crossing.last.into())),
    ];
    add(&mut value, extra);
    value
}

fn probes(probes: &v1::ProbeTally) -> Value {
    json!({
        "permitted": probes.permitted,
        "succeeded": probes.succeeded,
        "failed": probes.failed,
        "slow": probes.slow,
        "overdue": probes.overdue,
        "expired": probes.expired,
        "needed": probes.needed,
        "limit_ms": span(probes.limit.as_ref()),
    })
}

fn wait(wait: &v1::OpenWait) -> Value {
    json!({
        "wait_ms": span(wait.wait.as_ref()),
        "reopenings": wait.reopenings,
        "jitter_ms": span(wait.jitter.as_ref()),
        "retry_after_ms": span(wait.retry_after.as_ref()),
    })
}

fn asked(asked: &v1::AskedToWait) -> Value {
    json!({
        "asked_instances": asked.asked_instances,
        "required_instances": asked.required_instances,
        "longest_ms": span(asked.longest.as_ref()),
    })
}

fn causes(causes: &[v1::CauseCount]) -> Value {
    causes.iter().map(|one| json!({ "cause": one.cause, "count": one.count })).collect()
}

fn over(kind: v1::OverrideKind) -> Option<&'static str> {
    (kind != v1::OverrideKind::Unspecified).then(|| kind.as_str_name())
}

/// Adds what there is.
fn add<const N: usize>(value: &mut Value, fields: [(&str, Option<Value>); N]) {
    if let Value::Object(object) = value {
        object.extend(fields.into_iter().filter_map(|(name, field)| Some((name.to_owned(), field?))));
    }
}
