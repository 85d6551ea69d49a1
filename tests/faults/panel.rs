//! The server: the program itself, as a process that is stopped, killed and started again.

use std::{
    ffi::OsString,
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        OnceLock,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use panelboard_proto::v1::{self, breaker_service_client::BreakerServiceClient};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tonic::transport::Channel;

use crate::eventually::{until_some, within};

/// A client of the contract, to look at the server with.
pub(crate) type Service = BreakerServiceClient<Channel>;

/// Nothing that is asked of a server that is well takes long.
const SOON: Duration = Duration::from_secs(20);

/// Where a server runs: its addresses, its data and its policies. They outlive the server.
#[derive(Debug)]
pub(crate) struct Site {
    folder: TempDir,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    /// What starts the server, if it does not start by itself: `unshare --net`.
    wrapper: Vec<&'static str>,
}

impl Site {
    /// On this host, on ports of its own.
    pub(crate) fn new(policies: &str) -> Self {
        Self::at(Ipv4Addr::LOCALHOST, Vec::new(), policies)
    }

    pub(crate) fn at(host: Ipv4Addr, wrapper: Vec<&'static str>, policies: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("policies.yaml"), policies).expect("a policy file");
        let at = |port| SocketAddr::from((host, port));
        Self { folder, grpc: at(port()), http: at(port()), wrapper }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.grpc)
    }

    /// Forgets all that a server kept here.
    pub(crate) fn forget(&self) {
        fs::remove_dir_all(self.data()).expect("the data can be removed");
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts a server and does not wait until it serves.
    pub(crate) fn spawn(&self) -> Panel {
        // A wildcard where the address is not there before the network is.
        let bind = |addr: SocketAddr| match self.wrapper.is_empty() {
            true => addr.to_string(),
            false => SocketAddr::from((Ipv4Addr::UNSPECIFIED, addr.port())).to_string(),
        };
        let log = self.folder.path().join("log");
        let mut words: Vec<OsString> = self.wrapper.iter().map(Into::into).collect();
        words.push(binary().into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.args(["--grpc-addr", &bind(self.grpc), "--http-addr", &bind(self.http)]);
        command.args(["--drain-timeout", "4s", "--policies", "policies.yaml", "--data-dir"]).arg(self.data());
        command.current_dir(self.folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        command.stderr(File::create(&log).expect("a log"));
        // The server has the machine's clock, and no settings but these.
        for (name, _) in std::env::vars_os() {
            let name_shown = name.to_string_lossy();
            if name_shown.starts_with("PANELBOARD_") || name_shown.starts_with("FAKETIME") {
                command.env_remove(&name);
            }
        }
        command.env_remove("LD_PRELOAD");
        let child = command.spawn().unwrap_or_else(|error| panic!("the server does not start: {error}"));
        Panel { child, log, grpc: self.grpc, http: self.http }
    }

    /// Starts a server and waits until it serves.
    pub(crate) async fn start(&self) -> Panel {
        let mut panel = self.spawn();
        panel.serves().await;
        panel
    }
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Panel {
    child: Child,
    log: PathBuf,
    grpc: SocketAddr,
    http: SocketAddr,
}

impl Panel {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("the server runs")
    }

    async fn serves(&mut self) {
        let look = async || {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("the server ended with {status}: {log}");
            }
            log.contains("panelboard serves").then_some(())
        };
        until_some("the server serves", SOON, look).await;
    }

    /// Sends a signal by its name.
    pub(crate) async fn signal(&self, name: &str) {
        let script = r#"kill -"$1" "$2""#;
        let sent =
            Command::new("sh").args(["-c", script, "sh", name, &self.pid().to_string()]).status().await;
        assert!(sent.expect("a shell").success(), "the server took no {name}");
    }

    /// Without a goodbye.
    pub(crate) async fn kill(mut self) {
        within("the server's death", SOON, self.child.kill()).await.expect("it can be killed");
    }

    /// With one; until it has ended.
    pub(crate) async fn stop(mut self) {
        self.signal("TERM").await;
        let status = within("the server's end", SOON, self.child.wait()).await.expect("it ends");
        assert!(status.success(), "{status}: {}", fs::read_to_string(&self.log).unwrap_or_default());
    }

    pub(crate) async fn service(&self) -> Service {
        let connect = Service::connect(format!("http://{}", self.grpc));
        within("a connection to the server", SOON, connect).await.expect("the server is there")
    }

    /// Looks at one breaker.
    pub(crate) async fn look(&self, breaker: &str) -> v1::GetBreakerResponse {
        let request = v1::GetBreakerRequest { breaker: breaker.into() };
        let mut service = self.service().await;
        let answer = within("GetBreaker", SOON, service.get_breaker(request)).await;
        answer.unwrap_or_else(|status| panic!("{breaker}: {status}")).into_inner()
    }

    pub(crate) async fn state(&self, breaker: &str) -> v1::State {
        self.look(breaker).await.status.map_or(v1::State::Unspecified, |status| status.state())
    }

    /// Somebody else's failures, as many as open it. Returns what it is then.
    pub(crate) async fn report_failures(&self, breaker: &str, failures: u32) -> v1::State {
        let client = v1::Client {
            service: "faults".into(),
            instance: "somebody-else".into(),
            ..v1::Client::default()
        };
        let entry = v1::ReportEntry { breaker: breaker.into(), failures, ..v1::ReportEntry::default() };
        let request = v1::ReportRequest { client: Some(client), entries: vec![entry] };
        let mut service = self.service().await;
        let answer =
            within("Report", SOON, service.report(request)).await.expect("it is counted").into_inner();
        answer.results[0].status.as_ref().map_or(v1::State::Unspecified, v1::BreakerStatus::state)
    }

    /// The sum of all series of that name that have these labels.
    pub(crate) async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let page = reqwest::get(format!("http://{}/metrics", self.http));
        let page = within("the metrics", SOON, page).await.expect("the server is there");
        let page = within("the metrics", SOON, page.text()).await.expect("they are text");
        let labels: Vec<_> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let is_it = |line: &&str| {
            let series = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']));
            series.is_some_and(|series| labels.iter().all(|label| series.contains(label)))
        };
        let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<u64>().ok());
        page.lines().filter(is_it).map(|line| value(line).expect("a count")).sum()
    }

    /// How many calls with that outcome were ever reported to this process, stale and late ones too.
    pub(crate) async fn calls(&self, breaker: &str, outcome: &str) -> u64 {
        self.metric("panelboard_breaker_calls_total", &[("breaker", breaker), ("outcome", outcome)]).await
    }

    /// How often a method was called.
    pub(crate) async fn rpcs(&self, method: &str) -> u64 {
        self.metric("panelboard_rpc_duration_seconds_count", &[("method", method)]).await
    }
}

/// A port that is free, and below those that the system gives to connections: nothing else of this run takes it while
/// the server is away.
pub(crate) fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    let start = u16::try_from(std::process::id() % 120).unwrap_or(0) * 100;
    (0..COUNT)
        .map(|_| FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("a free port")
}

/// The program: the one that `PANEL_BINARY` names, else built beside this test.
pub(crate) fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("PANEL_BINARY") {
            return path.into();
        }
        let own = std::env::current_exe().expect("this program has a path");
        let profile = own.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
        let mut cargo = std::process::Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "--package", "panelboard-server", "--bin", "panelboard"]);
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo.env("CARGO_TARGET_DIR", profile.parent().expect("a target folder"));
        assert!(cargo.status().expect("cargo").success(), "the server does not build");
        profile.join("panelboard")
    })
}
