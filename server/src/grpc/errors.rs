//! Errors as google.rpc statuses, each with an ErrorInfo whose reason is stable.

use std::{collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::validate::Violations;
use crate::{
    hub::TooManyStreams,
    limits::{ERROR_DETAIL_BYTES, ERROR_MESSAGE_BYTES},
    registry::Missing,
};

const DOMAIN: &str = "panelboard";

/// Reasons, as told in ErrorInfo and in the error of a report's entry.
pub(super) mod reason {
    pub(in crate::grpc) const INVALID: &str = "INVALID_REQUEST";
    pub(in crate::grpc) const NOT_FOUND: &str = "BREAKER_NOT_FOUND";
    pub(in crate::grpc) const TOO_MANY_BREAKERS: &str = "TOO_MANY_BREAKERS";
    pub(in crate::grpc) const TOO_MANY_ENTRIES: &str = "TOO_MANY_ENTRIES";
    pub(in crate::grpc) const TOO_MANY_NAMES: &str = "TOO_MANY_NAMES";
    pub(in crate::grpc) const TOO_MANY_PATTERNS: &str = "TOO_MANY_PATTERNS";
    pub(in crate::grpc) const TOO_MANY_STREAMS: &str = "TOO_MANY_STREAMS";
    pub(in crate::grpc) const DRAINING: &str = "DRAINING";
}

/// How long a client that ran into a limit waits before it tries again.
const RETRY: Duration = Duration::from_secs(1);

impl From<Violations> for Status {
    fn from(violations: Violations) -> Self {
        let mut details = ErrorDetails::new();
        let count = violations.count();
        let (mut text, mut told, mut bytes) = (String::new(), 0, 0);
        for (field, description) in violations.told() {
            bytes += field.len() + description.len();
            if bytes > ERROR_DETAIL_BYTES && told > 0 {
                break;
            }
            if bytes <= ERROR_MESSAGE_BYTES || told == 0 {
                let separator = if told > 0 { "; " } else { "" };
                text.push_str(&format!("{separator}{field}: {description}"));
            }
            told += 1;
            details.add_bad_request_violation(field, description);
        }
        if count > told {
            details.add_bad_request_violation("", format!("{} more are wrong", count - told));
        }
        details.set_error_info(reason::INVALID, DOMAIN, HashMap::new());
        let text = cut(text, ERROR_MESSAGE_BYTES);
        let message = if count == 1 { text } else { format!("{count} fields are wrong: {text}") };
        Self::with_error_details(Code::InvalidArgument, message, details)
    }
}

impl From<Missing> for Status {
    fn from(missing: Missing) -> Self {
        let message = missing.to_string();
        match missing {
            Missing::NotFound { name, nearest, .. } => {
                let mut details = ErrorDetails::new();
                details.set_resource_info("breaker", name.as_str(), "", message.as_str());
                let nearest = nearest.map(|nearest| ("nearest".to_string(), nearest));
                details.set_error_info(
                    reason::NOT_FOUND,
                    DOMAIN,
                    nearest.into_iter().collect::<HashMap<_, _>>(),
                );
                Self::with_error_details(Code::NotFound, message, details)
            }
            Missing::TooMany { .. } => exhausted(reason::TOO_MANY_BREAKERS, "breakers", message),
        }
    }
}

impl From<TooManyStreams> for Status {
    fn from(error: TooManyStreams) -> Self {
        exhausted(reason::TOO_MANY_STREAMS, "watch_streams", error.to_string())
    }
}

/// RESOURCE_EXHAUSTED: a limit, with its name and when to try again.
pub(super) fn exhausted(reason: &str, limit: &str, message: String) -> Status {
    let mut details = ErrorDetails::new();
    details.add_quota_failure_violation(format!("limits.{limit}"), message.as_str());
    details.set_retry_info(Some(RETRY));
    details.set_error_info(reason, DOMAIN, HashMap::new());
    Status::with_error_details(Code::ResourceExhausted, message, details)
}

/// UNAVAILABLE: the server is ending.
pub(super) fn draining() -> Status {
    let mut details = ErrorDetails::new();
    details.set_retry_info(Some(RETRY));
    details.set_error_info(reason::DRAINING, DOMAIN, HashMap::new());
    Status::with_error_details(Code::Unavailable, "the server is shutting down: connect again", details)
}

/// Why one entry of a report could not be taken: its code, its reason.
pub(super) const fn entry_code(missing: &Missing) -> (Code, &'static str) {
    match missing {
        Missing::NotFound { .. } => (Code::NotFound, reason::NOT_FOUND),
        Missing::TooMany { .. } => (Code::ResourceExhausted, reason::TOO_MANY_BREAKERS),
    }
}

fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        let end = (0..=bytes).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
        text.push_str(" …");
    }
    text
}
