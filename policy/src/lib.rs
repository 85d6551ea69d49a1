//! Policies as people write them: YAML in, a set of valid policies out.
//!
//! A set of policies is read as a whole and is valid as a whole, or it is refused with everything that is wrong with
//! it, each thing with its file, line and remedy. The server and its clients read the same files with this. Who looks at
//! them again, who keeps the last good set and who applies a new one to breakers is not decided here.

mod digest;
mod draft;
pub mod duration;
mod files;
mod limits;
mod nearest;
mod overlap;
mod problem;
mod revision;
mod rule;
mod section;
mod set;
mod value;
mod yaml;

use std::path::Path;

pub use digest::Digest;
pub use files::Sources;
pub use limits::{FILES_MAX, Limit, Limits, PATTERN_STEPS_MAX, PATTERNS_PER_POLICY_MAX, TOTAL_BYTES_MAX};
pub use nearest::nearest;
pub use problem::{Place, PolicyErrors, Problem};
pub use set::{Entry, Policies};

/// Reads the policies of a file, or of the `*.yaml` and `*.yml` files of a directory in the order of their names.
/// Revisions count on from those of `previous`.
///
/// # Errors
/// Everything that is wrong with any of the files.
pub fn load(path: &Path, limits: &Limits, previous: Option<&Policies>) -> Result<Policies, PolicyErrors> {
    Policies::assemble(&Sources::read(path, limits), limits, previous)
}
