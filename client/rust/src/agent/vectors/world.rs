//! A client in the world of a script: its cells and its streams, and no clock, thread or socket but the script's.

use std::{
    cell::{Cell as Shared, RefCell},
    collections::{BTreeMap, VecDeque},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use panelboard_core::{BreakerName, Instance, Policy, PolicySpec, Timestamp};
use panelboard_proto::v1::{self, watch_response::Event};
use tonic::Code;

use super::{
    message,
    script::{
        AcquireAnswered, Call, Connect, Draining, Ended, Op, ReportAnswered, Script, Started, StatusArgs,
        Step, Vouched,
    },
};
use crate::{
    agent::{
        backoff,
        probe::decided,
        report::{answered, refused},
        streams::delay,
        watch::{Heard, Link, Stream, Subject},
    },
    cell::{Ask, Cell, Door, Setup, Source, Ticket},
    dice::Dice,
    fact::Said,
    limits::WAITERS_MAX,
    rejected::Reason,
    wire::{self, Base},
};

/// A server's clock is so far ahead of a script's, unless a message says otherwise.
const TICKS_AHEAD: u64 = 1_000_000;
/// More work at one instant than this is a client that spins.
const ROUNDS_MAX: u32 = 10_000;

/// A script is no load test.
const REPEAT_MAX: u32 = 10_000;

/// One breaker of the client, at the script's time.
#[derive(Clone)]
pub(super) struct Handle(Rc<Inner>);

struct Inner {
    name: BreakerName,
    cell: RefCell<Cell>,
    now: Rc<Shared<Timestamp>>,
    seen: RefCell<Seen>,
}

/// What a breaker did that a script can look at, since it looked last; and the calls that wait for a probe.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) asks: Vec<Timestamp>,
    pub(super) reports: Vec<(Timestamp, v1::ReportEntry)>,
    waiters: VecDeque<(String, Timestamp)>,
}

impl Subject for Handle {
    fn name(&self) -> &BreakerName {
        &self.0.name
    }

    fn tell(&self, what: impl FnOnce(&mut Cell, Timestamp)) {
        self.with(what);
    }
}

impl Handle {
    pub(super) fn with<T>(&self, what: impl FnOnce(&mut Cell, Timestamp) -> T) -> T {
        what(&mut self.0.cell.borrow_mut(), self.0.now.get())
    }

    pub(super) fn seen<T>(&self, what: impl FnOnce(&mut Seen) -> T) -> T {
        what(&mut self.0.seen.borrow_mut())
    }

    fn due(&self) -> Option<Timestamp> {
        let waits = self.seen(|seen| seen.waiters.iter().map(|(_, until)| *until).min());
        [self.with(|cell, _| cell.due()), waits].into_iter().flatten().min()
    }

    /// The one place where outcomes get into a cell.
    fn record(&self, ticket: Ticket, ended: &Ended, took: Duration, retry_after: Option<Duration>) {
        self.with(|cell, now| cell.record(ticket, said(ended), took, retry_after, now));
    }
}

fn said(ended: &Ended) -> Said<'_> {
    match ended {
        Ended::Success => Said::Success,
        Ended::Failure => Said::Failure("other"),
        Ended::FailureBy(cause) => Said::Failure(cause),
        Ended::Ignored => Said::Ignored(None),
        Ended::IgnoredBy(cause) => Said::Ignored(Some(cause)),
        Ended::Abandoned => Said::Abandoned,
        Ended::HttpStatus(status) => Said::Fact(panelboard_core::Fact::HttpStatus(*status)),
        Ended::GrpcCode(code) => Said::Fact(panelboard_core::Fact::GrpcCode(*code)),
        Ended::TimedOut => Said::Fact(panelboard_core::Fact::TimedOut),
        Ended::Cause(cause) => Said::Fact(panelboard_core::Fact::Cause(cause)),
    }
}

/// What became of asking for leave to make a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decision {
    Admitted(Ticket),
    Rejected { reason: Reason, retry_after: Option<Duration> },
    Waiting,
}

/// What a step did, apart from what its breaker shows.
#[derive(Default)]
pub(super) struct Done {
    pub(super) decisions: Vec<Decision>,
    /// When the client opens another stream.
    pub(super) connects_at: Option<Timestamp>,
    /// The token that it sent.
    pub(super) resume: Option<String>,
}

pub(super) struct World {
    now: Rc<Shared<Timestamp>>,
    breakers: Vec<Handle>,
    streams: BTreeMap<String, Stream<Handle>>,
    calls: BTreeMap<String, (Handle, Decision)>,
    dice: Dice,
    reports_failed: u32,
    connects_at: Option<Timestamp>,
    runtime: tokio::runtime::Runtime,
}

impl World {
    pub(super) fn new(script: &Script, seed: u64) -> Result<Self, String> {
        let now = Rc::new(Shared::new(Timestamp::ZERO));
        let client = &script.client;
        let policy = match client.without_policy {
            false => message::policy(&client.policy)?,
            true => Policy::try_new(PolicySpec::default(), 0).map_err(|wrong| wire::sentence(&wrong))?,
        };
        let policy = Arc::new(policy);
        let mut breakers = Vec::new();
        for name in &script.breakers {
            let setup = Setup {
                me: Instance::new(&client.service, &client.instance),
                policy: Arc::clone(&policy),
                active_instances: 1,
                on_disconnect: client.on_disconnect.map(message::on_disconnect),
                seed: Dice::named(seed, name).next(),
            };
            breakers.push(Handle(Rc::new(Inner {
                name: BreakerName::parse(name).map_err(|error| format!("breaker {name:?}: {error}"))?,
                cell: RefCell::new(Cell::new(setup, Timestamp::ZERO)),
                now: Rc::clone(&now),
                seen: RefCell::default(),
            })));
        }
        if breakers.is_empty() {
            return Err("it has no breakers: leave them away for one, or name some".into());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|e| e.to_string())?;
        let (streams, calls, dice) = (BTreeMap::new(), BTreeMap::new(), Dice::new(seed));
        Ok(Self { now, breakers, streams, calls, dice, reports_failed: 0, connects_at: None, runtime })
    }

    fn now(&self) -> Timestamp {
        self.now.get()
    }

    /// The breaker that a step is about; none: not one of the client's.
    fn find(&self, name: &str) -> Option<Handle> {
        self.breakers.iter().find(|handle| handle.name().as_str() == name).cloned()
    }

    pub(super) fn breaker(&self, step: &Step) -> Result<Handle, String> {
        let Some(name) = &step.breaker else { return Ok(self.breakers[0].clone()) };
        self.find(name).ok_or_else(|| format!("breaker {name:?} is not one of the script's"))
    }

    /// The breaker whose freshness and sendings a step looks at: its own, or the first.
    pub(super) fn shown(&self, step: &Step) -> Result<Handle, String> {
        match &step.breaker {
            // A server may name one that the client never asked for.
            Some(name) => Ok(self.find(name).unwrap_or_else(|| self.breakers[0].clone())),
            None => self.breaker(step),
        }
    }

    // Time.

    /// Does what is due, each at its time, up to and with `to`.
    pub(super) fn advance(&mut self, to: Timestamp) -> Result<(), String> {
        if to < self.now() {
            return Err(format!(
                "its time is {} ms, before the {} ms of the step before",
                to.as_millis(),
                self.now().as_millis()
            ));
        }
        let mut rounds = 0;
        while let Some(next) = self.next().filter(|next| *next <= to) {
            let before = self.now();
            self.now.set(next.max(before));
            self.settle()?;
            rounds = if self.now() == before { rounds + 1 } else { 0 };
            if rounds > ROUNDS_MAX {
                return Err(format!("the client spins at {} ms", before.as_millis()));
            }
        }
        self.now.set(to);
        self.settle()
    }

    fn next(&self) -> Option<Timestamp> {
        let mute = self.streams.values().filter(|stream| !stream.is_down()).map(Stream::mute_at);
        self.breakers.iter().filter_map(Handle::due).chain(mute).min()
    }

    /// What the client's own thread does when it looks.
    fn settle(&mut self) -> Result<(), String> {
        let now = self.now();
        let is_mute = |stream: &Stream<Handle>| !stream.is_down() && now >= stream.mute_at();
        let mute = self.streams.iter().filter(|(_, stream)| is_mute(stream)).map(|(name, _)| name.clone());
        for name in mute.collect::<Vec<_>>() {
            self.lose(&name, Some(Code::DeadlineExceeded))?;
        }
        for handle in self.breakers.clone() {
            for _ in 0..ROUNDS_MAX {
                let step = handle.with(|cell, now| cell.step(now, true));
                handle.seen(|seen| {
                    seen.asks.extend(step.ask.then_some(now));
                    let entry = step.report.map(|entry| (now, wire::entry(handle.name().as_str(), &entry)));
                    seen.reports.extend(entry);
                });
                self.serve(&handle);
                if handle.due().is_none_or(|due| due > now) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Serves the calls that wait for a probe, in order, as far as there is an answer.
    fn serve(&mut self, handle: &Handle) {
        while let Some((call, until)) = handle.seen(|seen| seen.waiters.front().cloned()) {
            let (decided, waits) = handle.with(|cell, now| {
                let decided = cell.admit(now);
                let waits = match (&decided, cell.is_asking()) {
                    (Ok(_), _) | (_, Ask::Idle) => false,
                    (_, Ask::InFlight) => now < until,
                    (_, Ask::At(at)) => now < until && at <= until,
                };
                (decided, waits)
            });
            if waits {
                return;
            }
            handle.seen(|seen| seen.waiters.pop_front());
            let decision = match decided {
                Ok(ticket) => Decision::Admitted(ticket),
                Err(refusal) => {
                    handle.with(Cell::rejected);
                    Decision::Rejected { reason: refusal.reason, retry_after: refusal.retry_after }
                }
            };
            self.calls.insert(call, (handle.clone(), decision));
        }
    }

    // Steps.

    pub(super) fn apply(&mut self, step: &Step, op: &Op) -> Result<Done, String> {
        let mut done = self.act(step, op)?;
        self.settle()?;
        done.connects_at = self.connects_at;
        Ok(done)
    }

    fn act(&mut self, step: &Step, op: &Op) -> Result<Done, String> {
        let mut done = Done::default();
        let name = step.breaker.clone().unwrap_or_else(|| self.breakers[0].name().as_str().to_owned());
        let stream = step.stream.as_str();
        match op {
            Op::Connect(connect) => done.resume = Some(self.connect(stream, connect)?),
            Op::Started(started) => self.hear(stream, Event::Started(self.started(started)))?,
            Op::Status(status) => self.hear(stream, Event::Status(message::status(&name, status)?))?,
            Op::SnapshotComplete(vouched) => {
                let v1::Bookmark { tick, ttl, resume } = self.vouched(vouched);
                self.hear(stream, Event::SnapshotComplete(v1::SnapshotComplete { tick, ttl, resume }))?;
            }
            Op::Bookmark(vouched) => self.hear(stream, Event::Bookmark(self.vouched(vouched)))?,
            Op::Deleted(deleted) => {
                let version = Some(message::version(deleted.version));
                self.hear(stream, Event::Deleted(v1::Deleted { name, version }))?;
            }
            Op::NotFound(_) => {
                self.hear(stream, Event::NotFound(v1::NotFound { name, ..v1::NotFound::default() }))?;
            }
            Op::Unavailable(_) => {
                let unavailable = v1::Unavailable { name, ..v1::Unavailable::default() };
                self.hear(stream, Event::Unavailable(unavailable))?;
            }
            Op::Reset(_) => self.hear(stream, Event::Reset(v1::Reset::default()))?,
            Op::Draining(draining) => self.drain(stream, draining)?,
            Op::UnknownMessage(_) => self.hear_message(stream, v1::WatchResponse { event: None })?,
            Op::StreamLost(lost) => {
                let code = lost.code.as_deref().map(message::code).transpose()?;
                self.lose(stream, code)?;
            }
            Op::Snapshot(status) => self.snapshot(stream, &name, status)?,
            Op::Acquire(acquire) => {
                let handle = self.breaker(step)?;
                let decision = self.acquire(&handle, &acquire.call, acquire.wait_ms)?;
                done.decisions.push(decision);
            }
            Op::Observe(observe) => {
                let (_, decision) = self.calls.get(&observe.call).ok_or("there was no such call")?;
                done.decisions.push(*decision);
            }
            Op::Outcome(outcome) => {
                let (handle, decision) = self.calls.get(&outcome.call).ok_or("there was no such call")?;
                let Decision::Admitted(ticket) = decision else {
                    return Err(format!("the call {:?} was not admitted", outcome.call));
                };
                let took = Duration::from_millis(outcome.took_ms);
                let retry_after = outcome.retry_after_ms.map(Duration::from_millis);
                handle.record(*ticket, &outcome.result, took, retry_after);
            }
            Op::Call(call) if call.repeat > REPEAT_MAX => {
                return Err(format!("repeat {} is more than {REPEAT_MAX}", call.repeat));
            }
            Op::Call(call) => self.call(&self.breaker(step)?, call, &mut done),
            Op::AcquireAnswered(answer) => self.acquire_answered(&self.breaker(step)?, &name, answer)?,
            Op::ReportAnswered(answer) => self.report_answered(&self.breaker(step)?, &name, answer)?,
            Op::End(_) => self.end(),
            Op::Advance(_) => {}
        }
        Ok(done)
    }

    // Streams.

    fn stream(&mut self, name: &str) -> Result<&mut Stream<Handle>, String> {
        let known = self.streams.get_mut(name).filter(|stream| !stream.is_down());
        known.ok_or_else(|| format!("the stream {name:?} is not open: connect it first"))
    }

    /// Opens a stream. Returns the token that goes with it.
    fn connect(&mut self, name: &str, connect: &Connect) -> Result<String, String> {
        let now = self.now();
        let task = self.runtime.spawn(async {}).abort_handle();
        if !self.streams.contains_key(name) {
            let id = self.streams.len() as u64 + 1;
            let fresh = match &connect.replaces {
                None => Stream::new(id, self.breakers.clone(), Vec::new().into(), Vec::new()),
                Some(old) => {
                    let old = self.stream(old)?;
                    Stream::new(id, old.selection.clone(), old.resume.clone(), vec![old.id])
                }
            };
            self.streams.insert(name.into(), fresh);
        }
        let stream = self.streams.get_mut(name).ok_or("no stream")?;
        if !stream.is_down() {
            return Err(format!("the stream {name:?} is open already"));
        }
        stream.opened(task, now);
        self.connects_at = None;
        let stream = &self.streams[name];
        Ok(String::from_utf8_lossy(&stream.resume).into_owned())
    }

    fn hear(&mut self, stream: &str, event: Event) -> Result<(), String> {
        self.hear_message(stream, v1::WatchResponse { event: Some(event) })
    }

    fn hear_message(&mut self, name: &str, message: v1::WatchResponse) -> Result<(), String> {
        let now = self.now();
        let stream = self.stream(name)?;
        match stream.hear(message, now) {
            Heard::Status(handle, status, base) => apply(&handle, &status, base, Source::Stream),
            Heard::Absent(handle, _) => {
                handle.with(Cell::not_found);
            }
            Heard::Complete => {
                let replaces = std::mem::take(&mut stream.replaces);
                self.streams.retain(|_, stream| !replaces.contains(&stream.id));
            }
            Heard::Nothing | Heard::All => {}
        }
        Ok(())
    }

    /// The end of a stream.
    fn lose(&mut self, name: &str, code: Option<Code>) -> Result<(), String> {
        let now = self.now();
        let stream = self.stream(name)?;
        let Link::Up { leave_at, .. } = stream.link else { return Ok(()) };
        let (id, attempts) = (stream.id, stream.attempts);
        for handle in &stream.selection {
            handle.with(Cell::lost);
        }
        if code == Some(Code::InvalidArgument) {
            stream.resume.clear();
        }
        stream.attempts += 1;
        let retry_at = leave_at.unwrap_or(now.plus(delay(&mut self.dice, attempts, code)));
        if let Some(stream) = self.streams.values_mut().find(|stream| stream.id == id) {
            stream.link = Link::Down { retry_at };
        }
        self.connects_at = Some(retry_at);
        Ok(())
    }

    fn drain(&mut self, stream: &str, draining: &Draining) -> Result<(), String> {
        let message = v1::Draining {
            tick: self.tick(draining.tick),
            ttl: draining.ttl_ms.map(message::span),
            reconnect_after: Some(message::span(draining.reconnect_after_ms.cast_signed())),
            resume: draining.resume.clone().into_bytes().into(),
        };
        self.hear(stream, Event::Draining(message))?;
        self.connects_at = Some(self.stream(stream)?.next());
        Ok(())
    }

    fn snapshot(&mut self, stream: &str, name: &str, status: &StatusArgs) -> Result<(), String> {
        self.connect(stream, &Connect { replaces: None })?;
        let epoch = status.version.unwrap_or(status.generation)[0];
        let started = Started { epoch: Some(epoch), ..Started::default() };
        self.hear(stream, Event::Started(self.started(&started)))?;
        self.hear(stream, Event::Status(message::status(name, status)?))?;
        let v1::Bookmark { tick, ttl, resume } =
            self.vouched(&Vouched { ttl_ms: Some(10_000), ..Vouched::default() });
        self.hear(stream, Event::SnapshotComplete(v1::SnapshotComplete { tick, ttl, resume }))
    }

    fn tick(&self, tick: Option<u64>) -> u64 {
        tick.unwrap_or(self.now().as_millis() + TICKS_AHEAD)
    }

    fn started(&self, args: &Started) -> v1::Started {
        let Started { tick, epoch, resumed } = *args;
        v1::Started { tick: self.tick(tick), epoch: epoch.unwrap_or(1), resumed }
    }

    fn vouched(&self, args: &Vouched) -> v1::Bookmark {
        v1::Bookmark {
            tick: self.tick(args.tick),
            ttl: args.ttl_ms.map(message::span),
            resume: args.resume.clone().into_bytes().into(),
        }
    }

    // Calls.

    fn decide(&self, handle: &Handle) -> Result<Ticket, crate::cell::Refusal> {
        handle.with(|cell, now| {
            let ((door, _), stretch) = (cell.door(now), cell.stretch());
            let decided = cell.admit(now);
            // What needs no closer look is what a closer look would have said.
            match (door, &decided) {
                (Door::Open { counted }, decided) => {
                    let ticket = Ticket { stretch, counted, probe: None };
                    assert_eq!(*decided, Ok(ticket), "the door and the closer look disagree");
                }
                (Door::Shut { reason, .. }, decided) => {
                    let refused = decided.as_ref().map_err(|refusal| refusal.reason);
                    assert_eq!(refused, Err(reason), "the door and the closer look disagree");
                }
                (Door::Closer, _) => {}
            }
            decided
        })
    }

    fn acquire(&mut self, handle: &Handle, call: &str, wait_ms: u64) -> Result<Decision, String> {
        if self.calls.contains_key(call) {
            return Err(format!("there is a call {call:?} already: each has a name of its own"));
        }
        let until = self.now().plus(Duration::from_millis(wait_ms));
        let decision = match self.decide(handle) {
            Ok(ticket) => Decision::Admitted(ticket),
            Err(refusal) if wait_ms > 0 && refusal.asked_at.is_some_and(|at| at <= until) => {
                handle.seen(|seen| {
                    assert!(seen.waiters.len() < WAITERS_MAX, "a script with too many calls that wait");
                    seen.waiters.push_back((call.into(), until));
                });
                Decision::Waiting
            }
            Err(refusal) => {
                handle.with(Cell::rejected);
                Decision::Rejected { reason: refusal.reason, retry_after: refusal.retry_after }
            }
        };
        self.calls.insert(call.into(), (handle.clone(), decision));
        Ok(decision)
    }

    fn call(&self, handle: &Handle, call: &Call, done: &mut Done) {
        for _ in 0..call.repeat {
            done.decisions.push(match self.decide(handle) {
                Ok(ticket) => {
                    let retry_after = call.retry_after_ms.map(Duration::from_millis);
                    handle.record(ticket, &call.result, Duration::from_millis(call.took_ms), retry_after);
                    Decision::Admitted(ticket)
                }
                Err(refusal) => {
                    handle.with(Cell::rejected);
                    Decision::Rejected { reason: refusal.reason, retry_after: refusal.retry_after }
                }
            });
        }
    }

    /// The client ends: all that is left to say is said.
    fn end(&self) {
        for handle in &self.breakers {
            let entry = handle.with(|cell, now| cell.close(now));
            let entry = entry.map(|entry| (self.now(), wire::entry(handle.name().as_str(), &entry)));
            handle.seen(|seen| seen.reports.extend(entry));
        }
    }

    // Answers.

    fn acquire_answered(
        &mut self,
        handle: &Handle,
        name: &str,
        answer: &AcquireAnswered,
    ) -> Result<(), String> {
        use v1::acquire_response::Decision as Wire;
        if let Some(error) = &answer.error {
            if message::code(error)? == Code::NotFound {
                handle.with(Cell::not_found);
            } else {
                let again = backoff(&mut self.dice, 1);
                handle.with(|cell, now| cell.refused(Some(again), now));
            }
            return Ok(());
        }
        let decision = match (&answer.grant, &answer.rejection) {
            (Some(grant), None) => Some(Wire::Grant(v1::Grant {
                generation: Some(message::generation(grant.generation)),
                ttl: None,
                probe: grant.probe.as_ref().map(|probe| v1::Probe {
                    id: probe.id,
                    timeout: Some(message::span(probe.timeout_ms.cast_signed())),
                }),
            })),
            (None, Some(rejection)) => Some(Wire::Rejection(v1::Rejection {
                reason: v1::RejectionReason::from_str_name(&format!("REJECTION_REASON_{}", rejection.reason))
                    .ok_or_else(|| format!("there is no reason {:?}", rejection.reason))?
                    .into(),
                retry_after: rejection.retry_after_ms.map(message::span),
                message: String::new(),
            })),
            (None, None) => None,
            (Some(_), Some(_)) => return Err("an answer has a grant or a rejection".into()),
        };
        let tick = self.tick(answer.tick);
        handle.with(|cell, now| cell.ticked(tick, now));
        if let Some(status) = &answer.status {
            apply(handle, &message::status(name, status)?, None, Source::Answer);
        }
        handle.with(|cell, now| decided(cell, decision.as_ref(), now));
        Ok(())
    }

    fn report_answered(
        &mut self,
        handle: &Handle,
        name: &str,
        answer: &ReportAnswered,
    ) -> Result<(), String> {
        let sequence = answer.sequence;
        if let Some(error) = &answer.error {
            let code = message::code(error)?;
            self.reports_failed += 1;
            let again = backoff(&mut self.dice, self.reports_failed);
            handle.with(|cell, now| refused(cell, sequence, code, again, now));
            return Ok(());
        }
        self.reports_failed = 0;
        let result = match &answer.result {
            Some(word) => v1::EntryResult::from_str_name(&format!("ENTRY_RESULT_{word}"))
                .ok_or_else(|| format!("there is no result {word:?}"))?,
            None => v1::EntryResult::Unspecified,
        };
        let result = v1::ReportResult { result: result.into(), ..v1::ReportResult::default() };
        let tick = self.tick(answer.tick);
        handle.with(|cell, now| cell.ticked(tick, now));
        handle.with(|cell, now| answered(cell, sequence, Some(&result), now));
        if let Some(error) = &answer.entry_error
            && message::code(error)? == Code::NotFound
        {
            handle.with(Cell::not_found);
        }
        if let Some(status) = &answer.status {
            apply(handle, &message::status(name, status)?, None, Source::Answer);
        }
        Ok(())
    }
}

fn apply(handle: &Handle, status: &v1::BreakerStatus, base: Option<Base>, source: Source) {
    handle.with(|cell, now| {
        let (known, _) = wire::known(status, base.unwrap_or(Base::Answer(now)));
        cell.apply(known, source, now);
    });
}
