//! What one process has seen and done: the counts of its `GET /stats`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::cli::unix_millis;
use crate::quote::Quote;

/// Turns are kept one by one up to here.
const TURNS_MAX: usize = 1_000;

/// The counts of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Quotes with a price.
    pub live: u64,
    /// Quotes without one.
    pub unavailable: u64,
    /// Of these, the ones for which the breaker admitted no call.
    pub rejected: u64,
    /// Calls that were made to the provider.
    pub provider_calls: u64,
    /// Of these, the ones made while the breaker was not CLOSED: its probes.
    pub probes: u64,
    /// Errors that propagated, by their code.
    pub errors: BTreeMap<String, u64>,
    /// Decisions of the breaker, by how it knew what it knew: FRESH, STALE or LOCAL.
    pub freshness: BTreeMap<String, u64>,
    /// The turns of the breaker's state as this process learned of them.
    pub states: Vec<Turn>,
    /// The turns between LIVE and UNAVAILABLE quotes.
    pub answers: Vec<Turn>,
}

impl Stats {
    /// The quotes that were asked for and answered, with a price or without.
    pub fn asked(&self) -> u64 {
        self.live + self.unavailable
    }
}

/// That something turned into something else, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Milliseconds since 1970.
    pub at: u64,
    /// What it is since then.
    pub is: String,
}

/// The counts while they are counted.
#[derive(Debug, Default)]
pub struct Tally {
    /// A std mutex: it is held for a few additions and never across an await.
    stats: Mutex<Stats>,
}

impl Tally {
    /// The counts so far.
    pub fn stats(&self) -> Stats {
        self.locked().clone()
    }

    /// Changes the counts.
    pub fn add(&self, change: impl FnOnce(&mut Stats)) {
        change(&mut self.locked());
    }

    /// Notes the breaker's state, if it is another than before.
    pub fn state_is(&self, state: &str) {
        turn(&mut self.locked().states, state);
    }

    /// Counts an answer: LIVE or UNAVAILABLE.
    pub fn answered(&self, quote: Quote) {
        let mut stats = self.locked();
        let is = match quote {
            Quote::Live(_) => {
                stats.live += 1;
                "LIVE"
            }
            Quote::Unavailable => {
                stats.unavailable += 1;
                "UNAVAILABLE"
            }
        };
        turn(&mut stats.answers, is);
    }

    fn locked(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn turn(turns: &mut Vec<Turn>, is: &str) {
    if turns.len() < TURNS_MAX && turns.last().is_none_or(|last| last.is != is) {
        turns.push(Turn { at: unix_millis(), is: is.to_owned() });
    }
}
