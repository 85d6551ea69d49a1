//! What every call through a Panelboard client touches, and nothing else: one *word* per breaker, which says whether
//! calls pass, and one *lane* per thread and breaker, in which the thread counts what became of them.
//!
//! ```text
//!            reads              writes (its own lane)
//!  caller ─────────▶ Gate       caller ─────────▶ Lane ◀───────── Collector (the client's thread)
//!                     ▲                                  reads, and diffs with what it saw before
//!                     └── writes: the client's thread
//! ```
//!
//! A check is one load. A success is one load and one store to memory that only this thread writes. Nothing here
//! locks, allocates (but for the first call of a thread through a breaker), reads a clock or does a shared
//! read-modify-write. Both are plain protocols over atomics, without `unsafe`, explored by `loom` in `tests/loom.rs`.
//!
//! Everything that is counted carries the *tag* of the stretch in which its call was admitted, in the same 64 bits: so
//! an outcome that comes late can never be taken for one of a later stretch, however the threads are scheduled.

#![forbid(unsafe_code)]

mod collect;
mod counter;
mod lane;
mod lanes;
mod pace;
mod runs;
mod sync;
mod thread;
mod word;

pub use collect::{Collector, Piece, Seen};
pub use lane::Lane;
pub use lanes::Lanes;
pub use pace::Pace;
pub use runs::{BOOKS, CAUSES_MAX, Judged, Kind};
pub use thread::THREADS_MAX;
pub use word::{Gate, Look, Pass, Reject, TAGS, Word};
