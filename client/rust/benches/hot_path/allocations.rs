//! Allocations per call. The same is asserted by `cargo test -p panelboard-client --test allocations`.

use crate::{
    call::Call,
    goals::{Goal, Outcome},
    ours::{Caller, Ours},
    peers,
};

const CALLS: u64 = 1_000;

pub(crate) fn goal(ours: &Ours) -> Goal {
    let ours = per_call(Caller(&ours.plain)).max(per_call(Caller(&ours.open)));
    let theirs = [
        per_call(&peers::recloser::standard()),
        per_call(&peers::failsafe::standard()),
        per_call(&peers::circuitbreaker_rs::standard()),
        per_call(peers::tower_resilience::standard()),
    ];
    let theirs = theirs.map(|n| n.to_string()).join(", ");
    Goal { name: "allocations per call, closed and open", outcome: Outcome::Count { ours, theirs } }
}

/// Of this thread, rounded up, after a first call.
fn per_call(mut caller: impl Call) -> u64 {
    caller.succeed();
    let counted = allocation_counter::measure(|| {
        for _ in 0..CALLS {
            caller.succeed();
        }
    });
    counted.count_total.div_ceil(CALLS)
}
