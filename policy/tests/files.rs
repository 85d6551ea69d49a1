//! Files in, policies or messages out: what whoever embeds this reader relies on.

use std::{fs, path::Path};

use panelboard_core::BreakerName;
use panelboard_policy::{Limit, Limits, Policies, PolicyErrors, Sources, load};

fn policy(name: &str) -> String {
    format!("policies:\n  - name: {name}\n    match: [{name}/*, {name}]\n")
}

fn dir(files: &[(&str, String)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        fs::write(dir.path().join(name), text).expect("a file");
    }
    dir
}

fn of_text(text: &str, limits: &Limits) -> Result<Policies, PolicyErrors> {
    Policies::assemble(&Sources::of_text(Path::new("given.yaml"), text), limits, None)
}

#[test]
fn a_directory_is_read_as_one_set_and_each_name_finds_its_policy() {
    let dir = dir(&[("b.yml", policy("beta")), ("a.yaml", policy("alpha")), ("notes.txt", "no".into())]);
    let policies = load(dir.path(), &Limits::default(), None).expect("valid");
    assert_eq!(policies.iter().map(|entry| entry.policy().name()).collect::<Vec<_>>(), ["alpha", "beta"]);
    let name = |text: &str| BreakerName::parse(text).expect("a name");
    assert_eq!(policies.resolve(&name("beta/x")).map(|policy| policy.name()), Some("beta"));
    assert!(policies.resolve(&name("gamma")).is_none());
}

#[test]
fn a_limit_is_named_with_the_setting_that_raises_it_if_there_is_one() {
    let two = format!("{}{}", policy("alpha"), policy("beta").replace("policies:\n", ""));
    let said = |policies: Limit| {
        let limits = Limits { policies, ..Limits::default() };
        of_text(&two, &limits).expect_err("one too many").to_string()
    };
    assert_eq!(said(Limit::of(1)), "given.yaml:4: policies: here begin more than 1 policies: remove some");
    assert_eq!(
        said(Limit { most: 1, setting: Some("limits.policies") }),
        "given.yaml:4: policies: here begin more than 1 policies: remove some, or raise limits.policies"
    );
    let file_bytes = Limit { most: 10, setting: None };
    let dir = dir(&[("a.yaml", two.clone())]);
    let limits = Limits { file_bytes, ..Limits::default() };
    let said = load(&dir.path().join("a.yaml"), &limits, None).expect_err("too large").to_string();
    assert!(said.ends_with("a.yaml: is larger than 10 bytes: split it"), "{said}");
    let names = Limit { most: 1, setting: None };
    let said = of_text(&two, &Limits { names, ..Limits::default() }).expect_err("too many").to_string();
    assert!(said.ends_with("here begin more than 1 names, and each is a breaker: remove some"), "{said}");
}

#[test]
fn sources_change_their_digest_with_what_they_hold_and_with_nothing_else() {
    let dir = dir(&[("a.yaml", policy("alpha"))]);
    let digest = || Sources::read(dir.path(), &Limits::default()).digest();
    let before = digest();
    assert_eq!(digest(), before);
    fs::write(dir.path().join("notes.txt"), "no policy").expect("a file");
    assert_eq!(digest(), before);
    fs::write(dir.path().join("a.yaml"), policy("beta")).expect("a file");
    assert_ne!(digest(), before);
}
