//! The rules of a shared circuit breaker.
//!
//! This crate can do nothing but compute: it has no IO, no clock, no lock, no task, no randomness of its own and no
//! dependency. Time is an argument, randomness is a seed given in, and what a call changed is its return value.
//! The server runs one [`Breaker`] per name; a client that is cut off runs the same code as its own breaker.
//!
//! ```
//! use std::sync::Arc;
//! use panelboard_core::*;
//!
//! let policy = Arc::new(Policy::try_new(PolicySpec::default(), 1).unwrap());
//! let at = |ms, revision| Moment {
//!     now: Timestamp::from_millis(ms),
//!     next: Version { epoch: 1, revision },
//! };
//! let mut breaker = Breaker::new(policy, Settings { seed: 42, instances_max: 1_000 }, at(0, 1));
//! let instance = Instance::new("checkout", "pod-1");
//! let caller = Caller { instance: &instance, session: None };
//!
//! let outcomes = Outcomes { failures: 20, ..Outcomes::default() };
//! let (reported, change) = breaker.report(caller, &Entry { outcomes, ..Entry::default() }, at(10, 2));
//! assert_eq!(reported, Reported::Counted);
//! assert!(matches!(change, Some(Change::Transition(t)) if t.to.state == StateKind::Open));
//! ```

mod breaker;
mod classify;
mod decision;
mod explain;
mod half_open;
mod ids;
mod members;
mod name;
mod outcome;
mod pattern;
mod policy;
mod quarantine;
mod rate;
mod seed;
mod state;
mod tally;
mod time;
mod transition;
mod window;

pub use breaker::{
    AVAILABILITY_INTERVAL, Admission, Breaker, GRANT_TTL, OverrideEnd, OverrideStatus, Recovery, Refusal,
    Settings, Status, Stored, StoredState, Target, WATCHED_GRANT_TTL,
};
pub use classify::{CAUSE_BYTES_MAX, CAUSES_MAX, Cause, Classification, Fact, Outcome};
pub use decision::{Decision, Grant, Rejection, RejectionReason};
pub use explain::{Explanation, Span, Why};
pub use half_open::{LEASE_GRACE, ProbeTally};
pub use ids::{Caller, Generation, Instance, Moment, ProbeId, Session, Version};
pub use members::KNOWN_FOR;
pub use name::{BreakerName, NAME_BYTES_MAX, NameError};
pub use outcome::{Entry, Outcomes, Reported, Streaks};
pub use pattern::{Pattern, PatternError, WILDCARDS_MAX};
pub use policy::{
    DEFAULT_WINDOW, DURATION_MAX, GuardSpec, HalfOpenSpec, LAST_MAX, MINIMUM_CALLS_MAX, OnDisconnect,
    OpenSpec, PERMITTED_CALLS_MAX, Policy, PolicySpec, RULES_MAX, RetryAfterScope, Rule, SPREAD_MAX,
    SlowVerdict, TEXT_BYTES_MAX, Verdict, Violation, WITHIN_MIN, Window,
};
pub use quarantine::{Held, Quarantine, QuarantineEvent};
pub use rate::{Rate, hundredths_of};
pub use seed::admitted_after;
pub use tally::Reading;
pub use time::Timestamp;
pub use transition::{
    Change, Condition, Crossing, Hand, OpenWait, OverrideKind, Reason, StateKind, Transition, TripBy,
    WouldOpen,
};
