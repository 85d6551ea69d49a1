//! How much a set of policies may hold.

/// What whoever reads policies may bound differently. The default is the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Policies of a set.
    pub policies: Limit,
    /// Breakers that policies name in full: each exists at once.
    pub names: Limit,
    /// Bytes of one file.
    pub file_bytes: Limit,
}

impl Default for Limits {
    fn default() -> Self {
        Self { policies: Limit::of(10_000), names: Limit::of(100_000), file_bytes: Limit::of(1_048_576) }
    }
}

/// A limit, and how it is raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The most that is allowed.
    pub most: usize,
    /// The setting that raises it, if there is one: messages name it as a remedy.
    pub setting: Option<&'static str>,
}

impl Limit {
    /// One that no setting raises.
    pub const fn of(most: usize) -> Self {
        Self { most, setting: None }
    }

    /// `remove some, or raise limits.policies`, if there is something to raise.
    pub(crate) fn remedy(&self, first: &str) -> String {
        match self.setting {
            Some(setting) => format!("{first}, or raise {setting}"),
            None => first.to_owned(),
        }
    }
}

/// Files of a directory of policies.
pub const FILES_MAX: usize = 1_000;

/// Bytes of all files of a directory of policies together: a server reads them again every second.
pub const TOTAL_BYTES_MAX: usize = 67_108_864;

/// Names and patterns of one policy.
pub const PATTERNS_PER_POLICY_MAX: usize = 1_000;

/// Steps spent on whether two policies are for one name. A pair of patterns that begin alike and are equally specific
/// takes one, or the product of their lengths if their ends are alike too.
pub const PATTERN_STEPS_MAX: usize = 20_000_000;
