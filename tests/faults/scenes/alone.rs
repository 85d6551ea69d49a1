//! What a client does by itself: without ever having heard of a server, and as its policy wants it to.

use std::time::{Duration, Instant};

use panelboard_client::{
    CallError, Freshness, Reason,
    policy::{PolicySpec, Rule},
};

use crate::{
    application::{Application, Role, Verdict},
    eventually::{slack, until},
    matrix::Row,
    panel::Site,
    scene::{ENOUGH, POLICIES, SOON, World, client},
    trial::{self, RECONNECT},
};

pub(crate) async fn never_there() -> Row {
    let site = Site::new(POLICIES);
    let mut policy =
        PolicySpec { trip: vec![Rule::ConsecutiveFailures { threshold: 20 }], ..PolicySpec::default() };
    policy.open.wait = Duration::from_secs(60);
    let began = Instant::now();
    let client = client(site.url()).policy(policy).build().expect("a client needs no server");
    let application = Application::start(&client);
    let took = began.elapsed();
    assert!(took <= slack(), "the start took {took:?}");
    let is_local = |now| now == Freshness::Local;
    application.turns(Role::Busy, began, Duration::ZERO, is_local, "LOCAL").await;
    application.two_rounds().await;
    application.falls_ill();
    let open = |verdict| verdict == Verdict::Rejected(Reason::Open, Freshness::Local);
    let rejected = || application.told(Role::Busy, began, open).is_some();
    until("the client's own breaker opens", SOON, rejected).await;
    let reached = application.reached();
    assert!(reached <= ENOUGH, "{reached} calls reached the ill dependency");
    // Long enough for the attempts to connect to be far apart.
    let ready = client.ready(Duration::from_secs(6)).await;
    assert!(ready.is_err(), "ready without a server");
    assert_eq!(
        application.reached(),
        reached,
        "calls reached the ill dependency although the breaker is OPEN"
    );
    application.recovers().await;

    let ending = Instant::now();
    let panel = site.start().await;
    let ended = Instant::now();
    let bound = ended - ending + RECONNECT;
    let mut fresh = Duration::ZERO;
    for role in Role::ALL {
        let took = application.turns(role, ending, bound, |now| now == Freshness::Fresh, "FRESH").await;
        fresh = fresh.max(took.saturating_sub(ended - ending));
    }
    let world = World::with(site, panel, None, client, application).await;
    world.is_well().await;
    Row {
        longest_wait: Some(world.application.longest_wait()),
        stale: None,
        local: None,
        fresh: Some(fresh),
        meanwhile: format!(
            "LOCAL from the start; own breaker OPEN after {reached} failures, by the policy given in code"
        ),
    }
}

const CHOICES: &str = "
policies:
  - name: local
    match: ['faults/*', 'choice/local']
    owner: tests
    on_disconnect: local
    trip: [{ consecutive_failures: 20 }]
    guard: { min_instances: 1 }
  - name: allow
    match: ['choice/allow']
    owner: tests
    on_disconnect: allow
    trip: [{ consecutive_failures: 20 }]
    guard: { min_instances: 1 }
  - name: deny
    match: ['choice/deny']
    owner: tests
    on_disconnect: deny
    trip: [{ consecutive_failures: 20 }]
    guard: { min_instances: 1 }
";

/// What the server's policies say for the time without it.
pub(crate) async fn on_disconnect() -> Row {
    let site = Site::new(CHOICES);
    let panel = site.start().await;
    let client = client(site.url()).build().expect("a client");
    let application = Application::start(&client);
    let mut world = World::with(site, panel, None, client, application).await;
    let breakers = ["choice/local", "choice/allow", "choice/deny"].map(|name| world.client.breaker(name));
    let [local, allow, deny] = &breakers;
    world.client.ready(SOON).await.expect("FRESH");
    let are = |freshness| breakers.iter().all(|breaker| breaker.freshness() == freshness);

    let began = Instant::now();
    world.kill().await;
    until("STALE", trial::AT_ONCE.1, || are(Freshness::Stale)).await;
    let stale = began.elapsed();
    deny.try_acquire().expect("STALE is not LOCAL: the last status still says that calls pass").success();
    until("LOCAL", trial::TTL_OVER.1, || are(Freshness::Local)).await;
    let turned = began.elapsed();
    let fail = async |breaker: &panelboard_client::Breaker| {
        breaker.call(|| std::future::ready(Err::<(), ()>(()))).await.expect_err("it fails or is rejected")
    };
    for n in 0..30 {
        let denied = fail(deny).await;
        assert_eq!(denied.reason(), Some(Reason::Disconnected), "deny");
        assert_eq!(fail(allow).await, CallError::Failed(()), "allow");
        let expected = if n < ENOUGH { None } else { Some(Reason::Open) };
        assert_eq!(fail(local).await.reason(), expected, "local, after {n} failures");
    }

    let ending = Instant::now();
    world.start_again().await;
    let ended = Instant::now();
    until("FRESH", RECONNECT, || are(Freshness::Fresh)).await;
    let fresh = ended.elapsed();
    for breaker in &breakers {
        breaker.try_acquire().unwrap_or_else(|rejected| panic!("{rejected}")).success();
        assert_eq!(
            world.panel().calls(breaker.name(), "failure").await,
            0,
            "recorded while away, and counted"
        );
    }
    world.application.turns(Role::Busy, ending, RECONNECT, |now| now == Freshness::Fresh, "FRESH").await;
    world.is_well().await;
    Row {
        longest_wait: Some(world.application.longest_wait()),
        stale: Some(stale),
        local: Some(turned),
        fresh: Some(fresh),
        meanwhile: format!(
            "local: OPEN after {ENOUGH} failures; allow: 30 of 30 passed; deny: none, once LOCAL"
        ),
    }
}
