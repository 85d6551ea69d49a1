//! How long to measure.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Rounds of the contest. In each, every contestant has one batch.
    pub(crate) rounds: usize,
    /// A batch lasts about so long: far more than a clock's reading, far less than a disturbance.
    pub(crate) batch: Duration,
    /// Pairs of paced processes, one of ours and one of theirs.
    pub(crate) paced_pairs: usize,
    /// How long each loop of a paced process lasts.
    pub(crate) paced: Duration,
    /// Outages per contestant and pace.
    pub(crate) outages: usize,
    /// Calls of the Redis script.
    pub(crate) redis_calls: usize,
}

impl Plan {
    pub(crate) const fn full() -> Self {
        Self {
            rounds: 401,
            batch: Duration::from_millis(8),
            paced_pairs: 11,
            paced: Duration::from_secs(2),
            outages: 7,
            redis_calls: 20_000,
        }
    }

    pub(crate) const fn quick() -> Self {
        Self { rounds: 51, paced_pairs: 3, outages: 3, redis_calls: 5_000, ..Self::full() }
    }
}
