//! What is reported arrives once, and what cannot be reported takes no room.

use std::{
    fs,
    time::{Duration, Instant},
};

use panelboard_client::Freshness;

use crate::{
    application::PROBE_WAIT,
    eventually::{slack, until, until_some, within},
    matrix::Row,
    panel::{Panel, Site},
    relay::{Fate, Mode},
    scene::{SOON, between, client},
    trial::{self, RECONNECT},
};

const POLICIES: &str = "
policies:
  - name: reports
    match: ['reports/**']
    owner: tests
    trip: [{ failure_rate: 50%, within: 10s, minimum_calls: 1000000 }]
    guard: { min_instances: 1 }
";

/// Batches whose Reports do not arrive, whose answers do not, and whose connections break after they have arrived.
pub(crate) async fn exactly_once() -> Row {
    use Fate::{Answered, DeliveredThenCut, DeliveredThenError, Lost};
    /// What becomes of the Reports of each batch, one after the other.
    const BATCHES: [&[Fate]; 8] = [
        &[Answered],
        &[DeliveredThenError],
        &[Lost],
        &[DeliveredThenError, DeliveredThenError, Lost],
        &[DeliveredThenCut],
        &[Lost, DeliveredThenCut],
        &[DeliveredThenCut, DeliveredThenError],
        &[Answered],
    ];
    /// Recorded within far less than the 200 ms that outcomes wait for others, so that they are one entry. A failure does
    /// not wait, so that it is one by itself.
    const SUCCESSES: u64 = 40;
    let site = Site::new(POLICIES);
    let panel = site.start().await;
    let between = between(&site).await;
    let client = client(between.gate.url()).build().expect("a client");
    let breaker = client.breaker("reports/once");
    client.ready(SOON).await.expect("FRESH");
    let (mut expected, mut again) = ((0, 0), 0);
    for (fates, fails) in BATCHES.into_iter().flat_map(|fates| [(fates, false), (fates, true)]) {
        within("FRESH", SOON, client.ready(SOON)).await.expect("FRESH");
        between.relay.next(fates.iter().copied());
        for _ in 0..if fails { 1 } else { SUCCESSES } {
            let permit = breaker.try_acquire().expect("it is CLOSED");
            if fails { permit.failure("timeout") } else { permit.success() }
        }
        if fails {
            expected.1 += 1
        } else {
            expected.0 += SUCCESSES
        }
        let counted = async || {
            let counts = counts(&panel, breaker.name()).await;
            let once = counts.0 <= expected.0 && counts.1 <= expected.1;
            assert!(once, "{counts:?} counted of {expected:?}, after {fates:?}");
            // What is recorded while an entry waits for its acknowledgement may come to be the local breaker's alone.
            (counts == expected && between.relay.is_settled()).then_some(())
        };
        until_some(&format!("{expected:?} are counted, with {fates:?}"), SOON, counted).await;
        again += u64::try_from(fates.iter().filter(|fate| **fate != Answered).count()).unwrap_or(0);
    }
    within("FRESH", SOON, client.ready(SOON)).await.expect("FRESH");
    within("the end", Duration::from_secs(2), client.shutdown()).await;
    assert_eq!(counts(&panel, breaker.name()).await, expected);
    let duplicates = panel.metric("panelboard_reports_total", &[("result", "duplicate")]).await;
    assert!(duplicates >= 12, "{duplicates} duplicates: the cuts did not come after the delivery");
    Row {
        meanwhile: format!(
            "{} + {} outcomes counted once each; {again} Reports or answers lost, {duplicates} duplicates seen",
            expected.0, expected.1
        ),
        ..Row::default()
    }
}

/// Successes and failures that were counted.
async fn counts(panel: &Panel, breaker: &str) -> (u64, u64) {
    (panel.calls(breaker, "success").await, panel.calls(breaker, "failure").await)
}

/// In a process of its own: its memory is the client's, but for a relay's.
pub(crate) async fn bounded_memory() -> Row {
    const BREAKERS: usize = 100;
    const CALLS: usize = 1_000_000;
    /// Two bytes for each call: tallies' windows, and what an allocator keeps.
    const GROWTH_KIB_MAX: u64 = 2_048;
    let site = Site::new(POLICIES);
    let panel = site.start().await;
    let between = between(&site).await;
    let client = client(between.gate.url()).build().expect("a client");
    let breakers: Vec<_> = (0..BREAKERS).map(|n| client.breaker(&format!("reports/b{n}"))).collect();
    within("FRESH", SOON, client.ready(SOON)).await.expect("FRESH");
    let make = |calls: usize| {
        let mut longest = Duration::ZERO;
        for n in 0..calls {
            let began = Instant::now();
            let permit = breakers[n % BREAKERS].try_acquire().expect("its rule is never reached");
            longest = longest.max(began.elapsed());
            if n % 3 == 0 { permit.failure("timeout") } else { permit.success() }
        }
        longest
    };
    make(BREAKERS);
    until("the calls are reported", SOON, || !between.relay.take_entries().is_empty()).await;
    let are = |freshness| breakers.iter().all(|breaker| breaker.freshness() == freshness);

    between.relay.set(Mode::Errors);
    let stale = until("STALE", trial::AT_ONCE.1, || are(Freshness::Stale)).await;
    // What is allocated once, for good.
    make(CALLS / 10);
    let before = resident_kib();
    let mut longest = make(CALLS / 2);
    until("LOCAL", trial::TTL_OVER.1, || are(Freshness::Local)).await;
    longest = longest.max(make(CALLS / 2));
    let grown = resident_kib().saturating_sub(before);
    assert!(grown <= GROWTH_KIB_MAX, "{CALLS} calls while away took {grown} KiB");
    assert!(longest <= PROBE_WAIT + slack(), "a call waited for {longest:?}");

    between.relay.take_entries();
    between.relay.set(Mode::Pass);
    let fresh = until("FRESH", RECONNECT, || are(Freshness::Fresh)).await;
    let counted = panel.metric("panelboard_breaker_calls_total", &[]).await;
    make(BREAKERS);
    let more = async || {
        let now = panel.metric("panelboard_breaker_calls_total", &[]).await;
        (now >= counted + u64::try_from(BREAKERS).unwrap_or(0)).then_some(now)
    };
    let (now, _) = until_some("the calls are reported", SOON, more).await;
    assert!(
        now <= counted + 100 + 100,
        "{now} calls counted, {counted} before: what was recorded while away was sent"
    );
    let entries: usize = between.relay.take_entries().iter().sum();
    assert!(entries <= 3 * BREAKERS, "{entries} entries of {BREAKERS} breakers since the return");
    Row {
        longest_wait: Some(longest),
        stale: Some(stale),
        local: None,
        fresh: Some(fresh),
        meanwhile: format!(
            "{CALLS} calls at {BREAKERS} breakers: {grown} KiB more; {entries} entries since the return"
        ),
    }
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it says so");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

pub(crate) async fn at_shutdown() -> Row {
    const CALLS: u64 = 1_001;
    let site = Site::new(POLICIES);
    let panel = site.start().await;
    let client = client(site.url()).build().expect("a client");
    let breaker = client.breaker("reports/last");
    within("FRESH", SOON, client.ready(SOON)).await.expect("FRESH");
    for n in 0..CALLS {
        let permit = breaker.try_acquire().expect("its rule is never reached");
        if n % 7 == 0 { permit.failure("timeout") } else { permit.success() }
    }
    let began = Instant::now();
    within("the end", Duration::from_secs(1), client.shutdown()).await;
    let took = began.elapsed();
    assert_eq!(counts(&panel, breaker.name()).await, (CALLS - 143, 143));
    Row {
        meanwhile: format!("{CALLS} of {CALLS} outcomes counted; it took {} ms", took.as_millis()),
        ..Row::default()
    }
}
