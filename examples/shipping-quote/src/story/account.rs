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
    /// From the first client that stopped to the last, if all of them stopped.
    pub(super) stopping_ms: Option<u64>,
    /// Quotes that were asked for, and the UNAVAILABLE ones among them.
    pub(super) asked: u64,
    pub(super) unavailable: u64,
    /// Of the UNAVAILABLE ones, those that cost no call.
    pub(super) rejected: u64,
    /// From the provider's return to the first and to the last client with a live quote, if all came back.
    pub(super) back_ms: Option<(u64, u64)>,
}

impl Account {
    /// Reads it off the provider's arrivals while it was down, and the counts at the outage's end and at the very end.
    pub(super) fn of(down: &Arrivals, before: &Look, after: &Look, back_at: u64) -> Self {
        let stops: Option<Vec<u64>> =
            before.clients.iter().map(|client| first(&client.states, "OPEN", down.switched_at)).collect();
        let stops = stops.filter(|stops| !stops.is_empty());
        let stopped_at = stops.as_ref().and_then(|stops| stops.iter().max().copied());
        let first_stop = stops.as_ref().and_then(|stops| stops.iter().min().copied());
        let until_stopped = match stopped_at {
            Some(stopped_at) => down.at.iter().filter(|at| **at <= stopped_at).count() as u64,
            None => before.provider.since_switch,
        };
        let backs: Option<Vec<u64>> =
            after.clients.iter().map(|client| first(&client.answers, "LIVE", back_at)).collect();
        let backs = backs.filter(|backs| !backs.is_empty());
        Account {
            calls_while_down: before.provider.since_switch,
            until_stopped,
            probes: before.sum(|client| client.probes),
            stopping_ms: stopped_at.zip(first_stop).map(|(last, first)| last - first),
            asked: after.sum(Stats::asked),
            unavailable: after.sum(|client| client.unavailable),
            rejected: after.sum(|client| client.rejected),
            back_ms: backs.map(|backs| {
                let since = |at: u64| at - back_at;
                (
                    backs.iter().copied().map(since).min().unwrap_or(0),
                    backs.into_iter().map(since).max().unwrap_or(0),
                )
            }),
        }
    }
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
        let look = Look { provider, clients };
        let down = Arrivals { switched_at: 1000, at: vec![1005, 1030, 1100, 3010] };
        let account = Account::of(&down, &look, &look, 5000);
        assert_eq!(account.stopping_ms, Some(60));
        assert_eq!((account.calls_while_down, account.until_stopped), (4, 3));
        assert_eq!(account.back_ms, Some((100, 1000)));
        assert_eq!((account.asked, account.unavailable), (20, 6));
    }

    #[test]
    fn a_client_that_never_stopped_leaves_no_time_to_tell() {
        let clients = vec![client(&[(0, "CLOSED")], &[(1, "LIVE")])];
        let look = Look { provider: ProviderStats { since_switch: 9, ..ProviderStats::default() }, clients };
        let down = Arrivals { switched_at: 1000, at: vec![1001; 9] };
        let account = Account::of(&down, &look, &look, 5000);
        assert_eq!((account.stopping_ms, account.until_stopped, account.back_ms), (None, 9, None));
    }
}
