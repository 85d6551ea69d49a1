//! Incidents: from a trip to the close that ended it; and under METRICS_ONLY, what would have been one.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use panelboard_core::{Reason, StateKind, Transition};
use panelboard_proto::{
    convert::{duration_from_wire, wall_from_wire, wall_to_wire},
    v1,
};

use crate::limits::Limits;

/// Reopenings that an incident keeps whole.
const REOPENINGS_KEPT: usize = 3;

/// Incidents of one breaker, oldest first.
pub(crate) type Incidents = VecDeque<Arc<v1::Incident>>;

/// Adds a transition to the incidents of a breaker and returns those that it changed.
pub(crate) fn record(
    incidents: &mut Incidents,
    transition: &Transition,
    wire: &v1::Transition,
    limits: &Limits,
) -> Vec<Arc<v1::Incident>> {
    let mut changed = Vec::new();
    // An override that ends, or another one, ends what would have been.
    if let Some(incident) = incidents.back_mut().filter(|incident| would_last(incident)) {
        end_would_open(Arc::make_mut(incident), wire.time.as_ref().map_or(0, wall_from_wire));
        changed.push(Arc::clone(incident));
    }
    let lasting = incidents.back().filter(|incident| lasts(incident)).is_some();
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
            return changed;
        }
    } else {
        return changed;
    }
    bound(incidents, limits);
    changed.extend(incidents.back().cloned());
    changed
}

/// Under METRICS_ONLY a rule is crossed. Returns the incident it belongs to, and whether that is a new one: it is not
/// within the wait that the last one would have had.
pub(crate) fn record_would_open(
    incidents: &mut Incidents,
    would: v1::WouldOpen,
    limits: &Limits,
) -> (Option<Arc<v1::Incident>>, bool) {
    let now_unix_ms = would.time.as_ref().map_or(0, wall_from_wire);
    if let Some(incident) = incidents.back_mut().filter(|incident| is_awaited(incident, now_unix_ms)) {
        let changed = Arc::make_mut(incident);
        changed.reopenings = changed.reopenings.saturating_add(1);
        changed.would_open_ended = None;
        return (Some(Arc::clone(incident)), false);
    }
    incidents.push_back(Arc::new(v1::Incident { would_open: Some(would), ..v1::Incident::default() }));
    bound(incidents, limits);
    (incidents.back().cloned(), true)
}

/// Under METRICS_ONLY no rule is crossed any more. Returns the incident that this ended.
pub(crate) fn record_would_not_open(
    incidents: &mut Incidents,
    now_unix_ms: u64,
) -> Option<Arc<v1::Incident>> {
    let incident = incidents.back_mut()?;
    end_would_open(Arc::make_mut(incident), now_unix_ms).then(|| Arc::clone(incident))
}

/// Ends an incident of METRICS_ONLY, and says whether it lasted until now.
pub(crate) fn end_would_open(incident: &mut v1::Incident, now_unix_ms: u64) -> bool {
    let lasted = would_last(incident);
    if lasted {
        incident.would_open_ended = Some(wall_to_wire(now_unix_ms));
    }
    lasted
}

/// Whether an incident is one that lasts, and not one of METRICS_ONLY.
pub(crate) fn lasts(incident: &v1::Incident) -> bool {
    incident.would_open.is_none() && incident.closed.is_none()
}

fn would_last(incident: &v1::Incident) -> bool {
    incident.would_open.is_some() && incident.would_open_ended.is_none()
}

/// Whether a breaker under METRICS_ONLY would still have been in its wait.
fn is_awaited(incident: &v1::Incident, now_unix_ms: u64) -> bool {
    let Some(would) = &incident.would_open else { return false };
    let wait = would.wait.as_ref().and_then(duration_from_wire).unwrap_or_default();
    let ended = incident.would_open_ended.as_ref().map(wall_from_wire);
    ended.is_none_or(|ended| now_unix_ms < ended.saturating_add(millis(wait)))
}

fn bound(incidents: &mut Incidents, limits: &Limits) {
    while incidents.len() > limits.incidents_per_breaker {
        incidents.pop_front();
    }
}

/// Drops the incidents that ended longer ago than they are kept.
pub(crate) fn prune(incidents: &mut Incidents, now_unix_ms: u64, limits: &Limits) {
    while incidents.front().is_some_and(|incident| is_old(incident, now_unix_ms, limits)) {
        incidents.pop_front();
    }
}

/// Whether an incident ended longer ago than it is kept. One that lasts is not old.
pub(crate) fn is_old(incident: &v1::Incident, now_unix_ms: u64, limits: &Limits) -> bool {
    let closed = incident.closed.as_ref().and_then(|closed| closed.time.as_ref());
    let ended = closed.or(incident.would_open_ended.as_ref());
    ended.is_some_and(|time| wall_from_wire(time).saturating_add(millis(limits.incident_age)) <= now_unix_ms)
}

/// When an incident began: with the breaker's name its key in the store.
pub(crate) fn opened_unix_ms(incident: &v1::Incident) -> u64 {
    let opened = incident.opened.as_ref().and_then(|opened| opened.time.as_ref());
    let would = incident.would_open.as_ref().and_then(|would| would.time.as_ref());
    opened.or(would).map_or(0, wall_from_wire)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use panelboard_proto::convert::duration_to_wire;

    fn would(unix_ms: u64) -> v1::WouldOpen {
        v1::WouldOpen {
            time: Some(wall_to_wire(unix_ms)),
            wait: Some(duration_to_wire(Duration::from_secs(5))),
            ..v1::WouldOpen::default()
        }
    }

    #[test]
    fn what_is_crossed_again_within_its_wait_is_the_same_incident() {
        let (mut incidents, limits) = (Incidents::new(), Limits::default());
        assert!(record_would_open(&mut incidents, would(1_000), &limits).1);
        assert!(record_would_not_open(&mut incidents, 2_000).is_some());
        assert_eq!(record_would_not_open(&mut incidents, 3_000), None);
        let (incident, is_new) = record_would_open(&mut incidents, would(6_999), &limits);
        assert_eq!((is_new, incident.unwrap().reopenings), (false, 1));
        record_would_not_open(&mut incidents, 8_000);
        assert!(record_would_open(&mut incidents, would(13_000), &limits).1);
        let opened: Vec<_> = incidents.iter().map(|incident| opened_unix_ms(incident)).collect();
        assert_eq!(opened, [1_000, 13_000]);
        // One that lasts is never old, one that ended is.
        let old = 14_000 + millis(limits.incident_age);
        prune(&mut incidents, old, &limits);
        assert_eq!(incidents.len(), 1);
        record_would_not_open(&mut incidents, 14_000);
        prune(&mut incidents, old, &limits);
        assert_eq!(incidents.len(), 0);
    }

    #[test]
    fn incidents_of_metrics_only_are_bounded_too() {
        let (mut incidents, limits) =
            (Incidents::new(), Limits { incidents_per_breaker: 3, ..Limits::default() });
        for n in 0..10 {
            record_would_open(&mut incidents, would(n * 100_000), &limits);
            record_would_not_open(&mut incidents, n * 100_000 + 1);
        }
        assert_eq!(incidents.len(), 3);
    }
}
