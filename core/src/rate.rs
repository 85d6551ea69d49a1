//! Shares as exact integers: hundredths of a percent, compared by multiplication.

use std::fmt;

/// A share in hundredths of a percent, 1 to 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u32);

impl Rate {
    /// Everything: 100 %.
    pub const ALL: Self = Self(10_000);

    /// A rate of `hundredths` hundredths of a percent; none outside of 1 to 10,000.
    pub const fn from_hundredths(hundredths: u32) -> Option<Self> {
        if hundredths >= 1 && hundredths <= 10_000 { Some(Self(hundredths)) } else { None }
    }

    /// A rate of whole percents; none outside of 1 to 100.
    pub const fn percent(percent: u32) -> Option<Self> {
        if percent <= 100 { Self::from_hundredths(percent * 100) } else { None }
    }

    /// Hundredths of a percent.
    pub const fn hundredths(self) -> u32 {
        self.0
    }

    /// Whether `matched` of `calls` is at least this rate. Of no calls nothing is.
    pub fn reached_by(self, matched: u64, calls: u64) -> bool {
        calls > 0 && u128::from(matched) * 10_000 >= u128::from(calls) * u128::from(self.0)
    }

    /// The fewest of `calls` that reach this rate: at least 1.
    pub fn least_of(self, calls: u64) -> u64 {
        let least = (u128::from(calls) * u128::from(self.0)).div_ceil(10_000);
        u64::try_from(least).unwrap_or(u64::MAX).max(1)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", Hundredths(u64::from(self.0)))
    }
}

/// A number of hundredths, shown without needless zeros: `62.5`, `50`, `66.66`.
pub(crate) struct Hundredths(pub(crate) u64);

impl fmt::Display for Hundredths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 100, self.0 % 100);
        match part {
            0 => write!(f, "{whole}"),
            part if part % 10 == 0 => write!(f, "{whole}.{}", part / 10),
            part => write!(f, "{whole}.{part:02}"),
        }
    }
}

/// `matched` of `calls` in hundredths of a percent, cut off and never rounded up, so that a shown value at or
/// above a threshold really is.
pub fn hundredths_of(matched: u64, calls: u64) -> u64 {
    if calls == 0 {
        return 0;
    }
    u64::try_from(u128::from(matched) * 10_000 / u128::from(calls)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_reaches_and_nothing_is_rounded() {
        let (half, two_thirds_up) = (Rate::percent(50).unwrap(), Rate::percent(67).unwrap());
        assert!(half.reached_by(2, 4) && !half.reached_by(1, 4) && !half.reached_by(0, 0));
        assert!(!two_thirds_up.reached_by(2, 3));
        assert_eq!((half.least_of(5), half.least_of(10), half.least_of(1)), (3, 5, 1));
        assert!(half.reached_by(u64::MAX / 2 + 1, u64::MAX));
    }

    #[test]
    fn a_rate_is_shown_without_needless_zeros() {
        let show = |h| Rate::from_hundredths(h).unwrap().to_string();
        assert_eq!([show(6250), show(5000), show(6666), show(105)], ["62.5 %", "50 %", "66.66 %", "1.05 %"]);
        assert!(Rate::percent(0).is_none() && Rate::percent(101).is_none());
    }
}
