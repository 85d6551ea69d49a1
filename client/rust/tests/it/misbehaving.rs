//! Against a server that does what a good one never does, or seldom.

use std::time::{Duration, Instant};

use panelboard_client::{Breaker, Client, Freshness, Reason, State};
use panelboard_proto::v1::{self, watch_response::Event};
use tonic::Status;

use crate::{
    eventually,
    fake::{Fake, Live},
    soon,
};

fn generation(revision: u64) -> v1::Generation {
    v1::Generation { epoch: 1, revision }
}

fn status(name: &str, state: v1::State, revision: u64) -> v1::BreakerStatus {
    let admission = match state {
        v1::State::Open => v1::Admission::Reject,
        v1::State::HalfOpen => v1::Admission::Probe,
        _ => v1::Admission::Allow,
    };
    v1::BreakerStatus {
        name: name.into(),
        admission: admission.into(),
        state: state.into(),
        generation: Some(generation(revision)),
        version: Some(v1::Version { epoch: 1, revision }),
        active_instances: 1,
        ..v1::BreakerStatus::default()
    }
}

fn closed(name: &str) -> v1::BreakerStatus {
    status(name, v1::State::Closed, 5)
}

fn counted(report: &v1::ReportRequest, result: v1::EntryResult) -> v1::ReportResponse {
    let result = v1::ReportResult { result: result.into(), ..v1::ReportResult::default() };
    v1::ReportResponse { results: vec![result; report.entries.len()], tick: 1_000 }
}

async fn connected(statuses: Vec<v1::BreakerStatus>) -> (Fake, Live, Client, Breaker) {
    let mut fake = Fake::start().await;
    let client = Client::builder(fake.url()).service("tests").instance("a").build().unwrap();
    let breaker = client.breaker("a");
    let live = fake.live().await;
    live.snapshot(statuses, b"one").await;
    is(&breaker, Freshness::Fresh).await;
    (fake, live, client, breaker)
}

async fn is(breaker: &Breaker, freshness: Freshness) {
    eventually(&format!("{} is {freshness}", breaker.name()), || breaker.freshness() == freshness).await;
}

#[tokio::test]
async fn a_report_that_was_not_answered_is_sent_again_unchanged_and_then_forgotten() {
    let (mut fake, _live, _client, breaker) = connected(vec![closed("a")]).await;
    breaker.try_acquire().unwrap().failure("timeout");
    let first = fake.reported().await;
    let sent = first.request.entries.clone();
    assert_eq!((sent.len(), sent[0].sequence, sent[0].failures), (1, 1, 1));
    assert_eq!(sent[0].causes, [("timeout".to_owned(), 1)].into());
    assert_eq!(sent[0].generation, Some(generation(5)));
    assert!(sent[0].at_tick.is_some_and(|tick| (1_000..10_000).contains(&tick)));
    let client = first.request.client.clone().unwrap();
    assert_eq!((client.service.as_str(), client.instance.as_str()), ("tests", "a"));
    assert!(!client.session.is_empty());
    breaker.try_acquire().unwrap().failure("timeout");
    first.refuse(Status::unavailable("a hiccup"));
    let again = fake.reported().await;
    assert_eq!(again.request.entries, sent, "unchanged, and nothing newer with it");
    let answer = counted(&again.request, v1::EntryResult::Duplicate);
    again.answer(answer);
    let next = fake.reported().await;
    assert_eq!((next.request.entries[0].sequence, next.request.entries[0].failures), (2, 1));
}

#[tokio::test]
async fn whatever_the_answer_is_it_ends_the_entry() {
    let (mut fake, _live, _client, breaker) = connected(vec![closed("a")]).await;
    use v1::EntryResult::{Counted, NotRecorded, StaleGeneration, TooOld, Unspecified};
    for (n, result) in [Counted, StaleGeneration, TooOld, NotRecorded, Unspecified].into_iter().enumerate() {
        breaker.try_acquire().unwrap().failure("timeout");
        let report = fake.reported().await;
        assert_eq!(report.request.entries[0].sequence, n as u64 + 1);
        let answer = counted(&report.request, result);
        report.answer(answer);
    }
}

#[tokio::test]
async fn without_acknowledgements_it_is_stale_and_with_them_fresh_again() {
    let (mut fake, live, _client, breaker) = connected(vec![closed("a")]).await;
    breaker.try_acquire().unwrap().failure("timeout");
    let unanswered = fake.reported().await;
    let began = Instant::now();
    is(&breaker, Freshness::Stale).await;
    assert!(began.elapsed() > Duration::from_millis(500), "not before a second");
    let answer = counted(&unanswered.request, v1::EntryResult::Counted);
    unanswered.answer(answer);
    is(&breaker, Freshness::Fresh).await;
    drop(live);
}

#[tokio::test]
async fn a_draining_server_is_left_only_when_the_next_stream_has_everything() {
    let (mut fake, old, _client, breaker) = connected(vec![closed("a")]).await;
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    old.say(Event::Draining(v1::Draining {
        tick: 2_000,
        ttl: seconds(30),
        reconnect_after: seconds(0),
        resume: b"two".as_slice().into(),
    }))
    .await;
    let new = fake.live().await;
    assert_eq!(&*new.request.resume, b"two");
    assert_eq!(new.request.breakers, ["a"]);
    new.say(Event::Started(v1::Started { tick: 9, resumed: true, epoch: 1 })).await;
    // Both streams are there: what the old one says still counts.
    old.say(Event::Status(status("a", v1::State::Open, 6))).await;
    eventually("the old stream's news", || breaker.state() == State::Open).await;
    new.complete(b"three").await;
    old.left().await;
    assert_eq!(breaker.freshness(), Freshness::Fresh);
}

#[tokio::test]
async fn a_broken_stream_is_resumed_and_what_did_not_change_is_fresh_again() {
    let (mut fake, old, _client, breaker) = connected(vec![status("a", v1::State::Open, 6)]).await;
    old.end(Status::unavailable("gone")).await;
    is(&breaker, Freshness::Stale).await;
    let new = fake.live().await;
    assert_eq!(&*new.request.resume, b"one");
    new.say(Event::Started(v1::Started { tick: 5_000, resumed: true, epoch: 1 })).await;
    new.complete(b"two").await;
    is(&breaker, Freshness::Fresh).await;
    assert_eq!(breaker.try_acquire().unwrap_err().reason(), Reason::Open);
}

#[tokio::test]
async fn after_a_reset_what_is_not_in_the_snapshot_is_gone() {
    let (_fake, live, client, breaker) = connected(vec![status("a", v1::State::Open, 6)]).await;
    live.say(Event::Reset(v1::Reset { reason: "another store".into() })).await;
    is(&breaker, Freshness::Stale).await;
    assert_eq!(breaker.try_acquire().unwrap_err().reason(), Reason::Open, "the old value stays meanwhile");
    live.complete(b"two").await;
    is(&breaker, Freshness::Local).await;
    assert!(breaker.try_acquire().is_ok());
    live.say(Event::Status(status("a", v1::State::Open, 2))).await;
    eventually("its coming back", || breaker.state() == State::Open).await;
    drop(client);
    live.left().await;
}

#[tokio::test]
async fn handles_made_later_get_a_stream_and_are_merged_at_the_next_reconnect() {
    let (mut fake, first, client, _a) = connected(vec![closed("a")]).await;
    let late = [client.breaker("b"), client.breaker("c")];
    let second = fake.live().await;
    assert_eq!(second.request.breakers, ["b", "c"], "made within a moment: one stream");
    second.snapshot(vec![closed("b"), closed("c")], b"two").await;
    is(&late[1], Freshness::Fresh).await;
    first.end(Status::unavailable("gone")).await;
    second.end(Status::unavailable("gone")).await;
    let merged = fake.live().await;
    let mut names = merged.request.breakers.clone();
    names.sort();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(merged.request.resume.is_empty(), "the token is of another selection");
}

#[tokio::test]
async fn many_single_handles_do_not_become_many_streams() {
    let (mut fake, _first, client, _a) = connected(vec![closed("a")]).await;
    let mut streams = Vec::new();
    for name in ["b", "c"] {
        client.breaker(name);
        let live = fake.live().await;
        live.snapshot(vec![closed(name)], b"x").await;
        streams.push(live);
    }
    client.breaker("d");
    let merged = fake.live().await;
    assert_eq!(merged.request.breakers.len(), 4);
    let all = ["a", "b", "c", "d"].map(closed).to_vec();
    merged.snapshot(all, b"all").await;
    for stream in streams {
        stream.left().await;
    }
}

#[tokio::test]
async fn a_refusal_that_no_repetition_betters_is_no_hot_loop() {
    for refusal in
        [Status::unimplemented("too old"), Status::invalid_argument("bad"), Status::permission_denied("no")]
    {
        let mut fake = Fake::start().await;
        let client = Client::builder(fake.url()).build().unwrap();
        let breaker = client.breaker("a");
        fake.watched().await.refuse(refusal);
        let began = Instant::now();
        let second = fake.watched().await;
        assert!(began.elapsed() > Duration::from_secs(2), "again after {:?}", began.elapsed());
        assert!(breaker.try_acquire().is_ok());
        second.refuse(Status::unavailable("enough"));
    }
}

#[tokio::test]
async fn reconnects_wait_a_little_and_grow() {
    let mut fake = Fake::start().await;
    let client = Client::builder(fake.url()).build().unwrap();
    client.breaker("a");
    let mut last = Instant::now();
    for n in 0..4 {
        let watched = fake.watched().await;
        assert!(n == 0 || last.elapsed() >= Duration::from_millis(190), "{:?}", last.elapsed());
        last = Instant::now();
        watched.refuse(Status::unavailable("not yet"));
    }
}

#[tokio::test]
async fn a_call_waits_for_no_answer_longer_than_its_bound() {
    let (mut fake, live, _client, breaker) = connected(vec![status("a", v1::State::HalfOpen, 6)]).await;
    let began = Instant::now();
    let waiting = breaker.acquire();
    let (answer, asked) = tokio::join!(waiting, fake.acquired());
    let rejected = answer.unwrap_err();
    assert_eq!(rejected.reason(), Reason::ProbesTaken);
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(95) && waited < Duration::from_secs(2), "{waited:?}");
    // The probe comes too late for that call: the next one takes it.
    asked.answer(probe(77, 6));
    let mut permit = None;
    eventually("the probe is at hand", || {
        permit = breaker.try_acquire().ok();
        permit.is_some()
    })
    .await;
    permit.unwrap().success();
    let report = fake.reported().await;
    let entry = report.request.entries.iter().find(|entry| entry.probe_id == 77).unwrap();
    assert_eq!((entry.successes, entry.generation), (1, Some(generation(6))));
    drop(live);
}

fn probe(id: u64, revision: u64) -> v1::AcquireResponse {
    let timeout = Some(prost_types::Duration { seconds: 10, nanos: 0 });
    let grant = v1::Grant {
        generation: Some(generation(revision)),
        ttl: timeout,
        probe: Some(v1::Probe { id, timeout }),
    };
    v1::AcquireResponse {
        decision: Some(v1::acquire_response::Decision::Grant(grant)),
        status: Some(status("a", v1::State::HalfOpen, revision)),
        tick: 1_000,
    }
}

#[tokio::test]
async fn callers_that_wait_are_served_in_order_and_one_that_left_gives_its_probe_back() {
    let (mut fake, _live, _client, breaker) = connected(vec![status("a", v1::State::HalfOpen, 6)]).await;
    let handle = breaker.clone();
    let leaver = tokio::spawn(async move { handle.acquire().await.map(|permit| permit.is_probe()) });
    let asked = fake.acquired().await;
    leaver.abort();
    assert!(leaver.await.unwrap_err().is_cancelled());
    asked.answer(probe(1, 6));
    let permit = soon("the probe", breaker.acquire()).await.unwrap();
    assert!(permit.is_probe());
    permit.success();
}

#[tokio::test]
async fn rejected_by_the_server_the_caller_is_told_at_once() {
    let (mut fake, _live, _client, breaker) = connected(vec![status("a", v1::State::HalfOpen, 6)]).await;
    let (answer, ()) = tokio::join!(breaker.acquire(), async {
        let rejection = v1::Rejection {
            reason: v1::RejectionReason::ProbesTaken.into(),
            retry_after: Some(prost_types::Duration { seconds: 3, nanos: 0 }),
            message: String::new(),
        };
        fake.acquired().await.answer(v1::AcquireResponse {
            decision: Some(v1::acquire_response::Decision::Rejection(rejection)),
            status: Some(status("a", v1::State::HalfOpen, 6)),
            tick: 1_000,
        });
    });
    let retry_after = answer.unwrap_err().retry_after().unwrap();
    assert!(retry_after > Duration::from_secs(2) && retry_after <= Duration::from_secs(3), "{retry_after:?}");
}

#[tokio::test]
async fn nonsense_does_no_harm() {
    let strange = v1::BreakerStatus {
        admission: 99,
        state: -3,
        policy: Some(v1::Policy { name: "no rules".into(), ..v1::Policy::default() }),
        ..closed("a")
    };
    let (_fake, live, _client, breaker) = connected(vec![closed("never asked for"), strange]).await;
    assert!(breaker.try_acquire().is_ok(), "an unknown admission is ALLOW");
    assert_eq!(&*breaker.status().policy, "default", "a policy that cannot be used is not");
    live.say(Event::NotFound(v1::NotFound { name: "nor for this".into(), nearest: String::new() })).await;
    live.say(Event::Deleted(v1::Deleted { name: "a".into(), version: None })).await;
    live.say(Event::Bookmark(v1::Bookmark {
        tick: u64::MAX,
        ttl: Some(prost_types::Duration { seconds: -1, nanos: i32::MIN }),
        resume: vec![0; 100_000].into(),
    }))
    .await;
    live.say(Event::Status(status("a", v1::State::Open, u64::MAX))).await;
    eventually("it lives on", || breaker.state() == State::Open).await;
}

#[tokio::test]
async fn when_the_last_handle_goes_so_does_the_thread() {
    let (_fake, live, client, breaker) = connected(vec![closed("a")]).await;
    drop(client);
    assert_eq!(breaker.freshness(), Freshness::Fresh, "a handle keeps it");
    let other = breaker.clone();
    drop(breaker);
    assert!(other.try_acquire().is_ok());
    drop(other);
    live.left().await;
}

#[tokio::test]
async fn what_is_recorded_while_away_is_never_sent() {
    let (mut fake, old, client, breaker) = connected(vec![closed("a")]).await;
    old.end(Status::unavailable("gone")).await;
    is(&breaker, Freshness::Stale).await;
    for _ in 0..5 {
        breaker.try_acquire().unwrap().failure("timeout");
    }
    let new = fake.live().await;
    new.snapshot(vec![closed("a")], b"two").await;
    is(&breaker, Freshness::Fresh).await;
    soon("the end", client.shutdown()).await;
    assert!(!fake.has_report());
}
