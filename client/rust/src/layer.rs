//! The breaker as a [`tower_layer::Layer`]: on a tonic channel, on hyper's client, in an axum router, on any other
//! [`Service`].
//!
//! | made by | for | a rejection is | what an outcome is |
//! |---|---|---|---|
//! | [`BreakerLayer::new`] | clients over HTTP and gRPC | an error, [`Rejected`](crate::Rejected) in its chain | read from the answer |
//! | [`BreakerLayer::answering`] | servers: axum, tonic's server | an answer: 503, or UNAVAILABLE | read from the answer |
//! | [`BreakerLayer::by_result`] | any other service | an error, [`Rejected`](crate::Rejected) itself | what a closure says |
//!
//! # What an outcome is
//!
//! The breaker's policy classifies what happened:
//!
//! - An HTTP answer, by its status, when its headers are there. `retry-after` is honoured on a 4xx or 5xx, in seconds
//!   or as a date. What goes wrong with the body afterwards is not seen.
//! - A gRPC answer (the request's content type says so), by its `grpc-status`: of the headers if they end the call,
//!   else of the *trailers*. The answer's body is watched until they are there; an answer that ends without any is
//!   UNKNOWN, as gRPC has it. `grpc-retry-pushback-ms` and `google.rpc.RetryInfo` are honoured.
//! - An error of the service or of the body, as [`Fact::of_error`](crate::Fact::of_error) reads it.
//! - A call, or a stream, that is dropped before its outcome is known is *abandoned*: it says nothing.
//!
//! # In which order
//!
//! Retry outside, timeout inside: `ServiceBuilder::new().layer(retry).layer(breaker).timeout(…)`. Rejections are not
//! retried at once: let the retry's policy leave alone an error in which
//! [`Rejected::in_error`](crate::Rejected::in_error) finds one.
//!
//! `poll_ready` is the inner service's and takes no permit; a call is admitted when it is made. So a service that is
//! never ready (a full concurrency limit inside of the breaker) makes callers wait without the breaker being asked:
//! put such limits outside, or shed load.
//!
//! In HALF_OPEN a call waits for a probe up to the client's `probe_wait`, with a clone of the inner service; else no
//! call waits, and an admitted call allocates nothing.
//!
//! # Long streams
//!
//! A server's stream has its outcome when it ends. One that lives for hours says nothing until then, is slow by any
//! rule, and as a probe runs past its deadline, which is a failure. For such methods use
//! [`headers_only`](BreakerLayer::headers_only).
//!
//! # One breaker, made once
//!
//! Give the layer a handle that was made once, and keep the layered service: clone it, for a clone is the same
//! breaker. Never look a breaker up per call, and never make one per URL, tenant or user.

mod admission;
mod body;
mod future;
mod grpc;
mod handling;
mod judge;

use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use self::admission::Admission;
pub use self::{
    body::WatchedBody,
    future::ResponseFuture,
    handling::{Answering, ByResult, Failing, Handling},
};
use crate::breaker::Breaker;

/// What a layered service returns when a call fails or is rejected, as tower's own layers do. Look for a rejection
/// with [`Rejected::in_error`](crate::Rejected::in_error).
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Puts a breaker around a [`Service`]. See [the module](self).
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use panelboard_client::{BreakerLayer, Client, Rejected};
/// use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
/// use tower::ServiceBuilder;
///
/// let panel = Client::builder("http://localhost:50051").build()?;
/// let channel = tonic::transport::Endpoint::from_static("http://shipping:8080").connect_lazy();
/// let channel = ServiceBuilder::new()
///     .layer(BreakerLayer::new(panel.breaker("checkout/shipping-quote")))
///     .service(channel);
///
/// let mut shipping = HealthClient::new(channel); // or any generated client; a clone shares the breaker
/// match shipping.check(HealthCheckRequest::default()).await {
///     Ok(answer) => println!("{answer:?}"),
///     Err(status) => match Rejected::in_error(&status) {
///         Some(rejected) => println!("not made: {rejected}"), // the status is UNAVAILABLE
///         None => println!("failed: {status}"),
///     },
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct BreakerLayer<H = Failing> {
    breaker: Breaker,
    handling: H,
}

impl BreakerLayer {
    /// For clients over HTTP and gRPC: outcomes are read from the answers, and a rejection is an error.
    ///
    /// For a gRPC request that error is a `tonic::Status` (0.14) with code UNAVAILABLE, so that a tonic client returns
    /// it as it is; it wraps the [`Rejected`](crate::Rejected). Otherwise it is the [`Rejected`](crate::Rejected).
    pub const fn new(breaker: Breaker) -> Self {
        Self { breaker, handling: Failing { headers_only: false } }
    }

    /// Takes the headers of a gRPC answer for its outcome: one that begins is a success. For streams that live long.
    pub const fn headers_only(mut self) -> Self {
        self.handling.headers_only = true;
        self
    }
}

impl BreakerLayer<Answering> {
    /// For servers: a rejection is an answer, so that the service's error stays what it is.
    ///
    /// An HTTP request is answered with 503 and `retry-after`, a gRPC request with UNAVAILABLE,
    /// `grpc-retry-pushback-ms` and a `google.rpc.RetryInfo`. The [`Rejected`](crate::Rejected) is among the
    /// answer's extensions; what the caller is told names the breaker and the reason, and no more.
    ///
    /// ```no_run
    /// # async fn quote() -> &'static str { "12.30" }
    /// # fn example(panel: panelboard_client::Client) -> axum::Router {
    /// use axum::{Router, routing::get};
    /// use panelboard_client::BreakerLayer;
    ///
    /// // What the handler calls is protected: a 5xx of ours says that it is down.
    /// let breaker = panel.breaker("checkout/shipping-quote");
    /// Router::new().route("/quote", get(quote)).layer(BreakerLayer::answering(breaker))
    /// # }
    /// ```
    pub const fn answering(breaker: Breaker) -> Self {
        Self { breaker, handling: Answering { headers_only: false } }
    }

    /// Takes the headers of a gRPC answer for its outcome: one that begins is a success. For streams that live long.
    pub const fn headers_only(mut self) -> Self {
        self.handling.headers_only = true;
        self
    }
}

impl<F> BreakerLayer<ByResult<F>> {
    /// For a service of any kind, or a judgement of one's own: `classify` says what a result means, as a
    /// [`Fact`](crate::Fact) or an [`Observation`](crate::Observation). It is cloned for each call, so it should
    /// capture nothing that is dear to clone. A rejection is the error [`Rejected`](crate::Rejected).
    ///
    /// ```
    /// # use std::{convert::Infallible, error::Error};
    /// # async fn example(panel: panelboard_client::Client) -> Result<(), Box<dyn Error + Send + Sync>> {
    /// use panelboard_client::{BreakerLayer, Fact};
    /// use tower::{ServiceBuilder, ServiceExt, service_fn};
    ///
    /// let classify = |result: Result<&u64, &Infallible>| match result {
    ///     Ok(0) => Fact::Cause("malformed"),
    ///     Ok(_) => Fact::Success,
    ///     Err(_) => Fact::Failure("other"),
    /// };
    /// let price = ServiceBuilder::new()
    ///     .layer(BreakerLayer::by_result(panel.breaker("checkout/shipping-quote"), classify))
    ///     .service(service_fn(|weight: u64| async move { Ok::<u64, Infallible>(2 * weight) }))
    ///     .oneshot(21)
    ///     .await?;
    /// assert_eq!(price, 42);
    /// # Ok(()) }
    /// ```
    pub const fn by_result(breaker: Breaker, classify: F) -> Self {
        Self { breaker, handling: ByResult { classify } }
    }
}

impl<S, H: Clone> Layer<S> for BreakerLayer<H> {
    type Service = BreakerService<S, H>;

    fn layer(&self, inner: S) -> Self::Service {
        BreakerService { inner, breaker: self.breaker.clone(), handling: self.handling.clone() }
    }
}

/// A service with a breaker around it. Made by a [`BreakerLayer`]; a clone is the same breaker.
///
/// Cancel safe: a call that is dropped is abandoned.
#[derive(Clone, Debug)]
pub struct BreakerService<S, H = Failing> {
    inner: S,
    breaker: Breaker,
    handling: H,
}

impl<S, H> BreakerService<S, H> {
    /// The breaker, to look at.
    pub const fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// The service inside.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S, H, Req> Service<Req> for BreakerService<S, H>
where
    S: Service<Req> + Clone,
    H: Handling<Req, S::Response, S::Error>,
    H::Error: From<S::Error>,
{
    type Response = H::Response;
    type Error = H::Error;
    type Future = ResponseFuture<S, Req, H>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let call = self.handling.begin(&request);
        ResponseFuture::new(Admission::ask(&self.breaker, &mut self.inner, request), call)
    }
}
