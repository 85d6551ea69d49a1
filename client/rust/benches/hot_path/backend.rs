//! A service to put layers around: it answers at once.

use std::{
    future::{Ready, ready},
    pin::pin,
    task::{Context, Poll, Waker},
};

use tower::Service;

use crate::call::{Failed, failing_work, work};

/// The service behind the breaker.
#[derive(Clone, Copy)]
pub(crate) struct Backend;

/// Whether the call is to succeed.
#[derive(Clone, Copy)]
pub(crate) struct Request(pub(crate) bool);

impl Service<Request> for Backend {
    type Response = u64;
    type Error = Failed;
    type Future = Ready<Result<u64, Failed>>;

    #[inline(always)]
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    #[inline(always)]
    fn call(&mut self, Request(succeeds): Request) -> Self::Future {
        ready(if succeeds { work() } else { failing_work() })
    }
}

/// Drives a call that nothing keeps waiting, without a runtime: that would cost both sides.
#[inline(always)]
pub(crate) fn at_once<S: Service<Request>>(
    service: &mut S,
    request: Request,
) -> Result<S::Response, S::Error> {
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(ready) = service.poll_ready(&mut context) else {
        panic!("a service that is idle is not ready")
    };
    ready?;
    match pin!(service.call(request)).poll(&mut context) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a call that waits for nothing is pending"),
    }
}
