//! Writes what changed to the store, in order, many changes in one commit. Reads it back at start.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use panelboard_core::BreakerName;
use panelboard_proto::{store as records, v1};
use prost::Message;
use tokio::sync::{Notify, watch};

use crate::{
    clock::Clock,
    history,
    limits::Limits,
    metrics::Durations,
    outbox::{Event, Posted, What},
    registry::Dormant,
    store::{Batch, CommitError, Fault, Handle, Key, Precondition, Record, Value, Version, Write},
};

const BREAKER: &str = "breaker/";
const INCIDENT: &str = "incident/";
const POLICY: &str = "policy/";
/// How long to wait before the store is tried again after it failed; doubled up to the second one.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Changes written in one commit. Far below what a batch may hold.
const WRITES_AT_A_TIME: usize = 1_000;

/// How far the store has followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Durable {
    /// Everything up to this position is durable.
    pub(crate) position: u64,
    /// The store fails: what is not durable is kept in memory and tried again.
    pub(crate) failing: bool,
}

/// How commits went, for metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Commits {
    /// How long those took that succeeded.
    pub(crate) durations: Durations,
    /// Attempts that failed.
    pub(crate) failed: u64,
}

/// The writer.
#[derive(Debug)]
pub(crate) struct Persist {
    store: Handle,
    limits: Limits,
    clock: Clock,
    pending: Mutex<Pending>,
    wake: Notify,
    durable: watch::Sender<Durable>,
    commits: Mutex<Commits>,
    /// Versions and incidents of what is stored. Only the writing task locks it.
    stored: tokio::sync::Mutex<Stored>,
}

/// What has changed since the last commit: the latest value of each key, so it is bounded by what exists.
#[derive(Debug, Default)]
struct Pending {
    writes: BTreeMap<Key, Option<Vec<u8>>>,
    incidents: BTreeMap<BreakerName, BTreeSet<u64>>,
    deleted: BTreeSet<BreakerName>,
    position: u64,
    since: Option<Instant>,
    /// The same of what is being written now, which is older.
    writing: Option<Instant>,
}

#[derive(Debug, Default)]
struct Stored {
    versions: HashMap<Key, Version>,
    incidents: HashMap<BreakerName, BTreeSet<u64>>,
}

/// What the store held at start.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// Breakers.
    pub(crate) breakers: HashMap<BreakerName, Dormant>,
    /// Revisions of policies by name, with the digest of what they were.
    pub(crate) policies: HashMap<String, records::StoredPolicyRevision>,
}

impl Persist {
    /// Reads the store.
    ///
    /// # Errors
    /// [`Fault`] if it cannot be read. A record that cannot be decoded is left alone and logged.
    pub(crate) async fn open(store: Handle, limits: Limits, clock: Clock) -> Result<(Self, Loaded), Fault> {
        let mut stored = Stored::default();
        let mut pending = Pending::default();
        let mut loaded = Loaded::default();
        for record in store.scan_all(BREAKER).await? {
            stored.versions.insert(record.key.clone(), record.version);
            if let (Some(name), Some(value)) =
                (name_of(&record, BREAKER), decode::<records::StoredBreaker>(&record))
            {
                loaded.breakers.entry(name).or_default().record = Some(value);
            }
        }
        for record in store.scan_all(INCIDENT).await? {
            stored.versions.insert(record.key.clone(), record.version);
            let Some(mut value) = decode::<v1::Incident>(&record) else { continue };
            if history::end_would_open(&mut value, clock.unix_ms()) {
                // What crossed the rule is not kept over a restart.
                pending.writes.insert(record.key.clone(), Some(value.encode_to_vec()));
            }
            if history::is_old(&value, clock.unix_ms(), &limits) {
                // Nothing else would come by here for a breaker that is not used again.
                pending.writes.insert(record.key, None);
            } else if let Some((name, opened)) = incident_of(&record.key) {
                stored.incidents.entry(name.clone()).or_default().insert(opened);
                loaded.breakers.entry(name).or_default().incidents.push_back(Arc::new(value));
            }
        }
        for record in store.scan_all(POLICY).await? {
            stored.versions.insert(record.key.clone(), record.version);
            if let Some(value) = decode::<records::StoredPolicyRevision>(&record) {
                loaded.policies.insert(record.key.as_str()[POLICY.len()..].to_string(), value);
            }
        }
        let (durable, _) = watch::channel(Durable::default());
        let persist = Self {
            store,
            limits,
            clock,
            pending: Mutex::new(pending),
            wake: Notify::new(),
            durable,
            commits: Mutex::default(),
            stored: tokio::sync::Mutex::new(stored),
        };
        Ok((persist, loaded))
    }

    /// Notes changes down. Never waits.
    pub(crate) fn note(&self, changes: &[Posted]) {
        {
            let mut pending = self.lock();
            for change in changes {
                pending.note(change);
            }
        }
        self.wake.notify_one();
    }

    /// Notes the revision of a policy down.
    pub(crate) fn note_policy(&self, name: &str, revision: &records::StoredPolicyRevision) {
        if let Ok(key) = Key::new(format!("{POLICY}{name}")) {
            self.lock().writes.insert(key, Some(revision.encode_to_vec()));
        }
        self.wake.notify_one();
    }

    /// Waits until everything up to `position` is durable, or until the store is known to fail. A store that fails
    /// must not keep a fleet from recovering.
    pub(crate) async fn durable(&self, position: u64) -> Durable {
        let mut durable = self.durable.subscribe();
        let reached = durable.wait_for(|durable| durable.position >= position || durable.failing).await;
        // The sender lives in this writer, so the channel cannot be closed.
        reached.map(|durable| *durable).unwrap_or_default()
    }

    /// How far the store has followed.
    pub(crate) fn state(&self) -> Durable {
        *self.durable.borrow()
    }

    /// How long the oldest change that is not durable has been waiting; what is being written is not durable yet.
    pub(crate) fn lag(&self) -> Duration {
        let pending = self.lock();
        pending.writing.or(pending.since).map(|since| since.elapsed()).unwrap_or_default()
    }

    /// How commits went.
    pub(crate) fn commits(&self) -> Commits {
        *self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes, for ever. For one task.
    pub(crate) async fn run(&self) {
        let mut retry = RETRY.0;
        loop {
            self.wake.notified().await;
            while self.is_pending() {
                match self.write().await {
                    Ok(()) => retry = RETRY.0,
                    Err(fault) => {
                        self.commits.lock().unwrap_or_else(PoisonError::into_inner).failed += 1;
                        if !self.state().failing {
                            tracing::error!(%fault, "the store fails: going on from memory, trying again");
                        }
                        self.durable.send_modify(|durable| durable.failing = true);
                        tokio::time::sleep(retry).await;
                        retry = (retry * 2).min(RETRY.1);
                    }
                }
            }
        }
    }

    /// Writes what was noted down, within a bound. Returns whether everything up to `position` is durable.
    pub(crate) async fn flush(&self, position: u64, bound: Duration) -> bool {
        let all = async {
            // A commit that is under way counts as nothing pending, but the next one comes after it.
            while self.write().await.is_err() || self.state().position < position || self.is_pending() {
                tokio::time::sleep(RETRY.0).await;
            }
        };
        tokio::time::timeout(bound, all).await.is_ok()
    }

    fn is_pending(&self) -> bool {
        let pending = self.lock();
        !pending.writes.is_empty() || !pending.deleted.is_empty() || pending.position > self.state().position
    }

    /// Writes once: takes what is pending, and puts back what could not be written unless it is newer by now.
    async fn write(&self) -> Result<(), Fault> {
        let mut stored = self.stored.lock().await;
        let mut taken = self.lock().take();
        stored.add_removals(&mut taken, &self.limits, self.clock.unix_ms());
        let began = Instant::now();
        let mut left = taken.writes.clone();
        while let Some(result) = self.write_some(&mut stored, &mut left).await {
            if let Err(fault) = result {
                taken.writes = left;
                taken.deleted.clear();
                self.lock().put_back(taken);
                return Err(fault);
            }
        }
        let took = began.elapsed();
        self.lock().writing = None;
        self.commits.lock().unwrap_or_else(PoisonError::into_inner).durations.record(took);
        let was_failing = self.state().failing;
        self.durable.send_modify(|durable| {
            durable.failing = false;
            durable.position = durable.position.max(taken.position);
        });
        if was_failing {
            tracing::info!("the store works again: everything is durable");
        }
        Ok(())
    }

    async fn write_some(
        &self,
        stored: &mut Stored,
        left: &mut BTreeMap<Key, Option<Vec<u8>>>,
    ) -> Option<Result<(), Fault>> {
        let mut batch = Batch::new();
        let mut keys = Vec::new();
        let mut pointless = Vec::new();
        for (key, value) in left.iter().take(WRITES_AT_A_TIME) {
            let at = stored.versions.get(key).copied();
            let write = match (value, at) {
                (Some(bytes), at) => {
                    // Our records are a few kilobytes; one that is too large is a defect, not worth the others.
                    let Ok(value) = Value::new(bytes.clone()) else {
                        tracing::error!(
                            key = key.as_str(),
                            bytes = bytes.len(),
                            "the record is too large to store"
                        );
                        pointless.push(key.clone());
                        continue;
                    };
                    let when = at.map_or(Precondition::Absent, Precondition::At);
                    Write::Put { key: key.clone(), value, when }
                }
                (None, Some(at)) => Write::Delete { key: key.clone(), at },
                (None, None) => {
                    pointless.push(key.clone());
                    continue;
                }
            };
            if batch.push(write).is_err() {
                break;
            }
            keys.push(key.clone());
        }
        for key in pointless {
            left.remove(&key);
        }
        if keys.is_empty() {
            return (!left.is_empty()).then_some(Ok(()));
        }
        match self.store.commit(batch).await {
            Ok(version) => {
                for key in keys {
                    if let Some(value) = left.remove(&key) {
                        stored.note(key, value.map(|_| version));
                    }
                }
                Some(Ok(()))
            }
            // Only this process writes: a conflict means that a commit whose outcome was unknown was written after all.
            Err(CommitError::Conflict(conflicts)) => {
                for conflict in conflicts {
                    stored.note(conflict.key, conflict.current);
                }
                Some(Ok(()))
            }
            Err(CommitError::Fault(fault)) => Some(Err(fault)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    /// Takes all there is, to be written.
    fn take(&mut self) -> Self {
        let writing = self.since;
        std::mem::replace(self, Self { writing, ..Self::default() })
    }

    fn note(&mut self, change: &Posted) {
        self.position = self.position.max(change.position);
        self.since.get_or_insert_with(Instant::now);
        match &change.what {
            What::Changed { stored, event, .. } => {
                if let (Some(record), Ok(key)) = (stored, Key::new(format!("{BREAKER}{}", change.name))) {
                    self.writes.insert(key, Some(record.encode_to_vec()));
                }
                let incidents = match event {
                    Event::Transition { incidents, .. } => incidents.as_slice(),
                    Event::WouldOpen { incident, .. } => incident.as_slice(),
                    Event::Created | Event::Other => &[],
                };
                for incident in incidents {
                    let opened = history::opened_unix_ms(incident);
                    if let Some(key) = incident_key(&change.name, opened) {
                        self.writes.insert(key, Some(incident.encode_to_vec()));
                        self.incidents.entry(change.name.clone()).or_default().insert(opened);
                    }
                }
            }
            // Nobody is kept out after a restart.
            What::ChangedFor { .. } => {}
            What::Deleted { keeps_history, .. } => {
                if let Ok(key) = Key::new(format!("{BREAKER}{}", change.name)) {
                    self.writes.insert(key, None);
                }
                if *keeps_history {
                    return;
                }
                // Those that were never written need not be.
                for opened in self.incidents.remove(&change.name).unwrap_or_default() {
                    self.writes.extend(incident_key(&change.name, opened).map(|key| (key, None)));
                }
                self.deleted.insert(change.name.clone());
            }
        }
    }

    /// Puts back what could not be written; what was noted meanwhile is newer.
    fn put_back(&mut self, older: Self) {
        for (key, value) in older.writes {
            self.writes.entry(key).or_insert(value);
        }
        for (name, opened) in older.incidents {
            self.incidents.entry(name).or_default().extend(opened);
        }
        self.deleted.extend(older.deleted);
        self.position = self.position.max(older.position);
        self.since = older.since.or(self.since);
        self.writing = None;
    }
}

impl Stored {
    fn note(&mut self, key: Key, version: Option<Version>) {
        match version {
            Some(version) => self.versions.insert(key, version),
            None => self.versions.remove(&key),
        };
    }

    /// Adds the removal of incidents that are too old, too many, or of a breaker that is gone.
    fn add_removals(&mut self, taken: &mut Pending, limits: &Limits, now_unix_ms: u64) {
        let kept_ms = u64::try_from(limits.incident_age.as_millis()).unwrap_or(u64::MAX);
        for name in &taken.deleted {
            for opened in self.incidents.remove(name).unwrap_or_default() {
                taken.writes.extend(incident_key(name, opened).map(|key| (key, None)));
            }
        }
        for (name, opened) in &taken.incidents {
            let known = self.incidents.entry(name.clone()).or_default();
            known.extend(opened);
            while let Some(&oldest) = known.first() {
                let is_newest = known.len() == 1;
                let is_old = oldest.saturating_add(kept_ms) <= now_unix_ms;
                if known.len() <= limits.incidents_per_breaker && (!is_old || is_newest) {
                    break;
                }
                known.pop_first();
                taken.writes.extend(incident_key(name, oldest).map(|key| (key, None)));
            }
        }
    }
}

fn incident_key(name: &BreakerName, opened_unix_ms: u64) -> Option<Key> {
    // Padded, so that keys sort as times do. A name cannot hold the separator.
    Key::new(format!("{INCIDENT}{name}@{opened_unix_ms:020}")).ok()
}

fn incident_of(key: &Key) -> Option<(BreakerName, u64)> {
    let (name, opened) = key.as_str().strip_prefix(INCIDENT)?.rsplit_once('@')?;
    Some((BreakerName::parse(name).ok()?, opened.parse().ok()?))
}

fn name_of(record: &Record, prefix: &str) -> Option<BreakerName> {
    BreakerName::parse(record.key.as_str().strip_prefix(prefix)?).ok()
}

fn decode<M: Message + Default>(record: &Record) -> Option<M> {
    match M::decode(record.value.as_bytes()) {
        Ok(message) => Some(message),
        Err(error) => {
            tracing::error!(key = record.key.as_str(), %error, "a record of the store cannot be decoded: left alone");
            None
        }
    }
}
