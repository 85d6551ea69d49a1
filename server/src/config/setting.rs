//! The table of settings: the name of each, how it is read and how it is written.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use panelboard_policy::{duration, nearest};

use super::{Config, ServeFlags, StoreKind};
use crate::limits::{self, Limit};
use crate::logging::{LogFormat, LogLevel};

/// One setting.
#[derive(Debug, Clone, Copy)]
pub(super) enum Setting {
    /// One that also has a flag.
    Server(&'static Row),
    /// One under `[limits]`.
    Limit(&'static Limit),
}

/// A row of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) flag: fn(&ServeFlags) -> &Option<OsString>,
    set: fn(&mut Config, &OsStr) -> Result<(), String>,
    /// As a TOML value; nothing if it is not set.
    write: fn(&Config) -> Option<String>,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "grpc-addr",
        flag: |flags| &flags.grpc_addr,
        set: |config, text| address(text, "127.0.0.1:50051").map(|addr| config.grpc_addr = addr),
        write: |config| Some(quoted(&config.grpc_addr.to_string())),
    },
    Row {
        name: "http-addr",
        flag: |flags| &flags.http_addr,
        set: |config, text| address(text, "127.0.0.1:50080").map(|addr| config.http_addr = addr),
        write: |config| Some(quoted(&config.http_addr.to_string())),
    },
    Row {
        name: "data-dir",
        flag: |flags| &flags.data_dir,
        set: |config, text| path(text).map(|path| config.data_dir = path),
        write: |config| Some(quoted(&config.data_dir.to_string_lossy())),
    },
    Row {
        name: "policies",
        flag: |flags| &flags.policies,
        set: |config, text| path(text).map(|path| config.policies = Some(path)),
        write: |config| config.policies.as_ref().map(|path| quoted(&path.to_string_lossy())),
    },
    Row {
        name: "store",
        flag: |flags| &flags.store,
        set: |config, text| one_of(text, &STORES).map(|store| config.store = store),
        write: |config| word_for(config.store, &STORES),
    },
    Row {
        name: "log-format",
        flag: |flags| &flags.log_format,
        set: |config, text| one_of(text, &LOG_FORMATS).map(|format| config.log_format = format),
        write: |config| word_for(config.log_format, &LOG_FORMATS),
    },
    Row {
        name: "log-level",
        flag: |flags| &flags.log_level,
        set: |config, text| {
            config.log_level = LogLevel::parse(utf8(text)?).map_err(|err| err.to_string())?;
            Ok(())
        },
        write: |config| Some(quoted(&config.log_level.to_string())),
    },
    Row {
        name: "drain-timeout",
        flag: |flags| &flags.drain_timeout,
        set: |config, text| drain_timeout(text).map(|timeout| config.drain_timeout = timeout),
        write: |config| Some(quoted(&duration::format(config.drain_timeout))),
    },
];

const STORES: [(&str, StoreKind); 2] = [("embedded", StoreKind::Embedded), ("memory", StoreKind::Memory)];

const LOG_FORMATS: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];

/// A supervisor kills what does not stop long before an hour is over.
const DRAIN_TIMEOUT_MAX: Duration = Duration::from_secs(3_600);

/// All settings, in the order in which they are printed.
pub(super) fn all() -> impl Iterator<Item = Setting> {
    ROWS.iter().map(Setting::Server).chain(limits::ALL.iter().map(Setting::Limit))
}

impl Setting {
    /// Its name for an operator, as in `grpc-addr` or `limits.breakers`.
    pub(super) fn path(self) -> String {
        match self {
            Setting::Server(row) => row.name.to_owned(),
            Setting::Limit(limit) => format!("limits.{}", limit.name()),
        }
    }

    /// Its key in the configuration file, within its table.
    pub(super) fn key(self) -> String {
        match self {
            Setting::Server(row) => row.name.to_owned(),
            Setting::Limit(limit) => limit.name(),
        }
    }

    /// Its variable, as in `PANELBOARD_GRPC_ADDR` or `PANELBOARD_LIMITS_BREAKERS`.
    pub(super) fn variable(self) -> String {
        format!("PANELBOARD_{}", self.path().replace(['-', '.'], "_").to_ascii_uppercase())
    }

    /// Sets it from its text.
    pub(super) fn set(self, config: &mut Config, text: &OsStr) -> Result<(), String> {
        match self {
            Setting::Server(row) => (row.set)(config, text),
            Setting::Limit(limit) => {
                limit.set(&mut config.limits, utf8(text)?).map_err(|err| err.to_string())
            }
        }
    }

    /// Its value as a TOML value; nothing if it is not set.
    pub(super) fn write(self, config: &Config) -> Option<String> {
        match self {
            Setting::Server(row) => (row.write)(config),
            Setting::Limit(limit) => {
                let text = limit.write(&config.limits);
                let number = text.bytes().all(|b| b.is_ascii_digit());
                Some(if number { text } else { quoted(&text) })
            }
        }
    }
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Setting::Server(a), Setting::Server(b)) => a.name == b.name,
            (Setting::Limit(a), Setting::Limit(b)) => a.name() == b.name(),
            (Setting::Server(_), Setting::Limit(_)) | (Setting::Limit(_), Setting::Server(_)) => false,
        }
    }
}

fn utf8(text: &OsStr) -> Result<&str, String> {
    text.to_str().ok_or_else(|| "it is not UTF-8".to_owned())
}

fn address(text: &OsStr, example: &str) -> Result<SocketAddr, String> {
    let remedy = || {
        format!("write an IP address and a port, such as {example}, or 0.0.0.0 to listen on every interface")
    };
    utf8(text)?.parse().map_err(|_| remedy())
}

fn path(text: &OsStr) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("write a path, or leave the setting out".to_owned());
    }
    Ok(PathBuf::from(text))
}

fn drain_timeout(text: &OsStr) -> Result<Duration, String> {
    let timeout = duration::parse(utf8(text)?).map_err(|err| err.to_string())?;
    if timeout > DRAIN_TIMEOUT_MAX {
        return Err(format!("give at most {}", duration::format(DRAIN_TIMEOUT_MAX)));
    }
    Ok(timeout)
}

fn one_of<T: Copy>(text: &OsStr, words: &[(&'static str, T)]) -> Result<T, String> {
    let text = utf8(text)?;
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    Err(match nearest(text, all.iter().copied()) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("write one of {}", all.join(", ")),
    })
}

fn word_for<T: PartialEq>(value: T, words: &[(&'static str, T)]) -> Option<String> {
    words.iter().find(|(_, known)| *known == value).map(|(word, _)| quoted(word))
}

/// A TOML string.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
