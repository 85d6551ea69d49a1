//! An application with a client: threads that make calls and look at the client all the time, and remember what they saw.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use panelboard_client::{Breaker, CallError, Client, Freshness, Reason};

use crate::eventually::{slack, until};

/// How long a call may wait for a probe: the client's default.
pub(crate) const PROBE_WAIT: Duration = Duration::from_millis(100);
/// Between two rounds of calls.
const PAUSE: Duration = Duration::from_millis(20);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(4);

/// The breakers that the application uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Called all the time; its dependency is well until it is said not to be.
    Busy,
    /// Never called.
    Quiet,
    /// Opened by somebody else before the fault. Called all the time, and its dependency is well.
    Tripped,
}

impl Role {
    pub(crate) const ALL: [Self; 3] = [Self::Busy, Self::Quiet, Self::Tripped];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Busy => "faults/busy",
            Self::Quiet => "faults/quiet",
            Self::Tripped => "faults/tripped",
        }
    }
}

/// What a call was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Admitted,
    Rejected(Reason, Freshness),
}

#[derive(Debug)]
pub(crate) struct Application {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    /// The dependency behind [`Role::Busy`] is ill.
    is_ill: AtomicBool,
    /// Calls that reached that dependency while it was ill.
    reached: AtomicU64,
    rounds: AtomicU64,
    longest_micros: AtomicU64,
    /// Each change of a breaker's freshness.
    turns: Mutex<Vec<(Instant, Role, Freshness)>>,
    /// Each change of what the calls of a breaker are told.
    verdicts: Mutex<Vec<(Instant, Role, Verdict)>>,
}

impl Application {
    /// Ends with this value.
    pub(crate) fn start(client: &Client) -> Self {
        let shared = Arc::new(Shared::default());
        let breakers = Role::ALL.map(|role| (role, client.breaker(role.name())));
        let (calling, watching) = (Arc::clone(&shared), Arc::clone(&shared));
        let (called, watched) = (breakers.clone(), breakers);
        on_a_thread("caller", async move || make_calls(&calling, &called).await);
        on_a_thread("watcher", async move || watch(&watching, &watched).await);
        Self { shared }
    }

    /// From now on the dependency fails.
    pub(crate) fn falls_ill(&self) {
        self.shared.is_ill.store(true, Ordering::SeqCst);
    }

    /// The dependency is well again. Returns when no call is under way that has seen it ill.
    pub(crate) async fn recovers(&self) {
        self.shared.is_ill.store(false, Ordering::SeqCst);
        self.two_rounds().await;
    }

    /// How many calls reached the dependency while it was ill.
    pub(crate) fn reached(&self) -> u64 {
        self.shared.reached.load(Ordering::SeqCst)
    }

    /// Waits until each breaker was called anew.
    pub(crate) async fn two_rounds(&self) {
        let before = self.shared.rounds.load(Ordering::SeqCst);
        let two = || self.shared.rounds.load(Ordering::SeqCst) >= before + 2;
        until("the application makes calls", Duration::from_secs(2), two).await;
    }

    /// The longest time that a call had to wait for its verdict. Panics if that is beyond the bound.
    pub(crate) fn longest_wait(&self) -> Duration {
        let longest = Duration::from_micros(self.shared.longest_micros.load(Ordering::SeqCst));
        assert!(longest <= PROBE_WAIT + slack(), "a call waited for {longest:?}");
        longest
    }

    /// When a breaker became what is wanted, at the earliest then.
    pub(crate) fn turned(
        &self,
        role: Role,
        since: Instant,
        wanted: impl Fn(Freshness) -> bool,
    ) -> Option<Instant> {
        first(&self.shared.turns, role, since, wanted)
    }

    /// When the calls of a breaker were first told what is wanted, at the earliest then.
    pub(crate) fn told(
        &self,
        role: Role,
        since: Instant,
        wanted: impl Fn(Verdict) -> bool,
    ) -> Option<Instant> {
        first(&self.shared.verdicts, role, since, wanted)
    }

    /// Waits until a breaker has become what is wanted. Returns how long after `since` that was.
    pub(crate) async fn turns(
        &self,
        role: Role,
        since: Instant,
        bound: Duration,
        wanted: impl Fn(Freshness) -> bool,
        what: &str,
    ) -> Duration {
        let what = format!("{} is {what}", role.name());
        until(&what, bound, || self.turned(role, since, &wanted).is_some()).await;
        let at = self.turned(role, since, wanted).expect("it has turned");
        at.saturating_duration_since(since)
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
    }
}

/// The first of the changes that fits, or the one before `since` that still held then.
fn first<T: Copy>(
    changes: &Mutex<Vec<(Instant, Role, T)>>,
    role: Role,
    since: Instant,
    wanted: impl Fn(T) -> bool,
) -> Option<Instant> {
    let changes = changes.lock().expect("not poisoned");
    let its = || changes.iter().filter(|(_, of, _)| *of == role);
    let held = its().rfind(|(at, _, _)| *at <= since).filter(|(_, _, what)| wanted(*what)).map(|_| since);
    held.or_else(|| its().find(|(at, _, what)| *at > since && wanted(*what)).map(|(at, _, _)| *at))
}

fn on_a_thread<F: Future<Output = ()>>(name: &str, work: impl FnOnce() -> F + Send + 'static) {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(work());
    };
    drop(std::thread::Builder::new().name(name.into()).spawn(run).expect("a thread"));
}

async fn make_calls(shared: &Shared, breakers: &[(Role, Breaker)]) {
    let mut last = [None; Role::ALL.len()];
    while !shared.is_over.load(Ordering::SeqCst) {
        for (n, (role, breaker)) in breakers.iter().enumerate().filter(|(_, (role, _))| *role != Role::Quiet)
        {
            let is_ill = *role == Role::Busy && shared.is_ill.load(Ordering::SeqCst);
            let began = Instant::now();
            let mut waited = Duration::ZERO;
            let answer = breaker
                .call(|| {
                    waited = began.elapsed();
                    std::future::ready(if is_ill { Err(()) } else { Ok(()) })
                })
                .await;
            let verdict = match answer {
                Ok(()) => Verdict::Admitted,
                Err(CallError::Failed(())) => {
                    shared.reached.fetch_add(1, Ordering::SeqCst);
                    Verdict::Admitted
                }
                Err(CallError::Rejected(rejected)) => {
                    waited = began.elapsed();
                    Verdict::Rejected(rejected.reason(), rejected.freshness())
                }
            };
            let waited = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
            shared.longest_micros.fetch_max(waited, Ordering::SeqCst);
            if last[n].replace(verdict) != Some(verdict) {
                shared.verdicts.lock().expect("not poisoned").push((Instant::now(), *role, verdict));
            }
        }
        shared.rounds.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(PAUSE).await;
    }
}

async fn watch(shared: &Shared, breakers: &[(Role, Breaker)]) {
    let mut last = [None; Role::ALL.len()];
    while !shared.is_over.load(Ordering::SeqCst) {
        for (n, (role, breaker)) in breakers.iter().enumerate() {
            let freshness = breaker.freshness();
            if last[n].replace(freshness) != Some(freshness) {
                shared.turns.lock().expect("not poisoned").push((Instant::now(), *role, freshness));
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
