//! What is wrong with policy files: each message with its place, the value and the remedy.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A file full of nonsense is not answered with a message for each line of it.
const SHOWN_MAX: usize = 100;

/// Everything that is wrong with the policies of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyErrors {
    problems: Vec<Problem>,
    /// How many more there are.
    left_out: usize,
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines())
    }
}

impl Error for PolicyErrors {}

impl PolicyErrors {
    /// In the order of files and lines. Of more than [`SHOWN_MAX`] the first ones are kept and the rest counted.
    pub(crate) fn new(mut problems: Vec<Problem>) -> Self {
        let left_out = problems.len().saturating_sub(SHOWN_MAX);
        problems.truncate(SHOWN_MAX);
        Self { problems, left_out }
    }

    /// Each thing, in the order of files and lines; never none.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// How many there are, those that are not among [`Self::problems`] included.
    pub fn count(&self) -> usize {
        self.problems.len() + self.left_out
    }

    fn lines(&self) -> String {
        let mut lines: Vec<String> = self.problems.iter().map(Problem::to_string).collect();
        if self.left_out > 0 {
            lines.push(format!("and {} more", self.left_out));
        }
        lines.join("\n")
    }
}

/// One thing that is wrong, or that was probably not meant: `checkout.yaml:7: policies[0].open.wait: 10 is ...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file and line.
    pub place: Place,
    /// The field, as in `policies[0].trip[1].minimum_calls`; empty for what concerns the whole file.
    pub path: String,
    /// What is wrong, with the value and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "")
    }
}

impl Problem {
    /// The same as a warning: `checkout.yaml:7: warning: ...`.
    pub fn as_warning(&self) -> impl fmt::Display {
        struct Warning<'a>(&'a Problem);
        impl fmt::Display for Warning<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(f, "warning: ")
            }
        }
        Warning(self)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, kind: &str) -> fmt::Result {
        write!(f, "{}: {kind}", self.place)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Where something stands, as editors and terminals recognise it: `policies/checkout.yaml:7`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named.
    pub file: Arc<Path>,
    /// The line, from 1; none for what is wrong with a file or directory before it is read.
    pub line: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        match self.line {
            Some(line) => write!(f, ":{line}"),
            None => Ok(()),
        }
    }
}
