//! The Rust client of Panelboard.
//!
//! A [`Client`] keeps one connection to a Panelboard server and knows, in local memory, whether each [`Breaker`]
//! admits calls. Asking costs no network hop; outcomes are counted here and reported in the background. If the server
//! is away, each breaker goes on by itself with the same policy: see [`Freshness`].
//!
//! ```no_run
//! # async fn fetch() -> Result<u64, std::io::Error> { Ok(1) }
//! # fn fallback(after: Option<std::time::Duration>) {}
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use panelboard_client::Client;
//!
//! let panel = Client::builder("http://localhost:50051").build()?; // lazy: the application starts without us
//! let quote = panel.breaker("checkout/shipping-quote");           // a cheap handle, made once
//!
//! match quote.try_acquire() {
//!     Ok(permit) => permit.record(fetch().await).map(|_| ())?,   // or .success() .failure(cause) .ignore()
//!     Err(rejected) => fallback(rejected.retry_after()),
//! }
//! let price = quote.call(|| fetch()).await;                       // asks, times, records
//! # Ok(()) }
//! ```
//!
//! - **Make the client once per process and a handle once per dependency**, never per call: [names](guide::names).
//! - **Not every error is a failure.** Tell apart what says nothing about the dependency: [outcomes](guide::outcomes).
//! - **No call waits for the server**, but for a probe in HALF_OPEN, and for that at most [`Builder::probe_wait`]. What
//!   happens when the server is away, slow or wrong: [failures](guide::failures).
//! - **Every future may be dropped** at any time: [cancel safety](guide::cancelling).
//!
//! The [guide] has a chapter for each of these, and for fallbacks, retries and timeouts, testing, cost, settings, metrics,
//! logs and the kill switch.
//!
//! # Features
//!
//! None is on by default. `tower`: a layer for tonic, hyper, axum. `reqwest`: a middleware of `reqwest-middleware`.
//! `testing`: a panel in the test's own process. `metrics`: what the client decided and how it fares, for the recorder that
//! the application installs for the [`metrics`](https://docs.rs/metrics) facade: [running](guide::running).

mod agent;
mod breaker;
mod builder;
mod cache;
mod call;
mod cell;
mod chain;
mod client;
mod clock;
mod codebook;
mod dice;
mod fact;
mod fallback;
mod fallbacks;
mod gather;
pub mod guide;
mod hint;
mod identity;
#[cfg(feature = "tower")]
pub mod layer;
mod limits;
mod local;
mod metrics;
mod mode;
mod permit;
mod plate;
mod post;
mod rejected;
#[cfg(feature = "reqwest")]
mod reqwest;
mod slot;
mod state;
mod tally;
#[cfg(feature = "testing")]
pub mod testing;
mod wire;
mod word;

#[cfg(feature = "reqwest")]
pub use self::reqwest::BreakerMiddleware;
pub use breaker::Breaker;
pub use builder::{BuildError, Builder};
pub use call::CallError;
pub use client::{Client, NotReady};
pub use fact::{Fact, Observation};
pub use fallbacks::{Fallbacks, Missed};
#[cfg(feature = "tower")]
pub use layer::BreakerLayer;
pub use mode::Mode;
pub use permit::Permit;
pub use rejected::{Reason, Rejected};
pub use state::{Freshness, State, Status};

pub use panelboard_core::{Generation, NameError, OnDisconnect};

/// The parts of a policy, for [`Builder::policy`]: what an operator writes in a policy file.
pub mod policy {
    pub use panelboard_core::{
        Classification, GuardSpec, HalfOpenSpec, OpenSpec, PolicySpec, Rate, Rule, Violation, Window,
    };
    pub use panelboard_policy::{Place, PolicyErrors, Problem};
}
