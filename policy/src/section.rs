//! One map of a policy: which fields it may have, which it has, and what is wrong with them.

use std::collections::{HashMap, HashSet};

use crate::nearest::nearest;
use crate::value::Unread;
use crate::yaml::{Content, Key, Node};

/// The fields of each map, by its path within a policy without numbers.
const KNOWN: [(&str, &[&str]); 8] = [
    (
        "",
        &[
            "name",
            "match",
            "description",
            "owner",
            "runbook",
            "degrades_to",
            "trip",
            "open",
            "half_open",
            "close",
            "guard",
            "retry_after",
            "classification",
            "on_disconnect",
        ],
    ),
    (
        "trip",
        &[
            "failure_rate",
            "slow_rate",
            "failures",
            "consecutive_failures",
            "within",
            "last",
            "minimum_calls",
            "slower_than",
        ],
    ),
    ("open", &["wait", "multiplier", "max_wait", "jitter"]),
    ("half_open", &["permitted_calls", "probe_timeout", "limit", "successes_to_close", "failures_to_open"]),
    ("close", &["spread"]),
    ("guard", &["min_instances", "share", "min_calls"]),
    ("retry_after", &["scope", "max"]),
    ("classification", &["failure", "ignored", "success"]),
];

/// A field as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field<T> {
    /// It is not there.
    Absent,
    /// It is there, and wrong; that has been reported.
    Bad,
    /// It is there.
    Given(T),
}

impl<T> Field<T> {
    pub(crate) fn given(self) -> Option<T> {
        match self {
            Self::Given(value) => Some(value),
            Self::Absent | Self::Bad => None,
        }
    }

    pub(crate) fn or(self, default: T) -> T {
        self.given().unwrap_or(default)
    }

    pub(crate) const fn is_bad(&self) -> bool {
        matches!(self, Self::Bad)
    }

    pub(crate) const fn is_there(&self) -> bool {
        !matches!(self, Self::Absent)
    }
}

/// Something that is wrong with a policy, by its path in there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) line: usize,
    pub(crate) path: String,
    pub(crate) message: String,
}

/// What is known about one policy's fields besides their values.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) findings: Vec<Finding>,
    lines: HashMap<String, usize>,
    bad: HashSet<String>,
}

impl Notes {
    /// Remembers where a field stands.
    pub(crate) fn stands(&mut self, path: &str, line: usize) {
        self.lines.insert(path.to_owned(), line);
    }

    /// Reports something, and that the field has no value to go on with.
    pub(crate) fn add(&mut self, line: usize, path: impl Into<String>, message: impl Into<String>) {
        let path = path.into();
        self.bad.insert(path.clone());
        self.findings.push(Finding { line, path, message: message.into() });
    }

    /// Remembers that a field has no value to go on with, for a reason that is reported elsewhere.
    pub(crate) fn refuse(&mut self, path: &str) {
        self.bad.insert(path.to_owned());
    }

    /// Whether a field was reported already, so that what a stand-in for its value leads to is not reported too.
    pub(crate) fn is_bad(&self, path: &str) -> bool {
        self.bad.contains(path)
    }

    /// The line of a field, or of the nearest thing around it that stands in the file.
    pub(crate) fn line(&self, path: &str) -> usize {
        let mut path = path;
        loop {
            if let Some(line) = self.lines.get(path) {
                return *line;
            }
            if path.is_empty() {
                return 1;
            }
            path = path.rfind(['.', '[']).map_or("", |end| &path[..end]);
        }
    }
}

/// One map.
pub(crate) struct Section<'n> {
    path: String,
    pub(crate) line: usize,
    entries: &'n [(Key, Node)],
    /// It has an unknown field, which is most likely one that would otherwise be missing.
    pub(crate) has_unknown: bool,
}

impl<'n> Section<'n> {
    /// Takes a map whose fields are those of `KNOWN` under `kind`. Every unknown one is reported.
    pub(crate) fn of(node: &'n Node, path: &str, kind: &str, notes: &mut Notes) -> Field<Self> {
        let known = KNOWN.iter().find(|(name, _)| *name == kind).map_or(&[][..], |(_, fields)| *fields);
        let entries = match &node.content {
            Content::Map(entries) => entries,
            Content::Refused => {
                notes.refuse(path);
                return Field::Bad;
            }
            Content::Nothing | Content::Scalar(_) | Content::List(_) => {
                let fields = known.iter().take(4).copied().collect::<Vec<_>>().join(", ");
                let message =
                    format!("{} stands where a map belongs: write its fields, such as {fields}", found(node));
                notes.add(node.line, path, message);
                return Field::Bad;
            }
        };
        let mut has_unknown = false;
        for (key, value) in entries {
            let at = join(path, &key.text);
            has_unknown |= !known.contains(&key.text.as_str());
            if known.contains(&key.text.as_str()) {
                notes.stands(&at, key.line);
            } else if value.content != Content::Refused {
                notes.add(
                    key.line,
                    path,
                    format!("unknown field {:?}: {}", key.text, remedy(&key.text, known)),
                );
            }
        }
        Field::Given(Self { path: path.to_owned(), line: node.line, entries, has_unknown })
    }

    /// The value of a field.
    pub(crate) fn get<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'n Node) -> Result<T, Unread>,
        notes: &mut Notes,
    ) -> Field<T> {
        let Some((key, node)) = self.find(name) else { return Field::Absent };
        let path = join(&self.path, name);
        match read(node) {
            Ok(value) => Field::Given(value),
            Err(Unread::Because(message)) => {
                notes.add(key.line, path, message);
                Field::Bad
            }
            Err(Unread::Known) => {
                notes.refuse(&path);
                Field::Bad
            }
        }
    }

    /// The map that a field holds.
    pub(crate) fn section(&self, name: &str, notes: &mut Notes) -> Field<Section<'n>> {
        match self.find(name) {
            Some((_, node)) => Section::of(node, &join(&self.path, name), name, notes),
            None => Field::Absent,
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&'n (Key, Node)> {
        self.entries.iter().find(|(key, _)| key.text == name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The path of a field.
    pub(crate) fn at(&self, name: &str) -> String {
        join(&self.path, name)
    }
}

/// What stands there, in words.
pub(crate) fn found(node: &Node) -> String {
    match &node.content {
        Content::Scalar(text) if text.chars().count() <= 40 => format!("{text:?}"),
        Content::Scalar(_) => "a long text".into(),
        Content::Nothing | Content::Refused => "nothing".into(),
        Content::List(_) => "a list".into(),
        Content::Map(_) => "a map".into(),
    }
}

pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// What to write instead of an unknown field.
fn remedy(written: &str, known: &[&str]) -> String {
    if let Some(meant) = nearest(written, known.iter().copied()) {
        return format!("did you mean {meant}?");
    }
    let elsewhere = KNOWN.iter().find(|(_, fields)| fields.contains(&written));
    match elsewhere {
        Some(("", _)) => "it belongs to the policy itself, beside its name".into(),
        Some(("trip", _)) => "it belongs into a rule under trip".into(),
        Some((section, _)) => format!("it belongs under {section}"),
        None => format!("remove it, or use one of {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_field_is_told_where_it_belongs() {
        let known = KNOWN[2].1;
        assert_eq!(remedy("max-wait", known), "did you mean max_wait?");
        assert_eq!(remedy("owner", known), "it belongs to the policy itself, beside its name");
        assert_eq!(remedy("slower_than", known), "it belongs into a rule under trip");
        assert_eq!(remedy("spread", known), "it belongs under close");
        assert_eq!(remedy("colour", known), "remove it, or use one of wait, multiplier, max_wait, jitter");
    }

    #[test]
    fn a_field_that_is_not_written_has_the_line_of_what_is_around_it() {
        let mut notes = Notes::default();
        notes.stands("", 3);
        notes.stands("open", 7);
        notes.stands("trip[1]", 9);
        let lines = ["open.max_wait", "trip[1].within", "trip[2].within", "close.spread"]
            .map(|path| notes.line(path));
        assert_eq!(lines, [7, 9, 3, 3]);
    }
}
