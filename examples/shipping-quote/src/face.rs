//! The HTTP face of one process: what a browser or another service sees of the breaker, which is nothing.
//!
//! | asked | answered |
//! |---|---|
//! | a quote that is LIVE | 200 with `cents` and `currency` |
//! | a quote that is UNAVAILABLE | 503 with neither |
//! | a postcode that is none | 400, `BAD_POSTCODE` |
//! | what the provider refuses with 400 | 400, `PROVIDER_REFUSED` |
//! | what the provider refuses with 401 | 502, `PROVIDER_UNAUTHORIZED`: our token is wrong, not the customer's |
//! | what the provider garbles | 502, `PROVIDER_MALFORMED` |
//! | anything else | 502, `PROVIDER_ERROR` |
//!
//! No answer may be stored: a cached price is not a live one.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::desk::{Desk, QuoteError};
use crate::quote::Quote;
use crate::tally::Stats;
use crate::upstream::UpstreamError;

/// The routes `GET /quote?postcode=` and `GET /stats`.
pub fn router(desk: Arc<Desk>) -> Router {
    Router::new().route("/quote", get(quote)).route("/stats", get(stats)).with_state(desk)
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    postcode: String,
}

async fn quote(State(desk): State<Arc<Desk>>, asked: Result<Query<Asked>, QueryRejection>) -> Response {
    // A query that cannot be read holds no postcode: it is refused as such, and in the same words.
    let postcode = asked.map_or_else(|_| String::new(), |Query(asked)| asked.postcode);
    let (status, body) = match desk.quote(&postcode).await {
        Ok(Quote::Live(price)) => {
            let currency = price.currency.to_string();
            (StatusCode::OK, json!({ "status": "LIVE", "cents": price.cents, "currency": currency }))
        }
        Ok(Quote::Unavailable) => (StatusCode::SERVICE_UNAVAILABLE, json!({ "status": "UNAVAILABLE" })),
        Err(error) => (status_of(&error), described(&error)),
    };
    let no_store = (header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    (status, [no_store], Json(body)).into_response()
}

fn status_of(error: &QuoteError) -> StatusCode {
    match error {
        QuoteError::BadPostcode(_) | QuoteError::Upstream(UpstreamError::Status { status: 400, .. }) => {
            StatusCode::BAD_REQUEST
        }
        QuoteError::Upstream(_) => StatusCode::BAD_GATEWAY,
    }
}

fn described(error: &QuoteError) -> Value {
    json!({ "error": { "code": error.code(), "message": error.to_string() } })
}

async fn stats(State(desk): State<Arc<Desk>>) -> Json<Stats> {
    Json(desk.stats())
}
