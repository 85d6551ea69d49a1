//! Sentences for people, made of a transition's data. The one place where the rules speak.

use std::{fmt, time::Duration};

use crate::{
    half_open::ProbeTally,
    policy::Rule,
    rate::{Hundredths, hundredths_of},
    tally::Reading,
    transition::{Crossing, OpenWait, Reason, Transition, TripBy, WouldOpen},
};

/// A duration for people: `300 ms`, `4.2 s`, `3m20s`, `3h12m`, `2d3h`. Cut off, never rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, millis) = (self.0.as_secs(), self.0.subsec_millis());
        let pair = |f: &mut fmt::Formatter<'_>, big: u64, unit: char, small: u64, sub: char| match small {
            0 => write!(f, "{big}{unit}"),
            _ => write!(f, "{big}{unit}{small}{sub}"),
        };
        match secs {
            0 => write!(f, "{millis} ms"),
            1..60 if millis < 100 => write!(f, "{secs} s"),
            1..60 => write!(f, "{secs}.{} s", millis / 100),
            60..3_600 => pair(f, secs / 60, 'm', secs % 60, 's'),
            3_600..86_400 => pair(f, secs / 3_600, 'h', secs % 3_600 / 60, 'm'),
            _ => pair(f, secs / 86_400, 'd', secs % 86_400 / 3_600, 'h'),
        }
    }
}

impl fmt::Display for Transition {
    /// `OPEN (was CLOSED 3h12m): failure rate 62.5 % >= 50 % (25 of 40 in 10 s), ...; retry in 5 s; policy x rev 7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lasted = Span(self.previous_lasted);
        write!(f, "{} (was {} {lasted}): {}", self.to, self.from, Explanation(self))?;
        write!(f, "; policy {} rev {}", self.policy_name, self.policy_revision)
    }
}

/// Why a transition happened, in one sentence, with the wait that followed.
pub struct Explanation<'a>(pub &'a Transition);

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Why(self.0))?;
        if let Some(wait) = &self.0.wait {
            write!(f, "; {wait}")?;
        }
        Ok(())
    }
}

/// Why a transition happened, without the wait that followed.
pub struct Why<'a>(pub &'a Transition);

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transition = self.0;
        match &transition.reason {
            Reason::RuleCrossed { crossing } => write_crossed(f, crossing, transition.active_instances)?,
            Reason::RetryAfter { asked, required, longest } => write!(
                f,
                "the dependency asked {asked} of {} instances to wait, {required} needed, up to {}",
                transition.active_instances,
                Span(*longest)
            )?,
            Reason::WaitOver { waited } => write!(f, "the wait of {} is over, probing", Span(*waited))?,
            Reason::ProbesFailed { probes, needed } => {
                let ProbeTally { failed, overdue, .. } = *probes;
                let permitted = probes.all();
                match overdue {
                    0 => write!(f, "{failed} of {permitted} probes failed")?,
                    n if n == failed => write!(f, "{n} of {permitted} probes ran past their deadline")?,
                    n => write!(f, "{failed} of {permitted} probes failed, {n} of them past their deadline")?,
                }
                write!(f, ", {needed} needed to reopen")?;
            }
            Reason::ProbesSlow { probes, needed } => {
                write!(f, "{} of {} probes were slow, {needed} needed to reopen", probes.slow, probes.all())?;
            }
            Reason::ProbesSucceeded { probes, needed } => {
                write!(
                    f,
                    "{} of {} probes succeeded, {needed} needed to close",
                    probes.succeeded,
                    probes.all()
                )?;
            }
            Reason::HalfOpenLimit { probes, limit } => {
                write!(f, "half-open for its limit of {}: {}", Span(*limit), Probes(probes))?;
            }
            Reason::Operator { hand } => write!(f, "moved by {hand}")?,
            Reason::Reset { hand } => write!(f, "reset by {hand}")?,
            Reason::OverrideSet { hand, until: Some(span) } => {
                write!(f, "set by {hand} for {}", Span(*span))?;
            }
            Reason::OverrideSet { hand, until: None } => write!(f, "set by {hand} until it is cleared")?,
            Reason::OverrideEnded { hand: Some(hand) } => write!(f, "the override was cleared by {hand}")?,
            Reason::OverrideEnded { hand: None } => f.write_str("the override reached its end")?,
            Reason::Restored => {
                f.write_str("half-open when the server stopped, so its probes are unknown")?
            }
        }
        write_top_cause(f, &transition.top_causes)
    }
}

impl fmt::Display for OpenWait {
    /// `retry in 22 s (reopening 2)`, `retry in 60 s (asked for by the dependency)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "retry in {}", Span(self.total))?;
        match (self.reopenings, self.retry_after) {
            (_, Some(_)) => f.write_str(" (asked for by the dependency)"),
            (0, None) => Ok(()),
            (n, None) => write!(f, " (reopening {n})"),
        }
    }
}

impl fmt::Display for WouldOpen {
    /// `would be OPEN: failure rate 62.5 % >= 50 % (25 of 40 in 10 s), 9 of 12 instances, ...; policy x rev 7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("would be OPEN: ")?;
        write_crossed(f, &self.crossing, self.active_instances)?;
        write_top_cause(f, &self.top_causes)?;
        write!(f, "; for {}", Span(self.wait))?;
        write!(f, "; policy {} rev {}", self.policy_name, self.policy_revision)
    }
}

/// What was crossed and by how many of the instances.
fn write_crossed(f: &mut fmt::Formatter<'_>, crossing: &Crossing, active: u32) -> fmt::Result {
    let affected = crossing.affected;
    match crossing.by {
        // That a streak is one instance's own is what its number says nothing about.
        TripBy::Calls { .. } | TripBy::Streaks { .. } => {
            write!(f, "{crossing}, {affected} of {active} instances")
        }
        TripBy::Votes { votes } => {
            let rule = crossing.reading.rule;
            write!(f, "{votes} of {active} instances each cross {rule} (in all {})", Share(&crossing.reading))
        }
    }
}

fn write_top_cause(f: &mut fmt::Formatter<'_>, causes: &[(crate::Cause, u64)]) -> fmt::Result {
    causes.first().map_or(Ok(()), |(cause, n)| write!(f, ", top cause {cause} {n}"))
}

impl fmt::Display for Crossing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Numbers(&self.reading))
    }
}

/// What a rule looks at, of how many calls: `90 of 100090 failed`.
struct Share<'a>(&'a Reading);

impl fmt::Display for Share<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reading { rule, calls, matched, .. } = self.0;
        match rule {
            Rule::FailureRate { .. } | Rule::Failures { .. } => write!(f, "{matched} of {calls} failed"),
            Rule::SlowRate { .. } => write!(f, "{matched} of {calls} were slow"),
            Rule::ConsecutiveFailures { .. } => write!(f, "up to {matched} in a row"),
        }
    }
}

/// A rule that is crossed, with the numbers that cross it.
pub(crate) struct Numbers<'a>(pub(crate) &'a Reading);

impl fmt::Display for Numbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reading { rule, calls, matched, .. } = *self.0;
        let observed = Hundredths(hundredths_of(matched, calls));
        match rule {
            Rule::FailureRate { threshold, window, .. } => {
                write!(f, "failure rate {observed} % >= {threshold} ({matched} of {calls} {window})")
            }
            Rule::SlowRate { threshold, slower_than, window, .. } => {
                let span = Span(slower_than);
                write!(f, "slow rate {observed} % >= {threshold} ({matched} of {calls} over {span} {window})")
            }
            Rule::Failures { threshold, window } => write!(f, "{matched} failures >= {threshold} {window}"),
            Rule::ConsecutiveFailures { threshold } => {
                write!(f, "{matched} consecutive failures >= {threshold}")
            }
        }
    }
}

/// What the probes of a half-open period came to.
pub(crate) struct Probes<'a>(pub(crate) &'a ProbeTally);

impl fmt::Display for Probes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProbeTally { permitted, succeeded, failed, slow, overdue, expired } = self.0;
        write!(f, "{succeeded} of {permitted} probes succeeded, {failed} failed")?;
        if *slow > 0 {
            write!(f, ", {slow} were slow")?;
        }
        if *overdue > 0 {
            write!(f, ", {overdue} ran past their deadline")?;
        }
        if *expired > 0 {
            write!(f, ", {expired} never came back")?;
        }
        Ok(())
    }
}

/// How far a counting breaker is from its nearest rule.
pub(crate) struct Distance<'a>(pub(crate) &'a [Reading]);

impl fmt::Display for Distance<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The nearest rule is the one of whose needed matches the largest part is there; calls break a tie, then the order of the rules.
        let nearest = self.0.iter().rev().max_by(|a, b| {
            let share = |r: &Reading, other: &Reading| u128::from(r.matched) * u128::from(other.needed());
            share(a, b).cmp(&share(b, a)).then(a.calls.cmp(&b.calls))
        });
        let Some(reading) = nearest else { return f.write_str("no rule") };
        let Reading { rule, calls, matched, .. } = *reading;
        let what = if matches!(rule, Rule::SlowRate { .. }) { "slow" } else { "failed" };
        match rule {
            Rule::FailureRate { threshold, minimum_calls, .. }
            | Rule::SlowRate { threshold, minimum_calls, .. } => {
                if calls < u64::from(minimum_calls) {
                    write!(f, "{calls} of {minimum_calls} calls, {matched} {what}")
                } else {
                    let observed = Hundredths(hundredths_of(matched, calls));
                    write!(f, "{calls} calls, {matched} {what}: {observed} % of {threshold}")
                }
            }
            Rule::Failures { threshold, window } => write!(f, "{matched} of {threshold} failures {window}"),
            Rule::ConsecutiveFailures { threshold } => {
                write!(f, "{matched} of {threshold} failures in a row")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short_and_never_rounded_up() {
        let show = |millis| Span(Duration::from_millis(millis)).to_string();
        let shown =
            [300, 999, 1_000, 4_260, 59_999, 60_000, 90_000, 3_600_000, 11_520_000, 183_600_000].map(show);
        assert_eq!(
            shown,
            ["300 ms", "999 ms", "1 s", "4.2 s", "59.9 s", "1m", "1m30s", "1h", "3h12m", "2d3h"]
        );
    }
}
