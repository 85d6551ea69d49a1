//! A server on a real socket that says what the test says, and nothing else: for what a good server never does.

use std::{net::SocketAddr, pin::Pin};

use panelboard_proto::v1::{
    self,
    breaker_service_server::{BreakerService, BreakerServiceServer},
    watch_response::Event,
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
};
use tokio_stream::{
    Stream,
    wrappers::{ReceiverStream, TcpListenerStream},
};
use tonic::{Request, Response, Status};

use crate::soon;

/// A call that waits for the test's answer.
pub(crate) struct Asked<Q, A> {
    pub(crate) request: Q,
    answer: oneshot::Sender<Result<A, Status>>,
}

impl<Q, A> Asked<Q, A> {
    pub(crate) fn answer(self, answer: A) {
        drop(self.answer.send(Ok(answer)));
    }

    pub(crate) fn refuse(self, status: Status) {
        drop(self.answer.send(Err(status)));
    }
}

pub(crate) type Watched = Asked<v1::WatchRequest, mpsc::Receiver<Result<v1::WatchResponse, Status>>>;
pub(crate) type Reported = Asked<v1::ReportRequest, v1::ReportResponse>;
pub(crate) type Acquired = Asked<v1::AcquireRequest, v1::AcquireResponse>;

pub(crate) struct Fake {
    pub(crate) addr: SocketAddr,
    watches: mpsc::Receiver<Watched>,
    reports: mpsc::Receiver<Reported>,
    acquires: mpsc::Receiver<Acquired>,
}

/// The test's end of a stream.
pub(crate) struct Live {
    pub(crate) request: v1::WatchRequest,
    sender: mpsc::Sender<Result<v1::WatchResponse, Status>>,
}

impl Live {
    pub(crate) async fn say(&self, event: Event) {
        // A client that has left does not hear it.
        drop(self.sender.send(Ok(v1::WatchResponse { event: Some(event) })).await);
    }

    /// A whole beginning: started, these statuses, complete.
    pub(crate) async fn snapshot(&self, statuses: Vec<v1::BreakerStatus>, token: &'static [u8]) {
        self.say(Event::Started(v1::Started { tick: 1_000, resumed: false, epoch: 1 })).await;
        for status in statuses {
            self.say(Event::Status(status)).await;
        }
        self.complete(token).await;
    }

    pub(crate) async fn complete(&self, token: &'static [u8]) {
        let ttl = Some(prost_types::Duration { seconds: 10, nanos: 0 });
        self.say(Event::SnapshotComplete(v1::SnapshotComplete { tick: 1_000, ttl, resume: token.into() }))
            .await;
    }

    pub(crate) async fn end(self, status: Status) {
        drop(self.sender.send(Err(status)).await);
    }

    /// Waits until the client has left.
    pub(crate) async fn left(&self) {
        soon("the client leaves the stream", self.sender.closed()).await;
    }
}

impl Fake {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (watch, watches) = mpsc::channel(64);
        let (report, reports) = mpsc::channel(64);
        let (acquire, acquires) = mpsc::channel(64);
        let service = BreakerServiceServer::new(Service { watch, report, acquire });
        let incoming = TcpListenerStream::new(listener);
        // Ends with the test's runtime.
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        Self { addr, watches, reports, acquires }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub(crate) async fn watched(&mut self) -> Watched {
        soon("a Watch", self.watches.recv()).await.unwrap()
    }

    /// The next Watch, opened.
    pub(crate) async fn live(&mut self) -> Live {
        let watched = self.watched().await;
        let (sender, receiver) = mpsc::channel(16);
        let request = watched.request.clone();
        watched.answer(receiver);
        Live { request, sender }
    }

    pub(crate) async fn reported(&mut self) -> Reported {
        soon("a Report", self.reports.recv()).await.unwrap()
    }

    pub(crate) async fn acquired(&mut self) -> Acquired {
        soon("an Acquire", self.acquires.recv()).await.unwrap()
    }

    /// Whether a Report has come that was not looked at.
    pub(crate) fn has_report(&self) -> bool {
        !self.reports.is_empty()
    }
}

struct Service {
    watch: mpsc::Sender<Watched>,
    report: mpsc::Sender<Reported>,
    acquire: mpsc::Sender<Acquired>,
}

async fn ask<Q, A>(to: &mpsc::Sender<Asked<Q, A>>, request: Request<Q>) -> Result<A, Status> {
    let (answer, answered) = oneshot::channel();
    let asked = Asked { request: request.into_inner(), answer };
    drop(to.send(asked).await);
    answered.await.unwrap_or_else(|_| Err(Status::unavailable("the test does not answer")))
}

#[tonic::async_trait]
impl BreakerService for Service {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let messages = ask(&self.watch, request).await?;
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }

    async fn report(
        &self,
        request: Request<v1::ReportRequest>,
    ) -> Result<Response<v1::ReportResponse>, Status> {
        ask(&self.report, request).await.map(Response::new)
    }

    async fn acquire(
        &self,
        request: Request<v1::AcquireRequest>,
    ) -> Result<Response<v1::AcquireResponse>, Status> {
        ask(&self.acquire, request).await.map(Response::new)
    }

    async fn get_breaker(
        &self,
        _: Request<v1::GetBreakerRequest>,
    ) -> Result<Response<v1::GetBreakerResponse>, Status> {
        Err(Status::unimplemented("a client never looks"))
    }

    async fn list_breakers(
        &self,
        _: Request<v1::ListBreakersRequest>,
    ) -> Result<Response<v1::ListBreakersResponse>, Status> {
        Err(Status::unimplemented("a client never looks"))
    }

    async fn list_transitions(
        &self,
        _: Request<v1::ListTransitionsRequest>,
    ) -> Result<Response<v1::ListTransitionsResponse>, Status> {
        Err(Status::unimplemented("a client never looks"))
    }
}
