//! In HALF_OPEN, with a real panel: the call that wants to go is the probe.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use panelboard_client::{Breaker, BreakerLayer, Client, Fact, Reason, Rejected, State, testing::FakePanel};
use tower::{Service, ServiceBuilder, ServiceExt};

use crate::{BOUND, eventually, panel::Panel, soon};

const NAME: &str = "quick/quote";

/// FRESH, and HALF_OPEN. Its calls wait long for a probe: the machine may be busy.
async fn half_open(panel: &Panel, probe_wait: Duration) -> (Client, Breaker) {
    let client = Client::builder(panel.url())
        .service("tests")
        .instance("a")
        .probe_wait(probe_wait)
        .seed(1)
        .build()
        .unwrap();
    let breaker = client.breaker(NAME);
    client.ready(BOUND).await.unwrap();
    for _ in 0..4 {
        breaker.try_acquire().unwrap().failure("timeout");
    }
    eventually("OPEN", || breaker.state() == State::Open).await;
    panel.clock.advance(Duration::from_secs(5));
    eventually("HALF_OPEN", || breaker.state() == State::HalfOpen).await;
    (client, breaker)
}

/// Counts its calls, and answers how many there were.
fn counted(
    breaker: &Breaker,
) -> impl Service<(), Response = usize, Error = tower::BoxError, Future: Send> + Clone + use<> {
    let calls = Arc::new(AtomicUsize::new(0));
    let classify = |_: Result<&usize, &std::convert::Infallible>| Fact::Success;
    ServiceBuilder::new().layer(BreakerLayer::by_result(breaker.clone(), classify)).service(
        tower::service_fn(move |()| {
            let now = calls.fetch_add(1, Ordering::Relaxed) + 1;
            async move { Ok(now) }
        }),
    )
}

#[tokio::test]
async fn calls_wait_for_probes_and_their_successes_close() {
    let panel = Panel::start().await;
    let (_client, breaker) = half_open(&panel, Duration::from_secs(10)).await;
    let mut service = counted(&breaker);
    for call in 1..=2 {
        assert_eq!(soon("a probe", service.ready().await.unwrap().call(())).await.unwrap(), call);
    }
    eventually("CLOSED", || breaker.state() == State::Closed).await;
}

#[tokio::test]
async fn a_probe_that_does_not_come_is_a_rejection() {
    let panel = Panel::start().await;
    let (_client, breaker) = half_open(&panel, Duration::ZERO).await;
    let mut service = counted(&breaker);
    let error = soon("a rejection", service.ready().await.unwrap().call(())).await.unwrap_err();
    assert_eq!(Rejected::in_error(&*error).unwrap().reason(), Reason::ProbesTaken);
    assert_eq!(breaker.state(), State::HalfOpen);
}

#[tokio::test]
async fn readiness_takes_no_permit_and_a_waiting_call_may_be_dropped() {
    let panel = Panel::start().await;
    let (_client, breaker) = half_open(&panel, Duration::from_secs(10)).await;
    let mut service = counted(&breaker);
    for _ in 0..10 {
        service.ready().await.unwrap();
    }
    // A call that is dropped while it waits, or before it was ever polled, takes no probe with it.
    drop(service.call(()));
    let mut waiting = Box::pin(service.ready().await.unwrap().call(()));
    // It may be that the probe which the call before it asked for is there by now.
    let _perhaps = waiting.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    drop(waiting);
    for _ in 1..=2 {
        soon("a probe", service.ready().await.unwrap().call(())).await.unwrap();
    }
    eventually("CLOSED", || breaker.state() == State::Closed).await;
}

#[tokio::test]
async fn a_call_that_waits_counts_as_rejected_only_if_it_is_and_then_once() {
    let panel = FakePanel::new();
    let client = panel.client_with(|builder| builder.probe_wait(Duration::from_secs(10)));
    let breaker = client.breaker(NAME);
    panel.half_open(NAME, 2).await;
    let mut service = counted(&breaker);
    for call in 1..=2 {
        assert_eq!(soon("a probe", service.ready().await.unwrap().call(())).await.unwrap(), call);
    }
    soon("the last flush", client.shutdown()).await;
    let reported = panel.reported(NAME);
    assert_eq!((reported.probes, reported.successes, reported.rejected), (2, 2, 0), "{reported:?}");

    let panel = FakePanel::new();
    let client = panel.client_with(|builder| builder.probe_wait(Duration::from_millis(1)));
    let breaker = client.breaker(NAME);
    panel.half_open(NAME, 0).await;
    let mut service = counted(&breaker);
    soon("a rejection", service.ready().await.unwrap().call(())).await.unwrap_err();
    soon("the last flush", client.shutdown()).await;
    assert_eq!(panel.reported(NAME).rejected, 1);
}
