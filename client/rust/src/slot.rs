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
use panelboard_hotpath::{Collector, Gate, Judged, Kind, Lane, Lanes, Pace, Pass, Word};
use tokio::sync::oneshot;

use crate::{
    cell::{Ask, Cell, Refusal, Step, Ticket},
    clock::Mark,
    codebook::{Code, CodeBook, NO_CAUSE, is_plain},
    fact::Said,
    gather::Gather,
    limits::{BRISK_FOR, LOOK, LOOK_BRISK, WAITERS_MAX},
    metrics::BreakerMeter,
    mode::Mode,
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

/// The answer to a call: it passes by this word, timed from there, or is turned away by it. Two registers, so that the
/// way of every call does not go through memory.
#[derive(Clone, Copy, Debug)]
struct Answer {
    word: Word,
    began: Mark,
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
    pub(crate) meter: BreakerMeter,
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
    /// The word turns calls away: its hint to come again grows old.
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
        let plate = Plate::of(name.as_str());
        let slot = Arc::new_cyclic(|me| Self {
            gate: Gate::new(),
            lanes: Lanes::new(),
            pace: Pace::new(),
            book: ArcSwap::new(CodeBook::plain()),
            slower_than: AtomicU64::new(u64::MAX),
            meter: BreakerMeter::new(plate.name()),
            plate,
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

    /// Asks for leave to make one call. In CLOSED and OPEN the word says all, and nothing but this is on a call's way.
    #[inline]
    pub(crate) fn ask(&self) -> Result<Permit<'_>, Rejected> {
        let word = self.gate.read();
        if word.passes_plainly() {
            return Ok(Permit::new(self, word, Mark::UNTIMED));
        }
        let answer = self.at_the_gate(word).unwrap_or_else(|| self.answer_closer());
        if answer.word.passes() {
            Ok(Permit::new(self, answer.word, answer.began))
        } else {
            Err(Rejected::at_the_gate(self.plate, answer.word))
        }
    }

    #[inline]
    fn at_the_gate(&self, word: Word) -> Option<Answer> {
        if word.rejects() {
            self.lane()?.rejected(word, || self.gate.read());
            return Some(Answer { word, began: Mark::UNTIMED });
        }
        word.passes().then(|| timed(word))
    }

    #[inline(never)]
    fn answer_closer(&self) -> Answer {
        match self.admit() {
            Ok(permit) => {
                let (word, began) = permit.into_parts();
                Answer { word, began }
            }
            Err(no) => Answer { word: self.turn_away(&no), began: Mark::UNTIMED },
        }
    }

    /// A call is turned away for good. In shadow mode that is only counted, and the call passes.
    pub(crate) fn turn_away(&self, no: &No) -> Word {
        if !no.counted {
            self.with(Cell::rejected);
            self.meter.turned_away(&no.rejected);
        }
        if self.post.mode == Mode::Shadow {
            let reason = no.rejected.reason();
            tracing::debug!(breaker = self.name.as_str(), %reason, "would have rejected");
            let tag = no.rejected.word().tag();
            return Word::pass(Pass { tag, counted: false, timed: false, settled: false, plain: true });
        }
        no.rejected.word()
    }

    /// The same as [`turn_away`](Self::turn_away), as a call has it.
    pub(crate) fn turned_away(&self, no: &No) -> Result<Permit<'_>, Rejected> {
        let word = self.turn_away(no);
        if word.passes() { Ok(Permit::new(self, word, Mark::UNTIMED)) } else { Err(no.rejected) }
    }

    /// Asks for leave to make one call, without turning it away yet: it may wait for a probe.
    pub(crate) fn admit(&self) -> Result<Permit<'_>, No> {
        let Some(Answer { word, began }) = self.at_the_gate(self.gate.read()) else {
            return self.look_closer();
        };
        if word.passes() {
            return Ok(Permit::new(self, word, began));
        }
        let rejected = Rejected::at_the_gate(self.plate, word);
        Err(No { rejected, asked_at: None, counted: true })
    }

    /// A success in the lane of this thread. False: it has none.
    #[inline]
    pub(crate) fn count_success(&self, word: Word) -> bool {
        let Some(lane) = self.lane() else { return false };
        lane.success(word, || self.gate.read());
        true
    }

    /// A call that succeeded; it may be one that is timed.
    #[inline(never)]
    pub(crate) fn succeed(&self, word: Word, began: Mark) {
        if word.is_counted()
            && word.probe() == 0
            && began.nanos() <= self.slower_than.load(Ordering::Relaxed)
            && self.count_success(word)
        {
            return;
        }
        self.end(word, Said::Success, began);
    }

    /// What became of a call.
    #[inline(never)]
    pub(crate) fn end(&self, word: Word, said: Said<'_>, began: Mark) {
        if !word.is_counted() {
            return;
        }
        let took = if word.is_timed() { began.nanos() } else { 0 };
        let lane = if word.probe() == 0 { self.lane() } else { None };
        match lane {
            Some(lane) => self.count(lane, word, self.code(word, said), took),
            None => self.record(word, said, Duration::from_nanos(took)),
        }
    }

    fn count(&self, lane: &Lane, word: Word, code: Code, took: u64) {
        let current = || self.gate.read();
        let slow = took > self.slower_than.load(Ordering::Relaxed);
        let Code { outcome, cause, edition } = code;
        let judge = |kind| lane.judged(word, Judged { kind, slow, cause, book: edition }, current);
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
        let may_trip = outcome == Some(Outcome::Failure) || outcome == Some(Outcome::Success) && slow;
        if may_trip && (word.is_settled() || !self.pace.is_brisk()) {
            self.with(|_, _| ());
        }
    }

    /// The dependency asked to be left alone.
    pub(crate) fn hint(&self, word: Word, span: Duration) {
        if !word.is_counted() {
            return;
        }
        match self.lane() {
            Some(lane) if word.probe() == 0 => {
                let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
                lane.retry_after(word, millis, || self.gate.read());
            }
            _ => self.with(|cell, now| cell.hinted(word.tag(), word.probe(), span, now)),
        }
    }

    /// What a fact means by the policy that admitted the call.
    #[inline]
    fn code(&self, word: Word, said: Said<'_>) -> Code {
        match said {
            Said::Success => Code::SUCCESS,
            Said::Abandoned => Code::ABANDONED,
            said if word.is_plain() => CodeBook::plainly().code(said),
            said => self.book.load().code(said),
        }
    }

    #[inline]
    fn lane(&self) -> Option<&Lane> {
        self.lanes.mine()
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
            Ok(_) => Ok(Permit::new(self, word, Mark::now())),
            Err(refusal) => {
                let asked_at = refusal.asked_at;
                Err(No { rejected: self.rejected(refusal), asked_at, counted: false })
            }
        }
    }

    /// What became of a call that cannot be counted in a lane.
    #[cold]
    #[inline(never)]
    pub(crate) fn record(&self, word: Word, said: Said<'_>, took: Duration) {
        let probe = (word.probe() != 0).then_some(word.probe());
        let ticket = Ticket { stretch: word.tag(), counted: word.is_counted(), probe };
        self.with(|cell, now| cell.record(ticket, said, took, None, now));
        self.meter.admitted();
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
        self.meter.collected(tally.outcomes());
        if tally.has_trouble() {
            inside.brisk_until = now.plus(BRISK_FOR);
            self.pace.quicken();
        }
        inside.cell.collect(tally, now);
    }

    /// Leaves the gate with what the cell says now.
    fn show(&self, inside: &mut Inside, now: Timestamp) {
        let cell = &inside.cell;
        self.meter.knows(cell.freshness(), cell.is_unknown(), cell.oldest_probe());
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
        self.meter.shows(word);
        let shadowed = word.rejects() && self.post.mode != Mode::Enforce;
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
                Some(decided.map(|ticket| word_of(cell, ticket)))
            });
            let Some(decided) = decided else { return };
            let Some(waiter) = waiters.pop_front() else { return };
            drop(waiters);
            let answer = match decided {
                Ok(word) => Ok(Permit::new(self, word, Mark::now()).into_owned()),
                Err(refusal) => {
                    self.with(Cell::rejected);
                    let rejected = self.rejected(refusal);
                    self.meter.turned_away(&rejected);
                    Err(rejected)
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
        let Refusal { reason, freshness, no_probe, .. } = refusal;
        let sentence = self.plate.put(&refusal.explanation);
        Rejected::looked_at(self.plate, reason, no_probe, freshness, sentence, refusal.retry_after)
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

/// It passes, and the time counts.
#[inline(never)]
fn timed(word: Word) -> Answer {
    let began = if word.is_timed() { Mark::now() } else { Mark::UNTIMED };
    Answer { word, began }
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
    .with_probe(ticket.probe.unwrap_or(0))
}

/// A panic of another thread under the lock leaves a cell that is still whole: each of its steps is.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
