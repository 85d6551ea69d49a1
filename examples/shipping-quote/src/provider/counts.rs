//! What reached a provider: the only honest witness of what a breaker kept away.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Answer, Behaviour};
use crate::cli::unix_millis;

/// Arrivals are kept one by one up to here, and only counted after.
const ARRIVALS_MAX: usize = 100_000;

/// The behaviour in force and what has been counted.
#[derive(Debug)]
pub(super) struct Present {
    behaviour: Behaviour,
    stats: Stats,
    arrivals: Arrivals,
}

/// The counts of `GET /stats`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// The behaviour in force.
    pub behaviour: Behaviour,
    /// Requests that have arrived, answered or not.
    pub total: u64,
    /// Requests that have arrived under the behaviour in force.
    pub since_switch: u64,
    /// Requests that arrived, by the kind of behaviour they met.
    pub by_behaviour: BTreeMap<String, u64>,
    /// Answers given, by status. A caller that left before its answer is in none of them.
    pub by_status: BTreeMap<u16, u64>,
}

/// The instants of `GET /arrivals`, in milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrivals {
    /// When the behaviour in force began.
    pub switched_at: u64,
    /// When each request since then arrived, at most the first 100,000.
    pub at: Vec<u64>,
}

impl Present {
    pub(super) fn new(behaviour: Behaviour) -> Self {
        let mut present =
            Present { behaviour: Behaviour::good(), stats: Stats::default(), arrivals: Arrivals::default() };
        present.switch(behaviour);
        present
    }

    pub(super) fn switch(&mut self, behaviour: Behaviour) {
        self.stats.behaviour = behaviour.clone();
        self.stats.since_switch = 0;
        self.arrivals = Arrivals { switched_at: unix_millis(), at: Vec::new() };
        self.behaviour = behaviour;
    }

    /// Counts a request and says what is to happen to it.
    pub(super) fn arrived(&mut self) -> (u64, Answer) {
        let answer = self.behaviour.nth(self.stats.since_switch);
        self.stats.total += 1;
        self.stats.since_switch += 1;
        *self.stats.by_behaviour.entry(self.behaviour.label().to_owned()).or_default() += 1;
        if self.arrivals.at.len() < ARRIVALS_MAX {
            self.arrivals.at.push(unix_millis());
        }
        (self.behaviour.slow_ms, answer)
    }

    pub(super) fn answered(&mut self, status: u16) {
        *self.stats.by_status.entry(status).or_default() += 1;
    }

    pub(super) fn stats(&self) -> Stats {
        self.stats.clone()
    }

    pub(super) fn arrivals(&self) -> Arrivals {
        self.arrivals.clone()
    }
}
