//! What holds whoever calls at the same instant.

use std::{collections::BTreeMap, sync::atomic::AtomicBool, thread, time::Duration};

use panelboard_core::{Caller, Decision, Hand, Instance, OverrideKind, Reported, StateKind};
use panelboard_proto::{store, v1};

use super::*;
use crate::outbox::{Event, Posted, What};

const POLICY: &str = "policies:
  - name: test
    match: [\"t/**\"]
    trip: [{ failures: 1, within: 10s }]
    open: { wait: 10s, multiplier: 1, jitter: 0% }
    half_open: { limit: 1h }
    guard: { min_instances: 1 }
";

fn registry(dormant: HashMap<BreakerName, Dormant>) -> (Registry, Clock) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies.yaml");
    std::fs::write(&file, POLICY).unwrap();
    // Idle at once: nothing but a deletion's own care keeps it from a breaker that is in use.
    let limits = Limits { idle_breaker_age: Duration::ZERO, ..Limits::default() };
    let policies = crate::policies::load(&file, &limits, None).unwrap();
    let clock = Clock::manual();
    (Registry::new(clock.clone(), 7, 1, limits, policies, dormant), clock)
}

fn name(text: &str) -> BreakerName {
    BreakerName::parse(text).unwrap()
}

fn failure(name: &BreakerName) -> v1::ReportEntry {
    v1::ReportEntry { breaker: name.as_str().into(), failures: 1, ..v1::ReportEntry::default() }
}

#[test]
fn no_probe_is_leased_before_its_half_open_period_is_durable() {
    let (registry, clock) = registry(HashMap::new());
    let (name, instance) = (name("t/a"), Instance::anonymous());
    let caller = Caller { instance: &instance, session: None };
    registry.report(&name, caller, &failure(&name)).unwrap();
    let opened = registry.outbox.position();
    // The call that makes it HALF_OPEN, because no timer has, is no exception.
    clock.advance(Duration::from_secs(10));
    let position = match registry.acquire(&name, caller, Some(opened)).unwrap() {
        Acquired::NotDurable { position } => position,
        other => panic!("{other:?}"),
    };
    assert_eq!(position, registry.outbox.position());
    assert_eq!(registry.find(&name).unwrap().lock().breaker.probes_leased(), 0);
    for durable in [Some(position), None] {
        match registry.acquire(&name, caller, durable).unwrap() {
            Acquired::Decided { decision: Decision::Granted(grant), .. } => assert!(grant.probe.is_some()),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_breaker_that_goes_on_probing_is_armed_for_one_deadline() {
    let (registry, clock) = registry(HashMap::new());
    let name = name("t/a");
    let instances: Vec<_> = (0..5).map(|n| Instance::new("s", &n.to_string())).collect();
    let caller = |n: usize| Caller { instance: &instances[n], session: None };
    registry.report(&name, caller(0), &failure(&name)).unwrap();
    clock.advance(Duration::from_secs(10));
    let (mut out, mut armed) = (BTreeMap::new(), 0);
    for round in 0..2_000 {
        for n in 0..instances.len() {
            if round % 2 == 0 {
                // All probes are taken.
                if let Acquired::Decided { decision: Decision::Granted(grant), .. } =
                    registry.acquire(&name, caller(n), None).unwrap()
                {
                    out.extend(grant.probe.map(|id| (n, (id.0, grant.generation))));
                }
            } else if n > 0
                && let Some((probe_id, generation)) = out.remove(&n)
            {
                // They come back, but for one of a client that hangs: there always is a deadline.
                let entry = v1::ReportEntry {
                    failures: 0,
                    abandoned: 1,
                    probe_id,
                    generation: Some(generation.into()),
                    ..failure(&name)
                };
                assert_eq!(registry.report(&name, caller(n), &entry).unwrap().0, Reported::Counted);
            }
        }
        clock.advance(Duration::from_millis(60));
        let (due, _) = registry.timer.take(clock.now());
        due.iter().for_each(|(at, name)| registry.fire(name, *at));
        armed = armed.max(registry.timer.armed());
    }
    assert_eq!(armed, 1);
}

#[test]
fn what_the_store_knows_of_a_breaker_is_not_lost_to_calls_that_make_it_at_once() {
    const THREADS: usize = 4;
    let (registry, _) = registry(HashMap::new());
    let names: Vec<_> = (0..1_000).map(|n| name(&format!("t/{n}"))).collect();
    for name in &names {
        let open = store::stored_breaker::State::Open(store::StoredOpen {
            until_unix_ms: u64::MAX,
            wait: Some(v1::OpenWait {
                wait: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
                ..v1::OpenWait::default()
            }),
        });
        let record = Some(store::StoredBreaker { state: Some(open), ..store::StoredBreaker::default() });
        let dormant = Dormant { record, ..Dormant::default() };
        registry.dormant.lock().unwrap().insert(name.clone(), dormant);
    }
    let together = std::sync::Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for name in &names {
                    together.wait();
                    registry.name_in_watch(name).unwrap();
                }
            });
        }
    });
    for name in &names {
        let slot = registry.find(name).unwrap();
        assert_eq!(registry.look(&slot).after.status.state, StateKind::Open, "{name}");
    }
}

#[test]
fn what_is_told_of_a_name_is_in_the_order_in_which_it_happened() {
    let (registry, clock) = registry(HashMap::new());
    let names = [name("t/a"), name("t/b")];
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (registry, names, over) = (&registry, &names, &over);
        let until_over = move |act: &dyn Fn(usize)| {
            (0..).take_while(|_| !over.load(Ordering::Relaxed)).for_each(act);
        };
        // Making and nothing else: the closest race there is with deleting.
        scope.spawn(move || until_over(&|n| registry.name_in_watch(&names[n % 2]).unwrap()));
        scope.spawn(move || {
            let instance = Instance::anonymous();
            let caller = Caller { instance: &instance, session: None };
            until_over(&|n| match n % 3 {
                0 => drop(registry.report(&names[n % 2], caller, &failure(&names[n % 2])).unwrap()),
                _ => drop(registry.acquire(&names[n % 2], caller, None).unwrap()),
            });
        });
        for _ in 0..10_000 {
            clock.advance(Duration::from_secs(11));
            // As the timer does: what was open is half-open by now, and rests.
            names.iter().filter_map(|name| registry.find(name)).for_each(|slot| drop(registry.look(&slot)));
            registry.expire_idle(|_| false);
        }
        over.store(true, Ordering::Relaxed);
    });

    let mut told: BTreeMap<BreakerName, Vec<Posted>> = BTreeMap::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for change in runtime.block_on(registry.outbox.take()) {
        told.entry(change.name.clone()).or_default().push(change);
    }
    let mut deletions = 0;
    for (name, changes) in told {
        let (mut exists, mut last) = (false, None);
        for change in changes {
            let version = match change.what {
                What::Changed { status, event, .. } => {
                    assert_eq!(
                        exists,
                        !matches!(event, Event::Created),
                        "{name}: made while it exists, or not made"
                    );
                    exists = true;
                    status.version
                }
                What::ChangedFor { status, .. } => status.version,
                What::Deleted { version, .. } => {
                    assert!(exists, "{name}: deleted while it does not exist");
                    exists = false;
                    deletions += 1;
                    version
                }
            };
            assert!(last < Some(version), "{name}: {version:?} after {last:?}");
            last = Some(version);
        }
        assert_eq!(registry.find(&name).is_some(), exists, "{name}");
    }
    assert!(deletions > 0);
}

#[test]
fn a_call_that_panicked_does_not_take_its_breaker_with_it() {
    let (registry, _) = registry(HashMap::new());
    let name = name("t/a");
    registry.name_in_watch(&name).unwrap();
    let slot = registry.find(&name).unwrap();
    let panicked = thread::scope(|scope| {
        let held = scope.spawn(|| {
            let _cell = slot.lock();
            panic!("on purpose: it poisons the lock");
        });
        held.join().is_err()
    });
    assert!(panicked);
    let instance = Instance::anonymous();
    let (reported, seen) =
        registry.report(&name, Caller { instance: &instance, session: None }, &failure(&name)).unwrap();
    assert_eq!((reported, seen.after.status.state), (Reported::Counted, StateKind::Open));
}

#[test]
fn the_nearest_name_is_found_among_many_and_only_where_it_is_alike() {
    let (registry, _) = registry(HashMap::new());
    for n in 0..500 {
        registry.name_in_watch(&name(&format!("t/operation-{n}"))).unwrap();
    }
    let nearest = |wrong: &str| match registry.look_up(&name(wrong)) {
        Err(Missing::NotFound { nearest, .. }) => nearest,
        other => panic!("{other:?}"),
    };
    assert_eq!(nearest("t/opreation-417").as_deref(), Some("t/operation-417"));
    assert_eq!(nearest("T/operation_3").as_deref(), Some("t/operation-3"));
    assert_eq!(nearest("x/other"), None);
}

#[test]
fn a_name_that_is_not_there_yet_is_told_from_one_that_cannot_be() {
    let (registry, _) = registry(HashMap::new());
    let missing = |text: &str| registry.look_up(&name(text)).unwrap_err().to_string();
    assert_eq!(missing("t/a"), "no breaker \"t/a\" exists yet: the first call, report or watch makes it");
    assert_eq!(missing("x/a"), "no breaker \"x/a\" exists and no policy matches the name");
    assert!(registry.names(None).is_empty(), "looking makes nothing");
}

#[test]
fn a_state_that_began_before_the_restart_is_as_old_as_the_wall_clock_says() {
    let restarted_at = Clock::manual().unix_ms();
    let open = store::stored_breaker::State::Open(store::StoredOpen {
        until_unix_ms: restarted_at,
        wait: Some(v1::OpenWait {
            wait: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
            ..v1::OpenWait::default()
        }),
    });
    let record = store::StoredBreaker {
        state: Some(open),
        since_unix_ms: restarted_at - 3_600_000,
        ..store::StoredBreaker::default()
    };
    let dormant = Dormant { record: Some(record), ..Dormant::default() };
    let (registry, clock) = registry([(name("t/old"), dormant)].into());
    let lasted = |registry: &Registry| {
        let seen = registry.look(&registry.find(&name("t/old")).unwrap());
        seen.after.last.unwrap().previous_lasted.unwrap().seconds
    };
    // It is HALF_OPEN at once: its wait was over while nobody served.
    assert!((3_600..3_660).contains(&lasted(&registry)), "{} s", lasted(&registry));
    let slot = registry.find(&name("t/old")).unwrap();
    assert_eq!(registry.look(&slot).after.status.state, StateKind::HalfOpen);
    clock.advance(Duration::from_secs(5));
    let caller = Instance::anonymous();
    let caller = Caller { instance: &caller, session: None };
    let Ok(Acquired::Decided { decision: Decision::Granted(grant), after }) =
        registry.acquire(&name("t/old"), caller, None)
    else {
        panic!("no probe");
    };
    let entry = v1::ReportEntry {
        generation: Some(after.status.generation.into()),
        probe_id: grant.probe.unwrap().0,
        ..failure(&name("t/old"))
    };
    registry.report(&name("t/old"), caller, &entry).unwrap();
    // What began in this process is as old as this process' own clock says.
    assert_eq!(lasted(&registry), 5);
}

#[test]
fn what_metrics_only_keeps_from_happening_is_told_and_kept_as_an_incident() {
    let (registry, clock) = registry(HashMap::new());
    let (name, instance) = (name("t/a"), Instance::new("checkout", "pod-1"));
    let caller = Caller { instance: &instance, session: None };
    registry.acquire(&name, caller, None).unwrap();
    let slot = registry.find(&name).unwrap();
    let hand = || Hand { who: "ada".into(), why: "trying it out".into() };
    let set = |kind| {
        let mut cell = slot.lock();
        registry.apply(&name, &mut cell, clock.now(), |cell, at| {
            ((), Some(cell.breaker.set_override(kind, hand(), None, at)))
        });
    };
    set(OverrideKind::MetricsOnly);
    registry.report(&name, caller, &failure(&name)).unwrap();
    let told = registry.look(&slot).after.to_wire(&name, false).r#override.unwrap();
    let would = told.would.unwrap();
    assert!(told.would_open && would.explanation.starts_with("would be OPEN: 1 failures >= 1 in 10 s"));
    assert_eq!((would.crossing.unwrap().matched, would.active_instances), (1, 1));

    clock.advance(Duration::from_secs(60));
    let told = registry.look(&slot).after.to_wire(&name, false).r#override.unwrap();
    assert!(!told.would_open && told.would.is_none());
    clock.advance(Duration::from_secs(60));
    registry.report(&name, caller, &failure(&name)).unwrap();
    // Another override ends the second, and is an incident of its own.
    clock.advance(Duration::from_millis(1));
    set(OverrideKind::ForcedOpen);
    let incidents = slot.lock().incidents.clone();
    let kinds: Vec<_> = incidents
        .iter()
        .map(|incident| {
            (incident.would_open.is_some(), incident.would_open_ended.is_some(), incident.opened.is_some())
        })
        .collect();
    assert_eq!(kinds, [(true, true, false), (true, true, false), (false, false, true)]);

    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let changes = runtime.block_on(registry.outbox.take());
    let news = changes.iter().filter(|change| {
        matches!(&change.what, What::Changed { event: Event::WouldOpen { news: Some(_), .. }, .. })
    });
    assert_eq!(news.count(), 2);
    // Each incident is stored as it is at last.
    let mut stored = BTreeMap::new();
    for change in &changes {
        let What::Changed { event, .. } = &change.what else { continue };
        let changed = match event {
            Event::Transition { incidents, .. } => incidents.as_slice(),
            Event::WouldOpen { incident, .. } => incident.as_slice(),
            Event::Created | Event::Other => &[],
        };
        stored.extend(changed.iter().map(|one| (crate::history::opened_unix_ms(one), Arc::clone(one))));
    }
    assert_eq!(stored.into_values().collect::<Vec<_>>(), Vec::from(incidents));
}
