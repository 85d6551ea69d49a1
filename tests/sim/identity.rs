//! Deploys, crash loops and restarts: new sessions, same or new instance ids, a server that comes back. They leave nothing
//! stuck, and they are no quorum.

use panelboard_core::{PolicySpec, StateKind};

use crate::{
    Scenario, claim,
    fleet::{Plan, Pod, Report, pods, seconds},
};

/// Nobody trips the fleet, and at the end all that live are admitted.
fn nothing_stuck(with: &Report, _: &Report) -> Result<(), String> {
    claim!(with.tripped().is_none(), "it tripped");
    claim!(with.last_state == Some(StateKind::Closed), "it ends in {:?}", with.last_state);
    claim!(with.refused_to_others == 0, "{} calls of well pods were refused", with.refused_to_others);
    Ok(())
}

fn rolled_out(with: &Report, without: &Report) -> Result<(), String> {
    nothing_stuck(with, without)?;
    claim!(with.quarantined_at_the_end == 0, "{} are quarantined at the end", with.quarantined_at_the_end);
    claim!(with.known_at_the_end == 10, "{} are known at the end", with.known_at_the_end);
    for (name, made, refused) in with.at_the_end.iter().filter(|(name, ..)| name.starts_with("new")) {
        claim!(*made > 0 && *refused == 0, "{name} made {made} calls at the end, {refused} refused");
    }
    Ok(())
}

/// Ten pods are replaced one by one; each new one fails while it warms up.
fn rollout(warm_up: u64) -> Plan {
    let mut all = Vec::new();
    for n in 0..10u64 {
        let at = 15_000 + n * 5_000;
        all.push(Pod { lives: (0, at), ..Pod::new(format!("old-{n}"), 20.0) });
        let lives = (at, u64::MAX);
        all.push(Pod { lives, sick: Some((at, at + warm_up)), ..Pod::new(format!("new-{n}"), 20.0) });
    }
    Plan::of(all, 120_000)
}

/// One of six fails whenever it lives: eight seconds, and then four down.
fn crash_loop(name: fn(u64) -> String) -> Plan {
    let mut all = pods(5, 20.0);
    for n in 0..10 {
        let from = 15_000 + n * 12_000;
        all.push(Pod {
            lives: (from, from + 8_000),
            sick: Some((from, u64::MAX)),
            ..Pod::new(name(n), 20.0)
        });
    }
    Plan::of(all, 150_000)
}

/// The sick pod is the first to be back, and alone for two seconds.
fn first_after(spread: u64, closes: bool) -> Plan {
    let mut all = vec![Pod::new("sick", 50.0).sick_from(15_000)];
    all.extend(pods(9, 10.0));
    let times: Vec<u64> = (0..8).map(|n| 40_000 + n * 20_000).collect();
    let (closes, restarts) = if closes { (times, Vec::new()) } else { (Vec::new(), times) };
    Plan {
        policy: PolicySpec { spread: seconds(spread), ..PolicySpec::default() },
        // One outage, from which the breaker knows that it has a fleet.
        outage: Some((5_000, 10_000)),
        first_alone: 2_000,
        closes,
        restarts,
        ..Plan::of(all, 200_000)
    }
}

/// After the outage it never opens again, although the sick pod was first eight times.
fn opened_once(with: &Report, without: &Report) -> Result<(), String> {
    let since = with.transitions.iter().filter(|t| t.0 > 30_000 && t.2 == StateKind::Open).count();
    claim!(with.tripped().is_some(), "not even the outage opened it");
    claim!(since == 0, "it opened {since} times for one pod");
    claim!(without.opened() > with.opened(), "without the guard it opens as seldom: it proves little");
    claim!(with.quarantined.iter().all(|(_, who)| who == "sick"), "{:?}", with.quarantined);
    Ok(())
}

pub(crate) fn all() -> Vec<Scenario> {
    vec![
        Scenario { name: "a rollout of 10, each fails for 1.5 s", plan: rollout(1_500), claim: rolled_out },
        Scenario { name: "a rollout of 10, each fails for 4 s", plan: rollout(4_000), claim: rolled_out },
        Scenario {
            name: "a crash loop, one instance id",
            plan: crash_loop(|_| "sick".into()),
            claim: nothing_stuck,
        },
        Scenario {
            name: "a crash loop, new instance ids",
            plan: crash_loop(|n| format!("sick-{n}")),
            claim: nothing_stuck,
        },
        Scenario {
            name: "the sick one first after 8 closes",
            plan: first_after(0, true),
            claim: opened_once,
        },
        Scenario {
            name: "the sick one first after 8 closes, spread 2 s",
            plan: first_after(2, true),
            claim: opened_once,
        },
        Scenario {
            name: "the sick one first after 8 restarts",
            plan: first_after(0, false),
            claim: opened_once,
        },
        Scenario {
            name: "the sick one first after 8 restarts, spread 2 s",
            plan: first_after(2, false),
            claim: opened_once,
        },
    ]
}
