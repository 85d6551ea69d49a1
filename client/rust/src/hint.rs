//! How long a dependency asks to be left alone, in all the ways in which it may say so.

use std::time::Duration;

use prost::Message;

/// gRPC's own word for it, in milliseconds; a negative number says "do not come again", which is no time.
pub(crate) const PUSHBACK: &str = "grpc-retry-pushback-ms";
/// How `google.rpc.RetryInfo` is called among the details of a status.
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";
/// A span longer than this is taken for this; the policy's own maximum is lower still.
const SPAN_MAX: Duration = Duration::from_secs(24 * 3_600);

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct Details {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<prost_types::Duration>,
}

/// The hint in a gRPC status.
pub(crate) fn of_status(status: &tonic::Status) -> Option<Duration> {
    let pushback = status.metadata().get(PUSHBACK).and_then(|value| of_pushback(value.as_bytes()));
    pushback.or_else(|| of_details(status.details()))
}

/// The hint in the details of a gRPC status.
pub(crate) fn of_details(details: &[u8]) -> Option<Duration> {
    let details = Details::decode(details).ok()?.details;
    let info = details.iter().find(|detail| detail.type_url == RETRY_INFO)?;
    let delay = RetryInfo::decode(&*info.value).ok()?.retry_delay?;
    Duration::try_from(delay).ok().map(|span| span.min(SPAN_MAX))
}

/// The hint in a value of [`PUSHBACK`].
pub(crate) fn of_pushback(value: &[u8]) -> Option<Duration> {
    Some(Duration::from_millis(number(value)?).min(SPAN_MAX))
}

/// The hint in the headers of an HTTP answer: seconds, or a date, which is compared with the answer's own date, for
/// our clock and the dependency's may differ.
#[cfg(any(feature = "reqwest", feature = "tower"))]
pub(crate) fn of_headers(headers: &http::HeaderMap) -> Option<Duration> {
    let said = headers.get(http::header::RETRY_AFTER)?;
    if let Some(secs) = number(said.as_bytes()) {
        return Some(Duration::from_secs(secs).min(SPAN_MAX));
    }
    let date = |value: &http::HeaderValue| httpdate::parse_http_date(value.to_str().ok()?).ok();
    let span = date(said)?.duration_since(date(headers.get(http::header::DATE)?)?);
    span.ok().map(|span| span.min(SPAN_MAX))
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// The details of a status that says when to come again.
#[cfg(feature = "tower")]
pub(crate) fn details(code: i32, message: &str, retry_after: Duration) -> Vec<u8> {
    let retry_delay = prost_types::Duration::try_from(retry_after).ok();
    let value = RetryInfo { retry_delay }.encode_to_vec();
    let info = prost_types::Any { type_url: RETRY_INFO.into(), value };
    Details { code, message: message.into(), details: vec![info] }.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pushback_is_a_number_of_milliseconds() {
        for (text, expected) in [
            ("1500", Some(Duration::from_millis(1_500))),
            ("0", Some(Duration::ZERO)),
            ("-1", None),
            ("soon", None),
            ("18446744073709551615", Some(SPAN_MAX)),
            ("18446744073709551616", None),
        ] {
            assert_eq!(of_pushback(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(of_pushback(b"\xff"), None);
    }

    #[test]
    fn retry_info_is_read_out_of_the_details_as_others_write_them() {
        let delay = Duration::from_millis(2_500);
        let mut details = tonic_types::ErrorDetails::new();
        details.set_request_info("id", "").set_retry_info(Some(delay));
        use tonic_types::StatusExt as _;
        let status = tonic::Status::with_error_details(tonic::Code::Unavailable, "later", details);
        assert_eq!(of_status(&status), Some(delay));
        assert_eq!(of_details(b"\x1a\xff nonsense"), None);
        assert_eq!(of_details(b""), None);
    }

    #[cfg(any(feature = "reqwest", feature = "tower"))]
    #[test]
    fn retry_after_is_seconds_or_a_date_by_the_answers_own_clock() {
        let said = |retry_after: &str, date: Option<&str>| {
            let mut headers = http::HeaderMap::new();
            headers.insert(http::header::RETRY_AFTER, retry_after.parse().unwrap());
            if let Some(date) = date {
                headers.insert(http::header::DATE, date.parse().unwrap());
            }
            of_headers(&headers)
        };
        let (now, later) = ("Fri, 31 Dec 1999 23:59:00 GMT", "Fri, 31 Dec 1999 23:59:59 GMT");
        assert_eq!(said("120", None), Some(Duration::from_secs(120)));
        assert_eq!(said("99999999999", None), Some(SPAN_MAX));
        assert_eq!(said(later, Some(now)), Some(Duration::from_secs(59)));
        assert_eq!(said(now, Some(later)), None, "it is over");
        assert_eq!(said(later, None), None, "whose clock?");
        assert_eq!(said("-3", None), None);
        assert_eq!(of_headers(&http::HeaderMap::new()), None);
    }
}
