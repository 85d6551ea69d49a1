//! A supplier fails three calls of four: 5 failures within 10 s, open for 5 s, 1 probe. The caller has a cache.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use panelboard_client::Breaker;
use shipping_quote::provider::{Answer, Behaviour};
use shipping_quote::quote::{Currency, Price};
use shipping_quote::supplier::{Priced, Supplier, SupplierError};

use crate::stage::{Stage, down};

const OPEN: Duration = Duration::from_secs(5);
/// Whoever gets no probe within this is rejected, and falls back to the cache.
const PROBE_WAIT: Duration = Duration::from_millis(100);
const ARTICLE: u32 = 1;
const PRICE: Price = Price { cents: 1234, currency: Currency::Eur };

struct Shop {
    stage: Stage,
    breaker: Breaker,
    supplier: Arc<Supplier>,
}

impl Shop {
    async fn open() -> Self {
        let stage = Stage::set("flaky-supplier.yaml", "catalog/supplier-price").await;
        let breaker = stage.join_with("shop-1", PROBE_WAIT).await;
        let supplier = Arc::new(Supplier::new(breaker.clone(), stage.patient()));
        Shop { stage, breaker, supplier }
    }

    /// One good call and three bad ones, and so on, until the breaker is OPEN.
    async fn with_an_open_breaker() -> Self {
        let shop = Self::open().await;
        let flaky = Answer::Failing { percent: 75, status: 500, seed: None };
        shop.stage.provider.switch(Behaviour::answering(flaky));
        let mut good = Vec::new();
        for _ in 0..7 {
            good.push(shop.supplier.price(ARTICLE).await.is_ok());
        }
        assert_eq!(good, [true, false, false, false, true, false, false]);
        shop.stage.until_state("OPEN", &shop.breaker).await;
        shop
    }

    /// The answer of the supplier itself, as soon as a call is the probe.
    async fn probe(&self) -> Result<Price, SupplierError> {
        let answer = RefCell::new(None);
        self.stage
            .until("a call is the probe", async || match self.supplier.price(ARTICLE).await {
                Ok(Priced::Cached(_)) => false,
                Ok(Priced::Live(price)) => answer.replace(Some(Ok(price))).is_none(),
                Err(error) => answer.replace(Some(Err(error))).is_none(),
            })
            .await;
        answer.into_inner().unwrap()
    }
}

/// Another process of the fleet, and a number of its calls that fail.
async fn fail(stage: &Stage, instance: &str, times: u32) -> Breaker {
    let breaker = stage.join(instance).await;
    let supplier = Supplier::new(breaker.clone(), stage.patient());
    for _ in 0..times {
        let error = supplier.price(ARTICLE).await.unwrap_err();
        assert!(matches!(error, SupplierError::Failed(_)), "{error}");
    }
    breaker
}

#[tokio::test]
async fn five_failures_open_it_whatever_goes_well_in_between() {
    let shop = Shop::with_an_open_breaker().await;
    assert_eq!(shop.stage.provider.stats().by_status, [(200, 2), (500, 5)].into());
}

#[tokio::test]
async fn a_rejected_call_gets_the_callers_cached_value() {
    let shop = Shop::with_an_open_breaker().await;
    for _ in 0..3 {
        assert_eq!(shop.supplier.price(ARTICLE).await.unwrap(), Priced::Cached(PRICE));
    }
    // Of an article that was never priced there is nothing to fall back to, and that is said.
    let error = shop.supplier.price(2).await.unwrap_err();
    assert!(matches!(error, SupplierError::NothingCached(_)), "{error}");
    assert_eq!(shop.stage.requests(), 7);
}

#[tokio::test]
async fn the_second_caller_during_the_probe_gets_the_callers_cached_value() {
    let shop = Shop::with_an_open_breaker().await;
    shop.stage.advance(OPEN);
    shop.stage.until_state("HALF_OPEN", &shop.breaker).await;

    // The probe is held up by a supplier that does not answer yet.
    shop.stage.provider.switch(Behaviour::answering(Answer::Hang));
    let supplier = Arc::clone(&shop.supplier);
    let probe = tokio::spawn(async move {
        // It asks until it is let in.
        while let Ok(Priced::Cached(_)) = supplier.price(ARTICLE).await {}
    });
    shop.stage.until("the probe is out", async || shop.stage.provider.stats().since_switch == 1).await;
    assert_eq!(shop.supplier.price(ARTICLE).await.unwrap(), Priced::Cached(PRICE));
    assert_eq!(shop.stage.provider.stats().since_switch, 1);

    // Its caller gives up: the probe comes back, and the next call is it.
    probe.abort();
    assert!(probe.await.unwrap_err().is_cancelled());
    shop.stage.until("the probe is back", async || shop.stage.page().await["probes_leased"] == 0).await;
    shop.stage.provider.switch(Behaviour::good());
    assert_eq!(shop.probe().await.unwrap(), PRICE);
    shop.stage.until_state("CLOSED", &shop.breaker).await;
}

#[tokio::test]
async fn a_failed_probe_opens_it_again() {
    let shop = Shop::with_an_open_breaker().await;
    shop.stage.advance(OPEN);
    shop.stage.until_state("HALF_OPEN", &shop.breaker).await;
    shop.stage.provider.switch(down());
    let error = shop.probe().await.unwrap_err();
    assert!(matches!(error, SupplierError::Failed(_)), "{error}");
    shop.stage.until_state("OPEN", &shop.breaker).await;
    assert_eq!(shop.supplier.price(ARTICLE).await.unwrap(), Priced::Cached(PRICE));
}

#[tokio::test]
async fn failures_older_than_the_window_are_forgotten() {
    let Shop { stage, .. } = Shop::open().await;
    stage.provider.switch(down());
    fail(&stage, "early", 4).await;
    stage.counted(4, 4).await;
    stage.advance(Duration::from_secs(11));
    let late = fail(&stage, "late", 4).await;
    stage.counted(4, 4).await;
    assert_eq!(stage.page().await["state"], "CLOSED");
    fail(&stage, "later", 1).await;
    stage.until_state("OPEN", &late).await;
}
