//! One child process of the story: started, heard once, and ended whatever happens.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

/// Longer than any of our programs takes to start, even on a busy machine.
const START_MAX: Duration = Duration::from_secs(20);

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// Held open: our children end when it closes, even if this process is killed.
    _lifeline: Option<ChildStdin>,
}

impl Process {
    /// Starts `program` and drops what it says; its log goes to `log`.
    pub(super) fn start<A: AsRef<OsStr>>(
        program: &Path,
        args: impl IntoIterator<Item = A>,
        log: &Path,
    ) -> Result<Self, String> {
        Self::spawn(program, args, log, Stdio::null())
    }

    /// Starts `program` and waits for its first line, which is the address it serves on.
    pub(super) async fn start_serving<A: AsRef<OsStr>>(
        program: &Path,
        args: impl IntoIterator<Item = A>,
        log: &Path,
    ) -> Result<(Self, String), String> {
        let mut process = Self::spawn(program, args, log, Stdio::piped())?;
        let Some(stdout) = process.child.stdout.take() else {
            return Err(format!("{} has no stdout to read its address from", program.display()));
        };
        let mut line = String::new();
        let mut stdout = BufReader::new(stdout);
        let heard = timeout(START_MAX, stdout.read_line(&mut line)).await;
        match heard {
            Ok(Ok(read)) if read > 0 => Ok((process, line.trim().to_owned())),
            _ => Err(format!("{} did not start; its log is {}", program.display(), log.display())),
        }
    }

    fn spawn<A: AsRef<OsStr>>(
        program: &Path,
        args: impl IntoIterator<Item = A>,
        log: &Path,
        stdout: Stdio,
    ) -> Result<Self, String> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let lifeline = child.stdin.take();
        Ok(Process { child, _lifeline: lifeline })
    }

    /// Whether it has ended by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it and waits until it is gone.
    pub(super) async fn end(mut self) {
        _ = timeout(Duration::from_secs(5), self.child.kill()).await;
    }
}
