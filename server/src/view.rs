//! One breaker in full, for GetBreaker and for people with a browser.

use std::{sync::Arc, time::Duration};

use panelboard_proto::{
    convert::{Times, duration_to_wire, reading_to_wire, status_to_wire, wall_to_wire},
    v1,
};

use crate::{registry::Registry, slot::Slot};

/// One breaker in full. Takes no probe.
pub(crate) fn breaker(registry: &Registry, slot: &Arc<Slot>) -> v1::GetBreakerResponse {
    let after = registry.look(slot);
    let cell = slot.lock();
    let last = after.last.as_deref().cloned();
    let times = Times::LeftFrom(after.now);
    let in_state_ms = registry.clock.unix_ms().saturating_sub(cell.since_unix_ms);
    v1::GetBreakerResponse {
        status: Some(status_to_wire(slot.name.as_str(), &after.status, last, true, times)),
        progress: after.progress,
        readings: cell.breaker.readings(after.now).iter().map(reading_to_wire).collect(),
        in_state_for: Some(duration_to_wire(Duration::from_millis(in_state_ms))),
        since: Some(wall_to_wire(cell.since_unix_ms)),
        known_instances: cell.breaker.known_instances(),
        probes_leased: cell.breaker.probes_leased(),
        tick: after.now.as_millis(),
    }
}
