//! All breakers of a fake panel: what each is, what was reported of it, and which streams want to know.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use panelboard_core::Policy;
use panelboard_proto::{
    convert::{duration_to_wire, policy_to_wire},
    v1::{self, acquire_response::Decision, watch_response::Event},
};
use prost::bytes::Bytes;
use tokio::sync::mpsc::{Sender, error::TrySendError};

use super::reported::Reported;

/// How long what was said holds. The client takes no more than a minute at its word.
const TTL: Duration = Duration::from_secs(60);
/// How long a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);
/// Whose hand is on a breaker that is forced open.
const WHO: &str = "the test";

/// What a test says that a breaker is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Says {
    Closed,
    Open { until: Duration },
    HalfOpen { permitted: u32 },
    ForcedOpen,
    Disabled,
    Quarantined { until: Duration },
}

#[derive(Debug)]
struct Fake {
    says: Says,
    /// Of the last transition.
    generation: u64,
    /// Of the last change.
    version: u64,
    policy: Option<Policy>,
    /// Probes that are out, in HALF_OPEN.
    probes: BTreeSet<u64>,
    /// Probes of this period that ended with an outcome.
    spent: u32,
    reported: Reported,
}

/// A client's stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) names: Vec<String>,
    pub(super) sender: Sender<v1::WatchResponse>,
    /// It has its snapshot.
    pub(super) begun: bool,
    /// Its client took nothing for so long that something could not be said.
    pub(super) is_full: bool,
}

#[derive(Debug)]
pub(super) struct Board {
    began: Instant,
    breakers: BTreeMap<String, Fake>,
    streams: Vec<Stream>,
    revision: u64,
    last_probe: u64,
    connected: bool,
}

/// What a client knows once it has heard of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) generation: u64,
    pub(super) policy_revision: u64,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            breakers: BTreeMap::new(),
            streams: Vec::new(),
            revision: 0,
            last_probe: 0,
            connected: true,
        }
    }
}

impl Board {
    pub(super) const fn is_connected(&self) -> bool {
        self.connected
    }

    /// The time of this panel's clock.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn tick(&self) -> u64 {
        // Not zero: that would be before any panel's first message.
        self.now().as_millis() as u64 + 1
    }

    /// The breaker is this from now on.
    pub(super) fn say(&mut self, name: &str, says: Says) -> Mark {
        let revision = self.next_revision();
        let fake = self.fake(name);
        fake.says = says;
        (fake.generation, fake.version) = (revision, revision);
        fake.probes.clear();
        fake.spent = 0;
        self.publish(name)
    }

    /// The breaker has this policy from now on; its state stays.
    pub(super) fn govern(&mut self, name: &str, policy: impl FnOnce(u64) -> Policy) -> Mark {
        let revision = self.next_revision();
        let fake = self.fake(name);
        fake.policy = Some(policy(revision));
        fake.version = revision;
        self.publish(name)
    }

    /// Where a breaker is, so that a client can be waited for.
    pub(super) fn mark(&mut self, name: &str) -> Mark {
        let fake = self.fake(name);
        Mark {
            generation: fake.generation,
            policy_revision: fake.policy.as_ref().map_or(0, Policy::revision),
        }
    }

    /// From now on the panel is away: what it said holds no longer, its streams are silent, its answers errors.
    pub(super) fn disconnect(&mut self) {
        self.bookmark(Duration::ZERO);
        self.connected = false;
    }

    /// It is back, and says everything again.
    pub(super) fn connect(&mut self) {
        self.connected = true;
        for mut stream in std::mem::take(&mut self.streams) {
            if stream.begun {
                self.tell_all(&mut stream);
            } else {
                self.begin(&mut stream);
            }
            self.streams.push(stream);
        }
        self.vouch();
    }

    /// What was said holds for another while. Forgets the streams that clients have left.
    pub(super) fn vouch(&mut self) {
        self.streams.retain(|stream| !stream.sender.is_closed() && !stream.is_full);
        if self.connected {
            self.bookmark(TTL);
        }
    }

    pub(super) fn watch(&mut self, mut stream: Stream) {
        if self.connected {
            self.begin(&mut stream);
        }
        self.streams.push(stream);
    }

    pub(super) fn report(&mut self, entries: &[v1::ReportEntry]) -> v1::ReportResponse {
        let result =
            v1::ReportResult { result: v1::EntryResult::Counted.into(), ..v1::ReportResult::default() };
        for entry in entries {
            let fake = self.fake(&entry.breaker);
            fake.reported.add(entry);
            // One without an outcome goes to somebody else.
            let has_outcome = entry.successes + entry.failures > 0;
            if fake.probes.remove(&entry.probe_id) && has_outcome {
                fake.spent += 1;
            }
        }
        v1::ReportResponse { results: vec![result; entries.len()], tick: self.tick() }
    }

    pub(super) fn acquire(&mut self, name: &str) -> v1::AcquireResponse {
        let probe = self.last_probe + 1;
        let now = self.now();
        let fake = self.fake(name);
        let generation = v1::Generation { epoch: 1, revision: fake.generation };
        let ttl = Some(duration_to_wire(PROBE_TIMEOUT));
        let left = |until: Duration| Some(duration_to_wire(until.saturating_sub(now)));
        let reject = |reason: v1::RejectionReason, retry_after| {
            let message = String::from("the test says so");
            Decision::Rejection(v1::Rejection { reason: reason.into(), retry_after, message })
        };
        let decision = match fake.says {
            Says::Closed | Says::Disabled => {
                Decision::Grant(v1::Grant { generation: Some(generation), ttl, probe: None })
            }
            Says::HalfOpen { permitted }
                if fake.probes.len() as u64 + u64::from(fake.spent) < permitted.into() =>
            {
                fake.probes.insert(probe);
                let probe = Some(v1::Probe { id: probe, timeout: ttl });
                Decision::Grant(v1::Grant { generation: Some(generation), ttl, probe })
            }
            Says::HalfOpen { .. } => {
                let soon = duration_to_wire(Duration::from_millis(100));
                reject(v1::RejectionReason::ProbesTaken, Some(soon))
            }
            Says::Open { until } => reject(v1::RejectionReason::Open, left(until)),
            Says::Quarantined { until } => reject(v1::RejectionReason::Quarantined, left(until)),
            Says::ForcedOpen => reject(v1::RejectionReason::ForcedOpen, None),
        };
        if let Decision::Grant(v1::Grant { probe: Some(_), .. }) = decision {
            self.last_probe = probe;
        }
        let status = Some(self.status(name, false));
        v1::AcquireResponse { decision: Some(decision), status, tick: self.tick() }
    }

    pub(super) fn reported(&mut self, name: &str) -> Reported {
        self.fake(name).reported.clone()
    }

    /// The breakers that somebody spoke of or watches.
    pub(super) fn names(&self) -> Vec<String> {
        self.breakers.keys().cloned().collect()
    }

    fn next_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// A breaker that was never spoken of is CLOSED.
    fn fake(&mut self, name: &str) -> &mut Fake {
        if !self.breakers.contains_key(name) {
            let revision = self.next_revision();
            let fake = Fake {
                says: Says::Closed,
                generation: revision,
                version: revision,
                policy: None,
                probes: BTreeSet::new(),
                spent: 0,
                reported: Reported::default(),
            };
            self.breakers.insert(name.to_owned(), fake);
        }
        self.breakers.get_mut(name).unwrap_or_else(|| unreachable!("it was put in above"))
    }

    fn publish(&mut self, name: &str) -> Mark {
        let status = self.status(name, true);
        if self.connected {
            // The time now goes first, so that the client counts the times of the status from when it hears it.
            self.bookmark(TTL);
            let wants = |stream: &&mut Stream| stream.begun && stream.names.iter().any(|known| known == name);
            for stream in self.streams.iter_mut().filter(wants) {
                send(stream, Event::Status(status.clone()));
            }
        }
        self.mark(name)
    }

    /// A whole beginning: started, every status, complete.
    fn begin(&mut self, stream: &mut Stream) {
        stream.begun = true;
        send(stream, Event::Started(v1::Started { tick: self.tick(), resumed: false, epoch: 1 }));
        self.tell_all(stream);
        let (tick, ttl, resume) = (self.tick(), Some(duration_to_wire(TTL)), Bytes::new());
        send(stream, Event::SnapshotComplete(v1::SnapshotComplete { tick, ttl, resume }));
    }

    fn tell_all(&mut self, stream: &mut Stream) {
        for name in stream.names.clone() {
            let status = self.status(&name, true);
            send(stream, Event::Status(status));
        }
    }

    fn bookmark(&mut self, ttl: Duration) {
        let (tick, ttl) = (self.tick(), Some(duration_to_wire(ttl)));
        for stream in self.streams.iter_mut().filter(|stream| stream.begun) {
            send(stream, Event::Bookmark(v1::Bookmark { tick, ttl, resume: Bytes::new() }));
        }
    }

    /// A breaker as a message: with times as ticks on a stream, as spans in an answer.
    fn status(&mut self, name: &str, on_stream: bool) -> v1::BreakerStatus {
        let now = self.now();
        let fake = self.fake(name);
        let tick = |until: Duration| on_stream.then(|| until.as_millis() as u64 + 1);
        let span = |until: Duration| (!on_stream).then(|| duration_to_wire(until.saturating_sub(now)));
        let by_hand = |kind: v1::OverrideKind| v1::Override {
            kind: kind.into(),
            who: WHO.into(),
            why: "it says so".into(),
            ..v1::Override::default()
        };
        let mut status = v1::BreakerStatus {
            name: name.into(),
            admission: v1::Admission::Reject.into(),
            state: v1::State::Closed.into(),
            generation: Some(v1::Generation { epoch: 1, revision: fake.generation }),
            version: Some(v1::Version { epoch: 1, revision: fake.version }),
            active_instances: 1,
            policy_revision: fake.policy.as_ref().map_or(0, Policy::revision),
            policy: fake.policy.as_ref().map(policy_to_wire),
            ..v1::BreakerStatus::default()
        };
        match fake.says {
            Says::Closed => status.admission = v1::Admission::Allow.into(),
            Says::Open { until } => {
                status.state = v1::State::Open.into();
                (status.deadline_tick, status.remaining) = (tick(until), span(until));
                let explanation = String::from("the test says so");
                status.last_transition = Some(v1::Transition { explanation, ..v1::Transition::default() });
            }
            Says::HalfOpen { .. } => {
                status.state = v1::State::HalfOpen.into();
                status.admission = v1::Admission::Probe.into();
            }
            Says::ForcedOpen => {
                status.state = v1::State::Open.into();
                status.r#override = Some(by_hand(v1::OverrideKind::ForcedOpen));
            }
            Says::Disabled => {
                status.admission = v1::Admission::Allow.into();
                status.r#override = Some(by_hand(v1::OverrideKind::Disabled));
            }
            Says::Quarantined { until } => {
                status.quarantine = Some(v1::Quarantine {
                    until_tick: tick(until),
                    remaining: span(until),
                    explanation: "the test says so".into(),
                    ..v1::Quarantine::default()
                });
            }
        }
        status
    }
}

/// A client that has left does not hear it.
fn send(stream: &mut Stream, event: Event) {
    let sent = stream.sender.try_send(v1::WatchResponse { event: Some(event) });
    stream.is_full |= matches!(sent, Err(TrySendError::Full(_)));
}
