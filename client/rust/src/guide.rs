//! How to use this crate, in short chapters. Every example is compiled, and most are run.
//!
//! 1. [First steps](first_steps): a client, a handle, and the three ways to ask
//! 2. [Names](names), and where handles are made
//! 3. [Outcomes](outcomes): what counts as a failure
//! 4. [Fallbacks](fallbacks)
//! 5. [Composing](composing) with retries, timeouts and bulkheads
//! 6. [Failures](failures): what happens in each
//! 7. [Cost](cost)
//! 8. [Cancel safety](cancelling), method by method
//! 9. [Testing](testing)
//! 10. [Running](running): settings, start, end, kill switch, metrics, logs

#[doc = include_str!("../guide/first-steps.md")]
pub mod first_steps {}

#[doc = include_str!("../guide/names.md")]
pub mod names {}

#[doc = include_str!("../guide/outcomes.md")]
pub mod outcomes {}

#[doc = include_str!("../guide/fallbacks.md")]
pub mod fallbacks {}

#[doc = include_str!("../guide/composing.md")]
pub mod composing {}

#[doc = include_str!("../guide/failures.md")]
pub mod failures {}

#[doc = include_str!("../guide/cost.md")]
pub mod cost {}

#[doc = include_str!("../guide/cancelling.md")]
pub mod cancelling {}

#[doc = include_str!("../guide/testing.md")]
pub mod testing {}

#[doc = include_str!("../guide/running.md")]
pub mod running {}
