//! Runs the behaviour scripts of `tests/vectors/breaker*.json`, and of every `*.json` in the directory that
//! `PANELBOARD_VECTORS` names. A target without libtest, so that the count is always printed.
#![allow(clippy::print_stdout, missing_docs)]

use std::{collections::HashMap, env, fs, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use panelboard_core::*;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct File {
    schema: u32,
    vectors: Vec<Script>,
}

#[derive(Deserialize)]
struct Script {
    id: String,
    policy: serde_json::Map<String, Value>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    at_ms: u64,
    op: String,
    #[serde(default)]
    args: serde_json::Map<String, Value>,
    #[serde(default)]
    expect: serde_json::Map<String, Value>,
}

fn main() -> ExitCode {
    let mut files =
        vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/breaker.json"))];
    if let Some(dir) = env::var_os("PANELBOARD_VECTORS") {
        let entries =
            fs::read_dir(&dir).unwrap_or_else(|error| panic!("PANELBOARD_VECTORS={dir:?}: {error}"));
        let mut more: Vec<_> = entries.map(|entry| entry.expect("a directory entry").path()).collect();
        more.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        more.sort();
        files.extend(more);
    }
    let (mut passed, mut failed) = (0, 0);
    for path in files {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file: File = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(file.schema, 1, "{}: only schema 1 is known", path.display());
        for script in file.vectors {
            match run(&script) {
                Ok(()) => passed += 1,
                Err(error) => {
                    failed += 1;
                    println!("FAILED {} in {}: {error}", script.id, path.display());
                }
            }
        }
    }
    println!("ran {} scripts", passed + failed);
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Permit {
    grant: Grant,
    sequence: Option<u64>,
}

struct World {
    breaker: Breaker,
    policy: serde_json::Map<String, Value>,
    permits: HashMap<String, Permit>,
    revision: u64,
    reports: u64,
    transitions: Vec<String>,
}

const SETTINGS: Settings = Settings { seed: 1, instances_max: 100 };

fn run(script: &Script) -> Result<(), String> {
    let policy = Arc::new(policy(&script.policy)?);
    let at = Moment { now: Timestamp::ZERO, next: Version { epoch: 1, revision: 1 } };
    let mut world = World {
        breaker: Breaker::new(policy, SETTINGS, at),
        policy: script.policy.clone(),
        permits: HashMap::new(),
        revision: 1,
        reports: 0,
        transitions: Vec::new(),
    };
    world.begin(script.policy.get("initial_state").and_then(Value::as_str).unwrap_or("CLOSED"))?;
    for (index, step) in script.steps.iter().enumerate() {
        let now = Timestamp::from_millis(step.at_ms);
        world.advance(now);
        let done = world.apply(step, now);
        let mismatches = world.compare(step, done, now);
        if !mismatches.is_empty() {
            return Err(format!(
                "step {index} ({} at {} ms): {}",
                step.op,
                step.at_ms,
                mismatches.join("; ")
            ));
        }
    }
    Ok(())
}

/// What a step did: whether it was granted, or why it was refused.
type Done = Result<Option<bool>, String>;

impl World {
    fn begin(&mut self, state: &str) -> Result<(), String> {
        let op = match state {
            "CLOSED" => return Ok(()),
            "OPEN" => "transition_to_open",
            "HALF_OPEN" => "transition_to_half_open",
            "FORCED_OPEN" => "force_open",
            "DISABLED" => "disable",
            "METRICS_ONLY" => "metrics_only",
            other => return Err(format!("unknown initial state {other}")),
        };
        let nothing = serde_json::Map::new;
        let step = Step { at_ms: 0, op: op.into(), args: nothing(), expect: nothing() };
        self.apply(&step, Timestamp::ZERO)?;
        // Made there, not moved there.
        self.transitions.clear();
        Ok(())
    }

    fn at(&mut self, now: Timestamp) -> Moment {
        self.revision += 1;
        Moment { now, next: Version { epoch: 1, revision: self.revision } }
    }

    fn note(&mut self, change: Option<Change>) {
        if let Some(Change::Transition(transition)) = change {
            self.transitions.push(format!("{}>{}", transition.from, transition.to));
        }
    }

    /// Steps to each deadline on the way to `now`.
    fn advance(&mut self, now: Timestamp) {
        while let Some(deadline) = self.breaker.deadline().filter(|deadline| *deadline <= now) {
            let at = self.at(deadline);
            let change = self.breaker.tick(at);
            self.note(change);
        }
        let at = self.at(now);
        let change = self.breaker.tick(at);
        self.note(change);
    }

    fn acquire(&mut self, now: Timestamp) -> Option<Grant> {
        let at = self.at(now);
        let (decision, change) = self.breaker.acquire(caller(&Instance::anonymous()), at);
        self.note(change);
        match decision {
            Decision::Granted(grant) => Some(grant),
            Decision::Rejected(_) => None,
        }
    }

    fn report(&mut self, grant: Grant, sequence: u64, outcomes: Outcomes, now: Timestamp) {
        let entry = Entry {
            generation: Some(grant.generation),
            sequence: Some(sequence),
            outcomes,
            probe: grant.probe,
            ..Entry::default()
        };
        let at = self.at(now);
        let (_, change) = self.breaker.report(caller(&Instance::anonymous()), &entry, at);
        self.note(change);
    }

    fn apply(&mut self, step: &Step, now: Timestamp) -> Done {
        let arg = |key: &str| step.args.get(key);
        let permit =
            || arg("permit").and_then(Value::as_str).ok_or("the step names no permit").map(String::from);
        let hand = || Hand { who: "operator".into(), why: "script".into() };
        let over = self.breaker.condition().over;
        match step.op.as_str() {
            "acquire" => {
                let granted = self.acquire(now);
                if let Some(grant) = granted {
                    self.permits.insert(permit()?, Permit { grant, sequence: None });
                }
                return Ok(Some(granted.is_some()));
            }
            "report" | "release" => {
                let outcomes = if step.op == "release" {
                    Outcomes { abandoned: 1, ..Outcomes::default() }
                } else {
                    self.outcomes(step)?
                };
                let next = self.reports + 1;
                let permit = self.permits.get_mut(&permit()?).ok_or("the permit was not granted")?;
                let sequence = *permit.sequence.get_or_insert(next);
                let grant = permit.grant;
                self.reports = self.reports.max(sequence);
                self.report(grant, sequence, outcomes, now);
            }
            "call" => {
                let outcomes = self.outcomes(step)?;
                let mut all = true;
                for _ in 0..arg("repeat").and_then(Value::as_u64).unwrap_or(1) {
                    match self.acquire(now) {
                        Some(grant) => {
                            self.reports += 1;
                            self.report(grant, self.reports, outcomes, now);
                        }
                        None => all = false,
                    }
                }
                return Ok(Some(all));
            }
            "advance" | "observe" => {}
            "transition_to_open" | "open_for" => {
                let wait = arg("duration_ms").and_then(Value::as_u64).map(Duration::from_millis);
                self.command(Target::Open { wait }, hand(), now)?;
            }
            "transition_to_closed" if over.is_some() => self.clear(OverrideEnd::Closed, hand(), now)?,
            "transition_to_half_open" if over.is_some() => self.clear(OverrideEnd::Careful, hand(), now)?,
            "transition_to_closed" => self.command(Target::Closed, hand(), now)?,
            "transition_to_half_open" => self.command(Target::HalfOpen, hand(), now)?,
            "reset" => {
                let at = self.at(now);
                let change = self.breaker.reset(hand(), at);
                self.note(Some(change));
            }
            "force_open" => self.set_override(OverrideKind::ForcedOpen, hand(), now),
            "disable" => self.set_override(OverrideKind::Disabled, hand(), now),
            "metrics_only" => self.set_override(OverrideKind::MetricsOnly, hand(), now),
            "restore" => self.restore(step, now)?,
            "update_policy" => {
                let change = arg("change").and_then(Value::as_object).cloned().unwrap_or_default();
                self.policy.extend(change);
                let policy = Arc::new(policy(&self.policy)?);
                let at = self.at(now);
                let change = self.breaker.set_policy(policy, at);
                self.note(change);
            }
            other => return Err(format!("unknown op {other}")),
        }
        Ok(None)
    }

    fn command(&mut self, to: Target, hand: Hand, now: Timestamp) -> Result<(), String> {
        let at = self.at(now);
        let change = self.breaker.transition_to(to, hand, at).map_err(|refusal| refusal.to_string())?;
        self.note(change);
        Ok(())
    }

    fn clear(&mut self, end: OverrideEnd, hand: Hand, now: Timestamp) -> Result<(), String> {
        let at = self.at(now);
        let change = self.breaker.clear_override(end, hand, at).map_err(|refusal| refusal.to_string())?;
        self.note(Some(change));
        Ok(())
    }

    fn set_override(&mut self, kind: OverrideKind, hand: Hand, now: Timestamp) {
        let at = self.at(now);
        let change = self.breaker.set_override(kind, hand, None, at);
        self.note(Some(change));
    }

    fn restore(&mut self, step: &Step, now: Timestamp) -> Result<(), String> {
        let opened_ms = step.args.get("opened_at_ms").and_then(Value::as_i64).unwrap_or(0);
        let hand = || Hand { who: "operator".into(), why: "script".into() };
        let overridden = |kind| StoredState::Overridden { kind, hand: hand(), remaining: None };
        let state = match step.args.get("state").and_then(Value::as_str) {
            Some("CLOSED") => StoredState::Closed,
            Some("OPEN") => {
                let total = self.breaker.policy().spec().open.wait;
                let passed = i64::try_from(now.as_millis()).unwrap_or(i64::MAX) - opened_ms;
                let passed = Duration::from_millis(u64::try_from(passed).unwrap_or(0));
                let wait = OpenWait { total, ..OpenWait::default() };
                StoredState::Open { wait, remaining: total.saturating_sub(passed) }
            }
            Some("HALF_OPEN") => StoredState::HalfOpen { reopenings: 0 },
            Some("FORCED_OPEN") => overridden(OverrideKind::ForcedOpen),
            Some("DISABLED") => overridden(OverrideKind::Disabled),
            Some("METRICS_ONLY") => overridden(OverrideKind::MetricsOnly),
            other => return Err(format!("cannot restore {other:?}")),
        };
        let policy = Arc::clone(self.breaker.policy());
        let at = self.at(now);
        self.breaker = Breaker::restore(policy, SETTINGS, &Stored { state, last: None }, at);
        self.advance(now);
        Ok(())
    }

    fn outcomes(&self, step: &Step) -> Result<Outcomes, String> {
        let duration = step.args.get("duration_ms").and_then(Value::as_u64).unwrap_or(0);
        let slower_than = self.breaker.policy().slower_than();
        let slow = u64::from(slower_than.is_some_and(|least| Duration::from_millis(duration) > least));
        let none = Outcomes::default();
        match step.args.get("outcome").and_then(Value::as_str) {
            Some("success") => Ok(Outcomes { successes: 1, slow_successes: slow, ..none }),
            Some("failure") => Ok(Outcomes { failures: 1, slow_failures: slow, ..none }),
            Some("ignored") => Ok(Outcomes { ignored: 1, ..none }),
            other => Err(format!("unknown outcome {other:?}")),
        }
    }

    fn compare(&self, step: &Step, done: Done, now: Timestamp) -> Vec<String> {
        let mut mismatches = Vec::new();
        let refused = done.as_ref().err().cloned();
        if !step.expect.contains_key("error")
            && let Some(error) = &refused
        {
            mismatches.push(format!("refused: {error}"));
        }
        let status = self.breaker.status(now);
        let readings = self.breaker.readings(now);
        let rate = |wanted: &str| {
            let reading = readings.iter().find(|reading| reading.rule.measure() == wanted);
            match reading.filter(|reading| reading.calls >= u64::from(reading.rule.minimum_calls())) {
                Some(reading) if reading.calls > 0 => reading.matched as f64 * 100.0 / reading.calls as f64,
                _ => -1.0,
            }
        };
        for (key, expected) in &step.expect {
            let actual = match key.as_str() {
                "granted" => done.clone().ok().flatten().map_or(Value::Null, Value::Bool),
                "state" => self.breaker.condition().as_str().into(),
                "failure_rate" => rate("failure_rate").into(),
                "slow_call_rate" => rate("slow_rate").into(),
                "buffered_calls" => {
                    let windowed = readings.iter().filter(|reading| reading.rule.window().is_some());
                    windowed.map(|reading| reading.calls).max().unwrap_or(0).into()
                }
                "transitions" => self.transitions.clone().into(),
                "retry_after_ms" => match status.deadline {
                    Some(end) => u64::try_from(end.since(now).as_millis()).unwrap_or(u64::MAX).into(),
                    None => Value::Null,
                },
                "error" => refused.is_some().into(),
                other => format!("unknown expectation {other}").into(),
            };
            if !same(key, expected, &actual) {
                mismatches.push(format!("{key}: expected {expected}, came {actual}"));
            }
        }
        mismatches
    }
}

/// Numbers as numbers; an expected error matches whatever its text is.
fn same(key: &str, expected: &Value, actual: &Value) -> bool {
    match (expected.as_f64(), actual.as_f64()) {
        (Some(expected), Some(actual)) => (expected - actual).abs() < 0.01,
        _ if key == "error" => {
            actual.as_bool() == Some(!matches!(expected, Value::Bool(false) | Value::Null))
        }
        _ => expected == actual,
    }
}

fn caller(instance: &Instance) -> Caller<'_> {
    static SESSION: std::sync::OnceLock<Session> = std::sync::OnceLock::new();
    Caller { instance, session: Some(SESSION.get_or_init(|| Session("script".into()))) }
}

/// Translates a script's policy, which speaks resilience4j's names.
fn policy(fields: &serde_json::Map<String, Value>) -> Result<Policy, String> {
    let number = |key: &str| fields.get(key).and_then(Value::as_f64);
    let whole = |key: &str| fields.get(key).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    let millis = |key: &str| fields.get(key).and_then(Value::as_u64).map(Duration::from_millis);
    let rate = |key: &str| match number(key) {
        Some(percent) => Rate::from_hundredths((percent * 100.0).round() as u32)
            .map(Some)
            .ok_or_else(|| format!("{key} {percent} is out of range")),
        None => Ok(None),
    };

    let size = whole("sliding_window_size").unwrap_or(100);
    let minimum = whole("minimum_number_of_calls").unwrap_or(1).max(1);
    let (window, minimum_calls) = match fields.get("sliding_window_type").and_then(Value::as_str) {
        Some("COUNT_BASED") => (Some(Window::Last(size)), minimum.min(size)),
        Some("TIME_BASED") => (Some(Window::Within(Duration::from_secs(size.into()))), minimum),
        Some("NONE") | None => (None, minimum),
        Some(other) => return Err(format!("there is no {other} window")),
    };
    let mut trip = Vec::new();
    if let (Some(threshold), Some(window)) = (rate("failure_rate_threshold")?, window) {
        trip.push(Rule::FailureRate { threshold, window, minimum_calls });
    }
    if let (Some(threshold), Some(window)) = (rate("slow_call_rate_threshold")?, window) {
        let slower_than =
            millis("slow_call_duration_threshold_ms").ok_or("a slow rate without a duration")?;
        trip.push(Rule::SlowRate { threshold, slower_than, window, minimum_calls });
    }
    if let (Some(threshold), Some(window)) = (whole("failure_count_threshold"), window) {
        trip.push(Rule::Failures { threshold, window });
    }
    if let Some(threshold) = whole("consecutive_failures_threshold") {
        trip.push(Rule::ConsecutiveFailures { threshold });
    }

    let permitted = whole("permitted_number_of_calls_in_half_open_state").unwrap_or(PERMITTED_CALLS_MAX);
    let success = whole("success_threshold").unwrap_or(permitted);
    let (successes_to_close, failures_to_open) = match fields.get("half_open_rule").and_then(Value::as_str) {
        Some("rate") | None => (None, None),
        Some("ratio") => (Some(success), Some(permitted + 1 - success)),
        Some("consecutive_successes") => (Some(success), Some(1)),
        Some(other) => return Err(format!("there is no half-open rule {other}")),
    };
    let limit = millis("max_wait_duration_in_half_open_state_ms").filter(|limit| !limit.is_zero());

    let wait = millis("wait_duration_in_open_state_ms").unwrap_or(Duration::from_secs(60));
    let backoff = fields.get("open_backoff").and_then(Value::as_object);
    let (multiplier, max_wait) = match backoff.and_then(|b| b.get("kind")).and_then(Value::as_str) {
        Some("fixed") | None => (1.0, wait),
        Some("exponential") => {
            let part = |key| backoff.and_then(|b| b.get(key)).and_then(Value::as_f64);
            let max = part("max_ms").map_or(DURATION_MAX, |ms| Duration::from_millis(ms as u64));
            (part("multiplier").ok_or("no multiplier")?, max)
        }
        Some(other) => return Err(format!("there is no {other} backoff")),
    };
    let spec = PolicySpec {
        name: "script".into(),
        trip,
        open: OpenSpec {
            wait,
            multiplier_hundredths: (multiplier * 100.0).round() as u32,
            max_wait,
            jitter_hundredths: 0,
        },
        half_open: HalfOpenSpec {
            permitted_calls: permitted,
            // Longer than any script.
            probe_timeout: DURATION_MAX,
            limit: Some(limit.unwrap_or(DURATION_MAX)),
            successes_to_close,
            failures_to_open,
        },
        spread: Duration::ZERO,
        ..PolicySpec::default()
    };
    Policy::try_new(spec, 1)
        .map_err(|violations| violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}
