//! gRPC's status, as it is read from headers and trailers, and as a rejection says it.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use tonic::metadata::MetadataMap;

use crate::{
    fact::{Fact, Observation},
    hint,
    rejected::Rejected,
};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// An answer without a status is UNKNOWN.
pub(super) const NO_STATUS: Fact = Fact::GrpcCode(2);

/// Whether a request or an answer is gRPC. gRPC-web is not: its trailers are in its body.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let Some(said) = headers.get(header::CONTENT_TYPE) else { return false };
    match said.as_bytes().strip_prefix(b"application/grpc") {
        Some(rest) => matches!(rest.first(), None | Some(b'+' | b';' | b' ')),
        None => false,
    }
}

/// The outcome in headers or trailers, if it is there.
pub(super) fn outcome(headers: &HeaderMap) -> Option<Observation> {
    let code = code(headers.get(STATUS)?);
    // Who succeeds has nothing to ask for.
    let retry_after = if code == 0 { None } else { retry_after(headers) };
    Some(Observation { fact: Fact::GrpcCode(code), retry_after })
}

/// A code that is none counts as UNKNOWN.
fn code(value: &HeaderValue) -> u8 {
    let digits = value.to_str().ok();
    digits.and_then(|digits| digits.parse().ok()).filter(|code| *code <= 16).unwrap_or(2)
}

fn retry_after(headers: &HeaderMap) -> Option<std::time::Duration> {
    if let Some(pushback) = headers.get(hint::PUSHBACK) {
        return hint::of_pushback(pushback.as_bytes());
    }
    // Through tonic's map of metadata, which reads what is binary; one that is not well-formed says nothing.
    let mut one = HeaderMap::with_capacity(1);
    one.insert(DETAILS, headers.get(DETAILS)?.clone());
    let details = MetadataMap::from_headers(one).get_bin(DETAILS.as_str())?.to_bytes().ok()?;
    hint::of_details(&details)
}

/// A rejection for a gRPC client: it looks for a status in what its service fails with.
pub(super) fn status(rejected: Rejected) -> tonic::Status {
    let mut status = unavailable(rejected.to_string(), &rejected);
    status.set_source(Arc::new(rejected));
    status
}

/// A rejection as the answer of a server, whose callers need not know why.
pub(super) fn answer(rejected: &Rejected) -> http::Response<()> {
    unavailable(format!("circuit breaker {:?} is {}", rejected.breaker(), rejected.reason()), rejected)
        .into_http()
}

fn unavailable(message: String, rejected: &Rejected) -> tonic::Status {
    let Some(span) = rejected.retry_after() else { return tonic::Status::unavailable(message) };
    let code = tonic::Code::Unavailable;
    let details = hint::details(code.into(), &message, span);
    // Rounded up: coming again earlier would be in vain.
    let millis = u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let mut metadata = MetadataMap::new();
    metadata.insert(hint::PUSHBACK, millis.into());
    tonic::Status::with_details_and_metadata(code, message, details.into(), metadata)
}
