//! What becomes of reported outcomes, entry by entry.

use std::sync::Arc;

use panelboard_proto::{
    store::{self as records, stored_breaker::State as StoredState},
    v1::{self, EntryResult},
};
use panelboard_server::store::{Key, Memory, Precondition, Store, StoreId, Value};
use prost::Message;

use crate::support::*;

const NAME: &str = "t/a";

/// Calls and matches of the first rule.
async fn counted(world: &mut World) -> (u64, u64) {
    let reading = world.look(NAME).await.readings.remove(0);
    (reading.calls, reading.matched)
}

#[tokio::test]
async fn failures_reported_by_hand_open_at_the_twentieth_and_each_answer_says_how_far_it_is() {
    let mut world = World::with(Options { policies: None, ..Options::default() }).await;
    let name = "checkout/shipping-quote";
    for (more, progress) in
        [(12, "CLOSED: 12 of 20 calls, 12 failed"), (7, "CLOSED: 19 of 20 calls, 19 failed")]
    {
        let answer = world.report(failures(name, more)).await;
        assert_eq!((answer.result(), answer.progress.as_str()), (EntryResult::Counted, progress));
        assert_eq!(answer.status.unwrap().state(), v1::State::Closed);
    }
    let answer = world.report(failures(name, 1)).await;
    let status = answer.status.unwrap();
    assert_eq!(status.state(), v1::State::Open);
    assert!(answer.progress.starts_with("OPEN: retry in 5"), "{}", answer.progress);
    let why = status.last_transition.unwrap();
    assert!(
        why.explanation.starts_with("failure rate 100 % >= 50 % (20 of 20 in 10 s)"),
        "{}",
        why.explanation
    );
    assert_eq!((why.from(), why.to()), (v1::State::Closed, v1::State::Open));
    assert_eq!(why.crossing.unwrap().matched, 20);
}

#[tokio::test]
async fn the_same_sequence_of_a_session_counts_once() {
    let mut world = World::start().await;
    let entry = v1::ReportEntry { sequence: 1, ..failures(NAME, 12) };
    let session = || who("one", "session");
    assert_eq!(world.report_as(session(), vec![entry.clone()]).await[0].result(), EntryResult::Counted);
    let again = world.report_as(session(), vec![entry.clone()]).await.remove(0);
    assert_eq!(
        (again.result(), again.progress.as_str()),
        (EntryResult::Duplicate, "CLOSED: 12 of 20 calls, 12 failed")
    );
    // Another session of the same instance counts for itself, and so does one that numbers nothing.
    assert_eq!(
        world.report_as(who("one", "other"), vec![entry.clone()]).await[0].result(),
        EntryResult::Counted
    );
    assert_eq!(counted(&mut world).await, (24, 24));
}

#[tokio::test]
async fn an_identical_report_sent_again_changes_nothing() {
    let mut world = World::start().await;
    let numbered = |sequence, entry| v1::ReportEntry { sequence, ..entry };
    let entries = vec![
        numbered(1, failures(NAME, 15)),
        numbered(1, successes("t/b", 3)),
        numbered(2, failures(NAME, 5)),
    ];
    let first = world.report_as(who("one", "session"), entries.clone()).await;
    assert!(first.iter().all(|result| result.result() == EntryResult::Counted));
    let opened = world.look(NAME).await.status.unwrap();
    assert_eq!(opened.state(), v1::State::Open);
    for _ in 0..3 {
        let again = world.report_as(who("one", "session"), entries.clone()).await;
        assert!(again.iter().all(|result| result.result() == EntryResult::Duplicate), "{again:?}");
    }
    assert_eq!(world.look(NAME).await.status.unwrap().version, opened.version);
}

#[tokio::test]
async fn another_generation_is_stale_whether_it_is_old_made_up_or_missing() {
    let mut world = World::start().await;
    let grant = granted(&world.acquire(NAME).await);
    let of = |generation| v1::ReportEntry { generation, ..failures(NAME, 20) };
    let made_up = grant.generation.map(|g| v1::Generation { revision: g.revision + 1, ..g });
    for generation in
        [made_up, Some(v1::Generation { epoch: 1, revision: 1 }), Some(v1::Generation::default())]
    {
        let answer = world.report(of(generation)).await;
        assert_eq!(answer.result(), EntryResult::StaleGeneration);
        assert_eq!(answer.status.unwrap().state(), v1::State::Closed);
    }
    let opened = world.trip(NAME).await;
    // From before the trip, and by hand while nothing is counted.
    for generation in [grant.generation, None] {
        let answer = world.report(of(generation)).await;
        assert_eq!(answer.result(), EntryResult::StaleGeneration);
        assert_eq!(answer.status.unwrap().version, opened.version);
    }
}

#[tokio::test]
async fn a_probe_that_is_not_out_is_unknown() {
    let mut world = World::start().await;
    let status = world.half_open(NAME).await;
    let grant = granted(&world.acquire(NAME).await);
    let made_up = v1::ReportEntry { probe_id: 4_711, ..probe_result(NAME, &grant, false) };
    assert_eq!(world.report(made_up).await.result(), EntryResult::UnknownProbe);
    let without = v1::ReportEntry { generation: status.generation, ..failures(NAME, 1) };
    assert_eq!(world.report(without).await.result(), EntryResult::UnknownProbe);
    // Somebody else's probe is not theirs to report.
    let theirs = world.report_as(who("thief", ""), vec![probe_result(NAME, &grant, false)]).await;
    assert_eq!(theirs[0].result(), EntryResult::UnknownProbe);
    assert_eq!(world.state(NAME).await, v1::State::HalfOpen);
    assert_eq!(world.report(probe_result(NAME, &grant, true)).await.result(), EntryResult::Counted);
    assert_eq!(world.report(probe_result(NAME, &grant, true)).await.result(), EntryResult::UnknownProbe);
}

#[tokio::test]
async fn what_was_sealed_before_the_window_or_before_the_stretch_is_too_old() {
    let mut world = World::with(Options { policies: None, ..Options::default() }).await;
    world.acquire(NAME).await;
    world.advance(60_000);
    let tick = world.look(NAME).await.tick;
    let sealed = |at| v1::ReportEntry { at_tick: Some(at), ..failures(NAME, 20) };
    let answer = world.report(sealed(tick - 30_000)).await;
    assert_eq!(
        (answer.result(), answer.progress.as_str()),
        (EntryResult::TooOld, "CLOSED: 0 of 20 calls, 0 failed")
    );
    assert_eq!(world.report(sealed(0)).await.result(), EntryResult::TooOld);

    // A new stretch: CLOSED again, half a second ago.
    world.report(failures(NAME, 20)).await;
    world.advance(10_000);
    for _ in 0..3 {
        let grant = granted(&world.acquire(NAME).await);
        world.report(probe_result(NAME, &grant, true)).await;
    }
    assert_eq!(world.state(NAME).await, v1::State::Closed);
    world.advance(500);
    let tick = world.look(NAME).await.tick;
    assert_eq!(world.report(sealed(tick - 501)).await.result(), EntryResult::TooOld);
    assert_eq!(
        world.report(v1::ReportEntry { failures: 1, ..sealed(tick - 500) }).await.result(),
        EntryResult::Counted
    );
    // From the future counts as from now.
    assert_eq!(
        world.report(v1::ReportEntry { failures: 1, ..sealed(u64::MAX) }).await.result(),
        EntryResult::Counted
    );
}

#[tokio::test]
async fn under_disabled_nothing_is_recorded() {
    // An operator's hand from before a restart.
    let store = Arc::new(Memory::new(StoreId::from_u128(1)));
    let over = records::StoredOverride {
        kind: v1::OverrideKind::Disabled.into(),
        who: "ada".into(),
        why: "maintenance".into(),
        ..records::StoredOverride::default()
    };
    let record = records::StoredBreaker { state: Some(StoredState::Overridden(over)), ..Default::default() };
    let (key, value) =
        (Key::new(format!("breaker/{NAME}")).unwrap(), Value::new(record.encode_to_vec()).unwrap());
    store.put(key, value, Precondition::Absent).unwrap();

    let mut world = World::with(Options { store, ..Options::default() }).await;
    let answer = world.report(failures(NAME, 20)).await;
    assert_eq!(answer.result(), EntryResult::NotRecorded);
    let over = answer.status.unwrap().r#override.unwrap();
    assert_eq!(
        (over.kind(), over.who.as_str(), over.why.as_str()),
        (v1::OverrideKind::Disabled, "ada", "maintenance")
    );
    granted(&world.acquire(NAME).await);
}

#[tokio::test]
async fn an_entry_that_cannot_be_taken_fails_alone() {
    let policies = Some(test_policy("known", "known/quote"));
    let mut world = World::with(Options { policies, ..Options::default() }).await;
    let entries = vec![failures("known/quote", 3), failures("known/quotes", 3), failures("known/quote", 4)];
    let results = world.report_as(None, entries).await;
    assert_eq!(results[0].result(), EntryResult::Counted);
    let error = results[1].error.as_ref().expect("an error");
    assert_eq!((error.code, error.reason.as_str()), (5, "BREAKER_NOT_FOUND"));
    assert!(error.message.contains("did you mean \"known/quote\"?"), "{}", error.message);
    assert_eq!((results[1].result(), results[1].status.is_none()), (EntryResult::Unspecified, true));
    assert_eq!(results[2].progress, "CLOSED: 7 of 20 calls, 7 failed");
}

#[tokio::test]
async fn a_report_with_one_malformed_entry_counts_nothing() {
    let mut world = World::start().await;
    let request = v1::ReportRequest { client: None, entries: vec![failures(NAME, 3), failures("", 3)] };
    let error = world.service.report(request).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::InvalidArgument);
    assert_eq!(world.try_look(NAME).await.unwrap_err().code(), tonic::Code::NotFound, "it was not even made");
}

#[tokio::test]
async fn raw_facts_are_classified_by_the_policy_of_the_breaker() {
    use v1::raw_outcome::Fact;
    let policy = test_policy("test", "\"t/**\"")
        .replace("    open:", "    classification: { failure: [http_429] }\n    open:");
    let mut world = World::with(Options { policies: Some(policy), ..Options::default() }).await;
    let raw = |fact, count| v1::RawOutcome { fact: Some(fact), duration: None, count };
    let entry = v1::ReportEntry {
        breaker: NAME.into(),
        raw: vec![
            raw(Fact::HttpStatus(503), 2),
            raw(Fact::HttpStatus(200), 3),
            raw(Fact::HttpStatus(401), 50),
            raw(Fact::HttpStatus(429), 1),
            raw(Fact::GrpcCode(14), 1),
            raw(Fact::GrpcCode(3), 50),
            raw(Fact::TimedOut(true), 0),
            raw(Fact::Cause("pool_exhausted".into()), 50),
        ],
        ..v1::ReportEntry::default()
    };
    let answer = world.report(entry).await;
    assert_eq!(
        (answer.result(), answer.progress.as_str()),
        (EntryResult::Counted, "CLOSED: 8 of 20 calls, 5 failed")
    );
    // Ignored outcomes count nowhere, and are seen by cause.
    let metrics = reqwest::get(world.http("/metrics")).await.unwrap().text().await.unwrap();
    let seen = metrics.lines().any(|line| {
        line.contains("breaker_causes_total") && line.contains("http_401") && line.ends_with(" 50")
    });
    assert!(seen, "{metrics}");
}
