use tower::{Layer, Service};
use tower_resilience_circuitbreaker::{
    CircuitBreakerConfigBuilder, CircuitBreakerError, CircuitBreakerLayer, DefaultClassifier,
};

use super::{MINIMUM_CALLS, OPEN};
use crate::{
    backend::{Backend, Request, at_once},
    call::{Call, Failed},
};

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
