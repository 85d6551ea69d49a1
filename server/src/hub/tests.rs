//! What a watch promises, at the hub itself: no stream, no clock.

use std::{sync::Arc, time::Duration};

use panelboard_core::{
    Breaker, Held, Moment, Pattern, Policy, PolicySpec, Quarantine, QuarantineEvent, Settings, StateKind,
    Timestamp, Version as CoreVersion,
};

use super::*;
use crate::outbox::Event;

const TOMBSTONES: usize = 2;

struct World {
    hub: Hub,
    position: u64,
}

impl World {
    fn new() -> Self {
        Self { hub: Hub::new(StoreId::from_u128(1), 7, TOMBSTONES, 10), position: 0 }
    }

    fn post(&mut self, name: &str, what: impl FnOnce(u64) -> What) {
        self.position += 1;
        let name = BreakerName::parse(name).unwrap();
        self.hub.publish(&[Posted { position: self.position, name, what: what(self.position) }]);
    }

    fn change(&mut self, name: &str) {
        self.post(name, |revision| {
            let policy = Arc::new(Policy::try_new(PolicySpec::default(), 1).unwrap());
            let at = Moment { now: Timestamp::ZERO, next: CoreVersion { epoch: 7, revision } };
            let breaker = Breaker::new(policy, Settings { seed: 1, instances_max: 1 }, at);
            let status = Box::new(breaker.status(Timestamp::ZERO));
            assert_eq!(status.state, StateKind::Closed);
            What::Changed { status, last: None, event: Event::Created, stored: None }
        });
    }

    /// Something that concerns one instance alone.
    fn change_for(&mut self, id: &str, name: &str) {
        let instance = Instance::new("", id);
        self.post(name, |revision| {
            let policy = Arc::new(Policy::try_new(PolicySpec::default(), 1).unwrap());
            let at = Moment { now: Timestamp::ZERO, next: CoreVersion { epoch: 7, revision } };
            let breaker = Breaker::new(policy, Settings { seed: 1, instances_max: 1 }, at);
            let quarantine = Arc::new(Quarantine {
                instance: instance.clone(),
                event: QuarantineEvent::Began,
                why: Held::RetryAfter { asked: Duration::from_secs(1) },
                at: Timestamp::ZERO,
                until: Timestamp::from_millis(1_000),
                wait: Duration::from_secs(1),
                top_causes: Vec::new(),
                before: 0,
                generation: breaker.generation(),
                active_instances: 2,
                required_instances: 2,
                policy_name: "default".into(),
                policy_revision: 1,
            });
            let status = Box::new(breaker.status(Timestamp::ZERO));
            What::ChangedFor { instance, status, last: None, quarantine }
        });
    }

    fn delete(&mut self, name: &str) {
        let version = |revision| CoreVersion { epoch: 7, revision };
        self.post(name, |revision| What::Deleted { version: version(revision), keeps_history: false });
    }

    fn subscribe(&self, selected: &str, resume: &[u8]) -> (Arc<Subscriber>, Start) {
        self.subscribe_as("", selected, resume)
    }

    fn subscribe_as(&self, id: &str, selected: &str, resume: &[u8]) -> (Arc<Subscriber>, Start) {
        let selection = Selection::new([Pattern::parse(selected).unwrap()]);
        self.hub.subscribe(Instance::new("", id), selection, resume).unwrap()
    }

    /// All that is owed, as name and revision, a deletion with a minus, and the token after it.
    fn read(&self, subscriber: &Subscriber) -> (Vec<String>, Vec<u8>) {
        let mut read = Vec::new();
        loop {
            match self.hub.owed(subscriber) {
                Owed::Nothing { position } => return (read, self.hub.token(subscriber, position).encode()),
                Owed::Values(values) => read.extend(values.into_iter().map(|(name, value)| match value {
                    Value::Live { status, .. } => {
                        format!("{name} {}", status.version.map(|v| v.revision).unwrap_or_default())
                    }
                    Value::Deleted { version } => format!("{name} -{}", version.revision),
                })),
            }
        }
    }
}

#[test]
fn a_slow_reader_is_owed_the_newest_value_of_each_breaker_once() {
    let mut world = World::new();
    let (subscriber, _) = world.subscribe("**", b"");
    for _ in 0..5_000 {
        world.change("a");
        world.change("b");
    }
    assert_eq!(world.read(&subscriber).0, ["a 9999", "b 10000"]);
}

#[test]
fn a_token_of_an_empty_server_misses_nothing() {
    let mut world = World::new();
    let (subscriber, start) = world.subscribe("**", b"");
    let (read, token) = world.read(&subscriber);
    assert_eq!((read.len(), start), (0, Start::Snapshot));
    world.change("first");
    let (resumed, start) = world.subscribe("**", &token);
    assert_eq!((world.read(&resumed).0, start), (vec!["first 1".to_string()], Start::Resumed));
}

#[test]
fn a_slow_reader_hears_of_a_deletion_whose_tombstone_is_gone() {
    let mut world = World::new();
    world.change("slow");
    let (subscriber, _) = world.subscribe("slow", b"");
    world.read(&subscriber);
    world.delete("slow");
    for name in ["x", "y", "z"] {
        world.change(name);
        world.delete(name);
    }
    let (read, _) = world.read(&subscriber);
    assert_eq!(read.len(), 1, "{read:?}");
    assert!(read[0].starts_with("slow -"), "{read:?}");
    // It comes back in a version above the one that it was deleted with.
    world.change("slow");
    let back = world.read(&subscriber).0;
    let revision = |text: &str| text.rsplit([' ', '-']).next().and_then(|n| n.parse::<u64>().ok()).unwrap();
    assert!(revision(&back[0]) > revision(&read[0]), "{read:?} then {back:?}");
}

#[test]
fn a_token_resumes_while_the_tombstones_since_are_there_and_resets_after() {
    let mut world = World::new();
    world.change("a");
    let (subscriber, _) = world.subscribe("**", b"");
    let (_, token) = world.read(&subscriber);
    for name in ["x", "y"] {
        world.change(name);
        world.delete(name);
    }
    let (resumed, start) = world.subscribe("**", &token);
    assert_eq!(start, Start::Resumed);
    assert_eq!(world.read(&resumed).0, ["x -3", "y -5"]);
    world.change("z");
    world.delete("z");
    let (reset, start) = world.subscribe("**", &token);
    assert!(matches!(start, Start::Reset { .. }), "{start:?}");
    // A snapshot holds what exists and no tombstone.
    assert_eq!(world.read(&reset).0, ["a 1"]);
}

#[test]
fn a_token_is_of_its_store_its_epoch_and_its_selection() {
    let mut world = World::new();
    world.change("a");
    let (subscriber, _) = world.subscribe("**", b"");
    let (_, token) = world.read(&subscriber);
    let is_reset = |hub: &Hub, selected: &str| {
        let selection = Selection::new([Pattern::parse(selected).unwrap()]);
        matches!(hub.subscribe(Instance::anonymous(), selection, &token).unwrap().1, Start::Reset { .. })
    };
    assert!(!is_reset(&world.hub, "**"));
    assert!(is_reset(&world.hub, "*"));
    assert!(is_reset(&Hub::new(StoreId::from_u128(2), 7, TOMBSTONES, 10), "**"), "another store");
    assert!(is_reset(&Hub::new(StoreId::from_u128(1), 8, TOMBSTONES, 10), "**"), "another epoch");
    assert!(is_reset(&Hub::new(StoreId::from_u128(1), 7, TOMBSTONES, 10), "**"), "ahead of this server");
}

#[tokio::test]
async fn nothing_is_waited_for_when_nothing_was_ever_posted() {
    let world = World::new();
    tokio::time::timeout(Duration::from_secs(30), world.hub.reached(0)).await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), world.hub.emptied()).await.unwrap();
}

#[test]
fn what_concerns_one_instance_is_told_to_its_streams_alone() {
    let mut world = World::new();
    world.change("a");
    let (mine, _) = world.subscribe_as("pod-1", "**", b"");
    let (others, _) = world.subscribe_as("pod-2", "a", b"");
    let (elsewhere, _) = world.subscribe_as("pod-1", "b", b"");
    world.read(&mine);
    let (_, token) = world.read(&others);
    world.change_for("pod-1", "a");
    assert_eq!(world.read(&mine).0, ["a 2"]);
    assert!(world.read(&others).0.is_empty() && world.read(&elsewhere).0.is_empty());
    // A stream that comes later is given the newest, whoever it is of; one that resumes what is new to it.
    assert_eq!(world.read(&world.subscribe_as("pod-2", "a", b"").0).0, ["a 2"]);
    let (_, current) = world.read(&others);
    assert_eq!(world.read(&world.subscribe_as("pod-2", "a", &token).0).0, ["a 2"]);
    assert!(world.read(&world.subscribe_as("pod-2", "a", &current).0).0.is_empty());
    world.hub.unsubscribe(&mine);
    world.change_for("pod-1", "a");
    assert!(world.read(&mine).0.is_empty());
}
