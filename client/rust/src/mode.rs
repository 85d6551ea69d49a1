//! The kill switch on the client's side.

use std::fmt;

/// What the client's breakers do with their verdicts. Set by the environment variable `PANELBOARD_MODE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Rejections reject.
    #[default]
    Enforce,
    /// All calls pass; outcomes are recorded and reported, rejections are only counted.
    Shadow,
    /// All calls pass, nothing is recorded, no connection is made and no thread is started.
    Off,
}

impl Mode {
    /// The environment variable.
    pub const VARIABLE: &'static str = "PANELBOARD_MODE";

    /// Parses `enforce`, `shadow` or `off`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "enforce" => Some(Self::Enforce),
            "shadow" => Some(Self::Shadow),
            "off" => Some(Self::Off),
            _ => None,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
            Self::Off => "off",
        })
    }
}
