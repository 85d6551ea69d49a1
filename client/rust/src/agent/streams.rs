//! All streams of the client: opened, replaced, merged and opened again.

use std::{sync::Arc, time::Duration};

use panelboard_core::Timestamp;
use panelboard_proto::v1;
use prost::bytes::Bytes;
use tokio::sync::mpsc;
use tonic::{Code, Status, transport::Channel};

use super::{
    Agent,
    events::Event,
    probe::is_passing,
    watch::{Heard, Link, Stream},
};
use crate::{
    cell::Source,
    dice::Dice,
    limits::{DEBOUNCE, NAMES_PER_STREAM_MAX, RECONNECT_MAX, STREAMS_MAX, WATCH_TIMEOUT},
    slot::Slot,
    wire,
};

#[derive(Debug, Default)]
pub(super) struct Streams {
    all: Vec<Stream>,
    last_id: u64,
    /// Breakers that no stream selects yet.
    made: Vec<Arc<Slot>>,
    /// When they get one: handles are often made one after the other.
    select_at: Option<Timestamp>,
    /// A stream has delivered all there is, once at least.
    ever_complete: bool,
}

impl Streams {
    pub(super) fn made(&mut self, slots: Vec<Arc<Slot>>, now: Timestamp) {
        if slots.is_empty() {
            return;
        }
        self.made.extend(slots);
        self.select_at.get_or_insert(now.plus(DEBOUNCE));
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        let streams = self.all.iter().map(Stream::next).min();
        [streams, self.select_at].into_iter().flatten().min()
    }

    pub(super) fn abort(&mut self) {
        for stream in self.all.drain(..) {
            if let Link::Up { task, .. } = stream.link {
                task.abort();
            }
        }
    }

    fn get(&mut self, id: u64) -> Option<&mut Stream> {
        self.all.iter_mut().find(|stream| stream.id == id)
    }

    fn add(&mut self, selection: Vec<Arc<Slot>>, resume: Bytes, replaces: Vec<u64>) {
        self.last_id += 1;
        self.all.push(Stream::new(self.last_id, selection, resume, replaces));
    }

    /// Selects the breakers that are new. If that makes too many streams, one that has all of theirs replaces them.
    fn select_made(&mut self) {
        self.select_at = None;
        let mut made = std::mem::take(&mut self.made);
        let mut replaces = Vec::new();
        if self.all.len() >= STREAMS_MAX {
            let mut names = made.len();
            for stream in &self.all {
                names += stream.selection.len();
                if names > NAMES_PER_STREAM_MAX {
                    break;
                }
                made.extend(stream.selection.iter().cloned());
                replaces.push(stream.id);
            }
        }
        while !made.is_empty() {
            let rest = made.split_off(made.len().min(NAMES_PER_STREAM_MAX));
            let selection = std::mem::replace(&mut made, rest);
            self.add(selection, Bytes::new(), std::mem::take(&mut replaces));
        }
    }

    /// Streams that are replaced and are down already are not opened again.
    fn drop_replaced_and_down(&mut self) {
        let replaced: Vec<u64> = self.all.iter().flat_map(|stream| stream.replaces.clone()).collect();
        self.all.retain(|stream| !(stream.is_down() && replaced.contains(&stream.id)));
    }

    /// The stream that is to be opened now, with all that fits of the others that are down.
    fn take_due(&mut self, now: Timestamp) -> Option<Stream> {
        let is_due = |stream: &Stream| matches!(stream.link, Link::Down { retry_at } if now >= retry_at);
        let place = self.all.iter().position(is_due)?;
        let mut due = self.all.swap_remove(place);
        let mut others = Vec::new();
        for stream in std::mem::take(&mut self.all) {
            let fits = due.selection.len() + stream.selection.len() <= NAMES_PER_STREAM_MAX;
            if stream.is_down() && fits && due.replaces.is_empty() && stream.replaces.is_empty() {
                due.absorb(stream);
            } else {
                others.push(stream);
            }
        }
        self.all = others;
        Some(due)
    }

    /// Whether another stream still speaks for the breakers of this one.
    fn is_covered(&self, stream: &Stream) -> bool {
        let speaks = |other: &Stream| other.is_complete() && other.id != stream.id;
        self.all.iter().any(|other| {
            speaks(other) && (stream.replaces.contains(&other.id) || other.replaces.contains(&stream.id))
        })
    }
}

impl Agent {
    /// Opens what is to be opened, leaves what is to be left.
    pub(super) fn keep_streams(&mut self) {
        let now = self.now();
        if self.streams.select_at.is_some_and(|at| now >= at) {
            self.streams.select_made();
        }
        for id in self.streams.all.iter().map(|stream| stream.id).collect::<Vec<_>>() {
            self.keep_stream(id, now);
        }
        self.streams.drop_replaced_and_down();
        while let Some(stream) = self.streams.take_due(now) {
            self.open(stream, now);
        }
    }

    fn keep_stream(&mut self, id: u64, now: Timestamp) {
        let Some(stream) = self.streams.get(id) else { return };
        if now >= stream.mute_at() {
            if let Link::Up { task, .. } = &stream.link {
                task.abort();
            }
            self.on_ended(id, Some(Status::deadline_exceeded("the stream is silent")));
        } else if stream.leave_now(now) {
            let (selection, resume) = (stream.selection.clone(), stream.resume.clone());
            self.streams.add(selection, resume, vec![id]);
        }
    }

    fn open(&mut self, mut stream: Stream, now: Timestamp) {
        self.meter.opens(stream.attempts);
        // A new connection, unless another stream shows that the one there is works: what made a stream end may
        // be the connection, and the server may have moved.
        let works = stream.replaces.is_empty() && self.streams.all.iter().any(Stream::is_complete);
        let channel = match self.channel.clone().filter(|_| works) {
            Some(channel) => channel,
            None => self.told.endpoint.connect_lazy(),
        };
        self.channel = Some(channel.clone());
        let request = v1::WatchRequest {
            client: Some(wire::client(&self.told.identity)),
            breakers: stream.selection.iter().map(|slot| slot.name.as_str().to_owned()).collect(),
            resume: stream.resume.clone(),
        };
        let task = tokio::spawn(watch(channel, request, stream.id, self.sender.clone()));
        stream.opened(task.abort_handle(), now);
        self.streams.all.push(stream);
    }

    pub(super) fn on_heard(&mut self, id: u64, message: v1::WatchResponse) {
        let now = self.now();
        let Some(stream) = self.streams.get(id) else { return };
        match stream.hear(message, now) {
            Heard::Nothing => {}
            Heard::Status(slot, status, base) => self.apply(&slot, &status, base, Source::Stream),
            Heard::Absent(slot, nearest) => self.not_found(&slot, &nearest),
            Heard::Complete => {
                let replaces = std::mem::take(&mut stream.replaces);
                self.touched.extend(stream.selection.iter().cloned());
                for id in replaces {
                    self.leave(id);
                }
                self.streams.ever_complete = true;
                self.log.complete();
            }
            Heard::All => self.touched.extend(stream.selection.iter().cloned()),
        }
    }

    /// Leaves a stream whose breakers another one has.
    fn leave(&mut self, id: u64) {
        if let Some(place) = self.streams.all.iter().position(|stream| stream.id == id)
            && let Link::Up { task, .. } = self.streams.all.swap_remove(place).link
        {
            task.abort();
        }
    }

    pub(super) fn on_ended(&mut self, id: u64, status: Option<Status>) {
        let now = self.now();
        let Some(place) = self.streams.all.iter().position(|stream| stream.id == id) else { return };
        let mut stream = self.streams.all.swap_remove(place);
        let Link::Up { leave_at, .. } = stream.link else { return self.streams.all.push(stream) };
        if !self.streams.is_covered(&stream) {
            for slot in &stream.selection {
                slot.with(|cell, now| cell.lost(now));
            }
            self.touched.extend(stream.selection.iter().cloned());
        }
        if let Some(status) = &status
            && !is_passing(status.code())
        {
            self.log.complain("to be watched", status);
            if status.code() == Code::InvalidArgument {
                // Perhaps it is the token that is wrong.
                stream.resume.clear();
            }
        }
        self.log.broke(status.as_ref(), self.streams.ever_complete);
        let delay = delay(&mut self.dice, stream.attempts, status.as_ref().map(Status::code));
        stream.attempts = stream.attempts.saturating_add(1);
        // The server said when to come back.
        let retry_at = leave_at.unwrap_or(now.plus(delay));
        stream.link = Link::Down { retry_at };
        self.streams.all.push(stream);
    }
}

/// How long to wait before the next try. A refusal that no repetition will better is repeated seldom.
pub(super) fn delay(dice: &mut Dice, attempts: u32, code: Option<Code>) -> Duration {
    match code {
        Some(code) if !is_passing(code) || code == Code::ResourceExhausted => {
            dice.between(RECONNECT_MAX / 2, RECONNECT_MAX)
        }
        _ => super::backoff(dice, attempts),
    }
}

/// Reads one stream to its end.
async fn watch(channel: Channel, request: v1::WatchRequest, stream: u64, events: mpsc::Sender<Event>) {
    let mut client = super::stub(channel);
    let opened = tokio::time::timeout(WATCH_TIMEOUT, client.watch(request)).await;
    let status = match opened {
        Err(_) => Some(Status::deadline_exceeded("no answer to Watch")),
        Ok(Err(status)) => Some(status),
        Ok(Ok(response)) => {
            let mut messages = response.into_inner();
            loop {
                match messages.message().await {
                    Ok(Some(message)) => {
                        let heard = Event::Heard { stream, message: Box::new(message) };
                        if events.send(heard).await.is_err() {
                            // The client has ended.
                            return;
                        }
                    }
                    Ok(None) => break None,
                    Err(status) => break Some(status),
                }
            }
        }
    };
    // A closed channel says that the client has ended.
    drop(events.send(Event::Ended { stream, status }).await);
}
