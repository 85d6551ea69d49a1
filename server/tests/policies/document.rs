//! The files that people copy from are valid: those of the documentation and those of the examples.

use super::*;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[test]
fn the_example_of_the_documentation_is_valid() {
    let text = fs::read_to_string(root().join("docs/policies.md")).expect("the documentation");
    let examples: Vec<&str> = text
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .filter(|example| example.contains("policies:\n"))
        .collect();
    assert!(!examples.is_empty());
    for example in examples {
        let policies = valid(example);
        assert!(policies.warnings().is_empty(), "{:?}", policies.warnings());
    }
}

#[test]
fn every_example_file_is_valid() {
    let files = fs::read_dir(root().join("examples/policies")).expect("the examples");
    let mut seen = 0;
    for file in files {
        let path = file.expect("an entry").path();
        let policies = load(&path, &Limits::default(), None).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(policies.warnings().is_empty(), "{:?}", policies.warnings());
        seen += 1;
    }
    assert!(seen > 0);
}
