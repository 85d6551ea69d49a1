//! Watching a policy file or directory.
//!
//! It is looked at again and again rather than waited on: a mounted ConfigMap changes by a symlink, editors rename,
//! and network filesystems tell nobody. What counts is the content, so a touched file is no change.

use std::path::PathBuf;

use panelboard_policy::{Digest, Policies, PolicyErrors, Sources};

use super::bounds;
use crate::limits::Limits;

/// The files under watch, and the last good set of policies in them.
#[derive(Debug)]
pub struct Watcher {
    path: PathBuf,
    limits: Limits,
    good: Policies,
    /// The content that has been answered for.
    seen: Digest,
    /// A content that was seen once: it may be half written.
    once: Option<Digest>,
}

impl Watcher {
    /// Watches a path that `good` was loaded from. What has changed since then is found by the first looks.
    pub fn new(path: impl Into<PathBuf>, limits: Limits, good: Policies) -> Self {
        let seen = good.content();
        Self { path: path.into(), limits, good, seen, once: None }
    }

    /// Looks, which reads the files; once a second is meant. Something is returned only if the content is other than what
    /// was answered for last *and* the same as at the look before, so that no half-written file counts.
    ///
    /// A content that is not valid is an error once, a path that is gone as well; the policies that were good before
    /// stay so, and revisions count on from them.
    pub fn poll(&mut self) -> Option<Result<Policies, PolicyErrors>> {
        let bounds = bounds(&self.limits);
        let sources = Sources::read(&self.path, &bounds);
        if sources.digest() == self.seen {
            self.once = None;
            return None;
        }
        if self.once.replace(sources.digest()) != Some(sources.digest()) {
            return None;
        }
        self.once = None;
        self.seen = sources.digest();
        let loaded = Policies::assemble(&sources, &bounds, Some(&self.good));
        if let Ok(policies) = &loaded {
            self.good = policies.clone();
        }
        Some(loaded)
    }

    /// The last good set of policies.
    pub const fn good(&self) -> &Policies {
        &self.good
    }
}
