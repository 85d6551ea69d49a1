//! What can be wrong with the settings: each message names the value, its place and the remedy.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::Source;

/// Everything that is wrong with the settings.
#[derive(Debug, thiserror::Error)]
#[error("{}", lines(.problems))]
pub struct ConfigError {
    /// Each thing, in the order of the layers; never none.
    pub problems: Vec<Problem>,
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// One thing that is wrong with the settings.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A value that the setting cannot have.
    #[error("{}: {setting} cannot be {value:?}: {why}", place(.from))]
    Value {
        /// The setting.
        setting: String,
        /// What was given.
        value: OsString,
        /// Where.
        from: Source,
        /// What is wrong, and what to write instead.
        why: String,
    },
    /// A value of a type that no setting has.
    #[error("{}:{line}: {setting} cannot be a value of type {found}: write a text in quotes or a whole number", path.display())]
    Type {
        /// The configuration file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The setting.
        setting: String,
        /// The type that was found.
        found: &'static str,
    },
    /// A key in the configuration file that is none of ours.
    #[error("{}:{line}: unknown key {key:?}: {remedy}", path.display())]
    UnknownKey {
        /// The configuration file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// What to write instead.
        remedy: String,
    },
    /// The configuration file is not TOML.
    #[error("{}:{line}: {reason}", path.display())]
    Syntax {
        /// The configuration file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The configuration file cannot be read.
    #[error("cannot read the configuration file {}: {reason}", path.display())]
    Unreadable {
        /// The configuration file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Two listeners on one address.
    #[error("grpc-addr ({grpc}) and http-addr ({http}) are both {addr}: give them different ports")]
    SameAddress {
        /// The address.
        addr: SocketAddr,
        /// Where the one came from.
        grpc: Source,
        /// Where the other came from.
        http: Source,
    },
}

/// Where to go and change it; for a file as editors and terminals recognise it.
fn place(source: &Source) -> String {
    match source {
        Source::File { path, line } => format!("{}:{line}", path.display()),
        Source::Default | Source::Environment { .. } | Source::Flag { .. } => source.to_string(),
    }
}
