//! Without a server.

use std::time::{Duration, Instant};

use panelboard_client::{
    CallError, Client, Fact, Freshness, Mode, NotReady, OnDisconnect, Reason, State,
    policy::{PolicySpec, Rule, Window},
};

use crate::{eventually, soon};

/// Nothing listens there.
const NOWHERE: &str = "http://127.0.0.1:1";

fn three_in_a_row() -> PolicySpec {
    let mut spec =
        PolicySpec { trip: vec![Rule::ConsecutiveFailures { threshold: 3 }], ..PolicySpec::default() };
    spec.open.wait = Duration::from_millis(50);
    spec.open.jitter_hundredths = 0;
    spec.half_open.permitted_calls = 1;
    spec
}

#[tokio::test]
async fn it_starts_at_once_admits_and_protects() {
    let began = Instant::now();
    let client = Client::builder(NOWHERE).policy(three_in_a_row()).build().unwrap();
    let here = client.breaker("a");
    for _ in 0..3 {
        let answer = here.call(|| async { Err::<(), _>("down") }).await;
        assert_eq!(answer, Err(CallError::Failed("down")));
    }
    let rejected = here.try_acquire().unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(2), "nothing waits for the server");
    assert_eq!((rejected.reason(), rejected.freshness()), (Reason::Open, Freshness::Local));
    assert!(rejected.to_string().contains("3 consecutive failures >= 3"), "{rejected}");
    // Its wait is over by itself, the next call is the probe, and its success closes.
    eventually("a probe", || {
        here.try_acquire().is_ok_and(|permit| {
            assert!(permit.is_probe());
            permit.success();
            true
        })
    })
    .await;
    assert_eq!(here.state(), State::Closed);
}

#[tokio::test]
async fn ready_gives_up_at_its_bound_and_says_why() {
    let client = Client::builder(NOWHERE).build().unwrap();
    client.breaker("a");
    client.breaker("b");
    let bound = Duration::from_millis(300);
    match soon("an answer", client.ready(bound)).await {
        Err(NotReady::TimedOut { others: 1, waited, last_error, .. }) => {
            assert_eq!(waited, bound);
            assert!(last_error.contains("refused"), "{last_error}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn deny_rejects_and_allow_admits() {
    let client = |on_disconnect| Client::builder(NOWHERE).on_disconnect(on_disconnect).build().unwrap();
    let denied = client(OnDisconnect::Deny).breaker("a").try_acquire().unwrap_err();
    assert_eq!((denied.reason(), denied.retry_after()), (Reason::Disconnected, None));
    let allowed = client(OnDisconnect::Allow).breaker("a");
    for _ in 0..100 {
        allowed.try_acquire().unwrap().failure("timeout");
    }
    assert!(allowed.try_acquire().is_ok());
}

#[tokio::test]
async fn off_is_off() {
    let client = Client::builder(NOWHERE).policy(three_in_a_row()).mode(Mode::Off).build().unwrap();
    let here = client.breaker("a");
    for _ in 0..10 {
        here.try_acquire().unwrap().failure("timeout");
    }
    assert!(here.try_acquire().is_ok());
    soon("ready", client.ready(Duration::from_secs(1))).await.unwrap();
}

#[tokio::test]
async fn a_wrong_name_stops_no_call() {
    let client = Client::builder(NOWHERE).build().unwrap();
    assert!(client.try_breaker("a b").is_err());
    let wrong = client.breaker("a b");
    for _ in 0..100 {
        wrong.try_acquire().unwrap().failure("timeout");
    }
    assert_eq!(wrong.call(|| async { Ok::<_, ()>(1) }).await, Ok(1));
}

#[tokio::test]
async fn permits_move_between_threads_and_each_ending_counts_once() {
    let spec = PolicySpec {
        trip: vec![Rule::Failures { threshold: 3, window: Window::Last(100) }],
        ..three_in_a_row()
    };
    let client = Client::builder(NOWHERE).policy(spec).build().unwrap();
    let here = client.breaker("a");
    let permit = here.try_acquire().unwrap().into_owned();
    std::thread::spawn(move || permit.failure("timeout")).join().unwrap();
    drop(here.try_acquire().unwrap());
    here.try_acquire().unwrap().ignore();
    here.try_acquire().unwrap().ignore_as("cancelled");
    assert_eq!(here.try_acquire().unwrap().record(Ok::<_, ()>(7)), Ok(7));
    here.try_acquire().unwrap().record_fact(Fact::HttpStatus(404));
    let panicked = here.clone();
    let calling =
        tokio::spawn(async move { panicked.call(|| async { panic!("on purpose") as Result<(), ()> }).await });
    assert!(calling.await.is_err());
    let under_way = here.try_acquire().unwrap();
    here.try_acquire().unwrap().record_fact(Fact::GrpcCode(14).retry_after(Duration::from_secs(60)));
    assert_eq!(here.state(), State::Closed, "two failures");
    let rejected = here.try_acquire().expect_err("the dependency asked it to wait");
    assert_eq!(
        (rejected.reason(), &*rejected.explanation()),
        (Reason::Quarantined, "the dependency asked it to wait 1m")
    );
    assert!(under_way.record(Err::<(), _>(())).is_err());
    assert_eq!(here.state(), State::Open);
}

#[tokio::test]
async fn it_needs_no_runtime_of_the_caller() {
    let client = Client::builder(NOWHERE).policy(three_in_a_row()).build().unwrap();
    let here = client.breaker("a");
    // A thread that knows nothing of tokio, polling by hand.
    let calling = std::thread::spawn(move || {
        let call = here.call(|| std::future::ready(Ok::<_, ()>(1)));
        let mut call = std::pin::pin!(call);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        loop {
            if let std::task::Poll::Ready(answer) = call.as_mut().poll(&mut context) {
                return answer;
            }
        }
    });
    assert_eq!(calling.join().unwrap(), Ok(1));
}
