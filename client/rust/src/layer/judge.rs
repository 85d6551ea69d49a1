//! What the headers of an answer say of the call.

use http::{HeaderValue, Response, StatusCode, header};
use http_body::Body;

use super::{grpc, handling::Reading};
use crate::{
    fact::{Fact, Observation},
    hint,
    rejected::Rejected,
};

pub(super) enum Verdict {
    Now(Observation),
    /// A gRPC answer that has only begun.
    InTrailers,
}

pub(super) fn verdict<B: Body>(response: &Response<B>, reading: Reading) -> Verdict {
    if !reading.grpc || response.status() != StatusCode::OK {
        // A proxy's 503 to a gRPC request is one: what was asked never answered.
        return Verdict::Now(of_http(response));
    }
    if let Some(observed) = grpc::outcome(response.headers()) {
        return Verdict::Now(observed);
    }
    if !grpc::is_grpc(response.headers()) || response.body().is_end_stream() {
        return Verdict::Now(grpc::NO_STATUS.into());
    }
    if reading.headers_only { Verdict::Now(Fact::GrpcCode(0).into()) } else { Verdict::InTrailers }
}

fn of_http<B>(response: &Response<B>) -> Observation {
    let status = response.status();
    let refused = status.is_client_error() || status.is_server_error();
    let retry_after = if refused { hint::of_headers(response.headers()) } else { None };
    Observation { fact: Fact::HttpStatus(status.as_u16()), retry_after }
}

/// What a server answers to a call that it does not make.
pub(super) fn answer(rejected: &Rejected) -> Response<()> {
    let mut answer = Response::new(());
    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    if let Some(span) = rejected.retry_after() {
        // Rounded up: coming again earlier would be in vain.
        let secs = span.as_secs() + u64::from(span.subsec_nanos() > 0);
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(secs));
    }
    answer
}
