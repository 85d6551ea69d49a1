//! Permits that nobody says an outcome of: each comes back, or ends.

use std::time::{Duration, Instant};

use panelboard_client::{Breaker, Client, Permit, State};
use panelboard_proto::v1;

use crate::{
    eventually::{slack, until, until_some},
    matrix::Row,
    panel::{Panel, Site},
    scene::{SOON, client},
};

const POLICIES: &str = "
policies:
  - name: patient
    match: ['patient/*']
    owner: tests
    trip: [{ failures: 20, within: 10s }]
    open: { wait: 1s, multiplier: 1, jitter: 0% }
    half_open: { permitted_calls: 2, probe_timeout: 20s }
    guard: { min_instances: 1 }
    close: { spread: 0s }
  - name: hasty
    match: ['hasty/*']
    owner: tests
    trip: [{ failures: 20, within: 10s }]
    open: { wait: 1s, multiplier: 1, jitter: 0% }
    half_open: { permitted_calls: 2, probe_timeout: 2s }
    guard: { min_instances: 1 }
    close: { spread: 0s }
";
/// What `hasty` says.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// A probe that nobody used goes back then.
const UNUSED: Duration = Duration::from_secs(5);
/// An outcome, on its way.
const AT_ONCE: Duration = Duration::from_millis(500);

pub(crate) async fn they_come_back() -> Row {
    let site = Site::new(POLICIES);
    let panel = site.start().await;
    let client = client(site.url()).build().expect("a client");
    let (unused, cancelled, panicked, timed_out, leaked, ended) = tokio::join!(
        unused(&panel, &client),
        cancelled(&panel, &client),
        panicked(&panel, &client),
        timed_out(&panel, &client),
        leaked(&panel, &client),
        client_ends(&panel, &site),
    );
    let shown = |span: Duration| format!("{:.1} s", span.as_secs_f64());
    let [unused, cancelled, panicked, timed_out, leaked, ended] =
        [unused, cancelled, panicked, timed_out, leaked, ended].map(shown);
    Row {
        meanwhile: format!(
            "back: unused {unused}, cancelled {cancelled}, panicked {panicked}, client ended {ended}; \
             failed: overrun {timed_out}, leaked {leaked}"
        ),
        ..Row::default()
    }
}

/// A handle to a breaker that is HALF_OPEN.
async fn half_open(panel: &Panel, client: &Client, name: &str) -> Breaker {
    let breaker = client.breaker(name);
    client.ready(SOON).await.expect("FRESH");
    assert_eq!(panel.report_failures(name, 20).await, v1::State::Open);
    until("HALF_OPEN", SOON, || breaker.state() == State::HalfOpen).await;
    breaker
}

/// A probe for this caller, who asks until there is one.
async fn probe(breaker: &Breaker) -> Permit<'_> {
    let (permit, _) = until_some("a probe", SOON, async || breaker.acquire().await.ok()).await;
    assert!(permit.is_probe());
    permit
}

async fn has_leased(panel: &Panel, name: &str, probes: u32, bound: Duration) -> Duration {
    let what = format!("{name} has {probes} probes out");
    let leased = async || (panel.look(name).await.probes_leased == probes).then_some(());
    until_some(&what, bound, leased).await.1
}

/// The breaker is as good as any: it closes when two probes succeed.
async fn it_recovers(panel: &Panel, breaker: &Breaker) {
    let closed = async || {
        drop(breaker.call(|| std::future::ready(Ok::<_, ()>(()))).await);
        (panel.state(breaker.name()).await == v1::State::Closed).then_some(())
    };
    until_some("it closes", SOON, closed).await;
}

/// The probe came back without an outcome, and the period goes on.
async fn came_back(panel: &Panel, breaker: &Breaker) {
    let name = breaker.name();
    assert_eq!(panel.calls(name, "abandoned").await, 1);
    assert_eq!(panel.calls(name, "failure").await, 20, "only somebody else's");
    assert_eq!(panel.state(name).await, v1::State::HalfOpen);
    it_recovers(panel, breaker).await;
}

/// The probe failed, and with it the period.
async fn failed(panel: &Panel, breaker: &Breaker) {
    let name = breaker.name();
    let timeouts = [("breaker", name), ("cause", "timeout")];
    assert_eq!(panel.metric("panelboard_breaker_causes_total", &timeouts).await, 1);
    assert_eq!(panel.calls(name, "failure").await, 21);
    it_recovers(panel, breaker).await;
}

async fn unused(panel: &Panel, client: &Client) -> Duration {
    let breaker = half_open(panel, client, "patient/unused").await;
    // It never waits, and makes the client ask all the same.
    let began = Instant::now();
    breaker.try_acquire().expect_err("no probe is at hand yet");
    assert!(began.elapsed() <= slack(), "try_acquire took {:?}", began.elapsed());
    has_leased(panel, breaker.name(), 1, SOON).await;
    let got = Instant::now();
    has_leased(panel, breaker.name(), 0, UNUSED + AT_ONCE).await;
    let took = got.elapsed();
    assert!(took + AT_ONCE >= UNUSED, "it went back after {took:?}");
    came_back(panel, &breaker).await;
    took
}

async fn cancelled(panel: &Panel, client: &Client) -> Duration {
    let breaker = half_open(panel, client, "patient/cancelled").await;
    let began = std::sync::OnceLock::new();
    until_some("a probe's call", SOON, async || {
        let call = breaker.call(|| {
            began.get_or_init(Instant::now);
            std::future::pending::<Result<(), ()>>()
        });
        // The caller's patience is over.
        drop(tokio::time::timeout(Duration::from_millis(300), call).await);
        began.get()
    })
    .await;
    let took = has_leased(panel, breaker.name(), 0, AT_ONCE).await;
    came_back(panel, &breaker).await;
    took
}

async fn panicked(panel: &Panel, client: &Client) -> Duration {
    let breaker = half_open(panel, client, "patient/panicked").await;
    let panicking = async || {
        let breaker = breaker.clone();
        let call = async move { breaker.call(async || -> Result<(), ()> { panic!("on purpose") }).await };
        tokio::spawn(call).await.is_err().then_some(())
    };
    until_some("a probe's call", SOON, panicking).await;
    let took = has_leased(panel, breaker.name(), 0, AT_ONCE).await;
    came_back(panel, &breaker).await;
    took
}

/// The call goes on, and its success comes too late to count.
async fn timed_out(panel: &Panel, client: &Client) -> Duration {
    let breaker = half_open(panel, client, "hasty/overrun").await;
    let permit = probe(&breaker).await;
    let began = Instant::now();
    let took = fails_by_itself(panel, &breaker, began).await;
    permit.success();
    failed(panel, &breaker).await;
    // Two of the two that closed it; the late one is not among them.
    assert_eq!(panel.calls(breaker.name(), "failure").await, 21);
    took
}

async fn leaked(panel: &Panel, client: &Client) -> Duration {
    let breaker = half_open(panel, client, "hasty/leaked").await;
    std::mem::forget(probe(&breaker).await);
    let took = fails_by_itself(panel, &breaker, Instant::now()).await;
    failed(panel, &breaker).await;
    took
}

async fn fails_by_itself(panel: &Panel, breaker: &Breaker, began: Instant) -> Duration {
    let opened = async || (panel.state(breaker.name()).await == v1::State::Open).then_some(());
    until_some("the probe fails by its timeout", PROBE_TIMEOUT + AT_ONCE, opened).await;
    let took = began.elapsed();
    assert!(took + AT_ONCE >= PROBE_TIMEOUT, "it failed after {took:?}");
    took
}

async fn client_ends(panel: &Panel, site: &Site) -> Duration {
    let client = client(site.url()).instance("b").build().expect("a client");
    let breaker = half_open(panel, &client, "patient/ended").await;
    let permit = probe(&breaker).await;
    client.shutdown().await;
    let took = has_leased(panel, breaker.name(), 0, AT_ONCE).await;
    drop(permit);
    assert_eq!(panel.calls(breaker.name(), "abandoned").await, 1);
    took
}

/// A permit that is leaked while CLOSED has taken nothing that anybody could miss.
pub(crate) async fn leaked_while_closed() -> Row {
    const LEAKED: usize = 100_000;
    let site = Site::new(POLICIES);
    let panel = site.start().await;
    let client = client(site.url()).build().expect("a client");
    let breaker = client.breaker("patient/closed");
    client.ready(SOON).await.expect("FRESH");
    for _ in 0..LEAKED {
        std::mem::forget(breaker.try_acquire().expect("it is CLOSED"));
    }
    let mut longest = Duration::ZERO;
    for _ in 0..10 {
        let began = Instant::now();
        breaker.try_acquire().expect("it is CLOSED").success();
        longest = longest.max(began.elapsed());
    }
    let counted = async || (panel.calls(breaker.name(), "success").await == 10).then_some(());
    until_some("the others are counted", AT_ONCE, counted).await;
    client.shutdown().await;
    assert_eq!(panel.calls(breaker.name(), "abandoned").await, 0);
    Row {
        longest_wait: Some(longest),
        meanwhile: format!("{LEAKED} leaked, 10 of 10 others counted"),
        ..Row::default()
    }
}
