//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

use super::setting::{ROWS, Setting};

/// Serves circuit breakers that a whole fleet shares.
///
/// Settings come from flags, from the environment, from a configuration file and from defaults, in this order.
#[derive(Debug, Parser)]
#[command(name = "panelboard", version, disable_help_subcommand = true)]
struct CommandLine {
    #[command(flatten)]
    flags: ServeFlags,

    #[command(subcommand)]
    command: Option<Subcommands>,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Serve; what happens without a subcommand too.
    Serve(ServeFlags),
    /// Check a policy file, or every policy file in a directory, and exit: 0 if all are valid, else 2.
    Check {
        /// The file or directory.
        #[arg(value_name = "FILE|DIR")]
        path: PathBuf,
    },
}

/// The flags of `panelboard serve`. Values are still text: what each may be is its setting's business.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ServeFlags {
    /// A configuration file (TOML) [env: PANELBOARD_CONFIG].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Where to serve gRPC [env: PANELBOARD_GRPC_ADDR] [default: 127.0.0.1:50051].
    #[arg(long, value_name = "IP:PORT")]
    pub grpc_addr: Option<OsString>,

    /// Where to serve HTTP: metrics, health, breakers [env: PANELBOARD_HTTP_ADDR] [default: 127.0.0.1:50080].
    #[arg(long, value_name = "IP:PORT")]
    pub http_addr: Option<OsString>,

    /// The directory of the embedded store, made if missing [env: PANELBOARD_DATA_DIR] [default: ./panelboard-data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<OsString>,

    /// The policies, watched for changes; without any, a starter policy for every name [env: PANELBOARD_POLICIES].
    #[arg(long, value_name = "FILE|DIR")]
    pub policies: Option<OsString>,

    /// Where to keep state: embedded (a file) or memory [env: PANELBOARD_STORE] [default: embedded].
    #[arg(long, value_name = "KIND")]
    pub store: Option<OsString>,

    /// How to write log lines: text or json [env: PANELBOARD_LOG_FORMAT] [default: text].
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<OsString>,

    /// What to log: off, error, warn, info, debug or trace, or levels by module, such as
    /// info,panelboard_server=debug [env: PANELBOARD_LOG_LEVEL] [default: info].
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<OsString>,

    /// How long to wait for clients to leave when stopping [env: PANELBOARD_DRAIN_TIMEOUT] [default: 10s].
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub drain_timeout: Option<OsString>,

    /// Print every setting in force and where it came from, and exit.
    #[arg(long)]
    pub print_config: bool,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Serve.
    Serve(ServeFlags),
    /// Check policies.
    Check {
        /// A policy file, or a directory of them.
        path: PathBuf,
    },
}

impl Command {
    /// Reads the command line, the program's own name first. `--help` and `--version` are errors too, that know how
    /// to print themselves and exit with 0.
    pub fn parse(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Self, clap::Error> {
        let CommandLine { flags, command } = CommandLine::try_parse_from(args)?;
        match command {
            None => Ok(Command::Serve(flags)),
            Some(Subcommands::Serve(own)) => Ok(Command::Serve(own.or(flags))),
            Some(Subcommands::Check { path }) if flags == ServeFlags::default() => {
                Ok(Command::Check { path })
            }
            Some(Subcommands::Check { .. }) => {
                let message = "the flags of `serve` mean nothing to `check`: leave them out";
                Err(CommandLine::command().error(ErrorKind::ArgumentConflict, message))
            }
        }
    }
}

impl ServeFlags {
    /// The settings among them that were given.
    pub(super) fn settings(&self) -> impl Iterator<Item = (Setting, &'static str, &OsStr)> {
        ROWS.iter().filter_map(|row| Some((Setting::Server(row), row.name, (row.flag)(self).as_deref()?)))
    }

    /// These, and those before the subcommand where these are silent.
    fn or(self, before: Self) -> Self {
        Self {
            config: self.config.or(before.config),
            grpc_addr: self.grpc_addr.or(before.grpc_addr),
            http_addr: self.http_addr.or(before.http_addr),
            data_dir: self.data_dir.or(before.data_dir),
            policies: self.policies.or(before.policies),
            store: self.store.or(before.store),
            log_format: self.log_format.or(before.log_format),
            log_level: self.log_level.or(before.log_level),
            drain_timeout: self.drain_timeout.or(before.drain_timeout),
            print_config: self.print_config || before.print_config,
        }
    }
}
