//! Bad requests: refused with all that is wrong, and without harm to anything else.

use panelboard_proto::v1;
use panelboard_server::limits::Limits;
use tonic::{Code, Status, transport::Endpoint};
use tonic_types::StatusExt;

use crate::support::*;

/// A world with a breaker that has been reported to, and what it looks like.
async fn world() -> (World, v1::GetBreakerResponse) {
    let mut world = World::start().await;
    world.report(failures("t/witness", 7)).await;
    let seen = world.look("t/witness").await;
    (world, seen)
}

/// Nothing has changed and nothing was made.
async fn unharmed(world: &mut World, seen: v1::GetBreakerResponse) {
    assert_eq!(world.look("t/witness").await.readings, seen.readings);
    let page = world.service.list_breakers(v1::ListBreakersRequest::default()).await.unwrap().into_inner();
    assert_eq!(page.breakers.iter().map(|b| b.name.as_str()).collect::<Vec<_>>(), ["t/witness"]);
}

fn fields(error: &Status) -> Vec<(String, String)> {
    assert_eq!(error.code(), Code::InvalidArgument, "{error:?}");
    let details = error.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "INVALID_REQUEST");
    assert_eq!(details.error_info().unwrap().domain, "panelboard");
    let violations = &details.bad_request().expect("a BadRequest").field_violations;
    violations.iter().map(|v| (v.field.clone(), v.description.clone())).collect()
}

/// Reports an entry that is wrong, and compares what is said of it as (field, part of the description).
async fn check(entry: v1::ReportEntry, expected: &[(&str, &str)]) {
    let (mut world, seen) = world().await;
    let good = failures("t/witness", 1);
    let request = v1::ReportRequest { client: None, entries: vec![good, entry] };
    let error = within("Report", world.service.report(request)).await.unwrap_err();
    let told = fields(&error);
    let fits = told.len() == expected.len()
        && told.iter().zip(expected).all(|((field, said), (at, part))| {
            field.strip_prefix("entries[1].") == Some(*at) && said.contains(part)
        });
    assert!(fits, "expected {expected:?}, came {told:?}");
    unharmed(&mut world, seen).await;
}

fn entry() -> v1::ReportEntry {
    successes("t/a", 1)
}

#[tokio::test]
async fn names_that_are_none() {
    let named = |name: &str| v1::ReportEntry { breaker: name.into(), ..entry() };
    check(named(""), &[("breaker", "empty")]).await;
    check(named(&"x".repeat(10_000)), &[("breaker", "10000 bytes, 128 are allowed")]).await;
    check(named("t/a b"), &[("breaker", "' ' at place 3")]).await;
    check(named("/t/a"), &[("breaker", "start with a letter or a digit")]).await;
    check(named("t/a\n"), &[("breaker", "'\\n' at place 3")]).await;

    let (mut world, seen) = world().await;
    for name in [String::new(), "x".repeat(10_000), "a b".into(), "ü".into()] {
        let asked = v1::AcquireRequest { client: None, breaker: name.clone() };
        assert_eq!(fields(&world.service.acquire(asked).await.unwrap_err())[0].0, "breaker");
        assert_eq!(fields(&world.try_look(&name).await.unwrap_err())[0].0, "breaker");
        let listed = v1::ListTransitionsRequest { breaker: name.clone(), ..Default::default() };
        assert_eq!(fields(&world.service.list_transitions(listed).await.unwrap_err())[0].0, "breaker");
        let watched = v1::WatchRequest { breakers: vec!["**".into(), name], ..Default::default() };
        assert_eq!(fields(&world.service.watch(watched).await.unwrap_err())[0].0, "breakers[1]");
    }
    unharmed(&mut world, seen).await;
}

#[tokio::test]
async fn durations_that_are_none() {
    let lasting = |seconds, nanos| {
        let duration = Some(prost_types::Duration { seconds, nanos });
        let raw = v1::RawOutcome { fact: Some(v1::raw_outcome::Fact::TimedOut(true)), duration, count: 1 };
        v1::ReportEntry { retry_after: duration, raw: vec![raw], ..entry() }
    };
    for (seconds, nanos, said) in [
        (-1, 0, "negative"),
        (0, -1, "negative"),
        (i64::MIN, i32::MIN, "negative"),
        (0, 1_000_000_000, "out of range"),
        (i64::MAX, 0, "at most a week"),
    ] {
        check(lasting(seconds, nanos), &[("retry_after", said), ("raw[0].duration", said)]).await;
    }
}

#[tokio::test]
async fn counts_that_are_absurd() {
    check(failures("t/a", u32::MAX), &[("failures", "4294967295 calls, 1000000 are allowed")]).await;
    let slow = v1::ReportEntry { slow_successes: 2, failures: 3, slow_failures: 4, ..entry() };
    check(
        slow,
        &[("slow_successes", "2 are more than the 1 successes"), ("slow_failures", "4 are more than the 3")],
    )
    .await;
    let streaks = Some(v1::Streaks { leading: 0, longest: 4, trailing: 0 });
    check(
        v1::ReportEntry { failures: 3, streaks, ..entry() },
        &[("streaks", "4 is longer than the 3 failures")],
    )
    .await;
    check(
        v1::ReportEntry { probe_id: 7, successes: 1, failures: 1, ..entry() },
        &[("probe_id", "the entry holds 2")],
    )
    .await;
    check(v1::ReportEntry { probe_id: 7, successes: 0, ..entry() }, &[("probe_id", "the entry holds 0")])
        .await;
}

#[tokio::test]
async fn facts_that_are_none() {
    use v1::raw_outcome::Fact;
    let raw = |fact| v1::RawOutcome { fact, duration: None, count: 1 };
    let facts = [
        Some(Fact::HttpStatus(99)),
        Some(Fact::HttpStatus(600)),
        Some(Fact::GrpcCode(17)),
        Some(Fact::Cause(String::new())),
        Some(Fact::Cause("x".repeat(10_000))),
        None,
    ];
    let expected = [
        ("raw[0].http_status", "99 is not an HTTP status: give 100 to 599"),
        ("raw[1].http_status", "600"),
        ("raw[2].grpc_code", "17 is not a gRPC code: give 0 to 16"),
        ("raw[3].cause", "0 bytes"),
        ("raw[4].cause", "10000 bytes"),
        ("raw[5]", "says nothing"),
    ];
    check(v1::ReportEntry { raw: facts.map(raw).into(), ..entry() }, &expected).await;
    let many = vec![raw(Some(Fact::TimedOut(true))); 101];
    check(v1::ReportEntry { raw: many, ..entry() }, &[("raw", "101 facts, 100 are allowed")]).await;
    let causes = (0..33).map(|n| (n.to_string(), 1)).collect();
    check(v1::ReportEntry { causes, ..entry() }, &[("causes", "33 causes, 32 are allowed")]).await;
}

#[tokio::test]
async fn clients_that_are_not_what_they_say() {
    let (mut world, seen) = world().await;
    let client = v1::Client {
        service: "a\u{0}b".into(),
        instance: "x".repeat(257),
        session: "line\nbreak".into(),
        zone: "\u{1b}[31m".into(),
        version: "1\r".into(),
    };
    let request = v1::AcquireRequest { client: Some(client.clone()), breaker: "t/a".into() };
    let told = fields(&world.service.acquire(request).await.unwrap_err());
    let at: Vec<_> = told.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(at, ["client.service", "client.instance", "client.session", "client.zone", "client.version"]);
    assert!(told[0].1.contains("control character '\\0'") && told[1].1.contains("257 bytes"), "{told:?}");
    let request =
        v1::WatchRequest { client: Some(client), breakers: vec!["t/a".into()], ..Default::default() };
    assert_eq!(fields(&world.service.watch(request).await.unwrap_err()).len(), 5);
    unharmed(&mut world, seen).await;
}

#[tokio::test]
async fn all_that_is_wrong_is_told_and_what_does_not_fit_is_counted() {
    let (mut world, seen) = world().await;
    let request = v1::ReportRequest { client: None, entries: vec![failures("", u32::MAX); 5] };
    let told = fields(&world.service.report(request).await.unwrap_err());
    assert_eq!(told.len(), 10, "{told:?}");

    let request = v1::ReportRequest { client: None, entries: vec![failures("", u32::MAX); 1_000] };
    let error = world.service.report(request).await.unwrap_err();
    assert!(
        error.message().starts_with("2000 fields are wrong: entries[0].breaker: the name is empty"),
        "{error:?}"
    );
    let told = fields(&error);
    let more = format!("{} more are wrong", 2_000 - (told.len() - 1));
    assert_eq!(told.last(), Some(&(String::new(), more)));
    // Stock clients take 8 KiB of headers, and the details travel in base64.
    assert!(error.details().len() * 4 / 3 + error.message().len() < 8_000, "{} bytes", error.details().len());
    unharmed(&mut world, seen).await;
}

#[tokio::test]
async fn pages_that_are_none() {
    let (mut world, _) = world().await;
    for page_size in [-1, 1_001, i32::MIN, i32::MAX] {
        let request = v1::ListBreakersRequest { page_size, pattern: "a b".into(), page_token: "?".into() };
        let told = fields(&world.service.list_breakers(request).await.unwrap_err());
        let at: Vec<_> = told.iter().map(|(field, _)| field.as_str()).collect();
        assert_eq!(at, ["page_size", "pattern", "page_token"]);
        let request =
            v1::ListTransitionsRequest { breaker: "t/witness".into(), page_size, page_token: "x".into() };
        assert_eq!(fields(&world.service.list_transitions(request).await.unwrap_err()).len(), 2);
    }
}

fn exhausted(error: &Status, reason: &str, limit: &str) {
    assert_eq!(error.code(), Code::ResourceExhausted, "{error:?}");
    let details = error.get_error_details();
    let quota = &details.quota_failure().expect("a QuotaFailure").violations[0];
    assert_eq!(quota.subject, limit);
    assert!(!quota.description.is_empty());
    assert!(details.retry_info().and_then(|retry| retry.retry_delay).is_some_and(|delay| !delay.is_zero()));
    assert_eq!(details.error_info().unwrap().reason, reason);
}

#[tokio::test]
async fn past_a_limit_there_is_an_error_that_names_it() {
    let limits = Limits { breakers: 2, watch_streams: 2, ..Limits::default() };
    let mut world = World::with(Options { limits, ..Options::default() }).await;
    let request = v1::ReportRequest { client: None, entries: vec![failures("t/a", 1); 100_000] };
    let error = within("Report", world.service.report(request)).await.unwrap_err();
    exhausted(&error, "TOO_MANY_ENTRIES", "limits.entries_per_report");
    assert!(error.message().contains("100000 entries, 1000 are allowed: split the report"), "{error:?}");

    let request = v1::WatchRequest { breakers: vec!["t/a".into(); 1_001], ..Default::default() };
    exhausted(&world.service.watch(request).await.unwrap_err(), "TOO_MANY_NAMES", "limits.names_per_watch");

    let breakers = (0..33).map(|n| format!("t/*{n}")).collect();
    let request = v1::WatchRequest { breakers, ..Default::default() };
    let error = world.service.watch(request).await.unwrap_err();
    exhausted(&error, "TOO_MANY_PATTERNS", "limits.patterns_per_watch");

    let watchers = [world.watch(&["**"]).await, world.watch(&["**"]).await];
    let request = || v1::WatchRequest { breakers: vec!["t/never".into()], ..Default::default() };
    exhausted(&world.service.watch(request()).await.unwrap_err(), "TOO_MANY_STREAMS", "limits.watch_streams");
    drop(watchers);

    world.acquire("t/a").await;
    world.acquire("t/b").await;
    let request = v1::AcquireRequest { client: None, breaker: "t/c".into() };
    exhausted(&world.service.acquire(request).await.unwrap_err(), "TOO_MANY_BREAKERS", "limits.breakers");
    let results = world.report_as(None, vec![failures("t/c", 1), failures("t/a", 1)]).await;
    let error = results[0].error.as_ref().unwrap();
    assert_eq!((error.code, error.reason.as_str()), (8, "TOO_MANY_BREAKERS"));
    assert_eq!(results[1].result(), v1::EntryResult::Counted);
    let page = world.service.list_breakers(v1::ListBreakersRequest::default()).await.unwrap().into_inner();
    assert_eq!(page.breakers.len(), 2);
}

#[tokio::test]
async fn a_name_that_no_policy_matches_is_not_found_with_the_nearest() {
    let policies = Some(test_policy("known", "known/quote"));
    let mut world = World::with(Options { policies, ..Options::default() }).await;
    let error = world.try_look("known/qoute").await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert!(error.message().contains("did you mean \"known/quote\"?"), "{error:?}");
    let details = error.get_error_details();
    let resource = details.resource_info().expect("a ResourceInfo");
    assert_eq!(
        (resource.resource_type.as_str(), resource.resource_name.as_str()),
        ("breaker", "known/qoute")
    );
    let info = details.error_info().unwrap();
    assert_eq!(
        (info.reason.as_str(), info.metadata.get("nearest").map(String::as_str)),
        ("BREAKER_NOT_FOUND", Some("known/quote"))
    );
    let request = v1::AcquireRequest { client: None, breaker: "nowhere".into() };
    let error = world.service.acquire(request).await.unwrap_err();
    assert_eq!((error.code(), error.message().contains("did you mean")), (Code::NotFound, false));
}

#[tokio::test]
async fn a_message_that_is_too_large_or_none_at_all_is_refused_by_the_transport() {
    let (mut world, seen) = world().await;
    let entries = vec![v1::ReportEntry { breaker: "x".repeat(5_000), ..entry() }; 1_000];
    let mut service = world.service.clone().max_encoding_message_size(usize::MAX);
    let error =
        within("Report", service.report(v1::ReportRequest { client: None, entries })).await.unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange, "{error:?}");

    let numbers = v1::Generation { epoch: 1, revision: 2 };
    assert_eq!(
        send(&world, numbers).await.code(),
        Code::Internal,
        "numbers where a message and a text belong"
    );
    let latin = NotText { breaker: vec![0xfc] };
    assert_eq!(send(&world, latin).await.code(), Code::Internal, "a text that is not UTF-8");
    unharmed(&mut world, seen).await;
}

/// An AcquireRequest whose name need not be text.
#[derive(Clone, PartialEq, prost::Message)]
struct NotText {
    #[prost(bytes = "vec", tag = "2")]
    breaker: Vec<u8>,
}

/// Sends what is no AcquireRequest to Acquire.
async fn send<M: prost::Message + 'static>(world: &World, message: M) -> Status {
    let endpoint = Endpoint::from_shared(format!("http://{}", world.running.grpc_addr)).unwrap();
    let mut client = tonic::client::Grpc::new(endpoint.connect().await.unwrap());
    client.ready().await.unwrap();
    let path = tonic::codegen::http::uri::PathAndQuery::from_static("/panelboard.v1.BreakerService/Acquire");
    let codec = tonic_prost::ProstCodec::<M, v1::AcquireResponse>::default();
    within("an answer", client.unary(tonic::Request::new(message), path, codec)).await.unwrap_err()
}
