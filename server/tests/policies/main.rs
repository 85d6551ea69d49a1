//! Policies as an operator meets them: files in, a set of policies or messages out.

mod document;
mod mistakes;
mod reload;
mod resolve;

use std::fs;
use std::path::Path;

use panelboard_core::BreakerName;
use panelboard_server::limits::Limits;
use panelboard_server::policies::{Policies, PolicyErrors, load};

/// A directory with these files.
fn dir(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        fs::write(dir.path().join(name), text).expect("a file");
    }
    dir
}

/// Loads one file of this text.
fn load_text(text: &str) -> Result<Policies, PolicyErrors> {
    let dir = dir(&[("p.yaml", text)]);
    load(&dir.path().join("p.yaml"), &Limits::default(), None)
}

fn valid(text: &str) -> Policies {
    load_text(text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// What is printed, with the directory's name taken out.
fn lines(errors: &PolicyErrors, dir: &Path) -> Vec<String> {
    let printed = errors.to_string().replace(&format!("{}/", dir.display()), "");
    printed.lines().map(str::to_owned).collect()
}

fn name(text: &str) -> BreakerName {
    BreakerName::parse(text).expect("a name")
}
