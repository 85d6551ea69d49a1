//! Promise 4, second half: one bad caller does not keep it open for all. It asks first, alone for a while, in every
//! period; or it takes probes and never gives them back.

use std::time::Duration;

use panelboard_core::{HalfOpenSpec, PolicySpec, Rate, Rule, StateKind, Window};

use crate::{
    Scenario, claim,
    fleet::{Plan, Pod, Report, pods},
};

const UP_AGAIN: u64 = 20_000;

/// The provider is down for five seconds; whoever is sick stays so. The others ask `after` the sick one.
fn short_outage(sick: Pod, after: u64) -> Plan {
    let mut all = vec![sick];
    all.extend(pods(9, 10.0).into_iter().map(|pod| Pod { asks_after: after, ..pod }));
    Plan { outage: Some((15_000, UP_AGAIN)), ..Plan::of(all, 120_000) }
}

/// Within half a minute of the provider's return all but the sick one are back, and stay.
fn back_soon(with: &Report, _: &Report) -> Result<(), String> {
    let Some(closed) = with.closed_after(UP_AGAIN) else { return Err("it never closes".into()) };
    claim!(closed < UP_AGAIN + 30_000, "it closes {} ms after the provider is back", closed - UP_AGAIN);
    claim!(with.last_state == Some(StateKind::Closed), "it ends in {:?}", with.last_state);
    for (name, made, refused) in with.at_the_end.iter().filter(|(name, ..)| name.starts_with("pod")) {
        claim!(*made > 0 && *refused == 0, "{name} made {made} calls at the end, {refused} refused");
    }
    Ok(())
}

fn one_probe() -> PolicySpec {
    let half_open = HalfOpenSpec { permitted_calls: 1, ..HalfOpenSpec::default() };
    PolicySpec { half_open, ..PolicySpec::default() }
}

fn slow_rule() -> PolicySpec {
    let mut spec = PolicySpec::default();
    spec.trip.push(Rule::SlowRate {
        threshold: Rate::percent(20).expect("a rate"),
        slower_than: Duration::from_secs(1),
        window: Window::Within(Duration::from_secs(10)),
        minimum_calls: 20,
    });
    spec
}

pub(crate) fn all() -> Vec<Scenario> {
    let sick = || Pod::new("sick", 10.0).sick_from(15_000);
    let alone = |after| short_outage(sick(), after);
    let leaker = || Pod { leaks: true, ..Pod::new("leaker", 10.0) };
    vec![
        Scenario { name: "a sick one asks first, alone for 3 s", plan: alone(3_000), claim: back_soon },
        Scenario {
            name: "a sick one asks first, alone for 3 s, one probe",
            plan: Plan { policy: one_probe(), ..alone(3_000) },
            claim: |with, without| {
                back_soon(with, without)?;
                claim!(
                    without.opened() > with.opened(),
                    "without the guard it opens as seldom: it proves little"
                );
                Ok(())
            },
        },
        Scenario { name: "a sick one asks first, alone for 15 s", plan: alone(15_000), claim: back_soon },
        Scenario {
            name: "a slow one asks first, alone for 3 s",
            plan: Plan { policy: slow_rule(), ..short_outage(Pod { slow: true, ..sick() }, 3_000) },
            claim: back_soon,
        },
        Scenario { name: "one leaks probes", plan: short_outage(leaker(), 1_000), claim: back_soon },
        Scenario {
            name: "one leaks probes, of one",
            plan: Plan { policy: one_probe(), ..short_outage(leaker(), 1_000) },
            claim: back_soon,
        },
        Scenario {
            name: "one is sick, then the provider dies, then it is back",
            plan: Plan {
                outage: Some((40_000, 50_000)),
                ..Plan::of([vec![Pod::new("sick", 20.0).sick_from(15_000)], pods(4, 10.0)].concat(), 120_000)
            },
            claim: |with, _| {
                let tripped = with.tripped();
                claim!(tripped.is_some_and(|at| (40_000..42_000).contains(&at)), "it trips at {tripped:?}");
                claim!(with.closed_after(50_000).is_some_and(|at| at < 80_000), "it is not back");
                claim!(with.opened() <= 3, "it opened {} times", with.opened());
                claim!(with.last_state == Some(StateKind::Closed), "it ends in {:?}", with.last_state);
                claim!(with.quarantined_at_the_end <= 1, "{} are quarantined", with.quarantined_at_the_end);
                Ok(())
            },
        },
    ]
}
