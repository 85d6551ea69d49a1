//! Policies from YAML: one file, or a directory of files.
//!
//! A set of policies is read as a whole and is valid as a whole, or it is refused with everything that is wrong with
//! it, each thing with its file, line and remedy. Who keeps the last good set and applies a new one to the breakers is
//! not decided here.

mod check;
mod digest;
mod draft;
mod files;
mod overlap;
mod problem;
mod revision;
mod rule;
mod section;
mod set;
mod value;
mod watch;
mod yaml;

use std::path::Path;

use crate::limits::Limits;

pub use check::{Checked, check};
pub use digest::Digest;
pub use problem::{Place, PolicyErrors, Problem};
pub use set::{Entry, Policies};
pub use watch::Watcher;

/// The policy of a server that is given none, as a file to begin with.
pub const STARTER: &str = include_str!("starter.yaml");

/// What the starter policy's place is called in messages.
const STARTER_PATH: &str = "starter policy";

/// Reads the policies of a file, or of the `*.yaml` and `*.yml` files of a directory in the order of their names.
/// Revisions count on from those of `previous`.
///
/// # Errors
/// Everything that is wrong with any of the files.
pub fn load(path: &Path, limits: &Limits, previous: Option<&Policies>) -> Result<Policies, PolicyErrors> {
    set::assemble(&files::read(path, limits), limits, previous)
}

/// The policies of a server that is given none: [`STARTER`].
///
/// # Errors
/// As [`load`], though there is nothing wrong with it.
pub fn starter(limits: &Limits, previous: Option<&Policies>) -> Result<Policies, PolicyErrors> {
    set::assemble(&files::given(Path::new(STARTER_PATH), STARTER), limits, previous)
}
