//! The client's metrics as an application's exporter shows them.

#[path = "it/fake.rs"]
#[expect(dead_code, reason = "the tests of the client itself use all of it")]
mod fake;

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use fake::{Fake, Live, Reported};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use panelboard_client::{Breaker, CallError, Client, Freshness, Mode, OnDisconnect, testing::FakePanel};
use panelboard_proto::v1::{self, watch_response::Event};
use tokio::sync::{Mutex, MutexGuard};
use tonic::Status;

/// Far longer than anything takes here that works.
const BOUND: Duration = Duration::from_secs(20);
const WAIT: Duration = Duration::from_secs(60);

/// One for the process, as in an application; and before any client is built, as the documentation asks.
static PAGE: LazyLock<PrometheusHandle> =
    LazyLock::new(|| PrometheusBuilder::new().install_recorder().unwrap());

/// What has no label is the whole process's: one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

async fn panel() -> (MutexGuard<'static, ()>, FakePanel) {
    let alone = ALONE.lock().await;
    LazyLock::force(&PAGE);
    (alone, FakePanel::new())
}

/// The value of the one series of that name with these labels and no others.
fn value(name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let page = PAGE.render();
    let of = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let (found, rest) = series.split_once('{').unwrap_or((series, ""));
        let has = |(label, value): &(&str, &str)| rest.contains(&format!("{label}=\"{value}\""));
        let is_it = found == format!("panelboard_client_{name}")
            && labels.iter().all(has)
            && rest.matches('=').count() == labels.len();
        is_it.then(|| value.parse().unwrap())
    };
    page.lines().find_map(of)
}

fn count(name: &str, labels: &[(&str, &str)]) -> u64 {
    value(name, labels).unwrap_or_else(|| panic!("{name} {labels:?} is not on the page")) as u64
}

/// Waits until something is true.
async fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < BOUND, "not in {BOUND:?}: {what}\n{}", PAGE.render());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits for something that must come.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.unwrap_or_else(|_| panic!("not in {BOUND:?}: {what}"))
}

fn decisions(breaker: &str, freshness: &str, decision: &str) -> u64 {
    count("decisions_total", &[("breaker", breaker), ("freshness", freshness), ("decision", decision)])
}

fn rejected(breaker: &str, reason: &str) -> u64 {
    count("rejected_total", &[("breaker", breaker), ("reason", reason)])
}

/// Which freshness the page shows; exactly one.
fn shown(breaker: &str) -> Vec<&'static str> {
    let is =
        |freshness: &&str| value("freshness", &[("breaker", breaker), ("freshness", freshness)]) == Some(1.0);
    ["FRESH", "STALE", "LOCAL"].into_iter().filter(is).collect()
}

#[tokio::test]
async fn decisions_are_counted_by_freshness_and_rejections_by_reason() {
    let (_alone, panel) = panel().await;
    let quote = panel.client().breaker("decisions");
    panel.close("decisions").await;
    assert_eq!(shown("decisions"), ["FRESH"]);
    (0..5).for_each(|_| quote.try_acquire().unwrap().success());
    quote.try_acquire().unwrap().failure("timeout");
    quote.try_acquire().unwrap().ignore();
    drop(quote.try_acquire().unwrap());

    panel.open("decisions", WAIT).await;
    (0..3).for_each(|_| assert!(quote.try_acquire().is_err()));
    panel.force_open("decisions").await;
    (0..2).for_each(|_| assert!(quote.try_acquire().is_err()));
    panel.half_open("decisions", 0).await;
    assert!(quote.try_acquire().is_err());

    panel.close("decisions").await;
    panel.disconnect().await;
    assert_eq!(shown("decisions"), ["LOCAL"]);
    (0..4).for_each(|_| quote.try_acquire().unwrap().success());
    // Whoever looks collects what there is.
    assert_eq!(quote.freshness(), Freshness::Local);

    assert_eq!(
        (decisions("decisions", "FRESH", "admitted"), decisions("decisions", "FRESH", "rejected")),
        (8, 6)
    );
    assert_eq!(
        (decisions("decisions", "LOCAL", "admitted"), decisions("decisions", "LOCAL", "rejected")),
        (4, 0)
    );
    assert_eq!((rejected("decisions", "OPEN"), rejected("decisions", "FORCED_OPEN")), (3, 2));
    assert_eq!((rejected("decisions", "PROBES_TAKEN"), rejected("decisions", "QUARANTINED")), (1, 0));
}

#[tokio::test]
async fn away_and_told_to_reject_then_it_says_so() {
    let (_alone, panel) = panel().await;
    let client = panel.client_with(|builder| builder.on_disconnect(OnDisconnect::Deny));
    let quote = client.breaker("denied");
    panel.close("denied").await;
    panel.disconnect().await;
    (0..3).for_each(|_| assert!(quote.try_acquire().is_err()));
    assert_eq!(quote.freshness(), Freshness::Local);
    assert_eq!((rejected("denied", "DISCONNECTED"), decisions("denied", "LOCAL", "rejected")), (3, 3));
}

#[tokio::test]
async fn in_shadow_mode_what_would_have_been_rejected_is_counted_as_that() {
    let (_alone, panel) = panel().await;
    let quote = panel.client_with(|builder| builder.mode(Mode::Shadow)).breaker("shadowed");
    panel.open("shadowed", WAIT).await;
    (0..3).for_each(|_| quote.try_acquire().unwrap().success());
    assert_eq!((rejected("shadowed", "OPEN"), decisions("shadowed", "FRESH", "rejected")), (3, 3));
    assert_eq!(decisions("shadowed", "FRESH", "admitted"), 0);
}

#[tokio::test]
async fn fallbacks_are_counted_by_what_they_stood_in_for() {
    let (_alone, panel) = panel().await;
    let quote = panel.client().breaker("fallbacks");
    panel.close("fallbacks").await;
    let fails = || async { Err::<u64, _>("no") };
    let falls_back = |_: CallError<&str>| Ok(7);
    assert_eq!(quote.call_or(fails, falls_back).await, Ok(7));
    panel.open("fallbacks", WAIT).await;
    assert_eq!(quote.call_or(fails, falls_back).await, Ok(7));
    assert_eq!(quote.call_or(fails, falls_back).await, Ok(7));
    let fallbacks = |kind| count("fallbacks_total", &[("breaker", "fallbacks"), ("kind", kind)]);
    assert_eq!((fallbacks("FAILED"), fallbacks("OPEN"), fallbacks("FORCED_OPEN")), (1, 2, 0));
}

#[tokio::test]
async fn a_probe_that_runs_grows_old_until_it_ends() {
    let (_alone, panel) = panel().await;
    let client = panel.client_with(|builder| builder.probe_wait(Duration::from_secs(10)));
    let quote = client.breaker("probes");
    panel.half_open("probes", 1).await;
    let age = || value("oldest_running_probe_seconds", &[("breaker", "probes")]).unwrap();
    assert_eq!(age(), 0.0);
    let began = Instant::now();
    let probe = loop {
        match quote.acquire().await {
            Ok(probe) => break probe,
            Err(rejected) => assert!(began.elapsed() < BOUND, "{rejected}"),
        }
    };
    assert!(probe.is_probe());
    eventually("the probe is a third of a second old", || age() > 0.3).await;
    assert!(age() <= began.elapsed().as_secs_f64() + 0.01);
    probe.success();
    eventually("no probe runs", || age() == 0.0).await;
    assert_eq!(decisions("probes", "FRESH", "admitted"), 1);
}

#[tokio::test]
async fn a_breaker_that_nobody_holds_any_more_is_not_shown_as_anything() {
    let (_alone, panel) = panel().await;
    let other = panel.client_with(|builder| builder);
    drop((panel.client().breaker("gone"), other.breaker("gone")));
    panel.close("gone").await;
    let known = || {
        ["FRESH", "STALE", "LOCAL"]
            .map(|freshness| value("freshness", &[("breaker", "gone"), ("freshness", freshness)]).unwrap())
    };
    assert_eq!(known(), [2.0, 0.0, 0.0], "two clients know it");
    for client in [other, panel.client()] {
        soon("the end", client.shutdown()).await;
    }
    drop(panel);
    eventually("nobody knows it", || known() == [0.0; 3]).await;
}

// What only a server that misbehaves shows.

fn closed(name: &str) -> v1::BreakerStatus {
    v1::BreakerStatus {
        name: name.into(),
        admission: v1::Admission::Allow.into(),
        state: v1::State::Closed.into(),
        generation: Some(v1::Generation { epoch: 1, revision: 5 }),
        version: Some(v1::Version { epoch: 1, revision: 5 }),
        active_instances: 1,
        ..v1::BreakerStatus::default()
    }
}

struct Connected {
    breaker: Breaker,
    _client: Client,
    live: Live,
    fake: Fake,
    // Dropped last.
    _alone: MutexGuard<'static, ()>,
}

async fn connected(name: &str) -> Connected {
    let alone = ALONE.lock().await;
    LazyLock::force(&PAGE);
    let mut fake = Fake::start().await;
    let client = Client::builder(fake.url()).service("tests").instance("a").build().unwrap();
    let breaker = client.breaker(name);
    let live = fake.live().await;
    live.snapshot(vec![closed(name)], b"one").await;
    eventually("it is FRESH", || breaker.freshness() == Freshness::Fresh).await;
    Connected { breaker, _client: client, live, fake, _alone: alone }
}

fn answer(reported: Reported) {
    let result = v1::ReportResult { result: v1::EntryResult::Counted.into(), ..v1::ReportResult::default() };
    let results = vec![result; reported.request.entries.len()];
    reported.answer(v1::ReportResponse { results, tick: 1_000 });
}

#[tokio::test]
async fn flushes_are_counted_by_what_became_of_them_and_entries_once() {
    let Connected { breaker, mut fake, live: _live, _client, _alone } = connected("flushes").await;
    let flushes = |result| count("flushes_total", &[("result", result)]);
    let entries = || count("entries_total", &[("breaker", "flushes")]);
    let (ok, failed, refused) = (flushes("ok"), flushes("failed"), flushes("refused"));
    assert_eq!(entries(), 0);
    breaker.try_acquire().unwrap().failure("timeout");
    fake.reported().await.refuse(Status::unavailable("busy"));
    eventually("one has failed", || flushes("failed") > failed).await;
    answer(fake.reported().await);
    eventually("the same was answered", || flushes("ok") > ok && entries() == 1).await;
    breaker.try_acquire().unwrap().failure("timeout");
    fake.reported().await.refuse(Status::permission_denied("no"));
    eventually("one was refused", || flushes("refused") > refused).await;
    assert_eq!((flushes("refused"), entries()), (refused + 1, 1));
}

#[tokio::test]
async fn reconnects_are_counted_and_the_first_connection_is_none() {
    let Connected { breaker, mut fake, live, _client, _alone } = connected("reconnects").await;
    let reconnects = || count("reconnects_total", &[]);
    let before = reconnects();
    live.end(Status::unavailable("gone")).await;
    let live = fake.live().await;
    live.snapshot(vec![closed("reconnects")], b"two").await;
    eventually("it is FRESH again", || breaker.freshness() == Freshness::Fresh).await;
    assert_eq!((reconnects(), shown("reconnects")), (before + 1, vec!["FRESH"]));
}

#[tokio::test]
async fn a_name_that_the_server_does_not_know_is_unknown_until_it_does() {
    let Connected { breaker, live, fake: _fake, _client, _alone } = connected("unknown").await;
    let unknown = || value("unknown_breakers", &[]).unwrap();
    assert_eq!(unknown(), 0.0);
    live.say(Event::NotFound(v1::NotFound { name: "unknown".into(), nearest: String::new() })).await;
    eventually("it is unknown", || unknown() == 1.0).await;
    assert_eq!(breaker.freshness(), Freshness::Local);
    live.say(Event::Status(closed("unknown"))).await;
    eventually("it is known", || unknown() == 0.0).await;
}
