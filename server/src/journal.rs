//! What the log says of breakers: one line per transition, per quarantine, and per incident that METRICS_ONLY kept from
//! happening.

use panelboard_core::{BreakerName, Policy, Quarantine, QuarantineEvent, Timestamp, Transition, WouldOpen};

use crate::{
    limits::QUARANTINES_LOGGED_PER_SECOND,
    outbox::{Event, Posted, What},
};

/// Writes the lines. For one task.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// The second, and how many quarantines were to be told of in it.
    quarantines: (u64, u32),
}

impl Journal {
    /// The line of a change, if it has one.
    pub(crate) fn note(&mut self, change: &Posted, now: Timestamp) {
        let name = &change.name;
        match &change.what {
            What::Changed { status, event: Event::Transition { transition, .. }, .. } => {
                transition_line(name, transition, &status.policy);
            }
            What::Changed { status, event: Event::WouldOpen { news: Some(would), .. }, .. } => {
                would_open_line(name, would, &status.policy);
            }
            What::ChangedFor { status, quarantine, .. } => {
                self.quarantine(name, quarantine, &status.policy, now);
            }
            What::Changed { event: Event::Created | Event::WouldOpen { .. } | Event::Other, .. }
            | What::Deleted { .. } => {}
        }
    }

    fn quarantine(&mut self, name: &BreakerName, held: &Quarantine, policy: &Policy, now: Timestamp) {
        let (generation, owner) = (held.generation, owner(policy));
        if held.event != QuarantineEvent::Began {
            // It said for how long.
            tracing::debug!(breaker = name.as_str(), %generation, "{name}: {held}{owner}");
            return;
        }
        let second = now.as_millis() / 1_000;
        if self.quarantines.0 != second {
            self.tell_the_rest();
            self.quarantines = (second, 0);
        }
        self.quarantines.1 = self.quarantines.1.saturating_add(1);
        if self.quarantines.1 <= QUARANTINES_LOGGED_PER_SECOND {
            let instance = tracing::field::display(&held.instance);
            let reason = held.why.label();
            tracing::info!(breaker = name.as_str(), %generation, instance, reason, "{name}: {held}{owner}");
        }
    }

    /// Those that a second had no room for.
    fn tell_the_rest(&self) {
        let rest = self.quarantines.1.saturating_sub(QUARANTINES_LOGGED_PER_SECOND);
        if rest > 0 {
            tracing::info!(
                instances = rest,
                "more instances were quarantined in one second: /breakers/NAME has them"
            );
        }
    }
}

fn transition_line(name: &BreakerName, transition: &Transition, policy: &Policy) {
    let (generation, owner) = (transition.generation, owner(policy));
    tracing::info!(breaker = name.as_str(), %generation, "{name} {transition}{owner}");
}

fn would_open_line(name: &BreakerName, would: &WouldOpen, policy: &Policy) {
    let owner = owner(policy);
    tracing::info!(breaker = name.as_str(), "{name} METRICS_ONLY, {would}{owner}");
}

fn owner(policy: &Policy) -> String {
    let owner = &policy.spec().owner;
    if owner.is_empty() { String::new() } else { format!("; owner {owner}") }
}
