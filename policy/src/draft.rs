//! A file as policies that are not yet checked against each other, and everything that is wrong with them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use panelboard_core::{
    Classification, GuardSpec, HalfOpenSpec, OpenSpec, PERMITTED_CALLS_MAX, Pattern, Policy, PolicySpec,
    RetryAfterScope,
};

use crate::files::Source;
use crate::problem::{Place, Problem};
use crate::section::{Field, Notes, Section, found};
use crate::value;
use crate::yaml::{self, Content, Node};
use crate::{limits::PATTERNS_PER_POLICY_MAX, nearest::nearest, rule, value::Unread};

/// One policy, valid by itself.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) spec: PolicySpec,
    /// Its names and patterns, each with its place.
    pub(crate) matches: Vec<Claim>,
    pub(crate) place: Place,
    /// Its path in the file, as in `policies[0]`.
    pub(crate) path: String,
    /// Its name is its own and no stand-in.
    pub(crate) is_named: bool,
    /// What is allowed and probably not meant.
    pub(crate) warnings: Vec<Problem>,
}

/// A name or pattern that a policy is for.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) pattern: Pattern,
    pub(crate) place: Place,
    pub(crate) path: String,
}

/// What a file holds.
#[derive(Debug, Default)]
pub(crate) struct Drafts {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) problems: Vec<Problem>,
    /// Where policies of more than the limit begin.
    pub(crate) too_many: Option<Place>,
}

/// Reads a file of which `most` policies may come.
pub(crate) fn read(source: &Source, most: usize) -> Drafts {
    let mut file = Reader { path: &source.path, out: Drafts::default() };
    match &source.bytes {
        Err(reason) => file.unreadable(reason),
        Ok(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => file.text(text.strip_prefix('\u{feff}').unwrap_or(text), most),
            Err(error) => {
                let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
                file.problem(line, "", "is not UTF-8, so it is no YAML file: save it as UTF-8");
            }
        },
    }
    file.out.problems.sort_by_key(|problem| problem.place.line);
    file.out
}

struct Reader<'a> {
    path: &'a Arc<Path>,
    out: Drafts,
}

impl Reader<'_> {
    fn place(&self, line: usize) -> Place {
        Place { file: Arc::clone(self.path), line: Some(line) }
    }

    /// What was not read has no line.
    fn unreadable(&mut self, reason: &str) {
        let place = Place { file: Arc::clone(self.path), line: None };
        self.out.problems.push(Problem { place, path: String::new(), message: reason.to_owned() });
    }

    fn problem(&mut self, line: usize, path: &str, message: impl Into<String>) {
        let place = self.place(line);
        self.out.problems.push(Problem { place, path: path.to_owned(), message: message.into() });
    }

    fn text(&mut self, text: &str, most: usize) {
        let (root, flaws) = yaml::parse(text);
        let sound = flaws.is_empty();
        for flaw in flaws {
            self.problem(flaw.line, "", flaw.message);
        }
        let Some(root) = root else {
            if sound {
                self.problem(
                    1,
                    "",
                    "the file is empty: begin with \"policies:\" and list the policies below it",
                );
            }
            return;
        };
        let entries = match &root.content {
            Content::Map(entries) => entries,
            Content::Refused => return,
            Content::Nothing => {
                self.problem(
                    1,
                    "",
                    "the file is empty: begin with \"policies:\" and list the policies below it",
                );
                return;
            }
            Content::Scalar(_) | Content::List(_) => {
                let message = format!(
                    "the file holds {} and no policies: begin with \"policies:\" and list them below it",
                    found(&root)
                );
                self.problem(root.line, "", message);
                return;
            }
        };
        let mut policies = None;
        for (key, value) in entries {
            if key.text == "policies" {
                policies = Some((key.line, value));
            } else if value.content != Content::Refused {
                let remedy = match nearest(&key.text, ["policies", "policy"]) {
                    Some(_) => "did you mean policies?",
                    None => "a policy file has one field, policies, and its list",
                };
                self.problem(key.line, "", format!("unknown field {:?}: {remedy}", key.text));
            }
        }
        match policies {
            Some((line, node)) => self.policies(line, node, most),
            // An unknown field was most likely meant to be this one.
            None if self.out.problems.is_empty() => {
                self.problem(root.line, "", "the file holds no policies: begin with \"policies:\"");
            }
            None => {}
        }
    }

    fn policies(&mut self, line: usize, node: &Node, most: usize) {
        let items = match &node.content {
            Content::List(items) => items,
            Content::Refused => return,
            Content::Nothing | Content::Scalar(_) | Content::Map(_) => {
                let message = format!(
                    "{} stands where the list of policies belongs: write \"- name: ...\" below it",
                    found(node)
                );
                self.problem(line, "policies", message);
                return;
            }
        };
        if items.is_empty() {
            self.problem(
                line,
                "policies",
                "the list is empty: write \"- name: ...\" below it, or remove the file",
            );
        }
        if let Some(beyond) = items.get(most) {
            self.out.too_many = Some(self.place(beyond.line));
        }
        for (index, item) in items.iter().take(most).enumerate() {
            if item.content != Content::Refused {
                self.policy(item, format!("policies[{index}]"));
            }
        }
    }

    fn policy(&mut self, node: &Node, path: String) {
        let mut notes = Notes::default();
        notes.stands("", node.line);
        let read = policy(node, &mut notes);
        for finding in &notes.findings {
            self.problem(finding.line, &inside(&path, &finding.path), finding.message.as_str());
        }
        let Some((spec, matches)) = read else { return };
        let claim = |(pattern, line, at): (Pattern, usize, String)| Claim {
            pattern,
            place: self.place(line),
            path: inside(&path, &at),
        };
        let matches: Vec<Claim> = matches.into_iter().map(claim).collect();
        let mut warnings = Vec::new();
        // The revision is given once it is known; here only whether it is valid matters.
        if let Ok(policy) = Policy::try_new(spec.clone(), 1) {
            for warning in policy.warnings() {
                let (place, at) = (self.place(notes.line(&warning.path)), inside(&path, &warning.path));
                warnings.push(Problem { place, path: at, message: warning.message });
            }
        }
        for claim in matches.iter().filter(|claim| claim.pattern.as_str() == "*") {
            let message = "* matches no name with a slash in it: write ** to match every name".to_owned();
            warnings.push(Problem { place: claim.place.clone(), path: claim.path.clone(), message });
        }
        warnings.sort_by_key(|warning| warning.place.line);
        self.out.drafts.push(Draft {
            is_named: !notes.is_bad("name"),
            place: self.place(node.line),
            spec,
            matches,
            path,
            warnings,
        });
    }
}

fn inside(policy: &str, path: &str) -> String {
    if path.is_empty() { policy.to_owned() } else { format!("{policy}.{path}") }
}

type Matches = Vec<(Pattern, usize, String)>;

/// Reads one policy. None if it is not even a map; what is wrong with it is in the notes, and then the values are not
/// to be used for more than comparing policies with each other.
fn policy(node: &Node, notes: &mut Notes) -> Option<(PolicySpec, Matches)> {
    let section = Section::of(node, "", "", notes).given()?;
    let default = PolicySpec::default();
    let text =
        |name: &str, notes: &mut Notes| section.get(name, value::optional_text, notes).or(String::new());
    let (description, owner) = (text("description", notes), text("owner", notes));
    let (runbook, degrades_to) = (text("runbook", notes), text("degrades_to", notes));
    let name = match section.get("name", value::text, notes) {
        Field::Given(name) => name,
        Field::Bad => default.name,
        Field::Absent if section.has_unknown => {
            notes.refuse("name");
            default.name
        }
        Field::Absent => {
            notes.add(section.line, "name", "is missing: give the policy a name, such as name: checkout");
            default.name
        }
    };
    let (retry_after_scope, retry_after_max) = retry_after(&section, notes);
    let spec = PolicySpec {
        name,
        description,
        owner,
        runbook,
        degrades_to,
        trip: trip(&section, notes).unwrap_or(default.trip),
        open: open(&section, notes),
        half_open: half_open(&section, notes),
        spread: match section.section("close", notes) {
            Field::Given(close) => close.get("spread", value::duration, notes).or(default.spread),
            _ => default.spread,
        },
        guard: guard(&section, notes),
        classification: classification(&section, notes),
        retry_after_scope,
        retry_after_max,
        on_disconnect: section.get("on_disconnect", value::on_disconnect, notes).or(default.on_disconnect),
    };
    let matches = matches(&section, notes);
    if let Err(violations) = Policy::try_new(spec.clone(), 1) {
        for violation in violations {
            if !notes.is_bad(&violation.path) {
                notes.add(notes.line(&violation.path), violation.path, violation.message);
            }
        }
    }
    Some((spec, matches))
}

/// The names and patterns. They are required: a policy for nothing is a mistake.
fn matches(section: &Section<'_>, notes: &mut Notes) -> Matches {
    let Some((key, node)) = section.find("match") else {
        if section.has_unknown {
            return Vec::new();
        }
        let message = "is missing: list the breakers it is for, such as match: [checkout/*]";
        notes.add(section.line, "match", message);
        return Vec::new();
    };
    let one = std::slice::from_ref(node);
    let items = match &node.content {
        Content::List(items) if items.is_empty() => {
            notes.add(key.line, "match", "the list is empty: name a breaker, such as [checkout/*]");
            return Vec::new();
        }
        Content::List(items) if items.len() > PATTERNS_PER_POLICY_MAX => {
            let message = format!(
                "lists {} names and patterns, {PATTERNS_PER_POLICY_MAX} are allowed: use a pattern, or several policies",
                items.len()
            );
            notes.add(key.line, "match", message);
            return Vec::new();
        }
        Content::List(items) => items.as_slice(),
        _ => one,
    };
    let mut found = Matches::new();
    for (index, item) in items.iter().enumerate() {
        let (path, line) = match node.content {
            Content::List(_) => (format!("match[{index}]"), item.line),
            _ => ("match".to_owned(), key.line),
        };
        let pattern = value::scalar(item, "a name or a pattern such as checkout/*").and_then(|text| {
            Pattern::parse(text)
                .map_err(|error| Unread::Because(format!("{text:?} is no name or pattern: {error}")))
        });
        match pattern {
            Ok(pattern) => match found.iter().find(|(other, ..)| *other == pattern) {
                Some((_, first, _)) => {
                    let message = format!(
                        "{pattern:?} is listed twice, first on line {first}: remove one",
                        pattern = pattern.as_str()
                    );
                    notes.add(line, path, message);
                }
                None => found.push((pattern, line, path)),
            },
            Err(Unread::Because(message)) => notes.add(line, path, message),
            Err(Unread::Known) => {}
        }
    }
    found
}

/// The rules; none if there is no `trip`.
fn trip(section: &Section<'_>, notes: &mut Notes) -> Option<Vec<panelboard_core::Rule>> {
    let (key, node) = section.find("trip")?;
    match &node.content {
        // More than a policy may have are not read one by one: their number alone is wrong.
        Content::List(items) if items.len() > panelboard_core::RULES_MAX => {
            Some(vec![rule::STAND_IN; items.len()])
        }
        Content::List(items) => {
            let rules = items.iter().enumerate();
            Some(rules.map(|(index, item)| rule::read(item, &format!("trip[{index}]"), notes)).collect())
        }
        Content::Refused => None,
        Content::Nothing | Content::Scalar(_) | Content::Map(_) => {
            let message = format!(
                "{} stands where the list of rules belongs: write \"- failures: 5\" and the like below it, or leave trip out",
                found(node)
            );
            notes.add(key.line, "trip", message);
            None
        }
    }
}

fn open(section: &Section<'_>, notes: &mut Notes) -> OpenSpec {
    let default = OpenSpec::default();
    let Field::Given(open) = section.section("open", notes) else { return default };
    let wait = open.get("wait", value::duration, notes);
    let max_wait = open.get("max_wait", value::duration, notes);
    // A stand-in for one of the two must not disagree with the other.
    let (wait, max_wait) = match (wait, max_wait) {
        (Field::Bad, Field::Given(max_wait)) => (max_wait, max_wait),
        (wait, Field::Given(max_wait)) => (wait.or(default.wait), max_wait),
        (wait, _) => {
            let wait = wait.or(default.wait);
            (wait, default.max_wait.max(wait))
        }
    };
    OpenSpec {
        wait,
        multiplier_hundredths: open.get("multiplier", value::factor, notes).or(default.multiplier_hundredths),
        max_wait,
        jitter_hundredths: open.get("jitter", value::percent, notes).or(default.jitter_hundredths),
    }
}

fn half_open(section: &Section<'_>, notes: &mut Notes) -> HalfOpenSpec {
    let default = HalfOpenSpec::default();
    let Field::Given(half_open) = section.section("half_open", notes) else { return default };
    HalfOpenSpec {
        permitted_calls: match half_open.get("permitted_calls", value::number, notes) {
            Field::Given(permitted) => permitted,
            // So many that no other number is too large for it.
            Field::Bad => PERMITTED_CALLS_MAX,
            Field::Absent => default.permitted_calls,
        },
        probe_timeout: half_open.get("probe_timeout", value::duration, notes).or(default.probe_timeout),
        limit: half_open.get("limit", value::duration, notes).given(),
        successes_to_close: half_open.get("successes_to_close", value::number, notes).given(),
        failures_to_open: half_open.get("failures_to_open", value::number, notes).given(),
    }
}

fn guard(section: &Section<'_>, notes: &mut Notes) -> GuardSpec {
    let default = GuardSpec::default();
    let Field::Given(guard) = section.section("guard", notes) else { return default };
    GuardSpec {
        min_instances: guard.get("min_instances", value::number, notes).or(default.min_instances),
        share_hundredths: guard.get("share", value::percent, notes).or(default.share_hundredths),
        min_calls: guard.get("min_calls", value::number, notes).or(default.min_calls),
    }
}

fn retry_after(section: &Section<'_>, notes: &mut Notes) -> (RetryAfterScope, Duration) {
    let PolicySpec { retry_after_scope, retry_after_max, .. } = PolicySpec::default();
    let Field::Given(retry_after) = section.section("retry_after", notes) else {
        return (retry_after_scope, retry_after_max);
    };
    (
        retry_after.get("scope", value::retry_after_scope, notes).or(retry_after_scope),
        retry_after.get("max", value::duration, notes).or(retry_after_max),
    )
}

fn classification(section: &Section<'_>, notes: &mut Notes) -> Classification {
    let Field::Given(lists) = section.section("classification", notes) else {
        return Classification::default();
    };
    let mut list = |name: &str| {
        let words = lists.get(name, value::words, notes).or(Vec::new());
        let at = lists.at(name);
        for (index, (_, line)) in words.iter().enumerate() {
            notes.stands(&format!("{at}[{index}]"), *line);
        }
        words.into_iter().map(|(word, _)| word).collect()
    };
    Classification { failure: list("failure"), ignored: list("ignored"), success: list("success") }
}
