//! Promise 2 beside the guard: when the provider is down for all, all stop, and nobody is kept out one by one before.

use crate::{
    Scenario, claim,
    fleet::{Plan, Pod, Report, pods},
};

const DOWN_FROM: u64 = 15_000;

fn outage(pods: Vec<Pod>, from: u64) -> Plan {
    Plan { outage: Some((from, 60_000)), ..Plan::of(pods, from + 15_000) }
}

fn trips(with: &Report, without: &Report) -> Result<(), String> {
    claim!(with.tripped().is_some(), "it did not trip");
    claim!(without.tripped().is_some(), "it did not trip without the guard");
    let needless: Vec<_> = with.quarantined.iter().filter(|(at, _)| Some(*at) < with.tripped()).collect();
    claim!(needless.is_empty(), "quarantined before: {needless:?}");
    Ok(())
}

/// The nth has 1/n of the calls of the first.
fn zipf(n: usize, all: f64) -> Vec<Pod> {
    let whole: f64 = (1..=n).map(|n| 1.0 / n as f64).sum();
    (1..=n).map(|n| Pod::new(format!("pod-{n}"), all / whole / n as f64)).collect()
}

pub(crate) fn all() -> Vec<Scenario> {
    let gateway = || {
        let mut all = vec![Pod::new("gateway", 500.0)];
        all.extend(pods(9, 2.0));
        all
    };
    let nine = || {
        let mut all = vec![Pod::new("pod-well", 10_000.0)];
        all.extend((0..9).map(|n| Pod::new(format!("sick-{n}"), 10.0).sick_from(DOWN_FROM)));
        all
    };
    vec![
        Scenario { name: "full outage, 2 pods", plan: outage(pods(2, 10.0), DOWN_FROM), claim: trips },
        Scenario { name: "full outage, 3 pods", plan: outage(pods(3, 10.0), DOWN_FROM), claim: trips },
        Scenario { name: "full outage, 10 pods", plan: outage(pods(10, 10.0), DOWN_FROM), claim: trips },
        Scenario {
            name: "full outage, 200 clients x 0.5 calls/s",
            plan: outage(pods(200, 0.5), DOWN_FROM),
            claim: trips,
        },
        Scenario {
            name: "full outage, 200 clients x 0.5 calls/s, cold",
            plan: outage(pods(200, 0.5), 0),
            claim: trips,
        },
        Scenario {
            name: "full outage, a gateway of 500 calls/s and 9 quiet ones",
            plan: outage(gateway(), DOWN_FROM),
            claim: trips,
        },
        Scenario { name: "full outage, zipf over 50, cold", plan: outage(zipf(50, 500.0), 0), claim: trips },
        Scenario {
            name: "full outage, zipf over 50",
            plan: outage(zipf(50, 500.0), DOWN_FROM),
            claim: trips,
        },
        Scenario {
            name: "nine of ten fail at 10 calls/s, one is well at 10,000",
            plan: Plan::of(nine(), 30_000),
            claim: |with, without| {
                claim!(with.tripped().is_some(), "it did not trip");
                claim!(without.tripped().is_none(), "the loud one does not hide it");
                Ok(())
            },
        },
    ]
}
