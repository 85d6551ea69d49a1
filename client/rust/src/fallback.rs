//! The policy of a breaker that the server has not told of yet: the code's for its pattern, that of a policy file, the
//! code's for all, the one that was cached, the default.

use std::sync::Arc;

use panelboard_core::{BreakerName, Pattern, Policy, PolicySpec};
use panelboard_policy::Policies;

use crate::cache::Cache;

#[derive(Debug, Default)]
pub(crate) struct Fallback {
    /// Most specific first.
    pub(crate) by_pattern: Vec<(Pattern, Arc<Policy>)>,
    pub(crate) files: Option<Policies>,
    pub(crate) for_all: Option<Arc<Policy>>,
    pub(crate) cache: Option<Cache>,
}

impl Fallback {
    /// The policy, and the instances that were active when it was told; 1 if that is not known.
    pub(crate) fn policy(&self, name: &BreakerName) -> (Arc<Policy>, u32) {
        let matching = self.by_pattern.iter().find(|(pattern, _)| pattern.matches(name));
        let by_pattern = matching.map(|(_, policy)| Arc::clone(policy));
        let given = by_pattern.or_else(|| self.in_files(name)).or_else(|| self.for_all.clone());
        if let Some(policy) = given {
            return (policy, 1);
        }
        match self.cache.as_ref().and_then(|cache| cache.load(name)) {
            Some((policy, active_instances)) => (Arc::new(policy), active_instances),
            None => (Arc::new(default_policy()), 1),
        }
    }
}

impl Fallback {
    /// With the revision of what the server has not told of: the files' own revisions are not the server's.
    fn in_files(&self, name: &BreakerName) -> Option<Arc<Policy>> {
        let policy = self.files.as_ref()?.resolve(name)?;
        Policy::try_new(policy.spec().clone(), 0).ok().map(Arc::new)
    }
}

fn default_policy() -> Policy {
    // The defaults are valid: a test of the rules says so.
    Policy::try_new(PolicySpec::default(), 0).unwrap_or_else(|_| unreachable!("the default policy is valid"))
}
