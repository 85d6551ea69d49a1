//! What the page says of the server.

use panelboard_proto::v1;

use crate::{
    World,
    breaker::{POLICY, trip},
    world::{calls, client},
};

async fn watch(world: &mut World, instance: &str, resume: &[u8]) -> tonic::Streaming<v1::WatchResponse> {
    let resume = resume.to_vec().into();
    let request = v1::WatchRequest { client: Some(client(instance)), breakers: vec!["**".into()], resume };
    let mut stream = world.grpc.watch(request).await.expect("a stream").into_inner();
    stream.message().await.expect("a stream").expect("a message");
    stream
}

/// Does whatever makes every metric of the server move.
pub(crate) async fn live(world: &mut World) {
    trip(world).await;
    drop(watch(world, "pod-1", b"from another world").await);
    world.scrape_until(|page| page.value("panelboard_watch_streams") == Some("0")).await;
}

#[tokio::test]
async fn entries_are_counted_by_what_became_of_them() {
    let mut world = World::start(POLICY).await;
    let entry = v1::ReportEntry { sequence: 1, ..calls("checkout/slow", 1, 0, "") };
    world.report(entry.clone()).await;
    world.report(entry).await;
    world.report(calls("nobody/knows", 1, 0, "")).await;
    trip(&mut world).await;
    world.report(calls("checkout/shipping-quote", 1, 0, "")).await;
    world.scrape().await.has(&[
        r#"panelboard_reports_total{result="counted"} 2"#,
        r#"panelboard_reports_total{result="duplicate"} 1"#,
        r#"panelboard_reports_total{result="stale_generation"} 1"#,
        r#"panelboard_reports_total{result="unknown_probe"} 0"#,
        r#"panelboard_reports_total{result="too_old"} 0"#,
        r#"panelboard_reports_total{result="not_recorded"} 0"#,
        r#"panelboard_reports_total{result="error"} 1"#,
        // A duplicate is none the less one call only.
        r#"panelboard_breaker_calls_total{breaker="checkout/slow",outcome="success"} 1"#,
        // A stale one is a call all the same.
        r#"panelboard_breaker_calls_total{breaker="checkout/shipping-quote",outcome="success"} 3"#,
    ]);
}

#[tokio::test]
async fn watches_and_the_clients_behind_them_are_counted() {
    let mut world = World::start(POLICY).await;
    world.scrape().await.has(&[
        r#"panelboard_watch_streams 0"#,
        r#"panelboard_watch_resyncs_total 0"#,
        r#"panelboard_clients{state="connected"} 0"#,
        r#"panelboard_clients{state="lost"} 0"#,
    ]);
    let one = watch(&mut world, "pod-1", b"").await;
    let _again = watch(&mut world, "pod-1", b"").await;
    let two = watch(&mut world, "pod-2", b"from another world").await;
    world.scrape().await.has(&[
        r#"panelboard_watch_streams 3"#,
        r#"panelboard_watch_resyncs_total 1"#,
        r#"panelboard_clients{state="connected"} 2"#,
    ]);
    drop((one, two));
    let page = world.scrape_until(|page| page.value("panelboard_watch_streams") == Some("1")).await;
    drop(page);
    let lost = r#"panelboard_clients{state="lost"}"#;
    let page = world.scrape_until(|page| page.value(lost) == Some("1")).await;
    page.has(&[r#"panelboard_clients{state="connected"} 1"#]);
    let _back = watch(&mut world, "pod-2", b"").await;
    world
        .scrape()
        .await
        .has(&[r#"panelboard_clients{state="connected"} 2"#, r#"panelboard_clients{state="lost"} 0"#]);
}

#[tokio::test]
async fn calls_to_the_server_are_counted_by_method_and_code() {
    let mut world = World::start(POLICY).await;
    world.report(calls("checkout/slow", 1, 0, "")).await;
    let request = v1::GetBreakerRequest { breaker: "nobody/knows".into() };
    world.grpc.get_breaker(request).await.expect_err("no such breaker");
    world.scrape().await.has(&[
        r#"panelboard_rpc_duration_seconds_count{method="Report",code="OK"} 1"#,
        r#"panelboard_rpc_duration_seconds_bucket{method="Report",code="OK",le="+Inf"} 1"#,
        r#"panelboard_rpc_duration_seconds_count{method="GetBreaker",code="NOT_FOUND"} 1"#,
    ]);
}

#[tokio::test]
async fn commits_are_counted_and_a_store_that_keeps_up_has_no_lag() {
    let mut world = World::start(POLICY).await;
    let count = |page: &crate::Page| -> u64 {
        let count = page.value("panelboard_store_commit_seconds_count").expect("a count");
        count.parse().expect("a number")
    };
    let lag = "panelboard_store_lag_seconds";
    let before = world.scrape_until(|page| page.value(lag) == Some("0") && count(page) > 0).await;
    trip(&mut world).await;
    let after = world.scrape_until(|page| page.value(lag) == Some("0") && count(page) > count(&before)).await;
    after.has(&["panelboard_store_commit_failures_total 0"]);
}

#[tokio::test]
async fn reloads_are_counted_by_how_they_went() {
    let world = World::start(POLICY).await;
    world.scrape().await.has(&[
        r#"panelboard_policy_reloads_total{result="succeeded"} 0"#,
        r#"panelboard_policy_reloads_total{result="failed"} 0"#,
    ]);
    world.edit_policies("policies: [{ name: broken }]");
    let failed = r#"panelboard_policy_reloads_total{result="failed"}"#;
    let page = world.scrape_until(|page| page.value(failed) == Some("1")).await;
    assert!(!page.of("checkout/slow").is_empty(), "the last good ones stay");
    world.edit_policies("policies: [{ name: other, match: other/one }]");
    let succeeded = r#"panelboard_policy_reloads_total{result="succeeded"}"#;
    let page = world.scrape_until(|page| page.value(succeeded) == Some("1")).await;
    assert!(page.of("checkout/slow").is_empty() && !page.of("other/one").is_empty(), "{}", page.0);
}
