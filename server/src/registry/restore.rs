//! Breakers as they are stored: deadlines in wall time, because ticks start anew with each process.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use panelboard_core::{Breaker, Hand, Moment, OpenWait, Policy, Settings, Stored, StoredState, Transition};
use panelboard_proto::{
    convert::{duration_from_wire, duration_to_wire, override_kind_from_wire, override_kind_to_wire},
    store::{self, stored_breaker::State},
    v1,
};

/// A breaker of the store that no call has named yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dormant {
    /// Its state; none: only incidents of it are left.
    pub(crate) record: Option<store::StoredBreaker>,
    /// Its incidents, oldest first.
    pub(crate) incidents: VecDeque<Arc<v1::Incident>>,
}

/// What to store of a breaker.
pub(super) fn to_record(
    stored: &Stored,
    last: Option<&v1::Transition>,
    since_unix_ms: u64,
    now_unix_ms: u64,
) -> store::StoredBreaker {
    let until = |remaining: Duration| now_unix_ms.saturating_add(millis(remaining));
    let state = match &stored.state {
        StoredState::Closed => State::Closed(store::StoredClosed {}),
        StoredState::Open { wait, remaining } => State::Open(store::StoredOpen {
            until_unix_ms: until(*remaining),
            wait: Some(v1::OpenWait {
                wait: Some(duration_to_wire(wait.total)),
                reopenings: wait.reopenings,
                jitter: Some(duration_to_wire(wait.jitter)),
                retry_after: wait.retry_after.map(duration_to_wire),
            }),
        }),
        StoredState::HalfOpen { reopenings } => {
            State::HalfOpen(store::StoredHalfOpen { reopenings: *reopenings })
        }
        StoredState::Overridden { kind, hand, remaining } => State::Overridden(store::StoredOverride {
            kind: override_kind_to_wire(Some(*kind)).into(),
            who: hand.who.to_string(),
            why: hand.why.to_string(),
            until_unix_ms: remaining.map(until),
            given: remaining.map(duration_to_wire),
        }),
    };
    store::StoredBreaker { state: Some(state), since_unix_ms, last_transition: last.cloned() }
}

/// A breaker that was made again.
#[derive(Debug)]
pub(super) struct Restored {
    pub(super) breaker: Breaker,
    /// The transition that began its state.
    pub(super) last: Option<Arc<v1::Transition>>,
    /// When its state began.
    pub(super) since_unix_ms: u64,
    /// The transition that restoring it was: HALF_OPEN comes back as OPEN.
    pub(super) transition: Option<Arc<Transition>>,
}

impl Restored {
    /// One of which nothing was stored.
    pub(super) const fn fresh(breaker: Breaker, now_unix_ms: u64) -> Self {
        Self { breaker, last: None, since_unix_ms: now_unix_ms, transition: None }
    }
}

/// A breaker from what was stored.
pub(super) fn from_record(
    record: store::StoredBreaker,
    policy: Arc<Policy>,
    settings: Settings,
    at: Moment,
    now_unix_ms: u64,
) -> Restored {
    let left = |until_unix_ms: u64| Duration::from_millis(until_unix_ms.saturating_sub(now_unix_ms));
    let span = |wire: Option<&prost_types::Duration>| wire.and_then(duration_from_wire);
    let state = match &record.state {
        Some(State::Open(open)) => {
            let wait = open.wait.as_ref();
            StoredState::Open {
                wait: OpenWait {
                    total: span(wait.and_then(|wait| wait.wait.as_ref())).unwrap_or_default(),
                    reopenings: wait.map_or(0, |wait| wait.reopenings),
                    jitter: span(wait.and_then(|wait| wait.jitter.as_ref())).unwrap_or_default(),
                    retry_after: span(wait.and_then(|wait| wait.retry_after.as_ref())),
                },
                remaining: left(open.until_unix_ms),
            }
        }
        Some(State::HalfOpen(half_open)) => StoredState::HalfOpen { reopenings: half_open.reopenings },
        Some(State::Overridden(over)) => match override_kind_from_wire(over.kind()) {
            Some(kind) => StoredState::Overridden {
                kind,
                hand: Hand { who: over.who.as_str().into(), why: over.why.as_str().into() },
                // Never more than was given, whatever was done to the wall clock meanwhile.
                remaining: over.until_unix_ms.map(|until| {
                    let given = span(over.given.as_ref());
                    given.map_or(left(until), |given| left(until).min(given))
                }),
            },
            None => StoredState::Closed,
        },
        Some(State::Closed(_)) | None => StoredState::Closed,
    };
    let breaker = Breaker::restore(policy, settings, &Stored { state, last: None }, at);
    let lasted = Duration::from_millis(now_unix_ms.saturating_sub(record.since_unix_ms));
    let transition = breaker.status(at.now).last;
    let transition =
        transition.map(|made| Arc::new(Transition { previous_lasted: lasted, ..(*made).clone() }));
    let last = record.last_transition.map(Arc::new);
    Restored { breaker, last, since_unix_ms: record.since_unix_ms, transition }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
