//! The demo of Panelboard: a fleet of shops that asks a flaky HTTP provider for shipping quotes through one
//! shared breaker.
//!
//! What to copy from, in the order in which a call meets it:
//!
//! * [`face`]: the HTTP face of one process. An unavailable quote is a 503 without a price.
//! * [`desk`]: the business rule around the breaker: what is checked before it, what falls back, what propagates.
//! * [`quote`]: the business rule itself, which knows nothing of breakers.
//! * [`upstream`]: the HTTP call with its timeout, and how its errors are classified.
//!
//! [`inventory`], [`supplier`] and [`booking`] are three more callers with other needs. [`provider`] is what they
//! call: a real HTTP server that misbehaves on demand. [`story`] runs all of it as processes.

pub mod booking;
pub mod cli;
pub mod desk;
pub mod face;
pub mod inventory;
pub mod load;
pub mod policy_file;
pub mod provider;
pub mod quote;
pub mod story;
pub mod supplier;
pub mod tally;
pub mod upstream;
