//! A TCP proxy that knows nothing of what it carries: it counts connections, cuts them, and leads to another server.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Instant,
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    connects: Mutex<Vec<Instant>>,
    cuts: watch::Sender<u64>,
}

impl Gate {
    /// Its tasks end with the runtime.
    pub(crate) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared { target, connects: Mutex::default(), cuts: watch::Sender::new(0) });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                accepting.connects.lock().expect("not poisoned").push(Instant::now());
                tokio::spawn(carry(client, Arc::clone(&accepting)));
            }
        });
        Self { addr, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Ends all connections, in the middle of what they carry.
    pub(crate) fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// When connections were made, since then.
    pub(crate) fn connects_since(&self, since: Instant) -> Vec<Instant> {
        let connects = self.shared.connects.lock().expect("not poisoned");
        connects.iter().copied().filter(|at| *at >= since).collect()
    }
}

async fn carry(mut client: TcpStream, shared: Arc<Shared>) {
    let mut cuts = shared.cuts.subscribe();
    // Nobody there: the client sees its connection end at once.
    let Ok(mut server) = TcpStream::connect(shared.target).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = cuts.changed() => {}
    }
}
