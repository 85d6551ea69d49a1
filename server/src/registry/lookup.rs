//! Finding a breaker by its name, and saying why there is none.

use std::sync::{Arc, PoisonError};

use panelboard_core::{BreakerName, Pattern};

use super::Registry;
use crate::{limits::NEAREST_AMONG, policies::Policies, slot::Slot};

/// Why there is no breaker of a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    /// There is none, and whoever asked makes none.
    #[error("no breaker \"{name}\" exists {}{}", outlook(*.matched), suggestion(.nearest.as_deref()))]
    NotFound {
        /// The name.
        name: BreakerName,
        /// A policy matches it, so that its first use makes it: looking is none.
        matched: bool,
        /// The nearest name that exists.
        nearest: Option<String>,
    },
    /// A pattern would make it, but there are too many.
    #[error("there are {limit} breakers, as many as limits.breakers allows: \"{name}\" was not made")]
    TooMany {
        /// The name.
        name: BreakerName,
        /// The limit.
        limit: usize,
    },
}

const fn outlook(matched: bool) -> &'static str {
    if matched { "yet: the first call, report or watch makes it" } else { "and no policy matches the name" }
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(": did you mean \"{name}\"?")).unwrap_or_default()
}

impl Registry {
    /// The policies in force.
    pub(crate) fn policies(&self) -> Policies {
        self.policies.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A breaker that exists.
    pub(crate) fn find(&self, name: &BreakerName) -> Option<Arc<Slot>> {
        self.slots.get(name).map(|slot| Arc::clone(&slot))
    }

    /// A breaker that exists, or the reason why it does not.
    ///
    /// # Errors
    /// [`Missing::NotFound`] with the nearest name there is.
    pub(crate) fn look_up(&self, name: &BreakerName) -> Result<Arc<Slot>, Missing> {
        self.find(name).ok_or_else(|| {
            let matched = self.policies().resolve(name).is_some();
            self.with_nearest(Missing::NotFound { name: name.clone(), matched, nearest: None })
        })
    }

    /// A breaker that exists, or that a policy's pattern makes now.
    ///
    /// # Errors
    /// [`Missing`] if no policy matches, or too many exist. It names no nearest name: see [`Self::with_nearest`].
    pub(super) fn find_or_make(&self, name: &BreakerName) -> Result<Arc<Slot>, Missing> {
        if let Some(slot) = self.find(name) {
            return Ok(slot);
        }
        // Held until it is made: whoever changes the policies meanwhile finds it among the breakers.
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        let Some(policy) = policies.resolve(name) else {
            return Err(Missing::NotFound { name: name.clone(), matched: false, nearest: None });
        };
        // Counted before the map's entry is taken: a second access under it could deadlock. The limit may so be
        // exceeded by as many calls as run at the same instant.
        if self.slots.len() >= self.limits.breakers {
            return Err(Missing::TooMany { name: name.clone(), limit: self.limits.breakers });
        }
        Ok(self.make(name, Arc::clone(policy)))
    }

    /// The same with the nearest name that exists. It is a search over many names: do it for few.
    pub(crate) fn with_nearest(&self, missing: Missing) -> Missing {
        let Missing::NotFound { name, matched, .. } = &missing else { return missing };
        let wrong = name.as_str().as_bytes();
        // Comparing is expensive and the wrong name may come from anybody: a slip of the hand leaves the first or the
        // last letter as it was, and adds or drops few.
        let is_alike = |known: &[u8]| {
            let ends = |f: fn(&[u8]) -> Option<&u8>| f(known).map(u8::to_ascii_lowercase);
            let same = |f: fn(&[u8]) -> Option<&u8>| ends(f) == f(wrong).map(u8::to_ascii_lowercase);
            known.len().abs_diff(wrong.len()) * 3 <= known.len().max(wrong.len())
                && (same(<[u8]>::first) || same(<[u8]>::last))
        };
        let alike = self.slots.iter().filter(|slot| is_alike(slot.name.as_str().as_bytes()));
        let names: Vec<_> = alike.map(|slot| slot.name.clone()).take(NEAREST_AMONG).collect();
        let nearest = panelboard_policy::nearest(name.as_str(), names.iter().map(BreakerName::as_str));
        Missing::NotFound { name: name.clone(), matched: *matched, nearest: nearest.map(String::from) }
    }

    /// All names, in order, that match a pattern.
    pub(crate) fn names(&self, pattern: Option<&Pattern>) -> Vec<BreakerName> {
        let matches = |name: &BreakerName| pattern.is_none_or(|pattern| pattern.matches(name));
        let mut names: Vec<_> = self.slots.iter().map(|slot| slot.name.clone()).filter(matches).collect();
        names.sort();
        names
    }

    /// All breakers there are now, in no order.
    pub(crate) fn all(&self) -> Vec<Arc<Slot>> {
        self.slots.iter().map(|slot| Arc::clone(&slot)).collect()
    }
}
