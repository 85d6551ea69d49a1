//! Batches of calls, and rounds in which every contestant has one batch.

use std::{
    hint::black_box,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use crate::{call::Call, plan::Plan, seat::Seat};

/// What must become of every call of a batch. A batch with another end measured something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Admitted,
    Rejected,
}

/// Makes so many calls per thread and says how long they took, from the start of the first to the end of the last.
type Batch<'a> = Box<dyn FnMut(u64) -> Duration + 'a>;

/// One contestant of the rounds.
pub(crate) struct Side<'a> {
    pub(crate) seat: Seat,
    batch: Batch<'a>,
    threads: u64,
    calls: u64,
    /// Nanoseconds per call, one figure per round.
    pub(crate) figures: Vec<f64>,
}

impl<'a> Side<'a> {
    /// One thread.
    pub(crate) fn alone(seat: Seat, mut caller: impl Call + 'a, expected: Expected) -> Self {
        Self::new(seat, 1, Box::new(move |calls| spin(&mut caller, calls, expected)))
    }

    /// Two threads that share one breaker.
    pub(crate) fn together<C: Call + Send>(seat: Seat, make: impl Fn() -> C + 'a) -> Self {
        Self::new(seat, 2, Box::new(move |calls| spin_together([make(), make()], calls)))
    }

    fn new(seat: Seat, threads: u64, batch: Batch<'a>) -> Self {
        Self { seat, batch, threads, calls: 1_000, figures: Vec::new() }
    }

    /// Warms up, and finds how many calls fill a batch. The best of three tells, for one alone may have been disturbed.
    fn calibrate(&mut self, batch: Duration) {
        loop {
            let took = (0..3).map(|_| (self.batch)(self.calls)).min().unwrap_or_default();
            if took * 2 >= batch {
                let scale = batch.as_secs_f64() / took.as_secs_f64();
                self.calls = ((self.calls as f64 * scale) as u64).max(1);
                return;
            }
            self.calls *= 2;
        }
    }

    /// Wall time by the calls of all threads.
    fn measure(&mut self) -> f64 {
        (self.batch)(self.calls).as_nanos() as f64 / (self.calls * self.threads) as f64
    }
}

/// Lets all sides take turns. `is_sound` is asked before and after each round; a round that was not is done again.
pub(crate) fn rounds(
    sides: &mut [Side<'_>],
    plan: Plan,
    mut is_sound: impl FnMut() -> bool,
) -> Result<(), String> {
    for side in &mut *sides {
        side.calibrate(plan.batch);
    }
    let mut left = plan.rounds;
    // A machine on which every second round is void is not fit to measure on.
    for _ in 0..2 * plan.rounds {
        let sound_before = is_sound();
        let figures: Vec<f64> = sides.iter_mut().map(Side::measure).collect();
        if sound_before && is_sound() {
            for (side, figure) in sides.iter_mut().zip(figures) {
                side.figures.push(figure);
            }
            left -= 1;
        }
        if left == 0 {
            return Ok(());
        }
    }
    Err(format!(
        "of {} rounds {left} were void: the client was not FRESH; try on a machine with less to do",
        2 * plan.rounds
    ))
}

#[inline(never)]
fn spin(caller: &mut impl Call, calls: u64, expected: Expected) -> Duration {
    let began = Instant::now();
    let mut admitted = 0;
    for _ in 0..calls {
        admitted += u64::from(caller.succeed());
    }
    let took = began.elapsed();
    let wanted = if expected == Expected::Admitted { calls } else { 0 };
    assert_eq!(black_box(admitted), wanted, "of {calls} calls that were to be {expected:?}");
    took
}

fn spin_together(callers: [impl Call + Send; 2], calls: u64) -> Duration {
    let start = Barrier::new(callers.len());
    let spans = thread::scope(|scope| {
        let mut cores = 0..callers.len();
        let threads = callers.map(|mut caller| {
            let (start, core) = (&start, cores.next().unwrap_or(0));
            scope.spawn(move || {
                stay_on(core);
                start.wait();
                let began = Instant::now();
                spin(&mut caller, calls, Expected::Admitted);
                (began, Instant::now())
            })
        });
        threads.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let [(began, ended), (began_too, ended_too)] = spans;
    ended.max(ended_too) - began.min(began_too)
}

/// Keeps this thread on one core, so that two threads really run at once: left alone, they often share a core for as
/// long as a batch takes, and then share nothing else.
fn stay_on(core: usize) {
    #[cfg(target_os = "linux")]
    {
        let mut cores = rustix::thread::CpuSet::new();
        cores.set(core);
        // Where it may not choose its cores, the scheduler chooses.
        let _ = rustix::thread::sched_setaffinity(None, &cores);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = core;
}
