//! One breaker in full, for GetBreaker and for people with a browser. All of it is of one instant.

use std::{sync::Arc, time::Duration};

use panelboard_core::Quarantine;
use panelboard_proto::{
    convert::{Times, duration_to_wire, reading_to_wire, wall_to_wire},
    v1,
};

use crate::{
    history,
    limits::{INCIDENTS_SHOWN, QUARANTINES_SHOWN},
    registry::{Registry, Seen},
    slot::Slot,
};

/// One breaker in full.
#[derive(Debug)]
pub(crate) struct View {
    /// As the rules see it.
    pub(crate) seen: Seen,
    /// As a message.
    pub(crate) full: v1::GetBreakerResponse,
    /// Its newest incidents, the newest first.
    pub(crate) incidents: Vec<Arc<v1::Incident>>,
}

/// Looks at one breaker. Takes no probe.
pub(crate) fn breaker(registry: &Registry, slot: &Slot) -> View {
    registry.look_closely(slot, |cell, seen| {
        let unix_ms = registry.clock.unix_ms();
        history::prune(&mut cell.incidents, unix_ms, &registry.limits);
        let in_state_ms = unix_ms.saturating_sub(cell.since_unix_ms);
        let now = seen.after.now;
        let mut quarantines = cell.breaker.quarantines(QUARANTINES_SHOWN, now);
        quarantines.sort_by(|a, b| a.instance.cmp(&b.instance));
        let quarantine = |held: &Quarantine| registry.quarantine_to_wire(held, Times::LeftFrom(now), now);
        let full = v1::GetBreakerResponse {
            status: Some(seen.after.to_wire(&slot.name, true)),
            progress: seen.progress.clone(),
            readings: cell.breaker.readings(now).iter().map(reading_to_wire).collect(),
            in_state_for: Some(duration_to_wire(Duration::from_millis(in_state_ms))),
            since: Some(wall_to_wire(cell.since_unix_ms)),
            known_instances: cell.breaker.known_instances(),
            probes_leased: cell.breaker.probes_leased(),
            tick: now.as_millis(),
            quarantines: quarantines.iter().map(quarantine).collect(),
            quarantined_instances: seen.after.status.quarantined_instances,
        };
        View { full, incidents: cell.incidents.iter().rev().take(INCIDENTS_SHOWN).cloned().collect(), seen }
    })
}
