//! The format of the scripts, as `tests/vectors/client/README.md` tells it. What is not known is refused.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// One file: the scripts of one subject.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) schema: u32,
    #[serde(rename = "subject")]
    _subject: String,
    #[serde(rename = "about")]
    _about: String,
    /// Read one by one, so that an error can name its script.
    pub(super) scripts: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    pub(super) id: String,
    /// The rules of the protocol that it is the executable form of.
    pub(super) rules: Vec<String>,
    #[serde(rename = "about")]
    _about: String,
    #[serde(rename = "level")]
    _level: Level,
    #[serde(default)]
    pub(super) client: Setup,
    #[serde(default = "one_breaker")]
    pub(super) breakers: Vec<String>,
    /// Read one by one, so that an error can name its step.
    pub(super) steps: Vec<Value>,
}

/// What a client must be to run it.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    /// Any client.
    Thin,
    /// One with a local breaker.
    Full,
}

fn one_breaker() -> Vec<String> {
    vec!["checkout/shipping-quote".into()]
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Setup {
    pub(super) service: String,
    pub(super) instance: String,
    /// The application's own; what a server tells takes its place.
    pub(super) policy: PolicyArgs,
    /// The application gave none, and none is stored.
    pub(super) without_policy: bool,
    pub(super) on_disconnect: Option<OnDisconnectArg>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            service: "checkout".into(),
            instance: "pod-1".into(),
            policy: PolicyArgs::default(),
            without_policy: false,
            on_disconnect: None,
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum OnDisconnectArg {
    Local,
    Allow,
    Deny,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PolicyArgs {
    pub(super) revision: u64,
    pub(super) trip: Vec<RuleArgs>,
    pub(super) open: OpenArgs,
    pub(super) half_open: HalfOpenArgs,
    pub(super) classification: ClassificationArgs,
    pub(super) on_disconnect: OnDisconnectArg,
}

impl Default for PolicyArgs {
    fn default() -> Self {
        let half_of_twenty = RuleArgs {
            failure_rate: Some(5_000),
            within_ms: Some(10_000),
            minimum_calls: 20,
            ..RuleArgs::default()
        };
        Self {
            revision: 1,
            trip: vec![half_of_twenty],
            open: OpenArgs::default(),
            half_open: HalfOpenArgs::default(),
            classification: ClassificationArgs::default(),
            on_disconnect: OnDisconnectArg::Local,
        }
    }
}

/// Rates are hundredths of a percent, as in the contract.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RuleArgs {
    pub(super) failure_rate: Option<u32>,
    pub(super) slow_rate: Option<u32>,
    pub(super) slower_than_ms: Option<u64>,
    pub(super) failures: Option<u32>,
    pub(super) consecutive_failures: Option<u32>,
    pub(super) within_ms: Option<u64>,
    pub(super) last: Option<u32>,
    pub(super) minimum_calls: u32,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OpenArgs {
    pub(super) wait_ms: u64,
}

impl Default for OpenArgs {
    fn default() -> Self {
        Self { wait_ms: 5_000 }
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HalfOpenArgs {
    pub(super) permitted_calls: u32,
    pub(super) probe_timeout_ms: u64,
}

impl Default for HalfOpenArgs {
    fn default() -> Self {
        Self { permitted_calls: 2, probe_timeout_ms: 2_000 }
    }
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ClassificationArgs {
    pub(super) failure: Vec<String>,
    pub(super) ignored: Vec<String>,
    pub(super) success: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    pub(super) at_ms: u64,
    pub(super) op: String,
    /// Absent: the script's first.
    pub(super) breaker: Option<String>,
    /// Absent: `main`.
    #[serde(default = "main_stream")]
    pub(super) stream: String,
    #[serde(default)]
    pub(super) args: Value,
    #[serde(default)]
    pub(super) expect: Expect,
}

fn main_stream() -> String {
    "main".into()
}

impl Step {
    pub(super) fn op(&self) -> Result<Op, String> {
        let args = match &self.args {
            Value::Null => Value::Object(serde_json::Map::new()),
            args => args.clone(),
        };
        serde_json::from_value(serde_json::json!({ &self.op: args })).map_err(|error| error.to_string())
    }
}

/// What happens in a step.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Op {
    // The client's streams.
    Connect(Connect),
    Started(Started),
    Status(StatusArgs),
    SnapshotComplete(Vouched),
    Bookmark(Vouched),
    Deleted(Deleted),
    NotFound(Nothing),
    Unavailable(Nothing),
    Reset(Nothing),
    Draining(Draining),
    UnknownMessage(Nothing),
    StreamLost(Lost),
    /// `connect`, `started`, `status` and `snapshot_complete` in one.
    Snapshot(StatusArgs),
    // Calls.
    Acquire(Acquire),
    Outcome(Outcome),
    Call(Call),
    Observe(Observe),
    // Answers.
    AcquireAnswered(AcquireAnswered),
    ReportAnswered(ReportAnswered),
    /// The client ends.
    End(Nothing),
    /// Time passes.
    Advance(Nothing),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Connect {
    pub(super) replaces: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Started {
    pub(super) tick: Option<u64>,
    pub(super) epoch: Option<u64>,
    #[serde(default)]
    pub(super) resumed: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Vouched {
    pub(super) tick: Option<u64>,
    pub(super) ttl_ms: Option<i64>,
    #[serde(default)]
    pub(super) resume: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Deleted {
    pub(super) version: [u64; 2],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Draining {
    pub(super) tick: Option<u64>,
    pub(super) ttl_ms: Option<i64>,
    pub(super) reconnect_after_ms: u64,
    #[serde(default)]
    pub(super) resume: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lost {
    /// A gRPC status; absent: it ended without one.
    pub(super) code: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StatusArgs {
    pub(super) state: String,
    /// A word, or a number that the contract does not have yet. Absent: what goes with the state.
    pub(super) admission: Option<Value>,
    pub(super) generation: [u64; 2],
    /// Absent: the generation's.
    pub(super) version: Option<[u64; 2]>,
    #[serde(rename = "override")]
    pub(super) over: Option<OverrideArgs>,
    pub(super) deadline_tick: Option<u64>,
    pub(super) remaining_ms: Option<i64>,
    #[serde(default = "one")]
    pub(super) active_instances: u32,
    #[serde(default)]
    pub(super) ask_within_ms: i64,
    pub(super) recovery: Option<RecoveryArgs>,
    pub(super) quarantine: Option<QuarantineArgs>,
    pub(super) policy: Option<PolicyArgs>,
}

const fn one() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OverrideArgs {
    pub(super) kind: String,
    pub(super) until_tick: Option<u64>,
    pub(super) remaining_ms: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecoveryArgs {
    pub(super) spread_ms: i64,
    pub(super) since_tick: Option<u64>,
    pub(super) elapsed_ms: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuarantineArgs {
    pub(super) until_tick: Option<u64>,
    pub(super) remaining_ms: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Acquire {
    pub(super) call: String,
    /// How long it may wait for a probe.
    #[serde(default)]
    pub(super) wait_ms: u64,
}

/// What became of a call: the caller's judgement, or a fact that the policy classifies.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ended {
    Success,
    Failure,
    FailureBy(String),
    Ignored,
    IgnoredBy(String),
    Abandoned,
    HttpStatus(u16),
    GrpcCode(u8),
    TimedOut,
    Cause(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Outcome {
    pub(super) call: String,
    pub(super) result: Ended,
    #[serde(default)]
    pub(super) took_ms: u64,
    pub(super) retry_after_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) result: Ended,
    #[serde(default)]
    pub(super) took_ms: u64,
    pub(super) retry_after_ms: Option<u64>,
    #[serde(default = "one")]
    pub(super) repeat: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Observe {
    pub(super) call: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AcquireAnswered {
    pub(super) grant: Option<GrantArgs>,
    pub(super) rejection: Option<RejectionArgs>,
    pub(super) status: Option<StatusArgs>,
    pub(super) tick: Option<u64>,
    /// The RPC failed with this gRPC status.
    pub(super) error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GrantArgs {
    pub(super) generation: [u64; 2],
    pub(super) probe: Option<ProbeArgs>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProbeArgs {
    pub(super) id: u64,
    pub(super) timeout_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RejectionArgs {
    pub(super) reason: String,
    pub(super) retry_after_ms: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportAnswered {
    pub(super) sequence: u64,
    pub(super) result: Option<String>,
    /// An error of this entry alone, by its gRPC status.
    pub(super) entry_error: Option<String>,
    pub(super) status: Option<StatusArgs>,
    pub(super) tick: Option<u64>,
    /// The whole RPC failed with this gRPC status.
    pub(super) error: Option<String>,
}

/// What is to be seen after a step. What is absent is not looked at.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Expect {
    pub(super) freshness: Option<String>,
    pub(super) state: Option<String>,
    /// `admitted`, `rejected` or `waiting`.
    pub(super) decision: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) retry_after_ms: Option<Span>,
    pub(super) probe: Option<bool>,
    /// All asks since the last step that looked at them, each as the time at which it was sent.
    pub(super) asks_at_ms: Option<Vec<Span>>,
    /// All entries since the last step that looked at them.
    pub(super) reports: Option<Vec<EntryExpect>>,
    /// When the client opens another stream.
    pub(super) connects_at_ms: Option<Span>,
    /// The token that the client sends.
    pub(super) resume: Option<String>,
}

/// A number, the least and the most that it may be, or `none`.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
pub(super) enum Span {
    Never(Never),
    Exactly(u64),
    Between([u64; 2]),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Never {
    None,
}

impl Span {
    pub(super) fn holds(self, actual: Option<u64>) -> bool {
        match (self, actual) {
            (Self::Never(Never::None), None) => true,
            (Self::Exactly(n), Some(actual)) => n == actual,
            (Self::Between([least, most]), Some(actual)) => (least..=most).contains(&actual),
            _ => false,
        }
    }

    pub(super) fn shown(self) -> String {
        match self {
            Self::Never(Never::None) => "none".into(),
            Self::Exactly(n) => n.to_string(),
            Self::Between([least, most]) => format!("{least} to {most}"),
        }
    }
}

/// Counts that are absent are zero. Of the others what is absent is not looked at, but for the probe's id.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntryExpect {
    pub(super) sent_at_ms: Option<Span>,
    pub(super) sequence: Option<u64>,
    pub(super) generation: Option<[u64; 2]>,
    pub(super) at_tick: Option<u64>,
    #[serde(default)]
    pub(super) successes: u32,
    #[serde(default)]
    pub(super) failures: u32,
    #[serde(default)]
    pub(super) slow_successes: u32,
    #[serde(default)]
    pub(super) slow_failures: u32,
    #[serde(default)]
    pub(super) ignored: u32,
    #[serde(default)]
    pub(super) abandoned: u32,
    #[serde(default)]
    pub(super) rejected: u32,
    pub(super) streaks: Option<[u32; 3]>,
    pub(super) causes: Option<BTreeMap<String, u32>>,
    pub(super) retry_after_ms: Option<u64>,
    #[serde(default)]
    pub(super) probe_id: u64,
}
