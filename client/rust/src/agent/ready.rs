//! Callers that wait for their breakers to be FRESH, and for the end.

use std::{collections::HashMap, sync::Arc};

use panelboard_core::{BreakerName, Timestamp};
use tokio::sync::oneshot;

use super::Agent;
use crate::{client::NotReady, post::Ready, slot::Slot, state::Freshness};

#[derive(Debug, Default)]
pub(super) struct Readies {
    waiting: Vec<(Timestamp, Ready)>,
    /// The nearest names to those that were not found.
    nearest: HashMap<BreakerName, String>,
    /// Told by being dropped with the agent.
    pub(super) ended: Vec<oneshot::Sender<()>>,
}

impl Readies {
    pub(super) fn add(&mut self, readies: Vec<Ready>, now: Timestamp) {
        self.waiting.extend(readies.into_iter().map(|ready| (now.plus(ready.bound), ready)));
    }

    pub(super) fn not_found(&mut self, name: &BreakerName, nearest: &str) {
        if !nearest.is_empty() {
            self.nearest.insert(name.clone(), nearest.chars().take(128).collect());
        }
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.waiting.iter().map(|(until, _)| *until).min()
    }

    /// The answer for one who waits, if there is one yet.
    fn answer(&self, ready: &Ready, is_over: bool, last_error: &str) -> Option<Result<(), NotReady>> {
        let is = |slot: &Arc<Slot>| {
            slot.with(|cell, now| {
                cell.state(now);
                (cell.freshness(), cell.is_unknown())
            })
        };
        let late: Vec<_> = ready.slots.iter().filter(|slot| is(slot).0 != Freshness::Fresh).collect();
        let Some(first) = late.first() else { return Some(Ok(())) };
        if let Some(unknown) = late.iter().find(|slot| is(slot).1) {
            let breaker = unknown.name.to_string();
            let nearest = self.nearest.get(&unknown.name).cloned().unwrap_or_default();
            return Some(Err(NotReady::NotFound { breaker, nearest }));
        }
        is_over.then(|| {
            Err(NotReady::TimedOut {
                breaker: first.name.to_string(),
                others: late.len() - 1,
                waited: ready.bound,
                last_error: last_error.to_owned(),
            })
        })
    }
}

impl Agent {
    pub(super) fn answer_readies(&mut self) {
        let now = self.now();
        for (until, ready) in std::mem::take(&mut self.readies.waiting) {
            match self.readies.answer(&ready, now >= until, &self.log.last_error) {
                // Nobody there any more.
                _ if ready.answer.is_closed() => {}
                Some(answer) => drop(ready.answer.send(answer)),
                None => self.readies.waiting.push((until, ready)),
            }
        }
    }
}
