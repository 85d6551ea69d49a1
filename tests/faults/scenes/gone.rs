//! The server's process ends.

use std::time::{Duration, Instant};

use panelboard_client::{Freshness, Reason, State};

use crate::{
    application::{Role, Verdict},
    eventually::{slack, until},
    matrix::Row,
    scene::{ENOUGH, OPEN, SOON, World, client},
    trial::{self, Expected, RECONNECT},
};

pub(crate) async fn killed() -> Row {
    let mut world = World::start().await;
    trial::run(&mut world, Expected::BROKEN, World::kill, World::start_again).await
}

/// What a control plane is feared for: it dies together with what it should protect from.
pub(crate) async fn killed_and_the_dependency_too() -> Row {
    let mut world = World::start().await;
    world.application.falls_ill();
    let began = Instant::now();
    world.kill().await;
    let left_fresh = |now| now != Freshness::Fresh;
    let stale = world.application.turns(Role::Busy, began, trial::AT_ONCE.1, left_fresh, "STALE").await;
    let open = |verdict| matches!(verdict, Verdict::Rejected(Reason::Open, _));
    let rejected = || world.application.told(Role::Busy, began, open);
    until("the client's own breaker opens", SOON, || rejected().is_some()).await;
    let opened = rejected().expect("it has opened");
    let reached = world.application.reached();
    // What was recorded while the client still thought that it was FRESH is not forgotten when it finds out.
    assert!(reached <= ENOUGH + 1, "{reached} calls reached the ill dependency");
    let is_local = |now| now == Freshness::Local;
    let local = world.application.turns(Role::Busy, began, trial::TTL_OVER.1, is_local, "LOCAL").await;
    assert_eq!(world.application.reached(), reached, "calls reached the ill dependency while LOCAL");

    // The dependency is well again, and nobody is there to say so.
    world.application.recovers().await;
    let admitted = |verdict| verdict == Verdict::Admitted;
    let passes = || world.application.told(Role::Busy, opened, admitted);
    until("the client's own breaker probes", OPEN, || passes().is_some()).await;
    let lasted = passes().expect("it passes").saturating_duration_since(opened);
    // That it has opened is seen by the next call.
    assert!(lasted + slack() >= OPEN, "it probed after {lasted:?}, too early");
    let busy = world.client.breaker(Role::Busy.name());
    until("the client's own breaker closes", SOON, || busy.state() == State::Closed).await;
    assert_eq!(busy.freshness(), Freshness::Local);

    let ending = Instant::now();
    world.start_again().await;
    let ended = Instant::now();
    let bound = ended - ending + RECONNECT;
    let fresh =
        world.application.turns(Role::Busy, ending, bound, |now| now == Freshness::Fresh, "FRESH").await;
    world.is_well().await;
    Row {
        longest_wait: Some(world.application.longest_wait()),
        stale: Some(stale),
        local: Some(local),
        fresh: Some(fresh.saturating_sub(ended - ending)),
        meanwhile: format!(
            "own breaker OPEN after {reached} failures, probed after {:.1} s, and closed",
            lasted.as_secs_f64()
        ),
    }
}

/// Its data is gone: what the client knew of is not there any more.
pub(crate) async fn restarted_empty() -> Row {
    let mut world = World::start().await;
    world.trip().await;
    let began = Instant::now();
    world.kill().await;
    let left_fresh = |now| now != Freshness::Fresh;
    let stale = world.application.turns(Role::Busy, began, trial::AT_ONCE.1, left_fresh, "STALE").await;
    world.application.falls_ill();
    let open = |verdict| matches!(verdict, Verdict::Rejected(Reason::Open, _));
    let rejected = || world.application.told(Role::Busy, began, open).is_some();
    until("the client's own breaker opens", SOON, rejected).await;
    let still_open = Verdict::Rejected(Reason::Open, Freshness::Stale);
    let holds = || world.application.told(Role::Tripped, began, |verdict| verdict == still_open).is_some();
    until("the OPEN that was known holds", SOON, holds).await;
    let early = world.application.told(Role::Tripped, began, |verdict| verdict == Verdict::Admitted);
    assert!(early.is_none(), "the OPEN that was known ended with its server");
    world.application.recovers().await;
    world.site.forget();
    let ending = Instant::now();
    world.start_again().await;
    let ended = Instant::now();
    let mut fresh = Duration::ZERO;
    for role in Role::ALL {
        let bound = ended - ending + RECONNECT;
        let took = world.application.turns(role, ending, bound, |now| now == Freshness::Fresh, "FRESH").await;
        fresh = fresh.max(took.saturating_sub(ended - ending));
    }
    // The new server knows of no OPEN: its word counts, not the newer-looking one from before.
    for role in [Role::Busy, Role::Tripped] {
        let breaker = world.client.breaker(role.name());
        until("what the new server says", SOON, || breaker.state() == State::Closed).await;
    }
    world.is_well().await;
    let longest_wait = Some(world.application.longest_wait());
    let meanwhile = "the OPEN that was known held until the new server said CLOSED".into();
    Row { longest_wait, stale: Some(stale), local: None, fresh: Some(fresh), meanwhile }
}

/// Twice, with twenty clients that are connected and one that works all the time.
pub(crate) async fn rolling_restart() -> Row {
    let mut world = World::start().await;
    let others: Vec<_> = (0..20)
        .map(|n| client(world.site.url()).instance(format!("other-{n}")).build().expect("a client"))
        .collect();
    let breakers: Vec<_> = others.iter().map(|client| client.breaker(Role::Quiet.name())).collect();
    let are = |freshness| breakers.iter().all(|breaker| breaker.freshness() == freshness);
    until("the others are FRESH", SOON, || are(Freshness::Fresh)).await;
    let tripped = world.trip().await;
    let began = Instant::now();
    let (mut fresh, mut downtime) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..2 {
        let generation = world.client.breaker(Role::Quiet.name()).status().generation;
        world.stop().await;
        let stopped = Instant::now();
        world.start_again().await;
        let ended = Instant::now();
        downtime = downtime.max(ended - stopped);
        for role in Role::ALL {
            let breaker = world.client.breaker(role.name());
            let moved =
                || breaker.status().generation != generation && breaker.freshness() == Freshness::Fresh;
            until("FRESH by the new server's word", RECONNECT, moved).await;
        }
        fresh = fresh.max(ended.elapsed());
        let others_are = || are(Freshness::Fresh);
        until("the others are FRESH", RECONNECT, others_are).await;
    }
    for role in Role::ALL {
        let local = world.application.turned(role, began, |now| now == Freshness::Local);
        assert!(local.is_none(), "{role:?} was LOCAL");
    }
    let quiet = world.application.turned(Role::Quiet, began, |now| now != Freshness::Fresh);
    assert!(quiet.is_none(), "a breaker without outcomes to report did not stay FRESH over an announced end");
    let admitted = || world.application.told(Role::Tripped, began, |verdict| verdict == Verdict::Admitted);
    until("the OPEN ends", OPEN + SOON, || admitted().is_some()).await;
    let lasted = admitted().expect("it ended").saturating_duration_since(tripped);
    assert!(lasted >= OPEN, "an OPEN of {OPEN:?} ended after {lasted:?}, with a restart in between");
    let stale = world.application.turned(Role::Busy, began, |now| now != Freshness::Fresh);
    world.is_well().await;
    assert!(downtime <= Duration::from_secs(5) + slack(), "a restart took {downtime:?}");
    Row {
        longest_wait: Some(world.application.longest_wait()),
        stale: stale.map(|at| at - began),
        local: None,
        fresh: Some(fresh),
        meanwhile: format!(
            "21 clients never LOCAL; an OPEN of {} s ended after {:.1} s",
            OPEN.as_secs(),
            lasted.as_secs_f64()
        ),
    }
}
