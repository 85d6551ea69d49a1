//! Every interleaving of a caller and the client's thread, as far as the memory model allows it.
//!
//! Built only with `RUSTFLAGS="--cfg loom"`, as `tests/run loom` does; else it is empty.

#![cfg(loom)]

use std::sync::Arc;

use loom::{sync::atomic::AtomicBool, sync::atomic::Ordering, thread};
use panelboard_hotpath::{Gate, Judged, Kind, Lane, Pace, Pass, Piece, Seen, Word};

fn word(tag: u32) -> Word {
    Word::pass(Pass { tag, counted: true, timed: false, settled: false, plain: true })
}

fn failure(cause: u16) -> Judged {
    Judged { kind: Kind::Failure, slow: false, cause, book: 0 }
}

/// Successes and failures.
type Sum = (u64, u64);

fn look(seen: &mut Seen, lane: &Lane, tag: u32) -> Sum {
    let mut sum = (0, 0);
    seen.look(lane, word(tag), &mut |piece| match piece {
        Piece::Successes(n) => sum.0 += n,
        Piece::Judged(_, n) => sum.1 += n,
        _ => {}
    });
    sum
}

fn add(a: Sum, b: Sum) -> Sum {
    (a.0 + b.0, a.1 + b.1)
}

#[test]
fn everything_is_collected_exactly_once() {
    loom::model(|| {
        let lane = Arc::new(Lane::new());
        let caller = {
            let lane = Arc::clone(&lane);
            thread::spawn(move || {
                let current = || word(0);
                lane.judged(word(0), failure(1), current);
                lane.judged(word(0), failure(1), current);
                lane.success(word(0), current);
                lane.judged(word(0), failure(2), current);
            })
        };
        let mut seen = Seen::default();
        let mut sum = look(&mut seen, &lane, 0);
        sum = add(sum, look(&mut seen, &lane, 0));
        caller.join().unwrap();
        sum = add(sum, look(&mut seen, &lane, 0));
        assert_eq!(sum, (1, 3));
        assert_eq!(look(&mut seen, &lane, 0), (0, 0));
    });
}

#[test]
fn a_ring_that_is_full_loses_no_failure() {
    loom::model(|| {
        let lane = Arc::new(Lane::new());
        let caller = {
            let lane = Arc::clone(&lane);
            thread::spawn(move || {
                for cause in 1..=4 {
                    lane.judged(word(0), failure(cause), || word(0));
                }
            })
        };
        let mut seen = Seen::default();
        let mut sum = look(&mut seen, &lane, 0);
        caller.join().unwrap();
        sum = add(sum, look(&mut seen, &lane, 0));
        assert_eq!(sum, (0, 4));
    });
}

#[test]
fn no_outcome_is_taken_for_one_of_a_later_stretch() {
    loom::model(|| {
        let (gate, lane) = (Arc::new(Gate::new()), Arc::new(Lane::new()));
        gate.set(word(1));
        let caller = {
            let (gate, lane) = (Arc::clone(&gate), Arc::clone(&lane));
            thread::spawn(move || {
                // Two calls: the permits are taken first, so that the stretch may end in between.
                let permits = [gate.read(), gate.read()];
                for permit in permits {
                    lane.success(permit, || gate.read());
                }
                permits.into_iter().filter(|permit| permit.tag() == 2).count() as u64
            })
        };
        let mut seen = Seen::default();
        // The client's thread: what was counted before, then the next stretch, then what is counted in that.
        let before = look(&mut seen, &lane, 1);
        gate.set(word(2));
        let mut after = look(&mut seen, &lane, 2);
        let admitted_after = caller.join().unwrap();
        after = add(after, look(&mut seen, &lane, 2));
        assert!(before.0 <= 2);
        assert_eq!(after, (admitted_after, 0), "all that was admitted in it, and nothing else");
    });
}

#[test]
fn a_failure_is_seen_by_the_last_look_or_told() {
    loom::model(|| {
        let (pace, lane) = (Arc::new(Pace::new()), Arc::new(Lane::new()));
        let told = Arc::new(AtomicBool::new(false));
        pace.quicken();
        let caller = {
            let (pace, lane, told) = (Arc::clone(&pace), Arc::clone(&lane), Arc::clone(&told));
            thread::spawn(move || {
                lane.judged(word(0), failure(1), || word(0));
                if !pace.is_brisk() {
                    told.store(true, Ordering::Relaxed);
                }
            })
        };
        let mut seen = Seen::default();
        pace.rest();
        let last = look(&mut seen, &lane, 0);
        caller.join().unwrap();
        assert!(last.1 == 1 || told.load(Ordering::Relaxed), "nobody looks any more");
    });
}
