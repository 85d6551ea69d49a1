//! Dependencies on real sockets that answer as they are asked to.

use std::{net::SocketAddr, pin::Pin, time::Duration};

use axum::{
    Router,
    extract::{Path, Query},
    http::{HeaderMap, HeaderName, StatusCode},
    routing::{any, get},
};
use tokio::{io::AsyncReadExt, net::TcpListener};
use tokio_stream::{Stream, StreamExt, wrappers::TcpListenerStream};
use tonic::{Code, Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_server::{Health, HealthServer},
};
use tonic_types::{ErrorDetails, StatusExt as _};

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

/// Serves until the test ends.
pub(crate) async fn serve(router: Router) -> SocketAddr {
    let (listener, addr) = listen().await;
    tokio::spawn(async move { axum::serve(listener, router).await });
    addr
}

/// `/status/503?retry-after=7` answers so, `/never` does not answer. What is under `/raw/…` is a gRPC service that
/// answers with the headers of the query and no body.
pub(crate) async fn http() -> SocketAddr {
    type Headers = Query<Vec<(String, String)>>;
    fn headers(said: Vec<(String, String)>) -> HeaderMap {
        said.iter()
            .map(|(name, value)| (HeaderName::try_from(name).unwrap(), value.parse().unwrap()))
            .collect()
    }
    let status = |Path(status): Path<u16>, Query(said): Headers| async move {
        (StatusCode::from_u16(status).unwrap(), headers(said))
    };
    let raw = |Query(said): Headers| async move { headers(said) };
    let router = Router::new()
        .route("/status/{status}", any(status))
        .route("/raw/{*method}", any(raw))
        .route("/page", any(|| async { axum::response::Html("<p>It works!</p>") }))
        .route("/never", get(std::future::pending::<()>));
    serve(router).await
}

/// Reads a request's first bytes, says this, and cuts the connection with an RST.
pub(crate) async fn cut_after(said: &'static [u8]) -> SocketAddr {
    let (listener, addr) = listen().await;
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _read = stream.read(&mut request).await;
            if said.is_empty() {
                stream.set_zero_linger().unwrap();
            } else {
                let _written = tokio::io::AsyncWriteExt::write_all(&mut stream, said).await;
            }
        }
    });
    addr
}

/// A name that no resolver resolves, and that none has to be asked for: a label has at most 63 characters.
pub(crate) fn nameless() -> String {
    format!("{}.example", "x".repeat(64))
}

/// Nothing listens there.
pub(crate) async fn nowhere() -> SocketAddr {
    listen().await.1
}

/// A tonic server; what is asked for is how it ends.
pub(crate) async fn grpc() -> SocketAddr {
    let (listener, addr) = listen().await;
    tokio::spawn(serve_grpc(listener));
    addr
}

/// The same, for a runtime that may end.
pub(crate) async fn serve_grpc(listener: TcpListener) {
    let server = tonic::transport::Server::builder().add_service(HealthServer::new(Told));
    server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
}

pub(crate) struct Told;

type Messages = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Health for Told {
    type WatchStream = Messages;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match end(&request.get_ref().service) {
            End::Status(Ok(())) => Ok(Response::new(HealthCheckResponse::default())),
            End::Status(Err(status)) => Err(status),
            End::Never => std::future::pending().await,
        }
    }

    /// Two messages come before the end, whatever it is.
    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Messages>, Status> {
        let two =
            tokio_stream::iter([Ok(HealthCheckResponse::default()), Ok(HealthCheckResponse::default())]);
        Ok(Response::new(match end(&request.get_ref().service) {
            End::Status(Ok(())) => Box::pin(two),
            End::Status(Err(status)) => Box::pin(two.chain(tokio_stream::once(Err(status)))),
            End::Never => Box::pin(two.chain(tokio_stream::pending())),
        }))
    }
}

enum End {
    Status(Result<(), Status>),
    Never,
}

fn end(asked: &str) -> End {
    let later = Duration::from_millis(90_500);
    End::Status(Err(match asked {
        "ok" => return End::Status(Ok(())),
        "never" => return End::Never,
        "not found" => Status::not_found("no such thing"),
        "unavailable" => Status::unavailable("down"),
        "cancelled" => Status::cancelled("by us"),
        "retry info" => {
            Status::with_error_details(Code::Unavailable, "later", ErrorDetails::with_retry_info(Some(later)))
        }
        "pushback" => {
            let mut status = Status::unavailable("later");
            status.metadata_mut().insert("grpc-retry-pushback-ms", "90500".parse().unwrap());
            status
        }
        other => panic!("{other}"),
    }))
}
