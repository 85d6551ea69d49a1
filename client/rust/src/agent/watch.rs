//! One stream: what it selects, what it has delivered, and what each of its messages means for the cells.

use std::{collections::HashMap, sync::Arc, time::Duration};

use panelboard_core::{BreakerName, Timestamp, Version};
use panelboard_proto::v1::{self, watch_response::Event as Wire};
use prost::bytes::Bytes;
use tokio::task::AbortHandle;

use crate::{
    cell::{Cell, Ticks},
    limits::{HEARD_WITHIN, WATCH_TIMEOUT},
    slot::Slot,
    wire::{self, Base},
};

/// The cells are told that a stream is alive at most so often: they keep the time to the second.
const TELL_INTERVAL: Duration = Duration::from_millis(250);

/// A breaker that a stream speaks of: something with a name and a cell, which is told at its own time.
pub(super) trait Subject: Clone {
    fn name(&self) -> &BreakerName;
    fn tell(&self, what: impl FnOnce(&mut Cell, Timestamp));
}

impl Subject for Arc<Slot> {
    fn name(&self) -> &BreakerName {
        &self.name
    }

    fn tell(&self, what: impl FnOnce(&mut Cell, Timestamp)) {
        self.with(what);
    }
}

#[derive(Debug)]
pub(super) struct Stream<S = Arc<Slot>> {
    pub(super) id: u64,
    pub(super) selection: Vec<S>,
    places: HashMap<BreakerName, usize>,
    /// Opaque, and good for this selection only.
    pub(super) resume: Bytes,
    pub(super) link: Link,
    /// Tries in a row that came to nothing.
    pub(super) attempts: u32,
    /// Streams that are left once this one has delivered all there is.
    pub(super) replaces: Vec<u64>,
}

#[derive(Debug)]
pub(super) enum Link {
    Down {
        retry_at: Timestamp,
    },
    Up {
        task: AbortHandle,
        opened: Timestamp,
        heard: Option<Timestamp>,
        told: Timestamp,
        ticks: Option<Ticks>,
        resumed: bool,
        complete: bool,
        standing: Vec<Standing>,
        /// The server ends this stream: open another one then.
        leave_at: Option<Timestamp>,
    },
}

/// How a breaker stands on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not mentioned yet.
    Unsaid,
    /// Delivered: bookmarks vouch for it.
    Delivered,
    /// It does not exist.
    Absent,
    /// The server cannot vouch for it.
    Doubtful,
}

/// What the agent has to do about a message.
#[derive(Debug)]
pub(super) enum Heard<S = Arc<Slot>> {
    Nothing,
    /// A status of one breaker.
    Status(S, Box<v1::BreakerStatus>, Option<Base>),
    /// A breaker that does not exist, and the nearest name.
    Absent(S, String),
    /// All was delivered: others may be left now.
    Complete,
    /// The cells have changed: look at all of them.
    All,
}

impl<S: Subject> Stream<S> {
    pub(super) fn new(id: u64, selection: Vec<S>, resume: Bytes, replaces: Vec<u64>) -> Self {
        let places = selection.iter().enumerate().map(|(n, slot)| (slot.name().clone(), n)).collect();
        let link = Link::Down { retry_at: Timestamp::ZERO };
        Self { id, selection, places, resume, link, attempts: 0, replaces }
    }

    pub(super) const fn is_down(&self) -> bool {
        matches!(self.link, Link::Down { .. })
    }

    pub(super) const fn is_complete(&self) -> bool {
        matches!(self.link, Link::Up { complete: true, .. })
    }

    pub(super) fn opened(&mut self, task: AbortHandle, now: Timestamp) {
        self.link = Link::Up {
            task,
            opened: now,
            heard: None,
            told: Timestamp::ZERO,
            ticks: None,
            resumed: false,
            complete: false,
            standing: vec![Standing::Unsaid; self.selection.len()],
            leave_at: None,
        };
    }

    /// Takes more breakers in. The token does not fit any more.
    pub(super) fn absorb(&mut self, other: Self) {
        for slot in other.selection {
            self.places.insert(slot.name().clone(), self.selection.len());
            self.selection.push(slot);
        }
        self.replaces.extend(other.replaces);
        self.resume.clear();
    }

    /// When there is something to do about it.
    pub(super) fn next(&self) -> Timestamp {
        match &self.link {
            Link::Down { retry_at } => *retry_at,
            Link::Up { leave_at, .. } => {
                leave_at.map_or(self.mute_at(), |leave_at| leave_at.min(self.mute_at()))
            }
        }
    }

    /// When it has been silent for too long to be relied on.
    pub(super) fn mute_at(&self) -> Timestamp {
        match &self.link {
            Link::Down { .. } => Timestamp::from_millis(u64::MAX),
            Link::Up { heard: Some(heard), .. } => heard.plus(HEARD_WITHIN),
            Link::Up { heard: None, opened, .. } => opened.plus(WATCH_TIMEOUT * 2),
        }
    }

    /// Whether it is time to open another stream in its place; once.
    pub(super) fn leave_now(&mut self, now: Timestamp) -> bool {
        match &mut self.link {
            Link::Up { leave_at, .. } => leave_at.take_if(|leave_at| now >= *leave_at).is_some(),
            Link::Down { .. } => false,
        }
    }

    /// One message of the server.
    pub(super) fn hear(&mut self, message: v1::WatchResponse, now: Timestamp) -> Heard<S> {
        let Link::Up { heard, told, ticks, resumed, complete, standing, leave_at, .. } = &mut self.link
        else {
            return Heard::Nothing;
        };
        *heard = Some(now);
        let news = match &message.event {
            Some(Wire::Started(v1::Started { tick, .. })) => Some(*tick),
            Some(Wire::SnapshotComplete(v1::SnapshotComplete { tick, .. })) => Some(*tick),
            Some(Wire::Bookmark(v1::Bookmark { tick, .. })) => Some(*tick),
            Some(Wire::Draining(v1::Draining { tick, .. })) => Some(*tick),
            _ => None,
        };
        if let Some(tick) = news {
            *ticks = Some(Ticks { tick, heard: now });
        }
        if news.is_some() || now >= told.plus(TELL_INTERVAL) {
            *told = now;
            tell(&self.selection, |cell, now| cell.heard(*ticks, now));
        }
        let place = |name: &str| self.places.get(name).copied();
        match message.event {
            Some(Wire::Started(started)) => {
                *resumed = started.resumed;
                if !started.resumed {
                    tell(&self.selection, |cell, now| cell.began(started.epoch, now));
                }
                Heard::Nothing
            }
            Some(Wire::Status(status)) => {
                let Some(place) = place(&status.name) else { return Heard::Nothing };
                standing[place] = Standing::Delivered;
                let slot = self.selection[place].clone();
                Heard::Status(slot, Box::new(status), ticks.map(|ticks| Base::Stream(ticks, now)))
            }
            Some(Wire::NotFound(v1::NotFound { name, nearest })) => {
                let Some(place) = place(&name) else { return Heard::Nothing };
                standing[place] = Standing::Absent;
                Heard::Absent(self.selection[place].clone(), nearest)
            }
            Some(Wire::Deleted(v1::Deleted { name, version })) => {
                let Some(place) = place(&name) else { return Heard::Nothing };
                standing[place] = Standing::Absent;
                let version: Version = version.map(Into::into).unwrap_or_default();
                self.selection[place].tell(|cell, now| cell.deleted(version, now));
                Heard::All
            }
            Some(Wire::Unavailable(v1::Unavailable { name, .. })) => {
                let Some(place) = place(&name) else { return Heard::Nothing };
                standing[place] = Standing::Doubtful;
                self.selection[place].tell(|cell, now| cell.unavailable(now));
                Heard::All
            }
            Some(Wire::Reset(_)) => {
                *resumed = false;
                standing.fill(Standing::Unsaid);
                tell(&self.selection, |cell, now| cell.reset(now));
                Heard::All
            }
            Some(Wire::SnapshotComplete(v1::SnapshotComplete { ttl, resume, .. })) => {
                self.resume = resume;
                (*complete, self.attempts) = (true, 0);
                for (standing, slot) in standing.iter_mut().zip(&self.selection) {
                    // A resumed stream only says what has changed: the rest is as it was.
                    match (*standing, *resumed) {
                        (Standing::Unsaid, true) => *standing = Standing::Delivered,
                        // The snapshot is whole, so that what is not in it is gone.
                        (Standing::Unsaid, false) => {
                            *standing = Standing::Absent;
                            slot.tell(|cell, now| cell.forget(now));
                        }
                        _ => {}
                    }
                }
                vouch(&self.selection, standing, wire::span(ttl.as_ref()));
                Heard::Complete
            }
            Some(Wire::Bookmark(v1::Bookmark { ttl, resume, .. })) => {
                if *complete {
                    self.resume = resume;
                    vouch(&self.selection, standing, wire::span(ttl.as_ref()));
                }
                Heard::All
            }
            Some(Wire::Draining(v1::Draining { ttl, reconnect_after, resume, .. })) => {
                if !resume.is_empty() {
                    self.resume = resume;
                }
                *leave_at = Some(now.plus(wire::span(reconnect_after.as_ref()).unwrap_or_default()));
                let ttl = wire::span(ttl.as_ref());
                tell(&self.selection, |cell, now| cell.draining(ttl, now));
                Heard::All
            }
            // A message of a later version of the contract: it shows that the stream is alive.
            None => Heard::Nothing,
        }
    }
}

fn tell<S: Subject>(selection: &[S], what: impl Fn(&mut Cell, Timestamp)) {
    for slot in selection {
        slot.tell(&what);
    }
}

fn vouch<S: Subject>(selection: &[S], standing: &[Standing], ttl: Option<Duration>) {
    for (slot, standing) in selection.iter().zip(standing) {
        if *standing == Standing::Delivered {
            slot.tell(|cell, now| cell.vouched(ttl, now));
        }
    }
}
