//! All randomness of a client: one seed, drawn from once at the start or given in by a test.

use std::time::Duration;

/// A source of random numbers (SplitMix64). Not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Dice of its own for the thing called `name`.
    pub(crate) fn named(seed: u64, name: &str) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(seed ^ hash)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A span drawn evenly from zero to `most`, in whole milliseconds, both included.
    pub(crate) fn up_to(&mut self, most: Duration) -> Duration {
        let most = most.as_millis().saturating_add(1);
        let drawn = (u128::from(self.next()) * most) >> 64;
        Duration::from_millis(u64::try_from(drawn).unwrap_or(u64::MAX))
    }

    /// A span drawn evenly from `least` to `most`.
    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + self.up_to(most.saturating_sub(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_cover_their_span_and_never_leave_it() {
        let mut dice = Dice::new(7);
        let (least, most) = (Duration::from_millis(200), Duration::from_millis(1_200));
        let draws: Vec<_> = (0..10_000).map(|_| dice.between(least, most)).collect();
        assert!(draws.iter().all(|drawn| (least..=most).contains(drawn)));
        let upper = draws.iter().filter(|drawn| **drawn > Duration::from_millis(700)).count();
        assert!((4_700..5_300).contains(&upper), "{upper}");
        assert_eq!(dice.up_to(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let draw = |seed, name| Dice::named(seed, name).next();
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert!(draw(1, "a") != draw(1, "b") && draw(1, "a") != draw(2, "a"));
    }
}
