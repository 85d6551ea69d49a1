//! The server as a process of its own: killed, asked to stop, started where it cannot.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr, Command},
};

use super::{Service, within};

/// A running server.
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    /// What it has logged so far.
    pub(crate) log: Vec<serde_json::Value>,
    pub(crate) grpc: String,
    pub(crate) http: String,
}

/// What a program said that has ended.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Process {
    /// Starts one on ports of its own and waits until it serves.
    pub(crate) async fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::start_with(folder, arguments, &[]).await
    }

    /// The same with more in its environment.
    pub(crate) async fn start_with(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = command(folder);
        command.args(["--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--log-format", "json"]);
        command.args(arguments).envs(environment.iter().copied());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (grpc, http) = (String::new(), String::new());
        let mut process = Self { child, lines, log: Vec::new(), grpc, http };
        let serves = process.logged("panelboard serves").await;
        let address = |field: &str| serves[field].as_str().expect("an address").to_string();
        (process.grpc, process.http) = (address("grpc"), address("http"));
        process
    }

    /// Waits for a line of the log whose message holds this, unless there was one already.
    pub(crate) async fn logged(&mut self, text: &str) -> serde_json::Value {
        if let Some(line) = self.log.iter().find(|line| says(line, text)) {
            return line.clone();
        }
        loop {
            let line = within(text, self.lines.next_line()).await.unwrap();
            let Some(line) = line else { panic!("the server ended without {text:?}: {:#?}", self.log) };
            let line: serde_json::Value =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"));
            self.log.push(line.clone());
            if says(&line, text) {
                return line;
            }
        }
    }

    pub(crate) async fn service(&self) -> Service {
        within("a connection", Service::connect(format!("http://{}", self.grpc))).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let answer = within("HTTP", reqwest::get(format!("http://{}{path}", self.http))).await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Without warning.
    pub(crate) async fn kill(mut self) {
        within("the end", self.child.kill()).await.unwrap();
    }

    /// Sends a signal by its name, as in `TERM`.
    pub(crate) async fn signal(&self, name: &str) {
        let id = self.child.id().expect("it runs").to_string();
        let sent = Command::new("sh").args(["-c", "kill -\"$1\" \"$2\"", "sh", name, &id]).status().await;
        assert!(sent.unwrap().success());
    }

    /// Waits for its end, with the rest of what it has to say. Returns its exit code.
    pub(crate) async fn end(mut self) -> (Option<i32>, Vec<serde_json::Value>) {
        let rest = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                self.log.push(serde_json::from_str(&line).unwrap_or_default());
            }
            self.child.wait().await.unwrap()
        };
        let code = within("the end of the process", rest).await.code();
        (code, self.log)
    }
}

fn says(line: &serde_json::Value, text: &str) -> bool {
    line["message"].as_str().is_some_and(|message| message.contains(text))
}

/// Runs the program to its end.
pub(crate) async fn run_to_end<A: AsRef<OsStr>>(folder: &Path, arguments: &[A]) -> Output {
    let mut command = command(folder);
    command.args(arguments).stdout(Stdio::piped());
    let output = within("the end of the program", command.output()).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Output { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(binary());
    command.current_dir(folder).stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    // Nothing of the caller's own settings.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PANELBOARD_") {
            command.env_remove(name);
        }
    }
    command
}

/// The program, beside this test's own; built if it is not there or older than its sources.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let own = std::env::current_exe().unwrap();
        let profile = own.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
        let path = profile.join(format!("panelboard{}", std::env::consts::EXE_SUFFIX));
        let built = path.metadata().and_then(|about| about.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let sources = ["core/src", "server/src", "proto"].map(|folder| newest(&root.join(folder)));
        if sources.into_iter().any(|source| source > built) {
            build(root, profile);
        }
        path
    })
}

fn build(root: &Path, profile: &Path) {
    let mut cargo = std::process::Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--quiet", "--package", "panelboard-server", "--bin", "panelboard"]);
    if profile.file_name() == Some(OsStr::new("release")) {
        cargo.arg("--release");
    }
    cargo.current_dir(root).env("CARGO_TARGET_DIR", profile.parent().expect("a target folder"));
    assert!(cargo.status().unwrap().success(), "the server does not build");
}

fn newest(folder: &Path) -> SystemTime {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let times = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
        true => newest(&entry.path()),
        false => entry.metadata().unwrap().modified().unwrap(),
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// How long a drain is given in tests.
pub(crate) const DRAIN: Duration = Duration::from_secs(3);
