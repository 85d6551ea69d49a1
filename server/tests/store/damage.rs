//! A damaged file is an error, never a panic or a hang, and never silently another content.

use std::fs;

use panelboard_server::store::{Embedded, FILE_NAME, Precondition, Store, StoreId};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::embedded::open;
use crate::suite::{batch, contents, put};

const SEED: u64 = 0x9a7e_1b0a;

/// A closed store's file, and what it holds.
fn sound() -> (Vec<u8>, Vec<(String, String)>) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for round in 0..5 {
        let writes = (0..40).map(|n| put(&format!("{round}/{n}"), &"x".repeat(n * 5), Precondition::Absent));
        store.commit(&batch(writes)).unwrap();
    }
    let holds = contents(&store);
    drop(store);
    (fs::read(dir.path().join(FILE_NAME)).unwrap(), holds)
}

/// Opens these bytes as a store: refused, or it holds what the sound one did.
fn check(bytes: &[u8], holds: &[(String, String)], what: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(FILE_NAME), bytes).unwrap();
    match Embedded::open(dir.path(), StoreId::from_u128(1)) {
        Ok(store) => {
            assert_eq!(contents(&store), holds, "{what}, seed {SEED:#x}");
            false
        }
        Err(err) => {
            assert!(err.to_string().contains(FILE_NAME), "{err}");
            true
        }
    }
}

#[test]
fn flipped_bytes_are_found_or_do_not_matter() {
    let (sound, holds) = sound();
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut refused = 0;
    // Where the file holds anything; most of it is free pages.
    let used: Vec<usize> = (0..sound.len()).filter(|at| sound[*at] != 0).collect();
    for round in 0..150 {
        let mut bytes = sound.clone();
        for _ in 0..rng.random_range(1..4) {
            let at = used[rng.random_range(0..used.len())];
            bytes[at] ^= rng.random_range(1..=255u8);
        }
        refused += usize::from(check(&bytes, &holds, &format!("flips of round {round}")));
    }
    assert!(refused > 10, "only {refused} of 150 damaged files were refused");
}

#[test]
fn a_file_cut_short_is_refused() {
    let (sound, holds) = sound();
    let mut rng = StdRng::seed_from_u64(SEED);
    for _ in 0..60 {
        let length = rng.random_range(1..sound.len());
        assert!(
            check(&sound[..length], &holds, &format!("cut to {length}")),
            "cut to {length} and taken for whole"
        );
    }
}

#[test]
fn a_header_on_garbage_is_refused() {
    let (sound, holds) = sound();
    let mut rng = StdRng::seed_from_u64(SEED);
    for keep in [9, 64, 320, 512, 4_096, 8_192] {
        let mut bytes = sound.clone();
        bytes[keep..].fill_with(|| rng.random());
        assert!(
            check(&bytes, &holds, &format!("garbage behind {keep}")),
            "garbage behind {keep} and taken for whole"
        );
    }
}
