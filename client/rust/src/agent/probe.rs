//! Asking for probes.

use std::{sync::Arc, time::Duration};

use panelboard_core::{ProbeId, Timestamp};
use panelboard_proto::v1::{self, acquire_response::Decision};
use tonic::{Code, Status};

use super::{Agent, events::Event};
use crate::{
    cell::{Cell, Source},
    limits::ACQUIRE_TIMEOUT,
    slot::Slot,
    wire::{self, Base},
};

impl Agent {
    /// Asks for a probe. The cell has one ask under way at a time.
    pub(super) fn ask(&mut self, slot: &Arc<Slot>) {
        let Some(mut client) = self.client() else {
            slot.with(|cell, now| cell.refused(None, now));
            return;
        };
        let request = v1::AcquireRequest {
            client: Some(wire::client(&self.told.identity)),
            breaker: slot.name.as_str().into(),
        };
        let (slot, sender) = (Arc::clone(slot), self.sender.clone());
        tokio::spawn(async move {
            let answer = tokio::time::timeout(ACQUIRE_TIMEOUT, client.acquire(request)).await;
            let result = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer to Acquire")));
            let result = result.map(|response| Box::new(response.into_inner()));
            // A closed channel says that the client has ended.
            drop(sender.send(Event::Acquired { slot, result }).await);
        });
    }

    pub(super) fn on_acquired(&mut self, slot: &Arc<Slot>, result: Result<v1::AcquireResponse, Status>) {
        match result {
            Ok(answer) => {
                slot.with(|cell, now| cell.ticked(answer.tick, now));
                if let Some(status) = &answer.status {
                    self.apply(slot, status, None, Source::Answer);
                }
                slot.with(|cell, now| decided(cell, answer.decision.as_ref(), now));
            }
            Err(status) => {
                if status.code() == Code::NotFound {
                    self.not_found(slot, "");
                } else {
                    let again = super::backoff(&mut self.dice, 1);
                    slot.with(|cell, now| cell.refused(Some(again), now));
                }
                if !is_passing(status.code()) {
                    self.log.complain("to give probes", &status);
                }
            }
        }
        self.touched.push(Arc::clone(slot));
    }

    /// A status of one breaker, wherever it came from.
    pub(super) fn apply(
        &mut self,
        slot: &Arc<Slot>,
        status: &v1::BreakerStatus,
        base: Option<Base>,
        source: Source,
    ) {
        let (wrong, new_policy) = slot.with(|cell, now| {
            let (known, wrong) = wire::known(status, base.unwrap_or(Base::Answer(now)));
            let before = Arc::clone(cell.policy());
            cell.apply(known, source, now);
            (wrong, cell.policy().spec() != before.spec())
        });
        self.touched.push(Arc::clone(slot));
        if !wrong.is_empty() {
            let wrong = wire::sentence(&wrong);
            tracing::warn!(
                breaker = slot.name.as_str(),
                wrong,
                "a policy is not usable, the one before stays"
            );
        } else if new_policy
            && let Some(cache) = &self.told.cache
            && let Err(error) = cache.store(&slot.name, status)
        {
            tracing::debug!(breaker = slot.name.as_str(), %error, "the policy could not be cached");
        }
    }

    /// The server knows no such breaker.
    pub(super) fn not_found(&mut self, slot: &Arc<Slot>, nearest: &str) {
        let news = slot.with(|cell, now| cell.not_found(now));
        self.touched.push(Arc::clone(slot));
        self.readies.not_found(&slot.name, nearest);
        if news {
            tracing::warn!(
                breaker = slot.name.as_str(),
                nearest,
                "the panel has no policy for this breaker: it stays LOCAL until there is one"
            );
        }
    }
}

/// What the answer to an ask means for the cell, once its status was applied.
pub(super) fn decided(cell: &mut Cell, decision: Option<&Decision>, now: Timestamp) {
    match decision {
        Some(Decision::Grant(v1::Grant { generation, probe: Some(probe), .. })) => {
            let generation = generation.map(Into::into).unwrap_or_default();
            let timeout = wire::span(probe.timeout.as_ref()).unwrap_or_default();
            cell.granted(ProbeId(probe.id), generation, timeout, now);
        }
        // It is CLOSED meanwhile: the status has said so.
        Some(Decision::Grant(_)) | None => cell.refused(Some(Duration::ZERO), now),
        Some(Decision::Rejection(rejection)) => {
            cell.refused(wire::span(rejection.retry_after.as_ref()), now);
        }
    }
}

/// Whether an error is one that passes by itself.
pub(super) const fn is_passing(code: Code) -> bool {
    !matches!(
        code,
        Code::InvalidArgument
            | Code::Unimplemented
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::OutOfRange
            | Code::FailedPrecondition
    )
}
