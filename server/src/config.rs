//! The server's settings, and where each came from.
//!
//! Defaults < configuration file < environment < flags. The same names everywhere: `grpc-addr` in the file is
//! `PANELBOARD_GRPC_ADDR` in the environment and `--grpc-addr` on the command line. Only the names of known settings are
//! read from the environment, because Kubernetes adds `PANELBOARD_PORT` and its like to every pod beside a Service
//! called panelboard.

mod environment;
mod file;
mod flags;
mod print;
mod problem;
mod setting;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::limits::Limits;
use crate::logging::{LogFormat, LogLevel};

pub use environment::UnknownVariable;
pub use flags::{Command, ServeFlags};
pub use problem::{ConfigError, Problem};
use setting::Setting;

/// Everything an operator can set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where gRPC is served to applications.
    pub grpc_addr: SocketAddr,
    /// Where HTTP is served: metrics, health, breakers for people.
    pub http_addr: SocketAddr,
    /// The directory of the embedded store.
    pub data_dir: PathBuf,
    /// The policy file, or the directory of policy files; without one the built-in starter policy.
    pub policies: Option<PathBuf>,
    /// Where state is kept.
    pub store: StoreKind,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// Which log lines are written.
    pub log_level: LogLevel,
    /// How long a stopping server waits for its clients to leave.
    pub drain_timeout: Duration,
    /// All limits.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            grpc_addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 50_051)),
            http_addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 50_080)),
            data_dir: PathBuf::from("./panelboard-data"),
            policies: None,
            store: StoreKind::default(),
            log_format: LogFormat::default(),
            log_level: LogLevel::default(),
            drain_timeout: Duration::from_secs(10),
            limits: Limits::default(),
        }
    }
}

/// Where state is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// In one file in the data directory.
    #[default]
    Embedded,
    /// In memory: gone with the process.
    Memory,
}

/// Where a setting's value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// The configuration file.
    File {
        /// Its path as it was given.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The environment.
    Environment {
        /// The variable.
        name: String,
    },
    /// The command line.
    Flag {
        /// Its name without dashes.
        name: &'static str,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::File { path, line } => write!(f, "file {}:{line}", path.display()),
            Source::Environment { name } => write!(f, "environment {name}"),
            Source::Flag { name } => write!(f, "flag --{name}"),
        }
    }
}

/// The settings in force.
#[derive(Debug)]
pub struct Loaded {
    /// Their values.
    pub config: Config,
    /// To be logged as warnings once there is a log.
    pub warnings: Vec<UnknownVariable>,
    /// One for each of [`setting::all`], in its order.
    sources: Vec<(Setting, Source)>,
}

impl Loaded {
    /// What `--print-config` prints: each setting on a line of its own, with where it came from. As a configuration
    /// file it gives the same settings again.
    pub fn print(&self) -> String {
        print::print(&self.config, &self.sources)
    }

    /// Where the setting of this name came from, such as `grpc-addr` or `limits.breakers`.
    pub fn source(&self, name: &str) -> Option<&Source> {
        self.sources.iter().find(|(setting, _)| setting.path() == name).map(|(_, source)| source)
    }
}

/// Reads all settings. Everything that is wrong is reported at once.
pub fn load(
    flags: &ServeFlags,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Loaded, ConfigError> {
    let environment = environment::Environment::new(environment);
    let mut layers = Layers::new();
    if let Some(path) = flags.config.as_deref().or_else(|| environment.config_file()) {
        let file = file::read(path);
        layers.problems.extend(file.problems);
        for entry in file.entries {
            layers.set(
                entry.setting,
                OsStr::new(&entry.text),
                Source::File { path: path.to_owned(), line: entry.line },
            );
        }
    }
    for (setting, name, value) in environment.settings() {
        layers.set(setting, value, Source::Environment { name });
    }
    for (setting, name, value) in flags.settings() {
        layers.set(setting, value, Source::Flag { name });
    }
    layers.check_listeners();
    let Layers { config, sources, problems } = layers;
    if problems.is_empty() {
        Ok(Loaded { config, warnings: environment.unknown(), sources })
    } else {
        Err(ConfigError { problems })
    }
}

/// What has been read so far.
struct Layers {
    config: Config,
    sources: Vec<(Setting, Source)>,
    problems: Vec<Problem>,
}

impl Layers {
    fn new() -> Self {
        let sources = setting::all().map(|setting| (setting, Source::Default)).collect();
        Self { config: Config::default(), sources, problems: Vec::new() }
    }

    fn set(&mut self, setting: Setting, text: &OsStr, source: Source) {
        if let Err(why) = setting.set(&mut self.config, text) {
            self.problems.push(Problem::Value {
                setting: setting.path(),
                value: text.to_owned(),
                from: source,
                why,
            });
            return;
        }
        if let Some((_, current)) = self.sources.iter_mut().find(|(known, _)| *known == setting) {
            *current = source;
        }
    }

    /// Two listeners cannot share an address; the system would name only the second.
    fn check_listeners(&mut self) {
        let Config { grpc_addr, http_addr, .. } = self.config;
        // Port 0 is a free one for each.
        if grpc_addr == http_addr && grpc_addr.port() != 0 {
            let source_of = |name| {
                let found = self.sources.iter().find(|(setting, _)| setting.path() == name);
                found.map_or(Source::Default, |(_, source)| source.clone())
            };
            let (grpc, http) = (source_of("grpc-addr"), source_of("http-addr"));
            self.problems.push(Problem::SameAddress { addr: grpc_addr, grpc, http });
        }
    }
}
