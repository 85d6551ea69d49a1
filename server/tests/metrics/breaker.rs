//! What the page says of breakers.

use std::time::Duration;

use panelboard_proto::{store::StoredBreaker, store::StoredOverride, store::stored_breaker::State, v1};
use panelboard_server::{
    limits::Limits,
    store::{Key, Memory, Precondition, Store, StoreId, Value},
};
use prost::Message;

use crate::{
    World,
    world::{calls, client},
};

const QUOTE: &str = "checkout/shipping-quote";

/// One instance, four calls, two probes.
pub(crate) const POLICY: &str = r#"
policies:
  - name: shipping-quote
    match: [checkout/shipping-quote]
    owner: team-delivery
    trip: [{ failure_rate: 50%, last: 4, minimum_calls: 4 }]
    open: { wait: 10s, multiplier: 1, jitter: 0% }
    half_open: { permitted_calls: 2, probe_timeout: 1s }
  - name: slow
    match: [checkout/slow]
    trip: [{ slow_rate: 100%, slower_than: 1s, within: 10s, minimum_calls: 3 }]
  - name: made
    match: ["made/*"]
"#;

/// Trips the breaker of [`POLICY`].
pub(crate) async fn trip(world: &mut World) {
    let result = world.report(calls(QUOTE, 2, 2, "timeout")).await;
    assert_eq!(result.status.expect("a status").state(), v1::State::Open, "{}", result.progress);
}

/// Takes a probe and brings it back with this outcome.
async fn probe(world: &mut World, outcome: v1::ReportEntry) {
    let grant = world.granted(QUOTE).await;
    let (generation, probe_id) = (grant.generation, grant.probe.expect("a probe").id);
    let entry = v1::ReportEntry { generation, probe_id, ..outcome };
    assert_eq!(world.report(entry).await.result(), v1::EntryResult::Counted);
}

#[tokio::test]
async fn a_breaker_nobody_has_called_is_there_with_zeros() {
    let world = World::start(POLICY).await;
    let page = world.scrape().await;
    page.is_clean();
    let expected = [
        r#"panelboard_breaker_active_instances{breaker="checkout/shipping-quote"} 0"#,
        r#"panelboard_breaker_calls_total{breaker="checkout/shipping-quote",outcome="abandoned"} 0"#,
        r#"panelboard_breaker_calls_total{breaker="checkout/shipping-quote",outcome="failure"} 0"#,
        r#"panelboard_breaker_calls_total{breaker="checkout/shipping-quote",outcome="ignored"} 0"#,
        r#"panelboard_breaker_calls_total{breaker="checkout/shipping-quote",outcome="success"} 0"#,
        r#"panelboard_breaker_failure_ratio{breaker="checkout/shipping-quote"} 0"#,
        r#"panelboard_breaker_minimum_calls{breaker="checkout/shipping-quote"} 4"#,
        r#"panelboard_breaker_probes_expired{breaker="checkout/shipping-quote"} 0"#,
        r#"panelboard_breaker_probes_leased{breaker="checkout/shipping-quote"} 0"#,
        r#"panelboard_breaker_quarantined_instances{breaker="checkout/shipping-quote"} 0"#,
        r#"panelboard_breaker_quarantines_total{breaker="checkout/shipping-quote",reason="crossed"} 0"#,
        r#"panelboard_breaker_quarantines_total{breaker="checkout/shipping-quote",reason="relapsed"} 0"#,
        r#"panelboard_breaker_quarantines_total{breaker="checkout/shipping-quote",reason="retry_after"} 0"#,
        r#"panelboard_breaker_recoveries_total{breaker="checkout/shipping-quote",result="closed"} 0"#,
        r#"panelboard_breaker_recoveries_total{breaker="checkout/shipping-quote",result="closed_at_limit"} 0"#,
        r#"panelboard_breaker_recoveries_total{breaker="checkout/shipping-quote",result="reopened"} 0"#,
        r#"panelboard_breaker_recoveries_total{breaker="checkout/shipping-quote",result="reopened_at_limit"} 0"#,
        r#"panelboard_breaker_rejected_total{breaker="checkout/shipping-quote",reason="FORCED_OPEN"} 0"#,
        r#"panelboard_breaker_rejected_total{breaker="checkout/shipping-quote",reason="OPEN"} 0"#,
        r#"panelboard_breaker_rejected_total{breaker="checkout/shipping-quote",reason="PROBES_TAKEN"} 0"#,
        r#"panelboard_breaker_rejected_total{breaker="checkout/shipping-quote",reason="QUARANTINED"} 0"#,
        r#"panelboard_breaker_rejected_total{breaker="checkout/shipping-quote",reason="RECOVERING"} 0"#,
        r#"panelboard_breaker_rejected_total{breaker="checkout/shipping-quote",reason="client"} 0"#,
        r#"panelboard_breaker_slow_calls_total{breaker="checkout/shipping-quote"} 0"#,
        r#"panelboard_breaker_state{breaker="checkout/shipping-quote",state="CLOSED"} 1"#,
        r#"panelboard_breaker_state{breaker="checkout/shipping-quote",state="DISABLED"} 0"#,
        r#"panelboard_breaker_state{breaker="checkout/shipping-quote",state="FORCED_OPEN"} 0"#,
        r#"panelboard_breaker_state{breaker="checkout/shipping-quote",state="HALF_OPEN"} 0"#,
        r#"panelboard_breaker_state{breaker="checkout/shipping-quote",state="METRICS_ONLY"} 0"#,
        r#"panelboard_breaker_state{breaker="checkout/shipping-quote",state="OPEN"} 0"#,
        r#"panelboard_breaker_window_calls{breaker="checkout/shipping-quote",outcome="failure"} 0"#,
        r#"panelboard_breaker_window_calls{breaker="checkout/shipping-quote",outcome="success"} 0"#,
        r#"panelboard_breaker_would_open_seconds_total{breaker="checkout/shipping-quote"} 0"#,
    ];
    assert_eq!(page.of(QUOTE), expected);
}

#[tokio::test]
async fn an_outage_and_its_end_can_be_read_off_the_page() {
    let mut world = World::start(POLICY).await;
    let entry = v1::ReportEntry { ignored: 5, abandoned: 2, ..calls(QUOTE, 1, 1, "timeout") };
    world.report(entry).await;
    world.scrape().await.has(&[
        r#"panelboard_breaker_calls_total{breaker="checkout/shipping-quote",outcome="success"} 1"#,
        r#"panelboard_breaker_calls_total{breaker="checkout/shipping-quote",outcome="failure"} 1"#,
        r#"panelboard_breaker_calls_total{breaker="checkout/shipping-quote",outcome="ignored"} 5"#,
        r#"panelboard_breaker_calls_total{breaker="checkout/shipping-quote",outcome="abandoned"} 2"#,
        r#"panelboard_breaker_failure_ratio{breaker="checkout/shipping-quote"} 0.5"#,
        r#"panelboard_breaker_window_calls{breaker="checkout/shipping-quote",outcome="success"} 1"#,
        r#"panelboard_breaker_window_calls{breaker="checkout/shipping-quote",outcome="failure"} 1"#,
        r#"panelboard_breaker_active_instances{breaker="checkout/shipping-quote"} 1"#,
    ]);

    let entry = v1::ReportEntry { slow_failures: 1, ..calls(QUOTE, 1, 2, "timeout") };
    world.report(entry).await;
    world.report(v1::ReportEntry { rejected: 7, ..calls(QUOTE, 0, 0, "") }).await;
    world.acquire(QUOTE).await;
    let page = world.scrape().await;
    page.has(&[
        r#"panelboard_breaker_state{breaker="checkout/shipping-quote",state="CLOSED"} 0"#,
        r#"panelboard_breaker_state{breaker="checkout/shipping-quote",state="OPEN"} 1"#,
        r#"panelboard_breaker_causes_total{breaker="checkout/shipping-quote",cause="timeout"} 3"#,
        r#"panelboard_breaker_slow_calls_total{breaker="checkout/shipping-quote"} 1"#,
        r#"panelboard_breaker_rejected_total{breaker="checkout/shipping-quote",reason="client"} 7"#,
        r#"panelboard_breaker_rejected_total{breaker="checkout/shipping-quote",reason="OPEN"} 1"#,
        r#"panelboard_breaker_transitions_total{breaker="checkout/shipping-quote",from="CLOSED",to="OPEN",rule="failure_rate"} 1"#,
        r#"panelboard_breaker_open_info{breaker="checkout/shipping-quote",rule="failure_rate",top_cause="timeout",owner="team-delivery"} 1"#,
        // The window that tripped it: its last four calls.
        r#"panelboard_breaker_failure_ratio{breaker="checkout/shipping-quote"} 0.75"#,
    ]);
    let since = page
        .value(r#"panelboard_breaker_last_transition_timestamp_seconds{breaker="checkout/shipping-quote"}"#);
    let since: f64 = since.expect("a time").parse().expect("a number");
    assert_eq!(since, world.clock.unix_ms() as f64 / 1_000.0);

    // One probe never comes back, the others succeed.
    world.clock.advance(Duration::from_secs(10));
    world.granted(QUOTE).await;
    world.scrape().await.has(&[
        r#"panelboard_breaker_state{breaker="checkout/shipping-quote",state="HALF_OPEN"} 1"#,
        r#"panelboard_breaker_probes_leased{breaker="checkout/shipping-quote"} 1"#,
        r#"panelboard_breaker_probes_expired{breaker="checkout/shipping-quote"} 0"#,
    ]);
    world.clock.advance(Duration::from_secs(2));
    probe(&mut world, calls(QUOTE, 1, 0, "")).await;
    world.scrape().await.has(&[
        r#"panelboard_breaker_probes_leased{breaker="checkout/shipping-quote"} 0"#,
        r#"panelboard_breaker_probes_expired{breaker="checkout/shipping-quote"} 1"#,
    ]);
    probe(&mut world, calls(QUOTE, 1, 0, "")).await;
    let page = world.scrape().await;
    page.has(&[
        r#"panelboard_breaker_state{breaker="checkout/shipping-quote",state="CLOSED"} 1"#,
        r#"panelboard_breaker_recoveries_total{breaker="checkout/shipping-quote",result="closed"} 1"#,
        r#"panelboard_breaker_transitions_total{breaker="checkout/shipping-quote",from="OPEN",to="HALF_OPEN",rule="wait_over"} 1"#,
        r#"panelboard_breaker_transitions_total{breaker="checkout/shipping-quote",from="HALF_OPEN",to="CLOSED",rule="probes_succeeded"} 1"#,
        r#"panelboard_breaker_probes_leased{breaker="checkout/shipping-quote"} 0"#,
        // Still seen after the period, by whoever scrapes seldom.
        r#"panelboard_breaker_probes_expired{breaker="checkout/shipping-quote"} 1"#,
        r#"panelboard_breaker_failure_ratio{breaker="checkout/shipping-quote"} 0"#,
    ]);
    assert!(!page.0.contains("panelboard_breaker_open_info{"), "{}", page.0);
    page.is_clean();
}

#[tokio::test]
async fn after_a_failed_probe_the_page_still_says_what_tripped_it() {
    let mut world = World::start(POLICY).await;
    trip(&mut world).await;
    world.clock.advance(Duration::from_secs(10));
    probe(&mut world, calls(QUOTE, 0, 1, "reset")).await;
    world.scrape().await.has(&[
        r#"panelboard_breaker_recoveries_total{breaker="checkout/shipping-quote",result="reopened"} 1"#,
        r#"panelboard_breaker_recoveries_total{breaker="checkout/shipping-quote",result="closed"} 0"#,
        r#"panelboard_breaker_open_info{breaker="checkout/shipping-quote",rule="probes_failed",top_cause="timeout",owner="team-delivery"} 1"#,
    ]);
}

#[tokio::test]
async fn a_policy_that_looks_at_slow_calls_only_shows_those() {
    let mut world = World::start(POLICY).await;
    world.report(v1::ReportEntry { slow_successes: 1, ..calls("checkout/slow", 4, 0, "") }).await;
    let page = world.scrape().await;
    page.has(&[
        r#"panelboard_breaker_slow_ratio{breaker="checkout/slow"} 0.25"#,
        r#"panelboard_breaker_window_calls{breaker="checkout/slow",outcome="slow"} 1"#,
        r#"panelboard_breaker_window_calls{breaker="checkout/slow",outcome="fast"} 3"#,
        r#"panelboard_breaker_minimum_calls{breaker="checkout/slow"} 3"#,
    ]);
    assert_eq!(page.value(r#"panelboard_breaker_failure_ratio{breaker="checkout/slow"}"#), None);
    assert_eq!(page.value(r#"panelboard_breaker_slow_ratio{breaker="checkout/shipping-quote"}"#), None);
}

#[tokio::test]
async fn what_is_deleted_vanishes_and_what_is_quiet_stays() {
    let limits = Limits { idle_breaker_age: Duration::from_secs(60), ..Limits::default() };
    let mut world = World::start_with(POLICY, Memory::new(StoreId::from_u128(1)), limits).await;
    world.report(calls(QUOTE, 1, 0, "")).await;
    world.report(calls("made/up", 3, 0, "")).await;
    world.report(calls("made/up-and-used", 2, 0, "")).await;
    let before = world.scrape().await;
    assert!(!before.of("made/up").is_empty());
    let (quiet, quiet_before) = (before.of(QUOTE).len(), before.of("made/up-and-used").len());

    world.clock.advance(Duration::from_secs(50));
    world.acquire("made/up-and-used").await;
    world.clock.advance(Duration::from_secs(50));
    let after = world.scrape_until(|page| page.of("made/up").is_empty()).await;
    assert_eq!((after.of(QUOTE).len(), after.of("made/up-and-used").len()), (quiet, quiet_before));
    after.has(&[
        r#"panelboard_breaker_calls_total{breaker="checkout/shipping-quote",outcome="success"} 1"#,
        r#"panelboard_breaker_calls_total{breaker="made/up-and-used",outcome="success"} 2"#,
        // What is counted for the server outlives breakers.
        r#"panelboard_reports_total{result="counted"} 3"#,
    ]);

    // One that comes back counts anew.
    world.report(calls("made/up", 1, 0, "")).await;
    world.scrape().await.has(&[r#"panelboard_breaker_calls_total{breaker="made/up",outcome="success"} 1"#]);
}

#[tokio::test]
async fn an_owner_with_quotes_backslashes_and_line_breaks_is_escaped() {
    let owner = r#"team-delivery"#;
    let hostile = POLICY.replace(owner, r#""say \"hi\"\nC:\\temp\\\\x\\\"y\\""#);
    let mut world = World::start(&hostile).await;
    trip(&mut world).await;
    let page = world.scrape().await;
    page.is_clean();
    page.has(&[
        r#"panelboard_breaker_open_info{breaker="checkout/shipping-quote",rule="failure_rate",top_cause="timeout",owner="say \"hi\"\nC:\\temp\\\\x\\\"y\\"} 1"#,
    ]);
}

#[tokio::test]
async fn callers_and_causes_cannot_fill_the_page() {
    let mut world = World::start(POLICY).await;
    for n in 0..100 {
        let entry = v1::ReportEntry { ignored: 1, ..calls(QUOTE, 0, 0, "") };
        let causes = [(format!("made-up-{n}"), 1)].into();
        let client = Some(client(&format!("pod-{n}")));
        let request = v1::ReportRequest { client, entries: vec![v1::ReportEntry { causes, ..entry }] };
        world.grpc.report(request).await.expect("an answer");
    }
    let page = world.scrape().await;
    page.has(&[r#"panelboard_breaker_causes_total{breaker="checkout/shipping-quote",cause="other"} 100"#]);
    assert!(!page.0.contains("pod-") && !page.0.contains("made-up"), "{}", page.0);
}

/// A store in which this breaker is under METRICS_ONLY.
pub(crate) fn shadowed(breaker: &str) -> Memory {
    let store = Memory::new(StoreId::from_u128(1));
    let kind = v1::OverrideKind::MetricsOnly.into();
    let over = StoredOverride { kind, who: "ada".into(), why: "try".into(), ..StoredOverride::default() };
    let record = StoredBreaker { state: Some(State::Overridden(over)), ..StoredBreaker::default() };
    let key = Key::new(format!("breaker/{breaker}")).expect("a key");
    let value = Value::new(record.encode_to_vec()).expect("a value");
    store.put(key, value, Precondition::Absent).expect("a commit");
    store
}

#[tokio::test]
async fn time_in_which_it_would_be_open_is_counted_while_a_rule_is_crossed() {
    let mut world = World::start_with(POLICY, shadowed(QUOTE), Limits::default()).await;
    world.scrape().await.has(&[
        r#"panelboard_breaker_state{breaker="checkout/shipping-quote",state="METRICS_ONLY"} 1"#,
        r#"panelboard_breaker_state{breaker="checkout/shipping-quote",state="CLOSED"} 0"#,
    ]);
    world.report(calls(QUOTE, 0, 4, "timeout")).await;
    world.clock.advance(Duration::from_millis(7_900));
    let would_open = r#"panelboard_breaker_would_open_seconds_total{breaker="checkout/shipping-quote"}"#;
    assert_eq!(world.scrape().await.value(would_open), Some("7"));
    // Four good calls, and it is not crossed any more.
    world.report(calls(QUOTE, 4, 0, "")).await;
    world.clock.advance(Duration::from_secs(5));
    assert_eq!(world.scrape().await.value(would_open), Some("7"));
    // It adds up.
    world.report(calls(QUOTE, 0, 4, "timeout")).await;
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.scrape().await.value(would_open), Some("8"));
}
