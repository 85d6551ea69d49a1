//! Keeps the text of the protocol and the scripts in step: each numbered rule names the scripts that are its
//! executable form, in a line `Vectors: …`, and each script names its rules.

use std::collections::{BTreeMap, BTreeSet};

/// What a rule says that no script can show.
const NONE: &str = "none";

/// What one of the two says and the other does not. `scripts` are pairs of a rule and a script's id.
pub(super) fn disagreements(text: &str, scripts: &BTreeSet<(String, String)>) -> Vec<String> {
    let rules = read(text);
    let mut wrong = Vec::new();
    for (rule, script) in scripts {
        match rules.get(rule) {
            None => wrong.push(format!("script {script} names rule {rule}, which does not exist")),
            Some(named) if !named.contains(script) => {
                wrong.push(format!("script {script} names rule {rule}, which does not name it"));
            }
            Some(_) => {}
        }
    }
    for (rule, named) in &rules {
        if named.is_empty() {
            wrong.push(format!("rule {rule} names no script: name one, or say `Vectors: none.`"));
        }
        for script in named.iter().filter(|script| *script != NONE) {
            if !scripts.contains(&(rule.clone(), script.clone())) {
                wrong.push(format!(
                    "rule {rule} names script {script}, which does not name it or is not there"
                ));
            }
        }
    }
    wrong
}

/// The rules of the text, each with the scripts that it names.
fn read(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut rules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (mut section, mut rule, mut naming) = (None, None, false);
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading.split_once(". ").map(|(n, _)| n).filter(|n| is_number(n));
            // What stands before the first numbered rule is the section's own.
            rule = section.map(String::from);
        } else if let Some(heading) = line.strip_prefix("### ") {
            (section, rule) = (None, Some(heading.to_lowercase()));
        } else if let Some(section) = section
            && let Some((n, _)) = line.split_once(". ")
            && is_number(n)
        {
            rule = Some(format!("{section}.{n}"));
            rules.entry(format!("{section}.{n}")).or_default();
        }
        let told = line.trim().strip_prefix("Vectors: ").or_else(|| Some(line.trim()).filter(|_| naming));
        if let (Some(rule), Some(scripts)) = (&rule, told) {
            let words = scripts.split(',').map(|script| script.trim().trim_matches(['`', '.']).to_owned());
            rules.entry(rule.clone()).or_default().extend(words.filter(|word| !word.is_empty()));
            // They go on, over lines, up to a full stop.
            naming = !scripts.ends_with('.');
        }
    }
    rules
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[test]
fn what_only_one_of_the_two_says_is_found() {
    let text = "## 1. A\n\n1. One.\n   Vectors: `a`,\n   `b`.\n2. Two.\n3. Three.\n   Vectors: none.\n\n### Deep\n\nVectors: `c`.\n";
    let scripts = |pairs: &[(&str, &str)]| pairs.iter().map(|(r, s)| ((*r).into(), (*s).into())).collect();
    let all = scripts(&[("1.1", "a"), ("1.1", "b"), ("1.2", "d"), ("1.9", "a")]);
    let wrong = disagreements(text, &all);
    assert_eq!(
        wrong,
        [
            "script d names rule 1.2, which does not name it",
            "script a names rule 1.9, which does not exist",
            "rule 1.2 names no script: name one, or say `Vectors: none.`",
            "rule deep names script c, which does not name it or is not there",
        ]
    );
}
