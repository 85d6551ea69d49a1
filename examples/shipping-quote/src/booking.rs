//! The booking of a shipment: a write. "We have not tried" and "we have tried" are different answers.

use std::time::Duration;

use panelboard_client::{Breaker, CallError};
use serde::Deserialize;

use crate::upstream::{Upstream, UpstreamError, observed};

/// Books with the delivery provider.
#[derive(Debug)]
pub struct Bookings {
    breaker: Breaker,
    provider: Upstream,
}

/// What became of a booking. Only a booked one has a tracking number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Booking {
    /// The shipment is booked.
    Booked {
        /// The provider's number for it.
        tracking: String,
    },
    /// Temporarily unavailable: no call was made, so trying again later is safe.
    TemporarilyUnavailable {
        /// When to try again, if that is known.
        retry_after: Option<Duration>,
    },
    /// A call was made and failed. Whether the provider has booked anyway is not known: an order number that the
    /// provider recognizes must make the next try safe, no breaker can.
    Failed {
        /// What went wrong.
        cause: UpstreamError,
    },
}

impl Bookings {
    /// Bookings that go to `provider` through `breaker`.
    pub fn new(breaker: Breaker, provider: Upstream) -> Self {
        Bookings { breaker, provider }
    }

    /// Books the shipment of an order.
    pub async fn book(&self, order: u64) -> Booking {
        match self.breaker.call_with(observed, || self.post(order)).await {
            Ok(tracking) => Booking::Booked { tracking },
            Err(CallError::Rejected(rejected)) => {
                Booking::TemporarilyUnavailable { retry_after: rejected.retry_after() }
            }
            Err(CallError::Failed(cause)) => Booking::Failed { cause },
        }
    }

    async fn post(&self, order: u64) -> Result<String, UpstreamError> {
        #[derive(Deserialize)]
        struct Booked {
            tracking: String,
        }
        let body = self.provider.post(&format!("/shipments?order={order}")).await?;
        let booked = serde_json::from_slice::<Booked>(&body);
        booked.map(|booked| booked.tracking).map_err(|error| UpstreamError::Malformed(error.to_string()))
    }
}
