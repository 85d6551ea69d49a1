//! A store that fails: the server goes on from memory, says so, and makes up for it when the store is back.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use panelboard_proto::v1;
use panelboard_server::limits::Limits;
use panelboard_server::store::{Batch, CommitError, Fault, Key, Memory, Record, Store, StoreId, Version};

use crate::support::*;

const NAME: &str = "t/a";

/// A store that can be told to fail.
#[derive(Debug)]
struct Moody {
    memory: Memory,
    mood: Mutex<u8>,
    changed: Condvar,
}

const GOOD: u8 = 0;
/// A full disk: nothing is written.
const FULL: u8 = 1;
/// An answer that was lost: it is written, and nobody is told.
const DEAF: u8 = 2;
/// A disk that hangs: a commit takes until the mood is another, or for ever.
const STUCK: u8 = 3;

impl Moody {
    fn new() -> Arc<Self> {
        let (mood, changed) = (Mutex::new(GOOD), Condvar::new());
        Arc::new(Self { memory: Memory::new(StoreId::from_u128(1)), mood, changed })
    }

    fn set(&self, mood: u8) {
        *self.mood.lock().unwrap() = mood;
        self.changed.notify_all();
    }
}

impl Store for Moody {
    fn id(&self) -> StoreId {
        self.memory.id()
    }

    fn get(&self, key: &Key) -> Result<Option<Record>, Fault> {
        self.memory.get(key)
    }

    fn scan(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Record>, Fault> {
        self.memory.scan(prefix, after, limit)
    }

    fn commit(&self, batch: &Batch) -> Result<Version, CommitError> {
        let fault = || Fault::Unavailable { reason: "a test wants it so".into() };
        let mood = self.mood.lock().unwrap();
        // For ever is longer than any test waits.
        let (mood, _) = self.changed.wait_timeout_while(mood, 2 * WITHIN, |mood| *mood == STUCK).unwrap();
        let now = *mood;
        drop(mood);
        match now {
            GOOD => self.memory.commit(batch),
            FULL => Err(fault().into()),
            _ => {
                // Once: the answer to the next one arrives.
                self.set(GOOD);
                self.memory.commit(batch).and(Err(fault().into()))
            }
        }
    }

    fn next_epoch(&self, now_unix_ms: u64) -> Result<u64, Fault> {
        self.memory.next_epoch(now_unix_ms)
    }
}

/// A world on this store; another of the same store is a restart.
async fn world(store: &Arc<Moody>) -> World {
    World::with(Options { store: Arc::clone(store) as Arc<dyn Store>, ..Options::default() }).await
}

async fn stop(world: World) {
    let World { running, .. } = world;
    within("the end", running.stop()).await;
}

async fn incidents(world: &mut World) -> Vec<v1::Incident> {
    let request = v1::ListTransitionsRequest { breaker: NAME.into(), ..Default::default() };
    world.service.list_transitions(request).await.unwrap().into_inner().incidents
}

#[tokio::test]
async fn a_store_that_fails_keeps_no_fleet_from_probing_and_what_it_missed_is_made_up_for() {
    let store = Moody::new();
    let mut world = world_with_half_open(&store, FULL).await;
    // No half-open period could be made durable, and the probes are leased all the same.
    for _ in 0..2 {
        let grant = granted(&world.acquire(NAME).await);
        world.report(probe_result(NAME, &grant, true)).await;
    }
    assert_eq!(world.state(NAME).await, v1::State::Closed);
    world.trip(NAME).await;
    let told = incidents(&mut world).await;
    assert_eq!(told.len(), 2);

    store.set(GOOD);
    stop(world).await;
    let mut world = self::world(&store).await;
    assert_eq!(incidents(&mut world).await, told);
    // It was open, and a world begins long after that.
    assert_eq!(world.state(NAME).await, v1::State::HalfOpen);
}

async fn world_with_half_open(store: &Arc<Moody>, mood: u8) -> World {
    let mut world = world(store).await;
    world.acquire(NAME).await;
    store.set(mood);
    world.half_open(NAME).await;
    world
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_not_written_twice_and_loses_nothing() {
    let store = Moody::new();
    let mut world = world_with_half_open(&store, DEAF).await;
    let told = incidents(&mut world).await;
    stop(world).await;
    let mut world = self::world(&store).await;
    assert_eq!(incidents(&mut world).await, told);
    // The second life knows the versions of the records: it can write them again.
    let grant = granted(&world.acquire(NAME).await);
    let reopened = world.report(probe_result(NAME, &grant, false)).await.status.unwrap();
    assert_eq!(reopened.state(), v1::State::Open);
    let told = incidents(&mut world).await;
    stop(world).await;
    assert_eq!(incidents(&mut self::world(&store).await).await, told);
}

/// From CLOSED over OPEN and HALF_OPEN to CLOSED again.
async fn incident(world: &mut World) {
    world.half_open(NAME).await;
    for _ in 0..2 {
        let grant = granted(&world.acquire(NAME).await);
        world.report(probe_result(NAME, &grant, true)).await;
    }
    assert_eq!(world.state(NAME).await, v1::State::Closed);
}

#[tokio::test]
async fn incidents_are_kept_up_to_their_number_and_age_in_the_store_too() {
    let store = Moody::new();
    let limits = Limits { incidents_per_breaker: 2, ..Limits::default() };
    // Exact, so that it does not expire while the days pass.
    let policies = Some(test_policy("test", NAME));
    let stored = Arc::clone(&store) as Arc<dyn Store>;
    let mut world = World::with(Options { store: stored, limits, policies }).await;
    for _ in 0..4 {
        incident(&mut world).await;
    }
    let kept = incidents(&mut world).await;
    assert_eq!(kept.len(), 2);
    world.clock.advance(Duration::from_secs(8 * 24 * 3_600));
    assert_eq!(incidents(&mut world).await, [], "they ended more than a week ago");
    incident(&mut world).await;
    let kept = incidents(&mut world).await;
    assert_eq!(kept.len(), 1);
    stop(world).await;
    assert_eq!(store.scan_all("incident/").unwrap().len(), 1);
    assert_eq!(incidents(&mut self::world(&store).await).await, kept);
}

#[tokio::test]
async fn a_deleted_breaker_is_gone_from_the_store_with_its_incidents() {
    let store = Moody::new();
    let mut world = world(&store).await;
    let mut watcher = world.watch(&[NAME]).await;
    watcher.snapshot().await;
    world.trip(NAME).await;
    world.write_policies(&test_policy("other", "\"u/**\""));
    watcher.status().await;
    assert_eq!(watcher.deleted().await.name, NAME);
    stop(world).await;
    for prefix in ["breaker/", "incident/"] {
        assert_eq!(store.scan_all(prefix).unwrap().len(), 0, "{prefix}");
    }
}

#[tokio::test]
async fn what_a_disk_that_hangs_holds_up_is_seen_in_the_lag() {
    let store = Moody::new();
    let mut world = world(&store).await;
    lag(&world, |seconds| seconds == 0.0).await;
    store.set(STUCK);
    world.trip(NAME).await;
    lag(&world, |seconds| seconds > 0.5).await;
    store.set(GOOD);
    lag(&world, |seconds| seconds == 0.0).await;
}

/// Waits until the lag that the metrics tell is so.
async fn lag(world: &World, is_so: impl Fn(f64) -> bool) {
    let told = async || {
        let page = reqwest::get(world.http("/metrics")).await.unwrap().text().await.unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix("panelboard_store_lag_seconds "));
        line.expect("the lag").parse::<f64>().unwrap()
    };
    within("the lag", async { while !is_so(told().await) {} }).await;
}
