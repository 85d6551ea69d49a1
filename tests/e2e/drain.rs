//! A server that is asked to stop: in bounded time, with every client told, and nothing lost.

use std::time::{Duration, Instant};

use panelboard_proto::v1::{self, watch_response::Event};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_types::StatusExt;

use crate::support::*;

const WATCHERS: usize = 100;
/// Room for a busy machine beyond the drain's own bound.
const MARGIN: Duration = Duration::from_secs(10);

async fn start(folder: &std::path::Path) -> Process {
    Process::start(folder, &["--drain-timeout", &format!("{}s", DRAIN.as_secs())]).await
}

/// Everything up to the end of a stream, and its last event.
async fn last_words(watcher: &mut Watcher) -> Event {
    let mut last = None;
    while let Some(message) = watcher.message().await {
        last = message.event;
    }
    last.expect("a last word")
}

#[tokio::test]
async fn asked_to_stop_it_tells_each_watcher_and_exits_with_0_in_bounded_time() {
    let folder = tempfile::tempdir().unwrap();
    let process = start(folder.path()).await;
    let mut watchers = Vec::new();
    for n in 0..WATCHERS {
        // Ten streams on each connection.
        let mut service = process.service().await;
        for _ in 0..if n % 10 == 0 { 10 } else { 0 } {
            let mut watcher = Watcher::open(&mut service, None, &["t/a"], &[]).await.unwrap();
            watcher.snapshot().await;
            watchers.push(watcher);
        }
    }
    assert_eq!(watchers.len(), WATCHERS);
    let began = Instant::now();
    process.signal("TERM").await;
    for watcher in &mut watchers {
        let Event::Draining(draining) = last_words(watcher).await else { panic!("the last word is no hint") };
        assert!(millis(draining.ttl.as_ref()).unwrap() > 10_000, "longer than a bookmark's");
        assert!(!draining.resume.is_empty() && draining.reconnect_after.is_some());
    }
    let (code, log) = process.end().await;
    assert_eq!(code, Some(0), "{log:#?}");
    assert!(began.elapsed() < DRAIN + MARGIN, "{:?}", began.elapsed());
}

#[tokio::test]
async fn while_it_stops_it_is_alive_not_ready_takes_reports_and_refuses_new_watches() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = start(folder.path()).await;
    let mut service = process.service().await;
    let mut watcher = Watcher::open(&mut service, None, &["t/a"], &[]).await.unwrap();
    watcher.snapshot().await;
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", process.grpc)).unwrap();
    let mut health = HealthClient::new(endpoint.connect().await.unwrap());
    process.signal("TERM").await;
    process.logged("stopping").await;
    // A second one, of either kind, is harmless.
    process.signal("TERM").await;
    process.signal("INT").await;

    let not_ready = async { while process.get("/readyz").await.0 != 503 {} };
    within("not ready", not_ready).await;
    assert_eq!(process.get("/healthz").await.0, 200);
    for service in ["", "panelboard.v1.BreakerService"] {
        let asked = health.check(HealthCheckRequest { service: service.into() }).await.unwrap();
        assert_eq!(asked.into_inner().status(), ServingStatus::NotServing, "{service:?}");
    }

    let refused = Watcher::open(&mut service, None, &["t/a"], &[]).await.err().expect("a refusal");
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    let details = refused.get_error_details();
    assert!(details.retry_info().is_some_and(|retry| retry.retry_delay.is_some()));
    assert_eq!(details.error_info().unwrap().reason, "DRAINING");

    // A breaker that trips now is told to whoever still watches, and is durable.
    let request = v1::ReportRequest { client: None, entries: vec![failures("t/a", 20)] };
    let taken = service.report(request).await.unwrap().into_inner().results.remove(0);
    assert_eq!(taken.result(), v1::EntryResult::Counted);
    assert_eq!(watcher.status().await.state(), v1::State::Open);
    assert!(matches!(last_words(&mut watcher).await, Event::Draining(_)));
    assert_eq!(process.end().await.0, Some(0));

    let process = start(folder.path()).await;
    let request = v1::GetBreakerRequest { breaker: "t/a".into() };
    let seen = process.service().await.get_breaker(request).await.unwrap().into_inner();
    let last = seen.status.unwrap().last_transition.expect("what it was told of before the end");
    assert_eq!(last.reason(), v1::TransitionReason::RuleCrossed);
}

#[tokio::test]
async fn until_its_moment_comes_a_watcher_is_told_that_what_it_knows_is_current() {
    let folder = tempfile::tempdir().unwrap();
    // Moments are spread over minutes: some of a few watchers have theirs long after a bookmark is due.
    let mut process = Process::start(folder.path(), &["--drain-timeout", "10m"]).await;
    let mut service = process.service().await;
    let mut watchers = Vec::new();
    for _ in 0..10 {
        let mut watcher = Watcher::open(&mut service, None, &["t/a"], &[]).await.unwrap();
        watcher.snapshot().await;
        watchers.push(watcher);
    }
    process.signal("TERM").await;
    process.logged("stopping").await;
    let two_bookmarks = |mut watcher: Watcher| async move {
        for _ in 0..2 {
            watcher.bookmark().await;
        }
    };
    let mut told = tokio::task::JoinSet::new();
    watchers.into_iter().for_each(|watcher| drop(told.spawn(two_bookmarks(watcher))));
    // One that was asked to leave first has no bookmark as its next word: others are told.
    while told.join_next().await.expect("some are told").is_err() {}
}

#[tokio::test]
async fn a_watcher_that_does_not_read_does_not_keep_it() {
    let folder = tempfile::tempdir().unwrap();
    let process = start(folder.path()).await;
    let mut service = process.service().await;
    let names: Vec<String> = (0..1_000).map(|n| format!("t/{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", process.grpc)).unwrap();
    let channel = endpoint.initial_stream_window_size(1_024).connect().await.unwrap();
    let asleep = Watcher::open(&mut Service::new(channel), None, &names, &[]).await.unwrap();
    Watcher::open(&mut service, None, &["t/1"], &[]).await.unwrap().snapshot().await;
    let began = Instant::now();
    process.signal("INT").await;
    let (code, log) = process.end().await;
    assert_eq!(code, Some(0), "{log:#?}");
    assert!(began.elapsed() < DRAIN + MARGIN, "{:?}", began.elapsed());
    drop(asleep);
}
