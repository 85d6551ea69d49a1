//! Which lane is whose: each thread has a number, the same at every breaker, for as long as it lives.

use std::{
    cell::Cell,
    collections::BTreeSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Threads that have a lane at the same time. One more counts under a lock.
pub const THREADS_MAX: usize = 1_024;

/// Not asked yet.
const UNKNOWN: u32 = u32::MAX;
/// There is none for this thread.
const NONE: u32 = u32::MAX - 1;

thread_local! {
    /// Constant at first and without a destructor: reading it is one load.
    static LANE: Cell<u32> = const { Cell::new(UNKNOWN) };
    /// Gives the number back at the thread's end.
    static LEASE: Lease = const { Lease };
}

/// Numbers that were given back.
static FREE: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
/// Numbers that were ever given out.
static GIVEN: AtomicUsize = AtomicUsize::new(0);

struct Lease;

impl Drop for Lease {
    fn drop(&mut self) {
        // From here on another thread may have the number: what this one still drops is counted under a lock.
        let lane = LANE.replace(NONE);
        if lane < NONE {
            FREE.lock().unwrap_or_else(PoisonError::into_inner).insert(lane);
        }
    }
}

/// This thread's number; none if too many threads have one, or if the thread is at its end.
#[inline]
pub fn lane_of_this_thread() -> Option<usize> {
    match LANE.get() {
        UNKNOWN => take(),
        NONE => None,
        lane => Some(lane as usize),
    }
}

/// How many numbers were ever given out: lanes from there on are empty.
pub(crate) fn lanes_given() -> usize {
    GIVEN.load(Ordering::Acquire)
}

#[cold]
#[inline(never)]
fn take() -> Option<usize> {
    // A thread at its end, whose lease is gone already, gets none.
    let may = LEASE.try_with(|_| ()).is_ok();
    let lane = if may { next() } else { None };
    LANE.set(lane.unwrap_or(NONE));
    lane.map(|lane| lane as usize)
}

fn next() -> Option<u32> {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(lane) = free.pop_first() {
        return Some(lane);
    }
    let given = GIVEN.load(Ordering::Relaxed);
    if given >= THREADS_MAX {
        return None;
    }
    // Under the lock: nobody else counts it up.
    GIVEN.store(given + 1, Ordering::Release);
    u32::try_from(given).ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_number_and_the_next_one_gets_it() {
        let mine = lane_of_this_thread().unwrap();
        assert_eq!(lane_of_this_thread(), Some(mine));
        let theirs = || std::thread::spawn(|| lane_of_this_thread().unwrap()).join().unwrap();
        let before = lanes_given();
        for _ in 0..50 {
            assert_ne!(theirs(), mine);
        }
        // Other tests of this process have threads too.
        assert!(lanes_given() < before + 40, "numbers are used again");
    }
}
