//! HTTP for machines that look and for people with a browser: `/metrics`, `/healthz`, `/readyz`, `/breakers`. It only
//! reads.

mod breakers;
mod json;

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;

use crate::{metrics::Exporter, parts::Parts};

#[derive(Clone)]
struct App {
    parts: Parts,
    exporter: Arc<Exporter>,
}

/// Serves until it is dropped.
pub(crate) async fn serve(parts: Parts, listener: TcpListener) {
    let app = App { exporter: Arc::new(Exporter::default()), parts };
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route("/breakers", get(breakers::list))
        .route("/breakers/{*name}", get(breakers::one))
        .fallback(|| async {
            (StatusCode::NOT_FOUND, "not found: try /breakers, /metrics, /healthz or /readyz\n")
        })
        .with_state(app);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "HTTP ended");
    }
}

/// Whether this process can answer: never tied to breakers or to the disk.
async fn ready(State(app): State<App>) -> impl IntoResponse {
    if app.parts.drain.has_started() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else {
        (StatusCode::OK, "ready\n")
    }
}

async fn metrics(State(app): State<App>) -> impl IntoResponse {
    let text = app.exporter.scrape(&app.parts).await;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}
