//! With the feature: what is counted, and under which names.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use ::metrics::{Counter, Gauge, Unit, counter, describe_counter, describe_gauge, gauge};
use panelboard_core::{Outcomes, Timestamp};
use panelboard_hotpath::Word;

use super::Flush;
use crate::{
    fallbacks::Missed,
    rejected::{Reason, Rejected},
    state::Freshness,
    word,
};

const DECISIONS: &str = "panelboard_client_decisions_total";
const REJECTED: &str = "panelboard_client_rejected_total";
const FALLBACKS: &str = "panelboard_client_fallbacks_total";
const FRESHNESS: &str = "panelboard_client_freshness";
const UNKNOWN: &str = "panelboard_client_unknown_breakers";
const OLDEST_PROBE: &str = "panelboard_client_oldest_running_probe_seconds";
const ENTRIES: &str = "panelboard_client_entries_total";
const FLUSHES: &str = "panelboard_client_flushes_total";
const RECONNECTS: &str = "panelboard_client_reconnects_total";

/// By the code of a freshness.
const FRESHNESSES: [&str; 3] = ["FRESH", "STALE", "LOCAL"];
/// No probe is out.
const NONE: u64 = u64::MAX;

fn describe() {
    describe_counter!(DECISIONS, "calls that were admitted and have ended, and calls that were rejected");
    describe_counter!(REJECTED, "calls that were rejected, by reason");
    describe_counter!(FALLBACKS, "fallbacks that stood in, by what for");
    describe_gauge!(FRESHNESS, "1 for how this client knows the breaker now, 0 for the others");
    describe_gauge!(UNKNOWN, "breakers that the server has no policy for");
    describe_gauge!(
        OLDEST_PROBE,
        Unit::Seconds,
        "for how long the oldest probe has been running; 0 if none is"
    );
    describe_counter!(ENTRIES, "entries of Reports that the server answered");
    describe_counter!(FLUSHES, "Reports that were sent, by what became of them");
    describe_counter!(RECONNECTS, "tries to open a stream again");
}

/// The metrics of one breaker of one client.
#[derive(Debug)]
pub(crate) struct BreakerMeter {
    // Apart from the slot, which every call reads.
    handles: Box<Handles>,
}

#[derive(Debug)]
struct Handles {
    /// By the code of a freshness.
    admitted: [Counter; 3],
    rejected: [Counter; 3],
    freshness: [Gauge; 3],
    /// By the code of a reason.
    reasons: [Counter; 6],
    entries: Counter,
    unknown: Gauge,
    oldest_probe: Gauge,
    shown: Shown,
}

/// What the breaker looked like when it was last shown. Written under the slot's lock alone.
#[derive(Debug)]
struct Shown {
    freshness: AtomicU8,
    /// Of the last word that rejected.
    reason: AtomicU8,
    unknown: AtomicBool,
    /// When the oldest probe that is out began, in milliseconds.
    probe_began: AtomicU64,
    /// The gauge of that is not 0. Written by the agent alone.
    aged: AtomicBool,
}

impl BreakerMeter {
    /// Registers the metrics of a breaker. Names are bounded by whoever hands them out.
    pub(crate) fn new(name: &'static str) -> Self {
        let decisions = |decision: &'static str| {
            FRESHNESSES.map(|freshness| {
                counter!(DECISIONS, "breaker" => name, "freshness" => freshness, "decision" => decision)
            })
        };
        let reason = |code| counter!(REJECTED, "breaker" => name, "reason" => Reason::of_code(code).as_str());
        let handles = Handles {
            admitted: decisions("admitted"),
            rejected: decisions("rejected"),
            freshness: FRESHNESSES
                .map(|freshness| gauge!(FRESHNESS, "breaker" => name, "freshness" => freshness)),
            reasons: [0, 1, 2, 3, 4, 5].map(reason),
            entries: counter!(ENTRIES, "breaker" => name),
            unknown: gauge!(UNKNOWN),
            oldest_probe: gauge!(OLDEST_PROBE, "breaker" => name),
            shown: Shown {
                freshness: AtomicU8::new(word::code(Freshness::Local)),
                reason: AtomicU8::new(Reason::Open.code()),
                unknown: AtomicBool::new(false),
                probe_began: AtomicU64::new(NONE),
                aged: AtomicBool::new(false),
            },
        };
        // Added and taken away rather than set, so that two clients of one process do not undo each other's.
        of(&handles.freshness, word::code(Freshness::Local)).increment(1.0);
        Self { handles: Box::new(handles) }
    }

    /// Calls are decided by this word from now on.
    pub(crate) fn shows(&self, word: Word) {
        // One that turned calls away may still be read while the next is there already: its reason is kept.
        if word.rejects() {
            self.handles.shown.reason.store(word.as_reject().reason, Relaxed);
        }
    }

    /// This is how the breaker is known from now on, and since when its oldest probe has been running.
    pub(crate) fn knows(&self, freshness: Freshness, unknown: bool, oldest_probe: Option<Timestamp>) {
        let began = oldest_probe.map_or(NONE, Timestamp::as_millis);
        self.handles.shown.probe_began.store(began, Relaxed);
        self.turn(word::code(freshness));
        self.know(unknown);
    }

    fn turn(&self, next: u8) {
        let Handles { freshness, shown, .. } = &*self.handles;
        let before = shown.freshness.load(Relaxed);
        if before != next {
            shown.freshness.store(next, Relaxed);
            of(freshness, before).decrement(1.0);
            of(freshness, next).increment(1.0);
        }
    }

    fn know(&self, unknown: bool) {
        let Handles { unknown: gauge, shown, .. } = &*self.handles;
        if shown.unknown.load(Relaxed) != unknown {
            shown.unknown.store(unknown, Relaxed);
            if unknown { gauge.increment(1.0) } else { gauge.decrement(1.0) }
        }
    }

    /// What the lanes had. It was admitted or rejected by what was shown until now.
    pub(crate) fn collected(&self, outcomes: Outcomes) {
        let Handles { admitted, rejected, reasons, shown, .. } = &*self.handles;
        let freshness = shown.freshness.load(Relaxed);
        let ended = outcomes.counted() + outcomes.ignored + outcomes.abandoned;
        if ended > 0 {
            of(admitted, freshness).increment(ended);
        }
        if outcomes.rejected > 0 {
            of(rejected, freshness).increment(outcomes.rejected);
            of(reasons, shown.reason.load(Relaxed)).increment(outcomes.rejected);
        }
    }

    /// A call has ended that no lane counted: a probe, or one of a thread without a lane.
    pub(crate) fn admitted(&self) {
        of(&self.handles.admitted, self.handles.shown.freshness.load(Relaxed)).increment(1);
    }

    /// A call was turned away after a closer look.
    pub(crate) fn turned_away(&self, why: &Rejected) {
        of(&self.handles.rejected, word::code(why.freshness())).increment(1);
        of(&self.handles.reasons, why.reason().code()).increment(1);
    }

    /// An entry was answered.
    pub(crate) fn answered(&self) {
        self.handles.entries.increment(1);
    }

    /// Time has passed: the agent says so now and then.
    pub(crate) fn ages(&self, now: Timestamp) {
        let Handles { oldest_probe, shown, .. } = &*self.handles;
        let began = shown.probe_began.load(Relaxed);
        let is_out = began != NONE;
        if shown.aged.swap(is_out, Relaxed) || is_out {
            let age = if is_out { now.since(Timestamp::from_millis(began)).as_secs_f64() } else { 0.0 };
            oldest_probe.set(age);
        }
    }
}

impl Drop for BreakerMeter {
    /// Nobody knows the breaker any more: it is neither FRESH nor LOCAL nor unknown.
    fn drop(&mut self) {
        let Handles { freshness, oldest_probe, shown, .. } = &*self.handles;
        of(freshness, shown.freshness.load(Relaxed)).decrement(1.0);
        if shown.aged.load(Relaxed) {
            oldest_probe.set(0.0);
        }
        self.know(false);
    }
}

/// The one for a code; the last for a code that is none.
fn of<T, const N: usize>(all: &[T; N], code: u8) -> &T {
    &all[usize::from(code).min(N - 1)]
}

/// The metrics of one name's fallbacks.
#[derive(Debug)]
pub(crate) struct FallbackMeter {
    kinds: [Counter; Missed::ALL.len()],
}

impl FallbackMeter {
    pub(crate) fn new(name: &str) -> Self {
        let kinds = Missed::ALL
            .map(|missed| counter!(FALLBACKS, "breaker" => name.to_owned(), "kind" => missed.as_str()));
        Self { kinds }
    }

    pub(crate) fn fell_back(&self, missed: Missed) {
        self.kinds[missed.index()].increment(1);
    }
}

/// The metrics of one client's thread.
#[derive(Debug)]
pub(crate) struct AgentMeter {
    ok: Counter,
    failed: Counter,
    refused: Counter,
    reconnects: Counter,
}

impl AgentMeter {
    /// Says what all of them mean, and registers those of the thread.
    pub(crate) fn new() -> Self {
        describe();
        let flushes = |result: &'static str| counter!(FLUSHES, "result" => result);
        Self {
            ok: flushes("ok"),
            failed: flushes("failed"),
            refused: flushes("refused"),
            reconnects: counter!(RECONNECTS),
        }
    }

    pub(crate) fn flushed(&self, flush: Flush) {
        let counter = match flush {
            Flush::Ok => &self.ok,
            Flush::Failed => &self.failed,
            Flush::Refused => &self.refused,
        };
        counter.increment(1);
    }

    /// A stream is opened, after so many tries in a row that came to nothing.
    pub(crate) fn opens(&self, attempts: u32) {
        if attempts > 0 {
            self.reconnects.increment(1);
        }
    }
}
