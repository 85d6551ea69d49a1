//! The business rule around the breaker: what is checked before it, what falls back, and what propagates.

use panelboard_client::{Breaker, CallError};

use crate::quote::{BadPostcode, Postcode, Price, Quote, parse_answer};
use crate::tally::{Stats, Tally};
use crate::upstream::{Upstream, UpstreamError, observed};

/// Answers for quotes: one for each process.
#[derive(Debug)]
pub struct Desk {
    breaker: Breaker,
    provider: Upstream,
    tally: Tally,
}

impl Desk {
    /// A desk that asks `provider` through `breaker`.
    pub fn new(breaker: Breaker, provider: Upstream) -> Self {
        Desk { breaker, provider, tally: Tally::default() }
    }

    /// Quotes the price of shipping to `postcode`.
    ///
    /// The postcode is checked before the breaker is asked: a customer's typing error is no call. The fallback
    /// covers rejections and known unavailability. Everything else propagates, because somebody has to hear of it.
    pub async fn quote(&self, postcode: &str) -> Result<Quote, QuoteError> {
        let answer = self.asked(postcode).await;
        match &answer {
            Ok(quote) => self.tally.answered(*quote),
            Err(error) => {
                self.tally.add(|stats| *stats.errors.entry(error.code().to_owned()).or_default() += 1)
            }
        }
        answer
    }

    async fn asked(&self, postcode: &str) -> Result<Quote, QuoteError> {
        let postcode: Postcode = postcode.parse()?;
        let freshness = self.breaker.freshness().to_string();
        self.tally.add(|stats| *stats.freshness.entry(freshness).or_default() += 1);
        match self.breaker.call_with(observed, || self.fetch(&postcode)).await {
            Ok(price) => Ok(Quote::Live(price)),
            Err(CallError::Rejected(_)) => {
                self.tally.add(|stats| stats.rejected += 1);
                Ok(Quote::Unavailable)
            }
            Err(CallError::Failed(error)) if error.is_unavailability() => Ok(Quote::Unavailable),
            Err(CallError::Failed(error)) => Err(QuoteError::Upstream(error)),
        }
    }

    /// One request. A price that cannot be read is as much the provider's failure as none.
    async fn fetch(&self, postcode: &Postcode) -> Result<Price, UpstreamError> {
        let probing = !self.breaker.state().is_closed();
        self.tally.add(|stats| {
            stats.provider_calls += 1;
            stats.probes += u64::from(probing);
        });
        let body = self.provider.get(&format!("/quote?postcode={}", postcode.as_str())).await?;
        parse_answer(&body).map_err(|malformed| UpstreamError::Malformed(malformed.to_string()))
    }

    /// Notes what the breaker's state is now: for a task that watches it.
    pub fn look_at_breaker(&self) {
        self.tally.state_is(&self.breaker.state().to_string());
    }

    /// The counts so far.
    pub fn stats(&self) -> Stats {
        self.tally.stats()
    }
}

/// Why there is no answer at all, neither a price nor "unavailable".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuoteError {
    /// The postcode is none. The provider was not asked.
    #[error(transparent)]
    BadPostcode(#[from] BadPostcode),
    /// The provider refused the request, or its answer made no sense.
    #[error(transparent)]
    Upstream(UpstreamError),
}

impl QuoteError {
    /// A stable name for programs and counts.
    pub fn code(&self) -> &'static str {
        match self {
            QuoteError::BadPostcode(_) => "BAD_POSTCODE",
            QuoteError::Upstream(UpstreamError::Status { status: 400, .. }) => "PROVIDER_REFUSED",
            QuoteError::Upstream(UpstreamError::Status { status: 401, .. }) => "PROVIDER_UNAUTHORIZED",
            QuoteError::Upstream(UpstreamError::Malformed(_)) => "PROVIDER_MALFORMED",
            QuoteError::Upstream(_) => "PROVIDER_ERROR",
        }
    }
}
