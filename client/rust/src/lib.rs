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
//! # One handle per dependency
//!
//! A breaker stands for one operation of one dependency, shared by all services that call it the same way; never for a
//! URL, a tenant or a user. Make the handle once and keep it: making one looks its name up, and a new name costs a
//! place on a stream.
//!
//! # What an outcome means
//!
//! [`Breaker::call`] takes `Ok` for a success and every `Err` for a failure. A refusal that says nothing about the
//! dependency's health (a 400, a validation error) must not open the breaker: tell errors apart with
//! [`Breaker::call_with`], or with a [`Permit`] by hand. Facts such as [`Fact::HttpStatus`] are classified by the
//! breaker's policy, so that all services and languages agree.
//!
//! # When the server is away
//!
//! | | while | who decides |
//! |---|---|---|
//! | FRESH | the server was heard within 8 s and answers reports within 1 s | the server's last word |
//! | STALE | until 10 s after its last bookmark | the stricter of that and the local breaker |
//! | LOCAL | after that, before the first word, for unknown names | the local breaker, with one instance's share of the thresholds |
//!
//! The local breaker has the same policy and has tallied all along. What it sees while away is never sent as evidence.
//! Whether everything passes or nothing does instead is the policy's `on_disconnect`, or [`Builder::on_disconnect`].
//! No call waits for the server, but for a probe in HALF_OPEN, and for that at most [`Builder::probe_wait`].
//!
//! # Kill switch
//!
//! `PANELBOARD_MODE=shadow` in the environment lets everything pass and only counts what would have been rejected;
//! `off` does nothing at all. See [`Mode`].
//!
//! # Logs
//!
//! The client logs through [`tracing`](https://docs.rs/tracing), and only there. In an application without a subscriber
//! all of this is silent, a typing error in a breaker's name and going LOCAL too: install one, for example
//! `tracing_subscriber::fmt::init()`, or look at [`Client::ready`], [`Client::try_breaker`] and [`Breaker::freshness`].
//!
//! | level | what |
//! |---|---|
//! | ERROR | a text given to [`Client::breaker`] is not a name: that handle admits everything |
//! | WARN | the server is away, so that breakers are LOCAL, once until it is back; the server has no policy for a breaker's name, which then stays LOCAL; a policy that is not usable; a refusal that repeating does not better, once; too many breakers |
//! | INFO | the server answers: breakers are FRESH again |
//! | DEBUG | each connection that failed or broke; each call that `shadow` let pass; a policy that could not be cached |
//!
//! No call that passes logs anything, and no rejection does: a [`Rejected`] says it all in one sentence.
//!
//! # Cancel safety
//!
//! Every future of this crate may be dropped at any time. A call that is dropped, or that panics, is *abandoned*: it
//! says nothing about the dependency, and if it was a probe, the probe goes to somebody else.

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
mod hint;
mod identity;
#[cfg(feature = "tower")]
pub mod layer;
mod limits;
mod local;
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
