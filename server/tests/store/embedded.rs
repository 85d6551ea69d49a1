//! What is particular to the file: making, locking and refusing it.

use std::fs;
use std::path::Path;

use panelboard_server::store::{Embedded, FILE_NAME, OpenError, Store, StoreId};
use tempfile::TempDir;

use crate::suite::{DurableSubject, Subject, contents, contract, durable_contract, make};

struct OnDisk {
    store: Embedded,
    dir: TempDir,
}

impl Subject for OnDisk {
    fn fresh() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Self { store: open(dir.path()), dir }
    }

    fn store(&self) -> &dyn Store {
        &self.store
    }
}

impl DurableSubject for OnDisk {
    fn reopen(self) -> Self {
        drop(self.store);
        Self { store: open(self.dir.path()), dir: self.dir }
    }
}

contract!(OnDisk);
durable_contract!(OnDisk);

pub(crate) fn open(dir: &Path) -> Embedded {
    Embedded::open(dir, StoreId::from_u128(rand::random())).expect("the store opens")
}

/// Opens what must be refused; gives the message with the directory's name taken out.
pub(crate) fn refusal(dir: &Path) -> String {
    let err = Embedded::open(dir, StoreId::from_u128(1)).expect_err("this is refused");
    err.to_string().replace(&format!("{}", dir.display()), "DIR")
}

#[test]
fn the_directory_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("a/b/c");
    let store = open(&deep);
    assert_eq!(store.path(), deep.join(FILE_NAME));
    let names: Vec<_> = fs::read_dir(&deep).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [FILE_NAME]);
}

#[test]
fn a_new_store_takes_the_identity_it_is_given_and_an_old_one_keeps_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let first = Embedded::open(dir.path(), StoreId::from_u128(7)).unwrap();
    assert_eq!(first.id(), StoreId::from_u128(7));
    assert_eq!(first.id().to_string(), "00000000000000000000000000000007");
    drop(first);
    assert_eq!(Embedded::open(dir.path(), StoreId::from_u128(8)).unwrap().id(), StoreId::from_u128(7));
}

#[test]
fn a_directory_that_is_a_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let message = refusal(&file);
    assert!(message.starts_with("cannot use DIR as the data directory: "), "{message}");
    assert!(message.ends_with("; make it writable, or name another with --data-dir"), "{message}");
}

#[test]
fn an_empty_file_is_refused_as_truncated_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(FILE_NAME), "").unwrap();
    let message = "DIR/panelboard.redb is empty, so it was truncated: restore it from a backup, or delete it to start \
                   without the policies, overrides and breaker states it held";
    assert_eq!(refusal(dir.path()), message);
    assert_eq!(fs::metadata(dir.path().join(FILE_NAME)).unwrap().len(), 0);
}

#[test]
fn a_foreign_file_is_refused_and_left_alone() {
    for foreign in [&b"x"[..], b"# just some notes\n", &[0; 4_096], &[0xa5; 100_000]] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE_NAME), foreign).unwrap();
        let message = refusal(dir.path());
        assert!(message.starts_with("DIR/panelboard.redb is not a Panelboard store ("), "{message}");
        assert!(message.ends_with("): move it away, or name another directory with --data-dir"), "{message}");
        assert_eq!(fs::read(dir.path().join(FILE_NAME)).unwrap(), foreign);
    }
}

#[test]
fn a_redb_file_of_somebody_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = redb::Database::create(dir.path().join(FILE_NAME)).unwrap();
    let transaction = theirs.begin_write().unwrap();
    transaction.open_table(redb::TableDefinition::<u64, u64>::new("theirs")).unwrap();
    transaction.commit().unwrap();
    drop(theirs);
    let message = "DIR/panelboard.redb is not a Panelboard store (a redb file with other tables): move it away, or name \
                   another directory with --data-dir";
    assert_eq!(refusal(dir.path()), message);
}

#[test]
fn a_file_of_a_later_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let later = redb::Database::open(dir.path().join(FILE_NAME)).unwrap();
    let transaction = later.begin_write().unwrap();
    transaction
        .open_table(redb::TableDefinition::<&str, u128>::new("about"))
        .unwrap()
        .insert("format", 2)
        .unwrap();
    transaction.commit().unwrap();
    drop(later);
    let message =
        "DIR/panelboard.redb has format 2 and this version reads format 1: start the version that wrote it";
    assert_eq!(refusal(dir.path()), message);
}

#[test]
fn a_file_in_use_is_refused_until_it_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    make(&store, "a", "1");
    let message = "DIR/panelboard.redb is in use by another process: stop that one, or name another directory with --data-dir";
    assert_eq!(refusal(dir.path()), message);
    make(&store, "b", "2");
    drop(store);
    assert_eq!(contents(&open(dir.path())).len(), 2);
}

#[test]
fn of_two_that_make_the_store_at_once_one_gets_it() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let barrier = std::sync::Barrier::new(2);
        let results = std::thread::scope(|scope| {
            let both = [1, 2].map(|id| {
                let (barrier, dir) = (&barrier, dir.path());
                scope.spawn(move || {
                    barrier.wait();
                    Embedded::open(dir, StoreId::from_u128(id))
                })
            });
            both.map(|one| one.join().expect("no panic"))
        });
        let got = results.iter().filter(|result| result.is_ok()).count();
        let locked = results.iter().filter(|result| matches!(result, Err(OpenError::Locked { .. }))).count();
        assert_eq!((got, locked), (1, 1), "{results:?}");
        drop(results);
        make(&open(dir.path()), "a", "1");
    }
}

#[test]
fn what_a_crash_left_of_a_store_half_made_does_not_matter() {
    for left in [&b""[..], b"half a store"] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("panelboard.redb.new"), left).unwrap();
        make(&open(dir.path()), "a", "1");
        assert_eq!(contents(&open(dir.path())).len(), 1);
        assert!(!dir.path().join("panelboard.redb.new").exists());
    }
}
