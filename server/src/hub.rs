//! The fan-out of changes to watchers.
//!
//! A subscriber is a *dirty set*, never a queue: a change marks a name, and the watcher reads the latest value of each
//! marked name when it can. Publishing therefore never blocks and a slow reader costs one mark per breaker. Five
//! promises: a watch is *whole* (all that exists is delivered), *ordered* (versions of a breaker only grow), *unique*
//! (none is delivered twice), *resumable or reset*, and it *never blocks a writer*.

mod selection;
mod subscriber;
#[cfg(test)]
mod tests;
mod token;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    hash::Hash,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use panelboard_core::{BreakerName, Instance, Policy, Status, Version};
use panelboard_proto::{
    convert::{Times, status_to_wire},
    v1,
};
use tokio::sync::watch;

use crate::{
    outbox::{Posted, What},
    store::StoreId,
};

pub(crate) use selection::Selection;
pub(crate) use subscriber::Subscriber;
pub(crate) use token::Token;

/// The latest value of every breaker, and who watches what.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<State>,
    /// The position up to which changes have been published.
    reached: watch::Sender<u64>,
    /// How many streams are open.
    open: watch::Sender<usize>,
    /// Streams that began with a reset.
    resyncs: AtomicU64,
    store: StoreId,
    epoch: u64,
    tombstones_max: usize,
    streams_max: usize,
}

#[derive(Debug, Default)]
struct State {
    position: u64,
    entries: BTreeMap<BreakerName, Entry>,
    /// Positions and names of deletions, oldest first.
    tombstones: VecDeque<(u64, BreakerName)>,
    /// A token of before this position cannot be resumed: tombstones up to it are forgotten.
    forgotten: u64,
    subscribers: HashMap<u64, Arc<Subscriber>>,
    named: HashMap<BreakerName, HashSet<u64>>,
    /// Subscribers by who they are: what concerns one instance is told to its streams alone.
    of: HashMap<Instance, HashSet<u64>>,
    patterned: HashSet<u64>,
    next_id: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    position: u64,
    value: Value,
}

/// What there is to say of a name.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// It exists: its latest value without the policy, and the policy.
    Live {
        /// The value.
        status: Arc<v1::BreakerStatus>,
        /// The policy in force.
        policy: Arc<Policy>,
        /// Instances are kept out although the fleet is CLOSED: each has to be told for itself.
        quarantines: bool,
    },
    /// It is gone.
    Deleted {
        /// The revision of the deletion.
        version: Version,
    },
}

/// What a subscriber is owed.
#[derive(Clone, Debug)]
pub(crate) enum Owed {
    /// These values.
    Values(Vec<(BreakerName, Value)>),
    /// Nothing: what it has is current as of this position.
    Nothing {
        /// The position.
        position: u64,
    },
}

/// Why a stream cannot be opened: there are as many as the limit allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{limit} watch streams are open, as many as limits.watch_streams allows")]
pub(crate) struct TooManyStreams {
    /// The limit.
    pub(crate) limit: usize,
}

/// How a new subscriber starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With everything.
    Snapshot,
    /// With what changed since its token.
    Resumed,
    /// With everything, because its token does not fit.
    Reset {
        /// Why.
        reason: &'static str,
    },
}

/// Values handed out at a time: bounds how long the hub is locked.
const VALUES_AT_A_TIME: usize = 64;

impl Hub {
    /// A hub of this store and epoch.
    pub(crate) fn new(store: StoreId, epoch: u64, tombstones_max: usize, streams_max: usize) -> Self {
        let ((reached, _), (open, _)) = (watch::channel(0), watch::channel(0));
        let resyncs = AtomicU64::new(0);
        Self { state: Mutex::default(), reached, open, resyncs, store, epoch, tombstones_max, streams_max }
    }

    /// Takes changes in and marks them at everyone who watches them. Never waits.
    pub(crate) fn publish(&self, changes: &[Posted]) {
        let Some(last) = changes.last().map(|change| change.position) else { return };
        let mut state = self.lock();
        for change in changes {
            let value = match &change.what {
                What::Changed { status, last, .. } | What::ChangedFor { status, last, .. } => {
                    live(&change.name, status, last.as_deref().cloned())
                }
                What::Deleted { version, .. } => Value::Deleted { version: *version },
            };
            state.set(change, value, self.tombstones_max);
        }
        drop(state);
        self.reached.send_replace(last);
    }

    /// Waits until everything up to `position` has been published.
    pub(crate) async fn reached(&self, position: u64) {
        let mut reached = self.reached.subscribe();
        // The sender lives in this hub, so the channel cannot be closed.
        let _ = reached.wait_for(|reached| *reached >= position).await;
    }

    /// Opens a subscription.
    ///
    /// # Errors
    /// [`TooManyStreams`].
    pub(crate) fn subscribe(
        &self,
        instance: Instance,
        selection: Selection,
        resume: &[u8],
    ) -> Result<(Arc<Subscriber>, Start), TooManyStreams> {
        let mut state = self.lock();
        if state.subscribers.len() >= self.streams_max {
            return Err(TooManyStreams { limit: self.streams_max });
        }
        let (start, since) = self.start(&state, &selection, resume);
        if matches!(start, Start::Reset { .. }) {
            self.resyncs.fetch_add(1, Ordering::Relaxed);
        }
        let id = state.next_id;
        state.next_id += 1;
        let subscriber = Arc::new(Subscriber::new(id, instance, selection));
        let is_news = |entry: &Entry| match since {
            Some(since) => entry.position > since,
            // A snapshot leaves out what is gone already.
            None => matches!(entry.value, Value::Live { .. }),
        };
        let news: Vec<BreakerName> = if subscriber.selection.has_patterns() {
            state.entries.iter().filter(|(_, entry)| is_news(entry)).map(|(name, _)| name.clone()).collect()
        } else {
            let is_news = |name: &&BreakerName| state.entries.get(*name).is_some_and(is_news);
            subscriber.selection.names().filter(is_news).cloned().collect()
        };
        state.add(&subscriber);
        self.open.send_replace(state.subscribers.len());
        // Patterns are compared after the lock: many over many names must not keep a publisher waiting. What changes
        // meanwhile is marked by it, for the subscription is open.
        drop(state);
        news.iter().filter(|name| subscriber.selection.matches(name)).for_each(|name| subscriber.mark(name));
        Ok((subscriber, start))
    }

    /// Closes a subscription.
    pub(crate) fn unsubscribe(&self, subscriber: &Subscriber) {
        let mut state = self.lock();
        state.remove(subscriber);
        self.open.send_replace(state.subscribers.len());
    }

    /// Waits until no stream is open.
    pub(crate) async fn emptied(&self) {
        let mut open = self.open.subscribe();
        // The sender lives in this hub, so the channel cannot be closed.
        let _ = open.wait_for(|open| *open == 0).await;
    }

    /// What a subscriber is owed now: some of the names that are marked, with their latest values.
    pub(crate) fn owed(&self, subscriber: &Subscriber) -> Owed {
        let state = self.lock();
        let names = subscriber.take(VALUES_AT_A_TIME);
        if names.is_empty() {
            return Owed::Nothing { position: state.position };
        }
        let value = |name: BreakerName| {
            let value = match state.entries.get(&name) {
                Some(entry) => entry.value.clone(),
                // It was deleted, and so many others after it that its tombstone is gone.
                None => Value::Deleted { version: Version { epoch: self.epoch, revision: state.forgotten } },
            };
            (name, value)
        };
        Owed::Values(names.into_iter().map(value).collect())
    }

    /// The token to resume a selection from `position`.
    pub(crate) fn token(&self, subscriber: &Subscriber, position: u64) -> Token {
        Token { store: self.store, epoch: self.epoch, selection: subscriber.selection.digest(), position }
    }

    /// Whether a watch names this breaker; a pattern does not.
    pub(crate) fn is_named(&self, name: &BreakerName) -> bool {
        self.lock().named.contains_key(name)
    }

    /// The breakers that watches name.
    pub(crate) fn named(&self) -> Vec<BreakerName> {
        self.lock().named.keys().cloned().collect()
    }

    /// Open streams.
    pub(crate) fn streams(&self) -> usize {
        *self.open.borrow()
    }

    /// Streams that asked to resume and were given everything anew, ever.
    pub(crate) fn resyncs(&self) -> u64 {
        self.resyncs.load(Ordering::Relaxed)
    }

    /// How to start, and the position since when changes are news; none: everything is.
    fn start(&self, state: &State, selection: &Selection, resume: &[u8]) -> (Start, Option<u64>) {
        if resume.is_empty() {
            return (Start::Snapshot, None);
        }
        let reset = |reason| (Start::Reset { reason }, None);
        let Some(token) = Token::decode(resume) else {
            return reset("the resume token is not one of this server's");
        };
        if token.store != self.store {
            reset("the resume token is of another store")
        } else if token.epoch != self.epoch {
            reset("the server has restarted since the resume token was made")
        } else if token.selection != selection.digest() {
            reset("the resume token is of another selection of breakers")
        } else if token.position > state.position {
            reset("the resume token is ahead of this server")
        } else if token.position < state.forgotten {
            reset("the resume token is too old: deletions since then are forgotten")
        } else {
            (Start::Resumed, Some(token.position))
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn set(&mut self, change: &Posted, value: Value, tombstones_max: usize) {
        self.position = change.position;
        if matches!(value, Value::Deleted { .. }) {
            self.tombstones.push_back((change.position, change.name.clone()));
        }
        self.entries.insert(change.name.clone(), Entry { position: change.position, value });
        while self.tombstones.len() > tombstones_max {
            let Some((position, name)) = self.tombstones.pop_front() else { break };
            self.forgotten = position;
            // Only if it is not back meanwhile.
            if self.entries.get(&name).is_some_and(|entry| entry.position == position) {
                self.entries.remove(&name);
            }
        }
        let (by_name, patterned) = (self.named.get(&change.name), Some(&self.patterned));
        let concerned = match &change.what {
            What::ChangedFor { instance, .. } => [self.of.get(instance), None],
            What::Changed { .. } | What::Deleted { .. } => [by_name, patterned],
        };
        for id in concerned.into_iter().flatten().flatten() {
            if let Some(subscriber) = self.subscribers.get(id)
                && subscriber.selection.matches(&change.name)
            {
                subscriber.mark(&change.name);
            }
        }
    }

    fn add(&mut self, subscriber: &Arc<Subscriber>) {
        for name in subscriber.selection.names() {
            self.named.entry(name.clone()).or_default().insert(subscriber.id);
        }
        if subscriber.selection.has_patterns() {
            self.patterned.insert(subscriber.id);
        }
        self.of.entry(subscriber.instance.clone()).or_default().insert(subscriber.id);
        self.subscribers.insert(subscriber.id, Arc::clone(subscriber));
    }

    fn remove(&mut self, subscriber: &Subscriber) {
        for name in subscriber.selection.names() {
            strike(&mut self.named, name, subscriber.id);
        }
        strike(&mut self.of, &subscriber.instance, subscriber.id);
        self.patterned.remove(&subscriber.id);
        self.subscribers.remove(&subscriber.id);
    }
}

fn live(name: &BreakerName, status: &Status, last: Option<v1::Transition>) -> Value {
    Value::Live {
        status: Arc::new(status_to_wire(name.as_str(), status, last, false, Times::Ticks)),
        policy: Arc::clone(&status.policy),
        quarantines: status.quarantined_instances > 0,
    }
}

fn strike<K: Eq + Hash>(all: &mut HashMap<K, HashSet<u64>>, key: &K, id: u64) {
    if let Some(ids) = all.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            all.remove(key);
        }
    }
}
