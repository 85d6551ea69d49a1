//! What a breaker looks like from outside. Looking changes nothing.

use std::{sync::Arc, time::Duration};

use super::{AVAILABILITY_INTERVAL, Breaker};
use crate::{
    explain::{Distance, Probes, Span, Why},
    ids::{Generation, Version},
    policy::Policy,
    state::State,
    tally::Reading,
    time::Timestamp,
    transition::{Condition, Hand, OverrideKind, StateKind, Transition, WouldOpen},
};

/// What a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admission {
    /// Call.
    Allow,
    /// Not call.
    Reject,
    /// Call with a probe only.
    Probe,
}

/// An override, seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideStatus {
    /// Which.
    pub kind: OverrideKind,
    /// Whose.
    pub hand: Hand,
    /// When it ends; none: until it is cleared.
    pub until: Option<Timestamp>,
    /// METRICS_ONLY: a rule is crossed; without the override the breaker would be OPEN.
    pub would_open: Option<Arc<WouldOpen>>,
}

/// The spread after closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// How long the admission of the whole fleet is spread over.
    pub spread: Duration,
    /// When the breaker closed.
    pub since: Timestamp,
}

/// A breaker at one moment.
#[derive(Clone, Debug)]
pub struct Status {
    /// What a caller may do.
    pub admission: Admission,
    /// The state.
    pub state: StateKind,
    /// The override above it.
    pub over: Option<OverrideStatus>,
    /// The stretch.
    pub generation: Generation,
    /// The newest change.
    pub version: Version,
    /// When the state ends by itself.
    pub deadline: Option<Timestamp>,
    /// Instances with a counted outcome in the window, or, in the first window of a CLOSED stretch, known ones.
    pub active_instances: u32,
    /// Under [`Admission::Probe`]: draw a delay up to this before asking.
    pub ask_within: Duration,
    /// The transition that began the state.
    pub last: Option<Arc<Transition>>,
    /// Instances that are kept out while the breaker is CLOSED.
    pub quarantined_instances: u32,
    /// Set while it comes back gently.
    pub recovery: Option<Recovery>,
    /// The policy in force.
    pub policy: Arc<Policy>,
}

/// While the news that the last probe is gone is on its way, a fleet that asks within this much per instance and
/// probe asks for a small multiple of the probes there are.
const ASK_INTERVAL: Duration = Duration::from_millis(25);
/// The longest that a fleet spreads its asking over.
const ASK_WITHIN_MAX: Duration = Duration::from_secs(5);

impl Breaker {
    /// The status at `now`.
    pub fn status(&self, now: Timestamp) -> Status {
        let now = self.seen.max(now);
        let over = |kind, hand: &Hand, until, would_open| {
            Some(OverrideStatus { kind, hand: hand.clone(), until, would_open })
        };
        let (admission, over) = match &self.state {
            State::Closed(_) => (Admission::Allow, None),
            State::Open(_) => (Admission::Reject, None),
            State::HalfOpen(half_open) if half_open.places() > 0 => (Admission::Probe, None),
            State::HalfOpen(_) => (Admission::Reject, None),
            State::ForcedOpen(forced) => {
                (Admission::Reject, over(OverrideKind::ForcedOpen, &forced.hand, forced.until, None))
            }
            State::Disabled(forced) => {
                (Admission::Allow, over(OverrideKind::Disabled, &forced.hand, forced.until, None))
            }
            State::MetricsOnly(only) => {
                let would_open = only.would_open.clone();
                (Admission::Allow, over(OverrideKind::MetricsOnly, &only.hand, only.until, would_open))
            }
        };
        Status {
            admission,
            state: self.state.condition().state,
            over,
            generation: self.generation,
            version: self.version,
            deadline: self.state.ends_at(),
            active_instances: self.active_instances(now),
            ask_within: self.ask_within(),
            last: self.last.clone(),
            quarantined_instances: self.quarantined_instances(),
            recovery: self.recovery(now),
            policy: Arc::clone(&self.policy),
        }
    }

    /// The state with its override.
    pub const fn condition(&self) -> Condition {
        self.state.condition()
    }

    /// The stretch.
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// The newest change.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// When the stretch began.
    pub const fn entered(&self) -> Timestamp {
        self.entered
    }

    /// The policy in force.
    pub const fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// Each rule against what the window holds; in OPEN against the window that tripped it.
    pub fn readings(&self, now: Timestamp) -> Vec<Reading> {
        let now = self.seen.max(now);
        match &self.state {
            State::Open(open) => open.readings.clone(),
            State::HalfOpen(_) | State::ForcedOpen(_) | State::Disabled(_) => Vec::new(),
            State::Closed(_) | State::MetricsOnly(_) => {
                let tallies = self.state.tallies();
                tallies.map(|tallies| tallies.readings(&self.policy, now)).unwrap_or_default()
            }
        }
    }

    /// How far it is from its next state, for people: `CLOSED: 12 of 20 calls, 12 failed`.
    pub fn progress(&self, now: Timestamp) -> String {
        let now = self.seen.max(now);
        let name = self.state.condition();
        let ends = |until: Option<Timestamp>| match until {
            Some(until) => format!("for {}", Span(until.since(now))),
            None => "until it is cleared".to_string(),
        };
        match &self.state {
            State::Closed(_) | State::MetricsOnly(_) => {
                format!("{name}: {}", Distance(&self.readings(now)))
            }
            State::Open(open) => {
                let why = self.last.as_ref().map(|last| format!(" ({})", Why(last))).unwrap_or_default();
                format!("{name}: retry in {}{why}", Span(open.until.since(now)))
            }
            State::HalfOpen(half_open) => {
                format!("{name}: {}, {} out", Probes(&half_open.tally), half_open.leases.len())
            }
            State::ForcedOpen(forced) | State::Disabled(forced) => {
                format!("{name}: set by {} {}", forced.hand, ends(forced.until))
            }
        }
    }

    /// Instances with a live session.
    pub fn known_instances(&self) -> u32 {
        self.members.known()
    }

    /// Probes that are out.
    pub fn probes_leased(&self) -> u32 {
        match &self.state {
            State::HalfOpen(half_open) => u32::try_from(half_open.leases.len()).unwrap_or(u32::MAX),
            _ => 0,
        }
    }

    /// Probes of this period that never came back.
    pub const fn probes_expired(&self) -> u32 {
        match &self.state {
            State::HalfOpen(half_open) => half_open.tally.expired,
            _ => 0,
        }
    }

    pub(super) fn active_instances(&self, now: Timestamp) -> u32 {
        let Some(tallies) = self.state.tallies() else {
            return self.last.as_ref().map_or(0, |last| last.active_instances).max(self.members.known());
        };
        let first_window = now < self.entered.plus(self.policy.window());
        if first_window { tallies.active().max(self.members.known()) } else { tallies.active() }
    }

    fn recovery(&self, now: Timestamp) -> Option<Recovery> {
        let spread = self.policy.spec().spread;
        match &self.state {
            State::Closed(closed) if closed.recovering && now < self.entered.plus(spread) => {
                Some(Recovery { spread, since: self.entered })
            }
            _ => None,
        }
    }

    fn ask_within(&self) -> Duration {
        let State::HalfOpen(half_open) = &self.state else { return Duration::ZERO };
        let (known, permitted) = (self.members.known(), half_open.tally.permitted);
        if known <= permitted {
            return Duration::ZERO;
        }
        (ASK_INTERVAL * known.div_ceil(permitted)).clamp(AVAILABILITY_INTERVAL, ASK_WITHIN_MAX)
    }
}
