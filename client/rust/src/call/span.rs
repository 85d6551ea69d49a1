//! The span of one call. Without a subscriber that wants it there is none, and all of this does nothing.

use tracing::{Span, field::Empty};

use crate::{breaker::Breaker, fact::Fact, rejected::Rejected};

/// `breaker.call` at DEBUG, with `breaker`, `outcome` (`ok`, `error` or `rejected`; none: the call was dropped), `fact`
/// as it was classified, `reason` of a rejection, `freshness` and `probe`.
pub(super) struct CallSpan(Span);

impl CallSpan {
    pub(super) fn begin(breaker: &Breaker) -> Self {
        Self(tracing::debug_span!(
            "breaker.call",
            breaker = breaker.name(),
            outcome = Empty,
            fact = Empty,
            reason = Empty,
            freshness = Empty,
            probe = Empty,
        ))
    }

    pub(super) const fn span(&self) -> &Span {
        &self.0
    }

    /// Runs what makes the call within the span. What it makes is to be run there too.
    pub(super) fn within<T>(&self, call: impl FnOnce() -> T) -> T {
        self.0.in_scope(call)
    }

    pub(super) fn rejected(&self, rejected: &Rejected) {
        if self.0.is_disabled() {
            return;
        }
        self.0.record("outcome", "rejected");
        self.0.record("reason", rejected.reason().as_str());
        self.0.record("freshness", tracing::field::display(rejected.freshness()));
        self.0.record("probe", false);
    }

    pub(super) fn ended(&self, breaker: &Breaker, is_probe: bool, is_ok: bool, fact: Fact) {
        // Asking for the freshness takes a lock: not where nobody reads it.
        if self.0.is_disabled() {
            return;
        }
        self.0.record("outcome", if is_ok { "ok" } else { "error" });
        self.0.record("fact", tracing::field::debug(fact));
        self.0.record("freshness", tracing::field::display(breaker.freshness()));
        self.0.record("probe", is_probe);
    }
}
