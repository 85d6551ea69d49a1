//! Every mistake gives one message with its file, line, value and remedy.

use std::os::unix::fs::{PermissionsExt, symlink};

use panelboard_server::policies::{Checked, check};

use super::*;

/// The one message about a file of this text.
fn check_refused(text: &str, message: &str) {
    check_all_refused(text, &[message]);
}

fn check_all_refused(text: &str, messages: &[&str]) {
    let dir = dir(&[("p.yaml", text)]);
    check_path(dir.path(), &dir.path().join("p.yaml"), messages);
}

fn check_path(dir: &Path, path: &Path, messages: &[&str]) {
    match load(path, &Limits::default(), None) {
        Ok(policies) => panic!("{policies:?} was taken"),
        Err(errors) => assert_eq!(lines(&errors, dir), messages),
    }
}

/// A policy of one rule, which begins on line 5.
fn with_rule(rule: &str) -> String {
    format!("policies:\n  - name: a\n    match: [a]\n    trip:\n      - {rule}\n")
}

/// A policy with this on line 4.
fn with(field: &str) -> String {
    format!("policies:\n  - name: a\n    match: [a]\n    {field}\n")
}

#[test]
fn an_unknown_field() {
    check_refused(&with("ownr: team"), "p.yaml:4: policies[0]: unknown field \"ownr\": did you mean owner?");
    check_refused(
        &with("open: { wait: 5s, spread: 2s }"),
        "p.yaml:4: policies[0].open: unknown field \"spread\": it belongs under close",
    );
}

#[test]
fn a_misspelt_field_is_not_missing_as_well() {
    check_refused(
        "policies:\n  - nam: a\n    match: [a]\n",
        "p.yaml:2: policies[0]: unknown field \"nam\": did you mean name?",
    );
    check_refused(
        &with_rule("{ failure_rate: 50%, within: 10s, min_calls: 20 }"),
        "p.yaml:5: policies[0].trip[0]: unknown field \"min_calls\": did you mean minimum_calls?",
    );
    check_refused("policy:\n  - name: a\n", "p.yaml:1: unknown field \"policy\": did you mean policies?");
}

#[test]
fn a_wrong_unit() {
    for (value, message) in [
        (
            "10 sec",
            "\"10 sec\" has the unknown unit \" sec\": one of ms, s, m, h, d belongs right behind the number, as in 10s",
        ),
        ("10", "\"10\" has no unit: write 10s for seconds or 10ms for milliseconds"),
        ("-5s", "\"-5s\" is negative: a duration is zero or more"),
        ("soon", "\"soon\" is not a duration: write a number and a unit, such as 10s or 1.5s"),
        ("[5s]", "a list stands where a duration such as 10s belongs: write a duration such as 10s"),
        ("~", "nothing stands where a duration such as 10s belongs: write a duration such as 10s"),
    ] {
        let message = format!("p.yaml:4: policies[0].open.wait: {message}");
        check_refused(&with(&format!("open: {{ wait: {value} }}")), &message);
    }
    valid(&with("open: { wait: 1.5m }"));
}

#[test]
fn a_percentage_without_its_sign_or_out_of_range() {
    for (value, message) in [
        ("50", "50 has no percent sign: write 50%"),
        ("0.5", "0.5 has no percent sign: write 50% for a half, 0.5% for 0.5 of a hundred"),
        ("0%", "0% is out of range: a threshold is at least 0.01% and at most 100%"),
        ("101%", "101% is out of range: a threshold is at least 0.01% and at most 100%"),
        ("half", "\"half\" is not a percentage: write one such as 50% or 12.5%"),
    ] {
        let message = format!("p.yaml:5: policies[0].trip[0].failure_rate: {message}");
        check_refused(
            &with_rule(&format!("{{ failure_rate: {value}, within: 10s, minimum_calls: 20 }}")),
            &message,
        );
    }
    valid(&with_rule("{ failure_rate: 12.5%, within: 10s, minimum_calls: 20 }"));
}

#[test]
fn a_minimum_larger_than_last() {
    check_refused(
        &with_rule("failure_rate: 50%\n        last: 4\n        minimum_calls: 5"),
        "p.yaml:7: policies[0].trip[0].minimum_calls: 5 calls can never be among the last 4: lower minimum_calls or \
         raise last",
    );
}

#[test]
fn a_rule_that_measures_nothing_or_two_things() {
    check_refused(
        &with_rule("within: 10s"),
        "p.yaml:5: policies[0].trip[0]: the rule measures nothing: give one of failure_rate, slow_rate, failures, \
         consecutive_failures",
    );
    check_refused(
        &with_rule("failures: 5\n        within: 10s\n        consecutive_failures: 5"),
        "p.yaml:7: policies[0].trip[0]: the rule measures both failures and consecutive_failures: put each into a \
         rule of its own",
    );
}

#[test]
fn a_rule_with_the_wrong_fields_for_its_measure() {
    for (rule, message) in [
        (
            "{ failures: 5, within: 10s, last: 9 }",
            ".last: within and last are two windows, and a rule has one: remove one of them",
        ),
        ("{ failures: 5 }", ": failures needs a window: add within: 10s, or last: 100"),
        (
            "{ failures: 5, within: 1s, minimum_calls: 3 }",
            ".minimum_calls: a rule on failures takes no minimum_calls: remove it",
        ),
        (
            "{ consecutive_failures: 5, within: 1s }",
            ".within: a rule on consecutive_failures takes no within: remove it",
        ),
        (
            "{ failure_rate: 5%, within: 1s }",
            ": failure_rate needs a number of calls to be seen first: add minimum_calls: 20",
        ),
        (
            "{ slow_rate: 5%, within: 1s, minimum_calls: 9 }",
            ": slow_rate needs to know what is slow: add slower_than: 2s",
        ),
        (
            "{ failure_rate: 5%, within: 1s, minimum_calls: 9, slower_than: 1s }",
            ".slower_than: a rule on failure_rate takes no slower_than: remove it",
        ),
    ] {
        check_refused(&with_rule(rule), &format!("p.yaml:5: policies[0].trip[0]{message}"));
    }
}

#[test]
fn a_value_of_the_wrong_kind() {
    for (field, message) in [
        (
            "trip: fast",
            "trip: \"fast\" stands where the list of rules belongs: write \"- failures: 5\" and the like below it, or leave trip out",
        ),
        ("trip: []", "trip: holds no rule, so nothing could trip the breaker: give one, or leave trip out"),
        (
            "trip: [5]",
            "trip[0]: \"5\" stands where a map belongs: write its fields, such as failure_rate, slow_rate, failures, consecutive_failures",
        ),
        (
            "open: 5s",
            "open: \"5s\" stands where a map belongs: write its fields, such as wait, multiplier, max_wait, jitter",
        ),
        (
            "guard: { min_instances: few }",
            "guard.min_instances: \"few\" is not a whole number: write a whole number such as 20",
        ),
        (
            "guard: { min_instances: 1.5 }",
            "guard.min_instances: \"1.5\" is not a whole number: write a whole number such as 20",
        ),
        ("guard: { min_instances: 0 }", "guard.min_instances: 0 is out of range: give 1 to 1000"),
        ("guard: { share: 20 }", "guard.share: 20 has no percent sign: write 20%"),
        ("guard: { share: 101% }", "guard.share: 101% is out of range: give 0% to 100%"),
        ("guard: { min_calls: 0 }", "guard.min_calls: 0 is out of range: give 1 to 10000"),
        (
            "retry_after: { scope: fleets }",
            "retry_after.scope: \"fleets\" is none of instance, fleet, off: did you mean fleet?",
        ),
        (
            "retry_after: { scope: on }",
            "retry_after.scope: \"on\" is none of instance, fleet, off: write instance, fleet or off",
        ),
        (
            "guard: { min_instances: 5000000000 }",
            "guard.min_instances: 5000000000 is out of range: no number here is above 1000000",
        ),
        (
            "open: { multiplier: 2x }",
            "open.multiplier: \"2x\" is not a number: write one such as 2 or 1.5, without a unit",
        ),
        ("open: { multiplier: 0.5 }", "open.multiplier: 0.5 is out of range: give 1 to 100"),
        ("open: { wait: 0s }", "open.wait: 0ms is out of range: give 1ms to 24h"),
        ("half_open: { limit: 2d }", "half_open.limit: 48h is out of range: give 1ms to 24h"),
        ("close: { spread: 301s }", "close.spread: 301s is out of range: give at most 5m"),
        ("open: { wait: 1.5s, max_wait: 1s }", "open.max_wait: 1s is less than the wait of 1500ms: raise it"),
        ("open: { jitter: 200% }", "open.jitter: 200% is out of range: give 0% to 100%"),
        ("open: { jitter: 10 }", "open.jitter: 10 has no percent sign: write 10%"),
        ("owner:", "owner: nothing stands where a text belongs: write a text, or remove the key"),
        ("owner: [a]", "owner: a list stands where a text belongs: write a text"),
        ("on_disconnect: dney", "on_disconnect: \"dney\" is none of local, allow, deny: did you mean deny?"),
        (
            "classification: { failure: http_429 }",
            "classification.failure: \"http_429\" is not a list: write [http_429]",
        ),
        (
            "classification: { failure: [http_999] }",
            "classification.failure[0]: \"http_999\" names no HTTP status: give http_100 to http_599",
        ),
    ] {
        check_refused(&with(field), &format!("p.yaml:4: policies[0].{message}"));
    }
}

#[test]
fn a_bad_value_does_not_make_its_neighbours_bad() {
    check_refused(
        &with("open: { wait: 10, max_wait: 1s }"),
        "p.yaml:4: policies[0].open.wait: \"10\" has no unit: write 10s for seconds or 10ms for milliseconds",
    );
    check_refused(
        &with("half_open: { permitted_calls: all, successes_to_close: 9, failures_to_open: 9 }"),
        "p.yaml:4: policies[0].half_open.permitted_calls: \"all\" is not a whole number: write a whole number such as 20",
    );
    check_all_refused(
        &with_rule(
            "{ failure_rate: 50%, within: 10, minimum_calls: 0 }\n      - { failures: 5, within: 1h }",
        ),
        &[
            "p.yaml:5: policies[0].trip[0].within: \"10\" has no unit: write 10s for seconds or 10ms for milliseconds",
            "p.yaml:5: policies[0].trip[0].minimum_calls: 0 is out of range: give 1 to 1000000",
        ],
    );
}

#[test]
fn a_policy_for_nothing() {
    check_refused(
        "policies:\n  - name: a\n",
        "p.yaml:2: policies[0].match: is missing: list the breakers it is for, such as match: [checkout/*]",
    );
    check_refused(
        "policies:\n  - name:\n    match: [a]\n",
        "p.yaml:2: policies[0].name: nothing stands where a text belongs: write a text",
    );
    check_refused(
        "policies:\n  - match: [a]\n",
        "p.yaml:2: policies[0].name: is missing: give the policy a name, such as name: checkout",
    );
    check_refused(
        "policies:\n  - name: a\n    match: []\n",
        "p.yaml:3: policies[0].match: the list is empty: name a breaker, such as [checkout/*]",
    );
    check_refused(
        "policies:\n  - name: a\n    match:\n      - ok\n      - a b\n",
        "p.yaml:5: policies[0].match[1]: \"a b\" is no name or pattern: the name has ' ' at place 1: letters, digits \
         and . _ / - are allowed",
    );
}

#[test]
fn a_name_or_pattern_of_two_policies() {
    let two =
        |a: &str, b: &str| format!("policies:\n  - name: a\n    match: {a}\n  - name: b\n    match: {b}\n");
    check_refused(
        "policies:\n  - {name: a, match: [x]}\n  - {name: a, match: [y]}\n",
        &format!(
            "p.yaml:3: policies[1].name: \"a\" is the name of the policy at {} too: rename one of them",
            "p.yaml:2"
        ),
    );
    check_refused(
        &two("[x/*]", "[y, x/*]"),
        "p.yaml:5: policies[1].match[1]: \"x/*\" is matched by policy \"a\" at p.yaml:3 too: remove it from one of them",
    );
    check_refused(
        &two("[x/y]", "x/y"),
        "p.yaml:5: policies[1].match: \"x/y\" is matched by policy \"a\" at p.yaml:3 too: remove it from one of them",
    );
    check_refused(
        &two("[x/*-api]", "[\"x/*api-*\"]"),
        "p.yaml:5: policies[1].match[0]: \"x/*api-*\" and \"x/*-api\" of policy \"a\" at p.yaml:3 are equally specific, \
         and both match \"x/api-api\": give one of them a longer beginning, or write the names out",
    );
    check_refused(
        "policies:\n  - name: a\n    match:\n      - x/*\n      - x/*\n",
        "p.yaml:5: policies[0].match[1]: \"x/*\" is listed twice, first on line 4: remove one",
    );
    valid(&two("[x/*-api]", "[x/*-web]"));
    valid(&two("[x/*, x/y]", "[x/**, \"**\"]"));
}

#[test]
fn a_file_without_policies() {
    let empty = "p.yaml:1: the file is empty: begin with \"policies:\" and list the policies below it";
    check_refused("", empty);
    check_refused("# only words\n\n", empty);
    check_refused("---\n", empty);
    check_refused("\u{feff}", empty);
    check_refused(
        "policies:\n",
        "p.yaml:1: policies: nothing stands where the list of policies belongs: write \"- name: ...\" below it",
    );
    check_refused(
        "policies: []\n",
        "p.yaml:1: policies: the list is empty: write \"- name: ...\" below it, or remove the file",
    );
    check_refused(
        "just words\n",
        "p.yaml:1: the file holds \"just words\" and no policies: begin with \"policies:\" and list them below it",
    );
    check_refused(
        "- name: a\n  match: [a]\n",
        "p.yaml:1: the file holds a list and no policies: begin with \"policies:\" and list them below it",
    );
}

#[test]
fn what_is_not_yaml() {
    let dir = dir(&[
        ("p.yaml", "policies:\n  - name: a\n    match: [a\n    owner: b\n"),
        ("tab.yaml", "policies:\n\t- name: a\n"),
    ]);
    for (file, line) in [("p.yaml", 4), ("tab.yaml", 2)] {
        let errors = load(&dir.path().join(file), &Limits::default(), None).expect_err("it is not YAML");
        let lines = lines(&errors, dir.path());
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with(&format!("{file}:{line}: is not YAML: ")), "{lines:?}");
    }
    fs::write(dir.path().join("p.yaml"), b"policies:\n  - name: \xff\n").expect("a file");
    check_path(
        dir.path(),
        &dir.path().join("p.yaml"),
        &["p.yaml:2: is not UTF-8, so it is no YAML file: save it as UTF-8"],
    );
}

#[test]
fn a_bomb() {
    let mut text = String::from("policies:\n  - &p0 { name: a, match: [a] }\n");
    for n in 1..2_000 {
        text.push_str(&format!("  - &p{n} [*p{}, *p{}]\n", n - 1, n - 1));
    }
    let errors = load_text(&text).expect_err("aliases are refused");
    assert!(errors.count() > 3_000 && errors.problems().len() == 100, "{}", errors.count());
    assert!(errors.to_string().ends_with(" more"));
    let errors = load_text(&format!("policies: {}", "[".repeat(200_000))).expect_err("too deep");
    assert_eq!(
        errors.problems()[0].message,
        "is nested too deep for a policy file: a policy needs five levels"
    );
}

#[test]
fn a_path_that_cannot_be_read() {
    let dir = dir(&[("p.yaml", "policies: []")]);
    let at = |name: &str| dir.path().join(name);
    check_path(
        dir.path(),
        &at("gone.yaml"),
        &[
            "gone.yaml: cannot be read: No such file or directory (os error 2): give a YAML file or a directory of them",
        ],
    );
    fs::create_dir(at("empty")).expect("a directory");
    fs::write(at("empty/notes.txt"), "").expect("a file");
    fs::write(at("empty/.hidden.yaml"), "").expect("a file");
    fs::create_dir(at("empty/deeper.yaml")).expect("a directory");
    check_path(
        dir.path(),
        &at("empty"),
        &["empty: the directory holds no *.yaml and no *.yml file: add one"],
    );
    symlink(at("gone"), at("empty/dangling.yml")).expect("a link");
    check_path(
        dir.path(),
        &at("empty"),
        &[
            "empty/dangling.yml: cannot be read: No such file or directory (os error 2): let this process read it",
        ],
    );
    check_path(
        Path::new("/dev"),
        Path::new("/dev/null"),
        &["null: is no regular file: give a YAML file or a directory of them"],
    );
}

#[test]
fn a_file_without_permission() {
    let dir = dir(&[("p.yaml", "policies: []")]);
    let path = dir.path().join("p.yaml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("permissions");
    if fs::File::open(&path).is_ok() {
        // The superuser reads everything, so for it there is nothing to see here.
        return;
    }
    check_path(
        dir.path(),
        &path,
        &["p.yaml: cannot be read: Permission denied (os error 13): let this process read it"],
    );
}

#[test]
fn all_mistakes_of_all_files_at_once() {
    let dir = dir(&[
        (
            "a.yaml",
            "policies:\n  - name: a\n    match: [x]\n    open: { wait: 5 }\n    retry_after: { max: 10 }\n",
        ),
        ("b.yml", "policies:\n  - name: a\n    match: [x]\n"),
        ("c.yaml", "policies: [\n"),
        ("d.yaml", "policies:\n  - name: d\n    match: [d]\n"),
    ]);
    let errors = load(dir.path(), &Limits::default(), None).expect_err("they are wrong");
    let lines = lines(&errors, dir.path());
    assert_eq!(
        lines[..4],
        [
            "a.yaml:4: policies[0].open.wait: \"5\" has no unit: write 5s for seconds or 5ms for milliseconds",
            "a.yaml:5: policies[0].retry_after.max: \"10\" has no unit: write 10s for seconds or 10ms for milliseconds",
            "b.yml:2: policies[0].name: \"a\" is the name of the policy at a.yaml:2 too: rename one of them",
            "b.yml:3: policies[0].match[0]: \"x\" is matched by policy \"a\" at a.yaml:3 too: remove it from one of them",
        ]
    );
    assert!(lines.len() == 5 && lines[4].starts_with("c.yaml:"), "{lines:?}");
}

#[test]
fn what_goes_past_a_limit() {
    let limits = Limits { policies: 2, policy_file_bytes: 1_024, ..Limits::default() };
    let dir = dir(&[
        ("a.yaml", "policies:\n  - {name: a, match: [a]}\n"),
        ("b.yaml", "policies:\n  - {name: b, match: [b]}\n  - {name: c, match: [c]}\n"),
    ]);
    let errors = load(dir.path(), &limits, None).expect_err("too many");
    assert_eq!(
        lines(&errors, dir.path()),
        ["b.yaml:3: policies: here begin more than 2 policies: remove some, or raise limits.policies"]
    );
    fs::write(dir.path().join("b.yaml"), "#".repeat(1_025)).expect("a file");
    let errors = load(dir.path(), &limits, None).expect_err("too large");
    assert_eq!(
        lines(&errors, dir.path()),
        ["b.yaml: is larger than 1024 bytes: split it, or raise limits.policy-file-bytes"]
    );
    let names: Vec<String> = (0..1_001).map(|n| format!("n{n}")).collect();
    check_refused(
        &format!("policies:\n  - name: a\n    match: [{}]\n", names.join(", ")),
        "p.yaml:3: policies[0].match: lists 1001 names and patterns, 1000 are allowed: use a pattern, or several \
         policies",
    );
    check_refused(
        &with(&format!("trip: [{}]", ["{ consecutive_failures: 5 }"; 17].join(", "))),
        "p.yaml:4: policies[0].trip: holds 17 rules, 16 are allowed: remove some",
    );
}

fn checked(text: &str) -> (Checked, Vec<String>) {
    let dir = dir(&[("p.yaml", text)]);
    let mut out = Vec::new();
    let checked =
        check(&dir.path().join("p.yaml"), &Limits::default(), &mut out).expect("memory can be written");
    let printed = String::from_utf8(out).expect("text").replace(&format!("{}/", dir.path().display()), "");
    (checked, printed.lines().map(str::to_owned).collect())
}

#[test]
fn check_prints_errors_or_warnings_and_a_summary() {
    let (result, printed) = checked(&with("open: { wait: 5 }"));
    assert_eq!(result, Checked::Invalid);
    assert_eq!(
        printed,
        [
            "p.yaml:4: policies[0].open.wait: \"5\" has no unit: write 5s for seconds or 5ms for milliseconds",
            "1 error: not valid",
        ]
    );
    let (result, printed) = checked(
        "policies:\n  - name: a\n    match: [x, \"*\"]\n    owner: team\n    trip:\n      - consecutive_failures: 1\n  - name: b\n    match: y/**\n",
    );
    assert_eq!(result, Checked::Valid);
    assert_eq!(
        printed,
        [
            "p.yaml:3: warning: policies[0].match[1]: * matches no name with a slash in it: write ** to match every name",
            "p.yaml:6: warning: policies[0].trip[0].consecutive_failures: one failure trips: it trips on noise, raise it",
            "p.yaml:7: warning: policies[1].owner: nobody is named: say whom to page when it opens",
            "2 policies, 1 name, 2 patterns, 3 warnings: valid",
        ]
    );
}

/// A file with every field, to be damaged.
const WHOLE: &str = include_str!("../../../docs/policies.md");

proptest::proptest! {
    /// Cut, doubled and overwritten anywhere, a file is taken or refused with a line that it has.
    #[test]
    fn a_damaged_file_never_panics(at in 0usize..1_600, length in 0usize..40, junk in "[-:\\[\\]{}*&!|>'\"%#\n\ta0 ]{0,6}") {
        let example = WHOLE.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
        let cut = |at: usize| example.char_indices().map(|(at, _)| at).nth(at).unwrap_or(example.len());
        let text = format!("{}{junk}{}", &example[..cut(at)], &example[cut(at + length)..]);
        if let Err(errors) = load_text(&text) {
            proptest::prop_assert!(errors.count() > 0);
            for problem in errors.problems() {
                let lines = text.lines().count() + 1;
                let line = problem.place.line;
                proptest::prop_assert!(line.is_some_and(|line| (1..=lines).contains(&line)), "{problem}");
            }
        }
    }
}
