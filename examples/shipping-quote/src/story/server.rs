//! The Panelboard server as a child process.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::process::Process;
use super::programs::Programs;
use crate::upstream::Upstream;

/// Longer than any server takes to start, even on a busy machine.
const READY_MAX: Duration = Duration::from_secs(20);

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Server {
    process: Process,
    grpc: String,
    http: Upstream,
}

impl Server {
    /// Starts the server on free ports and waits until it is ready.
    pub(super) async fn start(programs: &Programs, policy: &Path, folder: &Path) -> Result<Self, String> {
        let (grpc, http) = (free_addr()?, free_addr()?);
        let data = folder.join("panelboard-data");
        let log = folder.join("panelboard.log");
        let args = [
            "serve".as_ref(),
            "--grpc-addr".as_ref(),
            grpc.as_ref(),
            "--http-addr".as_ref(),
            http.as_ref(),
            "--data-dir".as_ref(),
            data.as_os_str(),
            "--policies".as_ref(),
            policy.as_os_str(),
        ];
        let mut process = Process::start(&programs.panelboard, args, &log)?;
        let http = Upstream::new(&http, None, Duration::from_secs(1)).map_err(|error| error.to_string())?;
        let late = Instant::now() + READY_MAX;
        while http.get("/readyz").await.is_err() {
            if process.has_ended() || Instant::now() > late {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("the server did not get ready; it said:\n{said}"));
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(Server { process, grpc, http })
    }

    pub(super) fn grpc_url(&self) -> String {
        format!("http://{}", self.grpc)
    }

    /// Where people and programs look at breakers.
    pub(super) fn http(&self) -> Upstream {
        self.http.clone()
    }

    pub(super) async fn end(self) {
        self.process.end().await;
    }
}

/// An address that is free now. Somebody else may take it first: then the server says so, and the story ends.
fn free_addr() -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|addr| addr.to_string()).map_err(|error| format!("no free port on loopback: {error}"))
}
