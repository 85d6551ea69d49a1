//! The client: one connection, one thread, any number of breakers.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use panelboard_core::{BreakerName, NameError, OnDisconnect};
use tokio::sync::oneshot;

use crate::{
    breaker::Breaker,
    builder::Builder,
    cell::{Cell, Setup},
    dice::Dice,
    fallback::Fallback,
    identity::Identity,
    limits::BREAKERS_MAX,
    mode::Mode,
    post::{Post, Ready},
    slot::Slot,
};

/// A client of one Panelboard server. Cheap to clone. Made once per process.
///
/// It has a thread of its own, so that it does not depend on the application's runtime, and ends with the last
/// [`Client`] or [`Breaker`] that came from it. Use [`shutdown`](Self::shutdown) to wait for the last flush.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    keeper: Arc<Keeper>,
}

pub(crate) struct Shared {
    pub(crate) post: Arc<Post>,
    pub(crate) identity: Identity,
    pub(crate) fallback: Fallback,
    pub(crate) on_disconnect: Option<OnDisconnect>,
    pub(crate) seed: u64,
    /// A std mutex: a look-up per handle that is made, not per call.
    pub(crate) breakers: Mutex<HashMap<BreakerName, Arc<Slot>>>,
}

/// Ends the thread when the last handle is dropped.
pub(crate) struct Keeper {
    post: Arc<Post>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.post.put(|mail| mail.ending = true);
    }
}

impl Client {
    /// Builds a client of the server at `url`, for example `http://localhost:50051`.
    pub fn builder(url: impl Into<String>) -> Builder {
        Builder::new(url.into())
    }

    pub(crate) fn new(shared: Shared) -> Self {
        let keeper = Arc::new(Keeper { post: Arc::clone(&shared.post) });
        Self { shared: Arc::new(shared), keeper }
    }

    /// A handle to the breaker of that name. Make it once and keep it.
    ///
    /// A text that is not a name gives a handle that admits everything and records nothing, and logs an error: a
    /// typing error must not stop calls. Use [`try_breaker`](Self::try_breaker) to have it as an error.
    pub fn breaker(&self, name: &str) -> Breaker {
        self.try_breaker(name).unwrap_or_else(|error| {
            let shown: String = name.chars().take(200).collect();
            tracing::error!(breaker = shown, "{error}; this handle admits everything and records nothing");
            Breaker::detached(&shown)
        })
    }

    /// A handle to the breaker of that name.
    ///
    /// # Errors
    /// [`NameError`] if the text is not a name.
    pub fn try_breaker(&self, name: &str) -> Result<Breaker, NameError> {
        let name = BreakerName::parse(name)?;
        if self.shared.post.mode == Mode::Off {
            return Ok(Breaker::detached(name.as_str()));
        }
        let live = |slot| Ok(Breaker::live(slot, Arc::clone(&self.keeper)));
        let mut breakers = self.shared.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = breakers.get(&name) {
            return live(Arc::clone(slot));
        }
        let slot = Slot::new(name.clone(), self.cell(&name), Arc::clone(&self.shared.post));
        if breakers.len() >= BREAKERS_MAX {
            tracing::warn!(
                breaker = name.as_str(),
                "this client has {BREAKERS_MAX} breakers already, this one stays LOCAL: name dependencies, not \
                 tenants, users or URLs"
            );
            return live(slot);
        }
        breakers.insert(name, Arc::clone(&slot));
        drop(breakers);
        self.shared.post.put(|mail| mail.made.push(Arc::clone(&slot)));
        live(slot)
    }

    /// Waits until every breaker made so far is FRESH, at most for `bound`. For start-up; the application may go on
    /// without it, or although it failed.
    ///
    /// Needs no particular runtime. Cancel safe.
    ///
    /// # Errors
    /// [`NotReady`] says which breaker was not, and why.
    pub async fn ready(&self, bound: Duration) -> Result<(), NotReady> {
        if self.shared.post.mode == Mode::Off {
            return Ok(());
        }
        let slots: Vec<_> = {
            let breakers = self.shared.breakers.lock().unwrap_or_else(PoisonError::into_inner);
            breakers.values().cloned().collect()
        };
        let (answer, answered) = oneshot::channel();
        if !self.shared.post.ready(Ready { bound, slots, answer }) {
            return Err(NotReady::Ended);
        }
        answered.await.unwrap_or(Err(NotReady::Ended))
    }

    /// Ends the client: what was recorded while FRESH is sent, probes go back, and the thread ends. Takes at most
    /// about a second. Handles that remain go on as LOCAL breakers.
    ///
    /// Needs no particular runtime. If it is dropped the client ends all the same.
    pub async fn shutdown(&self) {
        let (ended, wait) = oneshot::channel();
        self.shared.post.put(|mail| {
            mail.ending = true;
            mail.ended.push(ended);
        });
        // An error says that it has ended already.
        drop(wait.await);
    }

    fn cell(&self, name: &BreakerName) -> Cell {
        let shared = &self.shared;
        let (policy, active_instances) = shared.fallback.policy(name);
        let setup = Setup {
            me: shared.identity.instance.clone(),
            policy,
            active_instances,
            on_disconnect: shared.on_disconnect,
            seed: Dice::named(shared.seed, name.as_str()).next(),
        };
        Cell::new(setup, shared.post.clock.now())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("identity", &self.shared.identity).finish_non_exhaustive()
    }
}

/// Why [`Client::ready`] gave up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotReady {
    /// The server did not vouch for a breaker in time.
    #[error("breaker {breaker:?}{} not FRESH after {}: {last_error}", and_more(*others), crate::wire::shown(*waited))]
    TimedOut {
        /// One of the breakers.
        breaker: String,
        /// How many more.
        others: usize,
        /// How long was waited.
        waited: Duration,
        /// What the connection said last.
        last_error: String,
    },
    /// The server knows no such breaker.
    #[error("the server knows no breaker {breaker:?}: no policy matches the name{}", hint(nearest))]
    NotFound {
        /// The name.
        breaker: String,
        /// The nearest name that exists, or empty.
        nearest: String,
    },
    /// The client has ended.
    #[error("the client has ended: build another one")]
    Ended,
}

fn and_more(others: usize) -> String {
    if others == 0 { " is".into() } else { format!(" and {others} more are") }
}

fn hint(nearest: &str) -> String {
    if nearest.is_empty() { String::new() } else { format!("; the nearest one that exists is {nearest:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_not_ready_is_not_one_and_none_more() {
        let said = |others| {
            let (waited, last_error) = (Duration::from_secs(2), "refused".into());
            NotReady::TimedOut { breaker: "a".into(), others, waited, last_error }.to_string()
        };
        assert_eq!(said(0), "breaker \"a\" is not FRESH after 2 s: refused");
        assert_eq!(said(2), "breaker \"a\" and 2 more are not FRESH after 2 s: refused");
    }
}
