//! The probes of one breaker: wanted, at hand, and out with callers.

use std::time::Duration;

use panelboard_core::{Generation, ProbeId, Timestamp};

use crate::limits::{ASK_AGAIN_MAX, ASK_AGAIN_MIN, PROBE_HELD_MAX, PROBES_OUT_MAX};

/// Where the asking for a probe stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Nobody wants one.
    #[default]
    Idle,
    /// It is asked for then.
    At(Timestamp),
    /// The answer is on its way.
    InFlight,
}

/// Whose probe it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lessor {
    /// The server's.
    Server {
        /// Its stretch.
        generation: Generation,
    },
    /// The local breaker's.
    Local,
}

/// A probe that is out with a caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub(crate) serial: u64,
    pub(crate) id: ProbeId,
    pub(crate) lessor: Lessor,
    began: Timestamp,
    /// A call that still runs then has failed.
    pub(crate) deadline: Timestamp,
    /// What the dependency asked for meanwhile.
    pub(crate) retry_after: Option<Duration>,
}

/// A probe that nobody has used yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) id: ProbeId,
    pub(crate) generation: Generation,
    pub(crate) deadline: Timestamp,
    got: Timestamp,
}

impl Held {
    fn goes_back_at(&self) -> Timestamp {
        self.got.plus(PROBE_HELD_MAX).min(self.deadline)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Probes {
    ask: Ask,
    not_before: Timestamp,
    held: Option<Held>,
    out: Vec<Out>,
    last_serial: u64,
}

impl Probes {
    pub(crate) const fn ask(&self) -> Ask {
        self.ask
    }

    /// Somebody wants a probe: it is asked for `delay` from now, unless it is already, and not sooner than the server
    /// said it makes sense. Returns when.
    pub(crate) fn want(&mut self, delay: impl FnOnce() -> Duration, now: Timestamp) -> Timestamp {
        match self.ask {
            Ask::At(at) => at,
            Ask::InFlight => now,
            Ask::Idle => {
                let at = now.max(self.not_before).plus(delay());
                self.ask = Ask::At(at);
                at
            }
        }
    }

    /// Whether to ask now; then the answer is on its way.
    pub(crate) fn ask_now(&mut self, now: Timestamp) -> bool {
        let is_due = matches!(self.ask, Ask::At(at) if now >= at);
        if is_due {
            self.ask = Ask::InFlight;
        }
        is_due
    }

    /// The server gave one.
    pub(crate) fn hold(&mut self, id: ProbeId, generation: Generation, timeout: Duration, now: Timestamp) {
        self.ask = Ask::Idle;
        self.not_before = now;
        self.held = Some(Held { id, generation, deadline: now.plus(timeout), got: now });
    }

    /// The server gave none, and said when asking again makes sense.
    pub(crate) fn refused(&mut self, retry_after: Option<Duration>, now: Timestamp) {
        self.ask = Ask::Idle;
        let span = retry_after.unwrap_or(ASK_AGAIN_MAX).clamp(ASK_AGAIN_MIN, ASK_AGAIN_MAX);
        self.not_before = now.plus(span);
    }

    /// The server said that a probe is there: what it said before is out of date.
    pub(crate) fn available(&mut self, now: Timestamp) {
        self.not_before = self.not_before.min(now.plus(ASK_AGAIN_MIN));
    }

    /// The server said that none is there: an ask that is not on its way yet would be in vain.
    pub(crate) fn gone(&mut self) {
        if let Ask::At(_) = self.ask {
            self.ask = Ask::Idle;
        }
    }

    /// Whether asking now is what the server asked not to do.
    pub(crate) fn held_back_until(&self, now: Timestamp) -> Option<Timestamp> {
        (self.ask == Ask::Idle && now < self.not_before).then_some(self.not_before)
    }

    /// Nobody is asked any more: the server is away.
    pub(crate) fn stop_asking(&mut self) {
        self.ask = Ask::Idle;
    }

    /// The stretch is over: nothing that was wanted or at hand in it is of use.
    pub(crate) fn forget(&mut self) {
        let last_serial = self.last_serial;
        *self = Self { last_serial, ..Self::default() };
    }

    /// The probe at hand, if there is one.
    pub(crate) fn take_held(&mut self) -> Option<Held> {
        self.held.take()
    }

    /// The probe at hand, if its time is over.
    pub(crate) fn take_unused(&mut self, now: Timestamp) -> Option<Held> {
        self.held.take_if(|held| now >= held.goes_back_at())
    }

    /// Gives a probe to a caller. None: too many are out.
    pub(crate) fn give(
        &mut self,
        id: ProbeId,
        lessor: Lessor,
        deadline: Timestamp,
        now: Timestamp,
    ) -> Option<u64> {
        if self.out.len() >= PROBES_OUT_MAX {
            return None;
        }
        self.last_serial += 1;
        self.out.push(Out { serial: self.last_serial, id, lessor, began: now, deadline, retry_after: None });
        Some(self.last_serial)
    }

    /// The dependency asked a caller with a probe to leave it alone.
    pub(crate) fn hinted(&mut self, serial: u64, span: Duration) {
        if let Some(out) = self.out.iter_mut().find(|out| out.serial == serial) {
            out.retry_after = out.retry_after.max(Some(span));
        }
    }

    /// A caller is done with its probe. None: its deadline has ended it before.
    pub(crate) fn take_back(&mut self, serial: u64) -> Option<Out> {
        let place = self.out.iter().position(|out| out.serial == serial)?;
        Some(self.out.swap_remove(place))
    }

    /// A probe that runs past its deadline.
    pub(crate) fn take_overrun(&mut self, now: Timestamp) -> Option<Out> {
        let place = self.out.iter().position(|out| now >= out.deadline)?;
        Some(self.out.swap_remove(place))
    }

    /// When the oldest of those that are out was given.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.out.iter().map(|out| out.began).min()
    }

    /// All that are out, when the client ends.
    pub(crate) fn take_all(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.out)
    }

    /// When there is something to do.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        let ask = match self.ask {
            Ask::At(at) => Some(at),
            Ask::Idle | Ask::InFlight => None,
        };
        let held = self.held.as_ref().map(Held::goes_back_at);
        let overrun = self.out.iter().map(|out| out.deadline).min();
        [ask, held, overrun].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    const GENERATION: Generation = Generation { epoch: 1, revision: 2 };

    #[test]
    fn one_ask_serves_everybody_who_wants_a_probe() {
        let mut probes = Probes::default();
        let first = probes.want(|| Duration::from_millis(40), at(0));
        let second = probes.want(|| panic!("drawn twice"), at(10));
        assert_eq!((first, second), (at(40), at(40)));
        assert!(!probes.ask_now(at(39)) && probes.ask_now(at(40)) && !probes.ask_now(at(41)));
        assert_eq!(probes.want(|| panic!("drawn twice"), at(45)), at(45));
    }

    #[test]
    fn a_refusal_is_respected_until_there_is_news() {
        let mut probes = Probes::default();
        probes.want(|| Duration::ZERO, at(0));
        assert!(probes.ask_now(at(0)));
        probes.refused(Some(Duration::from_secs(3)), at(1));
        assert_eq!(probes.held_back_until(at(10)), Some(at(3_001)));
        probes.available(at(500));
        assert_eq!(probes.held_back_until(at(500)), Some(at(600)));
        assert_eq!(probes.want(|| Duration::from_millis(5), at(500)), at(605));
    }

    #[test]
    fn an_unused_probe_goes_back_after_five_seconds_or_at_its_deadline() {
        for (timeout, goes_back) in [(10_000, 5_000), (2_000, 2_000)] {
            let mut probes = Probes::default();
            probes.hold(ProbeId(9), GENERATION, Duration::from_millis(timeout), at(0));
            assert_eq!(probes.due(), Some(at(goes_back)));
            assert!(probes.take_unused(at(goes_back - 1)).is_none());
            assert_eq!(probes.take_unused(at(goes_back)).unwrap().id, ProbeId(9));
            assert!(probes.take_held().is_none());
        }
    }

    #[test]
    fn a_probe_ends_once() {
        let mut probes = Probes::default();
        let serial = probes.give(ProbeId(1), Lessor::Local, at(100), at(0)).unwrap();
        assert!(probes.take_overrun(at(99)).is_none());
        assert_eq!(probes.take_overrun(at(100)).unwrap().serial, serial);
        assert!(probes.take_back(serial).is_none());
    }

    #[test]
    fn the_oldest_is_the_one_that_was_given_first_of_those_that_are_still_out() {
        let mut probes = Probes::default();
        assert_eq!(probes.oldest(), None);
        let first = probes.give(ProbeId(1), Lessor::Local, at(100), at(5)).unwrap();
        probes.give(ProbeId(2), Lessor::Local, at(90), at(8)).unwrap();
        assert_eq!(probes.oldest(), Some(at(5)));
        probes.take_back(first).unwrap();
        assert_eq!(probes.oldest(), Some(at(8)));
    }
}
