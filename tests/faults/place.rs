//! Where a scene is played: in this process, or in one of its own whose network or clock can be tampered with.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    HERE,
    matrix::{Outcome, Row},
    panel,
    scenes::Scene,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In this process.
    Here,
    /// In a process of its own, whose memory is its own.
    Apart,
    /// In a network namespace of its own.
    Network,
    /// With a wall clock that can be stepped.
    Clock,
}

/// Names the file that holds how far the wall clock of this process is off.
pub(crate) const CLOCK_FILE: &str = "FAKETIME_TIMESTAMP_FILE";

/// Plays a scene in its place.
pub(crate) fn run(scene: &Scene) -> Outcome {
    match scene.place {
        Place::Here => Outcome::Passed(crate::run(scene)),
        Place::Apart => apart(scene, Command::new(own())),
        Place::Network => match namespace() {
            Ok(mut command) => {
                command.arg(own());
                apart(scene, command)
            }
            Err(why) => Outcome::Skipped(format!("no network namespace can be made here: {why}")),
        },
        Place::Clock => {
            let Some(library) = faketime() else {
                let remedy = "there is no libfaketime on this machine (Debian: apt-get install faketime)";
                return Outcome::Skipped(remedy.into());
            };
            let folder = tempfile::tempdir().expect("a temporary folder");
            let file = folder.path().join("clock");
            fs::write(&file, "+0").expect("a file");
            let mut command = Command::new(own());
            command.env("LD_PRELOAD", library).env(CLOCK_FILE, file).env("FAKETIME_NO_CACHE", "1");
            // Only the wall clock: the other one does not step on any machine.
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
            apart(scene, command)
        }
    }
}

fn own() -> std::path::PathBuf {
    std::env::current_exe().expect("this program has a path")
}

/// Plays a scene in a process of its own.
fn apart(scene: &Scene, mut command: Command) -> Outcome {
    command.args([HERE, scene.name]).env("PANEL_BINARY", panel::binary()).stdin(Stdio::null());
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return Outcome::Failed(format!("{command:?}: {error}")),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let row = said.lines().last().and_then(|line| serde_json::from_str(line).ok());
    match row.as_ref().and_then(Row::from_json).filter(|_| output.status.success()) {
        Some(row) => Outcome::Passed(row),
        None => {
            Outcome::Failed(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

/// What runs a program in a network namespace in which it may do what it likes.
///
/// # Errors
/// Why there is none.
fn namespace() -> Result<Command, String> {
    let attempt =
        "ip link set dev lo up && ip link add dev here0 type veth peer name there0 && command -v nsenter";
    let mut why = String::new();
    for words in [&["--net"][..], &["--user", "--map-root-user", "--net"]] {
        match Command::new("unshare").args(words).args(["sh", "-c", attempt]).stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => {
                let mut command = Command::new("unshare");
                command.args(words);
                return Ok(command);
            }
            Ok(output) => why = String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => why = format!("unshare: {error}"),
        }
    }
    Err(why)
}

fn faketime() -> Option<std::path::PathBuf> {
    let folders = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(Path::new);
    let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
    folders.into_iter().flat_map(|folder| [folder.join(&machine), folder.to_owned()]).find_map(|folder| {
        let library = folder.join("faketime/libfaketime.so.1");
        library.is_file().then_some(library)
    })
}
