//! What counts as a failure: total, part of the policy, and the same in every language.

use std::{fmt, sync::Arc};

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It did what it was asked.
    Success,
    /// It failed in a way that says something about the dependency.
    Failure,
    /// Neutral: it says nothing about the dependency.
    Ignored,
}

/// Why a call ended as it did: one word of a bounded vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cause(Arc<str>);

impl Cause {
    /// The cause that stands for every word outside of the vocabulary.
    pub const OTHER: &'static str = "other";

    /// A cause as it is, without looking into a vocabulary. Only [`Classification::cause`] is for foreign input.
    pub(crate) fn raw(word: &str) -> Self {
        Self(word.into())
    }

    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What happened to a call, before the policy says what that means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact<'a> {
    /// An HTTP status. Outside of 100 to 599 it counts as `malformed`.
    HttpStatus(u16),
    /// A gRPC status code. Above 16 it counts as UNKNOWN.
    GrpcCode(u8),
    /// The call ran into its timeout.
    TimedOut,
    /// A cause by name. A name outside of the vocabulary is a failure, counted as `other`.
    Cause(&'a str),
}

/// The causes that an application adds, or that it counts otherwise than by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classification {
    /// Causes that are failures.
    pub failure: Vec<String>,
    /// Causes that are ignored.
    pub ignored: Vec<String>,
    /// Causes that are successes.
    pub success: Vec<String>,
}

/// The most causes that a policy can list.
pub const CAUSES_MAX: usize = 64;
/// The longest cause, in bytes.
pub const CAUSE_BYTES_MAX: usize = 32;

/// gRPC codes by number, as causes.
const GRPC: [&str; 17] = [
    "grpc_ok",
    "grpc_cancelled",
    "grpc_unknown",
    "grpc_invalid_argument",
    "grpc_deadline_exceeded",
    "grpc_not_found",
    "grpc_already_exists",
    "grpc_permission_denied",
    "grpc_resource_exhausted",
    "grpc_failed_precondition",
    "grpc_aborted",
    "grpc_out_of_range",
    "grpc_unimplemented",
    "grpc_internal",
    "grpc_unavailable",
    "grpc_data_loss",
    "grpc_unauthenticated",
];
/// The gRPC codes that fail: UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE, DATA_LOSS.
const GRPC_FAILURES: [u8; 5] = [2, 4, 13, 14, 15];
/// Causes of our own that fail.
const FAILURES: [&str; 6] = ["timeout", "connect", "dns", "tls", "reset", "malformed"];
/// Causes of our own that are ignored: they are the caller's doing.
const IGNORED: [&str; 2] = ["cancelled", "pool_exhausted"];

impl Classification {
    /// What a fact means: its outcome, and its cause unless it is a plain success.
    pub fn classify(&self, fact: Fact<'_>) -> (Outcome, Option<Cause>) {
        let word = match fact {
            Fact::HttpStatus(status @ 100..=599) => format!("http_{status}"),
            Fact::HttpStatus(_) => "malformed".into(),
            Fact::GrpcCode(code) => GRPC.get(usize::from(code)).unwrap_or(&GRPC[2]).to_string(),
            Fact::TimedOut => "timeout".into(),
            Fact::Cause(word) => self.cause(word).as_str().into(),
        };
        let outcome = self.listed(&word).unwrap_or_else(|| default_outcome(&word));
        // A plain success has no cause worth counting.
        let cause = (outcome != Outcome::Success || self.listed(&word).is_some()).then(|| Cause::raw(&word));
        (outcome, cause)
    }

    /// The outcome of a cause by name.
    pub fn outcome(&self, cause: &str) -> Outcome {
        self.classify(Fact::Cause(cause)).0
    }

    /// The cause that `word` stands for: itself if it is of the vocabulary, else [`Cause::OTHER`].
    pub fn cause(&self, word: &str) -> Cause {
        Cause::raw(if self.listed(word).is_some() || is_built_in(word) { word } else { Cause::OTHER })
    }

    fn listed(&self, word: &str) -> Option<Outcome> {
        let lists = [
            (&self.failure, Outcome::Failure),
            (&self.ignored, Outcome::Ignored),
            (&self.success, Outcome::Success),
        ];
        lists.into_iter().find(|(list, _)| list.iter().any(|cause| cause == word)).map(|(_, outcome)| outcome)
    }
}

fn default_outcome(word: &str) -> Outcome {
    if let Some(status) = word.strip_prefix("http_").and_then(|digits| digits.parse::<u16>().ok()) {
        return match status {
            408 | 500..=599 => Outcome::Failure,
            400..=499 => Outcome::Ignored,
            _ => Outcome::Success,
        };
    }
    if let Some(code) = GRPC.iter().position(|name| *name == word) {
        return match u8::try_from(code) {
            Ok(0) => Outcome::Success,
            Ok(code) if GRPC_FAILURES.contains(&code) => Outcome::Failure,
            _ => Outcome::Ignored,
        };
    }
    if IGNORED.contains(&word) { Outcome::Ignored } else { Outcome::Failure }
}

fn is_built_in(word: &str) -> bool {
    let http = word.strip_prefix("http_").is_some_and(|digits| {
        digits.len() == 3 && digits.parse::<u16>().is_ok_and(|status| (100..=599).contains(&status))
    });
    http || GRPC.contains(&word) || FAILURES.contains(&word) || IGNORED.contains(&word)
}

/// All that is wrong with the lists, as (place, message).
pub(crate) fn violations(lists: &Classification) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let named = [("failure", &lists.failure), ("ignored", &lists.ignored), ("success", &lists.success)];
    let mut seen: Vec<&str> = Vec::new();
    for (list, causes) in named {
        for (index, cause) in causes.iter().enumerate() {
            let path = format!("{list}[{index}]");
            let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if cause.is_empty() || cause.len() > CAUSE_BYTES_MAX || !cause.chars().all(word) {
                let message = format!(
                    "{cause:?} is not a cause: give 1 to {CAUSE_BYTES_MAX} of a to z, 0 to 9 and _, like \"http_429\""
                );
                found.push((path, message));
            } else if cause == Cause::OTHER {
                let message = "\"other\" stands for every cause that is not listed: it is always a failure";
                found.push((path, message.into()));
            } else if cause.starts_with("http_") && !is_built_in(cause) {
                found.push((path, format!("{cause:?} names no HTTP status: give http_100 to http_599")));
            } else if cause.starts_with("grpc_") && !is_built_in(cause) {
                found.push((
                    path,
                    format!("{cause:?} names no gRPC code: give one like grpc_resource_exhausted"),
                ));
            } else if seen.contains(&cause.as_str()) {
                found.push((path, format!("{cause:?} is listed twice: keep it in one list")));
            }
            seen.push(cause);
        }
    }
    if seen.len() > CAUSES_MAX {
        found.push(("failure".into(), format!("{} causes are listed, {CAUSES_MAX} are allowed", seen.len())));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::{Failure, Ignored, Success};

    #[test]
    fn classification_is_total() {
        let default = Classification::default();
        for status in 0..=u16::MAX {
            let expected = match status {
                408 | 500..=599 => Failure,
                400..=499 => Ignored,
                100..=399 => Success,
                _ => Failure,
            };
            assert_eq!(default.classify(Fact::HttpStatus(status)).0, expected, "{status}");
        }
        for code in 0..=u8::MAX {
            let expected = match code {
                0 => Success,
                2 | 4 | 13 | 14 | 15 | 17.. => Failure,
                _ => Ignored,
            };
            assert_eq!(default.classify(Fact::GrpcCode(code)).0, expected, "{code}");
        }
        assert_eq!(default.classify(Fact::TimedOut), (Failure, Some(Cause::raw("timeout"))));
    }

    #[test]
    fn causes_are_a_bounded_vocabulary() {
        let default = Classification::default();
        assert_eq!(default.cause("made-up-42").as_str(), "other");
        assert_eq!(default.classify(Fact::Cause("made-up-42")), (Failure, Some(Cause::raw("other"))));
        assert_eq!(default.classify(Fact::Cause("http_9999")).1, Some(Cause::raw("other")));
        assert_eq!(default.classify(Fact::Cause("pool_exhausted")).0, Ignored);
        assert_eq!(default.classify(Fact::HttpStatus(401)), (Ignored, Some(Cause::raw("http_401"))));
        assert_eq!(default.classify(Fact::HttpStatus(200)), (Success, None));
    }

    #[test]
    fn a_policy_can_add_causes_and_move_them() {
        let ours = Classification {
            failure: vec!["http_429".into(), "stale_price".into()],
            ignored: vec!["http_503".into()],
            success: vec!["http_404".into()],
        };
        assert_eq!(ours.classify(Fact::HttpStatus(429)).0, Failure);
        assert_eq!(ours.classify(Fact::Cause("stale_price")), (Failure, Some(Cause::raw("stale_price"))));
        assert_eq!(ours.classify(Fact::HttpStatus(503)).0, Ignored);
        assert_eq!(ours.classify(Fact::HttpStatus(404)), (Success, Some(Cause::raw("http_404"))));
    }

    #[test]
    fn wrong_lists_are_refused() {
        let lists = |failure: &[&str]| Classification {
            failure: failure.iter().map(ToString::to_string).collect(),
            ..Classification::default()
        };
        for bad in [&["Timeout"][..], &[""], &["http_600"], &["grpc_oops"], &["a", "a"], &["other"]] {
            assert_eq!(violations(&lists(bad)).len(), 1, "{bad:?}");
        }
        assert!(violations(&lists(&["sold_out", "http_429"])).is_empty());
    }
}
