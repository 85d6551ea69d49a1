//! How many of an article are on hand: a read whose upstream either works or is away.

use panelboard_client::{Breaker, CallError, Rejected};
use serde::Deserialize;

use crate::upstream::{Upstream, UpstreamError, observed};

/// Asks the warehouse.
#[derive(Debug)]
pub struct Inventory {
    breaker: Breaker,
    warehouse: Upstream,
}

impl Inventory {
    /// An inventory that asks `warehouse` through `breaker`.
    pub fn new(breaker: Breaker, warehouse: Upstream) -> Self {
        Inventory { breaker, warehouse }
    }

    /// The number on hand. Without one the article is shown without its stock: that is for the caller to do.
    pub async fn on_hand(&self, sku: &str) -> Result<u32, InventoryError> {
        let is_sku =
            (1..=32).contains(&sku.len()) && sku.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !is_sku {
            return Err(InventoryError::BadSku(sku.chars().take(40).collect()));
        }
        self.breaker.call_with(observed, || self.fetch(sku)).await.map_err(|error| match error {
            CallError::Rejected(rejected) => InventoryError::Unavailable(rejected),
            CallError::Failed(error) => InventoryError::Upstream(error),
        })
    }

    async fn fetch(&self, sku: &str) -> Result<u32, UpstreamError> {
        #[derive(Deserialize)]
        struct Stock {
            on_hand: u32,
        }
        let body = self.warehouse.get(&format!("/stock?sku={sku}")).await?;
        let stock = serde_json::from_slice::<Stock>(&body);
        stock.map(|stock| stock.on_hand).map_err(|error| UpstreamError::Malformed(error.to_string()))
    }
}

/// Why there is no number.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// That is no article number. The warehouse was not asked.
    #[error("article number {0:?} is none: give up to 32 letters, digits and dashes")]
    BadSku(String),
    /// The breaker admitted no call.
    #[error(transparent)]
    Unavailable(Rejected),
    /// The warehouse was asked, and this came of it.
    #[error(transparent)]
    Upstream(UpstreamError),
}
