//! The gRPC edge: checks messages, calls the registry, maps what comes back. The only place that names
//! `tonic::Status`.

mod acquire;
mod errors;
mod read;
mod report;
pub(crate) mod rpcs;
mod validate;
mod watch;

use std::{net::IpAddr, pin::Pin};

use panelboard_proto::v1::{
    AcquireRequest, AcquireResponse, GetBreakerRequest, GetBreakerResponse, ListBreakersRequest,
    ListBreakersResponse, ListTransitionsRequest, ListTransitionsResponse, ReportRequest, ReportResponse,
    WatchRequest, WatchResponse,
    breaker_service_server::{BreakerService, BreakerServiceServer},
};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use crate::parts::Parts;

/// The service, with the limit on messages.
pub(crate) fn service(parts: Parts) -> BreakerServiceServer<Parts> {
    let bytes = parts.registry.limits.message_bytes;
    BreakerServiceServer::new(parts).max_decoding_message_size(bytes).max_encoding_message_size(bytes)
}

/// Where a call comes from; behind a proxy that is the proxy.
fn from<T>(request: &Request<T>) -> Option<IpAddr> {
    request.remote_addr().map(|addr| addr.ip())
}

/// A stream of watch messages.
type Watching = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

#[tonic::async_trait]
impl BreakerService for Parts {
    type WatchStream = Watching;

    async fn acquire(&self, request: Request<AcquireRequest>) -> Result<Response<AcquireResponse>, Status> {
        let from = from(&request);
        self.rpcs.observe("Acquire", acquire::acquire(self, request.into_inner(), from)).await
    }

    async fn report(&self, request: Request<ReportRequest>) -> Result<Response<ReportResponse>, Status> {
        let from = from(&request);
        self.rpcs.observe("Report", async { report::report(self, &request.into_inner(), from) }).await
    }

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Watching>, Status> {
        let from = from(&request);
        self.rpcs.observe("Watch", watch::watch(self, request.into_inner(), from)).await
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
