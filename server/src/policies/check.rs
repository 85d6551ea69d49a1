//! What `panelboard check` prints.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use super::load;
use crate::limits::Limits;

/// Whether the policies can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// They can.
    Valid,
    /// A server would refuse them.
    Invalid,
}

impl From<Checked> for ExitCode {
    fn from(checked: Checked) -> Self {
        Self::from(match checked {
            Checked::Valid => 0,
            Checked::Invalid => 2,
        })
    }
}

/// Checks a file or directory as a server would load it. Prints each error, or else each warning and a summary.
///
/// # Errors
/// Only those of writing.
pub fn check(path: &Path, limits: &Limits, out: &mut impl Write) -> io::Result<Checked> {
    let policies = match load(path, limits, None) {
        Ok(policies) => policies,
        Err(errors) => {
            writeln!(out, "{errors}")?;
            writeln!(out, "{}: not valid", counted(errors.count(), "error"))?;
            return Ok(Checked::Invalid);
        }
    };
    for warning in policies.warnings() {
        writeln!(out, "{}", warning.as_warning())?;
    }
    writeln!(
        out,
        "{}, {}, {}, {}: valid",
        counted(policies.len(), "policy"),
        counted(policies.exact_names().len(), "name"),
        counted(policies.patterns().len(), "pattern"),
        counted(policies.warnings().len(), "warning")
    )?;
    Ok(Checked::Valid)
}

fn counted(number: usize, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {noun}s"),
    }
}
