//! Acquire.

use panelboard_proto::{
    convert::{Times, decision_to_wire, status_to_wire},
    v1,
};
use tonic::Status;

use super::{BreakerApi, validate::Violations};
use crate::registry::After;

/// The longest that a probe waits for its half-open period to be durable. A commit takes milliseconds.
const DURABLE_WITHIN: std::time::Duration = std::time::Duration::from_secs(1);

pub(super) async fn acquire(
    api: &BreakerApi,
    request: v1::AcquireRequest,
) -> Result<v1::AcquireResponse, Status> {
    let registry = &api.registry;
    let mut wrong = Violations::default();
    let identity = wrong.client(request.client.as_ref(), &registry.limits);
    let name = wrong.name("breaker", &request.breaker);
    wrong.into_result()?;
    let Some(name) = name else { return Err(Status::internal("a name was lost")) };

    let mut slot = registry.find_or_make(&name)?;
    // HALF_OPEN is durable before its first probe, unless the store is known to fail.
    if let Some(position) = registry.half_open_since(&slot) {
        // A disk that hangs is not in the way either: it counts as one that fails.
        let _ = tokio::time::timeout(DURABLE_WITHIN, api.persist.durable(position)).await;
        slot = registry.find_or_make(&name)?;
    }
    // A probe may be taken here: nothing is awaited after it.
    let (decision, after) = registry.acquire(&slot, identity.caller());
    let After { status, last, progress: _, now } = after;
    let why = last.as_deref().map(|last| last.explanation.as_str()).unwrap_or_default();
    Ok(v1::AcquireResponse {
        decision: Some(decision_to_wire(name.as_str(), &decision, why)),
        status: Some(status_to_wire(
            name.as_str(),
            &status,
            last.as_deref().cloned(),
            false,
            Times::LeftFrom(now),
        )),
        tick: now.as_millis(),
    })
}
