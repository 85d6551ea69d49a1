//! What a valid file means, and which policy is for a name.

use std::time::Duration;

use panelboard_core::{OnDisconnect, PolicySpec, Rate, Rule, Window};
use panelboard_server::policies::starter;

use super::*;

#[test]
fn every_field_arrives() {
    let policies = valid(
        "policies:
  - name: checkout
    match: [checkout/*, checkout/shipping-quote]
    description: >
      what it is
      for
    owner: 'team'
    runbook: https://example.com
    degrades_to: no price
    trip:
      - { failure_rate: 12.5%, within: 10s, minimum_calls: 20 }
      - { slow_rate: 50%, slower_than: 2s, last: 100, minimum_calls: 30 }
      - { failures: 5, within: 500ms }
      - { consecutive_failures: \"6\" }
    open: { wait: 1.5s, multiplier: 1.25, max_wait: 1m, jitter: 0% }
    half_open: { permitted_calls: 7, probe_timeout: 3s, limit: 40s, successes_to_close: 4, failures_to_open: 2 }
    close: { spread: 0s }
    guard: { min_instances: 3, share: 12.5%, min_calls: 7 }
    retry_after: { scope: fleet, max: 1m }
    classification: { failure: [http_429], ignored: [http_503], success: [sold_out] }
    on_disconnect: deny
",
    );
    let seconds = Duration::from_secs;
    let spec = policies.get("checkout").expect("it is there").policy().spec().clone();
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = PolicySpec {
        name: "checkout".into(),
        description: "what it is for".into(),
        owner: "team".into(),
        runbook: "https://example.com".into(),
        degrades_to: "no price".into(),
        trip: vec![
            Rule::FailureRate {
                threshold: Rate::from_hundredths(1_250).expect("a rate"),
                window: Window::Within(seconds(10)),
                minimum_calls: 20,
            },
            Rule::SlowRate {
                threshold: Rate::percent(50).expect("a rate"),
                slower_than: seconds(2),
                window: Window::Last(100),
                minimum_calls: 30,
            },
            Rule::Failures { threshold: 5, window: Window::Within(Duration::from_millis(500)) },
            Rule::ConsecutiveFailures { threshold: 6 },
        ],
        open: panelboard_core::OpenSpec {
            wait: Duration::from_millis(1_500),
            multiplier_hundredths: 125,
            max_wait: seconds(60),
            jitter_hundredths: 0,
        },
        half_open: panelboard_core::HalfOpenSpec {
            permitted_calls: 7,
            probe_timeout: seconds(3),
            limit: Some(seconds(40)),
            successes_to_close: Some(4),
            failures_to_open: Some(2),
        },
        spread: Duration::ZERO,
        guard: panelboard_core::GuardSpec { min_instances: 3, share_hundredths: 1_250, min_calls: 7 },
        classification: panelboard_core::Classification {
            failure: words(&["http_429"]),
            ignored: words(&["http_503"]),
            success: words(&["sold_out"]),
        },
        retry_after_scope: panelboard_core::RetryAfterScope::Fleet,
        retry_after_max: seconds(60),
        on_disconnect: OnDisconnect::Deny,
    };
    assert_eq!(spec, expected);
}

#[test]
fn what_is_left_out_has_the_documented_default() {
    let policies = valid("policies:\n  - name: default\n    match: \"**\"\n");
    assert_eq!(*policies.get("default").expect("it is there").policy().spec(), PolicySpec::default());
    // A wait beyond the default cap raises the cap with it.
    let policies = valid("policies:\n  - name: a\n    match: a\n    open: { wait: 2m }\n");
    assert_eq!(
        policies.get("a").expect("it is there").policy().spec().open.max_wait,
        Duration::from_secs(120)
    );
}

#[test]
fn the_most_specific_pattern_wins_over_all_files() {
    let dir = dir(&[
        ("1.yaml", "policies:\n  - {name: all, match: \"**\"}\n  - {name: flat, match: \"*\"}\n"),
        ("2.yml", "policies:\n  - {name: deep, match: c/**}\n  - {name: quotes, match: c/*e}\n"),
        ("3.yaml", "policies:\n  - {name: c, match: [c/*, d]}\n\n  - {name: one, match: [c/quote]}\n"),
        (".4.yaml.swp", "not YAML: ["),
        ("README.md", "not YAML: ["),
    ]);
    let policies = load(dir.path(), &Limits::default(), None).unwrap_or_else(|errors| panic!("{errors}"));
    let found = ["c/quote", "c/note", "c/list", "c/a/b", "flat", "d", "x/y"]
        .map(|text| policies.resolve(&name(text)).expect("all matches").name().to_owned());
    assert_eq!(found, ["one", "quotes", "c", "deep", "flat", "c", "all"]);
    let mut exact: Vec<_> = policies.exact_names().map(BreakerName::as_str).collect();
    exact.sort_unstable();
    assert_eq!(exact, ["c/quote", "d"]);
    let patterns: Vec<_> = policies.patterns().map(panelboard_core::Pattern::as_str).collect();
    assert_eq!(patterns, ["c/*e", "c/*", "c/**", "*", "**"]);
    let place = policies.entry(&name("c/quote")).expect("it is there").place().to_string();
    assert!(place.ends_with("3.yaml:4"), "{place}");
    assert!(valid("policies:\n  - {name: a, match: a/*}\n").resolve(&name("b")).is_none());
}

#[test]
fn the_starter_policy_is_the_defaults_spelled_out() {
    let policies = starter(&Limits::default(), None).unwrap_or_else(|errors| panic!("{errors}"));
    let policy = policies.resolve(&name("any/thing")).expect("it matches everything");
    let spec = policy.spec();
    let mut like_default = spec.clone();
    like_default.half_open.limit = None;
    like_default.name.clone_from(&PolicySpec::default().name);
    like_default.description = String::new();
    assert_eq!(like_default, PolicySpec::default());
    assert_eq!(
        spec.half_open.limit,
        Some(panelboard_core::Policy::try_new(like_default, 1).expect("valid").half_open_limit())
    );
    // Who copies it is told to name a team; nobody is made up to stand in every log line.
    let warnings: Vec<_> = policies.warnings().iter().map(|warning| warning.path.as_str()).collect();
    assert_eq!(warnings, ["policies[0].owner"]);
    assert_eq!(policies.iter().next().expect("one").place().to_string(), "starter policy:5");
}
