//! The price of an article, asked of a flaky supplier. A price of yesterday is better than none.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use panelboard_client::{Breaker, CallError, Rejected};

use crate::quote::{Price, parse_answer};
use crate::upstream::{Upstream, UpstreamError, observed};

/// More articles than this are not remembered.
const CACHED_MAX: usize = 10_000;

/// Asks the supplier, and remembers what it said.
#[derive(Debug)]
pub struct Supplier {
    breaker: Breaker,
    upstream: Upstream,
    /// The caller's own: Panelboard knows nothing of values. A std mutex, never held across an await.
    cache: Mutex<HashMap<u32, Price>>,
}

/// A price and where it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priced {
    /// The supplier said so just now.
    Live(Price),
    /// The supplier said so once. Nobody was asked now.
    Cached(Price),
}

impl Supplier {
    /// A supplier that is asked through `breaker`.
    pub fn new(breaker: Breaker, upstream: Upstream) -> Self {
        Supplier { breaker, upstream, cache: Mutex::default() }
    }

    /// The price of an article. A rejected call is answered from the cache; a call that was made and failed is an
    /// error, so that the caller can tell "the supplier is spared" from "the supplier failed".
    pub async fn price(&self, article: u32) -> Result<Priced, SupplierError> {
        match self.breaker.call_with(observed, || self.fetch(article)).await {
            Ok(price) => {
                self.remember(article, price);
                Ok(Priced::Live(price))
            }
            Err(CallError::Rejected(rejected)) => {
                self.remembered(article).map(Priced::Cached).ok_or(SupplierError::NothingCached(rejected))
            }
            Err(CallError::Failed(error)) => Err(SupplierError::Failed(error)),
        }
    }

    async fn fetch(&self, article: u32) -> Result<Price, UpstreamError> {
        let body = self.upstream.get(&format!("/price?sku=SKU-{article}")).await?;
        parse_answer(&body).map_err(|malformed| UpstreamError::Malformed(malformed.to_string()))
    }

    fn remember(&self, article: u32, price: Price) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() < CACHED_MAX || cache.contains_key(&article) {
            cache.insert(article, price);
        }
    }

    fn remembered(&self, article: u32) -> Option<Price> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(&article).copied()
    }
}

/// Why there is no price.
#[derive(Debug, thiserror::Error)]
pub enum SupplierError {
    /// The breaker admitted no call, and no price of this article was ever seen.
    #[error(transparent)]
    NothingCached(Rejected),
    /// The supplier was asked, and this came of it.
    #[error(transparent)]
    Failed(UpstreamError),
}
