//! Many clients at once, each with a thread and a connection of its own, as in as many processes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use panelboard_client::{Breaker, Client, Freshness, State};
use panelboard_proto::v1;

use crate::{
    application::PROBE_WAIT,
    eventually::{slack, until, until_some},
    gate::Gate,
    matrix::Row,
    panel::{Panel, Site},
    scene::{SOON, client},
    trial::{self, RECONNECT},
};

const POLICIES: &str = "
policies:
  - name: fleet
    match: ['fleet/*']
    owner: tests
    trip: [{ failures: 20, within: 10s }]
    open: { wait: 2s, multiplier: 1, jitter: 0% }
    half_open: { permitted_calls: 5, probe_timeout: 10s }
    guard: { min_instances: 1, share: 0% }
    close: { spread: 0s }
";
const NAME: &str = "fleet/quote";
/// What the policy says.
const PERMITTED: u64 = 5;
/// How long the call of a probe takes: all the others know long before that there is none left.
const PROBE_RUNS: Duration = Duration::from_secs(2);

struct Fleet {
    clients: Vec<Client>,
    breakers: Vec<Breaker>,
}

impl Fleet {
    async fn start(url: &str, size: usize) -> Self {
        let clients: Vec<_> = (0..size)
            .map(|n| client(url.to_owned()).instance(format!("pod-{n}")).build().expect("a client"))
            .collect();
        let breakers = clients.iter().map(|client| client.breaker(NAME)).collect();
        let fleet = Self { clients, breakers };
        until("the fleet is FRESH", SOON + SOON, || fleet.are(Freshness::Fresh)).await;
        fleet
    }

    fn are(&self, freshness: Freshness) -> bool {
        self.breakers.iter().all(|breaker| breaker.freshness() == freshness)
    }

    /// One call of each that succeeds; returns the longest time that one had to wait.
    async fn call(&self) -> Duration {
        let mut longest = Duration::ZERO;
        for breaker in &self.breakers {
            let began = Instant::now();
            breaker.call(|| std::future::ready(Ok::<_, ()>(()))).await.expect("it passes");
            longest = longest.max(began.elapsed());
        }
        assert!(longest <= PROBE_WAIT + slack(), "a call waited for {longest:?}");
        longest
    }
}

/// A server that comes back after twelve seconds is not overrun.
pub(crate) async fn two_hundred_return() -> Row {
    const SIZE: usize = 200;
    /// Each waits for 0.2 to 5 s between two attempts: about 77 attempts per second, and never all at once.
    const PER_SECOND_MAX: usize = SIZE * 6 / 10;
    let site = Site::new(POLICIES);
    let panel = site.start().await;
    let gate = Gate::start(site.grpc).await;
    let fleet = Fleet::start(&gate.url(), SIZE).await;
    let mut longest = fleet.call().await;

    let began = Instant::now();
    panel.kill().await;
    until("STALE", trial::AT_ONCE.1, || fleet.are(Freshness::Stale)).await;
    let stale = began.elapsed();
    longest = longest.max(fleet.call().await);
    until("LOCAL", trial::TTL_OVER.1, || fleet.are(Freshness::Local)).await;
    let local = began.elapsed();
    longest = longest.max(fleet.call().await);
    // The waits have grown to their longest.
    until("the outage", SOON, || began.elapsed() >= Duration::from_secs(12)).await;

    let panel = site.start().await;
    let ended = Instant::now();
    until("the fleet is FRESH again", RECONNECT, || fleet.are(Freshness::Fresh)).await;
    let fresh = ended.elapsed();
    longest = longest.max(fleet.call().await);
    let connects = gate.connects_since(ended);
    let watches = panel.rpcs("Watch").await;
    let most = most_within(&connects, Duration::from_secs(1));
    assert!(most <= PER_SECOND_MAX, "{most} connections within a second, of {SIZE} clients");
    // One each, but for those that were at it as the server came.
    assert!(connects.len() <= SIZE * 11 / 10, "{} connections of {SIZE} clients", connects.len());
    assert!(watches <= u64::try_from(SIZE * 11 / 10).unwrap_or(0), "{watches} Watches of {SIZE} clients");
    // All of the connections are of clients that are there still.
    assert_eq!(fleet.clients.len(), SIZE);
    Row {
        longest_wait: Some(longest),
        stale: Some(stale),
        local: Some(local),
        fresh: Some(fresh),
        meanwhile: format!("at most {most} connections within a second, {watches} Watches in all"),
    }
}

/// The most of these instants that lie within so long.
fn most_within(instants: &[Instant], span: Duration) -> usize {
    let from = |n: usize| instants[n..].iter().take_while(|at| **at - instants[n] < span).count();
    (0..instants.len()).map(from).max().unwrap_or(0)
}

/// All of them want the one breaker's probes.
pub(crate) async fn five_hundred_probe() -> Row {
    const SIZE: usize = 500;
    /// They draw their instants so that the probes are gone within 25 ms, the server tells within 100 ms that they are
    /// gone, and whoever has not heard that when its instant comes asks in vain: 5 to 8 for each probe. Here 500 clients
    /// and the server share a machine, and news takes as long as it takes.
    const ASKS_PER_PROBE_MAX: u64 = 20;
    let site = Site::new(POLICIES);
    let panel = site.start().await;
    let fleet = Fleet::start(&site.url(), SIZE).await;
    // The server knows of all of them.
    let mut longest = fleet.call().await;
    let counted = async || (panel.calls(NAME, "success").await >= 500).then_some(());
    until_some("the fleet's calls are counted", SOON, counted).await;
    panel.report_failures(NAME, 20).await;
    let mut periods = Vec::new();
    for (succeeds, verdict) in [(false, v1::State::Open), (true, v1::State::Closed)] {
        let before = panel.rpcs("Acquire").await;
        let is_probing = |breaker: &Breaker| breaker.state() == State::HalfOpen;
        until("all hear of HALF_OPEN", SOON, || fleet.breakers.iter().all(is_probing)).await;
        longest = longest.max(period(&panel, &fleet, succeeds, verdict).await);
        let asks = panel.rpcs("Acquire").await - before;
        assert!(asks >= PERMITTED, "{asks} asks for {PERMITTED} probes");
        let most = PERMITTED * ASKS_PER_PROBE_MAX;
        assert!(
            asks <= most,
            "{asks} asks of {SIZE} clients for {PERMITTED} probes, and at most {most} expected"
        );
        periods.push(asks);
    }
    assert!(longest <= PROBE_WAIT + slack(), "a call waited for {longest:?}");
    Row {
        longest_wait: Some(longest),
        meanwhile: format!("{periods:?} Acquires of all together, in two periods of {PERMITTED} probes"),
        ..Row::default()
    }
}

/// One half-open period: every client has a call to make at once, and comes again every second, until it is decided. Returns the
/// longest time that a call had to wait for its verdict.
async fn period(panel: &Panel, fleet: &Fleet, succeeds: bool, verdict: v1::State) -> Duration {
    let mut calling = tokio::task::JoinSet::new();
    let over = Arc::new(AtomicBool::new(false));
    for breaker in &fleet.breakers {
        let (over, breaker) = (Arc::clone(&over), breaker.clone());
        calling.spawn(async move {
            let mut longest = Duration::ZERO;
            // Not until its own client sees something else: one that is STALE for a moment goes on calling too.
            while !over.load(Ordering::Relaxed) {
                let began = Instant::now();
                let mut waited = None;
                let call = breaker.call(async || {
                    waited = Some(began.elapsed());
                    tokio::time::sleep(PROBE_RUNS).await;
                    if succeeds { Ok(()) } else { Err(()) }
                });
                // Whatever it is told; only how soon.
                drop(call.await);
                longest = longest.max(waited.unwrap_or_else(|| began.elapsed()));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            longest
        });
    }
    let decided = async || (panel.state(NAME).await == verdict).then_some(());
    until_some("the period is decided", SOON, decided).await;
    over.store(true, Ordering::Relaxed);
    let mut longest = Duration::ZERO;
    while let Some(waited) = calling.join_next().await {
        longest = longest.max(waited.expect("calls do not panic"));
    }
    longest
}
