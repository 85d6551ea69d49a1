//! The story: a fleet of processes meets an outage, once with one shared breaker and once with a breaker each. And a
//! fleet in which one process is sick meets one.
//!
//! Everything is a process of its own and everything talks over real sockets: the provider, the clients, the
//! server. The story only starts them, turns the provider off and on, reads their counts and tells what it sees.

mod account;
mod broken_path;
mod fleet;
mod path;
mod process;
mod programs;
mod server;
mod telling;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::provider::{Answer, Behaviour};
use account::Account;
use fleet::{Breakers, Fleet, Paths};
use programs::Programs;
use server::Server;
use telling::Telling;

/// The breaker that the fleet shares.
pub const BREAKER: &str = "checkout/shipping-quote";

/// The policy of the story, unless another file is given.
const POLICY: &str = include_str!("../story.yaml");

/// How long the story is and how big its fleet.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many client processes there are.
    pub clients: usize,
    /// How many quotes each of them asks for in a second.
    pub rate: u32,
    /// What the provider does while it is down.
    pub outage: Behaviour,
    /// How long it is well at first.
    pub healthy_for: Duration,
    /// How long it is down.
    pub down_for: Duration,
    /// How long the fleet may take to come back before the story goes on without it.
    pub recovery_max: Duration,
    /// A policy file instead of the story's own.
    pub policy: Option<PathBuf>,
    /// What is told of it.
    pub chapters: Chapters,
}

/// The parts of the story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chapters {
    /// Everything.
    All,
    /// The outage, with a shared breaker and with one in each process.
    Outage,
    /// The fleet in which one process has a broken path to the provider.
    BrokenPath,
}

impl Plan {
    /// The whole story, in about a minute.
    pub fn whole() -> Self {
        Plan {
            clients: 12,
            rate: 5,
            outage: Behaviour::answering(Answer::Status(503)),
            healthy_for: Duration::from_secs(4),
            // Long enough for three rounds of probes.
            down_for: Duration::from_secs(14),
            recovery_max: Duration::from_secs(12),
            policy: None,
            chapters: Chapters::All,
        }
    }

    /// The story for people in a hurry.
    pub fn quick() -> Self {
        Plan {
            clients: 6,
            healthy_for: Duration::from_secs(2),
            down_for: Duration::from_secs(5),
            ..Self::whole()
        }
    }
}

/// Tells the story on stdout. Dropping the future ends every process it has started.
pub async fn tell(plan: &Plan) -> Result<(), String> {
    let telling = Telling::new();
    telling.say("building what is not built yet…");
    let programs = Programs::find().await?;
    let folder =
        tempfile::tempdir().map_err(|error| format!("cannot make a folder for the logs: {error}"))?;
    let policy = match &plan.policy {
        Some(file) => file.clone(),
        None => {
            let file = folder.path().join("policy.yaml");
            std::fs::write(&file, POLICY)
                .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
            file
        }
    };

    if plan.chapters != Chapters::BrokenPath {
        let server = Server::start(&programs, &policy, folder.path()).await?;
        let shared = Breakers::Shared { panel: server.grpc_url(), pages: server.http() };
        let shared = chapter(&telling, plan, &programs, &policy, folder.path(), shared).await?;
        server.end().await;
        let apart = chapter(&telling, plan, &programs, &policy, folder.path(), Breakers::PerProcess).await?;
        telling.side_by_side(&shared, &apart);
    }
    if plan.chapters != Chapters::Outage {
        // A server of its own, that knows nothing of what was.
        let folder = folder.path().join("broken-path");
        std::fs::create_dir(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        broken_path::scene(&telling, plan, &programs, &policy, &folder).await?;
    }
    Ok(())
}

/// One fleet through healthy → outage → recovery.
async fn chapter(
    telling: &Telling,
    plan: &Plan,
    programs: &Programs,
    policy: &Path,
    folder: &Path,
    breakers: Breakers,
) -> Result<Account, String> {
    telling.title(plan, &breakers);
    let fleet = Fleet::start(plan, programs, policy, folder, breakers, Paths::Direct).await?;
    telling.columns();

    telling.follow(&fleet, plan.healthy_for, |_| false).await?;
    fleet.switch_provider(&plan.outage).await?;
    let down_at = fleet.arrivals().await?.switched_at;
    let outage_ends = Instant::now() + plan.down_for;
    telling.event(&fleet, "the provider goes down");
    let look = telling.follow(&fleet, plan.down_for, |look| look.all_stopped_since(down_at)).await?;
    telling.event(&fleet, &telling::stopping(&look));
    telling.follow(&fleet, outage_ends.saturating_duration_since(Instant::now()), |_| false).await?;
    let down = fleet.arrivals().await?;
    let before = fleet.look().await?;

    fleet.switch_provider(&Behaviour::good()).await?;
    let back_at = fleet.arrivals().await?.switched_at;
    telling.event(&fleet, "the provider is well again");
    telling.follow(&fleet, plan.recovery_max, |look| look.all_live_since(back_at)).await?;
    let back = fleet.arrivals().await?;
    let after = fleet.look().await?;
    fleet.end().await;
    Ok(Account::of(&down, &before, &back, &after))
}
