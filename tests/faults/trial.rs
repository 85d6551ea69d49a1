//! One fault from its beginning to its end and beyond, and what must hold all the time.

use std::time::{Duration, Instant};

use panelboard_client::{Freshness, Reason};

use crate::{
    application::{Role, Verdict},
    eventually::{slack, stalled, until},
    matrix::Row,
    scene::{ENOUGH, OPEN, OPEN_JITTER, SOON, World},
};

/// Earliest and latest, after the fault. The latest has slack, the earliest has none.
pub(crate) type Span = (Duration, Duration);

/// What is documented for a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// A breaker with outcomes to report is not FRESH any more.
    pub(crate) busy_stale: Span,
    /// One without; none: it stays FRESH.
    pub(crate) quiet_stale: Option<Span>,
    /// All are LOCAL; none: they are never.
    pub(crate) local: Option<Span>,
    /// What an OPEN may last beyond its wait.
    pub(crate) open_beyond: Duration,
    /// After the fault is over.
    pub(crate) fresh: Duration,
}

const fn millis(earliest: u64, latest: u64) -> Span {
    (Duration::from_millis(earliest), Duration::from_millis(latest))
}

/// The stream ends: at once.
pub(crate) const AT_ONCE: Span = millis(0, 500);
/// An entry goes out within 0.2 s, and waits for its acknowledgement for a second.
pub(crate) const UNACKNOWLEDGED: Span = millis(1_000, 1_700);
/// Silent for 8 s since the last bookmark, which is 3.6 s old at most.
pub(crate) const SILENT: Span = millis(4_400, 8_000);
/// The ttl of 10 s since then.
pub(crate) const TTL_OVER: Span = millis(6_400, 10_000);
/// The longest wait between two attempts to connect, 5 s, and the attempt itself, which has 2 s.
pub(crate) const RECONNECT: Duration = Duration::from_secs(7);
/// The same after an attempt that was under way and is not answered.
pub(crate) const RECONNECT_AFTER_TIMEOUT: Duration = Duration::from_secs(9);

impl Expected {
    /// The connection breaks.
    pub(crate) const BROKEN: Self = Self {
        busy_stale: AT_ONCE,
        quiet_stale: Some(AT_ONCE),
        local: Some(TTL_OVER),
        open_beyond: OPEN_JITTER,
        fresh: RECONNECT,
    };
    /// Nothing comes any more, and nobody says so.
    pub(crate) const MUTE: Self = Self {
        busy_stale: UNACKNOWLEDGED,
        quiet_stale: Some(SILENT),
        fresh: RECONNECT_AFTER_TIMEOUT,
        ..Self::BROKEN
    };
}

/// Makes a fault, waits for all that follows from it, ends it, and waits until all is well again. Panics if anything
/// is not as documented.
pub(crate) async fn run(
    world: &mut World,
    expected: Expected,
    begin: impl AsyncFnOnce(&mut World),
    end: impl AsyncFnOnce(&mut World),
) -> Row {
    let tripped = world.trip().await;
    let began = Instant::now();
    begin(world).await;

    let stale =
        turned(world, Role::Busy, began, expected.busy_stale, |now| now != Freshness::Fresh, "STALE").await;
    // Now that nobody else can help, the dependency falls ill.
    world.application.falls_ill();
    let ill = Instant::now();
    let open = |verdict| matches!(verdict, Verdict::Rejected(Reason::Open, now) if now != Freshness::Fresh);
    until("the client's own breaker opens", SOON, || world.application.told(Role::Busy, ill, open).is_some())
        .await;
    let opened = world.application.told(Role::Busy, ill, open).expect("it has opened");
    let (reached, protected) = (world.application.reached(), opened.saturating_duration_since(ill));
    assert!(reached <= ENOUGH, "{reached} calls reached a dependency that {ENOUGH} should have protected");

    if let Some(span) = expected.quiet_stale {
        turned(world, Role::Quiet, began, span, |now| now != Freshness::Fresh, "STALE").await;
    }
    let mut local = None;
    if let Some(span) = expected.local {
        for role in Role::ALL {
            let took = turned(world, role, began, span, |now| now == Freshness::Local, "LOCAL").await;
            local = local.max(Some(took));
        }
    }
    let over = OPEN + expected.open_beyond;
    let admitted = || world.application.told(Role::Tripped, began, |verdict| verdict == Verdict::Admitted);
    until("an OPEN from before ends", over, || admitted().is_some()).await;
    let lasted = admitted().expect("it has ended").saturating_duration_since(tripped);
    assert!(lasted >= OPEN, "an OPEN ended {:?} before its time", OPEN - lasted);
    assert!(lasted <= over + slack(), "an OPEN of {OPEN:?} lasted {lasted:?}");
    // Once its own wait is over a probe goes out, fails, and the next wait begins.
    let probes = u64::try_from(opened.elapsed().as_millis() / OPEN.as_millis()).unwrap_or(0);
    let more = world.application.reached() - reached;
    assert!(more <= probes, "the client's own breaker let {more} calls through in {:?}", opened.elapsed());

    world.application.recovers().await;
    let ending = Instant::now();
    for role in Role::ALL {
        let is_fresh = |freshness| freshness == Freshness::Fresh;
        let left = world.application.turned(role, began, |freshness| !is_fresh(freshness));
        let back = left.and_then(|left| world.application.turned(role, left, is_fresh));
        assert!(back.is_none(), "{role:?} was FRESH in between");
        if expected.local.is_none() {
            let local = world.application.turned(role, began, |freshness| freshness == Freshness::Local);
            assert!(local.is_none(), "{role:?} was LOCAL");
        }
        assert_eq!(
            left.is_some(),
            role != Role::Quiet || expected.quiet_stale.is_some(),
            "{role:?} left FRESH"
        );
    }
    end(world).await;
    let ended = Instant::now();
    let mut fresh = Duration::ZERO;
    for role in Role::ALL {
        let bound = ended - ending + expected.fresh;
        let took = world.application.turns(role, ending, bound, |now| now == Freshness::Fresh, "FRESH").await;
        fresh = fresh.max(took.saturating_sub(ended - ending));
    }
    world.is_well().await;
    Row {
        longest_wait: Some(world.application.longest_wait()),
        stale: Some(stale),
        local,
        fresh: Some(fresh),
        meanwhile: format!(
            "own breaker OPEN after {reached} failures ({} ms); an OPEN of {} s ended after {:.1} s",
            protected.as_millis(),
            OPEN.as_secs(),
            lasted.as_secs_f64()
        ),
    }
}

/// Waits until a breaker has turned, and checks when. Returns when.
async fn turned(
    world: &World,
    role: Role,
    began: Instant,
    (earliest, latest): Span,
    wanted: impl Fn(Freshness) -> bool,
    what: &str,
) -> Duration {
    let took = world.application.turns(role, began, latest, wanted, what).await;
    // A server that had no core for a while sent its last word so much earlier.
    let earliest = earliest.saturating_sub(2 * stalled());
    assert!(took >= earliest, "{role:?} was {what} after {took:?}, which is too early");
    assert!(took <= latest + slack(), "{role:?} was {what} after {took:?}, which is too late");
    took
}
