//! The Panelboard server: everything behind the binary `panelboard`, as a library so that tests can start one.
//!
//! ```text
//! main -> run -> server -> grpc, http -> registry -> core
//!                             registry -> outbox -> hub (watchers), persist (store)
//! ```

pub mod clock;
pub mod config;
mod drain;
mod grpc;
mod history;
mod http;
mod hub;
mod identities;
mod journal;
pub mod limits;
pub mod logging;
mod metrics;
mod outbox;
mod parts;
mod persist;
pub mod policies;
mod registry;
mod run;
mod server;
mod slot;
pub mod store;
mod tasks;
mod timer;
mod view;

pub use run::{Failure, run};
pub use server::{Running, Setup, StartError};
