//! The panel for users' tests, used as users would.

use std::time::{Duration, Instant};

use panelboard_client::{
    Breaker, CallError, Fact, Freshness, Mode, Permit, Reason, State,
    policy::{Classification, PolicySpec},
    testing::FakePanel,
};

const NAME: &str = "checkout/shipping-quote";
const WAIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_very_next_call_meets_what_was_said() {
    let panel = FakePanel::new();
    let quote = panel.client().breaker(NAME);
    for _ in 0..20 {
        panel.open(NAME, WAIT).await;
        let rejected = quote.try_acquire().unwrap_err();
        assert_eq!((rejected.reason(), rejected.freshness()), (Reason::Open, Freshness::Fresh));
        // Two clocks of whole milliseconds lie between what was said and what is read.
        let near = WAIT / 2..=WAIT + Duration::from_millis(10);
        assert!(rejected.retry_after().is_some_and(|left| near.contains(&left)), "{rejected}");
        assert!(rejected.to_string().contains(" is OPEN (the test says so), retry in "), "{rejected}");
        panel.close(NAME).await;
        quote.try_acquire().unwrap().success();
    }
    panel.force_open(NAME).await;
    assert_eq!(quote.try_acquire().unwrap_err().reason(), Reason::ForcedOpen);
    panel.quarantine(NAME, WAIT).await;
    assert_eq!(quote.try_acquire().unwrap_err().reason(), Reason::Quarantined);
    panel.disable(NAME).await;
    assert_eq!(quote.state(), State::Disabled);
    quote.try_acquire().unwrap().success();
}

#[tokio::test]
async fn a_handle_that_is_made_later_meets_it_too() {
    let panel = FakePanel::new();
    panel.open(NAME, WAIT).await;
    assert_eq!(panel.client().breaker(NAME).try_acquire().unwrap_err().reason(), Reason::Open);
}

#[tokio::test]
async fn what_was_reported_can_be_read_by_outcome_and_cause() {
    let panel = FakePanel::new();
    let quote = panel.client().breaker(NAME);
    panel.close(NAME).await;
    quote.try_acquire().unwrap().success();
    quote.try_acquire().unwrap().failure("timeout");
    quote.try_acquire().unwrap().record_fact(Fact::HttpStatus(503));
    quote.try_acquire().unwrap().record_fact(Fact::HttpStatus(404));
    drop(quote.try_acquire().unwrap());
    let reported = panel.reported_calls(NAME, 5).await;
    assert_eq!(
        (reported.successes, reported.failures, reported.ignored, reported.abandoned, reported.probes),
        (1, 2, 1, 1, 0)
    );
    assert_eq!((reported.causes["timeout"], reported.causes["http_503"]), (1, 1));
    assert_eq!(panel.reported("another"), Default::default());
}

/// A probe, asked for again should an answer take longer than the client waits for it: the machine may be busy.
async fn probe(quote: &Breaker) -> Permit<'_> {
    let began = Instant::now();
    loop {
        match quote.acquire().await {
            Ok(permit) => return permit,
            Err(rejected) => assert!(began.elapsed() < WAIT, "{rejected}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn probes_are_given_once_and_again_if_they_had_no_outcome() {
    let panel = FakePanel::new();
    let quote = panel.client_with(|builder| builder.probe_wait(Duration::from_secs(5))).breaker(NAME);
    panel.half_open(NAME, 1).await;
    assert_eq!(quote.state(), State::HalfOpen);
    drop(probe(&quote).await);
    assert_eq!(panel.reported_calls(NAME, 1).await.abandoned, 1);
    let probe = probe(&quote).await;
    assert!(probe.is_probe());
    probe.failure("timeout");
    let reported = panel.reported_calls(NAME, 2).await;
    assert_eq!((reported.failures, reported.probes), (1, 2));
    assert_eq!(quote.acquire().await.unwrap_err().reason(), Reason::ProbesTaken);
}

#[tokio::test]
async fn away_it_is_local_at_once_and_back_it_is_fresh_at_once() {
    let panel = FakePanel::new();
    let client = panel.client();
    let (quote, other) = (client.breaker(NAME), client.breaker("other"));
    panel.open(NAME, WAIT).await;
    panel.close("other").await;
    let began = Instant::now();
    for _ in 0..3 {
        panel.disconnect().await;
        let rejected = quote.try_acquire().unwrap_err();
        assert_eq!((rejected.reason(), rejected.freshness()), (Reason::Open, Freshness::Local));
        assert_eq!(other.freshness(), Freshness::Local);
        other.try_acquire().unwrap().success();
        panel.connect().await;
        assert_eq!((quote.freshness(), other.freshness()), (Freshness::Fresh, Freshness::Fresh));
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_is_said_while_it_is_away_is_known_when_it_is_back() {
    let panel = FakePanel::new();
    let quote = panel.client().breaker(NAME);
    panel.close(NAME).await;
    panel.disconnect().await;
    panel.open(NAME, WAIT).await;
    quote.try_acquire().unwrap().success();
    panel.connect().await;
    assert_eq!(quote.try_acquire().unwrap_err().reason(), Reason::Open);
    assert_eq!(panel.reported(NAME).calls(), 0, "what was recorded while away is never evidence");
}

#[tokio::test]
async fn the_policy_classifies() {
    let panel = FakePanel::new();
    let quote = panel.client().breaker(NAME);
    let counts_429 = Classification { failure: vec!["http_429".into()], ..Classification::default() };
    panel.policy(NAME, PolicySpec { classification: counts_429, ..PolicySpec::default() }).await;
    let result = quote.call_with(|_| Fact::HttpStatus(429), || async { Err::<(), _>("too many") }).await;
    assert_eq!(result, Err(CallError::Failed("too many")));
    assert_eq!(panel.reported_calls(NAME, 1).await.failures, 1);
}

#[test]
fn no_runtime_is_needed_and_none_is_disturbed() {
    // The smallest executor there is: the panel's methods wait on their own thread.
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut test = Box::pin(async {
        let panel = FakePanel::new();
        panel.open(NAME, WAIT).await;
        panel.client().breaker(NAME).try_acquire().is_err()
    });
    loop {
        match test.as_mut().poll(&mut context) {
            std::task::Poll::Ready(is_rejected) => return assert!(is_rejected),
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_does_not_stop_it() {
    let panel = FakePanel::new();
    panel.open(NAME, WAIT).await;
    assert!(panel.client().breaker(NAME).try_acquire().is_err());
}

#[tokio::test]
async fn clients_of_their_own_hear_it_too_and_one_that_is_off_is_not_waited_for() {
    let panel = FakePanel::new();
    let shadow = panel.client_with(|builder| builder.mode(Mode::Shadow)).breaker(NAME);
    let off = panel.client_with(|builder| builder.mode(Mode::Off)).breaker(NAME);
    panel.open(NAME, WAIT).await;
    assert_eq!(shadow.state(), State::Open);
    assert!(shadow.try_acquire().is_ok() && off.try_acquire().is_ok());
}

#[tokio::test]
#[should_panic(expected = "is no breaker's name")]
async fn a_typing_error_in_a_name_fails_the_test() {
    FakePanel::new().close("not a name").await;
}
