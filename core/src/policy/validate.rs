//! What makes a policy valid. All that is wrong is said at once, each with its place, its value and a remedy.

use std::{fmt, time::Duration};

use super::{GuardSpec, PolicySpec, Rule, Window};
use crate::{classify, name::BreakerName};

/// The most trip rules of a policy.
pub const RULES_MAX: usize = 16;
/// The shortest `within`: a bucket of it is ten milliseconds.
pub const WITHIN_MIN: Duration = Duration::from_millis(100);
/// The longest of every duration of a policy.
pub const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);
/// The longest spread after closing.
pub const SPREAD_MAX: Duration = Duration::from_secs(300);
/// The largest `last`.
pub const LAST_MAX: u32 = 10_000;
/// The largest `minimum_calls` and count.
pub const MINIMUM_CALLS_MAX: u32 = 1_000_000;
/// The most probes of a half-open period.
pub const PERMITTED_CALLS_MAX: u32 = 1_000;
/// The longest text for people, in bytes.
pub const TEXT_BYTES_MAX: usize = 1_024;
/// The most instances that a quorum can ask for.
const MIN_INSTANCES_MAX: u32 = 1_000;
/// The most calls that the guard can ask for.
const GUARD_CALLS_MAX: u32 = 10_000;
/// The most buckets of a ring: ten for the shortest window, and the longest up to sixty times that.
const BUCKETS_MAX: u128 = 600;

/// One thing that is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The place within the policy, as in the file: `trip[1].minimum_calls`.
    pub path: String,
    /// What is wrong: the value, what is allowed, what to do.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// A duration as a policy file has it: one number and one unit, the largest that divides it. Days are left out, for the
/// documented ranges are in hours.
struct Written(Duration);

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u128); 3] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
        let millis = self.0.as_millis();
        match UNITS.iter().find(|(_, unit)| millis > 0 && millis.is_multiple_of(*unit)) {
            Some((name, unit)) => write!(f, "{}{name}", millis / unit),
            None => write!(f, "{millis}ms"),
        }
    }
}

struct Findings(Vec<Violation>);

impl Findings {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Violation { path: path.into(), message: message.into() });
    }

    fn duration(&mut self, path: &str, value: Duration, least: Duration, most: Duration) {
        if value < least || value > most {
            let (value, most) = (Written(value), Written(most));
            let range = match least {
                Duration::ZERO => format!("at most {most}"),
                _ => format!("{} to {most}", Written(least)),
            };
            self.add(path, format!("{value} is out of range: give {range}"));
        } else if !value.subsec_nanos().is_multiple_of(1_000_000) {
            self.add(
                path,
                format!("{} ns is not a whole number of milliseconds: round it", value.as_nanos()),
            );
        }
    }

    fn number(&mut self, path: &str, value: u32, least: u32, most: u32) {
        if value < least || value > most {
            self.add(path, format!("{value} is out of range: give {least} to {most}"));
        }
    }
}

pub(super) fn violations(spec: &PolicySpec) -> Vec<Violation> {
    let mut found = Findings(Vec::new());
    if let Err(error) = BreakerName::parse(&spec.name) {
        found.add("name", error.to_string());
    }
    let texts = [
        ("description", &spec.description),
        ("owner", &spec.owner),
        ("runbook", &spec.runbook),
        ("degrades_to", &spec.degrades_to),
    ];
    for (path, text) in texts {
        if text.len() > TEXT_BYTES_MAX {
            found.add(path, format!("has {} bytes, {TEXT_BYTES_MAX} are allowed: shorten it", text.len()));
        }
    }
    rules(&mut found, &spec.trip);
    waits(&mut found, spec);
    half_open(&mut found, spec);
    found.duration("close.spread", spec.spread, Duration::ZERO, SPREAD_MAX);
    guard(&mut found, &spec.guard);
    for (path, message) in classify::violations(&spec.classification) {
        found.add(format!("classification.{path}"), message);
    }
    found.0
}

fn guard(found: &mut Findings, guard: &GuardSpec) {
    found.number("guard.min_instances", guard.min_instances, 1, MIN_INSTANCES_MAX);
    if guard.share_hundredths > 10_000 {
        let value = crate::rate::Hundredths(guard.share_hundredths.into());
        found.add("guard.share", format!("{value}% is out of range: give 0% to 100%"));
    }
    found.number("guard.min_calls", guard.min_calls, 1, GUARD_CALLS_MAX);
}

fn rules(found: &mut Findings, trip: &[Rule]) {
    if trip.is_empty() {
        found.add("trip", "holds no rule, so nothing could trip the breaker: give one, or leave trip out");
    }
    if trip.len() > RULES_MAX {
        found.add("trip", format!("holds {} rules, {RULES_MAX} are allowed: remove some", trip.len()));
    }
    let mut last_size = None;
    let mut slower = None;
    for (index, rule) in trip.iter().enumerate() {
        let at = |field: &str| format!("trip[{index}].{field}");
        match rule.window() {
            Some(Window::Within(span)) => found.duration(&at("within"), span, WITHIN_MIN, DURATION_MAX),
            Some(Window::Last(size)) => {
                found.number(&at("last"), size, 1, LAST_MAX);
                if rule.minimum_calls() > size {
                    let minimum = rule.minimum_calls();
                    let message = format!(
                        "{minimum} calls can never be among the last {size}: lower minimum_calls or raise last"
                    );
                    found.add(at("minimum_calls"), message);
                }
                match last_size {
                    Some(other) if other != size => {
                        let message = format!(
                            "{size} differs from the {other} of a rule before: give all rules one size"
                        );
                        found.add(at("last"), message);
                    }
                    _ => last_size = Some(size),
                }
            }
            None => {}
        }
        match *rule {
            Rule::FailureRate { minimum_calls, .. } => {
                found.number(&at("minimum_calls"), minimum_calls, 1, MINIMUM_CALLS_MAX);
            }
            Rule::SlowRate { minimum_calls, slower_than, .. } => {
                found.number(&at("minimum_calls"), minimum_calls, 1, MINIMUM_CALLS_MAX);
                found.duration(&at("slower_than"), slower_than, Duration::from_millis(1), DURATION_MAX);
                match slower {
                    Some(other) if other != slower_than => {
                        let (this, other) = (Written(slower_than), Written(other));
                        let message = format!(
                            "{this} differs from the {other} of a rule before: a call is slow or not"
                        );
                        found.add(at("slower_than"), message);
                    }
                    _ => slower = Some(slower_than),
                }
            }
            Rule::Failures { threshold, .. } => {
                found.number(&at("failures"), threshold, 1, MINIMUM_CALLS_MAX);
            }
            Rule::ConsecutiveFailures { threshold } => {
                found.number(&at("consecutive_failures"), threshold, 1, MINIMUM_CALLS_MAX);
            }
        }
    }
    buckets(found, trip);
}

fn buckets(found: &mut Findings, trip: &[Rule]) {
    let withins = trip.iter().enumerate().filter_map(|(index, rule)| match rule.window() {
        Some(Window::Within(span)) if !span.is_zero() => Some((index, span)),
        _ => None,
    });
    let (Some((_, short)), Some((index, long))) =
        (withins.clone().min_by_key(|w| w.1), withins.max_by_key(|w| w.1))
    else {
        return;
    };
    // Ten buckets for the shortest, in whole milliseconds.
    let width = (short.as_millis() / 10).max(1);
    if long.as_millis() / width > BUCKETS_MAX {
        let (long, short) = (Written(long), Written(short));
        let message = format!(
            "{long} is too many times the shortest window of {short}: bring them to at most 60 times, or put them \
             into two policies"
        );
        found.add(format!("trip[{index}].within"), message);
    }
}

fn waits(found: &mut Findings, spec: &PolicySpec) {
    let open = &spec.open;
    found.duration("open.wait", open.wait, Duration::from_millis(1), DURATION_MAX);
    found.duration("open.max_wait", open.max_wait, Duration::from_millis(1), DURATION_MAX);
    if open.max_wait < open.wait {
        let (wait, max) = (Written(open.wait), Written(open.max_wait));
        found.add("open.max_wait", format!("{max} is less than the wait of {wait}: raise it"));
    }
    if !(100..=10_000).contains(&open.multiplier_hundredths) {
        let value = crate::rate::Hundredths(open.multiplier_hundredths.into());
        found.add("open.multiplier", format!("{value} is out of range: give 1 to 100"));
    }
    if open.jitter_hundredths > 10_000 {
        let value = crate::rate::Hundredths(open.jitter_hundredths.into());
        found.add("open.jitter", format!("{value}% is out of range: give 0% to 100%"));
    }
    found.duration("retry_after.max", spec.retry_after_max, Duration::ZERO, DURATION_MAX);
}

fn half_open(found: &mut Findings, spec: &PolicySpec) {
    let half_open = &spec.half_open;
    let permitted = half_open.permitted_calls;
    found.number("half_open.permitted_calls", permitted, 1, PERMITTED_CALLS_MAX);
    let least = Duration::from_millis(1);
    found.duration("half_open.probe_timeout", half_open.probe_timeout, least, DURATION_MAX);
    if let Some(limit) = half_open.limit {
        found.duration("half_open.limit", limit, least, DURATION_MAX);
    }
    let set = [
        ("half_open.successes_to_close", half_open.successes_to_close),
        ("half_open.failures_to_open", half_open.failures_to_open),
    ];
    for (path, value) in set {
        if let Some(value) = value
            && (value < 1 || value > permitted)
        {
            found.add(path, format!("{value} is out of range: give 1 to permitted_calls, {permitted}"));
        }
    }
    if let (Some(successes), Some(failures)) = (half_open.successes_to_close, half_open.failures_to_open)
        && successes.saturating_add(failures) > permitted.saturating_add(1)
    {
        let message = format!(
            "{successes} successes to close and {failures} failures to open are more than {permitted} probes can \
             decide: they may add up to permitted_calls + 1, {}",
            permitted.saturating_add(1)
        );
        found.add("half_open.successes_to_close", message);
    }
}

pub(super) fn warnings(spec: &PolicySpec) -> Vec<Violation> {
    let mut found = Findings(Vec::new());
    for (index, rule) in spec.trip.iter().enumerate() {
        let at = |field: &str| format!("trip[{index}].{field}");
        match *rule {
            Rule::FailureRate { minimum_calls, threshold, .. }
                if threshold.least_of(minimum_calls.into()) < 2 =>
            {
                let message = format!(
                    "one failure among {minimum_calls} calls is {threshold} or more: it trips on noise, raise it"
                );
                found.add(at("minimum_calls"), message);
            }
            Rule::Failures { threshold, window: Window::Last(size) } if threshold > size => {
                let message = format!(
                    "{threshold} failures are more than one instance's last {size} calls: a sole instance never trips"
                );
                found.add(at("failures"), message);
            }
            Rule::Failures { threshold: 1, .. } => {
                found.add(at("failures"), "one failure of any instance trips: it trips on noise, raise it");
            }
            Rule::ConsecutiveFailures { threshold: 1 } => {
                found.add(at("consecutive_failures"), "one failure trips: it trips on noise, raise it");
            }
            _ => {}
        }
    }
    if spec.guard.share_hundredths > 5_000 {
        let value = crate::rate::Hundredths(spec.guard.share_hundredths.into());
        let message = format!(
            "{value}% of the instances must fail before it trips by calls: a zone can be down unnoticed, lower it"
        );
        found.add("guard.share", message);
    }
    if spec.guard.is_off() {
        let message = "with min_instances 1 and share 0% there is no guard: one sick instance opens the breaker for all";
        found.add("guard", message);
    }
    if let Some(limit) = spec.half_open.limit
        && limit < spec.half_open.probe_timeout
    {
        let (limit, timeout) = (Written(limit), Written(spec.half_open.probe_timeout));
        let message = format!("{limit} is over before a probe's timeout of {timeout}: raise it");
        found.add("half_open.limit", message);
    }
    if spec.owner.is_empty() {
        found.add("owner", "nobody is named: say whom to page when it opens");
    }
    found.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{policy::*, rate::Rate};

    fn paths(change: impl FnOnce(&mut PolicySpec)) -> Vec<String> {
        let mut spec = PolicySpec::default();
        change(&mut spec);
        match Policy::try_new(spec, 1) {
            Ok(_) => Vec::new(),
            Err(violations) => violations.into_iter().map(|v| v.path).collect(),
        }
    }

    fn last(minimum_calls: u32, size: u32) -> Rule {
        Rule::FailureRate { threshold: Rate::ALL, window: Window::Last(size), minimum_calls }
    }

    #[test]
    fn the_defaults_are_valid() {
        assert!(paths(|_| {}).is_empty());
    }

    #[test]
    fn a_minimum_above_last_is_refused_with_the_two_numbers() {
        let spec = PolicySpec { trip: vec![last(5, 4)], ..PolicySpec::default() };
        let violations = Policy::try_new(spec, 1).unwrap_err();
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].path, "trip[0].minimum_calls");
        assert!(violations[0].message.contains('5') && violations[0].message.contains('4'));
    }

    #[test]
    fn each_wrong_value_is_named_by_its_place() {
        assert_eq!(paths(|s| s.trip.clear()), ["trip"]);
        assert_eq!(paths(|s| s.trip = vec![last(1, 4), last(1, 5)]), ["trip[1].last"]);
        assert_eq!(paths(|s| s.trip = vec![last(0, 4)]), ["trip[0].minimum_calls"]);
        assert_eq!(paths(|s| s.open.max_wait = Duration::from_secs(1)), ["open.max_wait"]);
        assert_eq!(paths(|s| s.open.multiplier_hundredths = 99), ["open.multiplier"]);
        assert_eq!(paths(|s| s.half_open.permitted_calls = 0), ["half_open.permitted_calls"]);
        assert_eq!(paths(|s| s.half_open.failures_to_open = Some(6)), ["half_open.failures_to_open"]);
        assert_eq!(paths(|s| s.spread = Duration::from_nanos(5)), ["close.spread"]);
        assert_eq!(paths(|s| s.name = "a b".into()), ["name"]);
        assert_eq!(paths(|s| s.guard.min_instances = 0), ["guard.min_instances"]);
        assert_eq!(paths(|s| s.guard.share_hundredths = 10_001), ["guard.share"]);
        assert_eq!(paths(|s| s.guard.min_calls = 0), ["guard.min_calls"]);
        let both = |s: &mut PolicySpec| {
            s.half_open.successes_to_close = Some(4);
            s.half_open.failures_to_open = Some(3);
        };
        assert_eq!(paths(both), ["half_open.successes_to_close"]);
        let far_apart = |s: &mut PolicySpec| {
            s.trip.push(Rule::Failures { threshold: 5, window: Window::Within(Duration::from_secs(61)) });
        };
        assert_eq!(paths(far_apart), ["trip[2].within"]);
    }

    #[test]
    fn durations_are_spelled_as_a_policy_file_has_them() {
        let written = [0, 1, 999, 1_000, 1_500, 61_000, 90_000, 120_000, 5_400_000, 86_400_000, 90_000_000]
            .map(|millis| Written(Duration::from_millis(millis)).to_string());
        assert_eq!(written, ["0ms", "1ms", "999ms", "1s", "1500ms", "61s", "90s", "2m", "90m", "24h", "25h"]);
    }

    #[test]
    fn all_violations_are_said_at_once() {
        let found = paths(|s| {
            s.name = String::new();
            s.open.wait = Duration::ZERO;
            s.trip = vec![last(9, 4)];
        });
        assert_eq!(found, ["name", "trip[0].minimum_calls", "open.wait"]);
    }
}
