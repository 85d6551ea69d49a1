//! The future of a call through the breaker.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower_service::Service;

use super::{admission::Admission, handling::Handling};

pin_project! {
    /// The future of a [`BreakerService`](super::BreakerService)'s call.
    ///
    /// Cancel safe: dropped before it has ended, its call is abandoned.
    #[must_use = "a future does nothing unless it is polled"]
    pub struct ResponseFuture<S, Req, H>
    where
        S: Service<Req>,
        H: Handling<Req, S::Response, S::Error>,
    {
        #[pin]
        admission: Admission<S, Req>,
        call: Option<H::Call>,
    }
}

impl<S, Req, H> ResponseFuture<S, Req, H>
where
    S: Service<Req>,
    H: Handling<Req, S::Response, S::Error>,
{
    pub(super) const fn new(admission: Admission<S, Req>, call: H::Call) -> Self {
        Self { admission, call: Some(call) }
    }
}

impl<S, Req, H> Future for ResponseFuture<S, Req, H>
where
    S: Service<Req>,
    H: Handling<Req, S::Response, S::Error>,
{
    type Output = Result<H::Response, H::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let ended = ready!(this.admission.poll(cx));
        let call = this.call.take().expect("a future that has ended is not polled again");
        Poll::Ready(match ended {
            Ok((result, permit)) => H::ended(call, result, permit),
            Err(rejected) => H::rejected(call, rejected),
        })
    }
}

impl<S, Req, H> fmt::Debug for ResponseFuture<S, Req, H>
where
    S: Service<Req>,
    H: Handling<Req, S::Response, S::Error>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
