//! The provider: a real HTTP server that misbehaves on demand.
//!
//! It quotes shipping prices (`GET /quote?postcode=12345`), and on the side it is the upstream of the other
//! stories: `GET /stock?sku=`, `GET /price?sku=`, `POST /shipments?order=`. `POST /control` switches its
//! [`Behaviour`] while it runs, `GET /stats` and `GET /arrivals` tell what reached it. Both see through every
//! misbehaviour: only the four business routes misbehave.

mod behaviour;
mod counts;
mod routes;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use behaviour::{Answer, Behaviour, BehaviourError, Defect};
pub use counts::{Arrivals, Stats};

/// What does not change while a provider runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The price it quotes when it is well, as it stands in the answer.
    pub amount: String,
    /// The currency of that price.
    pub currency: String,
    /// The bearer token that callers must show; without one, everybody may call.
    pub token: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { amount: "12.34".to_owned(), currency: "EUR".to_owned(), token: None }
    }
}

/// A running provider. Dropping it stops it.
#[derive(Debug)]
pub struct Provider {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    server: JoinHandle<io::Result<()>>,
}

impl Provider {
    /// Serves on `listener` until it is stopped.
    pub fn start(listener: TcpListener, settings: Settings, behaviour: Behaviour) -> io::Result<Self> {
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared { settings, now: Mutex::new(counts::Present::new(behaviour)) });
        let (stop, mut stopped) = watch::channel(false);
        let app = routes::router(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            axum::serve(listener, app)
                .with_graceful_shutdown(async move {
                    // A closed channel is a dropped provider: the same as being told to stop.
                    _ = stopped.wait_for(|stop| *stop).await;
                })
                .await
        });
        Ok(Provider { addr, shared, stop, server })
    }

    /// Serves on a free port of loopback: what a test wants.
    pub async fn start_local(behaviour: Behaviour) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        Self::start(listener, Settings::default(), behaviour)
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Behaves differently from the next request on.
    pub fn switch(&self, behaviour: Behaviour) {
        self.shared.present().switch(behaviour);
    }

    /// What has reached it so far.
    pub fn stats(&self) -> Stats {
        self.shared.present().stats()
    }

    /// Stops accepting, and ends what is running: a hanging answer must not keep a process alive.
    pub async fn stop(self) {
        _ = self.stop.send(true);
        // Connections that are idle end at once; one that hangs is cut.
        let mut server = self.server;
        if tokio::time::timeout(std::time::Duration::from_millis(200), &mut server).await.is_err() {
            server.abort();
        }
    }
}

/// What the handlers share.
#[derive(Debug)]
struct Shared {
    settings: Settings,
    /// A std mutex: it is held for a few additions and never across an await.
    now: Mutex<counts::Present>,
}

impl Shared {
    fn present(&self) -> std::sync::MutexGuard<'_, counts::Present> {
        // Counting cannot panic, and a demo that counts on after a poisoning is better than one that stops.
        self.now.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
