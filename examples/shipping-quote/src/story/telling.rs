//! How the story is told: plain lines on stdout, one per second and one per event.

use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use super::account::Account;
use super::broken_path::{Phase, Quotes};
use super::fleet::{Breakers, Fleet, Look};
use super::{BREAKER, Plan};
use crate::cli::say;

/// How often everybody is looked at; every fourth look is told, and each that shows a change.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const LOOKS_PER_LINE: u32 = 4;

/// The voice of the story.
#[derive(Debug)]
pub(super) struct Telling;

impl Telling {
    pub(super) fn new() -> Self {
        Telling
    }

    /// A reader who has gone misses the rest; the story still ends its processes in order.
    pub(super) fn say(&self, line: &str) {
        _ = say(line);
    }

    pub(super) fn title(&self, plan: &Plan, breakers: &Breakers) {
        let Plan { clients, rate, .. } = plan;
        let which = match breakers {
            Breakers::Shared { panel, .. } => format!("one shared breaker, {BREAKER} on {panel}"),
            Breakers::PerProcess => "a breaker in each process, same policy".to_owned(),
        };
        self.say(&format!("\n== {clients} processes, {rate} quotes a second each: {which} =="));
    }

    pub(super) fn broken_path(&self, plan: &Plan) {
        let Plan { clients, rate, .. } = plan;
        let which = "one shared breaker, and the path of one process to the provider breaks";
        self.say(&format!("\n== {clients} processes, {rate} quotes a second each: {which} =="));
    }

    /// The table of the scene with the broken path.
    pub(super) fn phases(&self, clients: usize, phases: &[Phase]) {
        let others = format!("the other {}", clients.saturating_sub(1));
        self.say(&format!("\n{:30}{:^27}   {others:^27}", "quotes", "client-01, with that path"));
        let heads = format!("{:>9}{:>9}{:>9}", "live", "failed", "rejected");
        self.say(&format!("{:30}{heads}   {heads}", ""));
        let three = |quotes: Quotes| format!("{:9}{:9}{:9}", quotes.live, quotes.failed, quotes.rejected);
        for Phase { name, sick, others } in phases {
            self.say(&format!("{name:30}{}   {}", three(*sick), three(*others)));
        }
        self.say("\nFailed: a call was made and cost its time. Rejected: none was made. Only the sick one was cut off.");
    }

    pub(super) fn columns(&self) {
        self.say("           since the line before:");
        self.say(
            "       s  calls at the provider   quotes: live  unavailable   breaker, as the clients see it",
        );
    }

    pub(super) fn event(&self, fleet: &Fleet, what: &str) {
        self.say(&format!("{:8.1}  -- {what}", fleet.age().as_secs_f64()));
    }

    /// Looks at the fleet for `max`, or until `done`, and tells what changes.
    pub(super) async fn follow(
        &self,
        fleet: &Fleet,
        max: Duration,
        done: impl Fn(&Look) -> bool,
    ) -> Result<Look, String> {
        let end = Instant::now() + max;
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        looks.tick().await;
        let mut told = fleet.look().await?;
        let (mut believed, mut transition) = (belief(&told), told.transition());
        let mut untold = 0;
        loop {
            looks.tick().await;
            let look = fleet.look().await?;
            if let Some((state, why)) = look.transition().filter(|now| transition.as_ref() != Some(now)) {
                self.event(fleet, &format!("{state}: {}", why.explanation));
                transition = Some((state, why));
            }
            let belief = belief(&look);
            let is_last = Instant::now() >= end || done(&look);
            untold += 1;
            if untold == LOOKS_PER_LINE || belief != believed || is_last {
                self.line(fleet, &told, &look, &belief);
                (told, untold) = (look.clone(), 0);
            }
            believed = belief;
            if is_last {
                return Ok(look);
            }
        }
    }

    fn line(&self, fleet: &Fleet, since: &Look, now: &Look, belief: &str) {
        let calls = now.provider.total - since.provider.total;
        let grown = |count: fn(&crate::tally::Stats) -> u64| now.sum(count) - since.sum(count);
        let (live, unavailable) = (grown(|client| client.live), grown(|client| client.unavailable));
        let age = fleet.age().as_secs_f64();
        self.say(&format!("{age:8.1}  {calls:21}  {live:14}  {unavailable:11}   {belief}"));
    }

    pub(super) fn side_by_side(&self, shared: &Account, apart: &Account) {
        let row = |name: &str, value: &dyn Fn(&Account) -> String| {
            self.say(&format!("{name:46}{:>14}{:>18}", value(shared), value(apart)));
        };
        self.say(&format!("\n{:46}{:>14}{:>18}", "", "shared breaker", "one per process"));
        row("calls that reached the provider while down", &|a| a.calls_while_down.to_string());
        row("  until everybody had stopped", &|a| a.until_stopped.to_string());
        row("  probes", &|a| a.probes.to_string());
        row("from the outage to the last client stopping", &|a| millis(a.stopped_after_ms));
        row("  from the trip", &|a| millis(a.stopping_ms));
        row("quotes asked for", &|a| a.asked.to_string());
        row("  UNAVAILABLE", &|a| share(a.unavailable, a.asked));
        row("  UNAVAILABLE without a call", &|a| share(a.rejected, a.asked));
        row("provider well again to the first live quote", &|a| millis(a.back_ms.map(|(first, _)| first)));
        row("  from then to the last client's", &|a| millis(a.back_ms.map(|(first, last)| last - first)));
        row("calls in the first second of the recovery", &|a| a.first_second.to_string());
        self.say("\nWhen the first live quote comes depends on when the next probe is due; the waits are the same.");
    }
}

/// Says whether and at what cost everybody has stopped.
pub(super) fn stopping(look: &Look) -> String {
    let stopped =
        look.clients.iter().filter(|client| client.states.iter().any(|turn| turn.is == "OPEN")).count();
    let calls = look.provider.since_switch;
    format!("{stopped} of {} clients have stopped, {calls} calls reached the provider", look.clients.len())
}

/// The states that the clients believe in, the most common first in the order of the story.
fn belief(look: &Look) -> String {
    let count = |state: &str| (look.in_state(state), state.to_owned());
    let parts = ["CLOSED", "OPEN", "HALF_OPEN"].map(count).into_iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, state)| format!("{state} {count}")).collect::<Vec<_>>().join("  ")
}

fn millis(value: Option<u64>) -> String {
    value.map_or_else(|| "never".to_owned(), |ms| format!("{ms} ms"))
}

fn share(part: u64, whole: u64) -> String {
    let permille = (part * 1000).checked_div(whole).unwrap_or(0);
    format!("{part} = {}.{} %", permille / 10, permille % 10)
}
