//! As a middleware of reqwest.

use std::time::Duration;

use panelboard_client::{Breaker, BreakerMiddleware, Fact, Reason, Rejected, State};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error};
use reqwest_retry::{RetryTransientMiddleware, policies::ExponentialBackoff};

use crate::{breaker, cause, servers, soon, touchy};

fn client(breaker: &Breaker) -> ClientWithMiddleware {
    ClientBuilder::new(::reqwest::Client::new()).with(BreakerMiddleware::new(breaker.clone())).build()
}

async fn get(client: &ClientWithMiddleware, url: String) -> Result<::reqwest::Response, Error> {
    soon("an answer", client.get(url).send()).await
}

#[tokio::test]
async fn the_policy_classifies_the_status() {
    let server = servers::http().await;
    for status in [404_u16, 503] {
        let breaker = touchy();
        let answer = get(&client(&breaker), format!("http://{server}/status/{status}")).await.unwrap();
        assert_eq!(answer.status().as_u16(), status);
        assert_eq!(cause(&breaker).await, format!("http_{status}"));
    }
    let breaker = breaker(2);
    for status in [503, 200, 503] {
        get(&client(&breaker), format!("http://{server}/status/{status}")).await.unwrap();
    }
    assert_eq!(breaker.state(), State::Closed);
}

#[tokio::test]
async fn what_breaks_on_the_way_is_told_apart() {
    for (url, expected) in [
        (format!("http://{}/", servers::nowhere().await), "connect"),
        (format!("http://{}/", servers::cut_after(b"").await), "reset"),
        (format!("http://{}/", servers::cut_after(b"hello\r\n\r\n").await), "malformed"),
        (format!("http://{}/", servers::nameless()), "dns"),
    ] {
        let breaker = touchy();
        let error = get(&client(&breaker), url).await.unwrap_err();
        assert_eq!(cause(&breaker).await, expected, "{error:?}");
    }
    let server = servers::http().await;
    let breaker = touchy();
    let never = client(&breaker).get(format!("http://{server}/never")).timeout(Duration::from_millis(50));
    let error = soon("a timeout", never.send()).await.unwrap_err();
    assert_eq!(cause(&breaker).await, "timeout", "{error:?}");
}

#[tokio::test]
async fn a_request_that_is_none_says_nothing() {
    let breaker = breaker(1);
    let error = get(&client(&breaker), "no-scheme://x".into()).await.unwrap_err();
    assert_eq!(breaker.state(), State::Closed, "{error:?}");
    assert_eq!(Fact::of_error(&error), Fact::Ignored("other"), "{error:?}");
}

#[tokio::test]
async fn a_rejection_is_found_in_the_error() {
    let server = servers::http().await;
    let breaker = touchy();
    let client = client(&breaker);
    get(&client, format!("http://{server}/status/503?retry-after=90")).await.unwrap();
    cause(&breaker).await;
    let error = get(&client, format!("http://{server}/status/200")).await.unwrap_err();
    assert!(matches!(&error, Error::Middleware(inner) if inner.is::<Rejected>()), "{error:?}");
    let rejected = Rejected::in_error(&error).unwrap();
    assert_eq!(rejected.reason(), Reason::Open);
    assert!(rejected.retry_after().is_some_and(|span| span > Duration::from_secs(80)), "{rejected}");
}

#[tokio::test]
async fn retries_outside_stop_when_the_breaker_opens() {
    let server = servers::http().await;
    let breaker = breaker(2);
    let retries = ExponentialBackoff::builder()
        .retry_bounds(Duration::from_millis(1), Duration::from_millis(2))
        .build_with_max_retries(1_000_000);
    let client = ClientBuilder::new(::reqwest::Client::new())
        .with(RetryTransientMiddleware::new_with_policy(retries))
        .with(BreakerMiddleware::new(breaker.clone()))
        .build();
    // Each attempt counts, and the one that is rejected is the last.
    let error = get(&client, format!("http://{server}/status/503")).await.unwrap_err();
    assert_eq!(cause(&breaker).await, "http_503");
    assert_eq!(Rejected::in_error(&error).unwrap().reason(), Reason::Open, "{error:?}");
}

#[tokio::test]
async fn a_closure_may_judge() {
    let server = servers::http().await;
    let breaker = touchy();
    let judge = BreakerMiddleware::with_classifier(breaker.clone(), |result| match result {
        Ok(answer) if answer.status() == 200 => Fact::Cause("malformed"),
        _ => Fact::Success,
    });
    let client = ClientBuilder::new(::reqwest::Client::new()).with(judge).build();
    get(&client, format!("http://{server}/status/503")).await.unwrap();
    assert_eq!(breaker.state(), State::Closed);
    get(&client, format!("http://{server}/status/200")).await.unwrap();
    assert_eq!(cause(&breaker).await, "malformed");
}
