//! The real server, in this process, on a real socket, with a clock that stands still until it is advanced.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use panelboard_client::{Breaker, Client};
use panelboard_proto::v1::{self, breaker_service_client::BreakerServiceClient};
use panelboard_server::{
    Running, Setup,
    clock::Clock,
    limits::Limits,
    store::{Memory, StoreId},
};
use tokio::{net::TcpListener, runtime::Runtime};

use crate::soon;

/// Half of at least four calls, two probes of which both must succeed, nothing random.
const POLICIES: &str = "
policies:
  - name: quick
    match: ['quick/**']
    owner: tests
    trip:
      - failure_rate: 50%
        within: 10s
        minimum_calls: 4
    open: { wait: 5s, multiplier: 1, jitter: 0% }
    half_open: { permitted_calls: 2, probe_timeout: 10s }
    guard: { min_instances: 1 }
    close: { spread: 0s }
";

pub(crate) struct Panel {
    /// A runtime of its own: dropping it kills the server and all of its connections at once.
    runtime: Option<Runtime>,
    running: Option<Running>,
    pub(crate) addr: SocketAddr,
    pub(crate) clock: Clock,
    /// Held for its drop.
    _dir: tempfile::TempDir,
}

impl Panel {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap()).await
    }

    /// On a port that is known before: after a kill.
    pub(crate) async fn start_at(addr: SocketAddr) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let policies: PathBuf = dir.path().join("policies.yaml");
        std::fs::write(&policies, POLICIES).unwrap();
        let clock = Clock::manual();
        let setup = Setup {
            clock: clock.clone(),
            store: Arc::new(Memory::new(StoreId::from_u128(7))),
            policies: Some(policies),
            limits: Limits::default(),
            drain_timeout: Duration::from_secs(2),
            seed: 1,
        };
        let start = async move {
            let grpc = TcpListener::bind(addr).await.unwrap();
            let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
            Running::start(setup, grpc, http).await.unwrap()
        };
        let running = soon("a server", runtime.spawn(start)).await.unwrap();
        Self { addr: running.grpc_addr, runtime: Some(runtime), running: Some(running), clock, _dir: dir }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub(crate) fn client(&self, instance: &str) -> Client {
        Client::builder(self.url()).service("tests").instance(instance).seed(1).build().unwrap()
    }

    /// A client, and a handle that is FRESH.
    pub(crate) async fn fresh(&self, instance: &str, breaker: &str) -> (Client, Breaker) {
        let client = self.client(instance);
        let breaker = client.breaker(breaker);
        client.ready(crate::BOUND).await.unwrap();
        (client, breaker)
    }

    /// As `kill -9` does: no goodbye.
    pub(crate) fn kill(&mut self) {
        drop(self.running.take());
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// As SIGTERM does.
    pub(crate) async fn stop(&mut self) {
        let running = self.running.take().unwrap();
        let runtime = self.runtime.take().unwrap();
        soon("the server's end", runtime.spawn(running.stop())).await.unwrap();
        runtime.shutdown_background();
    }

    pub(crate) async fn look(&self, breaker: &str) -> v1::GetBreakerResponse {
        let mut client = BreakerServiceClient::connect(self.url()).await.unwrap();
        let request = v1::GetBreakerRequest { breaker: breaker.into() };
        client.get_breaker(request).await.unwrap().into_inner()
    }
}

impl Drop for Panel {
    fn drop(&mut self) {
        self.kill();
    }
}
