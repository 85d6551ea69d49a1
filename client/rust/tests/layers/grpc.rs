//! On a tonic channel: the status is in the headers, in the trailers, or nowhere.

use std::{error::Error, net::SocketAddr, time::Duration};

use panelboard_client::{
    Breaker, BreakerLayer, Reason, Rejected, State, layer::BreakerService, testing::FakePanel,
};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient, health_server::HealthServer};
use tower::ServiceBuilder;

use crate::{breaker, cause, eventually, servers, soon, touchy};

type Client = HealthClient<BreakerService<Channel>>;

fn channel(server: SocketAddr) -> Channel {
    Endpoint::new(format!("http://{server}")).unwrap().connect_lazy()
}

fn client(server: SocketAddr, breaker: &Breaker) -> Client {
    HealthClient::new(
        ServiceBuilder::new().layer(BreakerLayer::new(breaker.clone())).service(channel(server)),
    )
}

fn asking(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.into() }
}

async fn check(client: &mut Client, service: &str) -> Result<(), Status> {
    soon("an answer", client.check(asking(service))).await.map(|_| ())
}

/// Reads a stream to its end.
async fn watch(client: &mut Client, service: &str) -> Result<usize, Status> {
    let mut stream = soon("headers", client.watch(asking(service))).await?.into_inner();
    let mut messages = 0;
    while soon("a message", stream.message()).await?.is_some() {
        messages += 1;
    }
    Ok(messages)
}

#[tokio::test]
async fn a_status_in_the_headers_is_the_outcome() {
    let server = servers::grpc().await;
    for (asked, code, expected) in [
        ("unavailable", Code::Unavailable, "grpc_unavailable"),
        ("not found", Code::NotFound, "grpc_not_found"),
        ("cancelled", Code::Cancelled, "grpc_cancelled"),
    ] {
        let breaker = touchy();
        let status = check(&mut client(server, &breaker), asked).await.unwrap_err();
        assert_eq!(status.code(), code, "the status is passed on");
        assert_eq!(cause(&breaker).await, expected);
    }
}

#[tokio::test]
async fn a_status_in_the_trailers_is_the_outcome() {
    let server = servers::grpc().await;
    let breaker = touchy();
    let mut client = client(server, &breaker);
    assert_eq!(watch(&mut client, "ok").await.unwrap(), 2);
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(watch(&mut client, "unavailable").await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(cause(&breaker).await, "grpc_unavailable");
}

#[tokio::test]
async fn a_good_call_breaks_a_streak() {
    let server = servers::grpc().await;
    for through in ["check", "watch"] {
        let breaker = breaker(2);
        let mut client = client(server, &breaker);
        assert!(check(&mut client, "unavailable").await.is_err());
        match through {
            "check" => check(&mut client, "ok").await.unwrap(),
            _ => drop(watch(&mut client, "ok").await.unwrap()),
        }
        assert!(check(&mut client, "unavailable").await.is_err());
        assert_eq!(breaker.state(), State::Closed, "{through}");
        assert!(check(&mut client, "unavailable").await.is_err());
        assert_eq!(cause(&breaker).await, "grpc_unavailable");
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_early_says_nothing() {
    let server = servers::grpc().await;
    let breaker = breaker(2);
    let mut client = client(server, &breaker);
    assert!(check(&mut client, "unavailable").await.is_err());
    let mut stream = soon("headers", client.watch(asking("never"))).await.unwrap().into_inner();
    assert!(soon("a message", stream.message()).await.unwrap().is_some());
    drop(stream);
    assert_eq!(breaker.state(), State::Closed);
    // The streak goes on, as if nothing had been between.
    assert!(check(&mut client, "unavailable").await.is_err());
    assert_eq!(cause(&breaker).await, "grpc_unavailable");
}

#[tokio::test]
async fn the_panel_is_told_what_became_of_each_call() {
    let server = servers::grpc().await;
    let panel = FakePanel::new();
    let breaker = panel.client().breaker("quick/quote");
    panel.close("quick/quote").await;
    let mut client = client(server, &breaker);
    watch(&mut client, "ok").await.unwrap();
    for asked in ["not found", "unavailable"] {
        watch(&mut client, asked).await.unwrap_err();
    }
    drop(soon("headers", client.watch(asking("never"))).await.unwrap());
    let told = panel.reported_calls("quick/quote", 4).await;
    assert_eq!((told.successes, told.failures, told.ignored, told.abandoned), (1, 1, 1, 1), "{told:?}");
    let causes = [("grpc_not_found".into(), 1), ("grpc_unavailable".into(), 1)];
    assert_eq!(told.causes, causes.into());
}

#[tokio::test]
async fn headers_only_takes_a_stream_that_begins_for_a_success() {
    let server = servers::grpc().await;
    let breaker = breaker(2);
    let layer = BreakerLayer::new(breaker.clone()).headers_only();
    let mut client = HealthClient::new(ServiceBuilder::new().layer(layer).service(channel(server)));
    assert!(check(&mut client, "unavailable").await.is_err());
    let stream = soon("headers", client.watch(asking("never"))).await.unwrap();
    assert!(check(&mut client, "unavailable").await.is_err());
    assert_eq!(breaker.state(), State::Closed);
    drop(stream);
    assert!(check(&mut client, "unavailable").await.is_err());
    assert_eq!(cause(&breaker).await, "grpc_unavailable");
}

#[tokio::test]
async fn a_rejection_is_the_status_unavailable_that_wraps_it() {
    let server = servers::grpc().await;
    let breaker = touchy();
    let mut client = client(server, &breaker);
    assert!(check(&mut client, "unavailable").await.is_err());
    cause(&breaker).await;
    let status = check(&mut client, "ok").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().starts_with("circuit breaker \"quick/quote\" is OPEN ("), "{status}");
    let rejected = Rejected::in_error(&status).unwrap();
    assert_eq!(rejected.reason(), Reason::Open);
    assert!(status.source().unwrap().is::<Rejected>());
    let pushback: u64 =
        status.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap().parse().unwrap();
    let span = rejected.retry_after().unwrap();
    assert_eq!(u128::from(pushback), span.as_nanos().div_ceil(1_000_000));
    let info = tonic_types::StatusExt::get_details_retry_info(&status).unwrap();
    assert_eq!(info.retry_delay, Some(span));
}

#[tokio::test]
async fn a_dependency_that_asks_for_time_is_given_it() {
    let server = servers::grpc().await;
    for asked in ["retry info", "pushback"] {
        for streaming in [false, true] {
            let breaker = touchy();
            let mut client = client(server, &breaker);
            let status = match streaming {
                false => check(&mut client, asked).await.unwrap_err(),
                true => watch(&mut client, asked).await.unwrap_err(),
            };
            assert_eq!(status.code(), Code::Unavailable);
            cause(&breaker).await;
            let rejected = breaker.try_acquire().unwrap_err();
            let enough = rejected.retry_after().is_some_and(|span| span > Duration::from_secs(80));
            assert!(enough, "{asked}, streaming {streaming}: {rejected}");
        }
    }
}

#[tokio::test]
async fn what_breaks_on_the_way_is_told_apart() {
    for (addr, expected) in [(servers::nowhere().await, "connect"), (servers::cut_after(b"").await, "reset")]
    {
        let breaker = touchy();
        let status = check(&mut client(addr, &breaker), "ok").await.unwrap_err();
        assert_eq!(cause(&breaker).await, expected, "{status:?}");
    }
}

/// As rustls fails, without its weight.
fn corrupt() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, "received corrupt message")
}

#[tokio::test]
async fn what_fails_while_connecting_is_known_by_its_place() {
    for (fails, expected) in [
        (corrupt as fn() -> std::io::Error, "tls"),
        (|| std::io::Error::other("no socket to be had"), "connect"),
    ] {
        let breaker = touchy();
        let connector = tower::service_fn(move |_: http::Uri| async move {
            Err::<hyper_util::rt::TokioIo<tokio::net::TcpStream>, _>(fails())
        });
        let channel = Endpoint::from_static("http://shipping").connect_with_connector_lazy(connector);
        let service = ServiceBuilder::new().layer(BreakerLayer::new(breaker.clone())).service(channel);
        let status = soon("an answer", HealthClient::new(service).check(asking("ok"))).await.unwrap_err();
        assert_eq!(cause(&breaker).await, expected, "{status:?}");
    }
}

#[tokio::test]
async fn a_page_that_begins_is_no_stream_that_begins() {
    let server = servers::http().await;
    let breaker = touchy();
    let layer = BreakerLayer::new(breaker.clone()).headers_only();
    let service = ServiceBuilder::new().layer(layer).service(channel(server));
    let request = http::Request::post(format!("http://{server}/page"))
        .header("content-type", "application/grpc")
        .body(tonic::body::Body::empty())
        .unwrap();
    soon("an answer", tower::ServiceExt::oneshot(service, request)).await.unwrap();
    assert_eq!(cause(&breaker).await, "grpc_unknown");
}

#[tokio::test]
async fn an_answer_that_ends_without_trailers_is_unknown_to_whoever_reads_it() {
    let breaker = touchy();
    let answer = tower::service_fn(|_: http::Request<()>| async {
        let message = http_body_util::Full::new(hyper::body::Bytes::from_static(&[0; 5]));
        let answer = http::Response::builder().header("content-type", "application/grpc").body(message);
        Ok::<_, std::convert::Infallible>(answer.unwrap())
    });
    let service = ServiceBuilder::new().layer(BreakerLayer::new(breaker.clone())).service(answer);
    let request = http::Request::post("/").header("content-type", "application/grpc").body(()).unwrap();
    let mut body = tower::ServiceExt::oneshot(service, request).await.unwrap().into_body();
    // As hyper's server reads: it stops where the body says that it is at its end.
    while !http_body::Body::is_end_stream(&body) {
        drop(http_body_util::BodyExt::frame(&mut body).await);
    }
    drop(body);
    assert_eq!(cause(&breaker).await, "grpc_unknown");
}

#[tokio::test]
async fn tonics_own_timeout_is_one() {
    let server = servers::grpc().await;
    let breaker = touchy();
    let channel =
        Endpoint::new(format!("http://{server}")).unwrap().timeout(Duration::from_millis(50)).connect_lazy();
    let service = ServiceBuilder::new().layer(BreakerLayer::new(breaker.clone())).service(channel);
    let status = soon("a timeout", HealthClient::new(service).check(asking("never"))).await.unwrap_err();
    assert_eq!(status.code(), Code::Cancelled, "as tonic has it");
    assert_eq!(cause(&breaker).await, "timeout");
}

#[tokio::test]
async fn an_answer_that_is_none_is_unknown_or_the_proxys() {
    let server = servers::http().await;
    for (answer, expected) in [
        // A status that is none, none at all, and no gRPC.
        ("raw/x?content-type=application/grpc&grpc-status=99", "grpc_unknown"),
        ("raw/x?content-type=application/grpc&grpc-status=x", "grpc_unknown"),
        ("raw/x?content-type=application/grpc", "grpc_unknown"),
        ("raw/x?content-type=text/html", "grpc_unknown"),
        ("raw/x?content-type=application/grpcx", "grpc_unknown"),
        // Details that are no base64, or no message.
        (
            "raw/x?content-type=application/grpc&grpc-status=14&grpc-status-details-bin=%21%21",
            "grpc_unavailable",
        ),
        (
            "raw/x?content-type=application/grpc&grpc-status=14&grpc-status-details-bin=AAAA",
            "grpc_unavailable",
        ),
        ("status/503?content-type=text/html", "http_503"),
        ("status/429?content-type=application/grpc&grpc-status=0", "http_429"),
    ] {
        let breaker = touchy();
        let request = http::Request::post(format!("http://{server}/{answer}"))
            .header("content-type", "application/grpc+proto")
            .body(tonic::body::Body::empty())
            .unwrap();
        let service =
            ServiceBuilder::new().layer(BreakerLayer::new(breaker.clone())).service(channel(server));
        let response = soon("an answer", tower::ServiceExt::oneshot(service, request)).await.unwrap();
        let body = http_body_util::BodyExt::collect(response.into_body()).await;
        assert!(body.is_ok(), "{body:?}");
        assert_eq!(cause(&breaker).await, expected, "{answer}");
    }
}

#[tokio::test]
async fn a_connection_that_dies_under_a_stream_is_a_failure() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = listener.into_std().unwrap();
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        servers::serve_grpc(listener).await
    });
    let breaker = touchy();
    let mut client = client(addr, &breaker);
    let mut stream = soon("headers", client.watch(asking("never"))).await.unwrap().into_inner();
    assert!(soon("a message", stream.message()).await.unwrap().is_some());
    runtime.shutdown_background();
    let status = soon("an end", async {
        loop {
            if let Err(status) = stream.message().await {
                return status;
            }
        }
    })
    .await;
    assert_eq!(cause(&breaker).await, "reset", "{status:?}");
}

#[tokio::test]
async fn a_tonic_server_answers_a_rejection() {
    let breaker = touchy();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder()
        .layer(BreakerLayer::answering(breaker.clone()))
        .add_service(HealthServer::new(servers::Told));
    tokio::spawn(server.serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener)));
    let mut client = HealthClient::new(channel(addr));
    soon("an answer", client.check(asking("ok"))).await.unwrap();
    assert_eq!(soon("a status", client.check(asking("unavailable"))).await.unwrap_err().message(), "down");
    assert_eq!(cause(&breaker).await, "grpc_unavailable");
    let status = soon("a rejection", client.check(asking("ok"))).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(status.message(), "circuit breaker \"quick/quote\" is OPEN", "and no more");
    let info = tonic_types::StatusExt::get_details_retry_info(&status).unwrap();
    assert!(info.retry_delay.is_some_and(|span| span <= Duration::from_secs(31)), "{info:?}");
    assert!(status.metadata().contains_key("grpc-retry-pushback-ms"));
}

#[tokio::test]
async fn clones_are_one_breaker() {
    let server = servers::grpc().await;
    let breaker = breaker(3);
    let client = client(server, &breaker);
    for _ in 0..3 {
        assert!(check(&mut client.clone(), "unavailable").await.is_err());
    }
    eventually("OPEN", || breaker.state() == State::Open).await;
}
