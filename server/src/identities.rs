//! Who uses whose name: sessions of one instance that look like different hosts.
//!
//! All sessions of one instance are one voter, and are quarantined together. Two hosts that share an instance id by
//! mistake are therefore half blind, and nothing else would tell. A pod that comes back elsewhere under its old name is
//! no such thing: only a session that goes on after another one has appeared from elsewhere is.

use std::{
    net::IpAddr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use panelboard_core::{Caller, Instance, Session, Timestamp};

use crate::limits::{CONFLICTS_TOLD_PER_MINUTE, IDENTITIES, SIGHTINGS};

/// A session that was not heard of for so long is not there at the same time.
const TOGETHER: Duration = Duration::from_secs(10);
/// An instance that was not heard of for so long is forgotten, and told of anew.
const FORGET_AFTER: Duration = Duration::from_secs(10 * 60);

/// Where the sessions of each instance were seen.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    seats: DashMap<Instance, Seat>,
    conflicts: AtomicU64,
    told: Mutex<Told>,
}

/// Where one instance's sessions were seen: the latest few.
#[derive(Debug, Default)]
struct Seat {
    sightings: Vec<Sighting>,
    is_told: bool,
}

#[derive(Debug)]
struct Sighting {
    session: Option<Session>,
    ip: IpAddr,
    first: Timestamp,
    last: Timestamp,
}

/// How many conflicts were told of in the current minute.
#[derive(Debug, Default)]
struct Told {
    minute: u64,
    count: u32,
}

/// Sessions of one instance that look like different hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// Where the one is that was heard now.
    pub(crate) here: IpAddr,
    /// Where the other is.
    pub(crate) there: IpAddr,
}

impl Identities {
    /// A call of this caller came from there. Tells of each instance once, and of few in a minute.
    pub(crate) fn seen(&self, caller: Caller<'_>, from: Option<IpAddr>, now: Timestamp) {
        let Some(ip) = from else { return };
        let Some(Conflict { here, there }) = self.conflict(caller, ip, now) else { return };
        self.conflicts.fetch_add(1, Ordering::Relaxed);
        if self.may_tell(now) {
            tracing::warn!(
                service = &*caller.instance.service,
                instance = &*caller.instance.id,
                %here,
                %there,
                "{} is used by sessions on different hosts at the same time: they are one voter and are quarantined \
                 together; give each host an instance id of its own, such as POD_NAME",
                caller.instance
            );
        }
    }

    /// Instances found in conflict, ever.
    pub(crate) fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }

    /// Forgets the instances that are gone.
    pub(crate) fn sweep(&self, now: Timestamp) {
        self.seats.retain(|_, seat| seat.sightings.iter().any(|seen| now < seen.last.plus(FORGET_AFTER)));
    }

    /// A conflict that was not found before.
    fn conflict(&self, caller: Caller<'_>, ip: IpAddr, now: Timestamp) -> Option<Conflict> {
        // Callers without a name share one on purpose.
        if *caller.instance == Instance::anonymous() {
            return None;
        }
        let ip = ip.to_canonical();
        if let Some(mut seat) = self.seats.get_mut(caller.instance) {
            return seat.see(caller.session, ip, now);
        }
        // Past the limit new ones are not looked at: a warning is all that is lost.
        if self.seats.len() < IDENTITIES {
            self.seats.entry(caller.instance.clone()).or_default().see(caller.session, ip, now);
        }
        None
    }

    fn may_tell(&self, now: Timestamp) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let minute = now.as_millis() / 60_000;
        if told.minute != minute {
            *told = Told { minute, count: 0 };
        }
        told.count += 1;
        told.count <= CONFLICTS_TOLD_PER_MINUTE
    }
}

impl Seat {
    fn see(&mut self, session: Option<&Session>, ip: IpAddr, now: Timestamp) -> Option<Conflict> {
        // A session is one process, wherever its packets come from; without one an address is all there is.
        let is_this = |seen: &Sighting| match session {
            Some(session) => seen.session.as_ref() == Some(session),
            None => seen.session.is_none() && seen.ip == ip,
        };
        let first = match self.sightings.iter_mut().find(|seen| is_this(seen)) {
            Some(seen) => {
                (seen.ip, seen.last) = (ip, now);
                seen.first
            }
            None => {
                self.note(Sighting { session: session.cloned(), ip, first: now, last: now });
                return None;
            }
        };
        if self.is_told {
            return None;
        }
        // It was there before the other and still is: the other has not taken its place.
        let other = self.sightings.iter().find(|other| {
            first < other.first && now < other.last.plus(TOGETHER) && are_two_hosts(ip, other.ip)
        })?;
        let there = other.ip;
        self.is_told = true;
        Some(Conflict { here: ip, there })
    }

    /// In the place of the one not heard of for longest, if there are too many.
    fn note(&mut self, sighting: Sighting) {
        if self.sightings.len() >= SIGHTINGS
            && let Some(oldest) = (0..self.sightings.len()).min_by_key(|at| self.sightings[*at].last)
        {
            self.sightings.swap_remove(oldest);
        }
        self.sightings.push(sighting);
    }
}

/// One host may have an address of each family.
fn are_two_hosts(a: IpAddr, b: IpAddr) -> bool {
    a != b && a.is_ipv4() == b.is_ipv4()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        identities: Identities,
        now: u64,
    }

    impl Place {
        fn new() -> Self {
            Self { identities: Identities::default(), now: 0 }
        }

        /// One call, a second after the one before.
        fn call(&mut self, instance: &Instance, session: &str, ip: &str) -> Option<Conflict> {
            self.now += 1_000;
            let session = (!session.is_empty()).then(|| Session(session.into()));
            let caller = Caller { instance, session: session.as_ref() };
            self.identities.conflict(caller, ip.parse().unwrap(), Timestamp::from_millis(self.now))
        }
    }

    fn pod() -> Instance {
        Instance::new("checkout", "pod-1")
    }

    #[test]
    fn two_hosts_that_take_turns_under_one_name_are_a_conflict_that_is_found_once() {
        let mut place = Place::new();
        assert_eq!(place.call(&pod(), "a", "10.0.0.1"), None);
        assert_eq!(place.call(&pod(), "b", "10.0.0.2"), None);
        let found = place.call(&pod(), "a", "10.0.0.1").unwrap();
        assert_eq!((found.here.to_string(), found.there.to_string()), ("10.0.0.1".into(), "10.0.0.2".into()));
        assert_eq!(place.call(&pod(), "b", "10.0.0.2"), None);
        assert_eq!(place.call(&pod(), "a", "10.0.0.1"), None);
    }

    #[test]
    fn thin_clients_without_sessions_are_told_apart_by_their_addresses() {
        let mut place = Place::new();
        assert_eq!(place.call(&pod(), "", "10.0.0.1"), None);
        assert_eq!(place.call(&pod(), "", "10.0.0.2"), None);
        assert!(place.call(&pod(), "", "10.0.0.1").is_some());
    }

    #[test]
    fn what_is_no_conflict() {
        let mut place = Place::new();
        // A pod that comes back elsewhere: the old session is not heard of again.
        place.call(&pod(), "old", "10.0.0.1");
        for _ in 0..20 {
            assert_eq!(place.call(&pod(), "new", "10.0.0.2"), None);
        }
        // Processes of one host, a session whose address changes, and a host with an address of each family.
        let other = Instance::new("checkout", "pod-2");
        for ip in ["10.0.0.3", "::ffff:10.0.0.3", "fd00::3", "10.0.0.3"] {
            assert_eq!(place.call(&other, "a", ip), None);
            assert_eq!(place.call(&other, "b", "10.0.0.3"), None);
        }
        let mobile = Instance::new("checkout", "pod-3");
        for ip in ["10.0.0.4", "10.0.0.5", "10.0.0.4"] {
            assert_eq!(place.call(&mobile, "a", ip), None);
        }
        // Whoever has no name shares one.
        for _ in 0..3 {
            assert_eq!(place.call(&Instance::anonymous(), "a", "10.0.0.6"), None);
            assert_eq!(place.call(&Instance::anonymous(), "b", "10.0.0.7"), None);
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten() {
        let mut place = Place::new();
        for n in 0..100 {
            place.call(&pod(), &n.to_string(), "10.0.0.1");
        }
        assert_eq!(place.identities.seats.get(&pod()).unwrap().sightings.len(), SIGHTINGS);
        place.identities.sweep(Timestamp::from_millis(place.now));
        assert_eq!(place.identities.seats.len(), 1);
        place.identities.sweep(Timestamp::from_millis(place.now).plus(FORGET_AFTER));
        assert_eq!(place.identities.seats.len(), 0);
    }

    #[test]
    fn few_are_told_of_in_a_minute() {
        let identities = Identities::default();
        let told = |ms| (0..100).filter(|_| identities.may_tell(Timestamp::from_millis(ms))).count();
        assert_eq!(told(0), CONFLICTS_TOLD_PER_MINUTE as usize);
        assert_eq!(told(60_000), CONFLICTS_TOLD_PER_MINUTE as usize);
    }
}
