use ::circuitbreaker_rs::{BreakerError, CircuitBreaker, DefaultPolicy};

use super::{MINIMUM_CALLS, OPEN};
use crate::call::{Call, Failed, failing_work, work};

/// It times every call.
pub(crate) type Breaker = CircuitBreaker<DefaultPolicy, Failed>;

pub(crate) fn standard() -> Breaker {
    Breaker::builder().build()
}

pub(crate) fn strict() -> Breaker {
    Breaker::builder()
        .failure_threshold(0.5)
        .min_throughput(MINIMUM_CALLS as u64)
        .consecutive_failures(u64::MAX)
        .cooldown(OPEN)
        .build()
}

impl Call for &Breaker {
    #[inline(always)]
    fn succeed(&mut self) -> bool {
        self.call(work).is_ok()
    }

    fn fail(&mut self) -> bool {
        matches!(self.call(failing_work), Err(BreakerError::Operation(_)))
    }
}
