//! `/breakers` and `/breakers/NAME`: text for people, JSON on Accept.

use axum::{
    Json,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use panelboard_core::{BreakerName, Condition, Pattern, Span, Status};
use panelboard_proto::{convert::duration_from_wire, v1};
use serde_json::{Value, json};

use super::App;
use crate::{
    limits::BREAKERS_LISTED,
    registry::Seen,
    view::{self, View},
};

/// `?pattern=checkout/*` lists some; without it all.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Selected {
    pattern: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    Query(selected): Query<Selected>,
    headers: HeaderMap,
) -> Response {
    let registry = &app.parts.registry;
    let pattern = match selected.pattern.as_deref().map(Pattern::parse).transpose() {
        Ok(pattern) => pattern,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("pattern: {error}\n")).into_response(),
    };
    let names = registry.names(pattern.as_ref());
    let total = names.len();
    let look = |name: &BreakerName| Some((name.clone(), registry.look(&*registry.find(name)?)));
    let rows: Vec<_> = names.iter().take(BREAKERS_LISTED).filter_map(look).collect();
    if wants_json(&headers) {
        let breakers: Vec<Value> = rows.iter().map(|(name, seen)| summary(name, seen)).collect();
        return Json(json!({ "breakers": breakers, "total": total })).into_response();
    }
    let mut text = String::new();
    if rows.is_empty() && pattern.is_some() {
        text.push_str("no breaker that exists matches the pattern\n");
    } else if rows.is_empty() {
        text.push_str("no breaker exists yet: the first call to a name that a policy matches makes it\n");
    }
    let width = rows.iter().map(|(name, _)| name.as_str().len()).max().unwrap_or(0);
    for (name, seen) in &rows {
        text.push_str(&format!("{:width$}  {}\n", name.as_str(), seen.progress));
    }
    if total > rows.len() {
        text.push_str(&format!("... and {} more: ask for one by name\n", total - rows.len()));
    }
    text.into_response()
}

pub(super) async fn one(State(app): State<App>, Path(name): Path<String>, headers: HeaderMap) -> Response {
    let registry = &app.parts.registry;
    let name = match BreakerName::parse(&name) {
        Ok(name) => name,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let slot = match registry.look_up(&name) {
        Ok(slot) => slot,
        Err(missing) => return (StatusCode::NOT_FOUND, format!("{missing}\n")).into_response(),
    };
    let View { seen, full, incidents } = view::breaker(registry, &slot);
    if wants_json(&headers) {
        let mut value = summary(&name, &seen);
        if let Value::Object(fields) = &mut value {
            let readings = full.readings.iter().map(|reading| {
                json!({
                    "rule": reading.rule,
                    "calls": reading.calls,
                    "matched": reading.matched,
                    "minimum_calls": reading.minimum_calls,
                    "crossed": reading.crossed,
                })
            });
            fields.insert("in_state_for_ms".into(), span(full.in_state_for.as_ref()).into());
            fields.insert("known_instances".into(), full.known_instances.into());
            fields.insert("probes_leased".into(), full.probes_leased.into());
            fields.insert("readings".into(), readings.collect());
            let policy = &seen.after.status.policy;
            let about = policy.spec();
            fields.insert(
                "policy".into(),
                json!({
                    "name": policy.name(),
                    "revision": policy.revision(),
                    "description": about.description,
                    "owner": about.owner,
                    "runbook": about.runbook,
                    "degrades_to": about.degrades_to,
                    "trip": about.trip.iter().map(ToString::to_string).collect::<Vec<_>>(),
                }),
            );
            let told = incidents.iter().map(|incident| {
                json!({
                    "opened": incident.opened.as_ref().map(transition),
                    "reopenings": incident.reopenings,
                    "last_reopenings": incident.last_reopenings.iter().map(transition).collect::<Vec<_>>(),
                    "closed": incident.closed.as_ref().map(transition),
                })
            });
            fields.insert("incidents".into(), told.collect());
        }
        return Json(value).into_response();
    }
    page(&name, &seen, &full, &incidents).into_response()
}

fn page(
    name: &BreakerName,
    seen: &Seen,
    full: &v1::GetBreakerResponse,
    incidents: &[std::sync::Arc<v1::Incident>],
) -> String {
    let Seen { after, progress } = seen;
    let policy = &after.status.policy;
    let about = policy.spec();
    let mut text = format!("{name}\n{progress}\n\n");
    let mut line = |label: &str, value: String| {
        if !value.is_empty() {
            text.push_str(&format!("{label:<18}{value}\n"));
        }
    };
    let since = Span(full.in_state_for.as_ref().and_then(duration_from_wire).unwrap_or_default());
    line("in this state", since.to_string());
    line("because", full.status.as_ref().map(explanation).unwrap_or_default());
    line("generation", after.status.generation.to_string());
    line("instances", format!("{} known, {} active", full.known_instances, after.status.active_instances));
    line("probes out", full.probes_leased.to_string());
    line("policy", format!("{} rev {}", policy.name(), policy.revision()));
    line("description", about.description.clone());
    line("owner", about.owner.clone());
    line("runbook", about.runbook.clone());
    line("degrades to", about.degrades_to.clone());
    for reading in &full.readings {
        let crossed = if reading.crossed { ", crossed" } else { "" };
        line("rule", format!("{}: {} of {}{crossed}", reading.rule, reading.matched, reading.calls));
    }
    for incident in incidents {
        let opened = incident.opened.as_ref().map(|opened| opened.explanation.clone()).unwrap_or_default();
        let ended = match &incident.closed {
            Some(closed) => format!("closed: {}", closed.explanation),
            None => "lasting".into(),
        };
        let reopened = match incident.reopenings {
            0 => String::new(),
            1 => " reopened once;".into(),
            n => format!(" reopened {n} times;"),
        };
        line("incident", format!("{opened};{reopened} {ended}"));
    }
    text
}

fn summary(name: &BreakerName, seen: &Seen) -> Value {
    let Seen { after, progress } = seen;
    let Status { state, over, generation, deadline, active_instances, policy, .. } = &after.status;
    let condition = Condition { state: *state, over: over.as_ref().map(|over| over.kind) };
    json!({
        "name": name.as_str(),
        "state": Condition { state: *state, over: None }.as_str(),
        "override": over.as_ref().map(|over| json!({
            "kind": condition.as_str(),
            "who": &*over.hand.who,
            "why": &*over.hand.why,
            "would_open": over.would_open.is_some(),
        })),
        "generation": generation.to_string(),
        "remaining_ms": deadline.map(|end| u64::try_from(end.since(after.now).as_millis()).unwrap_or(u64::MAX)),
        "active_instances": active_instances,
        "progress": progress,
        "last_transition": after.last.as_deref().map(transition),
        "policy_name": policy.name(),
        "policy_revision": policy.revision(),
        "owner": policy.spec().owner,
    })
}

fn transition(transition: &v1::Transition) -> Value {
    let millis = transition.time.as_ref().map(panelboard_proto::convert::wall_from_wire);
    json!({
        "from": transition.from().as_str_name(),
        "to": transition.to().as_str_name(),
        "reason": transition.reason().as_str_name(),
        "explanation": transition.explanation,
        "unix_ms": millis,
        "previous_lasted_ms": span(transition.previous_lasted.as_ref()),
        "top_causes": transition.top_causes.iter().map(|c| json!({"cause": c.cause, "count": c.count}))
            .collect::<Vec<_>>(),
    })
}

fn explanation(status: &v1::BreakerStatus) -> String {
    status.last_transition.as_ref().map(|last| last.explanation.clone()).unwrap_or_default()
}

fn span(wire: Option<&prost_types::Duration>) -> u64 {
    let span = wire.and_then(duration_from_wire).unwrap_or_default();
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn wants_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("application/json"))
}
