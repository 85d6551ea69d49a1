//! Revisions: a policy has 1 when it is first seen, and one more with each change of what it says.

use std::collections::HashMap;

use panelboard_core::{
    Classification, GuardSpec, HalfOpenSpec, OnDisconnect, OpenSpec, PolicySpec, RetryAfterScope, Rule,
    Window,
};

use crate::digest::Digest;

/// What is remembered of every policy that was ever seen, so that one that comes back does not count from 1 again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Revisions(HashMap<String, (Digest, u64)>);

impl Revisions {
    pub(crate) fn of(known: impl IntoIterator<Item = (String, Digest, u64)>) -> Self {
        Self(known.into_iter().map(|(name, digest, revision)| (name, (digest, revision))).collect())
    }

    /// The revision of a policy that now has this content.
    pub(crate) fn next(&mut self, name: &str, digest: Digest) -> u64 {
        let revision = match self.0.get(name) {
            Some((known, revision)) if *known == digest => *revision,
            Some((_, revision)) => revision.saturating_add(1),
            None => 1,
        };
        self.0.insert(name.to_owned(), (digest, revision));
        revision
    }

    /// Forgets policies that are gone, if otherwise more than `most` were remembered.
    pub(crate) fn bound(&mut self, most: usize, lives: impl Fn(&str) -> bool) {
        if self.0.len() > most {
            self.0.retain(|name, _| lives(name));
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Digest, u64)> {
        self.0.iter().map(|(name, (digest, revision))| (name.as_str(), *digest, *revision))
    }
}

/// What a policy says, without its file, its line, its comments and the names it is for.
pub(crate) fn digest(spec: &PolicySpec) -> Digest {
    // Taken apart in full, so that a new field cannot be forgotten here.
    let PolicySpec {
        name,
        description,
        owner,
        runbook,
        degrades_to,
        trip,
        open: OpenSpec { wait, multiplier_hundredths, max_wait, jitter_hundredths },
        half_open:
            HalfOpenSpec { permitted_calls, probe_timeout, limit, successes_to_close, failures_to_open },
        spread,
        guard: GuardSpec { min_instances, share_hundredths, min_calls },
        classification: Classification { failure, ignored, success },
        retry_after_scope,
        retry_after_max,
        on_disconnect,
    } = spec;
    let ms = |duration: &std::time::Duration| duration.as_millis().to_string();
    let mut words = Words(Digest::EMPTY);
    for text in [name, description, owner, runbook, degrades_to] {
        words.add(text);
    }
    words.add(trip.len());
    for rule in trip {
        words.add(rule.measure());
        words.add(rule.threshold());
        words.add(rule.minimum_calls());
        match rule.window() {
            Some(Window::Within(span)) => words.add(format!("within {}", ms(&span))),
            Some(Window::Last(size)) => words.add(format!("last {size}")),
            None => words.add("-"),
        }
        match rule {
            Rule::SlowRate { slower_than, .. } => words.add(ms(slower_than)),
            Rule::FailureRate { .. } | Rule::Failures { .. } | Rule::ConsecutiveFailures { .. } => {
                words.add("-")
            }
        }
    }
    for number in [multiplier_hundredths, jitter_hundredths, permitted_calls, min_instances] {
        words.add(number);
    }
    for duration in [wait, max_wait, probe_timeout, spread, retry_after_max] {
        words.add(ms(duration));
    }
    words.add(limit.as_ref().map_or_else(|| "-".to_owned(), ms));
    for number in [successes_to_close, failures_to_open] {
        words.add(number.map_or_else(|| "-".to_owned(), |number| number.to_string()));
    }
    for causes in [failure, ignored, success] {
        words.add(causes.len());
        causes.iter().for_each(|cause| words.add(cause));
    }
    words.add(match on_disconnect {
        OnDisconnect::Local => "local",
        OnDisconnect::Allow => "allow",
        OnDisconnect::Deny => "deny",
    });
    // Fields that came later say something only where they differ from what went without saying before.
    let default = GuardSpec::default();
    if (*share_hundredths, *min_calls) != (default.share_hundredths, default.min_calls) {
        words.add(format!("guard {share_hundredths} {min_calls}"));
    }
    match retry_after_scope {
        RetryAfterScope::Instance => {}
        RetryAfterScope::Fleet => words.add("retry_after fleet"),
        RetryAfterScope::Off => words.add("retry_after off"),
    }
    words.0
}

struct Words(Digest);

impl Words {
    fn add(&mut self, word: impl ToString) {
        self.0 = self.0.with(word.to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_grows_with_each_change_and_survives_an_absence() {
        let (one, other) = (Digest::EMPTY, Digest::EMPTY.with(b"x"));
        let mut revisions = Revisions::default();
        let seen = [one, one, other, one, one].map(|digest| revisions.next("a", digest));
        assert_eq!(seen, [1, 1, 2, 3, 3]);
        let mut restarted = Revisions::of(revisions.iter().map(|(n, d, r)| (n.to_owned(), d, r)));
        assert_eq!(
            (restarted.next("a", one), restarted.next("a", other), restarted.next("b", one)),
            (3, 4, 1)
        );
        restarted.bound(2, |_| false);
        assert_eq!(restarted.iter().count(), 2);
        restarted.bound(1, |name| name == "b");
        assert_eq!(restarted.iter().collect::<Vec<_>>(), [("b", one, 1)]);
    }

    #[test]
    fn the_default_policy_keeps_its_digest_over_versions() {
        assert_eq!(digest(&PolicySpec::default()).to_string(), "4ad636faec2feb55fcf1c4c48c4466a2");
    }
}
