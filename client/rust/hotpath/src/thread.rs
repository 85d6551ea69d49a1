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
pub(crate) const UNKNOWN: usize = usize::MAX;
/// There is none for this thread: past every lane.
const NONE: usize = usize::MAX - 1;

thread_local! {
    /// Constant at first and without a destructor: reading it is one load.
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
    /// Gives the number back at the thread's end.
    static LEASE: Lease = const { Lease };
}

/// Numbers that were given back.
static FREE: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
/// Numbers that were ever given out.
static GIVEN: AtomicUsize = AtomicUsize::new(0);

struct Lease;

impl Drop for Lease {
    fn drop(&mut self) {
        // From here on another thread may have the number: what this one still drops is counted under a lock.
        let number = NUMBER.replace(NONE);
        if number < NONE {
            FREE.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
        }
    }
}

/// This thread's number, or one of the two above, which are past every lane.
#[inline]
pub(crate) fn number_of_this_thread() -> usize {
    NUMBER.get()
}

/// How many numbers were ever given out: lanes from there on are empty.
pub(crate) fn lanes_given() -> usize {
    GIVEN.load(Ordering::Acquire)
}

/// Takes a number for this thread.
#[cold]
pub(crate) fn take() -> Option<usize> {
    // A thread at its end, whose lease is gone already, gets none.
    let may = LEASE.try_with(|_| ()).is_ok();
    let number = if may { next() } else { None };
    NUMBER.set(number.unwrap_or(NONE));
    number
}

fn next() -> Option<usize> {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(number) = free.pop_first() {
        return Some(number);
    }
    let given = GIVEN.load(Ordering::Relaxed);
    // Under the lock: nobody else counts it up.
    (given < THREADS_MAX).then(|| {
        GIVEN.store(given + 1, Ordering::Release);
        given
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn mine() -> usize {
        match number_of_this_thread() {
            UNKNOWN => take().unwrap(),
            number => number,
        }
    }

    #[test]
    fn a_thread_keeps_its_number_and_the_next_one_gets_it() {
        let ours = mine();
        assert_eq!((number_of_this_thread(), mine()), (ours, ours));
        let before = lanes_given();
        for _ in 0..50 {
            assert_ne!(std::thread::spawn(mine).join().unwrap(), ours);
        }
        // Other tests of this process have threads too.
        assert!(lanes_given() < before + 40, "numbers are used again");
    }
}
