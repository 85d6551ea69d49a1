//! A server in this process, on ports of its own, with a clock that stands still until it is moved.

use std::{path::PathBuf, sync::Arc, time::Duration};

use panelboard_proto::v1;
use panelboard_server::{
    Running, Setup,
    clock::Clock,
    limits::Limits,
    store::{Memory, Store, StoreId},
};
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::{Service, Watcher, within};

/// A policy for these names and patterns: trips at half of 20 calls within a minute, waits 10 s, probes with two.
pub(crate) fn test_policy(name: &str, matches: &str) -> String {
    format!(
        "  - name: {name}\n\
         \x20   match: [{matches}]\n\
         \x20   owner: team-{name}\n\
         \x20   trip:\n\
         \x20     - {{ failure_rate: 50%, within: 60s, minimum_calls: 20 }}\n\
         \x20   open: {{ wait: 10s, multiplier: 1, jitter: 0% }}\n\
         \x20   half_open: {{ permitted_calls: 2, probe_timeout: 1s }}\n\
         \x20   close: {{ spread: 0s }}\n\
         \x20   guard: {{ min_instances: 1 }}\n"
    )
}

/// What a world is made with.
pub(crate) struct Options {
    /// The list below `policies:`; none: the server's starter policy.
    pub(crate) policies: Option<String>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policies: Some(test_policy("test", "\"t/**\"")),
            store: Arc::new(Memory::new(StoreId::from_u128(1))),
            limits: Limits::default(),
        }
    }
}

/// A server and a client of it.
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) service: Service,
    pub(crate) running: Running,
    file: Option<PathBuf>,
    _folder: TempDir,
}

impl World {
    /// With the policy `test` for `t/**`.
    pub(crate) async fn start() -> Self {
        Self::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = options.policies.as_ref().map(|_| folder.path().join("policies.yaml"));
        if let (Some(file), Some(policies)) = (&file, &options.policies) {
            std::fs::write(file, format!("policies:\n{policies}")).unwrap();
        }
        let clock = Clock::manual();
        let setup = Setup {
            clock: clock.clone(),
            store: options.store,
            policies: file.clone(),
            limits: options.limits,
            drain_timeout: Duration::from_millis(500),
            seed: 1,
        };
        let (grpc, http) = (listener().await, listener().await);
        let running = Running::start(setup, grpc, http).await.unwrap_or_else(|error| panic!("{error}"));
        // Not at the very beginning of time: what is sealed half a minute ago must be a tick too.
        clock.advance(Duration::from_secs(1_000));
        let service = Service::connect(format!("http://{}", running.grpc_addr)).await.unwrap();
        Self { clock, service, running, file, _folder: folder }
    }

    /// Replaces the policies. The server looks every second: wait for what follows.
    pub(crate) fn write_policies(&self, policies: &str) {
        let file = self.file.as_ref().expect("this world has a policy file");
        // In one step, so that no half-written file is ever read.
        let new = file.with_extension("new");
        std::fs::write(&new, format!("policies:\n{policies}")).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    pub(crate) fn advance(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }

    pub(crate) fn http(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.http_addr)
    }

    pub(crate) async fn acquire_as(
        &mut self,
        client: Option<v1::Client>,
        breaker: &str,
    ) -> v1::AcquireResponse {
        let request = v1::AcquireRequest { client, breaker: breaker.into() };
        within("Acquire", self.service.acquire(request)).await.unwrap().into_inner()
    }

    /// Asks as the anonymous instance.
    pub(crate) async fn acquire(&mut self, breaker: &str) -> v1::AcquireResponse {
        self.acquire_as(None, breaker).await
    }

    pub(crate) async fn report_as(
        &mut self,
        client: Option<v1::Client>,
        entries: Vec<v1::ReportEntry>,
    ) -> Vec<v1::ReportResult> {
        let request = v1::ReportRequest { client, entries };
        within("Report", self.service.report(request)).await.unwrap().into_inner().results
    }

    /// Reports one entry as the anonymous instance.
    pub(crate) async fn report(&mut self, entry: v1::ReportEntry) -> v1::ReportResult {
        let mut results = self.report_as(None, vec![entry]).await;
        assert_eq!(results.len(), 1);
        results.remove(0)
    }

    /// Reports 20 failures, which open a breaker of the test policy.
    pub(crate) async fn trip(&mut self, breaker: &str) -> v1::BreakerStatus {
        let status = self.report(super::failures(breaker, 20)).await.status.expect("a status");
        assert_eq!(status.state(), v1::State::Open, "{status:?}");
        status
    }

    /// Lets the open wait of the test policy pass.
    pub(crate) async fn half_open(&mut self, breaker: &str) -> v1::BreakerStatus {
        self.trip(breaker).await;
        self.advance(10_000);
        let status = self.look(breaker).await.status.expect("a status");
        assert_eq!(status.state(), v1::State::HalfOpen, "{status:?}");
        status
    }

    pub(crate) async fn try_look(&mut self, breaker: &str) -> Result<v1::GetBreakerResponse, tonic::Status> {
        let request = v1::GetBreakerRequest { breaker: breaker.into() };
        within("GetBreaker", self.service.get_breaker(request)).await.map(tonic::Response::into_inner)
    }

    pub(crate) async fn look(&mut self, breaker: &str) -> v1::GetBreakerResponse {
        self.try_look(breaker).await.unwrap()
    }

    pub(crate) async fn state(&mut self, breaker: &str) -> v1::State {
        self.look(breaker).await.status.expect("a status").state()
    }

    pub(crate) async fn watch(&mut self, breakers: &[&str]) -> Watcher {
        self.resume(breakers, &[]).await
    }

    pub(crate) async fn resume(&mut self, breakers: &[&str], token: &[u8]) -> Watcher {
        Watcher::open(&mut self.service, None, breakers, token).await.unwrap()
    }
}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}
