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

mod agent;
mod breaker;
mod builder;
mod cache;
mod call;
mod cell;
mod client;
mod clock;
mod dice;
mod fact;
mod fallback;
mod identity;
mod limits;
mod local;
mod mode;
mod permit;
mod post;
mod rejected;
mod slot;
mod state;
mod tally;
mod wire;
mod word;

pub use breaker::Breaker;
pub use builder::{BuildError, Builder};
pub use call::CallError;
pub use client::{Client, NotReady};
pub use fact::{Fact, Observation};
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
}
