//! The scene with one sick process: its network path to the provider breaks, and it alone is cut off. Then the
//! provider really goes down and all stop; it comes back while the path stays broken, and all the others come back.

use std::path::Path as Folder;
use std::time::{Duration, Instant};

use super::fleet::{Breakers, Fleet, Look, Paths};
use super::programs::Programs;
use super::server::Server;
use super::telling::Telling;
use super::{Plan, telling};
use crate::provider::Behaviour;
use crate::tally::Stats;

/// Longer than any step of the scene takes, even on a busy machine.
const STEP_MAX: Duration = Duration::from_secs(60);
/// How long each phase is looked at once it has come to what it is about.
const PHASE: Duration = Duration::from_secs(3);

/// What became of the quotes in one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    /// Of the one whose path breaks.
    pub(super) sick: Quotes,
    /// Of all the others.
    pub(super) others: Quotes,
}

/// What became of quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Quotes {
    pub(super) live: u64,
    /// Asked for, and lost to a call that failed.
    pub(super) failed: u64,
    /// Refused without a call.
    pub(super) rejected: u64,
}

impl Quotes {
    fn between(before: &[Stats], after: &[Stats]) -> Self {
        let grown = |count: fn(&Stats) -> u64| {
            after.iter().map(count).sum::<u64>().saturating_sub(before.iter().map(count).sum())
        };
        let rejected = grown(|client| client.rejected);
        Quotes {
            live: grown(|client| client.live),
            failed: grown(|client| client.unavailable).saturating_sub(rejected),
            rejected,
        }
    }
}

impl Phase {
    fn between(name: &'static str, before: &Look, after: &Look) -> Self {
        Phase {
            name,
            sick: Quotes::between(&before.clients[..1], &after.clients[..1]),
            others: Quotes::between(&before.clients[1..], &after.clients[1..]),
        }
    }
}

/// Plays the scene and prints its table.
pub(super) async fn scene(
    telling: &Telling,
    plan: &Plan,
    programs: &Programs,
    policy: &Folder,
    folder: &Folder,
) -> Result<(), String> {
    let server = Server::start(programs, policy, folder).await?;
    let breakers = Breakers::Shared { panel: server.grpc_url(), pages: server.http() };
    telling.broken_path(plan);
    let fleet = Fleet::start(plan, programs, policy, folder, breakers, Paths::FirstCanBreak).await?;
    telling.columns();
    let phases = play(telling, plan, &fleet).await?;
    fleet.end().await;
    server.end().await;
    telling.phases(plan.clients, &phases);
    Ok(())
}

async fn play(telling: &Telling, plan: &Plan, fleet: &Fleet) -> Result<[Phase; 4], String> {
    let start = fleet.look().await?;
    let well = telling.follow(fleet, plan.healthy_for, |_| false).await?;

    fleet.break_first_path();
    telling.event(fleet, "the path of client-01 to the provider breaks: nothing gets through");
    until(telling, fleet, "client-01 is quarantined", |look| look.quarantined() > 0).await?;
    telling.event(fleet, "client-01 alone is quarantined");
    let broken = telling.follow(fleet, PHASE, |_| false).await?;

    fleet.switch_provider(&plan.outage).await?;
    let down_at = fleet.arrivals().await?.switched_at;
    telling.event(fleet, "the provider goes down");
    let look = until(telling, fleet, "all stop", |look| look.all_stopped_since(down_at)).await?;
    telling.event(fleet, &telling::stopping(&look));
    let down = telling.follow(fleet, PHASE, |_| false).await?;

    fleet.switch_provider(&Behaviour::good()).await?;
    let back_at = fleet.arrivals().await?.switched_at;
    telling.event(fleet, "the provider is well again, the path of client-01 is not");
    let all_others = |look: &Look| look.without_first().all_live_since(back_at);
    until(telling, fleet, "all the others come back", all_others).await?;
    telling.event(fleet, "all the others are back");
    let back = fleet.look().await?;
    let end = telling.follow(fleet, PHASE, |_| false).await?;
    Ok([
        Phase::between("all is well", &start, &well),
        Phase::between("one path is broken", &well, &broken),
        Phase::between("the provider is down", &broken, &down),
        Phase::between("it is back, the path is not", &back, &end),
    ])
}

/// Follows the fleet until this is so.
async fn until(
    telling: &Telling,
    fleet: &Fleet,
    what: &str,
    is_so: impl Fn(&Look) -> bool,
) -> Result<Look, String> {
    let began = Instant::now();
    let look = telling.follow(fleet, STEP_MAX, &is_so).await?;
    if is_so(&look) {
        return Ok(look);
    }
    Err(format!("it did not happen that {what}, within {} s", began.elapsed().as_secs()))
}
