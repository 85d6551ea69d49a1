//! What a watch selects: names and patterns.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use panelboard_core::{BreakerName, Pattern};

/// Names and patterns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    names: BTreeSet<BreakerName>,
    patterns: Vec<Pattern>,
}

impl Selection {
    /// Sorts names from patterns.
    pub(crate) fn new(selected: impl IntoIterator<Item = Pattern>) -> Self {
        let mut selection = Self::default();
        for pattern in selected {
            match pattern.exact() {
                Some(name) => {
                    selection.names.insert(name);
                }
                None => selection.patterns.push(pattern),
            }
        }
        selection.patterns.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        selection.patterns.dedup();
        selection
    }

    /// The names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &BreakerName> {
        self.names.iter()
    }

    /// Whether it has patterns.
    pub(crate) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// How many different patterns it has.
    pub(crate) fn patterns(&self) -> usize {
        self.patterns.len()
    }

    /// Whether it selects a name.
    pub(crate) fn matches(&self, name: &BreakerName) -> bool {
        self.names.contains(name) || self.patterns.iter().any(|pattern| pattern.matches(name))
    }

    /// Tells one selection from another within a process; order does not matter.
    pub(crate) fn digest(&self) -> u64 {
        // Its keys are fixed, so equal selections have equal digests.
        let mut hasher = DefaultHasher::new();
        for name in &self.names {
            name.hash(&mut hasher);
        }
        for pattern in &self.patterns {
            pattern.hash(&mut hasher);
        }
        hasher.finish()
    }
}
