use ::failsafe::{CircuitBreaker, Config, Error, FailurePolicy, StateMachine, backoff, failure_policy};

use super::{MINIMUM_CALLS, OPEN};
use crate::call::{Call, failing_work, work};

/// With the library's default policy: success rate over a time window, or consecutive failures.
pub(crate) fn standard() -> StateMachine<impl FailurePolicy, ()> {
    Config::new().build()
}

/// By consecutive failures: its success rate does not trip before a whole window has passed.
pub(crate) fn strict() -> StateMachine<impl FailurePolicy, ()> {
    let policy = failure_policy::consecutive_failures(MINIMUM_CALLS as u32, backoff::constant(OPEN));
    Config::new().failure_policy(policy).build()
}

impl<P: FailurePolicy> Call for &StateMachine<P, ()> {
    #[inline(always)]
    fn succeed(&mut self) -> bool {
        self.call(work).is_ok()
    }

    fn fail(&mut self) -> bool {
        matches!(self.call(failing_work), Err(Error::Inner(_)))
    }
}
