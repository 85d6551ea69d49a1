//! The goals, and whether they are met.

use crate::spread::{Spread, figure};

/// One line of the table.
pub(crate) struct Goal {
    pub(crate) name: &'static str,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Outcome {
    /// The ratio is to be at least so much.
    Ratio { ours: String, theirs: String, ratio: Spread, goal: f64 },
    /// A count that is to be zero.
    Count { ours: u64, theirs: String },
}

impl Outcome {
    fn is_met(&self) -> bool {
        match self {
            Self::Ratio { ratio, goal, .. } => ratio.median >= *goal,
            Self::Count { ours, .. } => *ours == 0,
        }
    }

    fn cells(&self) -> [String; 4] {
        match self {
            Self::Ratio { ours, theirs, ratio, goal } => {
                [ours.clone(), theirs.clone(), ratio.to_string(), format!(">= {}", figure(*goal))]
            }
            Self::Count { ours, theirs } => [ours.to_string(), theirs.clone(), "-".into(), "0".into()],
        }
    }

    fn word(&self) -> &'static str {
        if self.is_met() { "met" } else { "short" }
    }
}

#[derive(Default)]
pub(crate) struct Goals(Vec<Goal>);

impl Goals {
    pub(crate) fn add(&mut self, goal: Goal) {
        self.0.push(goal);
    }

    pub(crate) fn print(&self) {
        let head =
            ["goal", "ours", "theirs", "ratio (middle half of the rounds)", "wanted", ""].map(String::from);
        let rows = self.0.iter().map(|goal| {
            let [ours, theirs, ratio, wanted] = goal.outcome.cells();
            [goal.name.into(), ours, theirs, ratio, wanted, goal.outcome.word().into()]
        });
        let rows: Vec<[String; 6]> = std::iter::once(head).chain(rows).collect();
        let widths: [usize; 6] =
            std::array::from_fn(|n| rows.iter().map(|row| row[n].chars().count()).max().unwrap_or(0));
        for row in rows {
            let cells: Vec<String> =
                row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            println!("{}", cells.join("  ").trim_end());
        }
    }

    /// The last line.
    pub(crate) fn verdict(&self) -> String {
        let met = self.0.iter().filter(|goal| goal.outcome.is_met()).count();
        format!("goals: {met} of {} met", self.0.len())
    }
}
