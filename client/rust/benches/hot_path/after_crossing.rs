//! What deciding a flush later costs: calls admitted after the one at which the rule was crossed.
//!
//! One thread calls a dependency of which every call fails. All breakers open at the 20th failure.

use std::time::{Duration, Instant};

use crate::{
    Failure,
    call::Call,
    ours::{Caller, Ours},
    peers::{self, MINIMUM_CALLS},
    plan::Plan,
};

/// No breaker takes so long.
const BOUND: Duration = Duration::from_secs(10);

#[derive(Clone, Copy)]
enum Pace {
    /// Time from one call to the next.
    Every(Duration),
    FlatOut,
}

impl Pace {
    const fn name(self) -> &'static str {
        match self {
            Self::Every(_) => "paced",
            Self::FlatOut => "flat-out",
        }
    }

    fn shown(self) -> String {
        match self {
            Self::Every(span) => format!("{} k/s", Duration::from_millis(1).as_nanos() / span.as_nanos()),
            Self::FlatOut => "flat out".into(),
        }
    }
}

struct Outage {
    admitted_after: u64,
    took: Duration,
}

pub(crate) fn table(ours: &Ours, plan: Plan) -> Result<String, Failure> {
    let mut lines = vec![format!(
        "calls admitted after the crossing (every call fails, 1 thread, median and worst of {} outages):",
        plan.outages
    )];
    for pace in [Pace::Every(Duration::from_micros(10)), Pace::FlatOut] {
        let breakers = ours.for_outages(pace.name(), plan.outages)?;
        let mut add = |who: &str, outage: &dyn Fn(usize) -> Result<Outage, Failure>| {
            let outages: Result<Vec<_>, _> = (0..plan.outages).map(outage).collect();
            let outages = outages.map_err(|error| format!("{who}, {}: {error}", pace.shown()))?;
            lines.push(format!("  {:9} {who:18} {}", pace.shown(), summary(outages)));
            Ok::<_, Failure>(())
        };
        add("ours", &|n| outage(Caller(&breakers[n]), pace))?;
        add("recloser", &|_| outage(&peers::recloser::strict(), pace))?;
        add("failsafe", &|_| outage(&peers::failsafe::strict(), pace))?;
        add("circuitbreaker-rs", &|_| outage(&peers::circuitbreaker_rs::strict(), pace))?;
        add("tower-resilience", &|_| outage(peers::tower_resilience::strict(), pace))?;
    }
    Ok(lines.join("\n"))
}

fn outage(mut caller: impl Call, pace: Pace) -> Result<Outage, Failure> {
    let began = Instant::now();
    for n in 0..MINIMUM_CALLS {
        wait(began, n as u64, pace);
        if !caller.fail() {
            return Err(format!("call {n} of the first {MINIMUM_CALLS} was rejected").into());
        }
    }
    let (crossed, mut admitted_after) = (Instant::now(), 0);
    loop {
        wait(began, MINIMUM_CALLS as u64 + admitted_after, pace);
        if !caller.fail() {
            return Ok(Outage { admitted_after, took: crossed.elapsed() });
        }
        admitted_after += 1;
        if crossed.elapsed() > BOUND {
            return Err(format!("not OPEN {BOUND:?} after the crossing").into());
        }
    }
}

/// Until the n-th call is due. Spins: a sleep is longer than the time between calls.
fn wait(began: Instant, n: u64, pace: Pace) {
    let Pace::Every(span) = pace else { return };
    let due = began + span * u32::try_from(n).unwrap_or(u32::MAX);
    while Instant::now() < due {
        std::hint::spin_loop();
    }
}

fn summary(mut outages: Vec<Outage>) -> String {
    outages.sort_by_key(|outage| outage.admitted_after);
    let (middle, worst) = (&outages[(outages.len() - 1) / 2], &outages[outages.len() - 1]);
    let millis = |outage: &Outage| outage.took.as_secs_f64() * 1e3;
    format!(
        "{:>9} in {:.2} ms, at worst {} in {:.2} ms",
        middle.admitted_after,
        millis(middle),
        worst.admitted_after,
        millis(worst)
    )
}
