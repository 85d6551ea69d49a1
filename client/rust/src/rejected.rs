//! The answer "no": why, until when, and how the client knows.

use std::{fmt, sync::Arc, time::Duration};

use panelboard_core::Span;
use panelboard_hotpath::{Reject, Word};

use crate::{plate::Plate, state::Freshness, word};

/// Why a call must not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The breaker is OPEN.
    Open,
    /// The breaker is HALF_OPEN, and no probe is at hand for this call: all are out, or one is being asked for.
    ProbesTaken,
    /// An operator forced it open.
    ForcedOpen,
    /// This instance alone is kept out.
    Quarantined,
    /// The breaker has just closed, and this instance's turn comes a little later.
    Recovering,
    /// The server is away, and the policy says to reject then.
    Disconnected,
}

impl Reason {
    /// The reason's name, as in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::ProbesTaken => "PROBES_TAKEN",
            Self::ForcedOpen => "FORCED_OPEN",
            Self::Quarantined => "QUARANTINED",
            Self::Recovering => "RECOVERING",
            Self::Disconnected => "DISCONNECTED",
        }
    }

    const fn phrase(self, no_probe: NoProbe) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::ProbesTaken => no_probe.phrase(),
            Self::ForcedOpen => "FORCED_OPEN",
            Self::Quarantined => "closed to this instance (QUARANTINED)",
            Self::Recovering => "RECOVERING, this instance is admitted later",
            Self::Disconnected => "cut off (DISCONNECTED)",
        }
    }
}

/// Where the asking stands for a call that found no probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NoProbe {
    /// All of them are out with calls.
    #[default]
    Taken,
    /// The client asks for one in the background.
    AskedFor,
    /// The last ask had none, and it is too early for another.
    NotYet,
}

impl NoProbe {
    const fn code(self) -> u32 {
        match self {
            Self::Taken => 0,
            Self::AskedFor => 1,
            Self::NotYet => 2,
        }
    }

    const fn of_code(code: u32) -> Self {
        match code {
            1 => Self::AskedFor,
            2 => Self::NotYet,
            _ => Self::Taken,
        }
    }

    const fn phrase(self) -> &'static str {
        match self {
            Self::Taken => "HALF_OPEN, its probes are taken",
            Self::AskedFor => "HALF_OPEN, a probe is being asked for",
            Self::NotYet => "HALF_OPEN, no probe is to be had yet",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A call was not admitted, so it was not made. Not a failure of the dependency: do not retry it in a loop, fall
/// back, or come again after [`retry_after`](Self::retry_after).
///
/// Making and copying one costs a nanosecond or so; what it says in words is put together when somebody reads it.
#[derive(Clone, Copy)]
pub struct Rejected {
    plate: &'static Plate,
    /// The gate's word, or one like it; instead of the tag of a stretch it may have a code for what no probe means.
    word: Word,
}

impl Rejected {
    /// Turned away by this word.
    #[inline]
    pub(crate) const fn at_the_gate(plate: &'static Plate, word: Word) -> Self {
        Self { plate, word }
    }

    /// Turned away after a closer look.
    pub(crate) fn looked_at(
        plate: &'static Plate,
        reason: Reason,
        no_probe: NoProbe,
        freshness: Freshness,
        sentence: u8,
        retry_after: Option<Duration>,
    ) -> Self {
        let retry_after = retry_after.map(|span| u32::try_from(span.as_millis()).unwrap_or(u32::MAX));
        let (reason, freshness) = (reason.code(), word::code(freshness));
        let reject = Reject { tag: no_probe.code(), reason, freshness, sentence, retry_after };
        Self { plate, word: Word::reject(reject) }
    }

    #[inline]
    pub(crate) const fn word(&self) -> Word {
        self.word
    }

    #[inline]
    const fn reject(&self) -> Reject {
        self.word.as_reject()
    }

    /// The breaker's name.
    pub fn breaker(&self) -> &'static str {
        self.plate.name()
    }

    /// Why.
    pub const fn reason(&self) -> Reason {
        Reason::of_code(self.reject().reason)
    }

    /// After this long asking again can succeed; none: nobody knows. In whole milliseconds, rounded up.
    #[inline]
    pub fn retry_after(&self) -> Option<Duration> {
        self.reject().retry_after.map(|millis| Duration::from_millis(u64::from(millis)))
    }

    /// How the client knows.
    pub const fn freshness(&self) -> Freshness {
        word::freshness(self.reject().freshness)
    }

    /// Why the breaker is as it is, in one sentence; empty if there is no more to say, and if it is asked only after
    /// the breaker has changed several times.
    pub fn explanation(&self) -> Arc<str> {
        self.plate.sentence(self.reject().sentence)
    }

    fn no_probe(&self) -> NoProbe {
        // Only then is it what the tag stands for.
        if self.reason() == Reason::ProbesTaken {
            NoProbe::of_code(self.reject().tag)
        } else {
            NoProbe::Taken
        }
    }
}

impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected")
            .field("breaker", &self.breaker())
            .field("reason", &self.reason())
            .field("retry_after", &self.retry_after())
            .field("freshness", &self.freshness())
            .field("explanation", &self.explanation())
            .finish()
    }
}

impl PartialEq for Rejected {
    fn eq(&self, other: &Self) -> bool {
        let rest = |r: &Self| (Reject { tag: 0, ..r.reject() }, r.no_probe());
        std::ptr::eq(self.plate, other.plate) && rest(self) == rest(other)
    }
}

impl Eq for Rejected {}

impl fmt::Display for Rejected {
    /// `circuit breaker "checkout/shipping-quote" is OPEN (failure rate 62.5 % >= 50 %), retry in 4.2 s [FRESH]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "circuit breaker {:?} is {}", self.breaker(), self.reason().phrase(self.no_probe()))?;
        let explanation = self.explanation();
        if !explanation.is_empty() {
            write!(f, " ({explanation})")?;
        }
        if let Some(span) = self.retry_after() {
            write!(f, ", retry in {}", Span(span))?;
        }
        write!(f, " [{}]", self.freshness())
    }
}

impl std::error::Error for Rejected {}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(reason: Reason, no_probe: NoProbe, explanation: &str, millis: Option<u64>) -> Rejected {
        let plate = Plate::of("checkout/shipping-quote");
        let sentence = plate.put(&explanation.into());
        let retry_after = millis.map(Duration::from_millis);
        Rejected::looked_at(plate, reason, no_probe, Freshness::Fresh, sentence, retry_after)
    }

    #[test]
    fn probes_are_called_taken_only_if_they_are() {
        let said = |no_probe| rejected(Reason::ProbesTaken, no_probe, "", Some(100)).to_string();
        for (no_probe, phrase) in [
            (NoProbe::Taken, "its probes are taken"),
            (NoProbe::AskedFor, "a probe is being asked for"),
            (NoProbe::NotYet, "no probe is to be had yet"),
        ] {
            let expected = format!(
                "circuit breaker \"checkout/shipping-quote\" is HALF_OPEN, {phrase}, retry in 100 ms [FRESH]"
            );
            assert_eq!(said(no_probe), expected);
        }
    }

    #[test]
    fn a_rejection_says_why_until_when_and_how_it_is_known() {
        let said =
            |reason, explanation, millis| rejected(reason, NoProbe::Taken, explanation, millis).to_string();
        assert_eq!(
            said(Reason::Open, "failure rate 62.5 % >= 50 %", Some(4_260)),
            "circuit breaker \"checkout/shipping-quote\" is OPEN (failure rate 62.5 % >= 50 %), \
             retry in 4.2 s [FRESH]"
        );
        assert_eq!(
            said(Reason::ForcedOpen, "", None),
            "circuit breaker \"checkout/shipping-quote\" is FORCED_OPEN [FRESH]"
        );
    }
}
