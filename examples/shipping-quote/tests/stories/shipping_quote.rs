//! A shop quotes shipping prices: 50 % of the last 4, at least 4, open for 10 s, 2 probes, a timeout of 300 ms.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use panelboard_client::Breaker;
use reqwest::{StatusCode, header};
use shipping_quote::desk::{Desk, QuoteError};
use shipping_quote::face;
use shipping_quote::provider::{Answer, Behaviour, Defect, Settings};
use shipping_quote::quote::{Currency, Price, Quote};
use shipping_quote::upstream::UpstreamError;
use tokio::net::TcpListener;

use crate::stage::{Stage, down};

const POSTCODE: &str = "12345";
const OPEN: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_millis(300);

struct Shop {
    stage: Stage,
    breaker: Breaker,
    desk: Arc<Desk>,
}

impl Shop {
    async fn open() -> Self {
        Self::open_with(Settings::default()).await
    }

    async fn open_with(settings: Settings) -> Self {
        let stage = Stage::set_with("shipping-quote.yaml", "checkout/shipping-quote", settings).await;
        let breaker = stage.join("shop-1").await;
        let desk = Arc::new(Desk::new(breaker.clone(), stage.patient()));
        Shop { stage, breaker, desk }
    }

    /// A shop whose breaker has just opened, because the provider is down.
    async fn with_an_open_breaker() -> Self {
        let shop = Self::open().await;
        shop.stage.provider.switch(down());
        for _ in 0..4 {
            assert_eq!(shop.quote().await, Ok(Quote::Unavailable));
        }
        shop.stage.until_state("OPEN", &shop.breaker).await;
        shop
    }

    /// The same, after the wait.
    async fn with_a_half_open_breaker() -> Self {
        let shop = Self::with_an_open_breaker().await;
        shop.stage.advance(OPEN);
        shop.stage.until_state("HALF_OPEN", &shop.breaker).await;
        shop
    }

    async fn quote(&self) -> Result<Quote, QuoteError> {
        self.desk.quote(POSTCODE).await
    }

    /// What a defective answer ends as, and that it counts as a failure.
    async fn refuses(&self, defect: Defect) -> String {
        self.stage.provider.switch(Behaviour::answering(Answer::Malformed(defect)));
        let error = self.quote().await.unwrap_err();
        assert_eq!(error.code(), "PROVIDER_MALFORMED");
        self.stage.counted(1, 1).await;
        assert_eq!(self.stage.seen("malformed").await, 1);
        error.to_string()
    }
}

fn live(cents: u64) -> Quote {
    Quote::Live(Price { cents, currency: Currency::Eur })
}

#[tokio::test]
async fn a_live_quote_is_converted() {
    let shop = Shop::open().await;
    assert_eq!(shop.quote().await, Ok(live(1234)));
    assert_eq!(shop.stage.requests(), 1);
}

#[tokio::test]
async fn an_unavailable_quote_has_no_price_after_exactly_one_provider_request() {
    let shop = Shop::open().await;
    shop.stage.provider.switch(down());
    assert_eq!(shop.quote().await, Ok(Quote::Unavailable));
    assert_eq!(shop.stage.requests(), 1);
}

#[tokio::test]
async fn below_the_minimum_it_stays_closed() {
    let shop = Shop::open().await;
    shop.stage.provider.switch(down());
    for _ in 0..3 {
        assert_eq!(shop.quote().await, Ok(Quote::Unavailable));
    }
    shop.stage.counted(3, 3).await;
    assert_eq!(shop.stage.page().await["state"], "CLOSED");
    shop.stage.provider.switch(Behaviour::good());
    assert_eq!(shop.quote().await, Ok(live(1234)));
    assert_eq!(shop.stage.requests(), 4);
}

#[tokio::test]
async fn two_successes_then_two_failures_open_it() {
    let shop = Shop::open().await;
    for _ in 0..2 {
        assert_eq!(shop.quote().await, Ok(live(1234)));
    }
    shop.stage.provider.switch(down());
    for _ in 0..2 {
        assert_eq!(shop.quote().await, Ok(Quote::Unavailable));
    }
    shop.stage.until_state("OPEN", &shop.breaker).await;
    assert_eq!(shop.stage.requests(), 4);
}

#[tokio::test]
async fn four_failures_open_it() {
    let shop = Shop::with_an_open_breaker().await;
    assert_eq!(shop.stage.requests(), 4);
    let said = shop.breaker.status().explanation.to_string();
    assert!(said.contains("failure rate 100 % >= 50 %"), "{said}");
}

#[tokio::test]
async fn a_rejected_quote_is_unavailable_without_a_request() {
    let shop = Shop::with_an_open_breaker().await;
    assert_eq!(shop.quote().await, Ok(Quote::Unavailable));
    assert_eq!(shop.stage.requests(), 4);
    assert_eq!(shop.desk.stats().rejected, 1);
}

#[tokio::test]
async fn a_good_probe_is_a_live_quote_and_two_of_them_close_it() {
    let shop = Shop::with_a_half_open_breaker().await;
    shop.stage.provider.switch(Behaviour::good());
    assert_eq!(shop.quote().await, Ok(live(1234)));
    shop.stage.until("the first probe is back", async || shop.stage.page().await["probes_leased"] == 0).await;
    assert_eq!(shop.stage.page().await["state"], "HALF_OPEN");
    assert_eq!(shop.quote().await, Ok(live(1234)));
    shop.stage.until_state("CLOSED", &shop.breaker).await;
    assert_eq!(shop.stage.requests(), 6);
}

#[tokio::test]
async fn a_failed_probe_opens_it_again() {
    let shop = Shop::with_a_half_open_breaker().await;
    assert_eq!(shop.quote().await, Ok(Quote::Unavailable));
    assert_eq!(shop.stage.requests(), 5);
    shop.stage.until_state("OPEN", &shop.breaker).await;
    assert_eq!(shop.quote().await, Ok(Quote::Unavailable));
    assert_eq!(shop.stage.requests(), 5);
}

#[tokio::test]
async fn a_400_is_excluded_and_propagates() {
    let shop = Shop::open().await;
    for _ in 0..6 {
        // The provider delivers nowhere that begins with 00.
        let error = shop.desk.quote("00123").await.unwrap_err();
        assert_eq!(error.code(), "PROVIDER_REFUSED");
    }
    shop.stage.cause_counted("http_400", 6).await;
    shop.stage.counted(0, 0).await;
    assert_eq!(shop.quote().await, Ok(live(1234)));
    assert_eq!(shop.stage.requests(), 7);
}

#[tokio::test]
async fn a_401_propagates_and_is_seen_by_cause() {
    let settings = Settings { token: Some("another".to_owned()), ..Settings::default() };
    let shop = Shop::open_with(settings).await;
    for _ in 0..6 {
        let error = shop.quote().await.unwrap_err();
        assert_eq!(error.code(), "PROVIDER_UNAUTHORIZED");
    }
    shop.stage.cause_counted("http_401", 6).await;
    shop.stage.counted(0, 0).await;
    assert_eq!(shop.stage.page().await["state"], "CLOSED");
}

#[tokio::test]
async fn a_bad_postcode_makes_no_request() {
    let shop = Shop::with_an_open_breaker().await;
    let before = shop.desk.stats();
    for bad in ["", "1234", "123456", "1234x", "12 45", "١٢٣٤٥"] {
        // Although the breaker is OPEN: the postcode is checked before it is asked.
        let error = shop.desk.quote(bad).await.unwrap_err();
        assert_eq!(error.code(), "BAD_POSTCODE", "{bad}");
    }
    assert_eq!(shop.stage.requests(), 4);
    assert_eq!(shop.desk.stats().freshness, before.freshness, "the breaker was not asked");
}

#[tokio::test]
async fn a_negative_price_is_refused() {
    let said = Shop::open().await.refuses(Defect::NegativePrice).await;
    assert_eq!(said, "malformed answer: the amount \"-12.34\" is negative");
}

#[tokio::test]
async fn a_missing_price_is_refused() {
    let said = Shop::open().await.refuses(Defect::MissingPrice).await;
    assert_eq!(said, "malformed answer: the answer has no amount");
}

#[tokio::test]
async fn a_missing_currency_is_refused() {
    let said = Shop::open().await.refuses(Defect::MissingCurrency).await;
    assert_eq!(said, "malformed answer: the answer has no currency");
}

#[tokio::test]
async fn a_quoted_zero_is_a_price() {
    let shop = Shop::open_with(Settings { amount: "0.00".to_owned(), ..Settings::default() }).await;
    assert_eq!(shop.quote().await, Ok(live(0)));
    shop.stage.counted(0, 1).await;
}

#[tokio::test]
async fn a_provider_that_takes_1_5_s_ends_as_unavailable() {
    let shop = Shop::open().await;
    shop.stage.provider.switch(Behaviour::good().slow(Duration::from_millis(1500)));
    let desk = Desk::new(shop.breaker.clone(), shop.stage.upstream(TIMEOUT));
    assert_eq!(desk.quote(POSTCODE).await, Ok(Quote::Unavailable));
    assert_eq!(shop.stage.provider.stats().by_status, [].into(), "it had no time to answer");
    assert_eq!(shop.stage.requests(), 1);
    shop.stage.cause_counted("timeout", 1).await;
    shop.stage.counted(1, 1).await;
}

#[tokio::test]
async fn status_and_cache_header_of_the_face_for_live_and_for_unavailable() {
    let shop = Shop::open().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/quote?postcode={POSTCODE}", listener.local_addr().unwrap());
    let server = tokio::spawn(axum::serve(listener, face::router(Arc::clone(&shop.desk))).into_future());
    let browser = reqwest::Client::builder().no_proxy().build().unwrap();
    let ask = async || {
        let response = browser.get(&url).send().await.unwrap();
        let cached = response.headers()[header::CACHE_CONTROL].to_str().unwrap().to_owned();
        (response.status(), cached, response.json::<serde_json::Value>().await.unwrap())
    };

    let (status, cached, body) = ask().await;
    assert_eq!((status, cached.as_str()), (StatusCode::OK, "no-store"));
    assert_eq!(body, serde_json::json!({ "status": "LIVE", "cents": 1234, "currency": "EUR" }));

    shop.stage.provider.switch(down());
    let (status, cached, body) = ask().await;
    assert_eq!((status, cached.as_str()), (StatusCode::SERVICE_UNAVAILABLE, "no-store"));
    assert_eq!(body, serde_json::json!({ "status": "UNAVAILABLE" }));
    server.abort();
}

#[tokio::test]
async fn call_runs_its_future_on_the_callers_task() {
    let shop = Shop::open().await;
    let caller = tokio::spawn(async move {
        let outside = tokio::task::id();
        let inside = shop.breaker.call(|| async { Ok::<_, UpstreamError>(tokio::task::id()) }).await;
        (outside, inside.unwrap(), shop)
    });
    let (outside, inside, shop) = caller.await.unwrap();
    assert_eq!(inside, outside);
    // And so it may hold what cannot be sent to another thread.
    let ran = Rc::new(Cell::new(false));
    let call = || async {
        ran.set(true);
        Ok::<_, UpstreamError>(())
    };
    assert_eq!(shop.breaker.call(call).await, Ok(()));
    assert!(ran.get());
}
