//! The answer "no": why, until when, and how the client knows.

use std::{fmt, sync::Arc, time::Duration};

use panelboard_core::Span;
use panelboard_hotpath::Reject;

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
#[derive(Clone, Copy, Debug)]
pub struct Rejected {
    pub(crate) plate: &'static Plate,
    pub(crate) reason: Reason,
    pub(crate) freshness: Freshness,
    /// Milliseconds.
    pub(crate) retry_after: Option<u32>,
    /// Which of the plate's sentences explains it; none: no more is to be said.
    pub(crate) sentence: Option<u8>,
    /// Tells apart what [`Reason::ProbesTaken`] has in one.
    pub(crate) no_probe: NoProbe,
}

impl Rejected {
    #[inline]
    pub(crate) fn at_the_gate(plate: &'static Plate, reject: Reject) -> Self {
        Self {
            plate,
            reason: Reason::of_code(reject.reason),
            freshness: word::freshness(reject.freshness),
            retry_after: reject.retry_after,
            sentence: Some(reject.sentence),
            no_probe: NoProbe::Taken,
        }
    }

    /// The breaker's name.
    pub fn breaker(&self) -> &'static str {
        self.plate.name()
    }

    /// Why.
    #[inline]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// After this long asking again can succeed; none: nobody knows. In whole milliseconds, rounded up.
    #[inline]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after.map(|millis| Duration::from_millis(u64::from(millis)))
    }

    /// How the client knows.
    #[inline]
    pub const fn freshness(&self) -> Freshness {
        self.freshness
    }

    /// Why the breaker is as it is, in one sentence; empty if there is no more to say, and if it is asked only after
    /// the breaker has changed several times.
    pub fn explanation(&self) -> Arc<str> {
        self.sentence.map_or_else(|| "".into(), |number| self.plate.sentence(number))
    }
}

impl PartialEq for Rejected {
    fn eq(&self, other: &Self) -> bool {
        let rest = |r: &Self| (r.reason, r.freshness, r.retry_after, r.sentence, r.no_probe);
        std::ptr::eq(self.plate, other.plate) && rest(self) == rest(other)
    }
}

impl Eq for Rejected {}

impl fmt::Display for Rejected {
    /// `circuit breaker "checkout/shipping-quote" is OPEN (failure rate 62.5 % >= 50 %), retry in 4.2 s [FRESH]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "circuit breaker {:?} is {}", self.breaker(), self.reason.phrase(self.no_probe))?;
        let explanation = self.explanation();
        if !explanation.is_empty() {
            write!(f, " ({explanation})")?;
        }
        if let Some(span) = self.retry_after() {
            write!(f, ", retry in {}", Span(span))?;
        }
        write!(f, " [{}]", self.freshness)
    }
}

impl std::error::Error for Rejected {}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(reason: Reason, explanation: &str, retry_after: Option<u32>) -> Rejected {
        let plate = Plate::of("checkout/shipping-quote");
        let sentence = Some(plate.put(&explanation.into()));
        let (freshness, no_probe) = (Freshness::Fresh, NoProbe::Taken);
        Rejected { plate, reason, freshness, retry_after, sentence, no_probe }
    }

    #[test]
    fn probes_are_called_taken_only_if_they_are() {
        let said =
            |no_probe| Rejected { no_probe, ..rejected(Reason::ProbesTaken, "", Some(100)) }.to_string();
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
        let said = |reason, explanation, millis| rejected(reason, explanation, millis).to_string();
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
