//! A network path that can break: a TCP proxy which, from then on, drops whatever passes, as a bad cable would.
//! Connections stay open and nothing ever arrives.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// More than a request or an answer of the demo.
const CHUNK_BYTES: usize = 16 * 1024;

/// A path to one address. Dropping it closes the way in.
#[derive(Debug)]
pub(super) struct Path {
    addr: SocketAddr,
    is_broken: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Path {
    /// A path that is well.
    pub(super) async fn to(target: String) -> Result<Self, String> {
        let cannot = |error: std::io::Error| format!("cannot lay a path to {target}: {error}");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(cannot)?;
        let addr = listener.local_addr().map_err(cannot)?;
        let (is_broken, broken) = watch::channel(false);
        let accepting = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(pass(near, target.clone(), broken.clone()));
            }
        });
        Ok(Path { addr, is_broken, accepting })
    }

    /// Where it begins.
    pub(super) fn addr(&self) -> String {
        self.addr.to_string()
    }

    /// Nothing gets through any more.
    pub(super) fn break_down(&self) {
        self.is_broken.send_replace(true);
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(near: TcpStream, target: String, broken: watch::Receiver<bool>) {
    // A target that is gone looks like a path that ends here.
    let Ok(far) = TcpStream::connect(target).await else { return };
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    let there = carry(near_in, far_out, broken.clone());
    tokio::join!(there, carry(far_in, near_out, broken));
}

/// Until either end closes. What comes while the path is broken is read and lost, so that the sender notices nothing.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, broken: watch::Receiver<bool>) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        if !*broken.borrow() && to.write_all(&chunk[..read]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::provider::{Behaviour, Provider};
    use crate::upstream::{Upstream, UpstreamError};

    #[tokio::test]
    async fn a_path_passes_everything_until_it_breaks_and_nothing_after() {
        let provider = Provider::start_local(Behaviour::good()).await.unwrap();
        let path = Path::to(provider.addr().to_string()).await.unwrap();
        let ask =
            async |timeout| Upstream::new(&path.addr(), None, timeout)?.get("/quote?postcode=12345").await;
        assert!(ask(Duration::from_secs(60)).await.is_ok());
        path.break_down();
        assert_eq!(ask(Duration::from_millis(100)).await, Err(UpstreamError::Timeout));
        assert_eq!(provider.stats().total, 1);
    }
}
