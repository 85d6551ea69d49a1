//! One breaker as its handles, its permits and the agent share it.
//!
//! Calls see the gate and their threads' lanes. Behind them is the cell, which decides everything, under a lock that
//! only the agent, probes and rare closer looks take. Whoever takes it first collects what the lanes have, and leaves
//! the gate with what the cell then says.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use panelboard_core::{BreakerName, Outcome, Policy, Timestamp};
use panelboard_hotpath::{
    Collector, Gate, Judged, Kind, Lane, Lanes, Look, Pace, Pass, Word, lane_of_this_thread,
};
use tokio::sync::oneshot;

use crate::{
    cell::{Ask, Cell, Refusal, Step, Ticket},
    codebook::{Code, CodeBook, NO_CAUSE, is_plain},
    fact::Said,
    gather::Gather,
    limits::{BRISK_FOR, LOOK, LOOK_BRISK, WAITERS_MAX},
    permit::Permit,
    plate::Plate,
    post::Post,
    rejected::Rejected,
    state::Freshness,
    word::word,
};

/// A call that waits for a probe.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) until: Timestamp,
    pub(crate) answer: oneshot::Sender<Result<Permit<'static>, Rejected>>,
}

/// What a closer look came to for a call that may not be made.
#[derive(Debug)]
pub(crate) struct No {
    pub(crate) rejected: Rejected,
    /// A probe is or will be asked for: the answer may be there soon after this.
    pub(crate) asked_at: Option<Timestamp>,
    /// It is counted already.
    counted: bool,
}

#[derive(Debug)]
pub(crate) struct Slot {
    gate: Gate,
    lanes: Lanes,
    pace: Pace,
    book: ArcSwap<CodeBook>,
    /// A call that took longer was slow, in nanoseconds.
    slower_than: AtomicU64,
    plate: &'static Plate,
    pub(crate) name: BreakerName,
    pub(crate) post: Arc<Post>,
    /// A std mutex: it is held for short computations only and never across an await.
    inside: Mutex<Inside>,
    waiters: Mutex<VecDeque<Waiter>>,
    /// When the agent will look at it next, in milliseconds.
    planned: AtomicU64,
    /// What the lanes looked like when they were last collected.
    collected: AtomicU64,
    /// It lies in the agent's mail already.
    pub(crate) mailed: AtomicBool,
    me: Weak<Self>,
}

/// What the lock protects.
#[derive(Debug)]
struct Inside {
    cell: Cell,
    collector: Collector,
    collected_at: Timestamp,
    /// Until then the agent looks often, because something may trip.
    brisk_until: Timestamp,
    /// When the word must be looked at again at the latest.
    word_until: Option<Timestamp>,
    /// Calls are turned away until then.
    shut: bool,
    /// The policy that the code book is of.
    booked: Option<Arc<Policy>>,
    /// The edition of the code book.
    edition: u8,
}

impl Slot {
    pub(crate) fn new(name: BreakerName, cell: Cell, post: Arc<Post>) -> Arc<Self> {
        let inside = Inside {
            cell,
            collector: Collector::default(),
            collected_at: Timestamp::ZERO,
            brisk_until: Timestamp::ZERO,
            word_until: None,
            shut: false,
            booked: None,
            edition: 0,
        };
        let slot = Arc::new_cyclic(|me| Self {
            gate: Gate::new(),
            lanes: Lanes::new(),
            pace: Pace::new(),
            book: ArcSwap::new(CodeBook::plain()),
            slower_than: AtomicU64::new(u64::MAX),
            plate: Plate::of(name.as_str()),
            name,
            post,
            inside: Mutex::new(inside),
            waiters: Mutex::default(),
            planned: AtomicU64::new(u64::MAX),
            collected: AtomicU64::new(0),
            mailed: AtomicBool::new(false),
            me: Weak::clone(me),
        });
        slot.peek(|_, _| ());
        slot
    }

    /// For a permit that outlives its handle's borrow.
    pub(crate) fn shared(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    // What every call does.

    /// Asks for leave to make one call.
    #[inline]
    pub(crate) fn admit(&self) -> Result<Permit<'_>, No> {
        let word = self.gate.read();
        if word.passes() {
            return Ok(Permit::admitted(self, word));
        }
        self.turn_away(word)
    }

    #[inline]
    fn turn_away(&self, word: Word) -> Result<Permit<'_>, No> {
        if let Look::Reject(reject) = word.look()
            && let Some(lane) = self.lane()
        {
            lane.rejected(word, || self.gate.read());
            let rejected = Rejected::at_the_gate(self.plate, reject);
            return Err(No { rejected, asked_at: None, counted: true });
        }
        self.look_closer()
    }

    /// A success in the lane of this thread. False: it has none.
    #[inline]
    pub(crate) fn count_success(&self, word: Word) -> bool {
        let Some(lane) = self.lane() else { return false };
        lane.success(word, || self.gate.read());
        true
    }

    /// What became of a call, in the lane of this thread. False: it has none.
    #[inline]
    pub(crate) fn count(
        &self,
        word: Word,
        code: Code,
        took: Duration,
        retry_after: Option<Duration>,
    ) -> bool {
        let Some(lane) = self.lane() else { return false };
        let slow = took > Duration::ZERO
            && u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) > self.slower_than.load(Ordering::Relaxed);
        let plainly = code.cause == NO_CAUSE && retry_after.is_none() && !slow;
        match code.outcome {
            Some(Outcome::Success) if plainly => lane.success(word, || self.gate.read()),
            None if plainly => lane.abandoned(word, || self.gate.read()),
            _ => self.count_in_full(lane, word, code, slow, retry_after),
        }
        true
    }

    #[inline(never)]
    fn count_in_full(&self, lane: &Lane, word: Word, code: Code, slow: bool, retry_after: Option<Duration>) {
        let current = || self.gate.read();
        if let Some(span) = retry_after {
            lane.retry_after(word, u64::try_from(span.as_millis()).unwrap_or(u64::MAX), current);
        }
        let Code { outcome, cause } = code;
        let judge = |kind| {
            let book = self.book(word, CodeBook::edition);
            lane.judged(word, Judged { kind, slow, cause, book }, current);
        };
        match outcome {
            Some(Outcome::Success) => {
                if cause != NO_CAUSE {
                    judge(Kind::Named);
                }
                if slow {
                    lane.slow_success(word, current);
                } else {
                    lane.success(word, current);
                }
            }
            Some(Outcome::Failure) => judge(Kind::Failure),
            Some(Outcome::Ignored) if cause != NO_CAUSE => judge(Kind::Ignored),
            Some(Outcome::Ignored) => lane.ignored(word, current),
            None => lane.abandoned(word, current),
        }
        let may_trip = outcome == Some(Outcome::Failure) || outcome.is_some() && slow;
        if may_trip && (word.is_settled() || !self.pace.is_brisk()) {
            self.with(|_, _| ());
        }
    }

    /// What a fact means by the policy that admitted the call.
    #[inline]
    pub(crate) fn code(&self, word: Word, said: Said<'_>) -> Code {
        match said {
            Said::Success => Code { outcome: Some(Outcome::Success), cause: NO_CAUSE },
            Said::Abandoned => Code { outcome: None, cause: NO_CAUSE },
            said => self.book(word, |book| book.code(said)),
        }
    }

    fn book<T>(&self, word: Word, read: impl FnOnce(&CodeBook) -> T) -> T {
        if word.is_plain() { read(CodeBook::plainly()) } else { read(&self.book.load()) }
    }

    #[inline]
    fn lane(&self) -> Option<&Lane> {
        self.lanes.lane(lane_of_this_thread()?)
    }

    // Closer looks: probes, deadlines, threads without a lane.

    #[cold]
    #[inline(never)]
    fn look_closer(&self) -> Result<Permit<'_>, No> {
        let (decided, word) = self.with(|cell, now| {
            let decided = cell.admit(now);
            let word = decided.as_ref().map_or(Word::closer(0), |ticket| word_of(cell, *ticket));
            (decided, word)
        });
        match decided {
            Ok(ticket) => Ok(Permit::looked_at(self, word, ticket.probe.unwrap_or(0))),
            Err(refusal) => {
                let asked_at = refusal.asked_at;
                Err(No { rejected: self.rejected(refusal), asked_at, counted: false })
            }
        }
    }

    /// A call was turned away for good: counted, once.
    #[inline]
    pub(crate) fn count_rejected(&self, no: &No) {
        if !no.counted {
            self.with(Cell::rejected);
        }
    }

    /// What became of a call that cannot be counted in a lane.
    #[cold]
    #[inline(never)]
    pub(crate) fn record(
        &self,
        word: Word,
        probe: u64,
        said: Said<'_>,
        took: Duration,
        retry_after: Option<Duration>,
    ) {
        let probe = (probe != 0).then_some(probe);
        let ticket = Ticket { stretch: word.tag(), counted: word.is_counted(), probe };
        self.with(|cell, now| cell.record(ticket, said, took, retry_after, now));
    }

    /// Works on the cell, and lets the agent know if that made something due.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Cell, Timestamp) -> T) -> T {
        let (result, due) = self.peek(work);
        if due.is_some_and(|due| due.as_millis() < self.planned.load(Ordering::Acquire))
            && let Some(me) = self.me.upgrade()
        {
            self.post.mail(&me);
        }
        result
    }

    /// Works on the cell without a word to the agent: what the agent itself does, and what only looks.
    fn peek<T>(&self, work: impl FnOnce(&mut Cell, Timestamp) -> T) -> (T, Option<Timestamp>) {
        let mut inside = lock(&self.inside);
        // Read under the lock, so that a cell sees time in order.
        let now = self.post.clock.now();
        self.collect(&mut inside, now);
        let result = work(&mut inside.cell, now);
        self.show(&mut inside, now);
        (result, inside.due(now))
    }

    /// Takes what the lanes have.
    fn collect(&self, inside: &mut Inside, now: Timestamp) {
        // Before the lanes are read: what comes in meanwhile changes it again.
        self.collected.store(self.lanes.stamp(), Ordering::Relaxed);
        let since = inside.collected_at.max(now.minus(LOOK));
        inside.collected_at = now;
        let book = self.book.load();
        let mut gather = Gather::new(&book, since);
        let word = Word::closer(inside.cell.stretch());
        inside.collector.collect(&self.lanes, word, |piece| gather.take(piece));
        let Some(tally) = gather.done() else { return };
        if tally.has_trouble() {
            inside.brisk_until = now.plus(BRISK_FOR);
            self.pace.quicken();
        }
        inside.cell.collect(tally, now);
    }

    /// Leaves the gate with what the cell says now.
    fn show(&self, inside: &mut Inside, now: Timestamp) {
        let cell = &inside.cell;
        if self.post.is_closed() {
            // Nobody comes to flip it any more.
            return self.gate.set(Word::closer(cell.stretch()));
        }
        let policy = cell.policy();
        if inside.booked.as_ref().is_none_or(|booked| !Arc::ptr_eq(booked, policy)) {
            inside.edition = inside.edition.wrapping_add(1);
            self.book.store(CodeBook::of(&policy.spec().classification, inside.edition));
            let nanos = policy.slower_than().map(|span| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
            self.slower_than.store(nanos.unwrap_or(u64::MAX), Ordering::Relaxed);
            inside.booked = Some(Arc::clone(policy));
        }
        let (word, until) = word(cell, self.plate, now);
        (inside.word_until, inside.shut) = (until, word.rejects());
        let shadowed = word.rejects() && self.post.mode != crate::Mode::Enforce;
        self.gate.set(if shadowed { Word::closer(cell.stretch()) } else { word });
    }

    // What the agent does.

    /// The agent's turn: does what is due and serves those who wait. Returns what to send and when to come back.
    pub(crate) fn step(&self, may_send: bool) -> (Step, Option<Timestamp>) {
        if lock(&self.inside).brisk_until <= self.post.clock.now() {
            // Before the lanes are read: whoever counts something later looks for himself.
            self.pace.rest();
        }
        let (step, _) = self.peek(|cell, now| cell.step(now, may_send));
        self.serve();
        let waiters = lock(&self.waiters);
        let inside = lock(&self.inside);
        let waits = waiters.iter().map(|waiter| waiter.until).min();
        let due = [inside.due(self.post.clock.now()), waits].into_iter().flatten().min();
        // Under the lock, so that whoever makes something due from here on sees it and sends mail.
        self.planned.store(due.map_or(u64::MAX, Timestamp::as_millis), Ordering::Release);
        (step, due)
    }

    /// Whether its threads have counted anything since somebody looked.
    pub(crate) fn is_dirty(&self) -> bool {
        self.lanes.stamp() != self.collected.load(Ordering::Relaxed)
    }

    /// Lines up for a probe. False: the line is too long, or the client has ended.
    pub(crate) fn wait(&self, waiter: Waiter) -> bool {
        let mut waiters = lock(&self.waiters);
        // Looked at under the lock: an agent that ends sends away whoever was in the line before.
        if waiters.len() >= WAITERS_MAX || self.post.is_closed() {
            return false;
        }
        waiters.push_back(waiter);
        drop(waiters);
        if let Some(me) = self.me.upgrade() {
            self.post.mail(&me);
        }
        true
    }

    /// Serves those who wait, in order, as far as there is an answer.
    fn serve(&self) {
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
                if waits {
                    return None;
                }
                Some(decided.map(|ticket| (ticket, word_of(cell, ticket))))
            });
            let Some(decided) = decided else { return };
            let Some(waiter) = waiters.pop_front() else { return };
            drop(waiters);
            let answer = match decided {
                Ok((ticket, word)) => {
                    Ok(Permit::looked_at(self, word, ticket.probe.unwrap_or(0)).into_owned())
                }
                Err(refusal) => {
                    self.with(Cell::rejected);
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
        let sentence = (!refusal.explanation.is_empty()).then(|| self.plate.put(&refusal.explanation));
        Rejected {
            plate: self.plate,
            reason: refusal.reason,
            freshness: refusal.freshness,
            retry_after: refusal.retry_after.map(|span| u32::try_from(span.as_millis()).unwrap_or(u32::MAX)),
            sentence,
            no_probe: refusal.no_probe,
        }
    }
}

impl Inside {
    /// When somebody must look again at the latest, but for what threads count without a word.
    fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let brisk = (now < self.brisk_until).then(|| now.plus(LOOK_BRISK));
        // A hint to come again grows old: looked at more often the nearer it is.
        let hint = self.word_until.map(|until| {
            let step = (until.since(now) / 10).clamp(LOOK_BRISK, LOOK);
            if self.shut { until.min(now.plus(step)) } else { until }
        });
        [self.cell.due(), brisk, hint].into_iter().flatten().min()
    }
}

/// The word of a call that was admitted after a closer look.
fn word_of(cell: &Cell, ticket: Ticket) -> Word {
    Word::pass(Pass {
        tag: ticket.stretch,
        counted: ticket.counted,
        timed: true,
        settled: cell.freshness() != Freshness::Fresh,
        plain: is_plain(&cell.policy().spec().classification),
    })
}

/// A panic of another thread under the lock leaves a cell that is still whole: each of its steps is.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
