//! Incidents: from a trip to the close that ended it.

use std::{collections::VecDeque, sync::Arc};

use panelboard_core::{Reason, StateKind, Transition};
use panelboard_proto::{convert::wall_from_wire, v1};

use crate::limits::Limits;

/// Reopenings that an incident keeps whole.
const REOPENINGS_KEPT: usize = 3;

/// Adds a transition to the incidents of a breaker and returns the incident it belongs to, if to any.
pub(crate) fn record(
    incidents: &mut VecDeque<Arc<v1::Incident>>,
    transition: &Transition,
    wire: &v1::Transition,
    limits: &Limits,
) -> Option<Arc<v1::Incident>> {
    let lasting = incidents.back().filter(|incident| incident.closed.is_none()).is_some();
    let opens = transition.to.state == StateKind::Open;
    let closes = transition.to.state == StateKind::Closed;
    // One that was never closed was of a breaker that went idle half open: what trips now is another story.
    let begins = !lasting || transition.from.state == StateKind::Closed;
    if opens && begins {
        incidents.push_back(Arc::new(v1::Incident { opened: Some(wire.clone()), ..v1::Incident::default() }));
    } else if let Some(incident) = incidents.back_mut().filter(|_| lasting) {
        let incident = Arc::make_mut(incident);
        if closes {
            incident.closed = Some(wire.clone());
        } else if opens && !matches!(transition.reason, Reason::Restored) {
            incident.reopenings = incident.reopenings.saturating_add(1);
            if incident.last_reopenings.len() == REOPENINGS_KEPT {
                incident.last_reopenings.remove(0);
            }
            incident.last_reopenings.push(wire.clone());
        } else {
            return None;
        }
    } else {
        return None;
    }
    while incidents.len() > limits.incidents_per_breaker {
        incidents.pop_front();
    }
    incidents.back().cloned()
}

/// Drops the incidents that ended longer ago than they are kept.
pub(crate) fn prune(incidents: &mut VecDeque<Arc<v1::Incident>>, now_unix_ms: u64, limits: &Limits) {
    while incidents.front().is_some_and(|incident| is_old(incident, now_unix_ms, limits)) {
        incidents.pop_front();
    }
}

/// Whether an incident ended longer ago than it is kept. One that lasts is not old.
pub(crate) fn is_old(incident: &v1::Incident, now_unix_ms: u64, limits: &Limits) -> bool {
    let kept_ms = u64::try_from(limits.incident_age.as_millis()).unwrap_or(u64::MAX);
    let ended = incident.closed.as_ref().and_then(|closed| closed.time.as_ref());
    ended.is_some_and(|time| wall_from_wire(time).saturating_add(kept_ms) <= now_unix_ms)
}

/// When an incident began: with the breaker's name its key in the store.
pub(crate) fn opened_unix_ms(incident: &v1::Incident) -> u64 {
    let time = incident.opened.as_ref().and_then(|opened| opened.time.as_ref());
    time.map_or(0, wall_from_wire)
}
