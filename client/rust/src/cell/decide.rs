//! Whether a call may be made.

use std::{sync::Arc, time::Duration};

use panelboard_core::{
    Admission, Condition, OnDisconnect, OverrideKind, RejectionReason, StateKind, Timestamp, Why,
    admitted_after,
};

use super::{Cell, Quarantine, Refusal, Ticket, is_disabled, probes::Lessor};
use crate::{
    limits::{ASK_AGAIN_MIN, ASK_WITHIN_AFTER_OPEN},
    rejected::{NoProbe, Reason},
    state::Freshness,
};

impl Cell {
    pub(super) fn admit_fresh(&mut self, now: Timestamp) -> Result<Ticket, Refusal> {
        let Some(known) = &self.known else { return self.admit_local(now) };
        if let Some(quarantine) = self.quarantined(now) {
            let (explanation, until) = (Arc::clone(&quarantine.explanation), quarantine.until);
            return Err(self.refusal(Reason::Quarantined, until, explanation, now));
        }
        let is_over = |end: Option<Timestamp>| end.is_some_and(|end| now >= end);
        match (known.admission, &known.over, known.state) {
            (Admission::Allow, _, _) => self.admit_unless_recovering(!is_disabled(known), now),
            (Admission::Probe, _, _) | (Admission::Reject, None, StateKind::HalfOpen) => {
                self.admit_probe(now)
            }
            (Admission::Reject, Some(over), _) => {
                if is_over(over.until) {
                    return self.admit_probe(now);
                }
                let (explanation, until) = (Arc::clone(&over.sentence), over.until);
                Err(self.refusal(Reason::ForcedOpen, until, explanation, now))
            }
            (Admission::Reject, None, StateKind::Open) if is_over(known.deadline) => self.admit_probe(now),
            (Admission::Reject, None, StateKind::Open | StateKind::Closed) => {
                let (explanation, until) = (Arc::clone(&known.explanation), known.deadline);
                Err(self.refusal(Reason::Open, until, explanation, now))
            }
        }
    }

    /// HALF_OPEN: the probe at hand, or none yet.
    pub(super) fn admit_probe(&mut self, now: Timestamp) -> Result<Ticket, Refusal> {
        if let Some(held) = self.probes.take_held() {
            let lessor = Lessor::Server { generation: held.generation };
            if let Some(serial) = self.probes.give(held.id, lessor, held.deadline, now) {
                return Ok(Ticket { stretch: self.stretch, counted: true, probe: Some(serial) });
            }
            self.return_probe(held.id, held.generation);
        }
        let (admission, ask_within) = match &self.known {
            Some(known) if known.state == StateKind::HalfOpen => (known.admission, known.ask_within),
            Some(known) => (Admission::Probe, known.ask_within.max(ASK_WITHIN_AFTER_OPEN)),
            None => (Admission::Reject, Duration::ZERO),
        };
        // Nobody asks for what the server says is not there, or said it would not give yet.
        let held_back = self.probes.held_back_until(now);
        if admission == Admission::Reject || held_back.is_some() {
            let no_probe = if admission == Admission::Reject { NoProbe::Taken } else { NoProbe::NotYet };
            let refusal = self.refusal(Reason::ProbesTaken, held_back, "".into(), now);
            return Err(Refusal { no_probe, ..refusal });
        }
        let dice = &mut self.dice;
        let at = self.probes.want(|| dice.up_to(ask_within), now);
        // The answer takes its time: whoever sleeps until then must not come back at once, again and again.
        let until = at.max(now.plus(ASK_AGAIN_MIN));
        let refusal = self.refusal(Reason::ProbesTaken, Some(until), "".into(), now);
        Err(Refusal { asked_at: Some(at), no_probe: NoProbe::AskedFor, ..refusal })
    }

    pub(super) fn admit_local(&mut self, now: Timestamp) -> Result<Ticket, Refusal> {
        let over = self.local.condition().over;
        if self.freshness == Freshness::Local && over.is_none() {
            match self.on_disconnect() {
                OnDisconnect::Local => {}
                OnDisconnect::Allow => {
                    return Ok(Ticket { stretch: self.stretch, counted: true, probe: None });
                }
                OnDisconnect::Deny => {
                    return Err(self.refusal(Reason::Disconnected, None, "".into(), now));
                }
            }
        }
        if let Some(quarantine) = self.quarantined_while_stale(now) {
            let (explanation, until) = (Arc::clone(&quarantine.explanation), quarantine.until);
            return Err(self.refusal(Reason::Quarantined, until, explanation, now));
        }
        let (decision, moved) = self.local.acquire(now);
        if moved {
            self.begin_stretch();
        }
        match decision {
            Ok(grant) => match grant.probe {
                Some(id) => {
                    let serial = self.probes.give(id, Lessor::Local, now.plus(grant.ttl), now);
                    let ticket =
                        serial.map(|n| Ticket { stretch: self.stretch, counted: true, probe: Some(n) });
                    ticket.ok_or_else(|| self.refusal(Reason::ProbesTaken, None, "".into(), now))
                }
                None => self.admit_unless_recovering(over != Some(OverrideKind::Disabled), now),
            },
            Err(rejection) => {
                let reason = match rejection.reason {
                    RejectionReason::Open => Reason::Open,
                    RejectionReason::ProbesTaken => Reason::ProbesTaken,
                    RejectionReason::ForcedOpen => Reason::ForcedOpen,
                    RejectionReason::Quarantined => Reason::Quarantined,
                    RejectionReason::Recovering => Reason::Recovering,
                };
                let explanation = match reason {
                    Reason::ForcedOpen => self.forced_by(),
                    Reason::Open => self.explanation(now),
                    Reason::Quarantined => self.local.held(now).map_or_else(|| "".into(), |(_, why)| why),
                    _ => "".into(),
                };
                let until = rejection.retry_after.map(|span| now.plus(span));
                Err(self.refusal(reason, until, explanation, now))
            }
        }
    }

    pub(super) fn admit_unless_recovering(&self, counted: bool, now: Timestamp) -> Result<Ticket, Refusal> {
        match self.recovering_until() {
            Some(turn) if now < turn => Err(self.refusal(Reason::Recovering, Some(turn), "".into(), now)),
            _ => Ok(Ticket { stretch: self.stretch, counted, probe: None }),
        }
    }

    pub(super) fn refusal(
        &self,
        reason: Reason,
        until: Option<Timestamp>,
        explanation: Arc<str>,
        now: Timestamp,
    ) -> Refusal {
        let retry_after = until.map(|until| until.since(now));
        let (freshness, no_probe) = (self.freshness, NoProbe::default());
        Refusal { reason, retry_after, freshness, explanation, no_probe, asked_at: None }
    }

    /// Who forced it open, and why.
    pub(super) fn forced_by(&self) -> Arc<str> {
        let over = self.known.as_ref().and_then(|known| known.over.as_ref());
        over.map_or_else(|| "".into(), |over| Arc::clone(&over.sentence))
    }

    /// This instance's turn after the breaker closed.
    pub(super) fn recovering_until(&self) -> Option<Timestamp> {
        let known = self.known.as_ref()?;
        let (spread, since) = known.recovery.filter(|_| known.state == StateKind::Closed)?;
        Some(since.plus(admitted_after(&self.setup.me, known.generation, spread)))
    }

    pub(super) fn quarantined(&self, now: Timestamp) -> Option<&Quarantine> {
        let quarantine = self.known.as_ref()?.quarantine.as_ref()?;
        quarantine.until.is_none_or(|until| now < until).then_some(quarantine)
    }

    /// The server's last word kept this instance out, and holds until its end or the ttl's; but for an override.
    pub(super) fn quarantined_while_stale(&self, now: Timestamp) -> Option<&Quarantine> {
        let holds = self.freshness == Freshness::Stale && self.local.condition().over.is_none();
        self.quarantined(now).filter(|_| holds)
    }

    pub(super) fn on_disconnect(&self) -> OnDisconnect {
        self.setup.on_disconnect.unwrap_or(self.policy.spec().on_disconnect)
    }

    pub(super) fn condition(&self) -> Condition {
        match (self.freshness, &self.known) {
            (Freshness::Fresh, Some(known)) => known.condition(),
            _ => self.local.condition(),
        }
    }

    pub(super) fn explanation(&self, now: Timestamp) -> Arc<str> {
        let told = || self.known.as_ref().map_or_else(|| "".into(), |known| Arc::clone(&known.explanation));
        if self.freshness == Freshness::Fresh {
            return told();
        }
        self.local.status(now).last.map_or_else(told, |last| Why(&last).to_string().into())
    }
}
