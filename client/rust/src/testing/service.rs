//! The door of a fake panel: the real contract, answered from its board.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use panelboard_proto::v1::{self, breaker_service_server::BreakerService};
use tokio::sync::mpsc;
use tokio_stream::{Stream as Messages, StreamExt, wrappers::ReceiverStream};
use tonic::{Request, Response, Status};

use super::board::{Board, Stream};

/// Messages that wait for a client: more than its largest snapshot. A stream that holds more is ended.
const MESSAGES_MAX: usize = 4_096;

/// The board, shared by the test and the door.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Arc<Mutex<Board>>);

impl Shared {
    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connected(&self) -> Result<MutexGuard<'_, Board>, Status> {
        let board = self.board();
        if board.is_connected() {
            Ok(board)
        } else {
            Err(Status::unavailable("the test says that it is away"))
        }
    }
}

#[tonic::async_trait]
impl BreakerService for Shared {
    type WatchStream = Pin<Box<dyn Messages<Item = Result<v1::WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (sender, messages) = mpsc::channel(MESSAGES_MAX);
        // While away it is silent rather than refused: the client then need not wait before it comes back.
        self.board().watch(Stream {
            names: request.into_inner().breakers,
            sender,
            begun: false,
            is_full: false,
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(messages).map(Ok))))
    }

    async fn report(
        &self,
        request: Request<v1::ReportRequest>,
    ) -> Result<Response<v1::ReportResponse>, Status> {
        Ok(Response::new(self.connected()?.report(&request.get_ref().entries)))
    }

    async fn acquire(
        &self,
        request: Request<v1::AcquireRequest>,
    ) -> Result<Response<v1::AcquireResponse>, Status> {
        Ok(Response::new(self.connected()?.acquire(&request.get_ref().breaker)))
    }

    async fn get_breaker(
        &self,
        _: Request<v1::GetBreakerRequest>,
    ) -> Result<Response<v1::GetBreakerResponse>, Status> {
        Err(Status::unimplemented("this is a panel for tests: look with FakePanel"))
    }

    async fn list_breakers(
        &self,
        _: Request<v1::ListBreakersRequest>,
    ) -> Result<Response<v1::ListBreakersResponse>, Status> {
        Err(Status::unimplemented("this is a panel for tests: look with FakePanel"))
    }

    async fn list_transitions(
        &self,
        _: Request<v1::ListTransitionsRequest>,
    ) -> Result<Response<v1::ListTransitionsResponse>, Status> {
        Err(Status::unimplemented("this is a panel for tests: look with FakePanel"))
    }
}
