//! The tasks of a running server. Each loops for ever; one that ends takes the server with it, but for the one that
//! follows the policy files.

use std::{sync::Arc, time::Duration};

use panelboard_proto::store as records;
use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    http,
    hub::Hub,
    journal::Journal,
    parts::Parts,
    persist::Persist,
    policies::{Policies, Watcher},
    registry::Registry,
};

/// How often idle breakers are looked for.
const EXPIRY: Duration = Duration::from_secs(10);
/// How often policy files are looked at.
const POLICIES: Duration = Duration::from_secs(1);

/// Starts the tasks that a server cannot do without.
pub(crate) fn spawn(parts: &Parts, http: TcpListener) -> JoinSet<()> {
    let Parts { registry, hub, persist, .. } = parts.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(pump(Arc::clone(&registry), Arc::clone(&hub), Arc::clone(&persist)));
    tasks.spawn(fire(Arc::clone(&registry)));
    tasks.spawn(expire(registry, hub));
    tasks.spawn(http::serve(parts.clone(), http));
    tasks.spawn(async move { persist.run().await });
    tasks
}

/// Takes changes out of the outbox and hands each on exactly once, in order: to the watchers, to the store, to the log.
async fn pump(registry: Arc<Registry>, hub: Arc<Hub>, persist: Arc<Persist>) {
    let mut journal = Journal::default();
    loop {
        let changes = registry.outbox.take().await;
        // Noting down waits for nothing. It comes first, so that what has been published has been noted down.
        persist.note(&changes);
        hub.publish(&changes);
        for change in &changes {
            journal.note(change, registry.clock.now());
        }
    }
}

/// The one timer.
async fn fire(registry: Arc<Registry>) {
    loop {
        for (at, name) in registry.timer.due(&registry.clock).await {
            registry.fire(&name, at);
        }
        // A deadline that is due again at once must not keep this thread from everybody else's work.
        tokio::task::yield_now().await;
    }
}

async fn expire(registry: Arc<Registry>, hub: Arc<Hub>) {
    loop {
        let next = registry.clock.now().plus(EXPIRY);
        registry.clock.sleep_until(next).await;
        registry.expire_idle(|name| hub.is_named(name));
        registry.identities.sweep(registry.clock.now());
    }
}

/// Follows the policy files: a good edit is put in force, a bad one is refused loudly and the last good one stays.
pub(crate) async fn follow(mut watcher: Watcher, parts: Parts) {
    let Parts { registry, hub, persist, drain, .. } = parts;
    loop {
        tokio::time::sleep(POLICIES).await;
        if drain.has_started() {
            return;
        }
        // Files are read on a thread where blocking hurts nobody.
        let looked = tokio::task::spawn_blocking(move || {
            let outcome = watcher.poll();
            (watcher, outcome)
        });
        let (back, outcome) = match looked.await {
            Ok(looked) => looked,
            Err(error) => {
                registry.reloads.failed();
                tracing::error!(%error, "the policy files cannot be followed any more: restart to have edits seen");
                return;
            }
        };
        watcher = back;
        match outcome {
            None => {}
            Some(Ok(policies)) => {
                let changed = changes(&registry.policies(), &policies);
                registry.set_policies(&policies);
                // Naming a breaker in a watch makes it, also when a pattern for it comes later.
                for name in hub.named() {
                    // One that still matches nothing was told so when it was named.
                    let _ = registry.name_in_watch(&name);
                }
                registry.reloads.succeeded();
                note_revisions(&persist, &policies);
                tracing::info!(policies = policies.len(), changed, "the policies were reloaded");
            }
            Some(Err(errors)) => {
                registry.reloads.failed();
                tracing::error!("the policies cannot be used: the last good ones stay in force\n{errors}");
            }
        }
    }
}

/// What a reload changed, for people: `checkout rev 3 -> 4, search is new, old is gone`.
fn changes(before: &Policies, after: &Policies) -> String {
    let news = after.iter().filter_map(|entry| {
        let (name, is) = (entry.policy().name(), entry.policy().revision());
        match before.get(name).map(|entry| entry.policy().revision()) {
            None => Some(format!("{name} is new")),
            Some(was) if was != is => Some(format!("{name} rev {was} -> {is}")),
            Some(_) => None,
        }
    });
    let is_gone = |name: &&str| after.get(name).is_none();
    let gone = before.iter().map(|entry| entry.policy().name()).filter(is_gone);
    let all: Vec<String> = news.chain(gone.map(|name| format!("{name} is gone"))).collect();
    if all.is_empty() { "no rules".into() } else { all.join(", ") }
}

/// Notes down the revisions of policies, so that they grow over restarts.
pub(crate) fn note_revisions(persist: &Persist, policies: &Policies) {
    for (name, digest, revision) in policies.revisions() {
        let digest = digest.to_bytes().to_vec();
        persist.note_policy(name, &records::StoredPolicyRevision { digest, revision });
    }
}
