//! Who uses a breaker: its known instances, their sessions, and the last sequence of each.

use std::{collections::HashMap, time::Duration};

use crate::{
    ids::{Caller, Instance, Session},
    tally::{COUNT_AGE, EXACT_COUNT_MAX},
    time::Timestamp,
};

/// An instance that neither watches, asks nor reports for this long is not known any more.
pub const KNOWN_FOR: Duration = Duration::from_secs(10);
/// Sessions of one instance whose sequence is remembered; the one heard from longest ago makes room. An instance has
/// one for each of its processes, and a pre-forking server has dozens.
const SESSIONS_MAX: usize = 64;

/// An instance's place among the members of one breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(u32);

impl Slot {
    /// The instances past the cap share one place.
    pub(crate) const OTHERS: Self = Self(0);

    const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Debug)]
struct Member {
    /// None for the shared place and for places that are free.
    instance: Option<Instance>,
    /// None: never yet.
    last_seen: Option<Timestamp>,
    sessions: Vec<SessionRecord>,
}

#[derive(Clone, Debug)]
struct SessionRecord {
    session: Session,
    /// None: it has numbered no entry yet.
    last_sequence: Option<u64>,
    last_seen: Timestamp,
    watches: u32,
    /// It has watched before: when it watches no more it is gone or reconnecting.
    watched: bool,
}

impl SessionRecord {
    /// When it is gone, if nothing more is heard of it.
    fn gone_at(&self) -> Option<Timestamp> {
        match (self.watches, self.watched) {
            (0, true) => Some(self.last_seen),
            (0, false) => Some(self.last_seen.plus(KNOWN_FOR)),
            _ => None,
        }
    }
}

impl Member {
    const fn new(instance: Option<Instance>) -> Self {
        Self { instance, last_seen: None, sessions: Vec::new() }
    }

    fn is_known(&self, now: Timestamp) -> bool {
        self.instance.is_some() && (self.watches() || self.was_seen_within(KNOWN_FOR, now))
    }

    fn was_seen_within(&self, span: Duration, now: Timestamp) -> bool {
        self.last_seen.is_some_and(|seen| now < seen.plus(span))
    }

    /// Whether it is in the count of `counted_at`, or has joined it since.
    fn is_counted(&self, counted_at: Timestamp) -> bool {
        self.instance.is_some()
            && (self.watches() || self.last_seen.is_some_and(|seen| seen.plus(KNOWN_FOR) > counted_at))
    }

    /// When it ceases to be known if nothing more is heard of it.
    fn lapse(&self) -> Option<Timestamp> {
        if self.watches() { None } else { self.last_seen.map(|seen| seen.plus(KNOWN_FOR)) }
    }

    /// Whether it watched, and does no more.
    fn has_left(&self) -> bool {
        !self.watches() && self.sessions.iter().any(|record| record.watched)
    }

    fn watches(&self) -> bool {
        self.sessions.iter().any(|record| record.watches > 0)
    }

    fn session(&mut self, session: &Session, now: Timestamp) -> &mut SessionRecord {
        let place = match self.sessions.iter().position(|record| record.session == *session) {
            Some(place) => place,
            None => {
                if self.sessions.len() >= SESSIONS_MAX {
                    let oldest = (0..self.sessions.len())
                        .min_by_key(|&n| (self.sessions[n].watches > 0, self.sessions[n].last_seen))
                        .unwrap_or(0);
                    self.sessions.swap_remove(oldest);
                }
                self.sessions.push(SessionRecord {
                    session: session.clone(),
                    last_sequence: None,
                    last_seen: now,
                    watches: 0,
                    watched: false,
                });
                self.sessions.len() - 1
            }
        };
        let record = &mut self.sessions[place];
        record.last_seen = record.last_seen.max(now);
        record
    }
}

/// The members of one breaker.
#[derive(Clone, Debug)]
pub(crate) struct Members {
    slots: HashMap<Instance, Slot>,
    members: Vec<Member>,
    free: Vec<Slot>,
    instances_max: usize,
    counted: u32,
    known_at: Timestamp,
    /// No known instance lapses earlier, unless a call is heard of it.
    lapse: Option<Timestamp>,
    /// So many are taken to be there until then, although few or none have been heard of yet.
    expected: (u32, Timestamp),
}

impl Members {
    pub(crate) fn new(instances_max: usize, now: Timestamp) -> Self {
        Self {
            slots: HashMap::new(),
            members: vec![Member::new(None)],
            free: Vec::new(),
            instances_max,
            counted: 0,
            known_at: now,
            lapse: None,
            expected: (0, now),
        }
    }

    /// Takes so many instances to be there until `until`: they were before a restart.
    pub(crate) fn presume(&mut self, instances: u32, until: Timestamp, now: Timestamp) {
        self.expected = (instances, until);
        self.count(now);
    }

    /// Those that were known at `since`, or were heard of after it, are known now.
    pub(crate) fn presume_since(&mut self, since: Timestamp, now: Timestamp) {
        for member in &mut self.members {
            if member.last_seen.is_some_and(|seen| seen.plus(KNOWN_FOR) > since) && !member.has_left() {
                member.last_seen = Some(now);
            }
        }
        if since < self.expected.1 {
            self.expected.1 = self.expected.1.max(now.plus(KNOWN_FOR));
        }
        self.count(now);
    }

    /// Whether an instance that watched does so no more, and was not heard of since for long.
    pub(crate) fn is_gone(&self, slot: Slot, now: Timestamp) -> bool {
        let member = self.members.get(slot.index());
        let is_lost = |record: &SessionRecord| now >= record.last_seen.plus(KNOWN_FOR);
        member.is_none_or(|member| {
            member.has_left()
                && member.sessions.iter().all(is_lost)
                && !member.was_seen_within(KNOWN_FOR, now)
        })
    }

    /// Who has this place; none for the shared one.
    pub(crate) fn instance(&self, slot: Slot) -> Option<&Instance> {
        self.members.get(slot.index())?.instance.as_ref()
    }

    /// An instance's own place.
    pub(crate) fn slot_of(&self, instance: &Instance) -> Option<Slot> {
        self.slots.get(instance).copied()
    }

    /// The caller's place; it is known from now on.
    pub(crate) fn touch(&mut self, caller: Caller<'_>, now: Timestamp) -> Slot {
        let slot = match self.slots.get(caller.instance) {
            Some(slot) => *slot,
            None if self.slots.len() >= self.instances_max => Slot::OTHERS,
            None => self.admit(caller.instance),
        };
        let member = &mut self.members[slot.index()];
        let was_counted = member.is_counted(self.known_at);
        member.last_seen = Some(now);
        if let Some(session) = caller.session {
            member.session(session, now);
        }
        if !was_counted && slot != Slot::OTHERS {
            self.counted = self.counted.saturating_add(1);
            self.note_lapse(now.plus(KNOWN_FOR));
        }
        slot
    }

    fn admit(&mut self, instance: &Instance) -> Slot {
        let member = Member::new(Some(instance.clone()));
        let slot = if let Some(slot) = self.free.pop() {
            self.members[slot.index()] = member;
            slot
        } else {
            self.members.push(member);
            Slot(u32::try_from(self.members.len() - 1).unwrap_or(0))
        };
        self.slots.insert(instance.clone(), slot);
        slot
    }

    /// Whether `sequence` of this session is new; from now on it is not.
    pub(crate) fn is_new(&mut self, slot: Slot, session: &Session, sequence: u64, now: Timestamp) -> bool {
        let record = self.members[slot.index()].session(session, now);
        let is_new = record.last_sequence.is_none_or(|last| sequence > last);
        record.last_sequence = record.last_sequence.max(Some(sequence));
        is_new
    }

    pub(crate) fn watch_started(&mut self, caller: Caller<'_>, now: Timestamp) {
        self.count_known(now);
        let slot = self.touch(caller, now);
        if let Some(session) = caller.session {
            let record = self.members[slot.index()].session(session, now);
            record.watches = record.watches.saturating_add(1);
            record.watched = true;
        }
    }

    pub(crate) fn watch_ended(&mut self, caller: Caller<'_>, now: Timestamp) {
        self.count_known(now);
        if let (Some(slot), Some(session)) = (self.slots.get(caller.instance), caller.session) {
            let member = &mut self.members[slot.index()];
            let was_counted = member.is_counted(self.known_at);
            let record = member.session(session, now);
            record.watches = record.watches.saturating_sub(1);
            let lapse = member.lapse();
            if was_counted && !member.is_counted(self.known_at) {
                self.counted = self.counted.saturating_sub(1);
            } else if let Some(lapse) = lapse {
                self.note_lapse(lapse);
            }
        }
    }

    /// Whether this session watches the breaker.
    pub(crate) fn watches(&self, slot: Slot, session: Option<&Session>) -> bool {
        session.is_some_and(|session| {
            self.members[slot.index()].sessions.iter().any(|r| r.session == *session && r.watches > 0)
        })
    }

    /// Since when, or from when on, a session of this place is gone and another one has taken over.
    pub(crate) fn replaced_at(&self, slot: Slot, session: &Session) -> Option<Timestamp> {
        let sessions = &self.members[slot.index()].sessions;
        let Some(record) = sessions.iter().find(|record| record.session == *session) else {
            return Some(Timestamp::ZERO);
        };
        let taken_over = sessions.iter().any(|other| other.last_seen > record.last_seen);
        if taken_over { record.gone_at() } else { None }
    }

    /// When the number of known instances may fall next if nobody is heard of: never later than it does.
    pub(crate) fn next_lapse(&self) -> Option<Timestamp> {
        let next_count =
            if self.is_counted_exactly() { self.known_at } else { self.known_at.plus(COUNT_AGE) };
        self.lapse.map(|lapse| lapse.max(next_count))
    }

    fn note_lapse(&mut self, lapse: Timestamp) {
        self.lapse = Some(self.lapse.map_or(lapse, |earlier| earlier.min(lapse)));
    }

    /// By places rather than instances: places stay after a crowd has gone, and counting walks over them.
    fn is_counted_exactly(&self) -> bool {
        self.members.len() <= EXACT_COUNT_MAX
    }

    /// Instances with a live session, as of the last count, or as many as are expected.
    pub(crate) fn known(&self) -> u32 {
        self.counted.max(self.expected.0)
    }

    /// Counts the known instances: at once if there are few, else at most every tenth of a second.
    pub(crate) fn count_known(&mut self, now: Timestamp) {
        if !self.is_counted_exactly() && now < self.known_at.plus(COUNT_AGE) {
            return;
        }
        self.count(now);
    }

    fn count(&mut self, now: Timestamp) {
        self.known_at = now;
        let known = || self.members.iter().filter(|member| member.is_known(now));
        self.counted = u32::try_from(known().count()).unwrap_or(u32::MAX);
        self.lapse = known().filter_map(Member::lapse).min();
        let (instances, until) = self.expected;
        if now >= until {
            self.expected = (0, until);
        } else if instances > 0 {
            self.note_lapse(until);
        }
    }

    /// Forgets those not heard of for `after` that nothing else refers to.
    pub(crate) fn sweep(&mut self, after: Duration, now: Timestamp, is_used: impl Fn(Slot) -> bool) {
        let (members, mut freed) = (&mut self.members, Vec::new());
        self.slots.retain(|_, slot| {
            let member = &mut members[slot.index()];
            let keep = member.watches() || member.was_seen_within(after, now) || is_used(*slot);
            if !keep {
                *member = Member::new(None);
                freed.push(*slot);
            }
            keep
        });
        // In order, so that the same calls give the same places.
        freed.sort_unstable();
        self.free.append(&mut freed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_millis(secs * 1_000)
    }

    fn count(members: &mut Members, now: Timestamp) -> u32 {
        members.count_known(now);
        members.known()
    }

    #[test]
    fn an_instance_is_known_while_it_watches_and_ten_seconds_after_it_was_heard() {
        let mut members = Members::new(10, at(0));
        let (a, b) = (Instance::new("s", "a"), Instance::new("s", "b"));
        let session = Session("1".into());
        members.watch_started(Caller { instance: &a, session: Some(&session) }, at(0));
        members.touch(Caller { instance: &b, session: None }, at(1));
        assert_eq!(members.known(), 2);
        assert_eq!(count(&mut members, at(10)), 2);
        assert_eq!(count(&mut members, at(11)), 1);
        members.watch_ended(Caller { instance: &a, session: Some(&session) }, at(50));
        assert_eq!(count(&mut members, at(60)), 0);
    }

    #[test]
    fn a_sequence_is_new_once_per_session() {
        let mut members = Members::new(10, at(0));
        let a = Instance::new("s", "a");
        let slot = members.touch(Caller { instance: &a, session: None }, at(0));
        let (one, two) = (Session("1".into()), Session("2".into()));
        assert!(members.is_new(slot, &one, 1, at(0)));
        assert!(!members.is_new(slot, &one, 1, at(0)));
        assert!(members.is_new(slot, &two, 1, at(0)));
        assert!(members.is_new(slot, &one, 5, at(0)));
        assert!(!members.is_new(slot, &one, 4, at(0)));
        let three = Session("3".into());
        assert!(members.is_new(slot, &three, 0, at(0)) && !members.is_new(slot, &three, 0, at(0)));
    }

    #[test]
    fn past_the_cap_instances_share_one_place_and_forgotten_places_are_used_again() {
        let mut members = Members::new(2, at(0));
        let slot = |members: &mut Members, id: &str, now| {
            members.touch(Caller { instance: &Instance::new("s", id), session: None }, now)
        };
        let a = slot(&mut members, "a", at(0));
        slot(&mut members, "b", at(100));
        assert_eq!(slot(&mut members, "c", at(100)), Slot::OTHERS);
        members.sweep(Duration::from_secs(60), at(101), |_| false);
        assert_eq!(slot(&mut members, "c", at(101)), a);
        assert_eq!(count(&mut members, at(101)), 2);
    }

    #[test]
    fn sessions_of_one_instance_are_bounded() {
        let mut members = Members::new(2, at(0));
        let a = Instance::new("s", "a");
        for n in 0..1000u32 {
            let session = Session(n.to_string().into());
            members.touch(Caller { instance: &a, session: Some(&session) }, at(n.into()));
        }
        assert!(members.members[1].sessions.len() <= SESSIONS_MAX);
    }
}
