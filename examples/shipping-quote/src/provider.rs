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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::upstream::{Upstream, UpstreamError};

    async fn status_of(provider: &Provider, token: Option<&str>, path: &str) -> u16 {
        let timeout = Duration::from_secs(30);
        let upstream =
            Upstream::new(&provider.addr().to_string(), token.map(str::to_owned), timeout).unwrap();
        match upstream.get(path).await {
            Ok(_) => 200,
            Err(UpstreamError::Status { status, .. }) => status,
            Err(error) => panic!("{error}"),
        }
    }

    #[tokio::test]
    async fn it_checks_the_token_and_the_postcode_itself() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = Settings { token: Some("secret".to_owned()), ..Settings::default() };
        let provider = Provider::start(listener, settings, Behaviour::good()).unwrap();
        let quote = "/quote?postcode=12345";
        assert_eq!(status_of(&provider, Some("secret"), quote).await, 200);
        assert_eq!(status_of(&provider, Some("wrong"), quote).await, 401);
        assert_eq!(status_of(&provider, None, quote).await, 401);
        for unknown in ["/quote?postcode=00123", "/quote?postcode=1234", "/quote?postcode=", "/quote"] {
            assert_eq!(status_of(&provider, Some("secret"), unknown).await, 400, "{unknown}");
        }
        let stats = provider.stats();
        assert_eq!(stats.total, 7);
        assert_eq!(stats.by_status, [(200, 1), (400, 4), (401, 2)].into());
        provider.stop().await;
    }

    #[tokio::test]
    async fn it_can_be_switched_over_http_and_keeps_its_behaviour_when_told_nonsense() {
        let provider = Provider::start_local(Behaviour::good()).await.unwrap();
        let upstream = Upstream::new(&provider.addr().to_string(), None, Duration::from_secs(30)).unwrap();
        let down = br#"{"answer":{"status":503}}"#;
        upstream.post_json("/control", down.to_vec()).await.unwrap();
        assert_eq!(status_of(&provider, None, "/quote?postcode=12345").await, 503);
        for nonsense in ["", "{", r#"{"answer":"bad"}"#, r#"{"answer":{"status":999}}"#, r#"{"slow":1}"#] {
            let refused = upstream.post_json("/control", nonsense.into()).await.unwrap_err();
            assert!(matches!(refused, UpstreamError::Status { status: 400, .. }), "{nonsense}: {refused}");
        }
        assert_eq!(provider.stats().behaviour, Behaviour::answering(Answer::Status(503)));
        assert_eq!(provider.stats().since_switch, 1);
        provider.stop().await;
    }
}
