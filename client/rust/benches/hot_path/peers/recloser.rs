use ::recloser::Recloser;

use super::{MINIMUM_CALLS, OPEN};
use crate::call::{Call, failing_work, work};

pub(crate) fn standard() -> Recloser {
    Recloser::custom().build()
}

pub(crate) fn strict() -> Recloser {
    Recloser::custom().error_rate(0.5).closed_len(MINIMUM_CALLS).open_wait(OPEN).build()
}

impl Call for &Recloser {
    #[inline(always)]
    fn succeed(&mut self) -> bool {
        self.call(work).is_ok()
    }

    fn fail(&mut self) -> bool {
        matches!(self.call(failing_work), Err(::recloser::Error::Inner(_)))
    }
}
