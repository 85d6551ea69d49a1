//! Every breaker by name, and the one way in which a change leaves it.
//!
//! A call locks its breaker, runs the rules, puts what changed into the [`Outbox`] and unlocks. Map guards never live
//! across an await or a second access to the map: slots are cloned out.

mod calls;
mod lookup;
mod making;
mod restore;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use dashmap::DashMap;
use panelboard_core::{BreakerName, Caller};

use crate::{
    clock::Clock,
    identities::Identities,
    limits::Limits,
    metrics::{Clients, Reports},
    outbox::Outbox,
    policies::Policies,
    slot::Slot,
    timer::Timer,
};

pub(crate) use calls::{Acquired, Seen};
pub(crate) use lookup::Missing;
pub(crate) use restore::Dormant;

/// Every breaker by name.
#[derive(Debug)]
pub(crate) struct Registry {
    slots: DashMap<BreakerName, Arc<Slot>>,
    policies: RwLock<Policies>,
    /// Breakers as they were stored, until they are made again.
    dormant: Mutex<HashMap<BreakerName, Dormant>>,
    /// What changed.
    pub(crate) outbox: Outbox,
    /// What is due.
    pub(crate) timer: Timer,
    /// The server's clock.
    pub(crate) clock: Clock,
    /// The server's epoch.
    pub(crate) epoch: u64,
    /// The server's limits.
    pub(crate) limits: Limits,
    /// How reloads of the policies went.
    pub(crate) reloads: Reloads,
    /// Entries of reports, by what became of them.
    pub(crate) reports: Reports,
    /// Client sessions that watch.
    pub(crate) clients: Clients,
    /// Where the sessions of each instance are.
    pub(crate) identities: Identities,
    /// Where the seeds of breakers come from.
    seed: u64,
}

/// How reloads of the policies went, for metrics.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    succeeded: AtomicU64,
    failed: AtomicU64,
}

impl Reloads {
    /// One was put in force.
    pub(crate) fn succeeded(&self) {
        self.succeeded.fetch_add(1, Ordering::Relaxed);
    }

    /// One was refused.
    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Those put in force and those refused.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.succeeded.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}

impl Registry {
    /// A registry of the breakers that the policies name and of those in the store, `dormant`. What no policy matches
    /// stays dormant until one does.
    pub(crate) fn new(
        clock: Clock,
        epoch: u64,
        seed: u64,
        limits: Limits,
        policies: Policies,
        dormant: HashMap<BreakerName, Dormant>,
    ) -> Self {
        let registry = Self {
            slots: DashMap::new(),
            policies: RwLock::new(policies),
            dormant: Mutex::new(dormant),
            outbox: Outbox::default(),
            timer: Timer::default(),
            clock,
            epoch,
            limits,
            reloads: Reloads::default(),
            reports: Reports::default(),
            clients: Clients::default(),
            identities: Identities::default(),
            seed,
        };
        registry.make_named();
        registry.make_stored();
        registry
    }

    /// A caller was heard from there.
    pub(crate) fn seen_from(&self, caller: Caller<'_>, from: Option<IpAddr>) {
        self.identities.seen(caller, from, self.clock.now());
    }
}
