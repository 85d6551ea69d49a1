//! An HTTP call with a timeout, and what can go wrong with it.
//!
//! Not a breaker and not a retry: one request, one answer or one error. The timeout belongs here, inside the
//! breaker, so that a call which takes too long ends as a failure that the breaker sees.

use std::error::Error;
use std::time::Duration;

use panelboard_client::Fact;
use reqwest::{Method, RequestBuilder, header, redirect};

/// An answer longer than this is not one of ours.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// A text of the upstream is shown to people, but never at length.
const MESSAGE_CHARS_MAX: usize = 200;

/// One HTTP dependency, reached with one timeout.
#[derive(Clone, Debug)]
pub struct Upstream {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
}

impl Upstream {
    /// The dependency at `base` (`127.0.0.1:8080` or `http://…`); no call takes longer than `timeout`.
    pub fn new(base: &str, token: Option<String>, timeout: Duration) -> Result<Self, UpstreamError> {
        let base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
        let http = reqwest::Client::builder()
            .timeout(timeout)
            // A proxy or a redirect would be another dependency than the one the breaker is named after.
            .no_proxy()
            .redirect(redirect::Policy::none())
            .build()
            .map_err(|error| UpstreamError::Malformed(error.to_string()))?;
        Ok(Upstream { http, base: base.trim_end_matches('/').to_owned(), token })
    }

    /// Asks for `path`, which includes its query.
    pub async fn get(&self, path: &str) -> Result<Vec<u8>, UpstreamError> {
        self.send(self.request(Method::GET, path)).await
    }

    /// Posts to `path`, which includes its query.
    pub async fn post(&self, path: &str) -> Result<Vec<u8>, UpstreamError> {
        self.send(self.request(Method::POST, path)).await
    }

    /// Posts a JSON document to `path`.
    pub async fn post_json(&self, path: &str, body: Vec<u8>) -> Result<Vec<u8>, UpstreamError> {
        let request = self.request(Method::POST, path).header(header::CONTENT_TYPE, "application/json");
        self.send(request.body(body)).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        let request = request.header(header::ACCEPT, "application/json");
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Vec<u8>, UpstreamError> {
        let mut response = request.send().await.map_err(UpstreamError::from_transport)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(UpstreamError::from_transport)? {
            if body.len() + chunk.len() > BODY_BYTES_MAX {
                return Err(UpstreamError::Malformed(format!(
                    "the answer is longer than {BODY_BYTES_MAX} bytes"
                )));
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(body);
        }
        let message = String::from_utf8_lossy(&body).chars().take(MESSAGE_CHARS_MAX).collect();
        Err(UpstreamError::Status { status: status.as_u16(), message })
    }
}

/// What the result of a call is to the breaker: for `call_with`.
pub fn observed<T>(result: &Result<T, UpstreamError>) -> Fact {
    result.as_ref().err().map_or(Fact::Success, UpstreamError::fact)
}

/// What can go wrong with one call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// The upstream answered with a status that is no success.
    #[error("the upstream answered {status}: {message}")]
    Status {
        /// The HTTP status.
        status: u16,
        /// The beginning of the body.
        message: String,
    },
    /// No whole answer in time.
    #[error("the upstream did not answer in time")]
    Timeout,
    /// No connection could be made.
    #[error("no connection to the upstream")]
    Connect,
    /// The connection ended before the answer did.
    #[error("the upstream closed the connection before its answer was whole")]
    Reset,
    /// The answer has the wrong form, although its status says success.
    #[error("malformed answer: {0}")]
    Malformed(String),
}

impl UpstreamError {
    /// Whether the upstream is known to be unable to answer at the moment. Only this may be covered by a
    /// fallback: every other error is news that somebody has to hear.
    pub fn is_unavailability(&self) -> bool {
        match self {
            UpstreamError::Timeout | UpstreamError::Connect | UpstreamError::Reset => true,
            // 408 and 429 are the upstream's own words for "not now".
            UpstreamError::Status { status, .. } => matches!(status, 408 | 429 | 500..=599),
            UpstreamError::Malformed(_) => false,
        }
    }

    /// What happened, in the words that the breaker's policy classifies.
    pub fn fact(&self) -> Fact {
        match self {
            UpstreamError::Status { status, .. } => Fact::HttpStatus(*status),
            UpstreamError::Timeout => Fact::TimedOut,
            UpstreamError::Connect => Fact::Cause("connect"),
            UpstreamError::Reset => Fact::Cause("reset"),
            UpstreamError::Malformed(_) => Fact::Cause("malformed"),
        }
    }

    fn from_transport(error: reqwest::Error) -> Self {
        if error.is_timeout() {
            return UpstreamError::Timeout;
        }
        if error.is_connect() {
            return UpstreamError::Connect;
        }
        let source = std::iter::successors(error.source(), |&cause| cause.source());
        if source.filter_map(|cause| cause.downcast_ref::<hyper::Error>()).any(hyper::Error::is_parse) {
            return UpstreamError::Malformed("the answer is not HTTP".to_owned());
        }
        UpstreamError::Reset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{Answer, Behaviour, Provider};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    const IN_TIME: Duration = Duration::from_secs(30);

    async fn ask(base: &str, timeout: Duration) -> Result<Vec<u8>, UpstreamError> {
        Upstream::new(base, None, timeout)?.get("/quote?postcode=12345").await
    }

    /// A server that reads the beginning of one request, sends `bytes` and closes.
    async fn closing_after(bytes: impl Into<Vec<u8>>) -> String {
        let bytes = bytes.into();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            _ = socket.read(&mut [0; 1024]).await.unwrap();
            socket.write_all(&bytes).await.unwrap();
        });
        addr.to_string()
    }

    #[tokio::test]
    async fn every_way_to_fail_has_its_own_name() {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
        assert_eq!(ask(&free, IN_TIME).await, Err(UpstreamError::Connect));
        assert_eq!(ask(&closing_after(b"").await, IN_TIME).await, Err(UpstreamError::Reset));
        let cut_short = closing_after(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{").await;
        assert_eq!(ask(&cut_short, IN_TIME).await, Err(UpstreamError::Reset));
        let gibberish = ask(&closing_after(b"SSH-2.0-OpenSSH\r\n").await, IN_TIME).await;
        assert!(matches!(gibberish, Err(UpstreamError::Malformed(_))), "{gibberish:?}");

        let provider = Provider::start_local(Behaviour::answering(Answer::Hang)).await.unwrap();
        let addr = provider.addr().to_string();
        assert_eq!(ask(&addr, Duration::from_millis(50)).await, Err(UpstreamError::Timeout));
        provider.switch(Behaviour::answering(Answer::Status(503)));
        let status = ask(&addr, IN_TIME).await.unwrap_err();
        assert!(matches!(status, UpstreamError::Status { status: 503, .. }), "{status:?}");
        provider.switch(Behaviour::good());
        assert!(ask(&addr, IN_TIME).await.is_ok());
        assert_eq!(provider.stats().total, 3);
        provider.stop().await;
    }

    #[tokio::test]
    async fn an_endless_answer_is_cut_off() {
        let mut answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n".to_vec();
        answer.resize(BODY_BYTES_MAX + 1000, b'x');
        let long = ask(&closing_after(answer).await, IN_TIME).await.unwrap_err();
        assert_eq!(long, UpstreamError::Malformed("the answer is longer than 65536 bytes".to_owned()));
    }

    #[test]
    fn only_known_unavailability_may_be_covered() {
        let status = |status| UpstreamError::Status { status, message: String::new() };
        for covered in [500, 502, 503, 504, 408, 429].map(status) {
            assert!(covered.is_unavailability(), "{covered}");
        }
        for news in [301, 400, 401, 403, 404, 422].map(status) {
            assert!(!news.is_unavailability(), "{news}");
        }
        assert!(!UpstreamError::Malformed("no price".to_owned()).is_unavailability());
    }
}
