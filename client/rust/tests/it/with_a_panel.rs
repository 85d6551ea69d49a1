//! Against the real server.

use std::time::Duration;

use panelboard_client::{Breaker, CallError, Fact, Freshness, Mode, NotReady, Reason, State};

use crate::{BOUND, eventually, panel::Panel, soon};

const NAME: &str = "quick/quote";

async fn call(breaker: &Breaker, result: Result<u32, &'static str>) -> Result<u32, CallError<&'static str>> {
    soon("a call", breaker.call(|| async move { result })).await
}

async fn fail(breaker: &Breaker, times: usize) {
    for _ in 0..times {
        assert_eq!(call(breaker, Err("down")).await, Err(CallError::Failed("down")));
    }
}

async fn is(breaker: &Breaker, state: State) {
    let what = format!("{} is {state}, not {}", breaker.name(), breaker.status());
    eventually(&what, || breaker.state() == state).await;
}

#[tokio::test]
async fn the_fleet_stops_together_and_says_why() {
    let panel = Panel::start().await;
    let (_a, here) = panel.fresh("a", NAME).await;
    let (_b, there) = panel.fresh("b", NAME).await;
    fail(&here, 4).await;
    is(&there, State::Open).await;
    let rejected = there.try_acquire().unwrap_err();
    assert_eq!((rejected.reason(), rejected.freshness()), (Reason::Open, Freshness::Fresh));
    let said = rejected.to_string();
    let expected = "circuit breaker \"quick/quote\" is OPEN (failure rate 100 % >= 50 %), retry in ";
    assert!(said.starts_with(expected) && said.ends_with(" [FRESH]"), "{said}");
    is(&here, State::Open).await;
}

#[tokio::test]
async fn the_call_that_wants_to_go_is_the_probe_and_two_good_ones_close() {
    let panel = Panel::start().await;
    let (_a, here) = panel.fresh("a", NAME).await;
    fail(&here, 4).await;
    is(&here, State::Open).await;
    assert!(matches!(call(&here, Ok(1)).await, Err(CallError::Rejected(_))));
    panel.clock.advance(Duration::from_secs(5));
    is(&here, State::HalfOpen).await;
    assert_eq!(call(&here, Ok(2)).await, Ok(2));
    assert_eq!(call(&here, Ok(3)).await, Ok(3));
    is(&here, State::Closed).await;
    assert_eq!(call(&here, Ok(4)).await, Ok(4));
}

#[tokio::test]
async fn one_waiting_call_a_minute_is_enough_to_recover() {
    let panel = Panel::start().await;
    let (_a, here) = panel.fresh("a", NAME).await;
    fail(&here, 4).await;
    is(&here, State::Open).await;
    // The dependency is well again, and nobody knows.
    panel.clock.advance(Duration::from_secs(60));
    is(&here, State::HalfOpen).await;
    assert_eq!(call(&here, Ok(1)).await, Ok(1));
    // One of two probes succeeded, and the half-open limit comes long before the next call.
    soon("the probe's report", async {
        while !panel.look(NAME).await.progress.contains("1 of 2 probes succeeded") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    panel.clock.advance(Duration::from_secs(60));
    is(&here, State::Closed).await;
    assert_eq!(call(&here, Ok(2)).await, Ok(2));
}

#[tokio::test]
async fn a_failed_probe_reopens() {
    let panel = Panel::start().await;
    let (_a, here) = panel.fresh("a", NAME).await;
    fail(&here, 4).await;
    is(&here, State::Open).await;
    panel.clock.advance(Duration::from_secs(5));
    is(&here, State::HalfOpen).await;
    fail(&here, 1).await;
    is(&here, State::Open).await;
    assert!(here.status().explanation.starts_with("1 of 2 probes failed"), "{}", here.status());
}

#[tokio::test]
async fn trying_fetches_a_probe_in_the_background() {
    let panel = Panel::start().await;
    let (_a, here) = panel.fresh("a", NAME).await;
    fail(&here, 4).await;
    is(&here, State::Open).await;
    panel.clock.advance(Duration::from_secs(5));
    is(&here, State::HalfOpen).await;
    let rejected = here.try_acquire().unwrap_err();
    assert_eq!(rejected.reason(), Reason::ProbesTaken);
    assert!(rejected.retry_after() >= Some(Duration::from_millis(100)), "whoever sleeps it does not spin");
    let said = rejected.to_string();
    assert!(said.contains("is HALF_OPEN, a probe is being asked for, retry in "), "{said}");
    let mut permit = None;
    eventually("a probe", || {
        permit = here.try_acquire().ok();
        permit.is_some()
    })
    .await;
    let permit = permit.unwrap();
    assert!(permit.is_probe());
    permit.success();
    let second = soon("a second probe", here.acquire()).await.unwrap();
    second.success();
    is(&here, State::Closed).await;
}

#[tokio::test]
async fn an_abandoned_probe_goes_to_somebody_else() {
    let panel = Panel::start().await;
    let (_a, here) = panel.fresh("a", NAME).await;
    let (_b, there) = panel.fresh("b", NAME).await;
    fail(&here, 4).await;
    is(&there, State::Open).await;
    panel.clock.advance(Duration::from_secs(5));
    is(&here, State::HalfOpen).await;
    is(&there, State::HalfOpen).await;
    let one = soon("a probe", here.acquire()).await.unwrap();
    let other = soon("the other probe", there.acquire()).await.unwrap();
    drop(one);
    other.success();
    // Its first success lets this instance have another one: the one that came back.
    let mut again = None;
    eventually("the abandoned probe", || {
        again = there.try_acquire().ok();
        again.is_some()
    })
    .await;
    again.unwrap().success();
    is(&there, State::Closed).await;
}

#[tokio::test]
async fn the_policy_says_what_counts() {
    let panel = Panel::start().await;
    let (_a, here) = panel.fresh("a", NAME).await;
    for _ in 0..10 {
        let classify = |_: &Result<(), u16>| Fact::HttpStatus(401);
        let answer = here.call_with(classify, || async { Err::<(), _>(401) }).await;
        assert_eq!(answer, Err(CallError::Failed(401)));
    }
    for _ in 0..3 {
        here.try_acquire().unwrap().record_fact(Fact::HttpStatus(503));
    }
    let mut seen = panel.look(NAME).await;
    for _ in 0..1_000 {
        if seen.readings[0].calls == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        seen = panel.look(NAME).await;
    }
    assert_eq!((seen.readings[0].calls, seen.readings[0].matched), (3, 3), "{}", seen.progress);
    assert_eq!(here.state(), State::Closed);
}

#[tokio::test]
async fn call_runs_its_future_on_the_callers_task() {
    let panel = Panel::start().await;
    let (_a, here) = panel.fresh("a", NAME).await;
    let task = tokio::spawn(async move {
        let callers = tokio::task::id();
        let calls = here.call(|| async { Ok::<_, ()>(tokio::task::id()) }).await;
        assert_eq!(calls, Ok(callers));
    });
    task.await.unwrap();
}

#[tokio::test]
async fn the_last_flush_loses_nothing() {
    let panel = Panel::start().await;
    let (client, here) = panel.fresh("a", NAME).await;
    for _ in 0..1_000 {
        here.try_acquire().unwrap().success();
    }
    here.try_acquire().unwrap().failure("timeout");
    soon("the end", client.shutdown()).await;
    let seen = panel.look(NAME).await;
    assert_eq!((seen.readings[0].calls, seen.readings[0].matched), (1_001, 1), "{}", seen.progress);
    assert_eq!(here.freshness(), Freshness::Local);
    assert_eq!(client.breaker("quick/late").freshness(), Freshness::Local);
    assert_eq!(call(&here, Ok(1)).await, Ok(1));
    soon("a second end", client.shutdown()).await;
    assert_eq!(client.ready(BOUND).await, Err(NotReady::Ended));
}

#[tokio::test]
async fn a_name_without_a_policy_is_local_and_ready_says_so() {
    let panel = Panel::start().await;
    let client = panel.client("a");
    let lost = client.breaker("quirk/quote");
    match client.ready(BOUND).await {
        Err(NotReady::NotFound { breaker, .. }) => assert_eq!(breaker, "quirk/quote"),
        other => panic!("{other:?}"),
    }
    assert_eq!(lost.freshness(), Freshness::Local);
    assert_eq!(call(&lost, Ok(1)).await, Ok(1));
}

#[tokio::test]
async fn handles_of_one_name_are_one_breaker_and_late_ones_come_to_be_fresh() {
    let panel = Panel::start().await;
    let (client, here) = panel.fresh("a", NAME).await;
    for n in 0..5 {
        let late = client.breaker(&format!("quick/late-{n}"));
        client.ready(BOUND).await.unwrap();
        assert_eq!(late.freshness(), Freshness::Fresh);
    }
    fail(&client.breaker(NAME), 4).await;
    is(&here, State::Open).await;
}

#[tokio::test]
async fn killed_it_is_stale_at_once_protects_itself_and_comes_back() {
    let mut panel = Panel::start().await;
    let (_client, here) = panel.fresh("a", NAME).await;
    panel.kill();
    eventually("STALE", || here.freshness() == Freshness::Stale).await;
    fail(&here, 4).await;
    let rejected = here.try_acquire().unwrap_err();
    assert_eq!((rejected.reason(), rejected.freshness()), (Reason::Open, Freshness::Stale));
    let panel = Panel::start_at(panel.addr).await;
    eventually("FRESH", || here.freshness() == Freshness::Fresh).await;
    assert_eq!(here.state(), State::Closed, "what was recorded while away is no evidence");
    assert_eq!(call(&here, Ok(1)).await, Ok(1));
    assert_eq!(panel.look(NAME).await.readings[0].matched, 0);
}

#[tokio::test]
async fn asked_to_leave_it_stays_fresh_and_finds_the_next_server() {
    let mut panel = Panel::start().await;
    let (_client, here) = panel.fresh("a", NAME).await;
    let watcher = here.clone();
    let watching = tokio::spawn(async move {
        // Ends with the test.
        loop {
            assert_ne!(watcher.freshness(), Freshness::Local);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let generation = here.status().generation;
    panel.stop().await;
    assert_eq!(here.freshness(), Freshness::Fresh, "an announced end");
    let _panel = Panel::start_at(panel.addr).await;
    eventually("the next server's word", || here.status().generation != generation).await;
    assert_eq!(here.freshness(), Freshness::Fresh);
    assert!(!watching.is_finished());
    watching.abort();
}

#[tokio::test]
async fn in_shadow_everything_passes_and_is_reported() {
    let panel = Panel::start().await;
    let client = panelboard_client::Client::builder(panel.url()).mode(Mode::Shadow).build().unwrap();
    let here = client.breaker(NAME);
    client.ready(BOUND).await.unwrap();
    fail(&here, 4).await;
    is(&here, State::Open).await;
    assert_eq!(call(&here, Ok(1)).await, Ok(1));
    assert!(here.try_acquire().is_ok());
}

#[tokio::test]
async fn cached_policies_serve_a_start_without_a_server() {
    let panel = Panel::start().await;
    let cache = tempfile::tempdir().unwrap();
    let builder = || panelboard_client::Client::builder(panel.url()).cache_dir(cache.path());
    let client = builder().build().unwrap();
    client.breaker(NAME);
    client.ready(BOUND).await.unwrap();
    client.shutdown().await;
    let nowhere = panelboard_client::Client::builder("http://127.0.0.1:1").cache_dir(cache.path());
    let client = nowhere.build().unwrap();
    let here = client.breaker(NAME);
    assert_eq!(&*here.status().policy, "quick");
    fail(&here, 4).await;
    assert_eq!(here.try_acquire().unwrap_err().reason(), Reason::Open);
}
