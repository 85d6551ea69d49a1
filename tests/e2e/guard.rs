//! One bad caller, over the wire: it is kept out and told so, the others hear nothing, and everything says why.

use std::sync::Arc;

use panelboard_proto::v1;
use panelboard_server::store::{Memory, Store, StoreId};
use serde_json::Value;
use tonic::transport::Endpoint;

use crate::support::*;

const NAME: &str = "g/a";

/// The guard as it is by default, with more where a test wants it.
fn policies(more: &str) -> String {
    let policy = test_policy("guarded", "\"g/**\"");
    let policy = policy
        .replace("guard: { min_instances: 1 }", "guard: { min_instances: 2, share: 20%, min_calls: 5 }");
    format!("{policy}{more}")
}

async fn world_with(more: &str, store: Arc<dyn Store>) -> World {
    World::with(Options { policies: Some(policies(more)), store, ..Options::default() }).await
}

async fn world() -> World {
    world_with("", Arc::new(Memory::new(StoreId::from_u128(1)))).await
}

fn pod(number: u32) -> Option<v1::Client> {
    who(&format!("pod-{number}"), "")
}

async fn report(world: &mut World, number: u32, entry: v1::ReportEntry) -> v1::BreakerStatus {
    world.report_as(pod(number), vec![entry]).await.remove(0).status.expect("a status")
}

/// Five instances, the first of which fails alone, for longer than a second.
async fn one_of_five_is_sick(world: &mut World) {
    for number in 2..=5 {
        report(world, number, successes(NAME, 20)).await;
    }
    report(world, 1, v1::ReportEntry { causes: [("timeout".into(), 30)].into(), ..failures(NAME, 30) }).await;
    world.advance(1_000);
}

fn held(status: &v1::BreakerStatus) -> &v1::Quarantine {
    status.quarantine.as_ref().unwrap_or_else(|| panic!("nobody is kept out: {status:?}"))
}

async fn text(world: &World, path: &str) -> String {
    within("HTTP", reqwest::get(world.http(path))).await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn a_sick_instance_is_kept_out_and_told_so_and_nobody_else_hears_of_it() {
    let mut world = world().await;
    let mut sick = Watcher::open(&mut world.service, pod(1), &[NAME], &[]).await.unwrap();
    let mut well = Watcher::open(&mut world.service, pod(2), &["g/**"], &[]).await.unwrap();
    sick.snapshot().await;
    well.snapshot().await;
    one_of_five_is_sick(&mut world).await;

    // By the clock alone: nobody calls.
    let told = sick.status().await;
    assert_eq!((told.state(), told.admission()), (v1::State::Closed, v1::Admission::Allow));
    let why = held(&told).clone();
    assert_eq!((why.until_tick, why.remaining), (Some(1_011_000), None));
    assert_eq!((why.service.as_str(), why.instance.as_str()), ("e2e", "pod-1"));
    assert_eq!(why.reason(), v1::QuarantineReason::Crossed);
    let numbers = why.crossing.as_ref().unwrap();
    assert_eq!(
        (numbers.matched, numbers.calls, numbers.threshold, numbers.minimum_calls),
        (30, 30, 5_000, 20)
    );
    assert_eq!((millis(why.lasted.as_ref()), millis(why.wait.as_ref())), (Some(1_000), Some(10_000)));
    assert_eq!((why.active_instances, why.required_instances, why.in_a_row), (5, 2, 0));
    assert_eq!((why.policy.as_str(), why.policy_revision), ("guarded", 1));

    // Whoever does not watch is told when it asks, and when asking again can succeed.
    let answer = world.acquire_as(pod(1), NAME).await;
    let rejection = rejected(&answer);
    assert_eq!(rejection.reason(), v1::RejectionReason::Quarantined);
    assert_eq!(millis(rejection.retry_after.as_ref()), Some(10_000));
    assert!(
        rejection.message.contains("is QUARANTINED (its own failure rate 100 % >= 50 % (30 of 30 in"),
        "{rejection:?}"
    );
    assert_eq!(millis(held(answer.status.as_ref().unwrap()).remaining.as_ref()), Some(10_000));
    assert!(report(&mut world, 1, successes(NAME, 1)).await.quarantine.is_some());

    // The others are none the wiser: the next thing they hear is something else.
    let answer = world.acquire_as(pod(2), NAME).await;
    granted(&answer);
    assert_eq!(answer.status.unwrap().quarantine, None);
    world.acquire("g/b").await;
    assert_eq!(well.status().await.name, "g/b");

    // A stream that begins now is told as well, and one of another instance is not.
    let mut again = Watcher::open(&mut world.service, pod(1), &["g/**"], &[]).await.unwrap();
    held(&again.snapshot().await.statuses[0]);
    let mut other = Watcher::open(&mut world.service, pod(3), &["g/**"], &[]).await.unwrap();
    assert_eq!(other.snapshot().await.statuses[0].quarantine, None);

    world.advance(10_000);
    let told_again = sick.status().await;
    assert_eq!((told_again.quarantine.as_ref(), told_again.generation), (None, told.generation));
    assert!(version(told_again.version.as_ref()) > version(told.version.as_ref()));
    granted(&world.acquire_as(pod(1), NAME).await);
}

#[tokio::test]
async fn people_and_programs_see_who_is_kept_out_and_why() {
    let mut world = world().await;
    one_of_five_is_sick(&mut world).await;
    let seen = world.look(NAME).await;
    assert_eq!((seen.quarantined_instances, seen.quarantines.len()), (1, 1));
    assert_eq!(seen.quarantines[0].instance, "pod-1");
    assert_eq!(seen.status.unwrap().quarantine, None, "whoever looks is nobody");

    let list = text(&world, "/breakers").await;
    assert!(list.starts_with("g/a  CLOSED: ") && list.ends_with("; 1 quarantined\n"), "{list}");
    let page = text(&world, &format!("/breakers/{NAME}")).await;
    assert!(
        page.contains("quarantined       e2e/pod-1 for another 10 s: its own failure rate 100 %"),
        "{page}"
    );
    let json = reqwest::Client::new().get(world.http(&format!("/breakers/{NAME}")));
    let one: Value = json.header("accept", "application/json").send().await.unwrap().json().await.unwrap();
    assert_eq!(one["quarantined_instances"], 1);
    let told = &one["quarantines"][0];
    assert_eq!((&told["instance"], &told["reason"]), (&"pod-1".into(), &"QUARANTINE_REASON_CROSSED".into()));
    assert_eq!((&told["crossing"]["matched"], &told["crossing"]["within_ms"]), (&30.into(), &60_000.into()));

    world.acquire_as(pod(1), NAME).await;
    let metrics = text(&world, "/metrics").await;
    for line in [
        "panelboard_breaker_quarantined_instances{breaker=\"g/a\"} 1",
        "panelboard_breaker_quarantines_total{breaker=\"g/a\",reason=\"crossed\"} 1",
        "panelboard_breaker_quarantines_total{breaker=\"g/a\",reason=\"retry_after\"} 0",
        "panelboard_breaker_rejected_total{breaker=\"g/a\",reason=\"QUARANTINED\"} 1",
        "panelboard_instance_conflicts_total 0",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_trip_of_the_fleet_and_a_restart_end_a_quarantine() {
    let store = Arc::new(Memory::new(StoreId::from_u128(1)));
    let mut world = world_with("", store.clone()).await;
    one_of_five_is_sick(&mut world).await;
    assert_eq!(world.look(NAME).await.quarantined_instances, 1);
    let World { running, .. } = world;
    running.stop().await;
    let mut world = world_with("", store).await;
    granted(&world.acquire_as(pod(1), NAME).await);
    assert_eq!(world.look(NAME).await.quarantined_instances, 0);

    one_of_five_is_sick(&mut world).await;
    assert_eq!(world.look(NAME).await.quarantined_instances, 1);
    for number in 2..=5 {
        report(&mut world, number, failures(NAME, 40)).await;
    }
    let seen = world.look(NAME).await;
    assert_eq!((seen.status.unwrap().state(), seen.quarantined_instances), (v1::State::Open, 0));
    let rejection = rejected(&world.acquire_as(pod(1), NAME).await);
    assert_eq!(rejection.reason(), v1::RejectionReason::Open);
}

#[tokio::test]
async fn a_trip_by_calls_names_its_numbers_and_its_instances_over_a_restart() {
    let store = Arc::new(Memory::new(StoreId::from_u128(1)));
    let mut world = world_with("", store.clone()).await;
    report(&mut world, 3, successes(NAME, 4)).await;
    let entry =
        |cause: &str, n| v1::ReportEntry { causes: [(cause.to_string(), n)].into(), ..failures(NAME, n) };
    report(&mut world, 1, entry("timeout", 12)).await;
    let status = report(&mut world, 2, entry("http_503", 9)).await;
    let opened = status.last_transition.unwrap();
    assert_eq!(status.state, v1::State::Open as i32, "{opened:?}");
    let crossing = opened.crossing.as_ref().unwrap();
    assert_eq!(
        (crossing.matched, crossing.calls, crossing.threshold, crossing.minimum_calls),
        (21, 25, 5_000, 20)
    );
    assert_eq!((crossing.measure.as_str(), millis(crossing.within.as_ref())), ("failure_rate", Some(60_000)));
    assert_eq!((crossing.affected_instances, crossing.required_instances), (2, 2));
    assert_eq!(crossing.by(), v1::TripBy::Calls);
    assert_eq!((crossing.left_out_instances, crossing.other_matched, crossing.other_calls), (1, 9, 13));
    let first: Vec<_> = crossing.top_instances.iter().map(|one| (one.instance.as_str(), one.count)).collect();
    assert_eq!(first, [("pod-1", 12), ("pod-2", 9)]);
    let causes: Vec<_> = opened.top_causes.iter().map(|one| (one.cause.as_str(), one.count)).collect();
    assert_eq!(causes, [("timeout", 12), ("http_503", 9)]);
    assert_eq!((opened.active_instances, opened.policy.as_str(), opened.policy_revision), (3, "guarded", 1));
    assert_eq!(millis(opened.wait.as_ref().and_then(|wait| wait.wait.as_ref())), Some(10_000));

    // Two instances' probes fail, so it reopens, and says how many that took.
    world.advance(10_000);
    for number in 1..=2 {
        let grant = granted(&world.acquire_as(pod(number), NAME).await);
        report(&mut world, number, probe_result(NAME, &grant, false)).await;
    }
    let reopened = world.look(NAME).await.status.unwrap().last_transition.unwrap();
    assert_eq!(reopened.reason(), v1::TransitionReason::ProbesFailed);
    let probes = reopened.probes.as_ref().unwrap();
    assert_eq!((probes.failed, probes.needed, probes.overdue, probes.limit), (2, 2, 0, None));
    assert_eq!(reopened.wait.as_ref().unwrap().reopenings, 1);

    let page = text(&world, &format!("/breakers/{NAME}")).await;
    assert!(page.contains("previous state    HALF_OPEN for "), "{page}");
    let World { running, .. } = world;
    running.stop().await;
    let mut world = world_with("", store).await;
    let request = v1::ListTransitionsRequest { breaker: NAME.into(), ..Default::default() };
    let incidents = world.service.list_transitions(request).await.unwrap().into_inner().incidents;
    assert_eq!(incidents.len(), 1);
    assert_eq!(incidents[0].opened.as_ref(), Some(&opened));
    assert_eq!(incidents[0].last_reopenings, [reopened]);
}

#[tokio::test]
async fn a_trip_by_votes_says_so_and_a_loud_healthy_instance_hides_nothing() {
    let mut world = world().await;
    report(&mut world, 3, successes(NAME, 10_000)).await;
    report(&mut world, 1, failures(NAME, 20)).await;
    let status = report(&mut world, 2, failures(NAME, 20)).await;
    assert_eq!(status.state(), v1::State::Open);
    let opened = status.last_transition.unwrap();
    let crossing = opened.crossing.unwrap();
    assert_eq!((crossing.by(), crossing.agreeing_instances), (v1::TripBy::Votes, 2));
    assert_eq!((crossing.matched, crossing.calls), (40, 10_040));
    let page = text(&world, &format!("/breakers/{NAME}")).await;
    for part in ["tripped by        votes of 2 instances", "first instances   e2e/pod-1 20, e2e/pod-2 20"] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
}

fn asked(seconds: i64) -> v1::ReportEntry {
    let retry_after = Some(prost_types::Duration { seconds, nanos: 0 });
    v1::ReportEntry { breaker: NAME.into(), ignored: 1, retry_after, ..v1::ReportEntry::default() }
}

#[tokio::test]
async fn a_retry_after_holds_back_its_own_instance_up_to_the_cap() {
    let store = || Arc::new(Memory::new(StoreId::from_u128(1)));
    let mut world = world_with("    retry_after: { max: 20s }\n", store()).await;
    for number in 1..=3 {
        report(&mut world, number, successes(NAME, 1)).await;
    }
    let status = report(&mut world, 1, asked(30)).await;
    let why = held(&status);
    assert_eq!((why.reason(), millis(why.asked.as_ref())), (v1::QuarantineReason::RetryAfter, Some(20_000)));
    assert_eq!(why.explanation, "the dependency asked it to wait 20 s, the others go on");
    let rejection = rejected(&world.acquire_as(pod(1), NAME).await);
    assert_eq!(rejection.reason(), v1::RejectionReason::Quarantined);
    assert_eq!(millis(rejection.retry_after.as_ref()), Some(20_000));
    // However many are asked, the fleet goes on: each waits for itself.
    report(&mut world, 2, asked(30)).await;
    granted(&world.acquire_as(pod(3), NAME).await);
    world.advance(20_000);
    granted(&world.acquire_as(pod(1), NAME).await);

    let mut world = world_with("    retry_after: { scope: off }\n", store()).await;
    assert_eq!(report(&mut world, 1, asked(30)).await.quarantine, None);
    granted(&world.acquire_as(pod(1), NAME).await);
}

#[tokio::test]
async fn with_scope_fleet_a_quorum_that_is_asked_to_wait_opens_it_and_says_so() {
    let store = Arc::new(Memory::new(StoreId::from_u128(1)));
    let mut world = world_with("    retry_after: { scope: fleet }\n", store).await;
    for number in 1..=3 {
        report(&mut world, number, successes(NAME, 1)).await;
    }
    assert_eq!(report(&mut world, 1, asked(30)).await.state(), v1::State::Closed);
    let status = report(&mut world, 2, asked(40)).await;
    assert_eq!(status.state(), v1::State::Open);
    let opened = status.last_transition.unwrap();
    assert_eq!(opened.reason(), v1::TransitionReason::RetryAfter);
    let asked = opened.asked_to_wait.unwrap();
    assert_eq!((asked.asked_instances, asked.required_instances), (2, 2));
    assert_eq!(millis(asked.longest.as_ref()), Some(40_000));
    assert_eq!(millis(opened.wait.unwrap().retry_after.as_ref()), Some(40_000));
    assert!(
        opened.explanation.starts_with("the dependency asked 2 of 3 instances to wait, 2 needed"),
        "{}",
        opened.explanation
    );
}

#[tokio::test]
async fn one_name_on_two_hosts_is_said_once_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(folder.path(), &["--store", "memory"]).await;
    let mut hosts = Vec::new();
    for ip in ["127.0.0.1", "127.0.0.2"] {
        let endpoint = Endpoint::from_shared(format!("http://{}", process.grpc)).unwrap();
        let endpoint = endpoint.local_address(Some(ip.parse().unwrap()));
        hosts.push(Service::new(within("a connection", endpoint.connect()).await.unwrap()));
    }
    let mut heard = 0;
    // Each is heard at an instant of its own, and in turns.
    for (host, session) in [(0, "one"), (1, "two"), (0, "one"), (1, "two"), (0, "one")] {
        let before = heard;
        while heard <= before {
            let request = v1::AcquireRequest { client: who("pod-1", session), breaker: NAME.into() };
            let answer = within("Acquire", hosts[host].acquire(request)).await.unwrap().into_inner();
            heard = answer.tick;
        }
    }
    let line = process.logged("is used by sessions on different hosts at the same time").await;
    assert_eq!((&line["level"], &line["instance"]), (&"WARN".into(), &"pod-1".into()));
    let metrics = process.get("/metrics").await.1;
    assert!(metrics.contains("panelboard_instance_conflicts_total 1\n"), "{metrics}");
    process.signal("TERM").await;
    let (_, log) = process.end().await;
    let told = log
        .iter()
        .filter(|line| line["message"].as_str().is_some_and(|text| text.contains("different hosts")));
    assert_eq!(told.count(), 1);
}

#[tokio::test]
async fn a_quarantine_is_one_line_that_explains_it() {
    let folder = tempfile::tempdir().unwrap();
    let text = policies("").replace("owner: team-guarded", "owner: team-delivery");
    std::fs::write(folder.path().join("policies.yaml"), format!("policies:\n{text}")).unwrap();
    let arguments = ["--store", "memory", "--policies", "policies.yaml"];
    let mut process = Process::start(folder.path(), &arguments).await;
    let mut service = process.service().await;
    for (number, entry) in [(2, successes(NAME, 50)), (3, successes(NAME, 50)), (1, failures(NAME, 25))] {
        let request = v1::ReportRequest { client: pod(number), entries: vec![entry] };
        within("Report", service.report(request)).await.unwrap();
    }
    let line = process.logged("QUARANTINED").await;
    let message = line["message"].as_str().unwrap();
    let begins = "g/a: e2e/pod-1 QUARANTINED for 10 s, the others go on: its own failure rate 100 % >= 50 % (25 of 25 in ";
    assert!(message.starts_with(begins), "{message}");
    let ends = "; 1 of 3 instances, 2 needed to open; policy guarded rev 1; owner team-delivery";
    assert!(message.ends_with(ends), "{message}");
    assert_eq!(
        (&line["breaker"], &line["instance"], &line["reason"]),
        (&NAME.into(), &"e2e/pod-1".into(), &"crossed".into())
    );
}
