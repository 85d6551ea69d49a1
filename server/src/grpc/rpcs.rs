//! Counts and durations of calls, by method and code.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tonic::{Code, Response};

/// Upper bounds of the buckets of durations.
pub(crate) const BUCKETS: [Duration; 10] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
];

/// Calls of one method that ended with one code.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    /// How many.
    pub(crate) count: u64,
    /// How long they took in all.
    pub(crate) took: Duration,
    /// How many took at most each of [`BUCKETS`].
    pub(crate) buckets: [u64; BUCKETS.len()],
}

/// Counts and durations of calls. Methods and codes are few, so this stays small.
#[derive(Debug, Default)]
pub(crate) struct Rpcs(Mutex<BTreeMap<(&'static str, &'static str), Calls>>);

impl Rpcs {
    /// Runs a call and counts it; of a stream, its opening.
    pub(crate) async fn observe<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T, tonic::Status>>,
    ) -> Result<Response<T>, tonic::Status> {
        let began = Instant::now();
        let result = call.await;
        let code = result.as_ref().map_or_else(tonic::Status::code, |_| Code::Ok);
        self.count(method, code_name(code), began.elapsed());
        result.map(Response::new)
    }

    /// What was counted.
    pub(crate) fn all(&self) -> BTreeMap<(&'static str, &'static str), Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, method: &'static str, code: &'static str, took: Duration) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = all.entry((method, code)).or_default();
        calls.count += 1;
        calls.took += took;
        for (bound, bucket) in BUCKETS.iter().zip(&mut calls.buckets) {
            *bucket += u64::from(took <= *bound);
        }
    }
}

const fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
