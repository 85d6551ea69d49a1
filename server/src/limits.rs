//! Every limit of the server, in one place.
//!
//! A limit that an operator may want to move is a field of [`Limits`]; what a stored or transmitted format fixes is a
//! constant below. Whoever enforces one takes it from here and names it in the error.

use std::ops::RangeInclusive;
use std::time::Duration;

use panelboard_policy::duration;

/// Declares [`Limits`] and, from the same lines, the name, default and range of each, so that documentation,
/// configuration and printed settings cannot drift apart.
macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr, $range:expr;)+) => {
        /// The limits an operator can move: `[limits]` in the configuration file (`entries-per-report = 1000`),
        /// `PANELBOARD_LIMITS_*` in the environment (`PANELBOARD_LIMITS_ENTRIES_PER_REPORT=1000`).
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Limits {
            $(
                $(#[doc = $doc])+
                #[doc = concat!("\n\nDefault `", stringify!($default), "`, settable within `", stringify!($range), "`.")]
                pub $field: $type,
            )+
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        /// What can be set, in the order of the fields.
        pub(crate) const ALL: &[Limit] = &[
            $(Limit {
                field: stringify!($field),
                set: |limits, text| {
                    limits.$field = <$type as Value>::read_within(text, $range)?;
                    Ok(())
                },
                write: |limits| limits.$field.write(),
            },)+
        ];
    };
}

limits! {
    /// Bytes of one message in either direction. Stock gRPC clients refuse more than 4 MiB.
    message_bytes: usize = 4_194_304, 65_536..=67_108_864;
    /// Entries of one Report. Past it the whole request is refused.
    entries_per_report: usize = 1_000, 1..=100_000;
    /// Breakers and patterns one Watch may name.
    names_per_watch: usize = 1_000, 1..=100_000;
    /// Different patterns among them. Each costs a comparison with every breaker there is, and with every change.
    patterns_per_watch: usize = 32, 1..=1_000;
    /// Breakers on one page of ListBreakers, and transitions on one page of ListTransitions.
    page_size: usize = 1_000, 1..=10_000;
    /// Bytes of each word by which a client introduces itself: service, instance, session, zone, version.
    client_word_bytes: usize = 256, 16..=4_096;
    /// Bytes of the name of a cause.
    cause_bytes: usize = 64, 16..=256;
    /// Outcomes of one kind that one entry of a Report may carry.
    counts_per_entry: usize = 1_000_000, 1..=1_000_000_000;
    /// Causes one entry of a Report may name.
    causes_per_entry: usize = 32, 1..=256;
    /// Different causes counted by name for one breaker; the rest are counted together.
    causes_per_breaker: usize = 64, 1..=1_024;
    /// Watch streams open at a time.
    watch_streams: usize = 20_000, 1..=1_000_000;
    /// How long a Watch stream may be unable to take a message before it is ended.
    watch_stuck: Duration = seconds(10), seconds(1)..=minutes(60);
    /// Breakers that exist at a time. Past it no pattern creates another.
    breakers: usize = 100_000, 1..=10_000_000;
    /// Instances with a tally of their own per breaker; the least active of more share one that has no vote.
    instances_per_breaker: usize = 10_000, 1..=1_000_000;
    /// How long a breaker that a pattern made stays without a call and without a watch that names it.
    idle_breaker_age: Duration = hours(1), minutes(1)..=days(30);
    /// Deleted breakers remembered so that a resumed Watch hears of them; past it a resume is a Reset.
    tombstones: usize = 10_000, 1..=1_000_000;
    /// Incidents kept per breaker.
    incidents_per_breaker: usize = 1_000, 1..=100_000;
    /// How long an incident is kept after its last transition.
    incident_age: Duration = days(7), hours(1)..=days(365);
    /// Policies that exist at a time.
    policies: usize = 10_000, 1..=1_000_000;
    /// Bytes of one policy file.
    policy_file_bytes: usize = 1_048_576, 1_024..=67_108_864;
}

/// Bytes of a key in the store: a breaker's name of 128 and what is put before and behind it.
pub const STORE_KEY_BYTES: usize = 512;

/// Bytes of a value in the store: far more than any record of ours, and less than common stores allow.
pub const STORE_VALUE_BYTES: usize = 1_048_576;

/// Records written in one batch. A group commit that holds more is split: every batch is copied while it is written.
pub const STORE_BATCH_WRITES: usize = 10_000;

/// Bytes of the configuration file. One with every setting is a few kilobytes.
pub const CONFIG_FILE_BYTES: u64 = 1_048_576;

/// Errors travel in headers, and stock clients refuse more than 8 KiB of them: base64 makes a third more of the details.
pub(crate) const ERROR_DETAIL_BYTES: usize = 4_000;

/// The same for what is said in one sentence.
pub(crate) const ERROR_MESSAGE_BYTES: usize = 500;

/// Violations remembered of one request; the others are counted. A hostile one can hold millions.
pub(crate) const VIOLATIONS: usize = 100;

/// Raw outcomes of one entry.
pub(crate) const RAW_PER_ENTRY: usize = 100;

/// The longest duration that a call or a retry-after can have: a week.
pub(crate) const DURATION_SECONDS: i64 = 7 * 24 * 3_600;

/// Messages of a watch between its task and its connection.
pub(crate) const WATCH_IN_FLIGHT: usize = 16;

/// Wrong names of one request for which the nearest known one is looked up: it is a search over many names.
pub(crate) const SUGGESTIONS: usize = 10;

/// Breakers on the page `/breakers`. More are told of and found by name or pattern.
pub(crate) const BREAKERS_LISTED: usize = 10_000;

/// Names that a wrong one is compared with at most.
pub(crate) const NEAREST_AMONG: usize = 2_000;

/// Incidents on the page of a breaker; ListTransitions has all.
pub(crate) const INCIDENTS_SHOWN: usize = 10;

/// Quarantined instances of a breaker that are told of by name; the others are counted.
pub(crate) const QUARANTINES_SHOWN: usize = 100;

/// Lines about quarantines in one second of the log; more are counted. A dependency that asks every instance to wait
/// must not fill the disk.
pub(crate) const QUARANTINES_LOGGED_PER_SECOND: u32 = 20;

/// Instances whose hosts are compared, so that two of one name are noticed.
pub(crate) const IDENTITIES: usize = 100_000;

/// Sessions of one instance whose hosts are compared: the latest.
pub(crate) const SIGHTINGS: usize = 8;

/// Warnings in a minute about instances of one name on several hosts; more are counted.
pub(crate) const CONFLICTS_TOLD_PER_MINUTE: u32 = 10;

/// One entry of [`ALL`].
#[derive(Debug)]
pub(crate) struct Limit {
    field: &'static str,
    set: fn(&mut Limits, &str) -> Result<(), LimitError>,
    write: fn(&Limits) -> String,
}

impl Limit {
    /// Its name in the configuration file, as in `entries-per-report`.
    pub(crate) fn name(&self) -> String {
        self.field.replace('_', "-")
    }

    /// Sets it from its text.
    pub(crate) fn set(&self, limits: &mut Limits, text: &str) -> Result<(), LimitError> {
        (self.set)(limits, text)
    }

    /// The value in force, as it is written in the configuration.
    pub(crate) fn write(&self, limits: &Limits) -> String {
        (self.write)(limits)
    }
}

/// Why a text is not a value of a limit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LimitError {
    /// It is not a whole number.
    #[error("write a whole number, such as {example}")]
    NotANumber {
        /// One that would do.
        example: String,
    },
    /// It is not a duration.
    #[error(transparent)]
    NotADuration(#[from] duration::DurationError),
    /// It is outside the range.
    #[error("give at least {min} and at most {max}")]
    OutOfRange {
        /// The smallest value.
        min: String,
        /// The largest value.
        max: String,
    },
}

/// What a limit is measured in.
trait Value: Sized + PartialOrd {
    fn read(text: &str, range: &RangeInclusive<Self>) -> Result<Self, LimitError>;
    fn write(&self) -> String;

    fn read_within(text: &str, range: RangeInclusive<Self>) -> Result<Self, LimitError> {
        let value = Self::read(text, &range)?;
        if range.contains(&value) {
            return Ok(value);
        }
        Err(LimitError::OutOfRange { min: range.start().write(), max: range.end().write() })
    }
}

impl Value for usize {
    /// Digits, with `_` between them as in the configuration file's own numbers.
    fn read(text: &str, range: &RangeInclusive<Self>) -> Result<Self, LimitError> {
        let digits = text.replace('_', "");
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(LimitError::NotANumber { example: range.end().write() });
        }
        // Only a number too large for the type is left to fail, and that is past every range.
        digits.parse().or(Ok(usize::MAX))
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Value for Duration {
    fn read(text: &str, _range: &RangeInclusive<Self>) -> Result<Self, LimitError> {
        Ok(duration::parse(text)?)
    }

    fn write(&self) -> String {
        duration::format(*self)
    }
}

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn minutes(n: u64) -> Duration {
    seconds(n * 60)
}

const fn hours(n: u64) -> Duration {
    minutes(n * 60)
}

const fn days(n: u64) -> Duration {
    hours(n * 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(name: &str) -> &'static Limit {
        ALL.iter().find(|limit| limit.name() == name).expect("the limit exists")
    }

    fn check(name: &str, text: &str, expected: Result<&str, &str>) {
        let mut limits = Limits::default();
        let result = limit(name).set(&mut limits, text).map_err(|err| err.to_string());
        let written = result.map(|()| limit(name).write(&limits));
        assert_eq!(written.as_deref().map_err(String::as_str), expected, "{name} = {text}");
    }

    #[test]
    fn every_default_is_within_its_own_range_and_reads_back() {
        for limit in ALL {
            let mut limits = Limits::default();
            let text = limit.write(&limits);
            assert_eq!(limit.set(&mut limits, &text), Ok(()), "{}", limit.name());
            assert_eq!(limits, Limits::default(), "{}", limit.name());
        }
    }

    #[test]
    fn every_limit_that_can_be_set_is_heeded_somewhere() {
        fn sources(folder: &std::path::Path) -> String {
            let entries = std::fs::read_dir(folder).expect("a folder of sources");
            let text = |path: std::path::PathBuf| match path.is_dir() {
                true => sources(&path),
                false if path.ends_with("limits.rs") => String::new(),
                false => std::fs::read_to_string(path).expect("a source"),
            };
            entries.map(|entry| text(entry.expect("an entry").path())).collect()
        }
        let sources = sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
        for limit in ALL {
            assert!(sources.contains(&format!("limits.{}", limit.field)), "{}", limit.name());
        }
    }

    #[test]
    fn a_limit_is_set_from_text_within_its_range() {
        check("entries-per-report", "1", Ok("1"));
        check("entries-per-report", "100_000", Ok("100000"));
        check("incident-age", "36h", Ok("36h"));
        check("entries-per-report", "0", Err("give at least 1 and at most 100000"));
        check("entries-per-report", "100001", Err("give at least 1 and at most 100000"));
        check("entries-per-report", "99999999999999999999999", Err("give at least 1 and at most 100000"));
        check("entries-per-report", "-1", Err("write a whole number, such as 100000"));
        check("entries-per-report", "_", Err("write a whole number, such as 100000"));
        check("incident-age", "1m", Err("give at least 1h and at most 365d"));
        check("incident-age", "7", Err("\"7\" has no unit: write 7s for seconds or 7ms for milliseconds"));
    }
}
