//! Metrics of the server as a whole.

use super::{counter, families as f, gauge, label};
use crate::parts::Parts;

/// Sets them into the recorder in force.
pub(super) fn show(parts: &Parts) {
    let Parts { registry, hub, persist, .. } = parts;
    gauge(&f::BUILD_INFO, vec![label("version", env!("CARGO_PKG_VERSION"))], 1.0);
    gauge(&f::WATCH_STREAMS, Vec::new(), hub.streams() as f64);
    counter(&f::WATCH_RESYNCS, Vec::new(), hub.resyncs());
    let (connected, lost) = registry.clients.count(registry.clock.now());
    gauge(&f::CLIENTS, vec![label("state", "connected")], connected as f64);
    gauge(&f::CLIENTS, vec![label("state", "lost")], lost as f64);
    counter(&f::CONFLICTS, Vec::new(), registry.identities.conflicts());
    for (result, count) in registry.reports.counts() {
        counter(&f::REPORTS, vec![label("result", result)], count);
    }
    gauge(&f::STORE_LAG, Vec::new(), persist.lag().as_secs_f64());
    counter(&f::STORE_COMMIT_FAILURES, Vec::new(), persist.commits().failed);
    let (succeeded, failed) = registry.reloads.counts();
    counter(&f::POLICY_RELOADS, vec![label("result", "succeeded")], succeeded);
    counter(&f::POLICY_RELOADS, vec![label("result", "failed")], failed);
}
