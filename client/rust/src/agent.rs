//! The client's own thread. It moves messages between the cells and the server, and decides nothing about calls.

mod connect;
mod events;
mod log;
mod probe;
mod ready;
mod report;
mod schedule;
mod streams;
#[cfg(test)]
mod vectors;
mod watch;

use std::{io, sync::Arc};

use panelboard_core::Timestamp;
use panelboard_proto::v1::breaker_service_client::BreakerServiceClient;
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};

use crate::{
    cache::Cache,
    cell::Cell,
    dice::Dice,
    identity::Identity,
    limits::{LOOK, MESSAGE_BYTES_MAX, RECONNECT_MIN, SHUTDOWN_TIMEOUT},
    metrics::AgentMeter,
    post::Post,
    slot::Slot,
};

pub(crate) use connect::endpoint;
use events::Event;
use log::Log;
use ready::Readies;
use report::Reports;
use schedule::Schedule;
use streams::Streams;

/// What the agent is told at its start.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) url: String,
    pub(crate) endpoint: Endpoint,
    pub(crate) identity: Identity,
    pub(crate) cache: Option<Cache>,
    pub(crate) seed: u64,
}

/// Starts the thread.
pub(crate) fn start(told: Told, post: Arc<Post>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread = std::thread::Builder::new().name("panelboard-client".into());
    thread.spawn(move || runtime.block_on(Agent::new(told, post).run()))?;
    Ok(())
}

struct Agent {
    told: Told,
    post: Arc<Post>,
    dice: Dice,
    sender: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    channel: Option<Channel>,
    slots: Vec<Arc<Slot>>,
    /// When to look at all slots for what was counted there.
    sweep_at: Timestamp,
    /// Slots to look at now.
    touched: Vec<Arc<Slot>>,
    schedule: Schedule,
    streams: Streams,
    reports: Reports,
    readies: Readies,
    log: Log,
    meter: AgentMeter,
}

/// Events that wait to be handled. A stream that fills it waits, and with it the server's flow control.
const EVENTS_MAX: usize = 256;

impl Agent {
    fn new(told: Told, post: Arc<Post>) -> Self {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        Self {
            dice: Dice::named(told.seed, "agent"),
            log: Log::new(told.url.clone()),
            told,
            post,
            sender,
            events,
            channel: None,
            slots: Vec::new(),
            sweep_at: Timestamp::ZERO,
            touched: Vec::new(),
            schedule: Schedule::default(),
            streams: Streams::default(),
            reports: Reports::default(),
            readies: Readies::default(),
            meter: AgentMeter::new(),
        }
    }

    async fn run(mut self) {
        loop {
            let ending = self.read_mail();
            if ending {
                return self.end().await;
            }
            self.keep_streams();
            self.sweep();
            self.step_due();
            self.answer_readies();
            let post = Arc::clone(&self.post);
            let wake = self.wake_at().map(|at| post.clock.instant(at).into());
            tokio::select! {
                // The agent holds a sender itself, so that this never ends.
                Some(event) = self.events.recv() => {
                    self.handle(event);
                    // What else is there already is handled in the same round.
                    while let Ok(event) = self.events.try_recv() {
                        self.handle(event);
                    }
                }
                () = post.notify.notified() => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Reads what handles and permits have left. True if the client ends.
    fn read_mail(&mut self) -> bool {
        let now = self.now();
        let mail = self.post.take();
        self.touched.extend(mail.due);
        self.slots.extend(mail.made.iter().cloned());
        self.streams.made(mail.made, now);
        self.readies.add(mail.readies, now);
        self.readies.ended.extend(mail.ended);
        mail.ending
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Heard { stream, message } => self.on_heard(stream, *message),
            Event::Ended { stream, status } => self.on_ended(stream, status),
            Event::Reported { sent, result } => self.on_reported(sent, result),
            Event::Acquired { slot, result } => self.on_acquired(&slot, result.map(|answer| *answer)),
        }
    }

    /// Finds the cells whose threads have counted something.
    fn sweep(&mut self) {
        let now = self.now();
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now.plus(LOOK);
        self.touched.extend(self.slots.iter().filter(|slot| slot.is_dirty()).cloned());
        self.slots.iter().for_each(|slot| slot.meter.ages(now));
    }

    /// Steps all cells that have something due, and sends what they say in as few messages as there can be.
    fn step_due(&mut self) {
        let now = self.now();
        let mut due = std::mem::take(&mut self.touched);
        due.extend(self.schedule.due(now));
        for slot in due {
            let may_send = self.may_send();
            let (step, next) = slot.step(may_send);
            if let Some((from, to)) = step.turned {
                self.log.turned(from, to);
            }
            if let Some(entry) = step.report {
                self.reports.batch(Arc::clone(&slot), entry);
            }
            if step.ask {
                self.ask(&slot);
            }
            match next {
                // It has something to say, but must wait for others to have their answers.
                Some(next) if next <= now && !may_send => self.reports.later(slot),
                // Nothing is due again so soon; should it be, this is no hot loop.
                Some(next) => {
                    self.schedule.put(slot, next.max(now.plus(std::time::Duration::from_millis(1))))
                }
                None => self.schedule.forget(&slot),
            }
        }
        self.send_reports();
    }

    fn wake_at(&self) -> Option<Timestamp> {
        if !self.touched.is_empty() {
            return Some(self.now());
        }
        let sweep = (!self.slots.is_empty()).then_some(self.sweep_at);
        [self.schedule.next(), self.streams.next(), self.readies.next(), sweep].into_iter().flatten().min()
    }

    fn now(&self) -> Timestamp {
        self.post.clock.now()
    }

    /// The newest connection, if there ever was one.
    fn client(&self) -> Option<BreakerServiceClient<Channel>> {
        self.channel.clone().map(stub)
    }

    /// The last flush, bounded: what was recorded while FRESH is sent, and probes go back.
    async fn end(mut self) {
        let until = self.now().plus(SHUTDOWN_TIMEOUT);
        while self.now() < until {
            for slot in self.slots.clone() {
                if let Some(entry) = slot.with(|cell, now| cell.close(now)) {
                    self.reports.batch(slot, entry);
                }
            }
            self.send_reports();
            if self.reports.are_idle() {
                break;
            }
            let wake = self.post.clock.instant(until).into();
            tokio::select! {
                Some(event) = self.events.recv() => self.handle(event),
                () = sleep_until(Some(wake)) => {}
            }
        }
        // Whoever waits for the end is told when this is dropped.
    }
}

impl Drop for Agent {
    /// However the agent ends, nobody waits for it any more.
    fn drop(&mut self) {
        let left = self.post.close();
        for slot in self.slots.iter().chain(&left.made).chain(&left.due) {
            slot.dismiss();
            slot.with(Cell::ended);
            slot.meter.ages(self.post.clock.now());
        }
        self.streams.abort();
    }
}

fn stub(channel: Channel) -> BreakerServiceClient<Channel> {
    BreakerServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

async fn sleep_until(wake: Option<tokio::time::Instant>) {
    match wake {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// How long to wait before the `attempt`th try after the last success: full jitter, growing, under the time for
/// which an answer stays STALE.
fn backoff(dice: &mut Dice, attempt: u32) -> std::time::Duration {
    let most = RECONNECT_MIN * 2_u32.saturating_pow(attempt.min(8) + 1);
    dice.between(RECONNECT_MIN, most.min(crate::limits::RECONNECT_MAX))
}
