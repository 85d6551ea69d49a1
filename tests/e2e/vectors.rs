//! The behaviour scripts end to end: policy from a file, calls through gRPC. Those that need an operator are `core`'s.

use std::{collections::HashMap, fs, io::Write, path::PathBuf};

use panelboard_proto::v1;
use serde_json::{Map, Value};

use crate::support::*;

type Fields = Map<String, Value>;

const NAME: &str = "script";
/// What only an operator can do, and AdminService is not there yet.
const OPERATORS: [&str; 9] = [
    "transition_to_open",
    "transition_to_closed",
    "transition_to_half_open",
    "reset",
    "open_for",
    "force_open",
    "disable",
    "metrics_only",
    "restore",
];

#[tokio::test]
async fn every_script_without_an_operator_holds_end_to_end() {
    let (mut ran, mut skipped, mut failed) = (0, Vec::new(), Vec::new());
    for (file, script) in scripts() {
        let id = format!("{} in {}", script["id"].as_str().expect("an id"), file.display());
        if let Some(why) = needs_operator(&script) {
            skipped.push(format!("{id}: {why}"));
            continue;
        }
        ran += 1;
        if let Err(error) = run(&script).await {
            failed.push(format!("{id}: {error}"));
        }
    }
    // Past the test harness, which swallows what is printed.
    let mut out = std::io::stderr().lock();
    writeln!(out, "vectors end to end: ran {ran} scripts, skipped {}", skipped.len()).unwrap();
    for why in &skipped {
        writeln!(out, "  skipped {why}").unwrap();
    }
    drop(out);
    assert!(failed.is_empty(), "{} of {ran} failed:\n{}", failed.len(), failed.join("\n"));
    assert!(ran >= 20, "only {ran} scripts ran");
}

fn scripts() -> Vec<(PathBuf, Value)> {
    let mut files = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/breaker.json"))];
    if let Some(folder) = std::env::var_os("PANELBOARD_VECTORS") {
        let mut more: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        more.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        more.sort();
        files.extend(more);
    }
    let read = |file: PathBuf| {
        let content: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(content["schema"], 1, "{}: only schema 1 is known", file.display());
        let scripts = content["vectors"].as_array().expect("vectors").clone();
        scripts.into_iter().map(move |script| (file.clone(), script))
    };
    files.into_iter().flat_map(read).collect()
}

fn needs_operator(script: &Value) -> Option<String> {
    let begins = script["policy"]["initial_state"].as_str().unwrap_or("CLOSED");
    if begins != "CLOSED" {
        return Some(format!("begins {begins}"));
    }
    let mut operations = script["steps"].as_array()?.iter().filter_map(|step| step["op"].as_str());
    operations.find(|op| OPERATORS.contains(op)).map(|op| format!("needs an operator for {op}"))
}

struct Permit {
    grant: v1::Grant,
    sequence: Option<u64>,
}

struct Run {
    world: World,
    policy: Fields,
    permits: HashMap<String, Permit>,
    reports: u64,
    now_ms: u64,
    /// When probes were asked for: a half-open limit may run from there.
    asked_ms: Vec<u64>,
    generation: (u64, u64),
    transitions: Vec<String>,
}

async fn run(script: &Value) -> Result<(), String> {
    let policy = script["policy"].as_object().ok_or("no policy")?.clone();
    let mut world = World::with(Options { policies: Some(yaml(&policy)?), ..Options::default() }).await;
    let generation = generation(&world.look(NAME).await.status.ok_or("no status")?);
    let mut run = Run {
        world,
        policy,
        permits: HashMap::new(),
        reports: 0,
        now_ms: 0,
        asked_ms: Vec::new(),
        generation,
        transitions: Vec::new(),
    };
    for (index, step) in script["steps"].as_array().ok_or("no steps")?.iter().enumerate() {
        let (op, at_ms) = (step["op"].as_str().unwrap_or_default(), step["at_ms"].as_u64().ok_or("no time")?);
        let wrong = |what: String| format!("step {index} ({op} at {at_ms} ms): {what}");
        run.advance(at_ms).await;
        let granted = run.apply(op, &step["args"]).await.map_err(wrong)?;
        let seen = run.look().await;
        let empty = Fields::new();
        for (key, expected) in step["expect"].as_object().unwrap_or(&empty) {
            let actual = run.actual(key, granted, &seen);
            let same = match (expected.as_f64(), actual.as_f64()) {
                (Some(expected), Some(actual)) => (expected - actual).abs() < 0.01,
                _ => *expected == actual,
            };
            if !same {
                return Err(wrong(format!("{key}: expected {expected}, came {actual}")));
            }
        }
    }
    Ok(())
}

impl Run {
    /// Steps to each deadline on the way: a period starts when it is entered.
    async fn advance(&mut self, to_ms: u64) {
        while self.now_ms < to_ms {
            let seen = self.look().await;
            let status = seen.status.as_ref().expect("a status");
            let limit = self.policy.get("max_wait_duration_in_half_open_state_ms").and_then(Value::as_u64);
            let limits = self.asked_ms.iter().map(|asked| asked + limit.unwrap_or(0));
            let ends = millis(status.remaining.as_ref()).map(|left| self.now_ms + left);
            let next = limits.chain(ends).filter(|at| *at > self.now_ms).min().unwrap_or(to_ms).min(to_ms);
            self.world.advance(next - self.now_ms);
            self.now_ms = next;
        }
        self.look().await;
    }

    async fn look(&mut self) -> v1::GetBreakerResponse {
        let seen = self.world.look(NAME).await;
        self.note(seen.status.as_ref().expect("a status"));
        seen
    }

    /// Each answer makes one transition at most, so none is missed.
    fn note(&mut self, status: &v1::BreakerStatus) {
        if generation(status) != self.generation {
            self.generation = generation(status);
            let made = status.last_transition.as_ref().expect("a transition began it");
            let word = |state: v1::State| state.as_str_name().trim_start_matches("STATE_").to_string();
            self.transitions.push(format!("{}>{}", word(made.from()), word(made.to())));
        }
    }

    async fn acquire(&mut self) -> Option<v1::Grant> {
        let answer = self.world.acquire_as(who("one", "script"), NAME).await;
        self.note(answer.status.as_ref().expect("a status"));
        match answer.decision {
            Some(v1::acquire_response::Decision::Grant(grant)) => {
                if grant.probe.is_some() {
                    self.asked_ms.push(self.now_ms);
                }
                Some(grant)
            }
            _ => None,
        }
    }

    async fn report(&mut self, grant: v1::Grant, sequence: u64, entry: v1::ReportEntry) {
        let probe_id = grant.probe.map_or(0, |probe| probe.id);
        let entry = v1::ReportEntry {
            breaker: NAME.into(),
            generation: grant.generation,
            sequence,
            probe_id,
            ..entry
        };
        let result = self.world.report_as(who("one", "script"), vec![entry]).await.remove(0);
        self.note(result.status.as_ref().expect("a status"));
    }

    async fn apply(&mut self, op: &str, args: &Value) -> Result<Option<bool>, String> {
        let permit = || args["permit"].as_str().ok_or("the step names no permit").map(String::from);
        match op {
            "acquire" => {
                let grant = self.acquire().await;
                if let Some(grant) = grant {
                    self.permits.insert(permit()?, Permit { grant, sequence: None });
                }
                return Ok(Some(grant.is_some()));
            }
            "report" | "release" => {
                let outcome = if op == "release" { abandoned() } else { self.outcome(args)? };
                let next = self.reports + 1;
                let permit = self.permits.get_mut(&permit()?).ok_or("the permit was not granted")?;
                let (sequence, grant) = (*permit.sequence.get_or_insert(next), permit.grant);
                self.reports = self.reports.max(sequence);
                self.report(grant, sequence, outcome).await;
            }
            "call" => {
                let mut all = true;
                for _ in 0..args["repeat"].as_u64().unwrap_or(1) {
                    let outcome = self.outcome(args)?;
                    match self.acquire().await {
                        Some(grant) => {
                            self.reports += 1;
                            self.report(grant, self.reports, outcome).await;
                        }
                        None => all = false,
                    }
                }
                return Ok(Some(all));
            }
            "advance" | "observe" => {}
            "update_policy" => self.update_policy(args).await?,
            other => return Err(format!("unknown op {other}")),
        }
        Ok(None)
    }

    async fn update_policy(&mut self, args: &Value) -> Result<(), String> {
        let before = yaml(&self.policy)?;
        self.policy.extend(args["change"].as_object().cloned().unwrap_or_default());
        let after = yaml(&self.policy)?;
        let mut watcher = self.world.watch(&[NAME]).await;
        let revision = watcher.snapshot().await.statuses[0].policy_revision;
        self.world.write_policies(&after);
        // The same policy again is no change, and nobody hears of it.
        if before != after {
            while watcher.status().await.policy_revision <= revision {}
        }
        Ok(())
    }

    fn outcome(&self, args: &Value) -> Result<v1::ReportEntry, String> {
        let slower_than = match self.policy.get("slow_call_rate_threshold") {
            Some(Value::Null) | None => None,
            Some(_) => self.policy.get("slow_call_duration_threshold_ms").and_then(Value::as_u64),
        };
        let took = args["duration_ms"].as_u64().unwrap_or(0);
        let slow = u32::from(slower_than.is_some_and(|least| took > least));
        let none = v1::ReportEntry::default();
        match args["outcome"].as_str() {
            Some("success") => Ok(v1::ReportEntry { successes: 1, slow_successes: slow, ..none }),
            Some("failure") => Ok(v1::ReportEntry { failures: 1, slow_failures: slow, ..none }),
            Some("ignored") => Ok(v1::ReportEntry { ignored: 1, ..none }),
            other => Err(format!("unknown outcome {other:?}")),
        }
    }

    fn actual(&self, key: &str, granted: Option<bool>, seen: &v1::GetBreakerResponse) -> Value {
        let status = seen.status.as_ref().expect("a status");
        let rate = |measure: &str| {
            let reading = seen.readings.iter().find(|reading| reading.rule.starts_with(measure));
            match reading.filter(|reading| reading.calls > 0 && reading.calls >= reading.minimum_calls) {
                Some(reading) => reading.matched as f64 * 100.0 / reading.calls as f64,
                None => -1.0,
            }
        };
        match key {
            "granted" => granted.map_or(Value::Null, Value::Bool),
            "state" => status.state().as_str_name().trim_start_matches("STATE_").into(),
            "failure_rate" => rate("failure rate").into(),
            "slow_call_rate" => rate("slow rate").into(),
            "buffered_calls" => {
                let windowed =
                    seen.readings.iter().filter(|reading| !reading.rule.starts_with("consecutive"));
                windowed.map(|reading| reading.calls).max().unwrap_or(0).into()
            }
            "transitions" => self.transitions.clone().into(),
            "retry_after_ms" => millis(status.remaining.as_ref()).map_or(Value::Null, Value::from),
            other => format!("unknown expectation {other}").into(),
        }
    }
}

fn abandoned() -> v1::ReportEntry {
    v1::ReportEntry { abandoned: 1, ..v1::ReportEntry::default() }
}

/// A script's policy, which speaks resilience4j's names, as a policy file.
fn yaml(fields: &Fields) -> Result<String, String> {
    let number = |key: &str| fields.get(key).and_then(Value::as_f64);
    let whole = |key: &str| fields.get(key).and_then(Value::as_u64);
    let size = whole("sliding_window_size").unwrap_or(100);
    let minimum = whole("minimum_number_of_calls").unwrap_or(1).max(1);
    let (window, minimum) = match fields.get("sliding_window_type").and_then(Value::as_str) {
        Some("COUNT_BASED") => (Some(format!("last: {size}")), minimum.min(size)),
        Some("TIME_BASED") => (Some(format!("within: {size}s")), minimum),
        Some("NONE") | None => (None, minimum),
        Some(other) => return Err(format!("there is no {other} window")),
    };
    let mut trip = Vec::new();
    if let (Some(rate), Some(window)) = (number("failure_rate_threshold"), &window) {
        trip.push(format!("{{ failure_rate: {rate}%, {window}, minimum_calls: {minimum} }}"));
    }
    if let (Some(rate), Some(window)) = (number("slow_call_rate_threshold"), &window) {
        let slower = whole("slow_call_duration_threshold_ms").ok_or("a slow rate without a duration")?;
        trip.push(format!(
            "{{ slow_rate: {rate}%, slower_than: {slower}ms, {window}, minimum_calls: {minimum} }}"
        ));
    }
    if let (Some(failures), Some(window)) = (whole("failure_count_threshold"), &window) {
        trip.push(format!("{{ failures: {failures}, {window} }}"));
    }
    if let Some(failures) = whole("consecutive_failures_threshold") {
        trip.push(format!("{{ consecutive_failures: {failures} }}"));
    }
    let permitted = whole("permitted_number_of_calls_in_half_open_state").unwrap_or(1_000);
    let success = whole("success_threshold").unwrap_or(permitted);
    let verdict = match fields.get("half_open_rule").and_then(Value::as_str) {
        Some("rate") | None => String::new(),
        Some("ratio") => {
            format!(", successes_to_close: {success}, failures_to_open: {}", permitted + 1 - success)
        }
        Some("consecutive_successes") => format!(", successes_to_close: {success}, failures_to_open: 1"),
        Some(other) => return Err(format!("there is no half-open rule {other}")),
    };
    // Longer than any script.
    let limit = match whole("max_wait_duration_in_half_open_state_ms") {
        Some(0) | None => "24h".to_string(),
        Some(limit) => format!("{limit}ms"),
    };
    let wait = whole("wait_duration_in_open_state_ms").unwrap_or(60_000);
    let backoff = fields.get("open_backoff").and_then(Value::as_object);
    let part = |key: &str| backoff.and_then(|backoff| backoff.get(key)).and_then(Value::as_f64);
    let growth = match backoff.and_then(|backoff| backoff.get("kind")).and_then(Value::as_str) {
        Some("fixed") | None => format!("multiplier: 1, max_wait: {wait}ms"),
        Some("exponential") => {
            let multiplier = part("multiplier").ok_or("no multiplier")?;
            let most = part("max_ms").map_or("24h".to_string(), |most| format!("{most}ms"));
            format!("multiplier: {multiplier}, max_wait: {most}")
        }
        Some(other) => return Err(format!("there is no {other} backoff")),
    };
    Ok(format!(
        "  - name: script\n\
         \x20   match: [{NAME}]\n\
         \x20   trip: [{}]\n\
         \x20   open: {{ wait: {wait}ms, {growth}, jitter: 0% }}\n\
         \x20   half_open: {{ permitted_calls: {permitted}, probe_timeout: 24h, limit: {limit}{verdict} }}\n\
         \x20   close: {{ spread: 0s }}\n\
         \x20   guard: {{ min_instances: 1 }}\n",
        trip.join(", ")
    ))
}
