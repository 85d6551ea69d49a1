//! The server is well, and the application's own process is not.

use std::{
    fs,
    time::{Duration, Instant, SystemTime},
};

use panelboard_client::{Breaker, Freshness, State};
use panelboard_proto::v1;

use crate::{
    application::Role,
    eventually::{until, until_some, within},
    matrix::Row,
    place::CLOCK_FILE,
    scene::{POLICIES, SOON, World, client},
    trial::{self, Expected},
};

/// Longer than a stream may be silent.
const BLOCKED: Duration = Duration::from_secs(10);
/// How long a probe of `brief/*` may run.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
const HELD: &str = "brief/held";
const DONE: &str = "brief/done";

const BRIEF: &str = "
  - name: brief
    match: ['brief/*']
    owner: tests
    trip: [{ failures: 20, within: 10s }]
    open: { wait: 1s, multiplier: 1, jitter: 0% }
    half_open: { permitted_calls: 2, probe_timeout: 3s }
    guard: { min_instances: 1 }
    close: { spread: 0s }
";

/// The application's only worker holds a probe and does not yield, asleep for most of the time and then spinning.
pub(crate) async fn runtime_blocked() -> Row {
    let site = crate::panel::Site::new(&format!("{POLICIES}{BRIEF}"));
    let panel = site.start().await;
    let client = client(site.url()).build().expect("a client");
    let application = crate::application::Application::start(&client);
    let world = World::with(site, panel, None, client, application).await;
    let [held, done] = [HELD, DONE].map(|name| world.client.breaker(name));
    world.client.ready(SOON).await.expect("FRESH");
    world.panel().report_failures(HELD, 20).await;
    until("HALF_OPEN", SOON, || held.state() == State::HalfOpen).await;

    let (blocks, blocked) = tokio::sync::oneshot::channel();
    let worker = std::thread::Builder::new().name("blocked".into());
    let worker = worker.spawn(move || block(&held, &done, blocks)).expect("a thread");
    let began = within("the application blocks", SOON, blocked).await.expect("it blocks");

    let counted = async || (world.panel().calls(DONE, "success").await == 7).then_some(());
    let (_, reported) =
        until_some("what was recorded before is reported", Duration::from_secs(1), counted).await;
    let reopened = async || (world.panel().state(HELD).await == v1::State::Open).then_some(());
    until_some("the probe that runs too long is reported as a failure", PROBE_TIMEOUT, reopened).await;
    let overrun = began.elapsed();
    // When the block began is known a little later than the probe was granted.
    assert!(overrun + Duration::from_millis(200) >= PROBE_TIMEOUT, "the probe ended after {overrun:?}");
    until("the block is over", BLOCKED + SOON, || worker.is_finished()).await;
    let lasted = began.elapsed();
    assert!(lasted >= BLOCKED && worker.join().is_ok());
    for role in Role::ALL {
        let left = world.application.turned(role, began, |now| now != Freshness::Fresh);
        let after = left.map(|left| left - began);
        assert!(
            after.is_none(),
            "{role:?} was not FRESH after {after:?} although only the application was blocked"
        );
    }
    assert_eq!(world.panel().calls(HELD, "success").await, 0, "the late success of an overrun probe counted");
    world.is_well().await;
    Row {
        longest_wait: Some(world.application.longest_wait()),
        meanwhile: format!(
            "FRESH for {:.0} s of block; reported after {} ms; its probe failed by timeout after {:.1} s",
            lasted.as_secs_f64(),
            reported.as_millis(),
            overrun.as_secs_f64()
        ),
        ..Row::default()
    }
}

#[expect(clippy::disallowed_methods, reason = "to block a worker is what is tried here")]
fn block(held: &Breaker, done: &Breaker, blocks: tokio::sync::oneshot::Sender<Instant>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let permit = loop {
            match held.acquire().await {
                Ok(permit) => break permit,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        assert!(permit.is_probe());
        for _ in 0..7 {
            done.try_acquire().expect("it is CLOSED").success();
        }
        let began = Instant::now();
        blocks.send(began).expect("somebody waits");
        std::thread::sleep(BLOCKED - Duration::from_secs(1));
        while began.elapsed() < BLOCKED {
            std::hint::spin_loop();
        }
        permit.success();
    });
}

/// An hour ahead while all is well, another one as the server is killed, and two back while it comes again.
pub(crate) async fn clock_stepped() -> Row {
    let mut world = World::start().await;
    let began = Instant::now();
    step(3_600);
    // Longer than a stream may be silent.
    until("time passes", SOON, || began.elapsed() >= Duration::from_secs(9)).await;
    for role in Role::ALL {
        let left = world.application.turned(role, began, |now| now != Freshness::Fresh);
        assert!(left.is_none(), "{role:?} was not FRESH although only the clock was stepped");
    }
    let killed = async |world: &mut World| {
        world.kill().await;
        step(7_200);
    };
    let back = async |world: &mut World| {
        step(0);
        world.start_again().await;
    };
    let row = trial::run(&mut world, Expected::BROKEN, killed, back).await;
    Row { meanwhile: format!("{}; +1 h, +1 h, -2 h", row.meanwhile), ..row }
}

/// Sets how many seconds the wall clock of this process is ahead.
fn step(ahead: u64) {
    let (wall, steady) = (SystemTime::now(), Instant::now());
    let file = std::env::var_os(CLOCK_FILE).expect("this process has a clock of its own");
    let before = fs::read_to_string(&file).expect("a file");
    fs::write(&file, format!("+{ahead}")).expect("a file");
    let before: u64 = before.trim().trim_start_matches('+').parse().expect("seconds");
    let now = wall + Duration::from_secs(ahead) - Duration::from_secs(before) + steady.elapsed();
    let off = SystemTime::now().duration_since(now).unwrap_or_else(|error| error.duration());
    assert!(off < Duration::from_secs(60), "the wall clock was not stepped: it is {off:?} off");
    assert!(steady.elapsed() < Duration::from_secs(60), "the other clock was stepped");
}
