//! On hyper's client and in an axum router.

use std::{error::Error, time::Duration};

use ::http::{Request, Response, StatusCode, header};
use axum::{Router, body::Body, routing::get};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper_util::{
    client::legacy::{Client as Hyper, connect::HttpConnector},
    rt::TokioExecutor,
};
use panelboard_client::{Breaker, BreakerLayer, Fact, Reason, Rejected, State, layer};
use tower::{Service, ServiceBuilder, ServiceExt};

use crate::{BOUND, breaker, cause, servers, soon, touchy};

type Client = Hyper<HttpConnector, Empty<Bytes>>;
type Answer = Result<Response<layer::WatchedBody<Incoming>>, layer::BoxError>;

fn client() -> Client {
    Hyper::builder(TokioExecutor::new()).build_http()
}

fn get_from(url: String) -> Request<Empty<Bytes>> {
    Request::get(url).body(Empty::new()).unwrap()
}

async fn ask(breaker: &Breaker, url: String) -> Answer {
    let service = ServiceBuilder::new().layer(BreakerLayer::new(breaker.clone())).service(client());
    soon("an answer", service.oneshot(get_from(url))).await
}

#[tokio::test]
async fn the_policy_classifies_the_status() {
    let server = servers::http().await;
    for status in [404_u16, 429, 500, 503] {
        let breaker = touchy();
        let answer = ask(&breaker, format!("http://{server}/status/{status}")).await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "the answer is passed on");
        assert_eq!(cause(&breaker).await, format!("http_{status}"));
    }
}

#[tokio::test]
async fn a_success_is_one_and_its_body_is_passed_on() {
    let server = servers::http().await;
    let breaker = breaker(2);
    // The streak of failures is broken by the success between them.
    for status in [503, 200, 503] {
        let answer = ask(&breaker, format!("http://{server}/status/{status}")).await.unwrap();
        assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    }
    assert_eq!(breaker.state(), State::Closed);
    ask(&breaker, format!("http://{server}/status/503")).await.unwrap();
    assert_eq!(cause(&breaker).await, "http_503");
}

#[tokio::test]
async fn a_rejection_is_an_error_that_says_so() {
    let server = servers::http().await;
    let breaker = touchy();
    ask(&breaker, format!("http://{server}/status/503?retry-after=90")).await.unwrap();
    cause(&breaker).await;
    let error = ask(&breaker, format!("http://{server}/status/200")).await.unwrap_err();
    let rejected = error.downcast_ref::<Rejected>().unwrap();
    assert_eq!(rejected.reason(), Reason::Open);
    // Longer than the policy's 30 s.
    assert!(rejected.retry_after().is_some_and(|span| span > Duration::from_secs(80)), "{rejected}");
    assert!(std::ptr::eq(Rejected::in_error(&*error).unwrap(), rejected));
}

#[tokio::test]
async fn retry_after_is_not_read_on_a_success() {
    let server = servers::http().await;
    let breaker = touchy();
    for status in [200, 503] {
        ask(
            &breaker,
            format!("http://{server}/status/{status}?retry-after={}", 90 * (500 - status.min(500))),
        )
        .await
        .unwrap();
    }
    cause(&breaker).await;
    let rejected = breaker.try_acquire().unwrap_err();
    assert!(rejected.retry_after().is_some_and(|span| span <= Duration::from_secs(31)), "{rejected}");
}

#[tokio::test]
async fn what_breaks_on_the_way_is_told_apart() {
    for (addr, expected) in [
        (servers::nowhere().await, "connect"),
        (servers::cut_after(b"").await, "reset"),
        (servers::cut_after(b"HTTP/1.1 200 OK\r\ncontent-").await, "reset"),
        (servers::cut_after(b"hello\r\n\r\n").await, "malformed"),
    ] {
        let breaker = touchy();
        let error = ask(&breaker, format!("http://{addr}/")).await.unwrap_err();
        assert_eq!(cause(&breaker).await, expected, "{error:?}");
    }
    let breaker = touchy();
    let error = ask(&breaker, format!("http://{}/", servers::nameless())).await.unwrap_err();
    assert_eq!(cause(&breaker).await, "dns", "{error:?}");
}

#[tokio::test]
async fn a_resolver_of_ones_own_fails_with_dns_too() {
    let resolver = tower::service_fn(|_: hyper_util::client::legacy::connect::dns::Name| async {
        Err::<std::iter::Empty<std::net::SocketAddr>, _>("the resolver is down")
    });
    let client = Hyper::builder(TokioExecutor::new()).build(HttpConnector::new_with_resolver(resolver));
    let breaker = touchy();
    let service = ServiceBuilder::new().layer(BreakerLayer::new(breaker.clone())).service(client);
    let error = soon("an answer", service.oneshot(get_from("http://shipping/".into()))).await.unwrap_err();
    assert_eq!(cause(&breaker).await, "dns", "{error:?}");
}

#[tokio::test]
async fn a_timeout_inside_is_a_failure_and_one_outside_abandons() {
    let server = servers::http().await;
    let short = Duration::from_millis(50);
    let inside = touchy();
    let service =
        ServiceBuilder::new().layer(BreakerLayer::new(inside.clone())).timeout(short).service(client());
    let error =
        soon("a timeout", service.oneshot(get_from(format!("http://{server}/never")))).await.unwrap_err();
    assert!(error.is::<tower::timeout::error::Elapsed>(), "the error is passed on: {error:?}");
    assert_eq!(cause(&inside).await, "timeout");

    let outside = breaker(2);
    for (path, span) in [("status/503", BOUND), ("never", short), ("status/503", BOUND)] {
        let service =
            ServiceBuilder::new().timeout(span).layer(BreakerLayer::new(outside.clone())).service(client());
        let answer = soon("an end", service.oneshot(get_from(format!("http://{server}/{path}")))).await;
        assert_eq!(answer.is_err(), path == "never");
    }
    // It said nothing: neither did it count, nor did it break the streak.
    assert_eq!(cause(&outside).await, "http_503");
}

#[tokio::test]
async fn shed_load_is_our_own_limit() {
    let server = servers::http().await;
    let breaker = touchy();
    let mut service = ServiceBuilder::new()
        .layer(BreakerLayer::new(breaker.clone()))
        .load_shed()
        .concurrency_limit(1)
        .service(client());
    let never = service.ready().await.unwrap().call(get_from(format!("http://{server}/never")));
    let error =
        service.ready().await.unwrap().call(get_from(format!("http://{server}/never"))).await.unwrap_err();
    assert!(error.is::<tower::load_shed::error::Overloaded>(), "{error:?}");
    drop(never);
    assert_eq!(cause(&breaker).await, "pool_exhausted");
}

#[tokio::test]
async fn a_closure_judges_any_service() {
    let breaker = touchy();
    let classify = |result: Result<&u32, &Box<dyn Error + Send + Sync>>| match result {
        Ok(7) => Fact::Cause("malformed"),
        Ok(_) => Fact::Success,
        Err(error) => Fact::of_error(&**error),
    };
    let mut service = ServiceBuilder::new()
        .layer(BreakerLayer::by_result(breaker.clone(), classify))
        .service(tower::service_fn(|n: u32| async move { Ok::<_, Box<dyn Error + Send + Sync>>(n) }));
    assert_eq!(service.ready().await.unwrap().call(6).await.unwrap(), 6);
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(service.ready().await.unwrap().call(7).await.unwrap(), 7);
    assert_eq!(cause(&breaker).await, "malformed");
    let error = service.ready().await.unwrap().call(8).await.unwrap_err();
    assert_eq!(error.downcast_ref::<Rejected>().unwrap().reason(), Reason::Open);
}

#[tokio::test]
async fn an_axum_router_answers_a_rejection() {
    let breaker = touchy();
    let down = get(|| async { StatusCode::BAD_GATEWAY });
    let up = get(|| async { "12.30" });
    let router =
        Router::new().route("/down", down).route("/up", up).layer(BreakerLayer::answering(breaker.clone()));
    let server = servers::serve(router).await;
    let get = async |path: &str| {
        soon("an answer", client().request(get_from(format!("http://{server}/{path}")))).await.unwrap()
    };

    let answer = get("up").await;
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "12.30");
    assert_eq!(get("down").await.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(cause(&breaker).await, "http_502");
    let answer = get("up").await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    let secs: u64 = answer.headers()[header::RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert!((1..=31).contains(&secs), "{secs}");
    assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
}

#[tokio::test]
async fn a_rejection_is_among_the_answers_extensions() {
    let breaker = touchy();
    breaker.try_acquire().unwrap().failure("timeout");
    cause(&breaker).await;
    let router = Router::new().route("/", get(|| async {})).layer(BreakerLayer::answering(breaker));
    let answer = router.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.extensions().get::<Rejected>().unwrap().breaker(), "quick/quote");
}
