//! Every metric by name, with its type and its help text, in one place.

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only grows, and starts anew with the server.
    Counter,
    /// Is what it is now.
    Gauge,
    /// Durations in buckets.
    Histogram,
}

/// One metric.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) help: &'static str,
}

/// Declares the metrics, and the list of all of them from the same lines.
macro_rules! families {
    ($($family:ident: $kind:ident $name:literal, $help:literal;)+) => {
        $(pub(super) const $family: Family = Family {
            name: concat!("panelboard_", $name),
            kind: Kind::$kind,
            help: $help,
        };)+
        const ALL: &[&Family] = &[$(&$family),+];
    };
}

families! {
    STATE: Gauge "breaker_state", "1 for the state that the breaker is in, an override counting as a state; 0 for the others.";
    CALLS: Counter "breaker_calls_total", "Calls reported, by outcome; stale and late reports too, repeated ones not.";
    SLOW_CALLS: Counter "breaker_slow_calls_total", "Slow calls among the reported successes and failures.";
    CAUSES: Counter "breaker_causes_total", "Outcomes reported with a cause, by cause; ignored ones too.";
    REJECTED: Counter "breaker_rejected_total", "Calls refused: by the server with its reason, or by clients from their own memory (client).";
    TRANSITIONS: Counter "breaker_transitions_total", "Changes of state, by the rule or reason.";
    LAST_TRANSITION: Gauge "breaker_last_transition_timestamp_seconds", "When the state began, in seconds since the Unix epoch; absent before the first transition.";
    RECOVERIES: Counter "breaker_recoveries_total", "Half-open periods that ended by themselves, by how.";
    FAILURE_RATIO: Gauge "breaker_failure_ratio", "Failures among the calls in the window of the first failure rule, 0 to 1.";
    SLOW_RATIO: Gauge "breaker_slow_ratio", "Slow calls among the calls in the window of the first slow_rate rule, 0 to 1.";
    WINDOW_CALLS: Gauge "breaker_window_calls", "Counted calls in the window of the first rule that has one, by outcome.";
    MINIMUM_CALLS: Gauge "breaker_minimum_calls", "Calls that this window needs before the rule can trip; 0 if it needs none.";
    ACTIVE_INSTANCES: Gauge "breaker_active_instances", "Instances that count: those with calls in the window, or known ones where nothing is counted yet.";
    QUARANTINED: Gauge "breaker_quarantined_instances", "Instances that are kept out while the breaker is CLOSED.";
    QUARANTINES: Counter "breaker_quarantines_total", "Quarantines that began, by why: crossed, relapsed or retry_after.";
    PROBES_LEASED: Gauge "breaker_probes_leased", "Probes that are out.";
    PROBES_EXPIRED: Gauge "breaker_probes_expired", "Probes of this half-open period, or of the latest one, whose client never came back.";
    WOULD_OPEN: Counter "breaker_would_open_seconds_total", "Whole seconds under METRICS_ONLY in which a rule was crossed.";
    OPEN_INFO: Gauge "breaker_open_info", "1 while the breaker rejects everybody: why, the most frequent cause, and whom to page.";
    WATCH_STREAMS: Gauge "watch_streams", "Watch streams that are open.";
    WATCH_RESYNCS: Counter "watch_resyncs_total", "Watches that asked to resume and got everything anew, because their token did not fit.";
    CLIENTS: Gauge "clients", "Client sessions with a watch open (connected), and those whose last watch broke in the past five minutes (lost).";
    CONFLICTS: Counter "instance_conflicts_total", "Instances found to be used by sessions on different hosts at the same time.";
    REPORTS: Counter "reports_total", "Entries of reports, by what became of them.";
    STORE_COMMIT: Histogram "store_commit_seconds", "How long commits to the store took.";
    STORE_COMMIT_FAILURES: Counter "store_commit_failures_total", "Commits to the store that failed and are tried again.";
    STORE_LAG: Gauge "store_lag_seconds", "How long the oldest change that is not durable has been waiting; 0 if all are.";
    RPC_DURATION: Histogram "rpc_duration_seconds", "How long calls to the server took, by method and gRPC code; of a Watch, its opening.";
    POLICY_RELOADS: Counter "policy_reloads_total", "Edits of the policy files, put in force (succeeded) or refused (failed).";
    BUILD_INFO: Gauge "build_info", "1, with the version that runs.";
}

/// Tells the recorder in force about them. Histograms are not its business.
pub(super) fn describe() {
    for family in ALL {
        match family.kind {
            Kind::Counter => metrics::describe_counter!(family.name, family.help),
            Kind::Gauge => metrics::describe_gauge!(family.name, family.help),
            Kind::Histogram => {}
        }
    }
}
