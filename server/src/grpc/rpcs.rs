//! Counts and durations of calls, by method and code.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tonic::{Code, Response};

use crate::metrics::Durations;

/// Counts and durations of calls. Methods and codes are few, so this stays small.
#[derive(Debug, Default)]
pub(crate) struct Rpcs(Mutex<BTreeMap<(&'static str, &'static str), Durations>>);

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
    pub(crate) fn all(&self) -> BTreeMap<(&'static str, &'static str), Durations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, method: &'static str, code: &'static str, took: Duration) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry((method, code)).or_default().record(took);
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
