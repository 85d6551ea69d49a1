//! A panel for tests, in this process: it says what the test tells it to say, and decides nothing by itself.
//!
//! Behind it are the real contract and a real client, so that what a test sees is what the application will see: the same
//! rejections, the same errors, the same classification. It listens on a loopback port of its own and ends with its value.
//! Needs the feature `testing`.
//!
//! ```
//! use std::time::Duration;
//! use panelboard_client::{Reason, testing::FakePanel};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let panel = FakePanel::new();
//! let quote = panel.client().breaker("checkout/shipping-quote");
//!
//! panel.open("checkout/shipping-quote", Duration::from_secs(5)).await;
//! assert_eq!(quote.try_acquire().unwrap_err().reason(), Reason::Open); // the very next call
//!
//! panel.close("checkout/shipping-quote").await;
//! quote.try_acquire().unwrap().failure("timeout");
//! let reported = panel.reported_calls("checkout/shipping-quote", 1).await;
//! assert_eq!((reported.failures, reported.causes["timeout"]), (1, 1));
//! # }
//! ```

mod board;
mod fake;
mod reported;
mod service;

pub use fake::FakePanel;
pub use reported::Reported;
