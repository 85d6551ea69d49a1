//! What a server is made of, as its doors see it: gRPC, HTTP and metrics are handed the same.

use std::sync::Arc;

use crate::{drain::Drain, grpc::rpcs::Rpcs, hub::Hub, persist::Persist, registry::Registry};

/// The parts of a running server. A clone is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
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
