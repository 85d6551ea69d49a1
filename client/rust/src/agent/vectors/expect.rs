//! Compares what a script expects with what came.

use std::{collections::BTreeMap, fmt::Debug};

use panelboard_proto::v1;

use super::{
    message::{generation, millis},
    script::{EntryExpect, Expect, Span},
    world::{Decision, Done, Handle},
};

/// All that is not as expected.
pub(super) fn mismatches(expect: &Expect, done: &Done, breaker: &Handle) -> Vec<String> {
    let mut wrong = Wrong(Vec::new());
    let (state, freshness) = breaker.with(|cell, now| (cell.state(now), cell.freshness()));
    wrong.unless_same("freshness", expect.freshness.as_ref(), &freshness.to_string());
    wrong.unless_same("state", expect.state.as_ref(), &state.to_string());
    wrong.unless_same("resume", expect.resume.as_ref(), &done.resume.clone().unwrap_or_default());
    let connects_at = done.connects_at.map(panelboard_core::Timestamp::as_millis);
    wrong.unless_within("connects_at_ms", expect.connects_at_ms, connects_at);
    decisions(expect, &done.decisions, &mut wrong);
    breaker.seen(|seen| {
        if let Some(expected) = &expect.asks_at_ms {
            let asks: Vec<_> = seen.asks.drain(..).map(panelboard_core::Timestamp::as_millis).collect();
            let as_expected = asks.len() == expected.len()
                && expected.iter().zip(&asks).all(|(span, at)| span.holds(Some(*at)));
            let shown: Vec<_> = expected.iter().map(|span| span.shown()).collect();
            wrong.unless(as_expected, || {
                format!("asks_at_ms: expected [{}], came {asks:?}", shown.join(", "))
            });
        }
        if let Some(expected) = &expect.reports {
            let came: Vec<_> = seen.reports.drain(..).collect();
            wrong.unless(came.len() == expected.len(), || {
                format!("reports: expected {}, came {}: {came:?}", expected.len(), came.len())
            });
            for (n, (expected, (at, came))) in expected.iter().zip(&came).enumerate() {
                entry(n, expected, at.as_millis(), came, &mut wrong);
            }
        }
    });
    wrong.0
}

struct Wrong(Vec<String>);

impl Wrong {
    fn unless(&mut self, is_right: bool, message: impl FnOnce() -> String) {
        if !is_right {
            self.0.push(message());
        }
    }

    fn unless_same<T: PartialEq + Debug>(&mut self, what: &str, expected: Option<&T>, came: &T) {
        if let Some(expected) = expected {
            self.unless(expected == came, || format!("{what}: expected {expected:?}, came {came:?}"));
        }
    }

    fn unless_within(&mut self, what: &str, expected: Option<Span>, came: Option<u64>) {
        if let Some(expected) = expected {
            let shown = came.map_or("none".into(), |came| came.to_string());
            self.unless(expected.holds(came), || {
                format!("{what}: expected {}, came {shown}", expected.shown())
            });
        }
    }
}

fn decisions(expect: &Expect, decisions: &[Decision], wrong: &mut Wrong) {
    let Expect { decision, reason, retry_after_ms, probe, .. } = expect;
    let looks = decision.is_some() || reason.is_some() || retry_after_ms.is_some() || probe.is_some();
    wrong.unless(!looks || !decisions.is_empty(), || "decision: this step decides nothing".into());
    for came in decisions {
        let (word, why, after, is_probe) = match came {
            Decision::Admitted(ticket) => ("admitted", "", None, ticket.probe.is_some()),
            Decision::Rejected { reason, retry_after } => ("rejected", reason.as_str(), *retry_after, false),
            Decision::Waiting => ("waiting", "", None, false),
        };
        let before = wrong.0.len();
        wrong.unless_same("decision", decision.as_ref(), &word.to_owned());
        wrong.unless_same("reason", reason.as_ref(), &why.to_owned());
        wrong.unless_within("retry_after_ms", *retry_after_ms, after.map(|span| span.as_millis() as u64));
        wrong.unless_same("probe", probe.as_ref(), &is_probe);
        if wrong.0.len() > before {
            wrong.0.push(format!("({came:?})"));
            return;
        }
    }
}

fn entry(n: usize, expected: &EntryExpect, at: u64, came: &v1::ReportEntry, wrong: &mut Wrong) {
    let what = |key: &str| format!("reports[{n}].{key}");
    wrong.unless_within(&what("sent_at_ms"), expected.sent_at_ms, Some(at));
    wrong.unless_same(&what("sequence"), expected.sequence.as_ref(), &came.sequence);
    let expected_generation = expected.generation.map(|pair| Some(generation(pair)));
    wrong.unless_same(&what("generation"), expected_generation.as_ref(), &came.generation);
    wrong.unless_same(&what("at_tick"), expected.at_tick.map(Some).as_ref(), &came.at_tick);
    for (key, expected, came) in [
        ("successes", expected.successes, came.successes),
        ("failures", expected.failures, came.failures),
        ("slow_successes", expected.slow_successes, came.slow_successes),
        ("slow_failures", expected.slow_failures, came.slow_failures),
        ("ignored", expected.ignored, came.ignored),
        ("abandoned", expected.abandoned, came.abandoned),
        ("rejected", expected.rejected, came.rejected),
    ] {
        wrong.unless_same(&what(key), Some(&expected), &came);
    }
    let streaks = came.streaks.as_ref().map(|s| [s.leading, s.longest, s.trailing]);
    wrong.unless_same(&what("streaks"), expected.streaks.map(Some).as_ref(), &streaks);
    let causes: BTreeMap<_, _> = came.causes.iter().map(|(cause, n)| (cause.clone(), *n)).collect();
    wrong.unless_same(&what("causes"), expected.causes.as_ref(), &causes);
    let retry_after = came.retry_after.as_ref().map(millis);
    wrong.unless_same(&what("retry_after_ms"), expected.retry_after_ms.map(Some).as_ref(), &retry_after);
    wrong.unless_same(&what("probe_id"), Some(&expected.probe_id), &came.probe_id);
}
