//! From what the cell knows to the word that the hot path reads.

use panelboard_core::Timestamp;
use panelboard_hotpath::{Pass, Reject, Word};

use crate::{
    cell::{Cell, Door},
    codebook::is_plain,
    limits::RETRY_SLACK,
    plate::Plate,
    rejected::Reason,
    state::Freshness,
};

/// The word for this moment, and when to look again at the latest.
pub(crate) fn word(cell: &Cell, plate: &Plate, now: Timestamp) -> (Word, Option<Timestamp>) {
    let (door, until) = cell.door(now);
    let tag = cell.stretch();
    let word = match door {
        Door::Closer => Word::closer(tag),
        Door::Open { counted } => Word::pass(Pass {
            tag,
            counted,
            timed: cell.policy().slower_than().is_some(),
            settled: cell.freshness() != Freshness::Fresh,
            plain: is_plain(&cell.policy().spec().classification),
        }),
        Door::Shut { reason, until, explanation } => {
            let retry_after = until.map(|until| {
                let span = until.since(now) + RETRY_SLACK;
                u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
            });
            let (reason, freshness) = (reason.code(), code(cell.freshness()));
            Word::reject(Reject { tag, reason, freshness, sentence: plate.put(&explanation), retry_after })
        }
    };
    (word, until)
}

pub(crate) const fn code(freshness: Freshness) -> u8 {
    match freshness {
        Freshness::Fresh => 0,
        Freshness::Stale => 1,
        Freshness::Local => 2,
    }
}

pub(crate) const fn freshness(code: u8) -> Freshness {
    match code {
        0 => Freshness::Fresh,
        1 => Freshness::Stale,
        _ => Freshness::Local,
    }
}

/// The reasons that a word can carry, and the one for a code.
impl Reason {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::ForcedOpen => 1,
            Self::Quarantined => 2,
            Self::Disconnected => 3,
            Self::Recovering => 4,
            Self::ProbesTaken => 5,
        }
    }

    pub(crate) const fn of_code(code: u8) -> Self {
        match code {
            0 => Self::Open,
            1 => Self::ForcedOpen,
            2 => Self::Quarantined,
            3 => Self::Disconnected,
            4 => Self::Recovering,
            _ => Self::ProbesTaken,
        }
    }
}
