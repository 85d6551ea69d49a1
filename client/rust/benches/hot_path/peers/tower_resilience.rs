use std::{
    future::{Ready, ready},
    pin::pin,
    task::{Context, Poll, Waker},
};

use tower::{Layer, Service};
use tower_resilience_circuitbreaker::{
    CircuitBreakerConfigBuilder, CircuitBreakerError, CircuitBreakerLayer, DefaultClassifier,
};

use super::{MINIMUM_CALLS, OPEN};
use crate::call::{Call, Failed, failing_work, work};

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

/// A service on one thread.
pub(crate) struct Caller<S>(S);

pub(crate) fn standard() -> Caller<impl Service<Request, Response = u64, Error = CircuitBreakerError<Failed>>>
{
    made(CircuitBreakerLayer::builder())
}

pub(crate) fn strict() -> Caller<impl Service<Request, Response = u64, Error = CircuitBreakerError<Failed>>> {
    let builder = CircuitBreakerLayer::builder()
        .failure_rate_threshold(0.5)
        .sliding_window_size(MINIMUM_CALLS)
        .minimum_number_of_calls(MINIMUM_CALLS)
        .wait_duration_in_open(OPEN);
    made(builder)
}

fn made(
    builder: CircuitBreakerConfigBuilder<DefaultClassifier>,
) -> Caller<impl Service<Request, Response = u64, Error = CircuitBreakerError<Failed>>> {
    Caller(builder.build().expect("a setting is refused by the peer").layer(Backend))
}

impl<S: Service<Request, Response = u64, Error = CircuitBreakerError<Failed>>> Call for Caller<S> {
    #[inline(always)]
    fn succeed(&mut self) -> bool {
        at_once(&mut self.0, Request(true)).is_ok()
    }

    fn fail(&mut self) -> bool {
        matches!(at_once(&mut self.0, Request(false)), Err(CircuitBreakerError::Inner(_)))
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
