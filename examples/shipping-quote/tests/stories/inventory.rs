//! A shop asks the warehouse for its stock: 5 failures in a row, open for 30 s, 2 probes, any failed one reopens.

use std::time::Duration;

use panelboard_client::Breaker;
use shipping_quote::inventory::{Inventory, InventoryError};
use shipping_quote::provider::Behaviour;
use shipping_quote::upstream::UpstreamError;

use crate::stage::{Stage, down};

const OPEN: Duration = Duration::from_secs(30);

struct Shop {
    stage: Stage,
    breaker: Breaker,
    inventory: Inventory,
}

impl Shop {
    async fn open() -> Self {
        let stage = Stage::set("inventory.yaml", "catalog/inventory").await;
        let breaker = stage.join("shop-1").await;
        let inventory = Inventory::new(breaker.clone(), stage.patient());
        Shop { stage, breaker, inventory }
    }

    async fn with_an_open_breaker() -> Self {
        let shop = Self::open().await;
        shop.stage.provider.switch(down());
        shop.fail(5).await;
        shop.stage.until_state("OPEN", &shop.breaker).await;
        shop
    }

    async fn with_a_half_open_breaker() -> Self {
        let shop = Self::with_an_open_breaker().await;
        shop.stage.advance(OPEN);
        shop.stage.until_state("HALF_OPEN", &shop.breaker).await;
        shop
    }

    async fn fail(&self, times: u32) {
        for _ in 0..times {
            let error = self.inventory.on_hand("SKU-1").await.unwrap_err();
            assert!(
                matches!(error, InventoryError::Upstream(UpstreamError::Status { status: 503, .. })),
                "{error}"
            );
        }
    }

    async fn succeed(&self) {
        self.stage.provider.switch(Behaviour::good());
        assert_eq!(self.inventory.on_hand("SKU-1").await.unwrap(), 7);
    }
}

#[tokio::test]
async fn five_failures_in_a_row_open_it() {
    let shop = Shop::with_an_open_breaker().await;
    let error = shop.inventory.on_hand("SKU-1").await.unwrap_err();
    assert!(matches!(error, InventoryError::Unavailable(_)), "{error}");
    assert_eq!(shop.stage.requests(), 5);
}

#[tokio::test]
async fn a_success_in_between_ends_the_row() {
    let shop = Shop::open().await;
    shop.stage.provider.switch(down());
    shop.fail(4).await;
    shop.succeed().await;
    shop.stage.provider.switch(down());
    shop.fail(4).await;
    shop.stage.cause_counted("http_503", 8).await;
    assert_eq!(shop.stage.page().await["state"], "CLOSED");
    shop.fail(1).await;
    shop.stage.until_state("OPEN", &shop.breaker).await;
}

#[tokio::test]
async fn half_open_comes_by_timer_with_no_request_at_all_and_every_watcher_hears_of_it() {
    let shop = Shop::with_an_open_breaker().await;
    let others = [shop.stage.join("shop-2").await, shop.stage.join("search-1").await];
    for watcher in &others {
        shop.stage.until_state("OPEN", watcher).await;
    }
    shop.stage.advance(OPEN - Duration::from_millis(1));
    assert_eq!(shop.stage.page().await["state"], "OPEN");
    shop.stage.advance(Duration::from_millis(1));
    for watcher in others.iter().chain([&shop.breaker]) {
        shop.stage.until_state("HALF_OPEN", watcher).await;
    }
    assert_eq!(shop.stage.requests(), 5);
    assert_eq!(shop.stage.page().await["probes_leased"], 0);
}

#[tokio::test]
async fn any_failed_probe_reopens_it() {
    let shop = Shop::with_a_half_open_breaker().await;
    shop.succeed().await;
    shop.stage.provider.switch(down());
    shop.fail(1).await;
    shop.stage.until_state("OPEN", &shop.breaker).await;
    assert_eq!(shop.stage.requests(), 7);
}

#[tokio::test]
async fn two_good_probes_close_it() {
    let shop = Shop::with_a_half_open_breaker().await;
    shop.succeed().await;
    shop.succeed().await;
    shop.stage.until_state("CLOSED", &shop.breaker).await;
    assert_eq!(shop.stage.requests(), 7);
}

#[tokio::test]
async fn validation_errors_never_count() {
    let shop = Shop::open().await;
    for bad in ["", "SKU 1", "SKU-1&sku=2", &"9".repeat(33)] {
        let error = shop.inventory.on_hand(bad).await.unwrap_err();
        assert!(matches!(error, InventoryError::BadSku(_)), "{error}");
    }
    assert_eq!(shop.stage.requests(), 0);

    // What the warehouse refuses itself is no failure either, and does not end a row of them.
    shop.stage.provider.switch(down());
    shop.fail(4).await;
    shop.stage.provider.switch(Behaviour::good());
    for _ in 0..10 {
        let error = shop.inventory.on_hand("UNKNOWN").await.unwrap_err();
        assert!(
            matches!(error, InventoryError::Upstream(UpstreamError::Status { status: 400, .. })),
            "{error}"
        );
    }
    shop.stage.cause_counted("http_400", 10).await;
    assert_eq!(shop.stage.page().await["state"], "CLOSED");
    shop.stage.provider.switch(down());
    shop.fail(1).await;
    shop.stage.until_state("OPEN", &shop.breaker).await;
}

#[tokio::test]
async fn state_failures_last_transition_and_time_open_can_be_read() {
    let shop = Shop::with_an_open_breaker().await;
    shop.stage.advance(Duration::from_secs(7));
    let page = shop.stage.page().await;
    assert_eq!(page["state"], "OPEN");
    assert_eq!(page["readings"][0]["matched"], 5);
    assert_eq!(page["in_state_for_ms"], 7_000);
    assert_eq!(page["remaining_ms"], 23_000);
    let last = &page["last_transition"];
    assert_eq!((last["from"].as_str(), last["to"].as_str()), (Some("STATE_CLOSED"), Some("STATE_OPEN")));
    let explanation = last["explanation"].as_str().unwrap();
    assert!(explanation.contains("5 consecutive failures >= 5"), "{explanation}");
    // The client knows the same.
    let status = shop.breaker.status();
    assert_eq!(status.state.to_string(), "OPEN");
    assert!(
        explanation.contains(&*status.explanation) || status.explanation.contains(explanation),
        "{status}"
    );
}
