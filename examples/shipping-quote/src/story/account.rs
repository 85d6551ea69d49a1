//! The numbers that matter of one fleet's outage.

use super::fleet::Look;
use crate::provider::Arrivals;
use crate::tally::{Stats, Turn};

/// What an outage cost one fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    /// Calls that reached the provider while it was down.
    pub(super) calls_while_down: u64,
    /// Of these, the ones up to the instant at which the last client had stopped.
    pub(super) until_stopped: u64,
    /// Probes that were sent while it was down.
    pub(super) probes: u64,
    /// From the beginning of the outage to the last client that stopped, if all of them stopped.
    pub(super) stopped_after_ms: Option<u64>,
    /// From the trip to the last client that stopped. The trip is the server's, or the first of the clients' own.
    pub(super) stopping_ms: Option<u64>,
    /// Quotes that were asked for, and the UNAVAILABLE ones among them.
    pub(super) asked: u64,
    pub(super) unavailable: u64,
    /// Of the UNAVAILABLE ones, those that cost no call.
    pub(super) rejected: u64,
    /// From the provider's return to the first and to the last client with a live quote, if all came back.
    pub(super) back_ms: Option<(u64, u64)>,
    /// Calls that reached the provider within a second of the first one after its return.
    pub(super) first_second: u64,
}

impl Account {
    /// Reads it off the provider's arrivals while it was down and the counts at the outage's end, and off the arrivals
    /// since it is back and the counts at the very end.
    pub(super) fn of(down: &Arrivals, before: &Look, back: &Arrivals, after: &Look) -> Self {
        let back_at = back.switched_at;
        let stops = of_all(before, |client| first(&client.states, "OPEN", down.switched_at));
        let stopped_at = stops.as_ref().and_then(|stops| stops.iter().max().copied());
        let first_stop = stops.as_ref().and_then(|stops| stops.iter().min().copied());
        let tripped_at = before.tripped_at(down.switched_at).or(first_stop);
        let until_stopped = match stopped_at {
            Some(stopped_at) => down.at.iter().filter(|at| **at <= stopped_at).count() as u64,
            None => before.provider.since_switch,
        };
        let backs = of_all(after, |client| first(&client.answers, "LIVE", back_at));
        Account {
            calls_while_down: before.provider.since_switch,
            until_stopped,
            probes: before.sum(|client| client.probes),
            stopped_after_ms: stopped_at.map(|last| last.saturating_sub(down.switched_at)),
            stopping_ms: stopped_at.zip(tripped_at).map(|(last, trip)| last.saturating_sub(trip)),
            asked: after.sum(Stats::asked),
            unavailable: after.sum(|client| client.unavailable),
            rejected: after.sum(|client| client.rejected),
            back_ms: backs.and_then(|backs| {
                let since = |at: &u64| at.saturating_sub(back_at);
                backs.iter().map(since).min().zip(backs.iter().map(since).max())
            }),
            first_second: back
                .at
                .first()
                .map_or(0, |first| back.at.iter().filter(|at| **at < first + 1000).count() as u64),
        }
    }
}

/// The instants of all clients, if each has one.
fn of_all(look: &Look, instant: impl Fn(&Stats) -> Option<u64>) -> Option<Vec<u64>> {
    look.clients.iter().map(instant).collect()
}

/// When something first was `is`, from `since` on.
fn first(turns: &[Turn], is: &str, since: u64) -> Option<u64> {
    turns.iter().find(|turn| turn.at >= since && turn.is == is).map(|turn| turn.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Stats as ProviderStats;

    fn turns(of: &[(u64, &str)]) -> Vec<Turn> {
        of.iter().map(|(at, is)| Turn { at: *at, is: (*is).to_owned() }).collect()
    }

    fn client(states: &[(u64, &str)], answers: &[(u64, &str)]) -> Stats {
        Stats { states: turns(states), answers: turns(answers), live: 7, unavailable: 3, ..Stats::default() }
    }

    #[test]
    fn the_account_counts_from_the_outage_on() {
        let clients = vec![
            client(
                &[(0, "CLOSED"), (1040, "OPEN"), (3000, "HALF_OPEN")],
                &[(1, "LIVE"), (1010, "UNAVAILABLE"), (5100, "LIVE")],
            ),
            client(&[(0, "CLOSED"), (1100, "OPEN")], &[(1, "LIVE"), (1020, "UNAVAILABLE"), (6000, "LIVE")]),
        ];
        let provider = ProviderStats { since_switch: 4, ..ProviderStats::default() };
        let look = Look { provider, clients, shared: None };
        let down = Arrivals { switched_at: 1000, at: vec![1005, 1030, 1100, 3010] };
        let back = Arrivals { switched_at: 5000, at: vec![5090, 5100, 6089, 6090] };
        let account = Account::of(&down, &look, &back, &look);
        assert_eq!(account.first_second, 3);
        assert_eq!((account.stopped_after_ms, account.stopping_ms), (Some(100), Some(60)));
        assert_eq!((account.calls_while_down, account.until_stopped), (4, 3));
        assert_eq!(account.back_ms, Some((100, 1000)));
        assert_eq!((account.asked, account.unavailable), (20, 6));
    }

    #[test]
    fn a_client_that_never_stopped_leaves_no_time_to_tell() {
        let clients = vec![client(&[(0, "CLOSED")], &[(1, "LIVE")])];
        let look = Look {
            provider: ProviderStats { since_switch: 9, ..ProviderStats::default() },
            clients,
            shared: None,
        };
        let down = Arrivals { switched_at: 1000, at: vec![1001; 9] };
        let back = Arrivals { switched_at: 5000, at: Vec::new() };
        let account = Account::of(&down, &look, &back, &look);
        assert_eq!((account.stopping_ms, account.until_stopped, account.back_ms), (None, 9, None));
    }
}
