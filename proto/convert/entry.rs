//! Report entries.

use panelboard_core::{Entry, Fact, Outcome, Outcomes, Policy, ProbeId, Streaks, Timestamp};

use super::duration_from_wire;
use crate::v1;

/// An entry with its raw facts classified by the policy. The message must be valid: what is negative or missing
/// counts as absent here.
pub fn entry_from_wire(wire: &v1::ReportEntry, policy: &Policy) -> Entry {
    let classification = &policy.spec().classification;
    let mut entry = Entry {
        generation: wire.generation.map(Into::into),
        sequence: (wire.sequence != 0).then_some(wire.sequence),
        at: wire.at_tick.map(Timestamp::from_millis),
        outcomes: Outcomes {
            successes: wire.successes.into(),
            failures: wire.failures.into(),
            slow_successes: wire.slow_successes.min(wire.successes).into(),
            slow_failures: wire.slow_failures.min(wire.failures).into(),
            ignored: wire.ignored.into(),
            abandoned: wire.abandoned.into(),
            rejected: wire.rejected.into(),
        },
        streaks: wire.streaks.map(|streaks| Streaks {
            leading: streaks.leading.into(),
            longest: streaks.longest.into(),
            trailing: streaks.trailing.into(),
        }),
        probe: (wire.probe_id != 0).then_some(ProbeId(wire.probe_id)),
        causes: wire.causes.iter().map(|(word, n)| (classification.cause(word), u64::from(*n))).collect(),
        retry_after: wire.retry_after.as_ref().and_then(duration_from_wire),
    };
    for raw in &wire.raw {
        add_raw(&mut entry, raw, policy);
    }
    entry.causes.sort();
    entry
}

fn add_raw(entry: &mut Entry, raw: &v1::RawOutcome, policy: &Policy) {
    use v1::raw_outcome::Fact as Wire;
    let fact = match &raw.fact {
        // A number that does not fit is none of the protocol's: it counts as malformed, or as UNKNOWN.
        Some(Wire::HttpStatus(status)) => Fact::HttpStatus(u16::try_from(*status).unwrap_or(u16::MAX)),
        Some(Wire::GrpcCode(code)) => Fact::GrpcCode(u8::try_from(*code).unwrap_or(u8::MAX)),
        Some(Wire::TimedOut(true)) => Fact::TimedOut,
        Some(Wire::Cause(word)) => Fact::Cause(word),
        // A call of which nothing bad is said went well.
        Some(Wire::TimedOut(false)) | None => Fact::GrpcCode(0),
    };
    let count = u64::from(raw.count.max(1));
    let took = raw.duration.as_ref().and_then(duration_from_wire).unwrap_or_default();
    let slow = if policy.slower_than().is_some_and(|least| took > least) { count } else { 0 };
    let (outcome, cause) = policy.spec().classification.classify(fact);
    let outcomes = &mut entry.outcomes;
    match outcome {
        Outcome::Success => {
            outcomes.successes += count;
            outcomes.slow_successes += slow;
        }
        Outcome::Failure => {
            outcomes.failures += count;
            outcomes.slow_failures += slow;
        }
        Outcome::Ignored => outcomes.ignored += count,
    }
    if let Some(cause) = cause {
        match entry.causes.iter_mut().find(|(other, _)| *other == cause) {
            Some((_, n)) => *n += count,
            None => entry.causes.push((cause, count)),
        }
    }
}

/// Puts outcomes into an entry. A count past what a message can hold is cut off there.
pub fn outcomes_to_wire(outcomes: Outcomes, wire: &mut v1::ReportEntry) {
    let cut = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    wire.successes = cut(outcomes.successes);
    wire.failures = cut(outcomes.failures);
    wire.slow_successes = cut(outcomes.slow_successes);
    wire.slow_failures = cut(outcomes.slow_failures);
    wire.ignored = cut(outcomes.ignored);
    wire.abandoned = cut(outcomes.abandoned);
    wire.rejected = cut(outcomes.rejected);
}

#[cfg(test)]
mod tests {
    use super::*;
    use panelboard_core::{Classification, PolicySpec, Rate, Rule, Window};
    use std::time::Duration;
    use v1::raw_outcome::Fact as Wire;

    #[test]
    fn raw_facts_are_classified_by_the_policy() {
        let slow = Rule::SlowRate {
            threshold: Rate::ALL,
            slower_than: Duration::from_secs(1),
            window: Window::Last(10),
            minimum_calls: 1,
        };
        let classification = Classification { failure: vec!["http_429".into()], ..Classification::default() };
        let spec = PolicySpec { trip: vec![slow], classification, ..PolicySpec::default() };
        let policy = Policy::try_new(spec, 1).unwrap();
        let raw = |fact, millis, count| v1::RawOutcome {
            fact: Some(fact),
            duration: Some(super::super::duration_to_wire(Duration::from_millis(millis))),
            count,
        };
        let wire = v1::ReportEntry {
            successes: 1,
            raw: vec![
                raw(Wire::HttpStatus(503), 1_001, 2),
                raw(Wire::HttpStatus(429), 1_000, 0),
                raw(Wire::HttpStatus(401), 0, 7),
                raw(Wire::GrpcCode(0), 5_000, 3),
                raw(Wire::Cause("nobody-knows".into()), 0, 1),
            ],
            ..v1::ReportEntry::default()
        };
        let entry = entry_from_wire(&wire, &policy);
        let expected = Outcomes {
            successes: 4,
            slow_successes: 3,
            failures: 4,
            slow_failures: 2,
            ignored: 7,
            ..Outcomes::default()
        };
        assert_eq!(entry.outcomes, expected);
        let causes: Vec<_> = entry.causes.iter().map(|(cause, n)| (cause.as_str(), *n)).collect();
        assert_eq!(causes, [("http_401", 7), ("http_429", 1), ("http_503", 2), ("other", 1)]);
    }
}
