//! Settings from a TOML file.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use panelboard_policy::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Problem;
use super::setting::{self, Setting};
use crate::limits::CONFIG_FILE_BYTES;

/// What a file says.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) entries: Vec<Entry>,
    pub(super) problems: Vec<Problem>,
}

/// One setting in it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) setting: Setting,
    pub(super) text: String,
    pub(super) line: usize,
}

/// The table of the limits.
const LIMITS: &str = "limits";

/// Reads a file. Values are still text: what each may be is its setting's business.
pub(super) fn read(path: &Path) -> Contents {
    match text(path) {
        Ok(text) => Reader { path, text: &text, entries: Vec::new(), problems: Vec::new() }.read(),
        Err(reason) => {
            let problem = Problem::Unreadable { path: path.to_owned(), reason };
            Contents { entries: Vec::new(), problems: vec![problem] }
        }
    }
}

fn text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too large from one that just fits.
    File::open(path)
        .and_then(|file| file.take(CONFIG_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|err| format!("{err}; give a file that can be read, or none"))?;
    if bytes.len() as u64 > CONFIG_FILE_BYTES {
        return Err(format!("it is larger than {CONFIG_FILE_BYTES} bytes"));
    }
    String::from_utf8(bytes)
        .map_err(|err| format!("it is not UTF-8 from byte {} on", err.utf8_error().valid_up_to()))
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    entries: Vec<Entry>,
    /// With the line of each.
    problems: Vec<(usize, Problem)>,
}

impl Reader<'_> {
    fn read(mut self) -> Contents {
        match DeTable::parse(self.text) {
            Ok(table) => self.top(table.get_ref()),
            Err(err) => {
                let at = err.span().map_or(0, |span| span.start);
                let reason = err.message().replace('\n', ", ");
                self.problem(at, |path, line| Problem::Syntax { path, line, reason });
            }
        }
        // The parser orders a table by its keys; people read from the top.
        self.entries.sort_by_key(|entry| entry.line);
        self.problems.sort_by_key(|(line, _)| *line);
        let problems = self.problems.into_iter().map(|(_, problem)| problem).collect();
        Contents { entries: self.entries, problems }
    }

    fn top(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if name == LIMITS {
                self.limits(value);
                continue;
            }
            match setting::all().find(|setting| setting.path() == name) {
                Some(setting) => self.entry(setting, value),
                None => self.unknown(name, name, key.span().start),
            }
        }
    }

    fn limits(&mut self, value: &Spanned<DeValue<'_>>) {
        let DeValue::Table(table) = value.get_ref() else {
            let reason =
                format!("{LIMITS} is a table: write [{LIMITS}] on a line of its own and the limits below it");
            self.problem(value.span().start, |path, line| Problem::Syntax { path, line, reason });
            return;
        };
        for (key, value) in table {
            let name = format!("{LIMITS}.{}", key.get_ref());
            match setting::all().find(|setting| setting.path() == name) {
                Some(setting) => self.entry(setting, value),
                None => self.unknown(key.get_ref(), &name, key.span().start),
            }
        }
    }

    fn entry(&mut self, setting: Setting, value: &Spanned<DeValue<'_>>) {
        let text = match value.get_ref() {
            DeValue::String(text) => text.clone().into_owned(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => {
                self.wrong_type(setting.path(), value);
                return;
            }
        };
        let line = self.line(value.span().start);
        self.entries.push(Entry { setting, text, line });
    }

    fn wrong_type(&mut self, setting: String, value: &Spanned<DeValue<'_>>) {
        let found = match value.get_ref() {
            DeValue::Integer(_) => "number that is not decimal",
            other => other.type_str(),
        };
        self.problem(value.span().start, |path, line| Problem::Type { path, line, setting, found });
    }

    /// `written` is what stands in the file, `name` the whole name of the setting it would be.
    fn unknown(&mut self, written: &str, name: &str, at: usize) {
        let known: Vec<String> = setting::all().map(Setting::path).collect();
        let in_limits = format!("{LIMITS}.{written}");
        let remedy = if known.contains(&in_limits) {
            format!("it belongs under [{LIMITS}]")
        } else if let Some(meant) = nearest(name, known.iter().map(String::as_str)) {
            format!("did you mean {meant}?")
        } else {
            "--print-config shows every key".to_owned()
        };
        let key = written.to_owned();
        self.problem(at, |path, line| Problem::UnknownKey { path, line, key, remedy });
    }

    fn problem(&mut self, at: usize, what: impl FnOnce(PathBuf, usize) -> Problem) {
        let line = self.line(at);
        self.problems.push((line, what(self.path.to_owned(), line)));
    }

    /// The line of a byte, from 1.
    fn line(&self, at: usize) -> usize {
        self.text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
    }
}
