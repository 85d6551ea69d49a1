//! What the tests share: a server in this process, one as a process of its own, and words to speak with them.

mod process;
mod watcher;
mod world;

use std::time::Duration;

use panelboard_proto::v1;

pub(crate) use process::{DRAIN, Process, run_to_end};
pub(crate) use watcher::Watcher;
pub(crate) use world::{Options, World, test_policy};

/// A client of the contract.
pub(crate) type Service = v1::breaker_service_client::BreakerServiceClient<tonic::transport::Channel>;

/// Nothing that is waited for takes long; this is for a busy machine.
pub(crate) const WITHIN: Duration = Duration::from_secs(60);

/// Waits for what must come.
pub(crate) async fn within<T>(what: &str, event: impl Future<Output = T>) -> T {
    match tokio::time::timeout(WITHIN, event).await {
        Ok(done) => done,
        Err(_) => panic!("{what} did not happen within {WITHIN:?}"),
    }
}

/// A client of this service, instance and session; an empty session is none.
pub(crate) fn who(instance: &str, session: &str) -> Option<v1::Client> {
    Some(v1::Client {
        service: "e2e".into(),
        instance: instance.into(),
        session: session.into(),
        ..v1::Client::default()
    })
}

/// An entry of so many failures, as a person would report it.
pub(crate) fn failures(breaker: &str, failures: u32) -> v1::ReportEntry {
    v1::ReportEntry { breaker: breaker.into(), failures, ..v1::ReportEntry::default() }
}

/// An entry of so many successes.
pub(crate) fn successes(breaker: &str, successes: u32) -> v1::ReportEntry {
    v1::ReportEntry { breaker: breaker.into(), successes, ..v1::ReportEntry::default() }
}

/// A wire duration in milliseconds; what is absent is none.
pub(crate) fn millis(span: Option<&prost_types::Duration>) -> Option<u64> {
    span.map(|span| {
        let whole = u64::try_from(span.seconds).unwrap() * 1_000;
        whole + u64::try_from(span.nanos).unwrap() / 1_000_000
    })
}

/// (epoch, revision), to compare.
pub(crate) fn version(version: Option<&v1::Version>) -> (u64, u64) {
    version.map(|version| (version.epoch, version.revision)).expect("every status has a version")
}

/// (epoch, revision) of a status's generation.
pub(crate) fn generation(status: &v1::BreakerStatus) -> (u64, u64) {
    let generation = status.generation.expect("every status has a generation");
    (generation.epoch, generation.revision)
}

/// The grant of an answer that must be one.
pub(crate) fn granted(answer: &v1::AcquireResponse) -> v1::Grant {
    match &answer.decision {
        Some(v1::acquire_response::Decision::Grant(grant)) => *grant,
        other => panic!("expected a grant, came {other:?}"),
    }
}

/// The rejection of an answer that must be one.
pub(crate) fn rejected(answer: &v1::AcquireResponse) -> v1::Rejection {
    match &answer.decision {
        Some(v1::acquire_response::Decision::Rejection(rejection)) => rejection.clone(),
        other => panic!("expected a rejection, came {other:?}"),
    }
}

/// The report of a probe's one call.
pub(crate) fn probe_result(breaker: &str, grant: &v1::Grant, succeeded: bool) -> v1::ReportEntry {
    v1::ReportEntry {
        breaker: breaker.into(),
        generation: grant.generation,
        probe_id: grant.probe.as_ref().expect("a grant of HALF_OPEN has a probe").id,
        successes: u32::from(succeeded),
        failures: u32::from(!succeeded),
        ..v1::ReportEntry::default()
    }
}
