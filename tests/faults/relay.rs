//! A server of the contract that passes everything on to the real one, and back, unless it was told to do harm.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use panelboard_proto::v1::{
    self,
    breaker_service_client::BreakerServiceClient,
    breaker_service_server::{BreakerService, BreakerServiceServer},
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{
    Request, Response, Status,
    transport::{Channel, Endpoint},
};

/// What the relay does to all that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Pass,
    /// Everything takes so long, there and back; streams that are open go on.
    Slow(Duration),
    /// Streams go on, and no Report is taken.
    RefuseReports,
    /// Streams end, and everything is answered with an error.
    Errors,
}

/// What becomes of one Report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It arrives, and is answered.
    Answered,
    /// It arrives, and an error is the answer.
    DeliveredThenError,
    /// It does not arrive.
    Lost,
    /// It arrives, and then the connection breaks.
    DeliveredThenCut,
}

#[derive(Clone, Debug)]
pub(crate) struct Relay {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    upstream: Channel,
    mode: watch::Sender<Mode>,
    fates: Mutex<VecDeque<Fate>>,
    cut: mpsc::Sender<()>,
    /// How many entries each Report had, in the order in which they came.
    entries: Mutex<Vec<usize>>,
    refusals: Mutex<usize>,
    /// The last Report was answered.
    answers_last: AtomicBool,
}

impl Relay {
    /// Between clients and the server at `target`. Its tasks end with the runtime. Whoever has the receiver is told to
    /// cut the connections.
    pub(crate) async fn start(target: SocketAddr) -> (Self, mpsc::Receiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        let endpoint = Endpoint::from_shared(format!("http://{target}")).expect("an address");
        let (cut, cuts) = mpsc::channel(1);
        let shared = Arc::new(Shared {
            upstream: endpoint.tcp_nodelay(true).connect_lazy(),
            mode: watch::Sender::new(Mode::Pass),
            fates: Mutex::default(),
            cut,
            entries: Mutex::default(),
            refusals: Mutex::default(),
            answers_last: AtomicBool::new(true),
        });
        let service = BreakerServiceServer::new(Passing(Arc::clone(&shared)));
        let incoming = TcpListenerStream::new(listener);
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        (Self { addr, shared }, cuts)
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// What becomes of the next Reports.
    pub(crate) fn next(&self, fates: impl IntoIterator<Item = Fate>) {
        self.shared.fates.lock().expect("not poisoned").extend(fates);
    }

    /// Whether all of that has come to pass, and the last Report was answered.
    pub(crate) fn is_settled(&self) -> bool {
        let is_over = self.shared.fates.lock().expect("not poisoned").is_empty();
        is_over && self.shared.answers_last.load(Ordering::SeqCst)
    }

    /// How many entries each Report had that came since the last time this was asked.
    pub(crate) fn take_entries(&self) -> Vec<usize> {
        std::mem::take(&mut *self.shared.entries.lock().expect("not poisoned"))
    }
}

impl Shared {
    fn service(&self) -> BreakerServiceClient<Channel> {
        BreakerServiceClient::new(self.upstream.clone()).max_decoding_message_size(16 * 1024 * 1024)
    }

    /// Errors of several kinds, one after the other.
    fn refusal(&self) -> Status {
        let mut refusals = self.refusals.lock().expect("not poisoned");
        *refusals += 1;
        match *refusals % 4 {
            0 => Status::internal("made on purpose"),
            1 => Status::unavailable("made on purpose"),
            2 => Status::permission_denied("made on purpose"),
            _ => Status::resource_exhausted("made on purpose"),
        }
    }

    /// What happens to everything before it is passed on.
    async fn enter(&self) -> Result<(), Status> {
        let mode = *self.mode.borrow();
        match mode {
            Mode::Pass | Mode::RefuseReports => Ok(()),
            Mode::Errors => Err(self.refusal()),
            Mode::Slow(span) => {
                tokio::time::sleep(span).await;
                Ok(())
            }
        }
    }
}

struct Passing(Arc<Shared>);

#[tonic::async_trait]
impl BreakerService for Passing {
    type WatchStream = ReceiverStream<Result<v1::WatchResponse, Status>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.0.enter().await?;
        let mut upstream = self.0.service().watch(request.into_inner()).await?.into_inner();
        let (sender, receiver) = mpsc::channel(16);
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move {
            let mut modes = shared.mode.subscribe();
            loop {
                let message = tokio::select! {
                    message = upstream.message() => message.transpose(),
                    _ = modes.wait_for(|mode| *mode == Mode::Errors) => Some(Err(shared.refusal())),
                    () = sender.closed() => return,
                };
                let Some(message) = message else { return };
                let is_last = message.is_err();
                if sender.send(message).await.is_err() || is_last {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn report(
        &self,
        request: Request<v1::ReportRequest>,
    ) -> Result<Response<v1::ReportResponse>, Status> {
        self.0.enter().await?;
        let request = request.into_inner();
        self.0.entries.lock().expect("not poisoned").push(request.entries.len());
        if *self.0.mode.borrow() == Mode::RefuseReports {
            return Err(self.0.refusal());
        }
        let fate = self.0.fates.lock().expect("not poisoned").pop_front().unwrap_or(Fate::Answered);
        if fate == Fate::Lost {
            self.0.answers_last.store(false, Ordering::SeqCst);
            return Err(Status::unavailable("lost on purpose"));
        }
        let answer = self.0.service().report(request).await;
        self.0.answers_last.store(fate == Fate::Answered, Ordering::SeqCst);
        match fate {
            Fate::Answered | Fate::Lost => answer,
            Fate::DeliveredThenError => Err(Status::unavailable("lost on purpose")),
            Fate::DeliveredThenCut => {
                // Whoever cuts does so before the answer can leave: it never does.
                self.0.cut.send(()).await.expect("somebody cuts");
                std::future::pending().await
            }
        }
    }

    async fn acquire(
        &self,
        request: Request<v1::AcquireRequest>,
    ) -> Result<Response<v1::AcquireResponse>, Status> {
        self.0.enter().await?;
        self.0.service().acquire(request.into_inner()).await
    }

    async fn get_breaker(
        &self,
        request: Request<v1::GetBreakerRequest>,
    ) -> Result<Response<v1::GetBreakerResponse>, Status> {
        self.0.service().get_breaker(request.into_inner()).await
    }

    async fn list_breakers(
        &self,
        request: Request<v1::ListBreakersRequest>,
    ) -> Result<Response<v1::ListBreakersResponse>, Status> {
        self.0.service().list_breakers(request.into_inner()).await
    }

    async fn list_transitions(
        &self,
        request: Request<v1::ListTransitionsRequest>,
    ) -> Result<Response<v1::ListTransitionsResponse>, Status> {
        self.0.service().list_transitions(request.into_inner()).await
    }
}
