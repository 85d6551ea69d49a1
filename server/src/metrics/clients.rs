//! Which client sessions are here, and which have gone without having been asked to.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use panelboard_core::{Caller, Instance, Session, Timestamp};

/// How long a session that broke off is told of: a few scrapes.
const LOST_FOR: Duration = Duration::from_secs(5 * 60);

/// Client sessions by their watches. A client that ends on purpose looks like one that died: only a watch that this
/// server ended for its own sake is no loss.
#[derive(Debug, Default)]
pub(crate) struct Clients(Mutex<Seats>);

type Who = (Instance, Option<Session>);

#[derive(Debug, Default)]
struct Seats {
    /// Open watches per session.
    connected: HashMap<Who, usize>,
    /// When the last watch of a session broke.
    lost: HashMap<Who, Timestamp>,
    /// The same, oldest first; holds some that have come back since.
    order: VecDeque<(Timestamp, Who)>,
}

impl Clients {
    /// A watch of this caller was opened.
    pub(crate) fn arrived(&self, caller: Caller<'_>) {
        let mut seats = self.lock();
        let who = who(caller);
        seats.lost.remove(&who);
        *seats.connected.entry(who).or_default() += 1;
    }

    /// A watch of this caller has ended. `lost_max` bounds how many lost ones are remembered.
    pub(crate) fn left(&self, caller: Caller<'_>, was_asked_to: bool, lost_max: usize, now: Timestamp) {
        let mut seats = self.lock();
        let who = who(caller);
        if let Some(open) = seats.connected.get_mut(&who) {
            *open -= 1;
            if *open > 0 {
                return;
            }
            seats.connected.remove(&who);
        }
        if !was_asked_to {
            seats.lost.insert(who.clone(), now);
            seats.order.push_back((now, who));
        }
        seats.forget(lost_max, now);
    }

    /// How many are connected, and how many lost.
    pub(super) fn count(&self, now: Timestamp) -> (usize, usize) {
        let mut seats = self.lock();
        seats.forget(usize::MAX, now);
        (seats.connected.len(), seats.lost.len())
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seats {
    fn forget(&mut self, lost_max: usize, now: Timestamp) {
        while let Some((at, who)) = self.order.front()
            && (self.order.len() > lost_max || now >= at.plus(LOST_FOR))
        {
            // It may have come back, and may have been lost again later.
            if self.lost.get(who) == Some(at) {
                self.lost.remove(who);
            }
            self.order.pop_front();
        }
    }
}

fn who(caller: Caller<'_>) -> Who {
    (caller.instance.clone(), caller.session.cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(n: usize) -> (Instance, Session) {
        (Instance::new("checkout", "pod"), Session(n.to_string().into()))
    }

    fn caller((instance, session): &(Instance, Session)) -> Caller<'_> {
        Caller { instance, session: Some(session) }
    }

    #[test]
    fn a_session_is_lost_when_its_last_watch_breaks_and_found_when_it_comes_back() {
        let (clients, one, at) = (Clients::default(), session(1), Timestamp::from_millis);
        clients.arrived(caller(&one));
        clients.arrived(caller(&one));
        assert_eq!(clients.count(at(0)), (1, 0));
        clients.left(caller(&one), false, 10, at(0));
        assert_eq!(clients.count(at(0)), (1, 0));
        clients.left(caller(&one), false, 10, at(1));
        assert_eq!(clients.count(at(1)), (0, 1));
        clients.arrived(caller(&one));
        assert_eq!(clients.count(at(2)), (1, 0));
        clients.left(caller(&one), false, 10, at(200_000));
        // The first loss is over, the second is not.
        assert_eq!(clients.count(at(300_001)), (0, 1));
        assert_eq!(clients.count(at(500_000)), (0, 0));
    }

    #[test]
    fn a_watch_that_the_server_ended_is_no_loss() {
        let (clients, one) = (Clients::default(), session(1));
        clients.arrived(caller(&one));
        clients.left(caller(&one), true, 10, Timestamp::ZERO);
        assert_eq!(clients.count(Timestamp::ZERO), (0, 0));
    }

    #[test]
    fn lost_sessions_are_bounded() {
        let clients = Clients::default();
        for n in 0..1_000 {
            let one = session(n);
            clients.arrived(caller(&one));
            clients.left(caller(&one), false, 10, Timestamp::ZERO);
        }
        assert_eq!(clients.count(Timestamp::ZERO), (0, 10));
        assert_eq!(clients.lock().order.len(), 10);
    }
}
