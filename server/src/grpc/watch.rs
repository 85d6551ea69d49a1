//! Watch: one task per stream, which reads what its subscriber is owed and writes it when the client can take it.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use panelboard_core::{BreakerName, Pattern};
use panelboard_proto::{
    convert::{duration_to_wire, policy_to_wire},
    v1::{self, watch_response::Event},
};
use rand::RngExt;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{
    Watching, errors,
    errors::reason,
    validate::{Identity, Violations},
};
use crate::{
    hub::{Owed, Selection, Start, Subscriber, Value},
    limits::{SUGGESTIONS, WATCH_IN_FLIGHT},
    parts::Parts,
    registry::Missing,
    slot::Slot,
};

/// What was delivered stays FRESH for so long without another message.
const TTL: Duration = Duration::from_secs(10);
/// The same when the server ends: long enough to find another, or the same one restarted.
const DRAIN_TTL: Duration = Duration::from_secs(30);
/// When a client of a server that ends looks for it, or for another, at the earliest.
const RECONNECT_AFTER: Duration = Duration::from_millis(200);
/// Between bookmarks, with 20 % of it more or less so that streams do not beat in time.
const BOOKMARK: Duration = Duration::from_secs(3);

pub(super) async fn watch(
    parts: &Parts,
    request: v1::WatchRequest,
    from: Option<IpAddr>,
) -> Result<Watching, Status> {
    if parts.drain.has_started() {
        return Err(errors::draining());
    }
    let limits = &parts.registry.limits;
    if request.breakers.len() > limits.names_per_watch {
        let (n, most) = (request.breakers.len(), limits.names_per_watch);
        let message =
            format!("{n} names and patterns, {most} are allowed: use a pattern, or several streams");
        return Err(errors::exhausted(reason::TOO_MANY_NAMES, "names_per_watch", message));
    }
    let mut wrong = Violations::default();
    let identity = wrong.client(request.client.as_ref(), limits);
    if request.breakers.is_empty() {
        wrong.add("breakers", "is empty: name breakers, or give the pattern \"**\"");
    }
    let patterns: Vec<Pattern> = request
        .breakers
        .iter()
        .enumerate()
        .filter_map(|(at, text)| wrong.pattern(&format!("breakers[{at}]"), text))
        .collect();
    wrong.into_result()?;

    let selection = Selection::new(patterns);
    if selection.patterns() > limits.patterns_per_watch {
        let (n, most) = (selection.patterns(), limits.patterns_per_watch);
        let message = format!("{n} patterns, {most} are allowed: name the breakers, or use wider patterns");
        return Err(errors::exhausted(reason::TOO_MANY_PATTERNS, "patterns_per_watch", message));
    }
    let names: Vec<BreakerName> = selection.names().cloned().collect();
    let instance = identity.caller().instance.clone();
    let (subscriber, start) = parts.hub.subscribe(instance, selection, &request.resume)?;
    parts.registry.seen_from(identity.caller(), from);
    parts.registry.clients.arrived(identity.caller());
    let (sender, receiver) = mpsc::channel(WATCH_IN_FLIGHT);
    // From here on it is the stream that ends the subscription, whatever happens.
    let stream = Stream {
        parts: parts.clone(),
        subscriber,
        sender,
        identity,
        attended: HashMap::new(),
        policies: HashMap::new(),
        in_hand: VecDeque::new(),
    };
    // Naming a breaker makes it, if a policy's pattern matches; and what is named by now does not expire.
    let missing = names.iter().filter_map(|name| parts.registry.name_in_watch(name).err());
    let missing = missing
        .enumerate()
        .map(|(at, missing)| if at < SUGGESTIONS { parts.registry.with_nearest(missing) } else { missing });
    let missing = missing.collect();
    // What exists by now must be in the snapshot.
    parts.hub.reached(parts.registry.outbox.position()).await;
    tokio::spawn(stream.run(start, missing));
    Ok(Box::pin(ReceiverStream::new(receiver)))
}

type Message = Result<v1::WatchResponse, Status>;

/// Waits for a place on the way to the client; a stream that has none for so long is ended.
async fn reserve(sender: &mpsc::Sender<Message>, stuck: Duration) -> Result<mpsc::Permit<'_, Message>, Over> {
    match timeout(stuck, sender.reserve()).await {
        Ok(place) => place.map_err(|_| Over),
        Err(_) => {
            tracing::info!(?stuck, "a watch could not take a message: ended");
            Err(Over)
        }
    }
}

/// One open stream. Dropping it closes the subscription.
struct Stream {
    parts: Parts,
    subscriber: Arc<Subscriber>,
    sender: mpsc::Sender<Message>,
    identity: Identity,
    /// Breakers that this stream has delivered: its instance is known to them.
    attended: HashMap<BreakerName, Arc<Slot>>,
    /// The revision of each breaker's policy that this stream has delivered.
    policies: HashMap<BreakerName, (String, u64)>,
    /// Values taken from the hub and not yet delivered.
    in_hand: VecDeque<(BreakerName, Value)>,
}

/// The stream is over: its client is gone, or it could not take a message for too long.
struct Over;

impl Stream {
    async fn run(mut self, start: Start, missing: Vec<Missing>) {
        let drain = self.parts.drain.clone();
        // A server that ends still takes reports, so breakers still trip: until its moment the stream goes on as it is,
        // bookmarks and all.
        let its_moment = async {
            let grace = drain.started().await;
            let part = rand::rng().random_range(0.0..0.5);
            tokio::time::sleep(grace.mul_f64(part)).await;
        };
        tokio::select! {
            Over = self.serve(start, missing) => return,
            () = its_moment => {}
        }
        self.end().await;
    }

    async fn serve(&mut self, start: Start, missing: Vec<Missing>) -> Over {
        match self.try_serve(start, missing).await {
            Ok(never) => match never {},
            Err(over) => over,
        }
    }

    async fn try_serve(
        &mut self,
        start: Start,
        missing: Vec<Missing>,
    ) -> Result<std::convert::Infallible, Over> {
        let resumed = start == Start::Resumed;
        self.send(Event::Started(v1::Started {
            tick: self.tick(),
            resumed,
            epoch: self.parts.registry.epoch,
        }))
        .await?;
        if let Start::Reset { reason } = start {
            self.send(Event::Reset(v1::Reset { reason: reason.into() })).await?;
        }
        for missing in missing {
            if let Missing::NotFound { name, nearest, .. } = missing {
                let nearest = nearest.unwrap_or_default();
                self.send(Event::NotFound(v1::NotFound { name: name.as_str().into(), nearest })).await?;
            } else if let Missing::TooMany { name, .. } = &missing {
                let unavailable = v1::Unavailable { name: name.as_str().into(), reason: missing.to_string() };
                self.send(Event::Unavailable(unavailable)).await?;
            }
        }
        let mut complete = false;
        let mut bookmark_at = Instant::now();
        loop {
            let position = self.deliver_owed().await?;
            if !complete || Instant::now() >= bookmark_at {
                let (tick, ttl, resume) = (self.tick(), Some(duration_to_wire(TTL)), self.token(position));
                let event = if complete {
                    Event::Bookmark(v1::Bookmark { tick, ttl, resume })
                } else {
                    Event::SnapshotComplete(v1::SnapshotComplete { tick, ttl, resume })
                };
                complete = true;
                self.send(event).await?;
                let jitter = rand::rng().random_range(0.8..=1.2);
                bookmark_at = Instant::now() + BOOKMARK.mul_f64(jitter);
            }
            tokio::select! {
                () = self.subscriber.rung() => {}
                () = sleep_until(bookmark_at) => {}
                () = self.sender.closed() => return Err(Over),
            }
        }
    }

    /// Delivers all that is owed, and says up to which position that is everything. May be cancelled at any time: a
    /// value leaves the hand in the same step in which it is sent.
    async fn deliver_owed(&mut self) -> Result<u64, Over> {
        loop {
            while !self.in_hand.is_empty() {
                let sender = self.sender.clone();
                let place = reserve(&sender, self.parts.registry.limits.watch_stuck).await?;
                if let Some((name, value)) = self.in_hand.pop_front() {
                    place.send(Ok(v1::WatchResponse { event: Some(self.event(name, value)) }));
                }
            }
            match self.parts.hub.owed(&self.subscriber) {
                Owed::Values(values) => self.in_hand.extend(values),
                Owed::Nothing { position } => return Ok(position),
            }
        }
    }

    fn event(&mut self, name: BreakerName, value: Value) -> Event {
        match value {
            Value::Live { status, policy, quarantines } => {
                let slot = self.attend(&name);
                let mut status = v1::BreakerStatus::clone(&status);
                if let Some(slot) = slot.filter(|_| quarantines) {
                    let instance = self.identity.caller().instance;
                    status.quarantine = self.parts.registry.quarantine_of(&slot, instance, status.generation);
                }
                let key = (policy.name().to_string(), policy.revision());
                if self.policies.get(&name) != Some(&key) {
                    status.policy = Some(policy_to_wire(&policy));
                    self.policies.insert(name, key);
                }
                Event::Status(status)
            }
            Value::Deleted { version } => {
                self.policies.remove(&name);
                self.attended.remove(&name);
                Event::Deleted(v1::Deleted { name: name.as_str().into(), version: Some(version.into()) })
            }
        }
    }

    /// The instance is known to each breaker that its stream delivers.
    fn attend(&mut self, name: &BreakerName) -> Option<Arc<Slot>> {
        let slot = self.parts.registry.find(name)?;
        let is_new = self.attended.get(name).is_none_or(|attended| !Arc::ptr_eq(attended, &slot));
        if is_new {
            self.parts.registry.watch_started(&slot, self.identity.caller());
            self.attended.insert(name.clone(), Arc::clone(&slot));
        }
        Some(slot)
    }

    /// Ends the stream with a hint.
    async fn end(mut self) {
        // What is owed is delivered first, so that the last token says the truth.
        let Ok(position) = self.deliver_owed().await else { return };
        let draining = v1::Draining {
            tick: self.tick(),
            ttl: Some(duration_to_wire(DRAIN_TTL)),
            reconnect_after: Some(duration_to_wire(RECONNECT_AFTER)),
            resume: self.token(position),
        };
        // Whether it arrives or not, the stream is over.
        let _ = self.send(Event::Draining(draining)).await;
    }

    async fn send(&self, event: Event) -> Result<(), Over> {
        let place = reserve(&self.sender, self.parts.registry.limits.watch_stuck).await?;
        place.send(Ok(v1::WatchResponse { event: Some(event) }));
        Ok(())
    }

    fn tick(&self) -> u64 {
        self.parts.registry.clock.now().as_millis()
    }

    fn token(&self, position: u64) -> prost::bytes::Bytes {
        self.parts.hub.token(&self.subscriber, position).encode().into()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.parts.hub.unsubscribe(&self.subscriber);
        for slot in self.attended.values() {
            self.parts.registry.watch_ended(slot, self.identity.caller());
        }
        let (registry, most) = (&self.parts.registry, self.parts.registry.limits.watch_streams);
        let is_drain = self.parts.drain.has_started();
        registry.clients.left(self.identity.caller(), is_drain, most, registry.clock.now());
    }
}
