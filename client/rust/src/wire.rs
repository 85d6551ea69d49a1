//! Between messages and what the client keeps. Nothing here decides anything, and nothing a server sends makes it
//! panic: what does not fit counts as absent.

use std::{sync::Arc, time::Duration};

use panelboard_core::{Entry, Hand, Policy, Rate, Span, StateKind, Timestamp, Violation, hundredths_of};
use panelboard_proto::{
    convert::{
        admission_from_wire, duration_from_wire, duration_to_wire, outcomes_to_wire, override_kind_from_wire,
        policy_from_wire,
    },
    v1,
};

use crate::{
    cell::{Known, Over, Quarantine, Ticks},
    identity::Identity,
    limits::EXPLANATION_BYTES_MAX,
};

/// How the times of a status are meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    /// As ticks of the server's clock, heard now: on a stream.
    Stream(Ticks, Timestamp),
    /// As spans from now: in an answer.
    Answer(Timestamp),
}

impl Base {
    /// A point in the future.
    fn end(self, tick: Option<u64>, left: Option<&prost_types::Duration>) -> Option<Timestamp> {
        match self {
            Self::Stream(ticks, _) => tick.map(|tick| ticks.local(tick)),
            Self::Answer(now) => span(left).map(|span| now.plus(span)),
        }
    }

    /// A point in the past.
    fn since(self, tick: Option<u64>, elapsed: Option<&prost_types::Duration>) -> Option<Timestamp> {
        match self {
            // The past is not ahead, however far the clocks have come apart since the last tick.
            Self::Stream(ticks, now) => tick.map(|tick| ticks.local(tick).min(now)),
            Self::Answer(now) => Some(now.minus(span(elapsed).unwrap_or_default())),
        }
    }
}

/// A status in this client's time; and what is wrong with its policy, if that is not to be used.
pub(crate) fn known(status: &v1::BreakerStatus, base: Base) -> (Known, Vec<Violation>) {
    let (policy, wrong) = match status.policy.as_ref().map(policy_from_wire) {
        Some(Ok(policy)) => (Some(Arc::new(policy)), Vec::new()),
        Some(Err(wrong)) => (None, wrong),
        None => (None, Vec::new()),
    };
    let last = status.last_transition.as_ref();
    let known = Known {
        admission: admission_from_wire(status.admission),
        state: match status.state() {
            v1::State::Open => StateKind::Open,
            v1::State::HalfOpen => StateKind::HalfOpen,
            v1::State::Unspecified | v1::State::Closed => StateKind::Closed,
        },
        over: status.r#override.as_ref().and_then(|over| {
            let hand = Hand { who: cut(&over.who), why: cut(&over.why) };
            Some(Over {
                kind: override_kind_from_wire(over.kind())?,
                sentence: hand.to_string().into(),
                hand,
                until: base.end(over.until_tick, over.remaining.as_ref()),
            })
        }),
        generation: status.generation.map(Into::into).unwrap_or_default(),
        version: status.version.map(Into::into).unwrap_or_default(),
        deadline: base.end(status.deadline_tick, status.remaining.as_ref()),
        recovery: status.recovery.as_ref().and_then(|recovery| {
            let since = base.since(recovery.since_tick, recovery.elapsed.as_ref())?;
            Some((span(recovery.spread.as_ref())?, since))
        }),
        quarantine: status.quarantine.as_ref().map(|quarantine| Quarantine {
            until: base.end(quarantine.until_tick, quarantine.remaining.as_ref()),
            explanation: cut(&quarantine.explanation),
        }),
        active_instances: status.active_instances,
        ask_within: span(status.ask_within.as_ref()).unwrap_or_default(),
        explanation: last.map_or_else(|| "".into(), explanation),
        reopenings: last.and_then(|last| last.wait.as_ref()).map_or(0, |wait| wait.reopenings),
        policy,
    };
    (known, wrong)
}

/// Why a breaker is as it is, short: the rule that was crossed with its numbers, else the server's sentence.
fn explanation(last: &v1::Transition) -> Arc<str> {
    // By votes it trips although the fleet's own rate may be far from the threshold.
    let crossing = last.crossing.as_ref().filter(|crossing| crossing.by() != v1::TripBy::Votes);
    let short = crossing.and_then(|crossing| {
        let rate = |hundredths| Rate::from_hundredths(u32::try_from(hundredths).ok()?);
        let (matched, calls, threshold) = (crossing.matched, crossing.calls, crossing.threshold);
        match crossing.measure.as_str() {
            "failure_rate" => Some(("failure rate", rate(hundredths_of(matched, calls))?, rate(threshold)?)),
            "slow_rate" => Some(("slow rate", rate(hundredths_of(matched, calls))?, rate(threshold)?)),
            _ => None,
        }
    });
    match short {
        Some((what, observed, threshold)) => format!("{what} {observed} >= {threshold}").into(),
        None => cut(&last.explanation),
    }
}

/// An entry as a message.
pub(crate) fn entry(name: &str, entry: &Entry) -> v1::ReportEntry {
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let mut wire = v1::ReportEntry {
        breaker: name.into(),
        generation: entry.generation.map(Into::into),
        sequence: entry.sequence.unwrap_or(0),
        at_tick: entry.at.map(Timestamp::as_millis),
        streaks: entry.streaks.map(|streaks| v1::Streaks {
            leading: count(streaks.leading),
            longest: count(streaks.longest),
            trailing: count(streaks.trailing),
        }),
        probe_id: entry.probe.map_or(0, |id| id.0),
        causes: entry.causes.iter().map(|(cause, n)| (cause.as_str().into(), count(*n))).collect(),
        retry_after: entry.retry_after.map(duration_to_wire),
        ..v1::ReportEntry::default()
    };
    outcomes_to_wire(entry.outcomes, &mut wire);
    wire
}

/// The identity that rides on every request.
pub(crate) fn client(identity: &Identity) -> v1::Client {
    v1::Client {
        service: identity.instance.service.to_string(),
        instance: identity.instance.id.to_string(),
        session: identity.session.0.to_string(),
        zone: identity.zone.clone(),
        version: concat!("rust/", env!("CARGO_PKG_VERSION")).into(),
    }
}

pub(crate) fn span(wire: Option<&prost_types::Duration>) -> Option<Duration> {
    wire.and_then(duration_from_wire)
}

/// The policy of a status, if it holds a valid one.
pub(crate) fn policy(status: &v1::BreakerStatus) -> Option<Policy> {
    status.policy.as_ref().and_then(|policy| policy_from_wire(policy).ok())
}

/// What is wrong with a policy, in one line.
pub(crate) fn sentence(wrong: &[Violation]) -> String {
    wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A text for people, cut to what a message of ours may hold.
fn cut(text: &str) -> Arc<str> {
    let mut end = text.len().min(EXPLANATION_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].into()
}

/// A span for people.
pub(crate) fn shown(span: Duration) -> String {
    Span(span).to_string()
}

#[cfg(test)]
mod tests {
    use panelboard_core::{Admission, OverrideKind};

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn ticks_and_spans_mean_the_same_instant() {
        let open = v1::BreakerStatus {
            admission: v1::Admission::Reject.into(),
            state: v1::State::Open.into(),
            deadline_tick: Some(90_500),
            remaining: Some(duration_to_wire(Duration::from_millis(500))),
            ..v1::BreakerStatus::default()
        };
        let ticks = Ticks { tick: 90_000, heard: at(1_000) };
        assert_eq!(known(&open, Base::Stream(ticks, at(1_000))).0.deadline, Some(at(1_500)));
        assert_eq!(known(&open, Base::Answer(at(1_000))).0.deadline, Some(at(1_500)));
    }

    #[test]
    fn what_is_not_known_is_allow_and_what_is_absent_is_closed() {
        let strange = v1::BreakerStatus { admission: 77, state: 99, ..v1::BreakerStatus::default() };
        let (known, wrong) = known(&strange, Base::Answer(at(0)));
        assert_eq!((known.admission, known.state), (Admission::Allow, StateKind::Closed));
        assert!(known.over.is_none() && known.policy.is_none() && wrong.is_empty());
    }

    #[test]
    fn hostile_times_and_texts_do_no_harm() {
        let negative = prost_types::Duration { seconds: -5, nanos: i32::MIN };
        let status = v1::BreakerStatus {
            r#override: Some(v1::Override {
                kind: v1::OverrideKind::ForcedOpen.into(),
                who: "ü".repeat(10_000),
                until_tick: Some(u64::MAX),
                ..v1::Override::default()
            }),
            ask_within: Some(negative),
            recovery: Some(v1::Recovery { spread: Some(negative), since_tick: Some(0), elapsed: None }),
            ..v1::BreakerStatus::default()
        };
        let (known, _) = known(&status, Base::Stream(Ticks { tick: u64::MAX, heard: at(5) }, at(5)));
        let over = known.over.unwrap();
        assert_eq!(over.kind, OverrideKind::ForcedOpen);
        assert!(over.hand.who.len() <= EXPLANATION_BYTES_MAX);
        assert_eq!((known.ask_within, known.recovery), (Duration::ZERO, None));
    }

    #[test]
    fn the_short_explanation_has_the_numbers_of_the_rule() {
        let crossing = v1::RuleCrossing {
            measure: "failure_rate".into(),
            calls: 40,
            matched: 25,
            threshold: 5_000,
            ..v1::RuleCrossing::default()
        };
        let last = v1::Transition { crossing: Some(crossing.clone()), ..v1::Transition::default() };
        assert_eq!(&*explanation(&last), "failure rate 62.5 % >= 50 %");
        let crossing = v1::RuleCrossing { by: v1::TripBy::Votes.into(), matched: 1, ..crossing };
        let sentence = "9 of 10 instances each cross failure rate >= 50 %";
        let last = v1::Transition {
            crossing: Some(crossing),
            explanation: sentence.into(),
            ..v1::Transition::default()
        };
        assert_eq!(&*explanation(&last), sentence);
        let last = v1::Transition { explanation: "moved by ana: drill".into(), ..v1::Transition::default() };
        assert_eq!(&*explanation(&last), "moved by ana: drill");
    }
}
