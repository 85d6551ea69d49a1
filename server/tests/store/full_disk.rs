//! A disk that fills up and empties again under a running store.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use panelboard_server::store::{
    CommitError, Embedded, Fault, OpenError, Precondition, Store, StoreId, Value,
};
use tempfile::TempDir;

use crate::embedded::open;
use crate::suite::key;

/// A small file system of its own; unmounted at the end.
struct SmallDisk {
    at: TempDir,
}

impl SmallDisk {
    /// `None`, said loudly, where we may not mount.
    fn mount(megabytes: u32) -> Option<Self> {
        let at = tempfile::tempdir().expect("a directory");
        let size = format!("size={megabytes}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at.path()).output();
        let why = match mounted {
            Ok(output) if output.status.success() => return Some(Self { at }),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(err) => err.to_string(),
        };
        // Past the harness, which would swallow what a passing test prints.
        let _ =
            writeln!(std::io::stderr(), "SKIPPED the full disk test, which mounts a tmpfs as root: {why}");
        None
    }

    fn path(&self) -> &Path {
        self.at.path()
    }

    /// Takes what is left; gives the file to delete.
    fn fill(&self) -> std::path::PathBuf {
        let ballast = self.path().join("ballast");
        let mut file = File::create(&ballast).expect("a file");
        for size in [1 << 16, 1 << 12, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        ballast
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.at.path()).status();
    }
}

fn page(n: usize) -> Value {
    Value::new(vec![u8::try_from(n % 256).unwrap_or(0); 16_384]).expect("it is small")
}

fn write(store: &dyn Store, n: usize) -> Result<(), Fault> {
    match store.put(key(&format!("r/{n:04}")), page(n), Precondition::Absent) {
        Ok(_) => Ok(()),
        Err(CommitError::Fault(fault)) => Err(fault),
        Err(conflict) => panic!("{conflict}"),
    }
}

/// Every acknowledged record is there; each that failed is there whole or not at all.
fn check(store: &dyn Store, acknowledged: &[usize], failed: &[usize]) {
    for n in acknowledged {
        let record = store
            .get(&key(&format!("r/{n:04}")))
            .expect("it is read")
            .unwrap_or_else(|| panic!("{n} is lost"));
        assert_eq!(record.value, page(*n));
    }
    for n in failed {
        if let Some(record) = store.get(&key(&format!("r/{n:04}"))).expect("it is read") {
            assert_eq!(record.value, page(*n));
        }
    }
}

#[test]
fn a_full_disk_is_unavailable_until_there_is_room_and_loses_nothing() {
    let Some(disk) = SmallDisk::mount(8) else { return };
    let dir = disk.path().join("data");
    let store = open(&dir);
    let mut acknowledged = Vec::new();
    let mut failed = Vec::new();
    let mut next = 0..;
    for _ in 0..10 {
        let n = next.next().unwrap();
        write(&store, n).expect("there is room");
        acknowledged.push(n);
    }

    for round in 0..3 {
        let ballast = disk.fill();
        // The file has free pages of its own; they end.
        while failed.len() < 5 * (round + 1) {
            let n = next.next().unwrap();
            assert!(n < 2_000, "the disk never filled");
            match write(&store, n) {
                Ok(()) => acknowledged.push(n),
                Err(fault) => {
                    assert!(matches!(fault, Fault::Unavailable { .. }), "{fault}");
                    failed.push(n);
                }
            }
        }
        // The store still holds its file, although it had to close it.
        let other = Embedded::open(&dir, StoreId::from_u128(1));
        assert!(matches!(other, Err(OpenError::Locked { .. })), "{other:?}");

        fs::remove_file(ballast).expect("the ballast is ours");
        for _ in 0..3 {
            let n = next.next().unwrap();
            write(&store, n).expect("there is room again");
            acknowledged.push(n);
        }
        check(&store, &acknowledged, &failed);
        // Make room for the next round.
        for n in acknowledged.split_off(10) {
            let at = key(&format!("r/{n:04}"));
            let version = store.get(&at).unwrap().unwrap().version;
            store.delete(at, version).expect("it is there");
        }
    }

    let id = store.id();
    drop(store);
    let store = open(&dir);
    assert_eq!(store.id(), id);
    check(&store, &acknowledged, &failed);
}

#[test]
fn a_store_cannot_be_made_on_a_full_disk_and_can_once_there_is_room() {
    let Some(disk) = SmallDisk::mount(8) else { return };
    let dir = disk.path().join("data");
    fs::create_dir(&dir).unwrap();
    let ballast = disk.fill();
    let refused = Embedded::open(&dir, StoreId::from_u128(1)).expect_err("there is no room");
    assert!(matches!(refused, OpenError::Io { .. }), "{refused}");
    fs::remove_file(ballast).unwrap();
    write(&open(&dir), 0).expect("there is room again");
}
