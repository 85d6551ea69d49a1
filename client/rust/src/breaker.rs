//! The handle that applications hold.

use std::{fmt, sync::Arc};

use tokio::sync::oneshot;

use crate::{
    cell::Cell,
    client::Keeper,
    mode::Mode,
    permit::Permit,
    rejected::Rejected,
    slot::{Slot, Waiter},
    state::{Freshness, State, Status},
};

/// A handle to one breaker. Cheap to clone; make it once per dependency and keep it, not once per call.
///
/// Handles of the same name from the same client are one breaker. A handle keeps its client's thread alive.
#[derive(Clone)]
pub struct Breaker {
    inner: Inner,
}

#[derive(Clone)]
enum Inner {
    Live {
        slot: Arc<Slot>,
        /// Held for its drop: the thread ends with the last handle.
        _keeper: Arc<Keeper>,
    },
    /// Admits everything and records nothing.
    Detached { name: Arc<str> },
}

impl Breaker {
    pub(crate) const fn live(slot: Arc<Slot>, keeper: Arc<Keeper>) -> Self {
        Self { inner: Inner::Live { slot, _keeper: keeper } }
    }

    pub(crate) fn detached(name: &str) -> Self {
        Self { inner: Inner::Detached { name: name.into() } }
    }

    /// The breaker's name.
    pub fn name(&self) -> &str {
        match &self.inner {
            Inner::Live { slot, .. } => slot.name.as_str(),
            Inner::Detached { name } => name,
        }
    }

    /// Asks for leave to make one call. Never waits: in CLOSED and OPEN this is local memory.
    ///
    /// In HALF_OPEN it takes a probe that is at hand. If none is, it rejects and asks for one in the background; an
    /// unused one goes back after five seconds. So a breaker that is only ever *tried*, and less often than that,
    /// does not recover: use [`acquire`](Self::acquire) or [`call`](Self::call) there.
    ///
    /// # Errors
    /// [`Rejected`] says why, and when to come again.
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<'_>, Rejected> {
        match &self.inner {
            Inner::Live { slot, .. } => slot.ask(),
            Inner::Detached { .. } => Ok(Permit::detached()),
        }
    }

    /// Asks for leave to make one call, and in HALF_OPEN waits for a probe up to the client's `probe_wait`: the call
    /// that wants to go is the probe.
    ///
    /// Needs no particular runtime. Cancel safe: a probe that comes too late is kept for the next call, or goes back.
    ///
    /// # Errors
    /// [`Rejected`] says why, and when to come again.
    pub async fn acquire(&self) -> Result<Permit<'_>, Rejected> {
        let Inner::Live { slot, .. } = &self.inner else { return Ok(Permit::detached()) };
        let no = match slot.admit() {
            Ok(permit) => return Ok(permit),
            Err(no) => no,
        };
        let Some(asked_at) = no.asked_at.filter(|_| slot.post.mode == Mode::Enforce) else {
            return slot.turned_away(&no);
        };
        let until = slot.post.clock.now().plus(slot.post.probe_wait);
        let (answer, answered) = oneshot::channel();
        if asked_at > until || !slot.wait(Waiter { until, answer }) {
            return slot.turned_away(&no);
        }
        match answered.await {
            Ok(answer) => answer,
            // The client has ended meanwhile.
            Err(_) => slot.turned_away(&no),
        }
    }

    /// A permit or a rejection, as far as there is no waiting; none: [`acquire`](Self::acquire) may wait for a probe,
    /// and nothing is counted yet.
    #[cfg(feature = "tower")]
    #[inline]
    pub(crate) fn acquire_at_once(&self) -> Option<Result<Permit<'_>, Rejected>> {
        let Inner::Live { slot, .. } = &self.inner else { return Some(Ok(Permit::detached())) };
        match slot.admit() {
            Ok(permit) => Some(Ok(permit)),
            Err(no) if no.asked_at.is_some() && slot.post.mode == Mode::Enforce => None,
            Err(no) => Some(slot.turned_away(&no)),
        }
    }

    /// The state that decides: the server's while FRESH, else the local breaker's. Only to look at: a call asks for a
    /// permit.
    pub fn state(&self) -> State {
        match &self.inner {
            Inner::Live { slot, .. } => slot.with(Cell::state),
            Inner::Detached { .. } => State::Disabled,
        }
    }

    /// How the client knows.
    pub fn freshness(&self) -> Freshness {
        match &self.inner {
            Inner::Live { slot, .. } => slot.with(|cell, now| {
                cell.state(now);
                cell.freshness()
            }),
            Inner::Detached { .. } => Freshness::Local,
        }
    }

    /// All there is to know, for people.
    pub fn status(&self) -> Status {
        match &self.inner {
            Inner::Live { slot, .. } => slot.with(Cell::status),
            Inner::Detached { .. } => Status {
                state: State::Disabled,
                freshness: Freshness::Local,
                explanation: "this handle admits everything and records nothing".into(),
                ends_in: None,
                admitted_in: None,
                generation: None,
                policy: "".into(),
                policy_revision: 0,
                active_instances: 0,
            },
        }
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Breaker").field(&self.name()).finish()
    }
}
