//! A running server: its parts, its tasks, and its end.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use panelboard_proto::v1::breaker_service_server::BreakerServiceServer;
use tokio::{
    net::TcpListener,
    sync::oneshot,
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Server;
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{
    clock::Clock,
    drain::{Drainer, drain},
    grpc::{self, rpcs::Rpcs},
    hub::Hub,
    limits::Limits,
    parts::Parts,
    persist::Persist,
    policies::{self, Digest, Policies, PolicyErrors},
    registry::Registry,
    store::{Fault, Handle, Store},
    tasks,
};

/// What a server is started with.
#[derive(Debug)]
pub struct Setup {
    /// Its clock.
    pub clock: Clock,
    /// Where its state is kept.
    pub store: Arc<dyn Store>,
    /// The policy file or directory; none: the starter policy.
    pub policies: Option<std::path::PathBuf>,
    /// Its limits.
    pub limits: Limits,
    /// How long it waits for its clients when it ends.
    pub drain_timeout: Duration,
    /// Where its randomness comes from.
    pub seed: u64,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The policies are not valid.
    #[error(transparent)]
    Policies(#[from] PolicyErrors),
    /// The store cannot be read or written.
    #[error("the store cannot be used: {0}")]
    Store(#[from] Fault),
    /// A listener has no address.
    #[error("cannot listen: {0}")]
    Listen(#[from] std::io::Error),
    /// The reflection service could not be made of our own descriptors.
    #[error("cannot offer reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// A server that is running. Dropping it stops it at once; [`Running::stop`] lets its clients leave.
#[derive(Debug)]
pub struct Running {
    /// Where gRPC is served.
    pub grpc_addr: SocketAddr,
    /// Where HTTP is served.
    pub http_addr: SocketAddr,
    /// How many policies and breakers it started with.
    pub started_with: StartedWith,
    drain_timeout: Duration,
    drainer: Drainer,
    parts: Parts,
    health: HealthReporter,
    close: Option<oneshot::Sender<()>>,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
    /// Each is needed for as long as the server serves.
    tasks: JoinSet<()>,
    follower: Option<AbortOnDropHandle<()>>,
}

/// What a server started with, for the line that says so.
#[derive(Clone, Copy, Debug)]
pub struct StartedWith {
    /// Policies in force.
    pub policies: usize,
    /// Breakers that exist.
    pub breakers: usize,
    /// The server's epoch.
    pub epoch: u64,
}

/// The longest that the last changes may take to become durable.
const FLUSH: Duration = Duration::from_secs(5);
/// Pings on connections that are silent, so that dead ones are noticed.
const KEEPALIVE: Duration = Duration::from_secs(20);

impl Running {
    /// Starts a server on two listeners.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(setup: Setup, grpc: TcpListener, http: TcpListener) -> Result<Self, StartError> {
        let Setup { clock, store, policies, limits, drain_timeout, seed } = setup;
        let store = Handle::new(store);
        let epoch = store.next_epoch(clock.unix_ms()).await?;
        let id = store.id();
        let (persist, loaded) = Persist::open(store, limits.clone(), clock.clone()).await?;
        let persist = Arc::new(persist);

        let remembered = loaded.policies.into_iter().filter_map(|(name, stored)| {
            let digest = Digest::from_bytes(stored.digest.as_slice().try_into().ok()?);
            Some((name, digest, stored.revision))
        });
        let remembered = Policies::remembered(remembered);
        let in_force = match &policies {
            Some(path) => policies::load(path, &limits, Some(&remembered))?,
            None => policies::starter(&limits, Some(&remembered))?,
        };
        tasks::note_revisions(&persist, &in_force);

        let registry = Registry::new(clock, epoch, seed, limits.clone(), in_force.clone(), loaded.breakers);
        let registry = Arc::new(registry);
        let hub = Arc::new(Hub::new(id, epoch, limits.tombstones, limits.watch_streams));
        let (drainer, drain) = drain();
        let parts = Parts { registry, hub, persist, drain, rpcs: Arc::new(Rpcs::default()) };
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<BreakerServiceServer<Parts>>().await;
        let router = Server::builder()
            .tcp_nodelay(true)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE))
            .add_service(grpc::service(parts.clone()))
            .add_service(health_service)
            .add_service(reflection().build_v1()?)
            .add_service(reflection().build_v1alpha()?);

        let (grpc_addr, http_addr) = (grpc.local_addr()?, http.local_addr()?);
        let (close, closed) = oneshot::channel::<()>();
        let started_with =
            StartedWith { policies: in_force.len(), breakers: parts.registry.all().len(), epoch };
        let serving =
            tokio::spawn(router.serve_with_incoming_shutdown(TcpListenerStream::new(grpc), async {
                // A sender that is gone means the same as one that has spoken.
                let _ = closed.await;
            }));
        let tasks = tasks::spawn(&parts, http);
        let follower = policies.map(|path| {
            let watcher = policies::Watcher::new(path, limits, in_force);
            AbortOnDropHandle::new(tokio::spawn(tasks::follow(watcher, parts.clone())))
        });
        Ok(Self {
            grpc_addr,
            http_addr,
            started_with,
            drain_timeout,
            drainer,
            parts,
            health,
            close: Some(close),
            serving,
            tasks,
            follower,
        })
    }

    /// Ends it: not ready any more, streams ended with a hint and spread over the time there is, then connections, in
    /// bounded time. What changed is durable afterwards, if the store works.
    pub async fn stop(mut self) {
        let began = tokio::time::Instant::now();
        let streams = self.parts.hub.streams();
        tracing::info!(streams, grace = ?self.drain_timeout, "stopping: clients are asked to leave");
        self.health.set_service_status("", ServingStatus::NotServing).await;
        self.health.set_not_serving::<BreakerServiceServer<Parts>>().await;
        self.drainer.start(self.drain_timeout);
        let emptied = timeout(self.drain_timeout, self.parts.hub.emptied()).await;
        if emptied.is_err() {
            tracing::warn!(streams = self.parts.hub.streams(), "streams are still open: cutting them off");
        }
        if let Some(close) = self.close.take() {
            // The server may have ended by itself.
            let _ = close.send(());
        }
        let left = self.drain_timeout.saturating_sub(began.elapsed()).max(Duration::from_millis(500));
        if timeout(left, &mut self.serving).await.is_err() {
            self.serving.abort();
        }
        // Nobody is answered any more: this is the last change that somebody may know of.
        let last = self.parts.registry.outbox.position();
        let noted = timeout(FLUSH, self.parts.hub.reached(last)).await.is_ok();
        if !noted || !self.parts.persist.flush(last, FLUSH).await {
            tracing::error!("the store still fails: the last changes are lost");
        }
        self.tasks.abort_all();
        self.follower = None;
        tracing::info!(took = ?began.elapsed(), "stopped");
    }

    /// Waits until the server, or a task that it cannot do without, ends by itself, which none does unless something is
    /// very wrong. What is left would go on answering and publish, store or time nothing.
    pub async fn ended(&mut self) {
        let text = |error: &dyn std::error::Error| error.to_string();
        let ended = tokio::select! {
            served = &mut self.serving => match served {
                Ok(served) => served.map_err(|error| text(&error)),
                Err(error) => Err(text(&error)),
            },
            Some(task) = self.tasks.join_next() => task.map_err(|error| text(&error)),
        };
        let why = ended.err().unwrap_or_else(|| "it returned".into());
        tracing::error!(why, "a part of the server ended by itself: ending the rest");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn reflection<'a>() -> tonic_reflection::server::Builder<'a> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(panelboard_proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Memory, StoreId};

    #[tokio::test]
    async fn a_task_that_dies_ends_the_server() {
        let setup = Setup {
            clock: Clock::manual(),
            store: Arc::new(Memory::new(StoreId::from_u128(1))),
            policies: None,
            limits: Limits::default(),
            drain_timeout: Duration::ZERO,
            seed: 1,
        };
        let listener = || TcpListener::bind("127.0.0.1:0");
        let (grpc, http) = (listener().await.unwrap(), listener().await.unwrap());
        let mut running = Running::start(setup, grpc, http).await.unwrap();
        running.tasks.spawn(async { panic!("a test wants it so") });
        timeout(Duration::from_secs(60), running.ended()).await.expect("it ends");
    }
}
