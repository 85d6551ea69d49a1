//! Promise 4, first half: one bad caller does not open it for all. It is kept out, and nobody else notices.

use crate::{
    Scenario, claim,
    fleet::{Plan, Pod, Report, pods},
};

const SICK_FROM: u64 = 15_000;

/// Nobody but the sick ones is refused a call, each of those is quarantined, and the fleet never trips.
fn only_the_sick(with: &Report, _: &Report) -> Result<(), String> {
    claim!(with.tripped().is_none(), "it tripped");
    claim!(with.refused_to_others == 0, "{} calls of well pods were refused", with.refused_to_others);
    let quarantined = |who: &str| with.quarantined.iter().any(|(_, name)| name == who);
    for (name, ..) in &with.at_the_end {
        let is_sick = name.starts_with("sick");
        claim!(quarantined(name) == is_sick, "{name} was quarantined: {}", quarantined(name));
    }
    claim!(
        with.quarantined.iter().all(|(at, _)| *at >= SICK_FROM + 1_000),
        "too early: {:?}",
        with.quarantined
    );
    Ok(())
}

/// The same, and without the guard it would have been an outage for all.
fn only_the_sick_and_else_all(with: &Report, without: &Report) -> Result<(), String> {
    only_the_sick(with, without)?;
    claim!(without.tripped().is_some(), "without the guard nothing happens either: it proves little");
    Ok(())
}

fn sick(n: usize, rate: f64, well: usize) -> Plan {
    let mut all: Vec<Pod> =
        (0..n).map(|n| Pod::new(format!("sick-{n}"), rate).sick_from(SICK_FROM)).collect();
    all.extend(pods(well, 10.0));
    Plan::of(all, 60_000)
}

pub(crate) fn all() -> Vec<Scenario> {
    vec![
        Scenario { name: "one sick of 5, 3 calls/s", plan: sick(1, 3.0, 4), claim: only_the_sick },
        Scenario {
            name: "one sick of 5, 500 calls/s",
            plan: sick(1, 500.0, 4),
            claim: only_the_sick_and_else_all,
        },
        Scenario { name: "one sick of 100, 3 calls/s", plan: sick(1, 3.0, 99), claim: only_the_sick },
        Scenario {
            name: "one sick of 100, 2,000 calls/s",
            plan: sick(1, 2_000.0, 99),
            claim: only_the_sick_and_else_all,
        },
        Scenario {
            name: "two sick of 100, 1,000 calls/s each",
            plan: sick(2, 1_000.0, 98),
            claim: only_the_sick_and_else_all,
        },
        Scenario { name: "a sick zone of 10 in 30", plan: sick(10, 10.0, 20), claim: only_the_sick },
        Scenario { name: "a sick zone of 10 in 30, loud", plan: sick(10, 15.0, 20), claim: only_the_sick },
        Scenario {
            name: "5 % noise for an hour",
            plan: Plan { noise: 50, ..Plan::of(pods(10, 10.0), 3_600_000) },
            claim: |with, _| {
                claim!(with.transitions.is_empty(), "it tripped");
                claim!(with.quarantined.is_empty(), "{:?} quarantined", with.quarantined);
                claim!(with.refused_to_others == 0, "calls were refused");
                Ok(())
            },
        },
    ]
}
