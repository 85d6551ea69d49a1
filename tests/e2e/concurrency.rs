//! Everything at once: no deadlock, and what a watcher was told is what is so.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use panelboard_proto::v1::{self, watch_response::Event};

use crate::support::*;

const BREAKERS: usize = 50;
const TASKS: usize = 8;
const OPERATIONS: usize = 400;

/// Fixed numbers that look random (SplitMix64), so that a failure comes again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).unwrap() % sides
    }
}

fn name(n: usize) -> String {
    format!("t/{n:02}")
}

/// One client that asks, reports, watches and looks, in no order.
async fn hammer(mut service: Service, task: usize, clock: panelboard_server::clock::Clock) {
    let mut dice = Dice(u64::try_from(task).unwrap());
    let client = || who(&format!("task-{}", task % 3), &format!("session-{task}"));
    let mut watch = None;
    for sequence in 1..=u64::try_from(OPERATIONS).unwrap() {
        let breaker = name(dice.roll(BREAKERS));
        match dice.roll(10) {
            0..=3 => {
                let request = v1::AcquireRequest { client: client(), breaker: breaker.clone() };
                let answer = service.acquire(request).await.unwrap().into_inner();
                if let Some(v1::acquire_response::Decision::Grant(grant)) = answer.decision
                    && grant.probe.is_some()
                {
                    let entry = probe_result(&breaker, &grant, dice.roll(4) > 0);
                    let request = v1::ReportRequest { client: client(), entries: vec![entry] };
                    service.report(request).await.unwrap();
                }
            }
            4..=6 => {
                let bad = u32::try_from(dice.roll(25)).unwrap();
                let entry = v1::ReportEntry { sequence, ..failures(&breaker, bad) };
                let request = v1::ReportRequest { client: client(), entries: vec![entry] };
                service.report(request).await.unwrap();
            }
            7 => {
                let selected = if dice.roll(2) == 0 { "**" } else { &breaker };
                // Dropping the one before is a client that leaves without a word.
                watch = Some(Watcher::open(&mut service, client(), &[selected], &[]).await.unwrap());
            }
            8 => {
                service.list_breakers(v1::ListBreakersRequest::default()).await.unwrap();
                let request = v1::ListTransitionsRequest { breaker, ..Default::default() };
                service.list_transitions(request).await.unwrap();
            }
            _ => clock.advance(std::time::Duration::from_millis(500)),
        }
    }
    drop(watch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everything_at_once_ends_and_the_watcher_knows_what_is_so() {
    let mut world = World::start().await;
    for n in 0..BREAKERS {
        world.acquire(&name(n)).await;
    }
    let mut watcher = world.watch(&["t/**"]).await;
    let mut seen: HashMap<String, v1::BreakerStatus> = HashMap::new();
    for status in watcher.snapshot().await.statuses {
        seen.insert(status.name.clone(), status);
    }
    assert_eq!(seen.len(), BREAKERS);

    let running = Arc::new(AtomicUsize::new(TASKS));
    for task in 0..TASKS {
        let (service, clock, running) = (world.service.clone(), world.clock.clone(), Arc::clone(&running));
        tokio::spawn(async move {
            hammer(service, task, clock).await;
            running.fetch_sub(1, Ordering::SeqCst);
        });
    }
    // Policies change meanwhile: the waits, then the names that exist, then all back again.
    let waits = test_policy("test", "\"t/**\"").replace("wait: 10s", "wait: 7s");
    world.write_policies(&format!("{waits}{}", test_policy("more", "more")));

    let mut changes = 0_usize;
    let mut quiet = false;
    while !quiet {
        match watcher.event().await {
            Event::Status(status) => {
                changes += 1;
                let before = seen.insert(status.name.clone(), status.clone());
                let grown = before.is_none_or(|before| {
                    version(before.version.as_ref()) < version(status.version.as_ref())
                        && generation(&before) <= generation(&status)
                });
                assert!(grown, "{}: not newer than what was told before", status.name);
            }
            // Written when nothing was owed: whatever comes after it is of later changes.
            Event::Bookmark(_) => {
                quiet = running.load(Ordering::SeqCst) == 0 && is_so(&mut world, &seen).await
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(changes > BREAKERS, "{changes} changes");
    within("the end", world.running.stop()).await;
}

/// Whether what was told of each breaker is what is answered to whoever asks.
async fn is_so(world: &mut World, seen: &HashMap<String, v1::BreakerStatus>) -> bool {
    let mut all = true;
    for (name, told) in seen {
        let asked = world.look(name).await.status.unwrap();
        let same =
            (asked.version, asked.state, asked.generation) == (told.version, told.state, told.generation);
        // A change between the bookmark and the question is still on its way: the next bookmark decides.
        all &= same;
    }
    all
}
