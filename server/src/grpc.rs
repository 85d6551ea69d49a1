//! The gRPC edge: checks messages, calls the registry, maps what comes back. The only place that names
//! `tonic::Status`.

mod acquire;
mod errors;
mod read;
mod report;
pub(crate) mod rpcs;
mod validate;
mod watch;

use std::{pin::Pin, sync::Arc};

use panelboard_proto::v1::{
    AcquireRequest, AcquireResponse, GetBreakerRequest, GetBreakerResponse, ListBreakersRequest,
    ListBreakersResponse, ListTransitionsRequest, ListTransitionsResponse, ReportRequest, ReportResponse,
    WatchRequest, WatchResponse,
    breaker_service_server::{BreakerService, BreakerServiceServer},
};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use self::rpcs::Rpcs;
use crate::{drain::Drain, hub::Hub, persist::Persist, registry::Registry};

/// Wrong names of one request for which the nearest known one is looked up: it is a search over many names.
const SUGGESTIONS_MAX: usize = 10;

/// Everything that the service calls.
#[derive(Clone, Debug)]
pub(crate) struct BreakerApi {
    /// The breakers.
    pub(crate) registry: Arc<Registry>,
    /// The watchers.
    pub(crate) hub: Arc<Hub>,
    /// The store's writer.
    pub(crate) persist: Arc<Persist>,
    /// Whether the server is ending.
    pub(crate) drain: Drain,
    /// Counts and durations of calls.
    pub(crate) rpcs: Arc<Rpcs>,
}

impl BreakerApi {
    /// The service, with the limit on messages.
    pub(crate) fn into_service(self) -> BreakerServiceServer<Self> {
        let bytes = self.registry.limits.message_bytes;
        BreakerServiceServer::new(self).max_decoding_message_size(bytes).max_encoding_message_size(bytes)
    }
}

/// A stream of watch messages.
type Watching = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

#[tonic::async_trait]
impl BreakerService for BreakerApi {
    type WatchStream = Watching;

    async fn acquire(&self, request: Request<AcquireRequest>) -> Result<Response<AcquireResponse>, Status> {
        self.rpcs.observe("Acquire", acquire::acquire(self, request.into_inner())).await
    }

    async fn report(&self, request: Request<ReportRequest>) -> Result<Response<ReportResponse>, Status> {
        self.rpcs.observe("Report", async { report::report(self, &request.into_inner()) }).await
    }

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Watching>, Status> {
        self.rpcs.observe("Watch", watch::watch(self, request.into_inner())).await
    }

    async fn get_breaker(
        &self,
        request: Request<GetBreakerRequest>,
    ) -> Result<Response<GetBreakerResponse>, Status> {
        self.rpcs.observe("GetBreaker", async { read::get_breaker(self, &request.into_inner()) }).await
    }

    async fn list_breakers(
        &self,
        request: Request<ListBreakersRequest>,
    ) -> Result<Response<ListBreakersResponse>, Status> {
        self.rpcs.observe("ListBreakers", async { read::list_breakers(self, &request.into_inner()) }).await
    }

    async fn list_transitions(
        &self,
        request: Request<ListTransitionsRequest>,
    ) -> Result<Response<ListTransitionsResponse>, Status> {
        let answer = async { read::list_transitions(self, &request.into_inner()) };
        self.rpcs.observe("ListTransitions", answer).await
    }
}
