//! One breaker as its handles, its permits and the agent share it.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use panelboard_core::{BreakerName, Timestamp};
use tokio::sync::oneshot;

use crate::{
    cell::{Ask, Cell, Refusal, Step, Ticket},
    limits::WAITERS_MAX,
    permit::Permit,
    post::Post,
    rejected::Rejected,
    word::Word,
};

/// A call that waits for a probe.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) until: Timestamp,
    pub(crate) answer: oneshot::Sender<Result<Permit, Rejected>>,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: BreakerName,
    pub(crate) post: Arc<Post>,
    word: AtomicU64,
    /// A std mutex: it is held for short computations only and never across an await.
    cell: Mutex<Cell>,
    waiters: Mutex<VecDeque<Waiter>>,
    /// When the agent will look at it next, in milliseconds.
    planned: AtomicU64,
    /// It lies in the agent's mail already.
    pub(crate) mailed: AtomicBool,
}

impl Slot {
    pub(crate) fn new(name: BreakerName, cell: Cell, post: Arc<Post>) -> Self {
        let slot = Self {
            name,
            word: AtomicU64::new(Word::SHUT.0),
            cell: Mutex::new(cell),
            waiters: Mutex::default(),
            planned: AtomicU64::new(u64::MAX),
            mailed: AtomicBool::new(false),
            post,
        };
        slot.peek(|_, _| ());
        slot
    }

    /// Asks for leave to make one call.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Ticket, Refusal> {
        let now = self.post.clock.now();
        if let Some((stretch, counted)) = Word(self.word.load(Ordering::Acquire)).passes(now) {
            return Ok(Ticket { stretch, counted, probe: None });
        }
        self.with(Cell::admit)
    }

    /// Turns a call away.
    pub(crate) fn reject(self: &Arc<Self>, refusal: Refusal) -> Rejected {
        self.with(Cell::rejected);
        self.rejected(refusal)
    }

    /// Works on the cell, and lets the agent know if that made something due.
    pub(crate) fn with<T>(self: &Arc<Self>, work: impl FnOnce(&mut Cell, Timestamp) -> T) -> T {
        let (result, due) = self.peek(work);
        if due.is_some_and(|due| due.as_millis() < self.planned.load(Ordering::Acquire)) {
            self.post.mail(self);
        }
        result
    }

    /// Works on the cell without a word to the agent: what the agent itself does, and what only looks.
    fn peek<T>(&self, work: impl FnOnce(&mut Cell, Timestamp) -> T) -> (T, Option<Timestamp>) {
        let mut cell = lock(&self.cell);
        // Read under the lock, so that a cell sees time in order.
        let now = self.post.clock.now();
        let result = work(&mut cell, now);
        let word = cell.door(now).map_or(Word::SHUT, Word::open);
        self.word.store(word.0, Ordering::Release);
        (result, cell.due())
    }

    /// The agent's turn: does what is due and serves those who wait. Returns what to send and when to come back.
    pub(crate) fn step(self: &Arc<Self>, may_send: bool) -> (Step, Option<Timestamp>) {
        let (step, _) = self.peek(|cell, now| cell.step(now, may_send));
        self.serve();
        let waiters = lock(&self.waiters);
        let cell = lock(&self.cell);
        let waits = waiters.iter().map(|waiter| waiter.until).min();
        let due = [cell.due(), waits].into_iter().flatten().min();
        // Under the lock, so that whoever makes something due from here on sees it and sends mail.
        self.planned.store(due.map_or(u64::MAX, Timestamp::as_millis), Ordering::Release);
        (step, due)
    }

    /// The agent's work on the cell. It comes back with [`step`](Self::step) by itself.
    pub(crate) fn update<T>(&self, work: impl FnOnce(&mut Cell, Timestamp) -> T) -> T {
        self.peek(work).0
    }

    /// Lines up for a probe. False: the line is too long, or the client has ended.
    pub(crate) fn wait(self: &Arc<Self>, waiter: Waiter) -> bool {
        let mut waiters = lock(&self.waiters);
        // Looked at under the lock: an agent that ends sends away whoever was in the line before.
        if waiters.len() >= WAITERS_MAX || self.post.is_closed() {
            return false;
        }
        waiters.push_back(waiter);
        drop(waiters);
        self.post.mail(self);
        true
    }

    /// Serves those who wait, in order, as far as there is an answer.
    fn serve(self: &Arc<Self>) {
        loop {
            let mut waiters = lock(&self.waiters);
            let Some(first) = waiters.front() else { return };
            let until = first.until;
            if first.answer.is_closed() {
                waiters.pop_front();
                continue;
            }
            let (decided, _) = self.peek(|cell, now| {
                let decided = cell.admit(now);
                let waits = match (&decided, cell.is_asking()) {
                    (Ok(_), _) | (_, Ask::Idle) => false,
                    (_, Ask::InFlight) => now < until,
                    (_, Ask::At(at)) => now < until && at <= until,
                };
                (!waits).then_some(decided)
            });
            let Some(decided) = decided else { return };
            let Some(waiter) = waiters.pop_front() else { return };
            drop(waiters);
            let answer = match decided {
                Ok(ticket) => Ok(Permit::new(Arc::clone(self), ticket)),
                Err(refusal) => {
                    self.update(Cell::rejected);
                    Err(self.rejected(refusal))
                }
            };
            // Nobody there any more: a permit that comes back is abandoned, and with it its probe.
            drop(waiter.answer.send(answer));
        }
    }

    /// Sends everybody away: the client ends.
    pub(crate) fn dismiss(&self) {
        lock(&self.waiters).clear();
    }

    fn rejected(&self, refusal: Refusal) -> Rejected {
        Rejected {
            breaker: self.name.shared(),
            reason: refusal.reason,
            retry_after: refusal.retry_after,
            freshness: refusal.freshness,
            explanation: refusal.explanation,
            no_probe: refusal.no_probe,
        }
    }
}

/// A panic of another thread under the lock leaves a cell that is still whole: each of its steps is.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
