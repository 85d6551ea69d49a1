//! kill -9 in the middle of writes: what was acknowledged is there, and nothing else but the batch in flight.
//!
//! The child is this test binary again, running [`child_that_writes_until_it_is_killed`] alone.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use panelboard_server::store::{Embedded, Precondition, Store, StoreId, Value, Version, Write};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::embedded::open;
use crate::suite::{batch, key};

const SEED: u64 = 0x0bad_c0de;
const ROUNDS: u64 = 25;

/// Tell the child where to write, and from which seed.
const DIR: &str = "STORE_CRASH_DIR";
const CHILD_SEED: &str = "STORE_CRASH_SEED";

/// Key → length of the value, which is made of the key's last letter.
type Contents = BTreeMap<String, usize>;

/// What the child said it was about to do.
type Changes = Vec<(String, Option<usize>)>;

#[test]
fn whatever_was_acknowledged_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut before = Contents::new();
    let mut last_epoch = 0;
    for round in 0..ROUNDS {
        let kill_after = rng.random_range(1..60);
        let account = run_and_kill(dir.path(), rng.random(), kill_after);
        let replay = format!("round {round}, killed after line {kill_after}, seed {SEED:#x}");

        for changes in &account.acknowledged {
            apply(&mut before, changes);
        }
        let mut with_one_more = before.clone();
        if let Some(changes) = &account.in_flight {
            apply(&mut with_one_more, changes);
        }
        let store = open(dir.path());
        let found = contents(&store);
        assert!(
            found == before || found == with_one_more,
            "{replay}: {found:?} is neither {before:?} nor {with_one_more:?}"
        );
        before = found;

        if let Some(epoch) = account.epoch {
            assert!(epoch > last_epoch, "{replay}: epoch {epoch} after {last_epoch}");
            last_epoch = epoch;
        }
        let epoch = store.next_epoch(0).unwrap();
        assert!(epoch > last_epoch, "{replay}: epoch {epoch} after {last_epoch}");
        last_epoch = epoch;
    }
    assert!(!before.is_empty(), "no round wrote anything");
}

#[test]
fn a_crash_while_the_store_is_made_leaves_one_that_opens() {
    for round in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let account = run_and_kill(dir.path(), round, 0);
        let store = open(dir.path());
        let mut acknowledged = Contents::new();
        for changes in &account.acknowledged {
            apply(&mut acknowledged, changes);
        }
        let found = contents(&store);
        assert!(acknowledged.keys().all(|key| found.contains_key(key)), "round {round}: {found:?}");
        store.put(key("new"), Value::new(vec![1]).unwrap(), Precondition::Absent).expect("it writes");
    }
}

/// What the child said before it died.
#[derive(Debug, Default)]
struct Account {
    epoch: Option<u64>,
    acknowledged: Vec<Changes>,
    in_flight: Option<Changes>,
}

/// Runs the child until it has said `kill_after` lines, and kills it while it does what comes next.
fn run_and_kill(dir: &Path, seed: u64, kill_after: usize) -> Account {
    let mut child = Command::new(env::current_exe().expect("this binary"))
        .args(["--exact", "crash::child_that_writes_until_it_is_killed", "--ignored", "--nocapture"])
        .env(DIR, dir)
        .env(CHILD_SEED, seed.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the child starts");
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut account = Account::default();
    let mut said = 0;
    let mut killed = false;
    loop {
        let mut line = String::new();
        out.read_line(&mut line).expect("text");
        // The last line may be cut off by the kill; without its end it was not said.
        let Some(line) = line.strip_suffix('\n') else { break };
        let Some((_, said_now)) = line.split_once("child: ") else { continue };
        take_down(&mut account, said_now);
        if said == kill_after && !killed {
            child.kill().expect("it is alive");
            killed = true;
        }
        said += 1;
    }
    assert!(killed, "the child ended by itself after {said} lines");
    child.wait().expect("it was killed");
    account
}

fn take_down(account: &mut Account, line: &str) {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("open", _) => {}
        ("epoch", number) => account.epoch = Some(number.parse().expect("a number")),
        ("begin", changes) => account.in_flight = Some(changes.split(' ').map(change).collect()),
        ("done", _) => account.acknowledged.push(account.in_flight.take().expect("it began")),
        _ => panic!("the child said {line:?}"),
    }
}

/// `KEY=LENGTH`, or `KEY=` for a deletion.
fn change(text: &str) -> (String, Option<usize>) {
    let (key, length) = text.split_once('=').expect("a change");
    (key.to_owned(), (!length.is_empty()).then(|| length.parse().expect("a length")))
}

fn apply(contents: &mut Contents, changes: &Changes) {
    for (key, length) in changes {
        match length {
            Some(length) => contents.insert(key.clone(), *length),
            None => contents.remove(key),
        };
    }
}

fn contents(store: &Embedded) -> Contents {
    let read = |record: panelboard_server::store::Record| {
        let key = record.key.as_str().to_owned();
        let bytes = record.value.as_bytes();
        assert!(bytes.iter().all(|byte| Some(byte) == key.as_bytes().last()), "{key} holds something else");
        (key, bytes.len())
    };
    store.scan_all("").expect("a scan").into_iter().map(read).collect()
}

#[test]
#[ignore = "the child process of the crash tests"]
fn child_that_writes_until_it_is_killed() {
    let (Some(dir), Ok(seed)) = (env::var_os(DIR).map(PathBuf::from), env::var(CHILD_SEED)) else { return };
    let mut rng = StdRng::seed_from_u64(seed.parse().expect("a seed"));
    say("open");
    let store = Embedded::open(&dir, StoreId::from_u128(rng.random())).expect("it opens");
    say(&format!("epoch {}", store.next_epoch(0).expect("an epoch")));
    let mut versions: BTreeMap<String, Version> = store
        .scan_all("")
        .unwrap()
        .into_iter()
        .map(|record| (record.key.to_string(), record.version))
        .collect();
    loop {
        let mut changes: BTreeMap<String, Option<usize>> = BTreeMap::new();
        for _ in 0..rng.random_range(1..6) {
            let key = format!("k{:02}", rng.random_range(0..60));
            let delete = versions.contains_key(&key) && rng.random_ratio(1, 4);
            changes.insert(key, (!delete).then(|| rng.random_range(0..3_000)));
        }
        let words: Vec<String> = changes
            .iter()
            .map(|(key, length)| {
                format!("{key}={}", length.map_or(String::new(), |length| length.to_string()))
            })
            .collect();
        say(&format!("begin {}", words.join(" ")));
        let writes = changes.iter().map(|(at, length)| match length {
            Some(length) => Write::Put {
                key: key(at),
                value: Value::new(vec![at.as_bytes()[at.len() - 1]; *length]).unwrap(),
                when: versions.get(at).map_or(Precondition::Absent, |version| Precondition::At(*version)),
            },
            None => Write::Delete { key: key(at), at: versions[at] },
        });
        let version = store.commit(&batch(writes)).expect("nobody else writes");
        for (key, length) in changes {
            match length {
                Some(_) => versions.insert(key, version),
                None => versions.remove(&key),
            };
        }
        say("done");
    }
}

/// Past the harness's own capture, and out of this process before going on.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "child: {line}").and_then(|()| out.flush()).expect("the parent listens");
}
