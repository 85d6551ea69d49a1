//! `/breakers` and `/breakers/NAME`: text for people, JSON on Accept.

use axum::{
    Json,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use panelboard_core::{BreakerName, Condition, Instance, Pattern, Span, Status};
use panelboard_proto::{convert::duration_from_wire, v1};
use serde_json::{Value, json};

use super::{App, json};
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
        let quarantined = match seen.after.status.quarantined_instances {
            0 => String::new(),
            n => format!("; {n} quarantined"),
        };
        text.push_str(&format!("{:width$}  {}{quarantined}\n", name.as_str(), seen.progress));
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
            fields.insert("in_state_for_ms".into(), json::span(full.in_state_for.as_ref()).into());
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
            let quarantines = full.quarantines.iter().map(json::quarantine);
            fields.insert("quarantines".into(), quarantines.collect());
            let told = incidents.iter().map(|incident| json::incident(incident));
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
    let last = full.status.as_ref().and_then(|status| status.last_transition.as_ref());
    if let Some(last) = last {
        line("previous state", previous(last));
        line("causes", causes(last));
    }
    if let Some(crossing) = last.and_then(|last| last.crossing.as_ref()) {
        line("tripped by", tripped_by(crossing));
        line("first instances", first_instances(crossing));
    }
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
    if let Some(would) = &after.would {
        line("would be OPEN", would.explanation.clone());
    }
    for held in &full.quarantines {
        let who = Instance::new(&held.service, &held.instance);
        let left = Span(held.remaining.as_ref().and_then(duration_from_wire).unwrap_or_default());
        line("quarantined", format!("{who} for another {left}: {}", held.explanation));
    }
    let named = u32::try_from(full.quarantines.len()).unwrap_or(u32::MAX);
    if let more @ 1.. = full.quarantined_instances.saturating_sub(named) {
        line("quarantined", format!("and {more} more instances"));
    }
    for incident in incidents {
        line("incident", told(incident));
    }
    text
}

/// One incident in a line.
fn told(incident: &v1::Incident) -> String {
    if let Some(would) = &incident.would_open {
        let ended = if incident.would_open_ended.is_some() { "over" } else { "lasting" };
        let again = match incident.reopenings {
            0 => String::new(),
            n => format!(" crossed again {n} times;"),
        };
        return format!("METRICS_ONLY, {};{again} {ended}", would.explanation);
    }
    let opened = incident.opened.as_ref().map(|opened| opened.explanation.as_str()).unwrap_or_default();
    let ended = match &incident.closed {
        Some(closed) => format!("closed: {}", closed.explanation),
        None => "lasting".into(),
    };
    let reopened = match incident.reopenings {
        0 => String::new(),
        1 => " reopened once;".into(),
        n => format!(" reopened {n} times;"),
    };
    format!("{opened};{reopened} {ended}")
}

fn previous(last: &v1::Transition) -> String {
    let lasted = Span(last.previous_lasted.as_ref().and_then(duration_from_wire).unwrap_or_default());
    let state = last.from().as_str_name().trim_start_matches("STATE_");
    match last.from_override() {
        v1::OverrideKind::Unspecified => format!("{state} for {lasted}"),
        over => {
            format!("{} for {lasted}", over.as_str_name().trim_start_matches("OVERRIDE_KIND_"))
        }
    }
}

fn causes(last: &v1::Transition) -> String {
    let causes = last.top_causes.iter().map(|one| format!("{} {}", one.cause, one.count));
    causes.collect::<Vec<_>>().join(", ")
}

/// Who agreed on it.
fn tripped_by(crossing: &v1::RuleCrossing) -> String {
    let v1::RuleCrossing { required_instances: required, agreeing_instances: agreeing, .. } = crossing;
    match crossing.by() {
        v1::TripBy::Calls => format!(
            "calls, {required} instances needed: {} of {} are left without the worst {}",
            crossing.other_matched, crossing.other_calls, crossing.left_out_instances
        ),
        v1::TripBy::Streaks => format!("calls, {required} instances needed: {agreeing} are in such a streak"),
        v1::TripBy::Votes => format!("votes of {agreeing} instances"),
        v1::TripBy::Unspecified => String::new(),
    }
}

fn first_instances(crossing: &v1::RuleCrossing) -> String {
    let one =
        |one: &v1::InstanceCount| format!("{} {}", Instance::new(&one.service, &one.instance), one.count);
    crossing.top_instances.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn summary(name: &BreakerName, seen: &Seen) -> Value {
    let Seen { after, progress } = seen;
    let Status { state, over, generation, deadline, active_instances, quarantined_instances, policy, .. } =
        &after.status;
    let condition = Condition { state: *state, over: over.as_ref().map(|over| over.kind) };
    json!({
        "name": name.as_str(),
        "state": Condition { state: *state, over: None }.as_str(),
        "override": over.as_ref().map(|over| json!({
            "kind": condition.as_str(),
            "who": &*over.hand.who,
            "why": &*over.hand.why,
            "would_open": over.would_open.is_some(),
            "would": after.would.as_deref().map(json::would_open),
        })),
        "generation": generation.to_string(),
        "remaining_ms": deadline.map(|end| u64::try_from(end.since(after.now).as_millis()).unwrap_or(u64::MAX)),
        "active_instances": active_instances,
        "quarantined_instances": quarantined_instances,
        "progress": progress,
        "last_transition": after.last.as_deref().map(json::transition),
        "policy_name": policy.name(),
        "policy_revision": policy.revision(),
        "owner": policy.spec().owner,
    })
}

fn explanation(status: &v1::BreakerStatus) -> String {
    status.last_transition.as_ref().map(|last| last.explanation.clone()).unwrap_or_default()
}

fn wants_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("application/json"))
}
