//! The median of some figures, and where the middle half of them lies.

use std::fmt;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) quartiles: (f64, f64),
}

impl Spread {
    /// Of at least one figure.
    pub(crate) fn of(figures: &[f64]) -> Self {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |quarter: usize| sorted[(sorted.len() - 1) * quarter / 4];
        Self { median: at(2), quartiles: (at(1), at(3)) }
    }

    /// Of the ratios, round by round.
    pub(crate) fn of_ratios(theirs: &[f64], ours: &[f64]) -> Self {
        let ratios: Vec<f64> = theirs.iter().zip(ours).map(|(theirs, ours)| theirs / ours).collect();
        Self::of(&ratios)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.quartiles;
        write!(f, "{} ({}..{})", figure(self.median), figure(low), figure(high))
    }
}

/// Three digits that count.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
