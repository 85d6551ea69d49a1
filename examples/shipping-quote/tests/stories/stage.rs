//! What every story is played on: a provider, a server with one policy file and a clock by hand, and any number of
//! clients, all on loopback.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use panelboard_client::{Breaker, Client};
use panelboard_server::clock::Clock;
use panelboard_server::limits::Limits;
use panelboard_server::store::{Memory, StoreId};
use panelboard_server::{Running, Setup};
use serde_json::Value;
use shipping_quote::provider::{Answer, Behaviour, Provider, Settings};
use shipping_quote::upstream::Upstream;
use tokio::net::TcpListener;
use tokio::time::timeout;

/// Longer than anything here takes, on any machine.
const BOUND: Duration = Duration::from_secs(60);

/// A provider that is down.
pub(crate) fn down() -> Behaviour {
    Behaviour::answering(Answer::Status(503))
}

pub(crate) struct Stage {
    pub(crate) provider: Provider,
    breaker: &'static str,
    server: Running,
    clock: Clock,
    face: Upstream,
}

impl Stage {
    /// A stage whose server has one of the policy files of the examples.
    pub(crate) async fn set(policy: &str, breaker: &'static str) -> Self {
        Self::set_with(policy, breaker, Settings::default()).await
    }

    pub(crate) async fn set_with(policy: &str, breaker: &'static str, settings: Settings) -> Self {
        let provider = Provider::start(loopback().await, settings, Behaviour::good()).unwrap();
        let clock = Clock::manual();
        let setup = Setup {
            clock: clock.clone(),
            store: Arc::new(Memory::new(StoreId::from_u128(1))),
            policies: Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../policies").join(policy)),
            limits: Limits::default(),
            drain_timeout: Duration::from_secs(1),
            seed: 1,
        };
        let server = Running::start(setup, loopback().await, loopback().await).await.unwrap();
        let face = Upstream::new(&server.http_addr.to_string(), None, BOUND).unwrap();
        Stage { provider, breaker, server, clock, face }
    }

    /// A client process of its own that knows the breaker's state. It waits for probes as long as it can, so that a
    /// busy machine does not decide who is rejected.
    pub(crate) async fn join(&self, instance: &str) -> Breaker {
        self.join_with(instance, Duration::from_secs(10)).await
    }

    /// The same, with its own wait for a probe.
    pub(crate) async fn join_with(&self, instance: &str, probe_wait: Duration) -> Breaker {
        let url = format!("http://{}", self.server.grpc_addr);
        let builder = Client::builder(url).service("stories").instance(instance).probe_wait(probe_wait);
        let client = builder.seed(1).build().unwrap();
        let breaker = client.breaker(self.breaker);
        client.ready(BOUND).await.unwrap();
        breaker
    }

    /// The provider, with a timeout that no healthy call needs.
    pub(crate) fn patient(&self) -> Upstream {
        self.upstream(BOUND)
    }

    pub(crate) fn upstream(&self, timeout: Duration) -> Upstream {
        Upstream::new(&self.provider.addr().to_string(), None, timeout).unwrap()
    }

    /// How many requests have reached the provider.
    pub(crate) fn requests(&self) -> u64 {
        self.provider.stats().total
    }

    /// Moves the server's clock.
    pub(crate) fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// What the server tells people of the breaker.
    pub(crate) async fn page(&self) -> Value {
        let body = self.face.get(&format!("/breakers/{}", self.breaker)).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    /// How often the server has seen a cause.
    pub(crate) async fn seen(&self, cause: &str) -> u64 {
        let metrics = String::from_utf8(self.face.get("/metrics").await.unwrap()).unwrap();
        let series =
            format!("panelboard_breaker_causes_total{{breaker=\"{}\",cause=\"{cause}\"}} ", self.breaker);
        let value = metrics.lines().find_map(|line| line.strip_prefix(series.as_str()));
        value.map_or(0, |value| value.parse().unwrap())
    }

    /// Waits until the first rule of the policy reads `matched` of `calls`.
    pub(crate) async fn counted(&self, matched: u64, calls: u64) {
        let expected = (Some(matched), Some(calls));
        self.until(&format!("{matched} of {calls} are counted"), async || {
            let reading = &self.page().await["readings"][0];
            (reading["matched"].as_u64(), reading["calls"].as_u64()) == expected
        })
        .await;
    }

    /// Waits until the server has seen a cause so often.
    pub(crate) async fn cause_counted(&self, cause: &str, times: u64) {
        self.until(&format!("{cause} is seen {times} times"), async || self.seen(cause).await == times).await;
    }

    /// Waits until the server and this client agree on the state.
    pub(crate) async fn until_state(&self, state: &str, breaker: &Breaker) {
        self.until(&format!("{breaker:?} is {state}"), async || {
            self.page().await["state"] == state && breaker.state().to_string() == state
        })
        .await;
    }

    /// Waits for a condition. Each look is a round trip to the server, so this neither sleeps nor spins.
    pub(crate) async fn until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        let waited = timeout(BOUND, async {
            while !condition().await {
                self.page().await;
            }
        });
        if waited.await.is_err() {
            panic!("it never happened that {what}; the server says {:#}", self.page().await);
        }
    }
}

async fn loopback() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).await.unwrap()
}
