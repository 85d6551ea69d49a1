//! The provider's HTTP routes.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Arrivals, Behaviour, Defect, Settings, Shared, Stats};

/// Even a hanging answer ends: a caller without a timeout of its own must not hold a socket for ever.
const HANG_MAX: Duration = Duration::from_secs(600);

pub(super) fn router(shared: Arc<Shared>) -> Router {
    let business = Router::new()
        .route("/quote", get(quote))
        .route("/stock", get(stock))
        .route("/price", get(price))
        .route("/shipments", post(shipment))
        .layer(from_fn_with_state(Arc::clone(&shared), misbehave));
    Router::new()
        .route("/control", post(control))
        .route("/stats", get(stats))
        .route("/arrivals", get(arrivals))
        .merge(business)
        .layer(DefaultBodyLimit::max(4096))
        .with_state(shared)
}

/// Counts each business request and lets the behaviour in force have its way with it.
async fn misbehave(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let (slow_ms, answer) = shared.present().arrived();
    tokio::time::sleep(Duration::from_millis(slow_ms)).await;
    let response = match answer {
        _ if !authorized(&shared, request.headers()) => {
            refused(StatusCode::UNAUTHORIZED, "unknown token".to_owned())
        }
        Answer::Good | Answer::Failing { .. } => next.run(request).await,
        Answer::Status(status) => told_to(status),
        Answer::Hang => {
            tokio::time::sleep(HANG_MAX).await;
            told_to(StatusCode::GATEWAY_TIMEOUT.as_u16())
        }
        Answer::Malformed(defect) => malformed(&shared, defect),
    };
    shared.present().answered(response.status().as_u16());
    response
}

fn authorized(shared: &Shared, headers: &HeaderMap) -> bool {
    let Some(token) = &shared.settings.token else { return true };
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    shown.and_then(|value| value.strip_prefix("Bearer ")) == Some(token)
}

fn told_to(status: u16) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    refused(status, format!("this provider is told to answer {}", status.as_u16()))
}

fn malformed(shared: &Shared, defect: Defect) -> Response {
    let (amount, currency) = (&shared.settings.amount, &shared.settings.currency);
    match defect {
        Defect::MissingPrice => Json(json!({ "currency": currency })).into_response(),
        Defect::NegativePrice => {
            Json(json!({ "amount": format!("-{amount}"), "currency": currency })).into_response()
        }
        Defect::MissingCurrency => Json(json!({ "amount": amount })).into_response(),
        Defect::WrongCurrency => Json(json!({ "amount": amount, "currency": "XXX" })).into_response(),
        Defect::NotJson => "<html>It works!</html>".into_response(),
    }
}

#[derive(Deserialize)]
struct ForPostcode {
    postcode: String,
}

/// The provider checks postcodes itself, too: it delivers nowhere that begins with 00.
async fn quote(State(shared): State<Arc<Shared>>, Query(asked): Query<ForPostcode>) -> Response {
    let is_postcode = asked.postcode.len() == 5 && asked.postcode.bytes().all(|b| b.is_ascii_digit());
    if !is_postcode || asked.postcode.starts_with("00") {
        let shown: String = asked.postcode.chars().take(20).collect();
        return refused(StatusCode::BAD_REQUEST, format!("unknown postcode {shown:?}"));
    }
    let Settings { amount, currency, .. } = &shared.settings;
    Json(json!({ "amount": amount, "currency": currency })).into_response()
}

#[derive(Deserialize)]
struct ForSku {
    sku: String,
}

async fn stock(Query(asked): Query<ForSku>) -> Response {
    if is_sku(&asked.sku) { Json(json!({ "on_hand": 7 })).into_response() } else { unknown_sku(&asked.sku) }
}

async fn price(State(shared): State<Arc<Shared>>, Query(asked): Query<ForSku>) -> Response {
    if !is_sku(&asked.sku) {
        return unknown_sku(&asked.sku);
    }
    let Settings { amount, currency, .. } = &shared.settings;
    Json(json!({ "amount": amount, "currency": currency })).into_response()
}

/// The provider knows the articles whose number is `SKU-` and digits.
fn is_sku(sku: &str) -> bool {
    sku.strip_prefix("SKU-").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

fn unknown_sku(sku: &str) -> Response {
    let shown: String = sku.chars().take(20).collect();
    refused(StatusCode::BAD_REQUEST, format!("unknown article {shown:?}"))
}

#[derive(Deserialize)]
struct ForOrder {
    order: u64,
}

async fn shipment(Query(asked): Query<ForOrder>) -> Response {
    Json(json!({ "tracking": format!("TRACK-{}", asked.order) })).into_response()
}

async fn control(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let behaviour = match serde_json::from_slice::<Behaviour>(&body) {
        Ok(behaviour) => behaviour,
        Err(error) => return refused(StatusCode::BAD_REQUEST, format!("not a behaviour: {error}")),
    };
    match behaviour.checked() {
        Ok(behaviour) => {
            let mut present = shared.present();
            present.switch(behaviour);
            Json(present.stats()).into_response()
        }
        Err(error) => refused(StatusCode::BAD_REQUEST, error.to_string()),
    }
}

async fn stats(State(shared): State<Arc<Shared>>) -> Json<Stats> {
    Json(shared.present().stats())
}

async fn arrivals(State(shared): State<Arc<Shared>>) -> Json<Arrivals> {
    Json(shared.present().arrivals())
}

fn refused(status: StatusCode, message: String) -> Response {
    (status, Json(json!({ "error": message }))).into_response()
}
