//! Where the programs of the story are: next to it, and built if cargo is at hand.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

/// The programs that the story starts.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) panelboard: PathBuf,
    pub(super) provider: PathBuf,
    pub(super) quote_client: PathBuf,
}

impl Programs {
    /// The programs next to this one. Under `cargo run` cargo brings them up to date first, so that nobody watches
    /// yesterday's server.
    pub(super) async fn find() -> Result<Self, String> {
        let this =
            env::current_exe().map_err(|error| format!("cannot tell where this program is: {error}"))?;
        let folder = this.parent().unwrap_or(Path::new("."));
        if let Some(cargo) = env::var_os("CARGO").filter(|cargo| !cargo.is_empty()) {
            build(Path::new(&cargo), folder).await?;
        }
        let program = |name: &str| {
            let path = folder.join(format!("{name}{}", env::consts::EXE_SUFFIX));
            if path.is_file() {
                return Ok(path);
            }
            Err(format!(
                "there is no {}: build it with `cargo build --release -p panelboard-server -p shipping-quote`",
                path.display()
            ))
        };
        Ok(Programs {
            panelboard: program("panelboard")?,
            provider: program("provider")?,
            quote_client: program("quote-client")?,
        })
    }
}

async fn build(cargo: &Path, folder: &Path) -> Result<(), String> {
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--quiet",
        "--package",
        "panelboard-server",
        "--package",
        "shipping-quote",
        "--bins",
    ]);
    if folder.ends_with("release") {
        command.arg("--release");
    }
    let status = command.stdin(Stdio::null()).kill_on_drop(true).status().await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo build ended with {status}")),
        Err(error) => Err(format!("cannot start {}: {error}", cargo.display())),
    }
}
