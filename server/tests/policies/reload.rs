//! Revisions, and watching files as editors and Kubernetes change them.

use std::os::unix::fs::symlink;
use std::sync::Arc;

use panelboard_server::policies::Watcher;

use super::*;

fn policy(name: &str, wait: &str) -> String {
    format!("  - name: {name}\n    match: [{name}]\n    open: {{ wait: {wait} }}\n")
}

fn file(policies: &[String]) -> String {
    format!("policies:\n{}", policies.concat())
}

fn revision(policies: &Policies, name: &str) -> u64 {
    policies.get(name).expect("it is there").policy().revision()
}

/// Watches a path that is valid now.
fn watch(path: &Path) -> Watcher {
    let good = load(path, &Limits::default(), None).unwrap_or_else(|errors| panic!("{errors}"));
    Watcher::new(path, Limits::default(), good)
}

/// The two looks that a change takes.
fn changed(watcher: &mut Watcher) -> Result<Policies, PolicyErrors> {
    assert!(watcher.poll().is_none(), "a content that is seen for the first time may be half written");
    watcher.poll().expect("a change")
}

#[test]
fn a_revision_grows_with_what_a_policy_says_and_with_nothing_else() {
    let dir = dir(&[("p.yaml", &file(&[policy("a", "5s"), policy("b", "5s")]))]);
    let path = dir.path().join("p.yaml");
    let load = |text: String, previous: &Policies| {
        fs::write(&path, text).expect("a file");
        super::load(&path, &Limits::default(), Some(previous)).unwrap_or_else(|errors| panic!("{errors}"))
    };
    let first = super::load(&path, &Limits::default(), None).expect("valid");
    assert_eq!([revision(&first, "a"), revision(&first, "b")], [1, 1]);

    let second = load(format!("# moved\n{}", file(&[policy("b", "5000ms"), policy("a", "6s")])), &first);
    assert_eq!([revision(&second, "a"), revision(&second, "b")], [2, 1]);
    let same = |name| Arc::ptr_eq(first.get(name).unwrap().policy(), second.get(name).unwrap().policy());
    assert!(same("b") && !same("a"));

    let without = load(file(&[policy("b", "5s")]), &second);
    assert!(without.get("a").is_none());
    let back = load(file(&[policy("a", "5s"), policy("b", "5s")]), &without);
    assert_eq!([revision(&back, "a"), revision(&back, "b")], [3, 1], "one that comes back counts on");

    // After a restart only what was stored is known.
    let stored: Vec<_> =
        back.revisions().map(|(name, digest, revision)| (name.to_owned(), digest, revision)).collect();
    let restarted = Policies::remembered(stored);
    assert!(restarted.is_empty() && restarted.resolve(&name("a")).is_none());
    let loaded = load(file(&[policy("a", "5s"), policy("b", "7s")]), &restarted);
    assert_eq!([revision(&loaded, "a"), revision(&loaded, "b")], [3, 2]);
}

#[test]
fn an_edit_is_taken_once_it_holds_still() {
    let dir = dir(&[("p.yaml", &file(&[policy("a", "5s")]))]);
    let path = dir.path().join("p.yaml");
    let mut watcher = watch(&path);
    assert!(watcher.poll().is_none() && watcher.poll().is_none());

    // Half of it, then all of it, as a slow editor writes.
    fs::write(&path, "policies:\n").expect("a file");
    assert!(watcher.poll().is_none());
    fs::write(&path, file(&[policy("a", "6s")])).expect("a file");
    let policies = changed(&mut watcher).expect("valid");
    assert_eq!(revision(&policies, "a"), 2);
    assert!(watcher.poll().is_none() && watcher.poll().is_none());

    // Written again as it is, or for less than a look.
    fs::write(&path, file(&[policy("a", "6s")])).expect("a file");
    assert!(watcher.poll().is_none() && watcher.poll().is_none());
}

#[test]
fn a_wrong_edit_is_an_error_once_and_the_good_policies_stay() {
    let dir = dir(&[("p.yaml", &file(&[policy("a", "5s")]))]);
    let path = dir.path().join("p.yaml");
    let mut watcher = watch(&path);
    fs::write(&path, file(&[policy("a", "5")])).expect("a file");
    let errors = changed(&mut watcher).expect_err("no unit");
    assert_eq!(errors.count(), 1);
    assert!(watcher.poll().is_none() && watcher.poll().is_none());
    assert_eq!(revision(watcher.good(), "a"), 1);

    fs::remove_file(&path).expect("it was there");
    let errors = changed(&mut watcher).expect_err("it is gone");
    assert!(errors.to_string().contains("p.yaml: cannot be read: No such file"), "{errors}");
    assert!(watcher.poll().is_none() && watcher.poll().is_none());

    // Back as it was: that is told too, so that whoever complained can stop.
    fs::write(&path, file(&[policy("a", "5s")])).expect("a file");
    assert_eq!(revision(&changed(&mut watcher).expect("valid"), "a"), 1);
}

#[test]
fn a_mounted_config_map_changes_by_one_link() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    for (version, wait) in [("..2026_01", "5s"), ("..2026_02", "6s")] {
        fs::create_dir(at(version)).expect("a directory");
        fs::write(at(version).join("p.yaml"), file(&[policy("a", wait)])).expect("a file");
    }
    symlink("..2026_01", at("..data")).expect("a link");
    symlink("..data/p.yaml", at("p.yaml")).expect("a link");
    let mut watcher = watch(dir.path());
    assert_eq!(watcher.good().len(), 1);

    symlink("..2026_02", at("..data_tmp")).expect("a link");
    fs::rename(at("..data_tmp"), at("..data")).expect("a swap");
    assert_eq!(revision(&changed(&mut watcher).expect("valid"), "a"), 2);
}

#[test]
fn a_file_that_comes_to_a_directory_or_is_renamed_is_a_change() {
    let dir = dir(&[("1.yaml", &file(&[policy("a", "5s")]))]);
    let mut watcher = watch(dir.path());
    fs::write(dir.path().join("2.yaml"), file(&[policy("b", "5s")])).expect("a file");
    assert_eq!(changed(&mut watcher).expect("valid").len(), 2);
    // Its new name is where people look for it.
    fs::rename(dir.path().join("2.yaml"), dir.path().join("3.yaml")).expect("a rename");
    let policies = changed(&mut watcher).expect("valid");
    let entry = policies.get("b").expect("it is there");
    assert!(entry.place().to_string().ends_with("3.yaml:2") && entry.policy().revision() == 1);
}
