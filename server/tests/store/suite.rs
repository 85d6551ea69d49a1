//! The contract of [`Store`], one test per promise. A new store adds a [`Subject`] and one call of `contract!`.

use panelboard_server::store::{
    Batch, BatchError, CommitError, Conflict, Key, KeyError, Precondition, Record, Store, Value, ValueError,
    Version, Write,
};

/// A store under test with all it needs to exist.
pub(crate) trait Subject: Sized {
    /// An empty one, with an identity of its own.
    fn fresh() -> Self;

    /// The store itself.
    fn store(&self) -> &dyn Store;
}

/// One whose contents outlive the process.
pub(crate) trait DurableSubject: Subject {
    /// Closes and opens it.
    fn reopen(self) -> Self;
}

/// Makes a test of each promise that every store gives.
macro_rules! contract {
    ($subject:ty) => {
        $crate::suite::contract! { $subject:
            what_is_put_is_read_back,
            a_record_that_does_not_exist_is_none,
            absent_refuses_what_exists_and_says_its_version,
            at_refuses_another_version_and_says_which,
            at_refuses_what_does_not_exist,
            a_refused_put_changes_nothing,
            a_delete_is_conditional_too,
            each_commit_has_a_greater_version,
            a_version_is_never_used_again_after_delete_and_recreate,
            an_old_version_does_not_match_a_recreated_record,
            a_batch_is_written_whole_under_one_version,
            a_batch_with_one_conflict_writes_nothing_and_names_every_conflict,
            a_batch_without_writes_gives_the_last_version,
            a_batch_can_put_and_delete,
            a_scan_is_in_byte_order_and_within_its_prefix,
            a_scan_comes_in_pages,
            a_scan_of_all_crosses_pages,
            a_prefix_ends_where_it_ends,
            values_are_any_bytes_up_to_the_limit,
            epochs_grow_whatever_the_clock_says,
            epochs_and_versions_are_apart,
            two_stores_have_two_identities,
            of_two_writers_with_one_precondition_one_wins,
            readers_see_whole_batches_only
        }
    };
    ($subject:ty: $($promise:ident),+) => {
        $(
            #[test]
            fn $promise() {
                let subject = <$subject as $crate::suite::Subject>::fresh();
                let other = <$subject as $crate::suite::Subject>::fresh();
                $crate::suite::$promise($crate::suite::Subject::store(&subject), $crate::suite::Subject::store(&other));
            }
        )+
    };
}

/// Makes a test of each promise that a store on disk gives besides.
macro_rules! durable_contract {
    ($subject:ty) => {
        $crate::suite::durable_contract! { $subject:
            what_was_written_is_there_after_reopening,
            the_identity_is_the_same_after_reopening,
            epochs_grow_over_reopening,
            versions_grow_over_reopening_even_of_a_deleted_record
        }
    };
    ($subject:ty: $($promise:ident),+) => {
        $(
            #[test]
            fn $promise() {
                $crate::suite::$promise::<$subject>();
            }
        )+
    };
}

pub(crate) use {contract, durable_contract};

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).expect("a key")
}

pub(crate) fn value(text: &str) -> Value {
    Value::new(text.as_bytes().to_vec()).expect("a value")
}

pub(crate) fn put(at: &str, holds: &str, when: Precondition) -> Write {
    Write::Put { key: key(at), value: value(holds), when }
}

pub(crate) fn batch(writes: impl IntoIterator<Item = Write>) -> Batch {
    let mut batch = Batch::new();
    for write in writes {
        batch.push(write).expect("room for another record");
    }
    batch
}

/// Makes a record that does not exist yet.
pub(crate) fn make(store: &dyn Store, at: &str, holds: &str) -> Version {
    store.put(key(at), value(holds), Precondition::Absent).expect("the record does not exist")
}

/// All of it, as text.
pub(crate) fn contents(store: &dyn Store) -> Vec<(String, String)> {
    let text = |record: Record| {
        let value = String::from_utf8_lossy(record.value.as_bytes()).into_owned();
        (record.key.as_str().to_owned(), value)
    };
    store.scan_all("").expect("a scan").into_iter().map(text).collect()
}

fn check_contents(store: &dyn Store, expected: &[(&str, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    assert_eq!(contents(store), expected);
}

fn check_conflict(result: Result<Version, CommitError>, expected: &[(&str, Option<Version>)]) {
    let expected =
        expected.iter().map(|(at, current)| Conflict { key: key(at), current: *current }).collect();
    assert_eq!(result, Err(CommitError::Conflict(expected)));
}

pub(crate) fn what_is_put_is_read_back(store: &dyn Store, _: &dyn Store) {
    let version = make(store, "state/checkout", "OPEN");
    let found = store.get(&key("state/checkout"));
    assert_eq!(found, Ok(Some(Record { key: key("state/checkout"), version, value: value("OPEN") })));
}

pub(crate) fn a_record_that_does_not_exist_is_none(store: &dyn Store, _: &dyn Store) {
    make(store, "a", "1");
    assert_eq!(store.get(&key("b")), Ok(None));
    assert_eq!(store.get(&key("aa")), Ok(None));
}

pub(crate) fn absent_refuses_what_exists_and_says_its_version(store: &dyn Store, _: &dyn Store) {
    let version = make(store, "a", "1");
    check_conflict(store.put(key("a"), value("2"), Precondition::Absent), &[("a", Some(version))]);
}

pub(crate) fn at_refuses_another_version_and_says_which(store: &dyn Store, _: &dyn Store) {
    let first = make(store, "a", "1");
    let second =
        store.put(key("a"), value("2"), Precondition::At(first)).expect("the first version is there");
    let late = store.put(key("a"), value("3"), Precondition::At(first));
    check_conflict(late.clone(), &[("a", Some(second))]);
    assert_eq!(late.map_err(|err| err.to_string()), Err(format!("a is at version {second} now")));
}

pub(crate) fn at_refuses_what_does_not_exist(store: &dyn Store, _: &dyn Store) {
    let version = make(store, "a", "1");
    let missing = store.put(key("b"), value("2"), Precondition::At(version));
    check_conflict(missing.clone(), &[("b", None)]);
    assert_eq!(missing.map_err(|err| err.to_string()), Err("b does not exist".to_owned()));
}

pub(crate) fn a_refused_put_changes_nothing(store: &dyn Store, _: &dyn Store) {
    let version = make(store, "a", "1");
    let before = store.get(&key("a"));
    check_conflict(store.put(key("a"), value("2"), Precondition::Absent), &[("a", Some(version))]);
    assert_eq!(store.get(&key("a")), before);
    assert_eq!(store.commit(&Batch::new()), Ok(version), "a refused commit takes no version");
}

pub(crate) fn a_delete_is_conditional_too(store: &dyn Store, _: &dyn Store) {
    let first = make(store, "a", "1");
    let second =
        store.put(key("a"), value("2"), Precondition::At(first)).expect("the first version is there");
    check_conflict(store.delete(key("a"), first), &[("a", Some(second))]);
    check_contents(store, &[("a", "2")]);
    store.delete(key("a"), second).expect("the second version is there");
    check_contents(store, &[]);
    check_conflict(store.delete(key("a"), second), &[("a", None)]);
}

pub(crate) fn each_commit_has_a_greater_version(store: &dyn Store, _: &dyn Store) {
    let mut last = make(store, "a", "0");
    for n in 1..20 {
        let version = if n % 2 == 0 {
            store
                .put(key("a"), value("x"), Precondition::At(store.get(&key("a")).unwrap().unwrap().version))
                .unwrap()
        } else {
            make(store, &format!("b{n}"), "x")
        };
        assert!(version > last, "{version} after {last}");
        last = version;
    }
}

pub(crate) fn a_version_is_never_used_again_after_delete_and_recreate(store: &dyn Store, _: &dyn Store) {
    let mut seen = Vec::new();
    for _ in 0..5 {
        let made = make(store, "a", "1");
        let deleted = store.delete(key("a"), made).expect("it was just made");
        seen.extend([made, deleted]);
    }
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
}

pub(crate) fn an_old_version_does_not_match_a_recreated_record(store: &dyn Store, _: &dyn Store) {
    let first = make(store, "a", "1");
    store.delete(key("a"), first).expect("it was just made");
    let second = make(store, "a", "1");
    check_conflict(store.put(key("a"), value("late"), Precondition::At(first)), &[("a", Some(second))]);
    check_conflict(store.delete(key("a"), first), &[("a", Some(second))]);
}

pub(crate) fn a_batch_is_written_whole_under_one_version(store: &dyn Store, _: &dyn Store) {
    let writes = ["c", "a", "b"].map(|at| put(at, at, Precondition::Absent));
    let version = store.commit(&batch(writes)).expect("none of them exists");
    for record in store.scan_all("").expect("a scan") {
        assert_eq!(record.version, version);
    }
    check_contents(store, &[("a", "a"), ("b", "b"), ("c", "c")]);
}

pub(crate) fn a_batch_with_one_conflict_writes_nothing_and_names_every_conflict(
    store: &dyn Store,
    _: &dyn Store,
) {
    let version = make(store, "b", "1");
    let mut writes = batch([
        put("a", "2", Precondition::Absent),
        put("b", "2", Precondition::Absent),
        put("c", "2", Precondition::At(version)),
    ]);
    check_conflict(store.commit(&writes), &[("b", Some(version)), ("c", None)]);
    check_contents(store, &[("b", "1")]);
    // What a group commit does: take the conflicts out and write the rest.
    writes.remove(&key("b"));
    writes.remove(&key("c"));
    store.commit(&writes).expect("no conflict is left");
    check_contents(store, &[("a", "2"), ("b", "1")]);
}

pub(crate) fn a_batch_without_writes_gives_the_last_version(store: &dyn Store, _: &dyn Store) {
    let before = store.commit(&Batch::new()).expect("nothing to write");
    let version = make(store, "a", "1");
    assert!(version > before);
    assert_eq!(store.commit(&Batch::new()), Ok(version));
    assert_eq!(store.commit(&Batch::new()), Ok(version));
}

pub(crate) fn a_batch_can_put_and_delete(store: &dyn Store, _: &dyn Store) {
    let version = make(store, "a", "1");
    let moved = batch([Write::Delete { key: key("a"), at: version }, put("b", "1", Precondition::Absent)]);
    store.commit(&moved).expect("both preconditions hold");
    check_contents(store, &[("b", "1")]);
}

pub(crate) fn a_scan_is_in_byte_order_and_within_its_prefix(store: &dyn Store, _: &dyn Store) {
    for at in ["s/b", "s/a/c", "s/a", "s/a-", "s/B", "t/a", "r/z", "s", "s/é", "s/\u{10FFFF}"] {
        make(store, at, "");
    }
    let keys = |prefix: &str| -> Vec<String> {
        store.scan_all(prefix).expect("a scan").iter().map(|record| record.key.to_string()).collect()
    };
    assert_eq!(keys("s/"), ["s/B", "s/a", "s/a-", "s/a/c", "s/b", "s/é", "s/\u{10FFFF}"]);
    assert_eq!(keys("s/a/"), ["s/a/c"]);
    assert_eq!(keys("x"), [""; 0]);
    assert_eq!(keys("").len(), 10);
}

pub(crate) fn a_scan_comes_in_pages(store: &dyn Store, _: &dyn Store) {
    for at in ["p/1", "p/2", "p/3", "q/1"] {
        make(store, at, "");
    }
    let page = |after: Option<&str>, limit: usize| -> Vec<String> {
        let after = after.map(key);
        store
            .scan("p/", after.as_ref(), limit)
            .expect("a scan")
            .iter()
            .map(|record| record.key.to_string())
            .collect()
    };
    assert_eq!(page(None, 2), ["p/1", "p/2"]);
    assert_eq!(page(Some("p/2"), 2), ["p/3"]);
    assert_eq!(page(Some("p/3"), 2), [""; 0]);
    assert_eq!(page(None, 0), [""; 0]);
    assert_eq!(page(None, usize::MAX), ["p/1", "p/2", "p/3"]);
    // The key behind which to begin need not exist, nor lie within the prefix.
    assert_eq!(page(Some("p/1x"), 9), ["p/2", "p/3"]);
    assert_eq!(page(Some("a"), 9), ["p/1", "p/2", "p/3"]);
    assert_eq!(page(Some("q"), 9), [""; 0]);
}

pub(crate) fn a_scan_of_all_crosses_pages(store: &dyn Store, _: &dyn Store) {
    let keys: Vec<String> = (0..2_000).map(|n| format!("k/{n:05}")).collect();
    store
        .commit(&batch(keys.iter().map(|at| put(at, "", Precondition::Absent))))
        .expect("none of them exists");
    let found: Vec<String> =
        store.scan_all("k/").unwrap().iter().map(|record| record.key.to_string()).collect();
    assert_eq!(found, keys);
}

pub(crate) fn a_prefix_ends_where_it_ends(store: &dyn Store, _: &dyn Store) {
    make(store, "state/a", "");
    make(store, "states/a", "");
    assert_eq!(store.scan_all("state/").unwrap().len(), 1);
    assert_eq!(store.scan_all("state").unwrap().len(), 2);
}

pub(crate) fn values_are_any_bytes_up_to_the_limit(store: &dyn Store, _: &dyn Store) {
    let limit = panelboard_server::limits::STORE_VALUE_BYTES;
    for bytes in [vec![], vec![0], (0..=255).collect(), vec![0xff; limit]] {
        let value = Value::new(bytes.clone()).expect("within the limit");
        let at = key(&format!("v{}", bytes.len()));
        store.put(at.clone(), value, Precondition::Absent).expect("it does not exist");
        assert_eq!(store.get(&at).unwrap().unwrap().value.as_bytes(), bytes);
    }
    assert_eq!(Value::new(vec![0; limit + 1]), Err(ValueError { bytes: limit + 1 }));
}

pub(crate) fn epochs_grow_whatever_the_clock_says(store: &dyn Store, _: &dyn Store) {
    assert_eq!(store.next_epoch(1_000), Ok(1_000));
    assert_eq!(store.next_epoch(1_000), Ok(1_001));
    assert_eq!(store.next_epoch(500), Ok(1_002));
    assert_eq!(store.next_epoch(2_000), Ok(2_000));
    assert_eq!(store.next_epoch(u64::MAX), Ok(u64::MAX));
    let past_the_last = store.next_epoch(0).map_err(|err| err.to_string());
    let reason = format!("the store is damaged: the last epoch is {}, and there is none after it", u64::MAX);
    assert_eq!(past_the_last, Err(reason));
}

pub(crate) fn epochs_and_versions_are_apart(store: &dyn Store, _: &dyn Store) {
    let version = make(store, "a", "1");
    store.next_epoch(1_000).expect("an epoch");
    assert_eq!(store.commit(&Batch::new()), Ok(version));
    check_contents(store, &[("a", "1")]);
}

pub(crate) fn two_stores_have_two_identities(store: &dyn Store, other: &dyn Store) {
    assert_ne!(store.id(), other.id());
    assert_eq!(store.id(), store.id());
    make(store, "a", "1");
    check_contents(other, &[]);
}

pub(crate) fn of_two_writers_with_one_precondition_one_wins(store: &dyn Store, _: &dyn Store) {
    const WRITERS: usize = 4;
    const ROUNDS: usize = 25;
    let mut version = make(store, "a", "0");
    for _ in 0..ROUNDS {
        let results = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|n| {
                    scope.spawn(move || store.put(key("a"), value(&n.to_string()), Precondition::At(version)))
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().expect("no panic")).collect::<Vec<_>>()
        });
        let won: Vec<Version> = results.iter().filter_map(|result| result.as_ref().ok().copied()).collect();
        assert_eq!(won.len(), 1, "{results:?}");
        version = won[0];
        for lost in results.into_iter().filter(Result::is_err) {
            check_conflict(lost, &[("a", Some(version))]);
        }
    }
}

pub(crate) fn readers_see_whole_batches_only(store: &dyn Store, _: &dyn Store) {
    let keys = ["a", "b", "c"];
    let mut version =
        store.commit(&batch(keys.map(|at| put(at, "0", Precondition::Absent)))).expect("no conflict");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut views = 0;
            // At least one view, however late this thread begins.
            while views == 0 || !done.load(std::sync::atomic::Ordering::Acquire) {
                let records = store.scan("", None, 10).expect("a scan");
                assert_eq!(records.len(), keys.len());
                assert!(records.iter().all(|record| record.version == records[0].version), "{records:?}");
                views += 1;
            }
        });
        for n in 1..40 {
            let next = keys.map(|at| put(at, &n.to_string(), Precondition::At(version)));
            version = store.commit(&batch(next)).expect("one writer");
        }
        done.store(true, std::sync::atomic::Ordering::Release);
        reader.join().expect("whole batches");
    });
}

pub(crate) fn what_was_written_is_there_after_reopening<S: DurableSubject>() {
    let subject = S::fresh();
    make(subject.store(), "a", "1");
    let gone = make(subject.store(), "b", "2");
    subject.store().delete(key("b"), gone).expect("it was just made");
    let before = subject.store().scan_all("");
    let subject = subject.reopen();
    assert_eq!(subject.store().scan_all(""), before);
    check_contents(subject.store(), &[("a", "1")]);
}

pub(crate) fn the_identity_is_the_same_after_reopening<S: DurableSubject>() {
    let subject = S::fresh();
    let id = subject.store().id();
    assert_eq!(subject.reopen().reopen().store().id(), id);
}

pub(crate) fn epochs_grow_over_reopening<S: DurableSubject>() {
    let subject = S::fresh();
    assert_eq!(subject.store().next_epoch(5_000), Ok(5_000));
    let subject = subject.reopen();
    // The clock was set back while we were away.
    assert_eq!(subject.store().next_epoch(4_000), Ok(5_001));
    let subject = subject.reopen();
    assert_eq!(subject.store().next_epoch(6_000), Ok(6_000));
}

pub(crate) fn versions_grow_over_reopening_even_of_a_deleted_record<S: DurableSubject>() {
    let subject = S::fresh();
    let first = make(subject.store(), "a", "1");
    let deleted = subject.store().delete(key("a"), first).expect("it was just made");
    let subject = subject.reopen();
    assert!(make(subject.store(), "a", "1") > deleted);
}

#[test]
fn a_key_is_text_of_a_bounded_length_without_control_characters() {
    let limit = panelboard_server::limits::STORE_KEY_BYTES;
    assert_eq!(Key::new("x".repeat(limit)).map(|key| key.as_str().len()), Ok(limit));
    assert_eq!(Key::new(""), Err(KeyError::Empty));
    assert_eq!(Key::new("a\nb"), Err(KeyError::Control { key: "a\nb".to_owned(), control: '\n' }));
    let long = Key::new("é".repeat(limit)).map_err(|err| err.to_string());
    assert_eq!(
        long,
        Err(format!("the key of the store beginning {:?} is longer than 512 bytes", "é".repeat(40)))
    );
}

#[test]
fn a_batch_has_one_write_per_record_and_a_limit() {
    let mut full = batch(
        (0..panelboard_server::limits::STORE_BATCH_WRITES)
            .map(|n| put(&n.to_string(), "", Precondition::Absent)),
    );
    assert_eq!(full.push(put("one more", "", Precondition::Absent)), Err(BatchError::Full));
    assert_eq!(
        full.push(put("7", "again", Precondition::Absent)),
        Err(BatchError::Repeated { key: key("7") })
    );
    assert_eq!(full.remove(&key("7")), Some(put("7", "", Precondition::Absent)));
    assert_eq!(full.push(put("7", "again", Precondition::Absent)), Ok(()));
}
