//! What an operator sets for a breaker. A [`Policy`] that exists is valid.

mod validate;

use std::{fmt, time::Duration};

use crate::{classify::Classification, rate::Rate};

pub use validate::{
    DURATION_MAX, LAST_MAX, MINIMUM_CALLS_MAX, PERMITTED_CALLS_MAX, RULES_MAX, SPREAD_MAX, TEXT_BYTES_MAX,
    Violation, WITHIN_MIN,
};

/// The window of what needs one in a policy without a `within` rule.
pub const DEFAULT_WINDOW: Duration = Duration::from_secs(60);

/// One condition that trips a breaker. Any rule of a policy trips it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Failures among the counted calls, at `threshold` or above.
    FailureRate {
        /// The rate that trips.
        threshold: Rate,
        /// Over what.
        window: Window,
        /// Counted calls needed before it can trip.
        minimum_calls: u32,
    },
    /// Calls slower than `slower_than` among the counted calls, at `threshold` or above.
    SlowRate {
        /// The rate that trips.
        threshold: Rate,
        /// A call that takes longer is slow.
        slower_than: Duration,
        /// Over what.
        window: Window,
        /// Counted calls needed before it can trip.
        minimum_calls: u32,
    },
    /// So many failures, or more.
    Failures {
        /// The number that trips.
        threshold: u32,
        /// Over what.
        window: Window,
    },
    /// So many failures in a row of one instance, or more.
    ConsecutiveFailures {
        /// The number that trips.
        threshold: u32,
    },
}

/// What a rule looks back over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The last so much time.
    Within(Duration),
    /// The last so many counted calls of each instance.
    Last(u32),
}

impl Rule {
    /// The rule's window; none for consecutive failures.
    pub const fn window(&self) -> Option<Window> {
        match self {
            Self::FailureRate { window, .. }
            | Self::SlowRate { window, .. }
            | Self::Failures { window, .. } => Some(*window),
            Self::ConsecutiveFailures { .. } => None,
        }
    }

    /// Counted calls needed before the rule can trip; 0 where it needs none.
    pub const fn minimum_calls(&self) -> u32 {
        match self {
            Self::FailureRate { minimum_calls, .. } | Self::SlowRate { minimum_calls, .. } => *minimum_calls,
            Self::Failures { .. } | Self::ConsecutiveFailures { .. } => 0,
        }
    }

    /// The measure's name, as in metrics and policy files.
    pub const fn measure(&self) -> &'static str {
        match self {
            Self::FailureRate { .. } => "failure_rate",
            Self::SlowRate { .. } => "slow_rate",
            Self::Failures { .. } => "failures",
            Self::ConsecutiveFailures { .. } => "consecutive_failures",
        }
    }

    /// The threshold as a number: hundredths of a percent for rates, a count for counts.
    pub const fn threshold(&self) -> u32 {
        match self {
            Self::FailureRate { threshold, .. } | Self::SlowRate { threshold, .. } => threshold.hundredths(),
            Self::Failures { threshold, .. } | Self::ConsecutiveFailures { threshold } => *threshold,
        }
    }
}

/// What an operator writes. [`Policy::try_new`] makes a policy of it, or says all that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySpec {
    /// The policy's name.
    pub name: String,
    /// What it is for, for people.
    pub description: String,
    /// Whom to page.
    pub owner: String,
    /// Where the runbook is.
    pub runbook: String,
    /// What callers fall back to.
    pub degrades_to: String,
    /// The trip rules.
    pub trip: Vec<Rule>,
    /// How long OPEN lasts.
    pub open: OpenSpec,
    /// How HALF_OPEN probes.
    pub half_open: HalfOpenSpec,
    /// Over how long admission is spread after closing.
    pub spread: Duration,
    /// What a quorum needs, and whether a sick instance is kept out.
    pub guard: GuardSpec,
    /// What counts as a failure.
    pub classification: Classification,
    /// Whom a dependency's retry-after holds back by itself.
    pub retry_after_scope: RetryAfterScope,
    /// The longest retry-after of a dependency that is honoured; zero: none is.
    pub retry_after_max: Duration,
    /// What clients do when their server is away.
    pub on_disconnect: OnDisconnect,
}

/// How long OPEN lasts: wait x multiplier ^ reopenings, capped, plus jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSpec {
    /// The first wait.
    pub wait: Duration,
    /// What each reopening multiplies the wait with, in hundredths: 200 doubles it.
    pub multiplier_hundredths: u32,
    /// The cap of the grown wait.
    pub max_wait: Duration,
    /// Up to this share of the wait is added, in hundredths of a percent.
    pub jitter_hundredths: u32,
}

/// How HALF_OPEN probes and decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfOpenSpec {
    /// Probes of one period, over all instances together.
    pub permitted_calls: u32,
    /// How long a probe may run.
    pub probe_timeout: Duration,
    /// How long a period may last once somebody asked; none: max(2 x probe_timeout, 30 s).
    pub limit: Option<Duration>,
    /// Non-failed probes that close; none: derived from the lowest failure rate.
    pub successes_to_close: Option<u32>,
    /// Failed probes that reopen; none: derived from the lowest failure rate.
    pub failures_to_open: Option<u32>,
}

/// What a quorum needs, and whether a sick instance is kept out while the fleet goes on.
///
/// `min_instances: 1` with a share of zero turns the guard off: what any one instance reports can trip the breaker, and
/// nobody is quarantined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardSpec {
    /// Instances that a trip or a reopening needs at least, as far as so many are known.
    pub min_instances: u32,
    /// Or this share of the active instances if that is more, in hundredths of a percent.
    pub share_hundredths: u32,
    /// Calls that are left to be judged by when the worst instances are left out, and calls that an instance has to
    /// make after its quarantine before it counts again.
    pub min_calls: u32,
}

impl GuardSpec {
    /// No guard: any one instance can trip the breaker, and none is quarantined.
    pub const OFF: Self = Self { min_instances: 1, share_hundredths: 0, min_calls: 5 };

    /// Whether there is no guard.
    pub const fn is_off(&self) -> bool {
        self.min_instances <= 1 && self.share_hundredths == 0
    }

    /// Instances that a trip needs, of so many that are active and known. One that is alone is the fleet.
    pub fn required(&self, active: u32, known: u32) -> u32 {
        let share = (u64::from(self.share_hundredths) * u64::from(active)).div_ceil(10_000);
        let wanted = u64::from(self.min_instances).max(share);
        let most = active.max(self.min_instances.min(known)).max(1);
        u32::try_from(wanted).unwrap_or(u32::MAX).clamp(1, most)
    }
}

/// Whom a dependency's retry-after holds back by itself. Whatever the scope, except for [`Self::Off`], it lengthens a
/// wait that the rules decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RetryAfterScope {
    /// The instance that it was said to.
    #[default]
    Instance,
    /// The instance that it was said to; all of them once as many were told to wait as the guard requires for a trip.
    Fleet,
    /// Nobody: it is not heeded.
    Off,
}

/// What a client does when its server is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDisconnect {
    /// Its own breaker decides, with the same policy scaled to one instance.
    #[default]
    Local,
    /// Everything passes.
    Allow,
    /// Everything is rejected.
    Deny,
}

impl Default for PolicySpec {
    /// The documented defaults: 50 % of at least 20 calls within 10 s, or 90 % of at least 20 within 1 s.
    fn default() -> Self {
        let rate = |percent, within| Rule::FailureRate {
            threshold: Rate::percent(percent).unwrap_or(Rate::ALL),
            window: Window::Within(Duration::from_secs(within)),
            minimum_calls: 20,
        };
        Self {
            name: "default".into(),
            description: String::new(),
            owner: String::new(),
            runbook: String::new(),
            degrades_to: String::new(),
            trip: vec![rate(50, 10), rate(90, 1)],
            open: OpenSpec::default(),
            half_open: HalfOpenSpec::default(),
            spread: Duration::from_secs(2),
            guard: GuardSpec::default(),
            classification: Classification::default(),
            retry_after_scope: RetryAfterScope::Instance,
            retry_after_max: Duration::from_secs(300),
            on_disconnect: OnDisconnect::Local,
        }
    }
}

impl Default for OpenSpec {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(5),
            multiplier_hundredths: 200,
            max_wait: Duration::from_secs(60),
            jitter_hundredths: 1_000,
        }
    }
}

impl Default for HalfOpenSpec {
    fn default() -> Self {
        Self {
            permitted_calls: 5,
            probe_timeout: Duration::from_secs(10),
            limit: None,
            successes_to_close: None,
            failures_to_open: None,
        }
    }
}

impl Default for GuardSpec {
    fn default() -> Self {
        Self { min_instances: 2, share_hundredths: 2_000, min_calls: 5 }
    }
}

/// A valid policy, and its revision.
#[derive(Clone, Debug)]
pub struct Policy {
    spec: PolicySpec,
    revision: u64,
    verdict: Verdict,
}

/// What decides a half-open period, derived from the policy alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Failed probes that reopen, before the number of known instances is looked at.
    pub failures_to_open: u32,
    /// Non-failed probes that close.
    pub successes_to_close: u32,
    /// Slow probes that reopen, and non-slow ones needed to close; none without a slow rule.
    pub slow: Option<SlowVerdict>,
}

/// The slow part of a [`Verdict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowVerdict {
    /// Slow probes that reopen.
    pub to_open: u32,
    /// Probes that were not slow needed to close.
    pub fast_to_close: u32,
}

impl Policy {
    /// Makes a policy.
    ///
    /// # Errors
    /// All that is wrong with the spec, each with its place, the wrong value and a remedy.
    pub fn try_new(spec: PolicySpec, revision: u64) -> Result<Self, Vec<Violation>> {
        let violations = validate::violations(&spec);
        if !violations.is_empty() {
            return Err(violations);
        }
        let verdict = Verdict::of(&spec);
        Ok(Self { spec, revision, verdict })
    }

    /// What the operator wrote.
    pub const fn spec(&self) -> &PolicySpec {
        &self.spec
    }

    /// Grows with each change.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// What decides a half-open period.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// What is allowed but probably not meant: rules that cannot trip, or that trip on noise.
    pub fn warnings(&self) -> Vec<Violation> {
        validate::warnings(&self.spec)
    }

    /// A call that takes longer than this is slow; none without a slow rule.
    pub fn slower_than(&self) -> Option<Duration> {
        self.spec.trip.iter().find_map(|rule| match rule {
            Rule::SlowRate { slower_than, .. } => Some(*slower_than),
            _ => None,
        })
    }

    /// The longest `within`; [`DEFAULT_WINDOW`] for a policy that has none.
    pub fn window(&self) -> Duration {
        self.withins().max().unwrap_or(DEFAULT_WINDOW)
    }

    /// The size of the ring of last calls, if a rule looks at one.
    pub fn last(&self) -> Option<u32> {
        self.spec.trip.iter().find_map(|rule| match rule.window() {
            Some(Window::Last(size)) => Some(size),
            _ => None,
        })
    }

    /// The windows in time.
    pub(crate) fn withins(&self) -> impl Iterator<Item = Duration> + '_ {
        self.spec.trip.iter().filter_map(|rule| match rule.window() {
            Some(Window::Within(span)) => Some(span),
            _ => None,
        })
    }

    /// The longest retry-after that is heeded; none if none is.
    pub(crate) fn heeded(&self, retry_after: Option<Duration>) -> Option<Duration> {
        let most = match self.spec.retry_after_scope {
            RetryAfterScope::Off => Duration::ZERO,
            RetryAfterScope::Instance | RetryAfterScope::Fleet => self.spec.retry_after_max,
        };
        retry_after.map(|span| span.min(most)).filter(|span| !span.is_zero())
    }

    /// How long a half-open period may last once somebody asked.
    pub fn half_open_limit(&self) -> Duration {
        let spec = &self.spec.half_open;
        spec.limit.unwrap_or_else(|| (spec.probe_timeout * 2).max(Duration::from_secs(30)))
    }

    /// The wait of an opening after `reopenings` reopenings, capped, without jitter.
    pub(crate) fn open_wait(&self, reopenings: u32) -> Duration {
        let open = &self.spec.open;
        // In nanoseconds, so that the shortest wait grows by the smallest multiplier, and the cap is soon reached.
        let cap = open.max_wait.as_nanos();
        let mut wait = open.wait.as_nanos();
        for _ in 0..reopenings {
            if wait >= cap || open.multiplier_hundredths == 100 {
                break;
            }
            wait = wait * u128::from(open.multiplier_hundredths) / 100;
        }
        Duration::from_millis(u64::try_from(wait.min(cap) / 1_000_000).unwrap_or(u64::MAX))
    }

    /// The same policy for the breaker of one client that is cut off: `minimum_calls` and `failures` are divided
    /// by the instances that were active, not under 10 and 3, and never above the policy's own.
    pub fn scaled_to_one_of(&self, active_instances: u32) -> Self {
        let share = |whole: u32, least: u32| whole.div_ceil(active_instances.max(1)).max(least).min(whole);
        let mut scaled = self.clone();
        for rule in &mut scaled.spec.trip {
            match rule {
                Rule::FailureRate { minimum_calls, .. } | Rule::SlowRate { minimum_calls, .. } => {
                    *minimum_calls = share(*minimum_calls, 10);
                }
                Rule::Failures { threshold, .. } => *threshold = share(*threshold, 3),
                Rule::ConsecutiveFailures { .. } => {}
            }
        }
        scaled
    }
}

impl Verdict {
    /// With k permitted calls: failures_to_open is the least part of k at the lowest failure rate, slow likewise;
    /// k - failures_to_open + 1 close. Without a rate rule one failure reopens and all must succeed.
    fn of(spec: &PolicySpec) -> Self {
        let permitted = spec.half_open.permitted_calls;
        let lowest = |rate: fn(&Rule) -> Option<Rate>| {
            let lowest = spec.trip.iter().filter_map(rate).min();
            lowest.map(|rate| u32::try_from(rate.least_of(permitted.into())).unwrap_or(permitted))
        };
        let derived = lowest(|rule| match rule {
            Rule::FailureRate { threshold, .. } => Some(*threshold),
            _ => None,
        });
        let slow = lowest(|rule| match rule {
            Rule::SlowRate { threshold, .. } => Some(*threshold),
            _ => None,
        });
        // One that is set bounds the one that is derived: together they may not exceed permitted + 1.
        let set = &spec.half_open;
        let derived = derived.unwrap_or(1);
        let failures_to_open = match (set.failures_to_open, set.successes_to_close) {
            (Some(failures), _) => failures,
            (None, Some(successes)) => derived.min(permitted + 1 - successes.min(permitted)),
            (None, None) => derived,
        };
        let successes_to_close =
            set.successes_to_close.unwrap_or(permitted + 1 - failures_to_open.min(permitted));
        Self {
            failures_to_open,
            successes_to_close,
            slow: slow.map(|to_open| {
                // Who asks for fewer successes than could be certain asks for no more fast ones either.
                let most = set.successes_to_close.unwrap_or(permitted);
                SlowVerdict { to_open, fast_to_close: (permitted + 1 - to_open.min(permitted)).min(most) }
            }),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FailureRate { threshold, window, minimum_calls } => {
                write!(f, "failure rate >= {threshold} of at least {minimum_calls} calls {window}")
            }
            Self::SlowRate { threshold, slower_than, window, minimum_calls } => {
                let slower_than = crate::explain::Span(*slower_than);
                write!(
                    f,
                    "slow rate >= {threshold} (over {slower_than}) of at least {minimum_calls} calls {window}"
                )
            }
            Self::Failures { threshold, window } => write!(f, "failures >= {threshold} {window}"),
            Self::ConsecutiveFailures { threshold } => write!(f, "consecutive failures >= {threshold}"),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Within(span) => write!(f, "in {}", crate::explain::Span(*span)),
            Self::Last(size) => write!(f, "in the last {size} of each instance"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(trip: Vec<Rule>, half_open: HalfOpenSpec) -> Verdict {
        Policy::try_new(PolicySpec { trip, half_open, ..PolicySpec::default() }, 1).unwrap().verdict()
    }

    fn rate(percent: u32) -> Rule {
        Rule::FailureRate {
            threshold: Rate::percent(percent).unwrap(),
            window: Window::Last(100),
            minimum_calls: 1,
        }
    }

    #[test]
    fn a_quorum_is_the_share_or_the_minimum_and_no_more_than_there_are() {
        let required = |active, known| GuardSpec::default().required(active, known);
        assert_eq!([1, 2, 3, 5, 10, 11, 100].map(|active| required(active, active)), [1, 2, 2, 2, 2, 3, 20]);
        // Who calls alone while others are there is not alone.
        assert_eq!([required(1, 2), required(1, 100), required(0, 0), required(0, 9)], [2, 2, 1, 2]);
        let all = GuardSpec { share_hundredths: 10_000, ..GuardSpec::default() };
        assert_eq!([all.required(7, 3), all.required(u32::MAX, 1)], [7, u32::MAX]);
        let many = GuardSpec { min_instances: 1_000, ..GuardSpec::default() };
        assert_eq!([many.required(3, 3), many.required(3, 8), many.required(1, 1)], [3, 8, 1]);
        assert_eq!([1, 3, 100].map(|active| GuardSpec::OFF.required(active, active)), [1, 1, 1]);
    }

    #[test]
    fn the_verdict_is_certain_as_early_as_it_can_be() {
        let permitted = |permitted_calls| HalfOpenSpec { permitted_calls, ..HalfOpenSpec::default() };
        let numbers = |v: Verdict| (v.failures_to_open, v.successes_to_close);
        assert_eq!(numbers(verdict(vec![rate(50)], permitted(5))), (3, 3));
        assert_eq!(numbers(verdict(vec![rate(50), rate(20)], permitted(10))), (2, 9));
        assert_eq!(numbers(verdict(vec![Rule::ConsecutiveFailures { threshold: 5 }], permitted(3))), (1, 3));
        let set = HalfOpenSpec { successes_to_close: Some(2), ..permitted(3) };
        assert_eq!(numbers(verdict(vec![rate(100)], set)), (2, 2));
        let set = HalfOpenSpec { failures_to_open: Some(1), ..permitted(3) };
        assert_eq!(numbers(verdict(vec![rate(50)], set)), (1, 3));
    }

    #[test]
    fn a_wait_grows_with_each_reopening_up_to_its_cap() {
        let policy = Policy::try_new(PolicySpec::default(), 1).unwrap();
        let waits: Vec<u64> = (0..6).map(|n| policy.open_wait(n).as_secs()).collect();
        assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
        assert_eq!(policy.open_wait(u32::MAX).as_secs(), 60);
        let open = OpenSpec {
            wait: Duration::from_millis(1),
            multiplier_hundredths: 101,
            max_wait: validate::DURATION_MAX,
            jitter_hundredths: 0,
        };
        let slowly = Policy::try_new(PolicySpec { open, ..PolicySpec::default() }, 1).unwrap();
        assert_eq!((slowly.open_wait(0).as_millis(), slowly.open_wait(100).as_millis()), (1, 2));
        assert_eq!(slowly.open_wait(u32::MAX), validate::DURATION_MAX);
    }

    #[test]
    fn a_scaled_policy_is_never_laxer_than_its_share_nor_stricter_than_noise() {
        let spec = PolicySpec {
            trip: vec![
                Rule::FailureRate { threshold: Rate::ALL, window: Window::Last(200), minimum_calls: 200 },
                Rule::Failures { threshold: 50, window: Window::Last(200) },
                Rule::Failures { threshold: 2, window: Window::Last(200) },
            ],
            ..PolicySpec::default()
        };
        let policy = Policy::try_new(spec, 1).unwrap();
        let numbers = |active| {
            let scaled = policy.scaled_to_one_of(active);
            scaled.spec.trip.iter().map(|r| r.minimum_calls().max(r.threshold() % 10_000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(1), [200, 50, 2]);
        assert_eq!(numbers(8), [25, 7, 2]);
        assert_eq!(numbers(1000), [10, 3, 2]);
    }
}
