//! All policies together, and which of them is for a name.

use std::collections::HashMap;
use std::sync::Arc;

use panelboard_core::{BreakerName, Pattern, Policy};

use crate::digest::Digest;
use crate::draft::{self, Draft};
use crate::files::Sources;
use crate::limits::Limits;
use crate::overlap::{self, Conflict};
use crate::problem::{Place, PolicyErrors, Problem};
use crate::revision::{self, Revisions};

/// A set of policies that agree with each other. It never changes; a clone is cheap.
#[derive(Debug, Clone)]
pub struct Policies(Arc<Set>);

/// One policy and where it comes from.
#[derive(Debug)]
pub struct Entry {
    policy: Arc<Policy>,
    patterns: Vec<Pattern>,
    place: Place,
    digest: Digest,
}

impl Entry {
    /// The policy. The same one as in the set before, if it has not changed.
    pub const fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The names and patterns it is for, as they are written.
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// The file and line where it begins.
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// The fingerprint of what it says, which is what its revision goes by: neither its place nor what it matches.
    pub const fn digest(&self) -> Digest {
        self.digest
    }
}

#[derive(Debug)]
struct Set {
    /// In the order of files and lines.
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
    exact: HashMap<BreakerName, usize>,
    /// The most specific first. Of those that are equally specific no two policies match one name.
    wild: Vec<(Pattern, usize)>,
    warnings: Vec<Problem>,
    revisions: Revisions,
    /// Of the files it was read from.
    content: Digest,
}

impl Policies {
    /// No policies, only the revisions that some had before, as [`Policies::revisions`] gave them: what a server that
    /// has restarted gives [`load`](super::load) as the previous set.
    pub fn remembered(revisions: impl IntoIterator<Item = (String, Digest, u64)>) -> Self {
        Self(Arc::new(Set {
            entries: Vec::new(),
            by_name: HashMap::new(),
            exact: HashMap::new(),
            wild: Vec::new(),
            warnings: Vec::new(),
            revisions: Revisions::of(revisions),
            content: Digest::EMPTY,
        }))
    }

    /// Makes a set of files. Everything that is wrong in any of them is reported at once; revisions count on from those
    /// of `previous`.
    ///
    /// # Errors
    /// Everything that is wrong with any of the files.
    pub fn assemble(
        sources: &Sources,
        limits: &Limits,
        previous: Option<&Self>,
    ) -> Result<Self, PolicyErrors> {
        let mut drafts: Vec<Draft> = Vec::new();
        let mut problems = Vec::new();
        for source in &sources.files {
            let read = draft::read(source, limits.policies.most.saturating_sub(drafts.len()));
            drafts.extend(read.drafts);
            problems.extend(read.problems);
            if let Some(place) = read.too_many {
                let message = format!(
                    "here begin more than {} policies: {}",
                    limits.policies.most,
                    limits.policies.remedy("remove some")
                );
                problems.push(Problem { place, path: "policies".into(), message });
                break;
            }
        }
        same_names(&drafts, &mut problems);
        same_breakers(&drafts, &mut problems);
        exact_names(&drafts, limits, &mut problems);
        if !problems.is_empty() {
            // Files are read in the order of their names.
            problems.sort_by(|a, b| (&a.place.file, a.place.line).cmp(&(&b.place.file, b.place.line)));
            return Err(PolicyErrors::new(problems));
        }
        build(drafts, sources.digest, limits, previous)
    }

    /// The policy for a breaker: that of its exact name, else of the most specific pattern.
    pub fn resolve(&self, name: &BreakerName) -> Option<&Arc<Policy>> {
        self.entry(name).map(Entry::policy)
    }

    /// As [`Policies::resolve`], with where the policy comes from.
    pub fn entry(&self, name: &BreakerName) -> Option<&Entry> {
        let set = &*self.0;
        let index = set.exact.get(name).or_else(|| {
            let matching = |(pattern, _): &&(Pattern, usize)| {
                name.as_str().starts_with(overlap::beginning(pattern)) && pattern.matches(name)
            };
            set.wild.iter().find(matching).map(|(_, index)| index)
        })?;
        set.entries.get(*index)
    }

    /// The policy of this name.
    pub fn get(&self, policy: &str) -> Option<&Entry> {
        self.0.entries.get(*self.0.by_name.get(policy)?)
    }

    /// All policies, in the order of files and lines.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.0.entries.iter()
    }

    /// How many policies there are.
    pub fn len(&self) -> usize {
        self.0.entries.len()
    }

    /// Whether there is no policy.
    pub fn is_empty(&self) -> bool {
        self.0.entries.is_empty()
    }

    /// The breakers that are named in full: they exist at once.
    pub fn exact_names(&self) -> impl ExactSizeIterator<Item = &BreakerName> {
        self.0.exact.keys()
    }

    /// The patterns with a wildcard, the most specific first: breakers that they match are made on first use.
    pub fn patterns(&self) -> impl ExactSizeIterator<Item = &Pattern> {
        self.0.wild.iter().map(|(pattern, _)| pattern)
    }

    /// What is allowed and probably not meant, in the order of files and lines.
    pub fn warnings(&self) -> &[Problem] {
        &self.0.warnings
    }

    /// Name, fingerprint and revision of every policy that was ever seen, those that are gone included: what to store.
    pub fn revisions(&self) -> impl Iterator<Item = (&str, Digest, u64)> {
        self.0.revisions.iter()
    }

    /// What tells whether the files it was read from have changed: see [`Sources::digest`].
    pub fn content(&self) -> Digest {
        self.0.content
    }
}

fn same_names(drafts: &[Draft], problems: &mut Vec<Problem>) {
    let mut seen: HashMap<&str, &Place> = HashMap::new();
    for draft in drafts.iter().filter(|draft| draft.is_named) {
        let name = draft.spec.name.as_str();
        if let Some(first) = seen.get(name) {
            let message = format!("{name:?} is the name of the policy at {first} too: rename one of them");
            problems.push(Problem {
                place: draft.place.clone(),
                path: format!("{}.name", draft.path),
                message,
            });
        } else {
            seen.insert(name, &draft.place);
        }
    }
}

/// A name that two policies are for, with nothing to decide between them.
fn same_breakers(drafts: &[Draft], problems: &mut Vec<Problem>) {
    let claims: Vec<_> = drafts
        .iter()
        .enumerate()
        .flat_map(|(index, draft)| draft.matches.iter().map(move |claim| (claim, index)))
        .collect();
    let patterns: Vec<_> = claims.iter().map(|(claim, policy)| (&claim.pattern, *policy)).collect();
    for conflict in overlap::conflicts(&patterns) {
        let (at, message) = match conflict {
            Conflict::Same { first, second } => {
                let (claim, policy) = claims[first];
                let message = format!(
                    "{:?} is matched by policy {:?} at {} too: remove it from one of them",
                    claim.pattern.as_str(),
                    drafts[policy].spec.name,
                    claim.place
                );
                (second, message)
            }
            Conflict::Tie { first, second, name } => {
                let (claim, policy) = claims[first];
                let message = format!(
                    "{:?} and {:?} of policy {:?} at {} are equally specific, and both match {:?}: give one of them a \
                     longer beginning, or write the names out",
                    claims[second].0.pattern.as_str(),
                    claim.pattern.as_str(),
                    drafts[policy].spec.name,
                    claim.place,
                    name.as_str()
                );
                (second, message)
            }
            Conflict::TooMany { at } => {
                let message = format!(
                    "{:?} is one of too many patterns that are equally specific to tell whether a name matches two: \
                     begin them with what tells them apart",
                    claims[at].0.pattern.as_str()
                );
                (at, message)
            }
        };
        let claim = claims[at].0;
        problems.push(Problem { place: claim.place.clone(), path: claim.path.clone(), message });
    }
}

fn exact_names(drafts: &[Draft], limits: &Limits, problems: &mut Vec<Problem>) {
    let mut exact =
        drafts.iter().flat_map(|draft| &draft.matches).filter(|claim| claim.pattern.exact().is_some());
    if let Some(beyond) = exact.nth(limits.names.most) {
        let message = format!(
            "here begin more than {} names, and each is a breaker: {}",
            limits.names.most,
            limits.names.remedy("remove some")
        );
        problems.push(Problem { place: beyond.place.clone(), path: beyond.path.clone(), message });
    }
}

fn build(
    drafts: Vec<Draft>,
    content: Digest,
    limits: &Limits,
    previous: Option<&Policies>,
) -> Result<Policies, PolicyErrors> {
    let mut set = Set {
        entries: Vec::with_capacity(drafts.len()),
        by_name: HashMap::new(),
        exact: HashMap::new(),
        wild: Vec::new(),
        warnings: Vec::new(),
        revisions: previous.map(|set| set.0.revisions.clone()).unwrap_or_default(),
        content,
    };
    for (index, draft) in drafts.into_iter().enumerate() {
        let Draft { spec, matches, place, path, warnings, is_named: _ } = draft;
        let digest = revision::digest(&spec);
        let revision = set.revisions.next(&spec.name, digest);
        let unchanged = previous.and_then(|set| set.get(&spec.name)).filter(|entry| entry.digest == digest);
        let policy = match unchanged {
            Some(entry) => Arc::clone(&entry.policy),
            None => Arc::new(Policy::try_new(spec, revision).map_err(|violations| {
                let problem = |violation: panelboard_core::Violation| Problem {
                    place: place.clone(),
                    path: format!("{path}.{}", violation.path),
                    message: violation.message,
                };
                PolicyErrors::new(violations.into_iter().map(problem).collect())
            })?),
        };
        set.by_name.insert(policy.name().to_owned(), index);
        let patterns: Vec<Pattern> = matches.into_iter().map(|claim| claim.pattern).collect();
        for pattern in &patterns {
            match pattern.exact() {
                Some(name) => drop(set.exact.insert(name, index)),
                None => set.wild.push((pattern.clone(), index)),
            }
        }
        set.warnings.extend(warnings);
        set.entries.push(Entry { policy, patterns, place, digest });
    }
    set.wild.sort_by(|(a, _), (b, _)| b.specificity(a));
    let by_name = &set.by_name;
    set.revisions.bound(limits.policies.most.saturating_mul(2), |name| by_name.contains_key(name));
    Ok(Policies(Arc::new(set)))
}
