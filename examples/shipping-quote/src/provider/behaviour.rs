//! How a provider misbehaves: as data, from a command line or over HTTP.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest a provider can be told to take for an answer.
const SLOW_MS_MAX: u64 = 10 * 60 * 1000;

/// What happens to each request: first a wait, then an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Behaviour {
    /// How long each answer takes, in milliseconds.
    #[serde(default)]
    pub slow_ms: u64,
    /// What the answer is.
    #[serde(default)]
    pub answer: Answer,
}

/// What a request is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// What was asked for.
    #[default]
    Good,
    /// Always this HTTP status.
    Status(u16),
    /// In a share of the calls an error status, else what was asked for.
    Failing {
        /// How many of a hundred calls fail.
        percent: u8,
        /// The status of the calls that fail.
        status: u16,
        /// Random failures that are the same in each run; without a seed they are spread evenly: at 75 %
        /// exactly three calls of each four fail.
        #[serde(default)]
        seed: Option<u64>,
    },
    /// None, for as long as the caller stays.
    Hang,
    /// A 200 whose body is not what was agreed on.
    Malformed(Defect),
}

/// What is wrong with a malformed answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Defect {
    /// The amount is missing.
    MissingPrice,
    /// The amount is below zero.
    NegativePrice,
    /// The currency is missing.
    MissingCurrency,
    /// The currency is not the agreed one.
    WrongCurrency,
    /// The body is HTML.
    NotJson,
}

impl Behaviour {
    /// Answers what was asked for, at once.
    pub fn good() -> Self {
        Self::default()
    }

    /// Answers `answer`, at once.
    pub fn answering(answer: Answer) -> Self {
        Behaviour { slow_ms: 0, answer }
    }

    /// The same, but each answer takes `wait`.
    #[must_use]
    pub fn slow(self, wait: Duration) -> Self {
        Behaviour { slow_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX), ..self }
    }

    /// Refuses what an HTTP server cannot do.
    pub fn checked(self) -> Result<Self, BehaviourError> {
        if self.slow_ms > SLOW_MS_MAX {
            return Err(BehaviourError::TooSlow(self.slow_ms));
        }
        match self.answer {
            Answer::Status(status) | Answer::Failing { status, .. } if !(200..=599).contains(&status) => {
                Err(BehaviourError::Status(status))
            }
            Answer::Failing { percent, .. } if percent > 100 => Err(BehaviourError::Percent(percent)),
            _ => Ok(self),
        }
    }

    /// The name that `GET /stats` counts it under.
    pub fn label(&self) -> &'static str {
        match self.answer {
            Answer::Good if self.slow_ms > 0 => "slow",
            Answer::Good => "good",
            Answer::Status(_) => "status",
            Answer::Failing { .. } => "failing",
            Answer::Hang => "hang",
            Answer::Malformed(_) => "malformed",
        }
    }

    /// The answer to the `nth` call since this behaviour began, counted from 0: the share is decided here.
    pub(super) fn nth(&self, nth: u64) -> Answer {
        match self.answer {
            Answer::Failing { percent, status, seed } => {
                let fails = match seed {
                    Some(seed) => mixed(seed, nth) % 100 < u64::from(percent),
                    // One more failure is due whenever the share, summed over the calls, passes a whole number.
                    None => {
                        let due = |calls: u64| u128::from(calls) * u128::from(percent) / 100;
                        due(nth + 1) > due(nth)
                    }
                };
                if fails { Answer::Status(status) } else { Answer::Good }
            }
            ref other => other.clone(),
        }
    }
}

/// A behaviour that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BehaviourError {
    /// Not a status that a server answers with.
    #[error("status {0} is none that a server answers with: give 200 to 599")]
    Status(u16),
    /// More than all calls.
    #[error("{0} % of the calls cannot fail: give 0 to 100")]
    Percent(u8),
    /// Nobody waits that long.
    #[error("an answer after {0} ms is too slow: give at most {SLOW_MS_MAX} ms, or let it hang")]
    TooSlow(u64),
}

/// A well-mixed number for each call (the finalizer of splitmix64): the same seed fails the same calls.
fn mixed(seed: u64, nth: u64) -> u64 {
    let mut z = seed.wrapping_add(nth.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(percent: u8, seed: Option<u64>, calls: u64) -> Vec<bool> {
        let behaviour = Behaviour::answering(Answer::Failing { percent, status: 500, seed });
        (0..calls).map(|nth| behaviour.nth(nth) == Answer::Status(500)).collect()
    }

    #[test]
    fn three_calls_of_each_four_fail_at_75_percent() {
        for four in failures(75, None, 400).chunks(4) {
            assert_eq!(four, [false, true, true, true]);
        }
    }

    #[test]
    fn a_seed_fails_the_same_calls_again_and_about_the_share() {
        let once = failures(30, Some(7), 10_000);
        assert_eq!(once, failures(30, Some(7), 10_000));
        assert_ne!(once, failures(30, Some(8), 10_000));
        let failed = once.iter().filter(|failed| **failed).count();
        assert!((2_800..3_200).contains(&failed), "{failed}");
    }

    #[test]
    fn none_and_all_are_shares_too() {
        for seed in [None, Some(1)] {
            assert!(failures(0, seed, 100).iter().all(|failed| !failed));
            assert!(failures(100, seed, 100).iter().all(|failed| *failed));
        }
    }

    #[test]
    fn nonsense_is_refused_with_its_value() {
        let status = Behaviour::answering(Answer::Status(99));
        assert_eq!(status.checked(), Err(BehaviourError::Status(99)));
        let percent = Behaviour::answering(Answer::Failing { percent: 101, status: 500, seed: None });
        assert_eq!(percent.checked(), Err(BehaviourError::Percent(101)));
        assert!(Behaviour::good().slow(Duration::from_secs(601)).checked().is_err());
    }
}
