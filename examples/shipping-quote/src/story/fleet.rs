//! The fleet: one provider, N client processes, and a look at all of their counts at once.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::path::Path as NetworkPath;
use super::process::Process;
use super::programs::Programs;
use super::{BREAKER, Plan};
use crate::provider::{Arrivals, Behaviour, Stats as ProviderStats};
use crate::tally::{Stats, Turn};
use crate::upstream::Upstream;

/// Our own processes on our own machine: whoever does not answer within this is gone.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Where the clients' breakers are.
#[derive(Clone, Debug)]
pub(super) enum Breakers {
    /// One for all, on a server.
    Shared {
        /// Where the clients find it.
        panel: String,
        /// Where it can be looked at.
        pages: Upstream,
    },
    /// One in each process.
    PerProcess,
}

/// How the clients reach the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paths {
    /// All directly.
    Direct,
    /// The first one by a path of its own, which can break.
    FirstCanBreak,
}

/// With a path that drops what passes, each call costs its timeout: it must be one that no healthy call needs.
const TIMEOUT_OF_BREAKABLE: &str = "1s";

/// A running fleet. Dropping it ends its processes.
#[derive(Debug)]
pub(super) struct Fleet {
    provider: Upstream,
    faces: Vec<Upstream>,
    /// Where the shared breaker can be looked at, if there is one.
    pages: Option<Upstream>,
    processes: Vec<Process>,
    /// The path of the first client, if it has one of its own.
    first_path: Option<NetworkPath>,
    started: Instant,
}

impl Fleet {
    pub(super) async fn start(
        plan: &Plan,
        programs: &Programs,
        policy: &Path,
        folder: &Path,
        breakers: Breakers,
        paths: Paths,
    ) -> Result<Self, String> {
        let args = ["--until-stdin-ends"];
        let (provider, addr) =
            Process::start_serving(&programs.provider, args, &folder.join("provider.log")).await?;
        let first_path = match paths {
            Paths::Direct => None,
            Paths::FirstCanBreak => Some(NetworkPath::to(addr.clone()).await?),
        };
        let mut processes = vec![provider];
        let mut faces = Vec::new();
        for number in 1..=plan.clients {
            let instance = format!("client-{number:02}");
            let mut args: Vec<String> =
                ["--until-stdin-ends", "--breaker", BREAKER].map(str::to_owned).into();
            let own_path = first_path.as_ref().filter(|_| number == 1).map(NetworkPath::addr);
            let reached_at = own_path.unwrap_or_else(|| addr.clone());
            args.extend(["--provider".to_owned(), reached_at, "--instance".to_owned(), instance.clone()]);
            if paths == Paths::FirstCanBreak {
                args.extend(["--timeout", TIMEOUT_OF_BREAKABLE].map(str::to_owned));
            }
            args.extend(["--rate".to_owned(), plan.rate.to_string()]);
            match &breakers {
                Breakers::Shared { panel, .. } => args.extend(["--panel".to_owned(), panel.clone()]),
                Breakers::PerProcess => {
                    args.extend([
                        "--local-only".to_owned(),
                        "--policy".to_owned(),
                        policy.display().to_string(),
                    ]);
                }
            }
            let log = folder.join(format!("{instance}.log"));
            let (process, face) = Process::start_serving(&programs.quote_client, args, &log).await?;
            processes.push(process);
            faces.push(upstream(&face)?);
        }
        let pages = match breakers {
            Breakers::Shared { pages, .. } => Some(pages),
            Breakers::PerProcess => None,
        };
        let started = Instant::now();
        Ok(Fleet { provider: upstream(&addr)?, faces, pages, processes, first_path, started })
    }

    /// How long this fleet has been running.
    pub(super) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) async fn switch_provider(&self, behaviour: &Behaviour) -> Result<(), String> {
        let body = serde_json::to_vec(behaviour).map_err(|error| error.to_string())?;
        let told = self.provider.post_json("/control", body).await;
        told.map(|_| ()).map_err(|error| format!("cannot switch the provider: {error}"))
    }

    /// From now on nothing passes between the first client and the provider.
    pub(super) fn break_first_path(&self) {
        if let Some(path) = &self.first_path {
            path.break_down();
        }
    }

    pub(super) async fn arrivals(&self) -> Result<Arrivals, String> {
        read(&self.provider, "/arrivals").await
    }

    /// The counts of everybody, at about the same instant.
    pub(super) async fn look(&self) -> Result<Look, String> {
        let mut asked = JoinSet::new();
        for (number, face) in self.faces.iter().cloned().enumerate() {
            asked.spawn(async move { (number, read::<Stats>(&face, "/stats").await) });
        }
        let provider = read(&self.provider, "/stats").await?;
        let shared = match &self.pages {
            Some(pages) => Some(read(pages, &format!("/breakers/{BREAKER}")).await?),
            None => None,
        };
        let mut answers = asked.join_all().await;
        // They come as they come; who is who matters.
        answers.sort_by_key(|(number, _)| *number);
        let clients = answers.into_iter().map(|(_, stats)| stats).collect::<Result<Vec<Stats>, String>>()?;
        Ok(Look { provider, clients, shared })
    }

    pub(super) async fn end(self) {
        for process in self.processes {
            process.end().await;
        }
    }
}

/// The counts of the provider and of every client.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) provider: ProviderStats,
    pub(super) clients: Vec<Stats>,
    /// What the server says of the shared breaker.
    pub(super) shared: Option<Page>,
}

/// The part of `/breakers/NAME` that the story tells.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Page {
    pub(super) state: String,
    pub(super) last_transition: Option<Transition>,
    /// The newest first.
    pub(super) incidents: Vec<Incident>,
    pub(super) quarantined_instances: u32,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Incident {
    pub(super) opened: Option<Transition>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Transition {
    pub(super) explanation: String,
    pub(super) unix_ms: u64,
}

impl Look {
    /// The sum of one count over the clients.
    pub(super) fn sum(&self, count: impl Fn(&Stats) -> u64) -> u64 {
        self.clients.iter().map(count).sum()
    }

    /// How many clients believe the breaker to be in `state`.
    pub(super) fn in_state(&self, state: &str) -> usize {
        self.clients.iter().filter(|client| client.states.last().is_some_and(|last| last.is == state)).count()
    }

    /// The shared breaker's state and how it got there.
    pub(super) fn transition(&self) -> Option<(String, Transition)> {
        let page = self.shared.as_ref()?;
        Some((page.state.clone(), page.last_transition.clone()?))
    }

    /// When the shared breaker tripped first, from `since` on.
    pub(super) fn tripped_at(&self, since: u64) -> Option<u64> {
        let opened =
            self.shared.iter().flat_map(|page| &page.incidents).filter_map(|one| one.opened.as_ref());
        opened.map(|opened| opened.unix_ms).filter(|at| *at >= since).min()
    }

    /// How many instances the shared breaker keeps out alone.
    pub(super) fn quarantined(&self) -> u32 {
        self.shared.as_ref().map_or(0, |page| page.quarantined_instances)
    }

    /// The same without the first client.
    pub(super) fn without_first(&self) -> Self {
        Look { clients: self.clients.iter().skip(1).cloned().collect(), ..self.clone() }
    }

    /// Whether every client has learned of an OPEN breaker, from `instant` on.
    pub(super) fn all_stopped_since(&self, instant: u64) -> bool {
        let stopped = |turn: &Turn| turn.at >= instant && turn.is == "OPEN";
        self.clients.iter().all(|client| client.states.iter().any(stopped))
    }

    /// Whether every client has turned back to live quotes after `instant`, or never turned away from them.
    pub(super) fn all_live_since(&self, instant: u64) -> bool {
        self.clients.iter().all(|client| match client.answers.last() {
            Some(last) => last.is == "LIVE" && (last.at >= instant || client.answers.len() == 1),
            None => false,
        })
    }
}

fn upstream(addr: &str) -> Result<Upstream, String> {
    Upstream::new(addr, None, ANSWER_MAX).map_err(|error| error.to_string())
}

async fn read<T: DeserializeOwned>(from: &Upstream, path: &str) -> Result<T, String> {
    let body = from.get(path).await.map_err(|error| format!("a process of the story is gone: {error}"))?;
    serde_json::from_slice(&body).map_err(|error| format!("{path} is not what was agreed on: {error}"))
}
