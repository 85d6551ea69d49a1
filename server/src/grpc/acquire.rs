//! Acquire.

use std::{net::IpAddr, time::Duration};

use panelboard_proto::{convert::decision_to_wire, v1};
use tokio::time::timeout;
use tonic::Status;

use super::validate::Violations;
use crate::parts::Parts;
use crate::registry::Acquired;

/// The longest that a probe waits for its half-open period to be durable. A commit takes milliseconds.
const DURABLE_WITHIN: Duration = Duration::from_secs(1);

pub(super) async fn acquire(
    parts: &Parts,
    request: v1::AcquireRequest,
    from: Option<IpAddr>,
) -> Result<v1::AcquireResponse, Status> {
    let registry = &parts.registry;
    let mut wrong = Violations::default();
    let identity = wrong.client(request.client.as_ref(), &registry.limits);
    let name = wrong.name("breaker", &request.breaker);
    wrong.into_result()?;
    let Some(name) = name else { return Err(Status::internal("a name was lost")) };
    registry.seen_from(identity.caller(), from);

    // Nothing is awaited after a decision: a probe may have been taken.
    let mut minds = true;
    let (decision, after) = loop {
        // HALF_OPEN is durable before its first probe, unless the store is known to fail.
        let store = parts.persist.state();
        let durable = (minds && !store.failing).then_some(store.position);
        match registry.acquire(&name, identity.caller(), durable) {
            Err(missing) => return Err(registry.with_nearest(missing).into()),
            Ok(Acquired::Decided { decision, after }) => break (decision, after),
            // A disk that hangs is not in the way either: it counts as one that fails.
            Ok(Acquired::NotDurable { position }) => {
                minds = timeout(DURABLE_WITHIN, parts.persist.durable(position)).await.is_ok();
            }
        }
    };
    Ok(v1::AcquireResponse {
        decision: Some(decision_to_wire(name.as_str(), &decision, after.why())),
        status: Some(after.to_wire(&name, false)),
        tick: after.now.as_millis(),
    })
}
