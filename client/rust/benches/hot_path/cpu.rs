//! What a million calls per second cost a process in all, its background thread included.
//!
//! Each contestant has processes of its own. A process first runs the paced loop without a breaker, before there is
//! anything in the background, then with one; the difference of the process's CPU times is what the breaker costs.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use panelboard_client::Freshness;
use rustix::time::{ClockId, clock_gettime};

use crate::{
    Failure,
    call::{Call, work},
    goals::{Goal, Outcome},
    ours::{self, Caller},
    peers,
    plan::Plan,
    server::Server,
    spread::{Spread, figure},
};

pub(crate) const ROLE: &str = "paced";
/// The breaker of the paced processes.
const BREAKER: &str = "plain/paced";
/// 10^6 calls per second.
const CALLS_PER_TICK: u64 = 1_000;
const TICK: Duration = Duration::from_millis(1);
const NAME: &str = "process CPU per call at 10^6 calls/s: recloser / ours";

/// What a paced process is to do.
pub(crate) struct Job {
    whose: Whose,
    paced: Duration,
}

enum Whose {
    Ours { url: String },
    Recloser,
}

impl Job {
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let (millis, whose) = match words {
            [millis, "ours", url] => (millis, Whose::Ours { url: (*url).into() }),
            [millis, "recloser"] => (millis, Whose::Recloser),
            other => return Err(format!("{other:?} is no paced job")),
        };
        let millis = millis.parse().map_err(|error| format!("{millis:?} is no time: {error}"))?;
        Ok(Self { whose, paced: Duration::from_millis(millis) })
    }

    fn words(&self) -> Vec<String> {
        let millis = self.paced.as_millis().to_string();
        match &self.whose {
            Whose::Ours { url } => vec![ROLE.into(), millis, "ours".into(), url.clone()],
            Whose::Recloser => vec![ROLE.into(), millis, "recloser".into()],
        }
    }

    fn calls(&self) -> u64 {
        CALLS_PER_TICK * ticks(self.paced)
    }
}

/// In the benchmark's process: pairs of paced processes, one after the other.
pub(crate) fn goal(server: &Server, plan: Plan) -> Result<Goal, Failure> {
    let ours = Job { whose: Whose::Ours { url: server.url() }, paced: plan.paced };
    let recloser = Job { whose: Whose::Recloser, paced: plan.paced };
    let (mut our_costs, mut their_costs) = (Vec::new(), Vec::new());
    for _ in 0..plan.paced_pairs {
        our_costs.push(started(&ours)?);
        their_costs.push(started(&recloser)?);
    }
    let made = ours.calls() * plan.paced_pairs as u64;
    let reported = server.successes(BREAKER)?;
    if reported != made {
        return Err(
            format!("{made} calls were made at a pace, and {reported} were reported to the server").into()
        );
    }
    // Of medians, not round by round: what the paced loop itself costs varies from process to process, so that a
    // single difference may be next to nothing.
    let (ours, theirs) = (Spread::of(&our_costs), Spread::of(&their_costs));
    let bounds = (theirs.quartiles.0 / ours.quartiles.1, theirs.quartiles.1 / ours.quartiles.0);
    let ratio = Spread { median: theirs.median / ours.median, quartiles: bounds };
    let ns = |cost: Spread| format!("{} ns", figure(cost.median));
    Ok(Goal { name: NAME, outcome: Outcome::Ratio { ours: ns(ours), theirs: ns(theirs), ratio, goal: 3.0 } })
}

/// Starts a paced process and reads its answer: nanoseconds of CPU per call.
fn started(job: &Job) -> Result<f64, Failure> {
    let output = Command::new(std::env::current_exe()?).args(job.words()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// In the paced process.
pub(crate) fn run(job: &Job) -> Result<(), Failure> {
    let empty = cost(job.paced, || work().is_ok());
    let with_breaker = match &job.whose {
        Whose::Recloser => {
            let recloser = peers::recloser::standard();
            let mut caller = &recloser;
            cost(job.paced, || caller.succeed())
        }
        Whose::Ours { url } => {
            let client = ours::client(url.clone())?;
            let breaker = client.breaker(BREAKER);
            ours::ready(&client)?;
            let cost = cost(job.paced, || Caller(&breaker).succeed());
            if breaker.freshness() != Freshness::Fresh {
                return Err("the client did not stay FRESH: try on a machine with less to do".into());
            }
            tokio::runtime::Builder::new_current_thread().build()?.block_on(client.shutdown());
            cost
        }
    };
    println!("{}", (with_breaker.as_nanos() as f64 - empty.as_nanos() as f64) / job.calls() as f64);
    Ok(())
}

/// The CPU time of the whole process while it calls at the pace.
#[inline(never)]
#[expect(clippy::disallowed_methods, reason = "a thread that has nothing else to do waits for its next turn")]
fn cost(paced: Duration, mut call: impl FnMut() -> bool) -> Duration {
    let before = process_cpu();
    let began = Instant::now();
    for tick in 1..=ticks(paced) {
        for _ in 0..CALLS_PER_TICK {
            assert!(call(), "a call was not admitted");
        }
        let next = began + TICK * u32::try_from(tick).unwrap_or(u32::MAX);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    process_cpu() - before
}

fn ticks(paced: Duration) -> u64 {
    u64::try_from(paced.as_millis() / TICK.as_millis()).unwrap_or(u64::MAX)
}

fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
