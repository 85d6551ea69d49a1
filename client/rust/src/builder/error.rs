//! Why a client could not be built.

use std::{io, path::PathBuf, time::Duration};

use panelboard_core::{PatternError, Violation};
use panelboard_policy::PolicyErrors;

use crate::wire;

/// Why a client could not be built. Each message names what was given and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The URL is none that the client can connect to.
    #[error("{url:?} is not a server's address: {message}; give one like \"http://localhost:50051\"")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        message: String,
    },
    /// Neither the code nor the environment nor the settings file says where the server is.
    #[error("no server's address is given: set PANELBOARD_URL to one like \"http://localhost:50051\"")]
    NoUrl,
    /// A part of the identity is not usable.
    #[error("{message}")]
    Identity {
        /// What is wrong, and the remedy.
        message: String,
    },
    /// A setting of the environment or of the settings file is not usable.
    #[error("{setting}: {message}")]
    Setting {
        /// The variable, as in `PANELBOARD_MODE`, behind its place if that is a file: `client.env:3: PANELBOARD_MODE`.
        setting: String,
        /// What is wrong, with the value and the remedy.
        message: String,
    },
    /// The settings file is not usable.
    #[error("{place}: {message}")]
    SettingsFile {
        /// The file, with the line if it is one line that is wrong.
        place: String,
        /// What is wrong, with the remedy.
        message: String,
    },
    /// A policy that was given in the code is not valid.
    #[error("the policy for {pattern:?} is not valid: {}", wire::sentence(violations))]
    Policy {
        /// What it is for.
        pattern: String,
        /// All that is wrong with it.
        violations: Vec<Violation>,
    },
    /// Policy files are not valid. Each thing is named with its file and line.
    #[error("the policies in {path:?} are not valid:\n{errors}")]
    Policies {
        /// The file or directory.
        path: PathBuf,
        /// All that is wrong with them.
        errors: PolicyErrors,
    },
    /// A pattern is none.
    #[error("{pattern:?} is not a name or a pattern: {error}")]
    Pattern {
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        error: PatternError,
    },
    /// The wait for a probe is too long to be a bound.
    #[error("a probe_wait of {} is too long: give at most 10 s", wire::shown(*probe_wait))]
    ProbeWait {
        /// What was given.
        probe_wait: Duration,
    },
    /// The cache directory cannot be used.
    #[error("the cache directory {dir:?} cannot be used: {source}; give one that this process may write to")]
    CacheDir {
        /// What was given.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The client's thread could not be started.
    #[error("the client's thread could not be started: {source}")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
}
