//! What a watch promises: whole, ordered, unique, resumable or reset, and never in a writer's way.

use std::{collections::HashMap, sync::Arc, time::Duration};

use panelboard_proto::v1::{self, watch_response::Event};
use panelboard_server::{
    limits::Limits,
    store::{Memory, StoreId},
};
use prost::Message;
use tonic::transport::Endpoint;

use crate::support::*;

#[tokio::test]
async fn a_snapshot_comes_first_then_its_end_then_changes() {
    let mut world = World::start().await;
    world.acquire("t/a").await;
    world.acquire("t/b").await;
    let mut watcher = world.watch(&["t/**"]).await;
    let snapshot = watcher.snapshot().await;
    assert_eq!(snapshot.names(), ["t/a", "t/b"]);
    assert_eq!(snapshot.started.tick, 1_000_000);
    assert!(!snapshot.started.resumed && snapshot.reset.is_none());
    assert!(snapshot.started.epoch > 0);
    assert_eq!(millis(snapshot.complete.ttl.as_ref()), Some(10_000));
    assert!(!snapshot.complete.resume.is_empty());

    world.trip("t/b").await;
    let change = watcher.status().await;
    assert_eq!((change.name.as_str(), change.state()), ("t/b", v1::State::Open));
    assert_eq!(change.admission(), v1::Admission::Reject);
}

#[tokio::test]
async fn deadlines_on_a_stream_are_ticks_and_on_answers_what_is_left() {
    let mut world = World::start().await;
    let mut watcher = world.watch(&["t/a"]).await;
    watcher.snapshot().await;
    let answer = world.trip("t/a").await;
    let told = watcher.status().await;
    assert_eq!((told.deadline_tick, told.remaining), (Some(1_010_000), None));
    assert_eq!((answer.deadline_tick, millis(answer.remaining.as_ref())), (None, Some(10_000)));
    // Inclusive, and by the clock alone: nobody calls.
    world.advance(10_000);
    let told = watcher.status().await;
    assert_eq!((told.state(), told.admission()), (v1::State::HalfOpen, v1::Admission::Probe));
}

#[tokio::test]
async fn a_name_is_made_by_naming_it_and_a_glob_selects_what_it_matches() {
    let mut world = World::start().await;
    let mut watcher = world.watch(&["t/named", "t/one/*"]).await;
    assert_eq!(watcher.snapshot().await.names(), ["t/named"]);
    for name in ["t/one/two/three", "t/other", "t/one/two"] {
        world.acquire(name).await;
    }
    let told = watcher.status().await;
    assert_eq!(told.name, "t/one/two");
    world.trip("t/other").await;
    world.trip("t/named").await;
    assert_eq!(watcher.status().await.name, "t/named");
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_told_with_the_nearest_and_delivered_when_it_comes_to_exist() {
    let policies = test_policy("known", "known/quote");
    let mut world = World::with(Options { policies: Some(policies.clone()), ..Options::default() }).await;
    let mut watcher = world.watch(&["known/quotes", "known/quote", "elsewhere"]).await;
    let snapshot = watcher.snapshot().await;
    assert_eq!(snapshot.names(), ["known/quote"]);
    let told: Vec<_> = snapshot.not_found.iter().map(|n| (n.name.as_str(), n.nearest.as_str())).collect();
    assert_eq!(told, [("elsewhere", ""), ("known/quotes", "known/quote")]);

    world.write_policies(&format!("{policies}{}", test_policy("exact", "elsewhere")));
    assert_eq!(watcher.status().await.name, "elsewhere");
    // A pattern makes it too: it is named in a watch.
    world.write_policies(&format!("{policies}{}", test_policy("wild", "\"**\"")));
    let told = watcher.status().await;
    assert_eq!((told.name.as_str(), told.policy.unwrap().name.as_str()), ("elsewhere", "wild"));
    assert_eq!(watcher.status().await.name, "known/quotes");
}

#[tokio::test]
async fn a_breaker_that_is_deleted_and_back_again_has_versions_and_generations_that_grow() {
    let (stays, goes) = (test_policy("stays", "stays"), test_policy("goes", "goes"));
    let both = format!("{stays}{goes}");
    let mut world = World::with(Options { policies: Some(both.clone()), ..Options::default() }).await;
    let mut watcher = world.watch(&["stays", "goes"]).await;
    watcher.snapshot().await;
    world.trip("goes").await;
    let before = watcher.status().await;

    world.write_policies(&stays);
    let deleted = watcher.deleted().await;
    assert_eq!(deleted.name, "goes");
    assert!(version(deleted.version.as_ref()) > version(before.version.as_ref()));
    assert_eq!(world.try_look("goes").await.unwrap_err().code(), tonic::Code::NotFound);

    world.write_policies(&both);
    let back = watcher.status().await;
    assert_eq!((back.name.as_str(), back.state()), ("goes", v1::State::Closed));
    assert!(version(back.version.as_ref()) > version(deleted.version.as_ref()));
    assert!(generation(&back) > generation(&before), "in the same epoch");
    assert!(back.policy.is_some(), "it is new to the stream");
}

#[tokio::test]
async fn a_resumed_watch_gets_what_changed_and_what_is_gone() {
    let (pattern, exact) = (test_policy("test", "\"t/**\""), test_policy("goes", "goes"));
    let policies = Some(format!("{pattern}{exact}"));
    let mut world = World::with(Options { policies, ..Options::default() }).await;
    let selection = ["**"];
    let mut watcher = world.watch(&selection).await;
    watcher.snapshot().await;
    for name in ["t/same", "t/changed"] {
        world.acquire(name).await;
        assert_eq!(watcher.status().await.name, name);
    }
    let bookmark = watcher.bookmark().await;
    drop(watcher);

    world.trip("t/changed").await;
    let mut elsewhere = world.watch(&selection).await;
    elsewhere.snapshot().await;
    world.write_policies(&pattern);
    assert_eq!(elsewhere.deleted().await.name, "goes");

    let mut resumed = world.resume(&selection, &bookmark.resume).await;
    let snapshot = resumed.snapshot().await;
    assert!(snapshot.started.resumed && snapshot.reset.is_none());
    assert_eq!(snapshot.names(), ["t/changed"]);
    assert_eq!(snapshot.statuses[0].state(), v1::State::Open);
    assert!(snapshot.statuses[0].policy.is_some(), "the revision is new to this stream");
    assert_eq!(snapshot.deleted.iter().map(|gone| gone.name.as_str()).collect::<Vec<_>>(), ["goes"]);

    // And from there on nothing is owed.
    let mut again = world.resume(&selection, &snapshot.complete.resume).await;
    let snapshot = again.snapshot().await;
    assert!(snapshot.started.resumed && snapshot.statuses.is_empty() && snapshot.deleted.is_empty());
}

#[tokio::test]
async fn a_token_that_does_not_fit_is_answered_with_a_reset_and_everything() {
    let store = Arc::new(Memory::new(StoreId::from_u128(1)));
    let mut world = World::with(Options { store: store.clone(), ..Options::default() }).await;
    world.acquire("t/a").await;
    let token = world.watch(&["t/**"]).await.snapshot().await.complete.resume;
    for (selection, token) in [(["t/*"], &token[..]), (["t/**"], b"garbage"), (["t/**"], &token[1..])] {
        let snapshot = world.resume(&selection, token).await.snapshot().await;
        assert!(
            snapshot.reset.as_ref().is_some_and(|reset| !reset.reason.is_empty()),
            "{selection:?} {token:?}"
        );
        assert!(!snapshot.started.resumed);
        assert_eq!(snapshot.names(), ["t/a"]);
    }

    let other = Arc::new(Memory::new(StoreId::from_u128(2)));
    let mut other = World::with(Options { store: other, ..Options::default() }).await;
    let reset = other.resume(&["t/**"], &token).await.snapshot().await.reset.expect("a reset");
    assert!(reset.reason.contains("another store"), "{reset:?}");

    let World { running, .. } = world;
    running.stop().await;
    let mut restarted = World::with(Options { store, ..Options::default() }).await;
    let reset = restarted.resume(&["t/**"], &token).await.snapshot().await.reset.expect("a reset");
    assert!(reset.reason.contains("restarted"), "{reset:?}");
}

#[tokio::test]
async fn a_token_from_before_forgotten_deletions_is_too_old() {
    let (stays, goes) = (test_policy("stays", "stays"), test_policy("goes", "gone/a, gone/b"));
    let limits = Limits { tombstones: 1, ..Limits::default() };
    let policies = Some(format!("{stays}{goes}"));
    let mut world = World::with(Options { policies, limits, ..Options::default() }).await;
    let mut watcher = world.watch(&["**"]).await;
    let token = watcher.snapshot().await.complete.resume;
    world.write_policies(&stays);
    watcher.deleted().await;
    watcher.deleted().await;
    let snapshot = world.resume(&["**"], &token).await.snapshot().await;
    assert!(snapshot.reset.as_ref().expect("a reset").reason.contains("too old"));
    assert_eq!(snapshot.names(), ["stays"]);
    assert!(snapshot.deleted.is_empty());
}

#[tokio::test]
async fn a_bookmark_comes_when_nothing_is_owed_and_says_as_of_when() {
    let mut world = World::start().await;
    let mut watcher = world.watch(&["t/a"]).await;
    let first = watcher.snapshot().await.complete;
    world.advance(5_000);
    world.trip("t/a").await;
    // What is owed comes before any bookmark that vouches for it.
    assert!(matches!(watcher.event().await, Event::Status(_)));
    let bookmark = watcher.bookmark().await;
    assert_eq!((bookmark.tick, millis(bookmark.ttl.as_ref())), (1_005_000, Some(10_000)));
    assert_ne!(bookmark.resume, first.resume);
    let resumed = world.resume(&["t/a"], &bookmark.resume).await.snapshot().await;
    assert!(resumed.started.resumed && resumed.statuses.is_empty());
}

#[tokio::test]
async fn a_policy_comes_only_when_its_revision_is_new_to_the_stream() {
    let mut world = World::start().await;
    let mut watcher = world.watch(&["t/a"]).await;
    let first = watcher.snapshot().await.statuses.remove(0);
    assert_eq!(first.policy.as_ref().map(|policy| policy.revision), Some(first.policy_revision));
    world.trip("t/a").await;
    let opened = watcher.status().await;
    assert_eq!((opened.policy, opened.policy_revision), (None, first.policy_revision));

    let slower = test_policy("test", "\"t/**\"").replace("wait: 10s", "wait: 20s");
    world.write_policies(&slower);
    let changed = watcher.status().await;
    let policy = changed.policy.expect("another revision");
    assert!(policy.revision > first.policy_revision && policy.revision == changed.policy_revision);
    // A change of policy moves nothing: state, generation and deadline stay.
    assert_eq!((changed.state, changed.deadline_tick), (opened.state, opened.deadline_tick));
    assert_eq!(changed.generation, opened.generation);
    assert!(version(changed.version.as_ref()) > version(opened.version.as_ref()));
}

#[tokio::test]
async fn two_streams_see_the_same_bytes() {
    let mut world = World::start().await;
    let mut one = world.watch(&["t/a"]).await;
    let mut other = world.watch(&["t/**"]).await;
    one.snapshot().await;
    other.snapshot().await;
    world.trip("t/a").await;
    world.advance(3_000);
    let (one, other) = (one.message().await.unwrap(), other.message().await.unwrap());
    assert!(matches!(one.event, Some(Event::Status(_))));
    assert_eq!(one.encode_to_vec(), other.encode_to_vec());
}

const MANY: usize = 100;
const CYCLES: usize = 34;

/// 100 breakers open, half-open and close, over and over: more than 10,000 changes.
async fn storm(world: &mut World, names: &[String]) {
    for _ in 0..CYCLES {
        let entries = names.iter().map(|name| failures(name, 20)).collect();
        for result in world.report_as(None, entries).await {
            assert_eq!(result.status.unwrap().state(), v1::State::Open);
        }
        world.advance(10_000);
        let mut probes = Vec::new();
        for name in names {
            probes.push(probe_result(name, &granted(&world.acquire(name).await), true));
            probes.push(probe_result(name, &granted(&world.acquire(name).await), true));
        }
        for result in world.report_as(None, probes).await.iter().skip(1).step_by(2) {
            assert_eq!(result.status.as_ref().unwrap().state(), v1::State::Closed);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_never_reads_stops_no_writer_and_wakes_to_the_newest() {
    // On a busy machine the storm lasts longer than a stream is usually left stuck.
    let limits = Limits { watch_stuck: Duration::from_secs(600), ..Limits::default() };
    let mut world = World::with(Options { limits, ..Options::default() }).await;
    let names: Vec<String> = (0..MANY).map(|n| format!("t/{n:03}")).collect();
    for name in &names {
        world.acquire(name).await;
    }
    // A connection of its own, whose window holds a few messages.
    let endpoint = Endpoint::from_shared(format!("http://{}", world.running.grpc_addr)).unwrap();
    let channel = endpoint.initial_stream_window_size(16_384).connect().await.unwrap();
    let mut asleep = Watcher::open(&mut Service::new(channel), None, &["t/**"], &[]).await.unwrap();
    let mut seen: HashMap<String, (u64, u64)> = HashMap::new();
    for status in asleep.snapshot().await.statuses {
        seen.insert(status.name.clone(), version(status.version.as_ref()));
    }
    assert_eq!(seen.len(), MANY);

    storm(&mut world, &names).await;

    let mut messages = 0;
    loop {
        match asleep.event().await {
            Event::Status(status) => {
                messages += 1;
                let version = version(status.version.as_ref());
                let before = seen.insert(status.name.clone(), version);
                assert!(
                    before.is_some_and(|before| before < version),
                    "{}: {before:?}, {version:?}",
                    status.name
                );
            }
            Event::Bookmark(_) => {
                let mut current = true;
                for name in &names {
                    let now = version(world.look(name).await.status.unwrap().version.as_ref());
                    current &= seen[name] == now;
                }
                // One that was written before it fell asleep is as true as it was then.
                if current {
                    break;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    let changes = MANY * CYCLES * 3;
    // What was on the way when it fell asleep, and one message per breaker.
    assert!((MANY..1_000).contains(&messages), "{messages} messages for {changes} changes");
}

#[tokio::test]
async fn a_watcher_that_never_reads_is_ended_at_last() {
    let limits = Limits { watch_stuck: Duration::from_secs(1), ..Limits::default() };
    let mut world = World::with(Options { limits, ..Options::default() }).await;
    let names: Vec<String> = (0..1_000).map(|n| format!("t/{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let endpoint = Endpoint::from_shared(format!("http://{}", world.running.grpc_addr)).unwrap();
    let channel = endpoint.initial_stream_window_size(1_024).connect().await.unwrap();
    let mut asleep = Watcher::open(&mut Service::new(channel), None, &names, &[]).await.unwrap();
    // Its end is seen in the number of streams.
    let open = async {
        loop {
            let metrics = reqwest::get(world.http("/metrics")).await.unwrap().text().await.unwrap();
            if metrics.lines().any(|line| line == "panelboard_watch_streams 0") {
                return;
            }
        }
    };
    within("the end of the stream", open).await;
    // What was on the way still arrives, the end after it.
    let mut messages = 0;
    while asleep.message().await.is_some() {
        messages += 1;
    }
    assert!(messages < 1_000, "{messages}");
    world.acquire("t/000").await;
}

#[tokio::test]
async fn the_availability_of_probes_is_told_at_most_once_in_100_ms() {
    let mut world = World::start().await;
    let name = "t/a";
    world.half_open(name).await;
    let mut watcher = world.watch(&[name, "t/bell"]).await;
    let snapshot = watcher.snapshot().await;
    assert_eq!(snapshot.statuses[0].admission(), v1::Admission::Probe);

    // Both probes leased and given back ten times within the interval: nobody hears of it.
    for _ in 0..10 {
        for grant in [granted(&world.acquire(name).await), granted(&world.acquire(name).await)] {
            let back = v1::ReportEntry { successes: 0, abandoned: 1, ..probe_result(name, &grant, true) };
            assert_eq!(world.report(back).await.result(), v1::EntryResult::Counted);
        }
    }
    world.trip("t/bell").await;
    assert_eq!(watcher.status().await.name, "t/bell");

    let held = [granted(&world.acquire(name).await), granted(&world.acquire(name).await)];
    world.advance(100);
    let told = watcher.status().await;
    assert_eq!((told.name.as_str(), told.admission()), (name, v1::Admission::Reject));
    // It comes back at once, and is told when the interval is over.
    let back = v1::ReportEntry { successes: 0, abandoned: 1, ..probe_result(name, &held[0], true) };
    world.report(back).await;
    world.advance(99);
    world.trip("t/bell2").await;
    world.advance(1);
    let told = watcher.status().await;
    assert_eq!((told.name.as_str(), told.admission()), (name, v1::Admission::Probe));
}

#[tokio::test]
async fn a_thousand_names_in_one_watch() {
    let mut world = World::start().await;
    let names: Vec<String> = (0..1_000).map(|n| format!("t/{n:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut watcher = world.watch(&names).await;
    assert_eq!(watcher.snapshot().await.names(), names);
    world.trip("t/0999").await;
    assert_eq!(watcher.status().await.name, "t/0999");
}

#[tokio::test]
async fn an_idle_breaker_of_a_pattern_expires_unless_a_watch_names_it() {
    let policies = Some(format!("{}{}", test_policy("test", "\"t/**\""), test_policy("exact", "exact")));
    let mut world = World::with(Options { policies, ..Options::default() }).await;
    let mut glob = world.watch(&["**"]).await;
    glob.snapshot().await;
    let mut named = world.watch(&["t/named"]).await;
    named.snapshot().await;
    world.acquire("t/idle").await;
    assert_eq!([glob.status().await.name, glob.status().await.name], ["t/named", "t/idle"]);

    world.clock.advance(Duration::from_secs(3_600));
    assert_eq!(glob.deleted().await.name, "t/idle");
    assert_eq!(world.try_look("t/idle").await.unwrap_err().code(), tonic::Code::NotFound);
    world.look("t/named").await;
    world.look("exact").await;
    let page = world.service.list_breakers(v1::ListBreakersRequest::default()).await.unwrap().into_inner();
    assert_eq!(page.breakers.iter().map(|b| b.name.as_str()).collect::<Vec<_>>(), ["exact", "t/named"]);
    let metrics = reqwest::get(world.http("/metrics")).await.unwrap().text().await.unwrap();
    assert!(metrics.contains("\"t/named\"") && !metrics.contains("\"t/idle\""), "{metrics}");

    // Its name is free: it comes back CLOSED, in a later generation.
    let back = world.acquire("t/idle").await.status.unwrap();
    assert_eq!(back.state(), v1::State::Closed);
    assert_eq!(glob.status().await.name, "t/idle");
    // Once nobody names it any more, its time begins. When the server notices that is its affair.
    drop(named);
    while world.try_look("t/named").await.is_ok() {
        world.clock.advance(Duration::from_secs(3_600));
    }
}

#[tokio::test]
async fn what_happened_to_an_idle_breaker_is_still_known_when_it_is_used_again() {
    let mut world = World::start().await;
    world.trip("t/idle").await;
    // Its wait is over, nobody probes, and at last it is forgotten.
    while world.try_look("t/idle").await.is_ok() {
        world.clock.advance(Duration::from_secs(3_600));
    }
    assert_eq!(world.acquire("t/idle").await.status.unwrap().state(), v1::State::Closed);
    world.trip("t/idle").await;
    let request = v1::ListTransitionsRequest { breaker: "t/idle".into(), ..Default::default() };
    let incidents = world.service.list_transitions(request).await.unwrap().into_inner().incidents;
    let reopenings: Vec<_> = incidents.iter().map(|incident| incident.reopenings).collect();
    assert_eq!(reopenings, [0, 0], "{incidents:?}");
}
