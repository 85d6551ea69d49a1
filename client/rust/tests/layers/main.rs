//! The layers against real servers: the outcomes that a breaker sees through tonic, hyper, axum and reqwest.

mod cost;
mod errors;
mod grpc;
mod http;
#[path = "../it/panel.rs"]
#[allow(dead_code, reason = "this binary kills no server")]
mod panel;
mod probes;
mod reqwest;
mod servers;

use std::time::{Duration, Instant};

use panelboard_client::{
    Breaker, Client, State,
    policy::{Classification, PolicySpec, Rule},
};

/// Far longer than anything takes here that works.
const BOUND: Duration = Duration::from_secs(20);

/// Waits until something is true.
async fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < BOUND, "not in {BOUND:?}: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits for something that must come.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.unwrap_or_else(|_| panic!("not in {BOUND:?}: {what}"))
}

/// A breaker without a server that trips at so many failures in a row, and then says what the last cause was.
/// Whatever is not a success is a failure to it.
fn breaker(threshold: u32) -> Breaker {
    let counted = ["cancelled", "pool_exhausted", "http_404", "http_429", "grpc_cancelled", "grpc_not_found"];
    let mut spec = PolicySpec {
        trip: vec![Rule::ConsecutiveFailures { threshold }],
        classification: Classification {
            failure: counted.map(String::from).to_vec(),
            ..Classification::default()
        },
        ..PolicySpec::default()
    };
    spec.open.wait = Duration::from_secs(30);
    spec.open.jitter_hundredths = 0;
    Client::builder("http://127.0.0.1:1").policy(spec).build().unwrap().breaker("quick/quote")
}

/// A breaker that the first failure trips.
fn touchy() -> Breaker {
    breaker(1)
}

/// The cause of the failure that tripped a breaker.
async fn cause(breaker: &Breaker) -> String {
    eventually(&format!("{} is OPEN", breaker.status()), || breaker.state() == State::Open).await;
    let said = breaker.status().explanation.to_string();
    let (_, cause) = said.split_once("top cause ").unwrap_or_else(|| panic!("no cause in {said:?}"));
    cause.split(' ').next().unwrap().into()
}
