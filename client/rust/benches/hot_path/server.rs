//! A real server in a process of its own: this binary, started once more.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use panelboard_server::{
    Running, Setup,
    clock::Clock,
    limits::Limits,
    store::{Memory, StoreId},
};
use tokio::net::TcpListener;

use crate::Failure;

pub(crate) const ROLE: &str = "serve";

/// `plain` has the rules that a policy has if it names none, `timed` a slow rule too; `crossing` trips like the peers
/// are set to, and stays OPEN for the rest of the run.
const POLICIES: &str = "
policies:
  - name: plain
    match: ['plain/**']
    owner: benchmark
  - name: timed
    match: ['timed/**']
    owner: benchmark
    trip:
      - { failure_rate: 50%, within: 10s, minimum_calls: 20 }
      - { slow_rate: 50%, slower_than: 2s, within: 10s, minimum_calls: 20 }
  - name: crossing
    match: ['crossing/**']
    owner: benchmark
    trip:
      - { failure_rate: 50%, within: 10s, minimum_calls: 20 }
    open: { wait: 1h }
";

/// A server that ends with this value.
pub(crate) struct Server {
    child: Child,
    grpc: SocketAddr,
    http: SocketAddr,
}

impl Server {
    pub(crate) fn start() -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(ROLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("the server has no output")?).read_line(&mut line)?;
        let (grpc, http) = line.trim().split_once(' ').ok_or("the server did not start")?;
        Ok(Self { child, grpc: grpc.parse()?, http: http.parse()? })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.grpc)
    }

    /// How many successes of a breaker were reported to it.
    pub(crate) fn successes(&self, breaker: &str) -> Result<u64, Failure> {
        let mut stream = TcpStream::connect(self.http)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.http)?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        let wanted = format!("panelboard_breaker_calls_total{{breaker=\"{breaker}\",outcome=\"success\"}} ");
        let value = page.lines().find_map(|line| line.strip_prefix(&wanted));
        Ok(value.map_or(Ok(0), |value| value.trim().parse())?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends when nobody holds the other end of its input.
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}

/// The server's process: serves until its input ends, so that it never outlives the benchmark.
pub(crate) fn serve() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let policies = dir.path().join("policies.yaml");
    std::fs::write(&policies, POLICIES)?;
    let setup = Setup {
        clock: Clock::system(),
        store: Arc::new(Memory::new(StoreId::from_u128(1))),
        policies: Some(policies),
        limits: Limits::default(),
        drain_timeout: Duration::ZERO,
        seed: 1,
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let running = runtime.block_on(async {
        let grpc = TcpListener::bind("127.0.0.1:0").await?;
        let http = TcpListener::bind("127.0.0.1:0").await?;
        Running::start(setup, grpc, http).await.map_err(io::Error::other)
    })?;
    println!("{} {}", running.grpc_addr, running.http_addr);
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    drop(running);
    runtime.shutdown_background();
    Ok(())
}
