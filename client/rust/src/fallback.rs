//! The policy of a breaker that the server has not told of yet: the builder's, the one that was cached, the default.

use std::sync::Arc;

use panelboard_core::{BreakerName, Pattern, Policy, PolicySpec};

use crate::cache::Cache;

#[derive(Debug, Default)]
pub(crate) struct Fallback {
    /// Most specific first.
    pub(crate) by_pattern: Vec<(Pattern, Arc<Policy>)>,
    pub(crate) for_all: Option<Arc<Policy>>,
    pub(crate) cache: Option<Cache>,
}

impl Fallback {
    /// The policy, and the instances that were active when it was told; 1 if that is not known.
    pub(crate) fn policy(&self, name: &BreakerName) -> (Arc<Policy>, u32) {
        let matching = self.by_pattern.iter().find(|(pattern, _)| pattern.matches(name));
        if let Some(policy) = matching.map(|(_, policy)| policy).or(self.for_all.as_ref()) {
            return (Arc::clone(policy), 1);
        }
        match self.cache.as_ref().and_then(|cache| cache.load(name)) {
            Some((policy, active_instances)) => (Arc::new(policy), active_instances),
            None => (Arc::new(default_policy()), 1),
        }
    }
}

fn default_policy() -> Policy {
    // The defaults are valid: a test of the rules says so.
    Policy::try_new(PolicySpec::default(), 0).unwrap_or_else(|_| unreachable!("the default policy is valid"))
}
