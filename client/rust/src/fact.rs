//! What an application says about a call that ended.

use std::time::Duration;

use panelboard_core::{Classification, Outcome};

/// What happened to a call.
///
/// The first three are the caller's own judgement. The others are facts, and the breaker's policy says what they
/// mean, the same in every language. Causes are a bounded vocabulary: the built-in ones and those that the policy
/// lists. Another word is counted as `other`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// It did what it was asked.
    Success,
    /// It failed, for this cause.
    Failure(&'static str),
    /// It says nothing about the dependency, for this cause: a validation error, a refusal of our own.
    Ignored(&'static str),
    /// The dependency answered with this HTTP status.
    HttpStatus(u16),
    /// The dependency answered with this gRPC status code.
    GrpcCode(u8),
    /// The call ran into its timeout.
    TimedOut,
    /// A cause that the policy classifies: `timeout`, `connect`, `dns`, `tls`, `reset`, `malformed`, `cancelled`,
    /// `pool_exhausted`, or one of the policy's own.
    Cause(&'static str),
}

impl Fact {
    /// The fact, and the retry-after that the dependency answered with.
    pub const fn retry_after(self, span: Duration) -> Observation {
        Observation { fact: self, retry_after: Some(span) }
    }
}

/// A [`Fact`], and the retry-after that came with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// What happened.
    pub fact: Fact,
    /// How long the dependency asked to be left alone.
    pub retry_after: Option<Duration>,
}

impl From<Fact> for Observation {
    fn from(fact: Fact) -> Self {
        Self { fact, retry_after: None }
    }
}

/// What the caller said of a call, before the policy has looked at it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Said<'a> {
    Success,
    Failure(&'a str),
    Ignored(Option<&'a str>),
    Abandoned,
    Fact(panelboard_core::Fact<'a>),
}

impl From<Fact> for Said<'static> {
    fn from(fact: Fact) -> Self {
        match fact {
            Fact::Success => Self::Success,
            Fact::Failure(cause) => Self::Failure(cause),
            Fact::Ignored(cause) => Self::Ignored(Some(cause)),
            Fact::HttpStatus(status) => Self::Fact(panelboard_core::Fact::HttpStatus(status)),
            Fact::GrpcCode(code) => Self::Fact(panelboard_core::Fact::GrpcCode(code)),
            Fact::TimedOut => Self::Fact(panelboard_core::Fact::TimedOut),
            Fact::Cause(cause) => Self::Fact(panelboard_core::Fact::Cause(cause)),
        }
    }
}

/// What became of a call, in the rules' words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// None: abandoned.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) slow: bool,
    pub(crate) cause: Option<panelboard_core::Cause>,
    pub(crate) retry_after: Option<Duration>,
}

impl Said<'_> {
    pub(crate) fn classified(self, by: &Classification) -> (Option<Outcome>, Option<panelboard_core::Cause>) {
        match self {
            Self::Success => (Some(Outcome::Success), None),
            Self::Failure(cause) => (Some(Outcome::Failure), Some(by.cause(cause))),
            Self::Ignored(cause) => (Some(Outcome::Ignored), cause.map(|cause| by.cause(cause))),
            Self::Abandoned => (None, None),
            Self::Fact(fact) => {
                let (outcome, cause) = by.classify(fact);
                (Some(outcome), cause)
            }
        }
    }
}
