//! What the agent's tasks tell it.

use std::sync::Arc;

use panelboard_proto::v1;
use tonic::Status;

use crate::slot::Slot;

/// Something that came from the server, or did not.
#[derive(Debug)]
pub(super) enum Event {
    /// A message on a stream.
    Heard { stream: u64, message: Box<v1::WatchResponse> },
    /// A stream ended; with a status, by an error.
    Ended { stream: u64, status: Option<Status> },
    /// A Report was answered, or not.
    Reported { sent: Vec<(Arc<Slot>, u64)>, result: Result<v1::ReportResponse, Status> },
    /// An Acquire was answered, or not.
    Acquired { slot: Arc<Slot>, result: Result<Box<v1::AcquireResponse>, Status> },
}
