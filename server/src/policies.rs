//! Policies from YAML: one file, or a directory of files.
//!
//! The text is read by [`panelboard_policy`], within this server's limits. Here is what a server does with it besides:
//! it has one to start with, looks at the files again, and prints what is wrong with them.

mod check;
mod watch;

use std::path::Path;

pub use panelboard_policy::{Digest, Entry, Place, Policies, PolicyErrors, Problem};
use panelboard_policy::{Limit, Sources};

use crate::limits::Limits;

pub use check::{Checked, check};
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
    panelboard_policy::load(path, &bounds(limits), previous)
}

/// The policies of a server that is given none: [`STARTER`].
///
/// # Errors
/// As [`load`], though there is nothing wrong with it.
pub fn starter(limits: &Limits, previous: Option<&Policies>) -> Result<Policies, PolicyErrors> {
    let sources = Sources::of_text(Path::new(STARTER_PATH), STARTER);
    Policies::assemble(&sources, &bounds(limits), previous)
}

/// What of the limits bounds a set of policies, with the names that an operator knows them by.
fn bounds(limits: &Limits) -> panelboard_policy::Limits {
    let limit = |most, setting| Limit { most, setting: Some(setting) };
    panelboard_policy::Limits {
        policies: limit(limits.policies, "limits.policies"),
        names: limit(limits.breakers, "limits.breakers"),
        file_bytes: limit(limits.policy_file_bytes, "limits.policy-file-bytes"),
    }
}
