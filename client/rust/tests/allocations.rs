//! A call allocates nothing, whether it is admitted or rejected.
//!
//! A target of its own: the counting allocator is the whole program's. It counts per thread, so that the server and the
//! client's own thread, which run beside, are not in the figures.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use panelboard_client::{Breaker, Client, Freshness, State};
use panelboard_server::{
    Running, Setup,
    clock::Clock,
    limits::Limits,
    store::{Memory, StoreId},
};
use tokio::{net::TcpListener, runtime::Runtime};

/// Far longer than anything takes here that works.
const BOUND: Duration = Duration::from_secs(20);
/// Calls that are counted.
const CALLS: u64 = 10_000;

/// One breaker never trips, with and without a slow rule, and another does at once.
const POLICIES: &str = "
policies:
  - name: closed
    match: ['closed/**']
    owner: tests
    trip:
      - { failures: 1000000, within: 100ms }
  - name: timed
    match: ['timed/**']
    owner: tests
    trip:
      - { slow_rate: 100%, slower_than: 24h, within: 10s, minimum_calls: 1000000 }
  - name: open
    match: ['open/**']
    owner: tests
    trip:
      - { failures: 1, within: 10s }
    open: { wait: 24h }
";

/// A real server and a client that is FRESH.
struct World {
    runtime: Runtime,
    client: Client,
    /// Held for their drops.
    _running: Running,
    _dir: tempfile::TempDir,
}

impl World {
    fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let policies = dir.path().join("policies.yaml");
        std::fs::write(&policies, POLICIES).unwrap();
        let setup = Setup {
            clock: Clock::system(),
            store: Arc::new(Memory::new(StoreId::from_u128(7))),
            policies: Some(policies),
            limits: Limits::default(),
            drain_timeout: Duration::ZERO,
            seed: 1,
        };
        let running = runtime.block_on(async {
            let grpc = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
            Running::start(setup, grpc, http).await.unwrap()
        });
        let url = format!("http://{}", running.grpc_addr);
        let client = Client::builder(url).service("tests").instance("one").seed(1).build().unwrap();
        Self { runtime, client, _running: running, _dir: dir }
    }

    fn fresh(&self, name: &str) -> Breaker {
        let breaker = self.client.breaker(name);
        self.runtime.block_on(self.client.ready(BOUND)).unwrap();
        breaker
    }

    /// OPEN, because the server says so.
    fn open(&self) -> Breaker {
        let breaker = self.fresh("open/one");
        breaker.try_acquire().unwrap().failure("timeout");
        let began = Instant::now();
        while breaker.state() != State::Open {
            assert!(began.elapsed() < BOUND, "not OPEN in {BOUND:?}");
            std::thread::yield_now();
        }
        breaker
    }
}

/// The allocations of so many calls on this thread, after a first one: what a thread sets up once is not a call's.
fn allocations(breaker: &Breaker, mut call: impl FnMut()) -> u64 {
    assert_eq!(breaker.freshness(), Freshness::Fresh);
    call();
    let counted = allocation_counter::measure(|| {
        for _ in 0..CALLS {
            call();
        }
    });
    assert_eq!(breaker.freshness(), Freshness::Fresh);
    counted.count_total
}

#[test]
fn a_call_that_succeeds_allocates_nothing() {
    let world = World::start();
    for name in ["closed/one", "timed/one"] {
        let breaker = world.fresh(name);
        let counted = allocations(&breaker, || breaker.try_acquire().unwrap().success());
        assert_eq!(counted, 0, "{name}: in {CALLS} calls");
    }
}

#[test]
fn a_call_that_fails_allocates_nothing() {
    let world = World::start();
    for name in ["closed/one", "timed/one"] {
        let breaker = world.fresh(name);
        let counted = allocations(&breaker, || breaker.try_acquire().unwrap().failure("timeout"));
        assert_eq!(counted, 0, "{name}: in {CALLS} calls");
        assert_eq!(breaker.state(), State::Closed);
    }
}

#[test]
fn a_rejection_and_its_retry_after_allocate_nothing() {
    let world = World::start();
    let breaker = world.open();
    let counted = allocations(&breaker, || {
        let rejected = breaker.try_acquire().unwrap_err();
        assert!(rejected.retry_after().is_some());
    });
    assert_eq!(counted, 0, "in {CALLS} calls");
}

#[test]
fn call_allocates_nothing_around_the_future() {
    let world = World::start();
    let breaker = world.fresh("closed/one");
    let counted = allocations(&breaker, || {
        let future = pin!(breaker.call(|| std::future::ready(Ok::<_, std::io::Error>(1))));
        // Nothing waits in it, so that one poll is all of it; a runtime might allocate itself.
        let Poll::Ready(answer) = future.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("a call that waits for nothing is pending");
        };
        assert_eq!(answer.unwrap(), 1);
    });
    assert_eq!(counted, 0, "in {CALLS} calls");
}

#[test]
fn what_allocates_is_seen() {
    let counted = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(counted.count_total, 1);
}
