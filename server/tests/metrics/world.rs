//! A server, a clock and a client.

use std::{sync::Arc, time::Duration};

use panelboard_proto::v1::{self, breaker_service_client::BreakerServiceClient};
use panelboard_server::{
    Running, Setup,
    clock::Clock,
    limits::Limits,
    store::{Memory, StoreId},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tonic::transport::Channel;

use crate::Page;

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server with one policy file.
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) grpc: BreakerServiceClient<Channel>,
    pub(crate) running: Running,
    dir: TempDir,
}

impl World {
    pub(crate) async fn start(policies: &str) -> Self {
        Self::start_with(policies, Memory::new(StoreId::from_u128(1)), Limits::default()).await
    }

    pub(crate) async fn start_with(policies: &str, store: Memory, limits: Limits) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("policies.yaml");
        std::fs::write(&path, policies).expect("a file");
        let clock = Clock::manual();
        let setup = Setup {
            clock: clock.clone(),
            store: Arc::new(store),
            policies: Some(path),
            limits,
            drain_timeout: Duration::from_secs(1),
            seed: 1,
        };
        let listen = || TcpListener::bind("127.0.0.1:0");
        let (grpc, http) = (listen().await.expect("a port"), listen().await.expect("a port"));
        let running = Running::start(setup, grpc, http).await.expect("a server");
        let address = format!("http://{}", running.grpc_addr);
        let grpc = BreakerServiceClient::connect(address).await.expect("a connection");
        Self { clock, grpc, running, dir }
    }

    pub(crate) fn edit_policies(&self, text: &str) {
        std::fs::write(self.dir.path().join("policies.yaml"), text).expect("a file");
    }

    pub(crate) async fn scrape(&self) -> Page {
        let mut stream = TcpStream::connect(self.running.http_addr).await.expect("a connection");
        let request = "GET /metrics HTTP/1.1\r\nHost: panelboard\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
        Page(body.to_owned())
    }

    /// Scrapes until the page is as wanted: for what the server does by itself, a moment later.
    pub(crate) async fn scrape_until(&self, is_so: impl Fn(&Page) -> bool) -> Page {
        let mut pause = tokio::time::interval(Duration::from_millis(10));
        let scraped = timeout(PATIENCE, async {
            loop {
                let page = self.scrape().await;
                if is_so(&page) {
                    return page;
                }
                pause.tick().await;
            }
        });
        match scraped.await {
            Ok(page) => page,
            Err(_) => panic!("the page never was as wanted:\n{}", self.scrape().await.0),
        }
    }

    /// Reports as one session, and says what became of the entry.
    pub(crate) async fn report(&mut self, entry: v1::ReportEntry) -> v1::ReportResult {
        let request = v1::ReportRequest { client: Some(client("pod-1")), entries: vec![entry] };
        let answer = self.grpc.report(request).await.expect("an answer").into_inner();
        answer.results.into_iter().next().expect("a result")
    }

    pub(crate) async fn acquire(&mut self, breaker: &str) -> v1::acquire_response::Decision {
        let request = v1::AcquireRequest { client: Some(client("pod-1")), breaker: breaker.into() };
        let answer = self.grpc.acquire(request).await.expect("an answer").into_inner();
        answer.decision.expect("a decision")
    }

    /// A grant, which in HALF_OPEN is a probe.
    pub(crate) async fn granted(&mut self, breaker: &str) -> v1::Grant {
        match self.acquire(breaker).await {
            v1::acquire_response::Decision::Grant(grant) => grant,
            v1::acquire_response::Decision::Rejection(rejection) => panic!("{rejection:?}"),
        }
    }
}

pub(crate) fn client(instance: &str) -> v1::Client {
    v1::Client {
        service: "checkout".into(),
        instance: instance.into(),
        session: format!("session of {instance}"),
        ..v1::Client::default()
    }
}

/// Calls of a breaker, with one cause for all failures.
pub(crate) fn calls(breaker: &str, successes: u32, failures: u32, cause: &str) -> v1::ReportEntry {
    let causes = (failures > 0 && !cause.is_empty()).then(|| (cause.to_owned(), failures));
    v1::ReportEntry {
        breaker: breaker.into(),
        successes,
        failures,
        causes: causes.into_iter().collect(),
        ..v1::ReportEntry::default()
    }
}
