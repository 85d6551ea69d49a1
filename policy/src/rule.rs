//! One trip rule.

use std::time::Duration;

use panelboard_core::{Policy, PolicySpec, Rate, Rule, Window};

use crate::section::{Field, Notes, Section};
use crate::value;
use crate::yaml::Node;

/// Stands in for a rule that could not be read, so that the others keep their numbers. It agrees with any other.
pub(crate) const STAND_IN: Rule = Rule::ConsecutiveFailures { threshold: 5 };

const MEASURES: [&str; 4] = ["failure_rate", "slow_rate", "failures", "consecutive_failures"];

/// Reads a rule; [`STAND_IN`] if something is wrong with it, which is reported.
pub(crate) fn read(node: &Node, path: &str, notes: &mut Notes) -> Rule {
    notes.stands(path, node.line);
    let Field::Given(section) = Section::of(node, path, "trip", notes) else { return STAND_IN };
    let before = notes.findings.len();
    let fields = Fields {
        failure_rate: section.get("failure_rate", value::rate, notes),
        slow_rate: section.get("slow_rate", value::rate, notes),
        failures: section.get("failures", value::number, notes),
        consecutive_failures: section.get("consecutive_failures", value::number, notes),
        within: section.get("within", value::duration, notes),
        last: section.get("last", value::number, notes),
        minimum_calls: section.get("minimum_calls", value::number, notes),
        slower_than: section.get("slower_than", value::duration, notes),
    };
    let measures: Vec<&str> = MEASURES.into_iter().filter(|measure| section.has(measure)).collect();
    let measure = match measures[..] {
        [measure] => measure,
        [] if section.has_unknown => return STAND_IN,
        [] => {
            let message = format!("the rule measures nothing: give one of {}", MEASURES.join(", "));
            notes.add(section.line, path, message);
            return STAND_IN;
        }
        [one, other, ..] => {
            let message =
                format!("the rule measures both {one} and {other}: put each into a rule of its own");
            notes.add(notes.line(&section.at(other)), path, message);
            return STAND_IN;
        }
    };
    fit(&section, measure, notes);
    let rule = fields.rule();
    let read = [
        fields.failure_rate.is_bad(),
        fields.slow_rate.is_bad(),
        fields.failures.is_bad(),
        fields.consecutive_failures.is_bad(),
        fields.within.is_bad(),
        fields.last.is_bad(),
        fields.minimum_calls.is_bad(),
        fields.slower_than.is_bad(),
    ];
    if notes.findings.len() == before && !section.has_unknown && !read.contains(&true) {
        return rule;
    }
    alone(rule, path, notes);
    STAND_IN
}

/// Reports which fields a rule of this measure lacks, and which it cannot have.
fn fit(section: &Section<'_>, measure: &str, notes: &mut Notes) {
    let path = section.at(measure).trim_end_matches(measure).trim_end_matches('.').to_owned();
    let needs_window = measure != "consecutive_failures";
    let needs_minimum = matches!(measure, "failure_rate" | "slow_rate");
    let needs_slower = measure == "slow_rate";
    for (name, fits) in [
        ("within", needs_window),
        ("last", needs_window),
        ("minimum_calls", needs_minimum),
        ("slower_than", needs_slower),
    ] {
        if !fits && section.has(name) {
            let at = section.at(name);
            notes.add(notes.line(&at), at, format!("a rule on {measure} takes no {name}: remove it"));
        }
    }
    if needs_window {
        match (section.has("within"), section.has("last")) {
            (true, false) | (false, true) => {}
            (true, true) => {
                let at = section.at("last");
                let message = "within and last are two windows, and a rule has one: remove one of them";
                notes.add(notes.line(&at), at, message);
            }
            (false, false) if section.has_unknown => {}
            (false, false) => {
                let message = format!("{measure} needs a window: add within: 10s, or last: 100");
                notes.add(section.line, path.clone(), message);
            }
        }
    }
    if section.has_unknown {
        return;
    }
    if needs_minimum && !section.has("minimum_calls") {
        let message = format!("{measure} needs a number of calls to be seen first: add minimum_calls: 20");
        notes.add(section.line, path.clone(), message);
    }
    if needs_slower && !section.has("slower_than") {
        notes.add(section.line, path, "slow_rate needs to know what is slow: add slower_than: 2s");
    }
}

struct Fields {
    failure_rate: Field<Rate>,
    slow_rate: Field<Rate>,
    failures: Field<u32>,
    consecutive_failures: Field<u32>,
    within: Field<Duration>,
    last: Field<u32>,
    minimum_calls: Field<u32>,
    slower_than: Field<Duration>,
}

impl Fields {
    /// The rule, with values that every check accepts in the place of those that are missing or bad.
    fn rule(&self) -> Rule {
        let window = match (self.within, self.last) {
            (Field::Given(within), _) => Window::Within(within),
            (_, Field::Given(last)) => Window::Last(last),
            _ => Window::Within(Duration::from_secs(10)),
        };
        let minimum_calls = self.minimum_calls.or(1);
        if self.failure_rate.is_there() {
            Rule::FailureRate { threshold: self.failure_rate.or(Rate::ALL), window, minimum_calls }
        } else if self.slow_rate.is_there() {
            let slower_than = self.slower_than.or(Duration::from_secs(1));
            Rule::SlowRate { threshold: self.slow_rate.or(Rate::ALL), slower_than, window, minimum_calls }
        } else if self.failures.is_there() {
            Rule::Failures { threshold: self.failures.or(1), window }
        } else {
            Rule::ConsecutiveFailures { threshold: self.consecutive_failures.or(1) }
        }
    }
}

/// Checks what is left of a rule by itself, so that one bad field does not hide what is wrong with the others.
fn alone(rule: Rule, path: &str, notes: &mut Notes) {
    let Err(violations) = Policy::try_new(PolicySpec { trip: vec![rule], ..PolicySpec::default() }, 1) else {
        return;
    };
    for violation in violations {
        let at = violation.path.replacen("trip[0]", path, 1);
        if !notes.is_bad(&at) {
            notes.add(notes.line(&at), at, violation.message);
        }
    }
}
