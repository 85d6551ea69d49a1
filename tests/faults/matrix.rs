//! What was measured, as a table.

use std::time::Duration;

use serde_json::{Value, json};

use crate::eventually::stalled;

/// What one scene came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    Passed(Row),
    Failed(String),
    /// It cannot be played on this machine, and why.
    Skipped(String),
}

/// One line of the table. What does not apply is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    /// The longest time that a call had to wait for its verdict.
    pub(crate) longest_wait: Option<Duration>,
    /// From the fault to the first breaker that was not FRESH any more.
    pub(crate) stale: Option<Duration>,
    /// From the fault to LOCAL.
    pub(crate) local: Option<Duration>,
    /// From the end of the fault to FRESH.
    pub(crate) fresh: Option<Duration>,
    /// What protected meanwhile, or what else was measured.
    pub(crate) meanwhile: String,
}

impl Row {
    pub(crate) fn to_json(&self) -> Value {
        let micros =
            |span: Option<Duration>| span.map(|span| u64::try_from(span.as_micros()).unwrap_or(u64::MAX));
        json!({
            "longest_wait": micros(self.longest_wait),
            "stale": micros(self.stale),
            "local": micros(self.local),
            "fresh": micros(self.fresh),
            "meanwhile": self.meanwhile,
        })
    }

    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let span = |name: &str| value[name].as_u64().map(Duration::from_micros);
        Some(Self {
            longest_wait: span("longest_wait"),
            stale: span("stale"),
            local: span("local"),
            fresh: span("fresh"),
            meanwhile: value["meanwhile"].as_str()?.to_owned(),
        })
    }
}

/// Prints the table, what was skipped, what failed, and last the counts.
pub(crate) fn print(outcomes: &[(&str, Outcome)]) {
    let head = ["fault", "longest wait", "STALE after", "LOCAL after", "FRESH again after", "meanwhile"];
    let mut lines = vec![head.map(str::to_owned)];
    for (name, outcome) in outcomes {
        if let Outcome::Passed(row) = outcome {
            let spans = [row.longest_wait, row.stale, row.local, row.fresh].map(shown);
            let [wait, stale, local, fresh] = spans;
            lines.push([(*name).to_owned(), wait, stale, local, fresh, row.meanwhile.clone()]);
        }
    }
    let wide = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(wide);
    for line in &lines {
        let cells: Vec<_> = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        println!("{}", cells.join("  ").trim_end());
    }
    println!("\nlongest time for which this process was not given a core: {}", shown(Some(stalled())));
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, outcome) in outcomes {
        match outcome {
            Outcome::Passed(_) => passed += 1,
            Outcome::Failed(why) => {
                failed += 1;
                println!("FAILED {name}: {why}");
            }
            Outcome::Skipped(why) => {
                skipped += 1;
                println!("SKIPPED {name}: {why}");
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
}

/// As people read it: milliseconds below a second, else seconds.
fn shown(span: Option<Duration>) -> String {
    match span {
        None => "-".into(),
        Some(span) if span < Duration::from_millis(1) => format!("{} us", span.as_micros()),
        Some(span) if span < Duration::from_secs(1) => format!("{} ms", span.as_millis()),
        Some(span) => format!("{:.1} s", span.as_secs_f64()),
    }
}
