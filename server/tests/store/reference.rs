//! The embedded store does exactly what the reference does, whatever is asked of it.

use panelboard_server::store::{
    Batch, CommitError, Fault, Key, Memory, Precondition, Record, Store, StoreId, Value, Version, Write,
};
use proptest::prelude::*;

use crate::embedded::open;
use crate::suite::{batch, key};

/// One call, with small numbers so that keys and versions meet often.
#[derive(Debug, Clone)]
enum Call {
    Commit(Vec<(u8, Change)>),
    Get(u8),
    Scan { prefix: String, after: Option<u8>, limit: usize },
    Epoch(u64),
    Reopen,
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Make(u8),
    /// At the version it has, or this many commits before.
    Replace {
        with: u8,
        back: u64,
    },
    Delete {
        back: u64,
    },
}

/// Everything a store may answer.
#[derive(Debug, PartialEq)]
enum Answer {
    Committed(Result<Version, CommitError>),
    Found(Result<Option<Record>, Fault>),
    Scanned(Result<Vec<Record>, Fault>),
    Epoch(Result<u64, Fault>),
}

fn name(n: u8) -> Key {
    // Some are prefixes of others.
    key(&format!("{}/{}", "k".repeat(usize::from(n % 3) + 1), n / 3))
}

fn bytes(n: u8) -> Value {
    Value::new(vec![n; usize::from(n)]).expect("it is short")
}

fn writes(store: &dyn Store, changes: &[(u8, Change)]) -> Batch {
    let mut unique: Vec<(u8, Change)> = changes.to_vec();
    unique.sort_by_key(|(n, _)| *n);
    unique.dedup_by_key(|(n, _)| *n);
    batch(unique.into_iter().filter_map(|(n, change)| {
        let key = name(n);
        let current = store.get(&key).expect("it is read").map(|record| record.version);
        let seen = |back: u64| current.and_then(|version| version_before(store, version, back));
        match change {
            Change::Make(n) => Some(Write::Put { key, value: bytes(n), when: Precondition::Absent }),
            Change::Replace { with, back } => {
                seen(back).map(|at| Write::Put { key, value: bytes(with), when: Precondition::At(at) })
            }
            Change::Delete { back } => seen(back).map(|at| Write::Delete { key, at }),
        }
    }))
}

/// Versions cannot be made up from outside; this finds one that some record has.
fn version_before(store: &dyn Store, version: Version, back: u64) -> Option<Version> {
    let wanted = version.as_u64().saturating_sub(back);
    store
        .scan_all("")
        .expect("a scan")
        .iter()
        .map(|record| record.version)
        .find(|version| version.as_u64() >= wanted)
}

fn ask(store: &dyn Store, call: &Call) -> Option<Answer> {
    Some(match call {
        Call::Commit(changes) => Answer::Committed(store.commit(&writes(store, changes))),
        Call::Get(n) => Answer::Found(store.get(&name(*n))),
        Call::Scan { prefix, after, limit } => {
            Answer::Scanned(store.scan(prefix, after.map(name).as_ref(), *limit))
        }
        Call::Epoch(now) => Answer::Epoch(store.next_epoch(*now)),
        Call::Reopen => return None,
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        any::<u8>().prop_map(Change::Make),
        (any::<u8>(), 0..3u64).prop_map(|(with, back)| Change::Replace { with, back }),
        (0..2u64).prop_map(|back| Change::Delete { back }),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        8 => prop::collection::vec((0..12u8, change()), 0..5).prop_map(Call::Commit),
        2 => (0..12u8).prop_map(Call::Get),
        3 => ("k{0,3}/?", prop::option::of(0..12u8), 0..6usize)
            .prop_map(|(prefix, after, limit)| Call::Scan { prefix, after, limit }),
        1 => (0..100u64).prop_map(Call::Epoch),
        1 => Just(Call::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_embedded_store_answers_as_the_reference_does(calls in prop::collection::vec(call(), 1..40)) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut embedded = open(dir.path());
        let reference = Memory::new(StoreId::from_u128(0));
        for call in &calls {
            if let Call::Reopen = call {
                drop(embedded);
                embedded = open(dir.path());
            }
            prop_assert_eq!(ask(&embedded, call), ask(&reference, call), "{:?}", call);
        }
        prop_assert_eq!(embedded.scan_all(""), reference.scan_all(""));
    }
}
