//! Leave to call: grants, rejections and the time at which a retry succeeds.

use std::{collections::HashSet, sync::Arc, time::Duration};

use panelboard_core::{Generation, Instance, admitted_after};
use panelboard_proto::v1::{self, EntryResult, RejectionReason};
use panelboard_server::store::{Memory, StoreId};

use crate::support::*;

const NAME: &str = "t/a";

#[tokio::test]
async fn a_grant_lasts_a_second_and_longer_for_a_session_that_watches() {
    let mut world = World::start().await;
    let grant = granted(&world.acquire(NAME).await);
    assert_eq!((millis(grant.ttl.as_ref()), grant.probe), (Some(1_000), None));
    let mut watcher = Watcher::open(&mut world.service, who("one", "session"), &[NAME], &[]).await.unwrap();
    watcher.snapshot().await;
    let ttl = |answer| millis(granted(&answer).ttl.as_ref());
    assert_eq!(ttl(world.acquire_as(who("one", "session"), NAME).await), Some(10_000));
    assert_eq!(ttl(world.acquire_as(who("one", "other"), NAME).await), Some(1_000));
}

#[tokio::test]
async fn an_open_breaker_rejects_until_exactly_the_retry_after() {
    let mut world = World::start().await;
    world.trip(NAME).await;
    world.advance(3_700);
    let rejection = rejected(&world.acquire(NAME).await);
    assert_eq!(
        (rejection.reason(), millis(rejection.retry_after.as_ref())),
        (RejectionReason::Open, Some(6_300))
    );
    let (said, why) = (rejection.message.as_str(), "failure rate 100 % >= 50 %");
    assert!(
        said.contains(NAME) && said.contains("OPEN") && said.contains(why) && said.contains("retry in 6.3 s"),
        "{said}"
    );
    world.advance(6_299);
    assert_eq!(millis(rejected(&world.acquire(NAME).await).retry_after.as_ref()), Some(1));
    world.advance(1);
    assert!(granted(&world.acquire(NAME).await).probe.is_some());
}

#[tokio::test]
async fn a_half_open_breaker_leases_so_many_probes_and_says_when_one_is_free_again() {
    let mut world = World::start().await;
    world.half_open(NAME).await;
    let first = granted(&world.acquire(NAME).await);
    world.advance(400);
    let second = granted(&world.acquire(NAME).await);
    let ids: HashSet<u64> = [&first, &second].map(|grant| grant.probe.as_ref().unwrap().id).into();
    assert_eq!(ids.len(), 2);
    assert_eq!(millis(first.probe.unwrap().timeout.as_ref()), Some(1_000));
    assert_eq!(world.look(NAME).await.probes_leased, 2);

    // The lease is kept a second beyond the deadline that was granted.
    let rejection = rejected(&world.acquire(NAME).await);
    assert_eq!(
        (rejection.reason(), millis(rejection.retry_after.as_ref())),
        (RejectionReason::ProbesTaken, Some(1_600))
    );
    world.advance(1_599);
    assert_eq!(millis(rejected(&world.acquire(NAME).await).retry_after.as_ref()), Some(1));
    world.advance(1);
    let third = granted(&world.acquire(NAME).await);
    // The one whose lease lapsed comes too late.
    assert_eq!(world.report(probe_result(NAME, &first, false)).await.result(), EntryResult::UnknownProbe);
    for grant in [second, third] {
        assert_eq!(world.report(probe_result(NAME, &grant, true)).await.result(), EntryResult::Counted);
    }
    assert_eq!(world.state(NAME).await, v1::State::Closed);
}

#[tokio::test]
async fn a_failed_probe_opens_it_again_for_longer() {
    let policies =
        Some(test_policy("test", "\"t/**\"").replace("multiplier: 1", "multiplier: 2, max_wait: 60s"));
    let mut world = World::with(Options { policies, ..Options::default() }).await;
    let before = world.half_open(NAME).await;
    let grant = granted(&world.acquire(NAME).await);
    let status = world.report(probe_result(NAME, &grant, false)).await.status.unwrap();
    assert_eq!((status.state(), millis(status.remaining.as_ref())), (v1::State::Open, Some(20_000)));
    assert!(generation(&status) > generation(&before));
    let why = status.last_transition.unwrap();
    assert_eq!((why.reason(), why.wait.unwrap().reopenings), (v1::TransitionReason::ProbesFailed, 1));
}

#[tokio::test]
async fn half_open_ends_though_the_holder_of_its_probes_is_gone_and_rests_when_nobody_asks() {
    let mut world = World::start().await;
    world.half_open(NAME).await;
    // Nobody asks for a day: it rests and rejects nobody.
    world.clock.advance(Duration::from_secs(600));
    assert_eq!(world.state(NAME).await, v1::State::HalfOpen);
    granted(&world.acquire(NAME).await);
    let held = granted(&world.acquire(NAME).await);
    world.advance(1_000);
    world.report(probe_result(NAME, &held, true)).await;
    // The other one never comes back: at the limit a success and nothing bad close it.
    world.advance(30_000);
    assert_eq!(world.state(NAME).await, v1::State::Closed);
}

#[tokio::test]
async fn after_closing_each_instance_is_admitted_at_its_own_instant() {
    let policies = Some(test_policy("test", "\"t/**\"").replace("spread: 0s", "spread: 2s"));
    let mut world = World::with(Options { policies, ..Options::default() }).await;
    world.half_open(NAME).await;
    let mut closed = None;
    for instance in ["one", "two"] {
        let grant = granted(&world.acquire_as(who(instance, ""), NAME).await);
        closed =
            world.report_as(who(instance, ""), vec![probe_result(NAME, &grant, true)]).await.remove(0).status;
    }
    let closed = closed.unwrap();
    assert_eq!(closed.state(), v1::State::Closed);
    let recovery = closed.recovery.expect("it comes back gently");
    assert_eq!((millis(recovery.spread.as_ref()), millis(recovery.elapsed.as_ref())), (Some(2_000), Some(0)));

    let (epoch, revision) = generation(&closed);
    let turn = |instance: &str| {
        let spread = Duration::from_secs(2);
        admitted_after(&Instance::new("e2e", instance), Generation { epoch, revision }, spread).as_millis()
            as u64
    };
    let late = (0..).map(|n| format!("pod-{n}")).find(|pod| turn(pod) > 100).unwrap();
    let rejection = rejected(&world.acquire_as(who(&late, ""), NAME).await);
    assert_eq!(
        (rejection.reason(), millis(rejection.retry_after.as_ref())),
        (RejectionReason::Recovering, Some(turn(&late)))
    );
    world.advance(turn(&late) - 1);
    assert_eq!(millis(rejected(&world.acquire_as(who(&late, ""), NAME).await).retry_after.as_ref()), Some(1));
    world.advance(1);
    granted(&world.acquire_as(who(&late, ""), NAME).await);
    world.advance(2_000);
    assert_eq!(world.look(NAME).await.status.unwrap().recovery, None);
}

#[tokio::test]
async fn whoever_says_nothing_of_itself_is_the_one_anonymous_instance() {
    let mut world = World::start().await;
    world.acquire(NAME).await;
    world.acquire_as(Some(v1::Client::default()), NAME).await;
    world.report(failures(NAME, 1)).await;
    assert_eq!(world.look(NAME).await.known_instances, 1);
    world.acquire_as(who("one", ""), NAME).await;
    world.acquire_as(who("one", "session"), NAME).await;
    assert_eq!(world.look(NAME).await.known_instances, 2);
    world.advance(10_000);
    assert_eq!(world.look(NAME).await.known_instances, 0);
}

#[tokio::test]
async fn looking_takes_no_probe_and_makes_no_breaker() {
    let mut world = World::start().await;
    let before = world.half_open(NAME).await;
    for _ in 0..5 {
        let seen = world.look(NAME).await;
        assert_eq!((seen.probes_leased, seen.status.unwrap().version), (0, before.version));
        let page =
            world.service.list_breakers(v1::ListBreakersRequest::default()).await.unwrap().into_inner();
        assert_eq!(page.breakers.len(), 1);
        world
            .service
            .list_transitions(v1::ListTransitionsRequest { breaker: NAME.into(), ..Default::default() })
            .await
            .unwrap();
    }
    assert_eq!(world.try_look("t/never").await.unwrap_err().code(), tonic::Code::NotFound);
    let request = v1::ListTransitionsRequest { breaker: "t/never".into(), ..Default::default() };
    assert_eq!(world.service.list_transitions(request).await.unwrap_err().code(), tonic::Code::NotFound);
    let page = world.service.list_breakers(v1::ListBreakersRequest::default()).await.unwrap().into_inner();
    assert_eq!(page.breakers.len(), 1);
    assert_eq!(page.breakers[0].admission(), v1::Admission::Probe);
}

#[tokio::test]
async fn breakers_are_listed_in_pages_by_name() {
    let mut world = World::start().await;
    let names: Vec<String> = (0..7).map(|n| format!("t/{n}")).collect();
    for name in ["t/x/y", "t/x/z"].into_iter().chain(names.iter().map(String::as_str)) {
        world.acquire(name).await;
    }
    let (mut listed, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListBreakersRequest { pattern: "t/*".into(), page_size: 3, page_token };
        let page = world.service.list_breakers(request).await.unwrap().into_inner();
        assert!(page.breakers.len() <= 3);
        listed.extend(page.breakers.into_iter().map(|breaker| breaker.name));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(listed, names);
}

async fn incidents(world: &mut World, page_size: i32) -> Vec<v1::Incident> {
    let (mut all, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListTransitionsRequest { breaker: NAME.into(), page_size, page_token };
        let page = world.service.list_transitions(request).await.unwrap().into_inner();
        all.extend(page.incidents);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return all;
        }
    }
}

async fn close(world: &mut World) {
    for _ in 0..2 {
        let grant = granted(&world.acquire(NAME).await);
        world.report(probe_result(NAME, &grant, true)).await;
    }
    assert_eq!(world.state(NAME).await, v1::State::Closed);
}

#[tokio::test]
async fn an_incident_runs_from_the_trip_to_the_close_and_outlives_a_restart() {
    let store = Arc::new(Memory::new(StoreId::from_u128(1)));
    let mut world = World::with(Options { store: store.clone(), ..Options::default() }).await;
    for _ in 0..4 {
        world.half_open(NAME).await;
        close(&mut world).await;
    }
    world.half_open(NAME).await;
    for _ in 0..5 {
        let grant = granted(&world.acquire(NAME).await);
        world.report(probe_result(NAME, &grant, false)).await;
        world.advance(10_000);
    }
    let all = incidents(&mut world, 0).await;
    assert_eq!(all.len(), 5);
    assert!(all[0].closed.is_none() && all[1..].iter().all(|incident| incident.closed.is_some()));
    assert_eq!((all[0].reopenings, all[0].last_reopenings.len()), (5, 3));
    assert_eq!(incidents(&mut world, 2).await, all, "in pages as at once");

    let World { running, .. } = world;
    running.stop().await;
    let mut world = World::with(Options { store, ..Options::default() }).await;
    assert_eq!(incidents(&mut world, 3).await, all);
    // The one that lasted goes on: half-open came back as open, which is no reopening, and then it closes. The world
    // has been moved beyond that wait by now.
    let status = world.look(NAME).await.status.unwrap();
    assert_eq!(status.state(), v1::State::HalfOpen);
    close(&mut world).await;
    let all = incidents(&mut world, 0).await;
    assert_eq!((all.len(), all[0].reopenings, all[0].closed.is_some()), (5, 5, true));
}
