//! The handle that a test holds.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use panelboard_core::{BreakerName, Policy, PolicySpec};
use panelboard_proto::v1::breaker_service_server::BreakerServiceServer;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;

use super::{
    board::{Mark, Says},
    reported::Reported,
    service::Shared,
};
use crate::{breaker::Breaker, builder::Builder, client::Client, mode::Mode, state::Freshness};

/// Far longer than anything takes here that works.
const BOUND: Duration = Duration::from_secs(10);
/// What was said is vouched for so often: under the time after which a silent stream is not relied on.
const VOUCH_EVERY: Duration = Duration::from_secs(1);

/// A panel in this process for tests. See the [module](crate::testing).
///
/// Each method that changes a breaker returns when the clients that came from this panel know it, so that the very next
/// call meets it. A breaker that was never spoken of is CLOSED. Outcomes change nothing: a panel that trips by itself is
/// what the real server is for.
///
/// The client's own bounds hold here as everywhere: on a machine that stands still for more than a second it becomes STALE,
/// or gives up on a probe.
///
/// Runs on a thread of its own, whatever the test's runtime does; its methods need no particular runtime.
///
/// # Panics
/// The methods panic if a text is not a breaker's name, or if a client has not heard of a change within ten seconds.
#[derive(Debug)]
pub struct FakePanel {
    shared: Shared,
    addr: SocketAddr,
    /// Taken when it ends.
    runtime: Option<Runtime>,
    /// Those that are waited for; the first is the one that is handed out.
    clients: Mutex<Vec<Client>>,
}

impl Default for FakePanel {
    fn default() -> Self {
        Self::new()
    }
}

impl FakePanel {
    /// Starts a panel.
    ///
    /// # Panics
    /// If no loopback port can be had or no thread can be started.
    pub fn new() -> Self {
        let panel = Self::start().unwrap_or_else(|error| panic!("no panel for tests: {error}"));
        panel.client_with(|builder| builder);
        panel
    }

    fn start() -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fake-panel")
            .enable_all()
            .build()?;
        let shared = Shared::default();
        let incoming = {
            let _inside = runtime.enter();
            TcpListenerStream::new(tokio::net::TcpListener::from_std(listener)?)
        };
        let service = BreakerServiceServer::new(shared.clone());
        runtime.spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        let board = shared.clone();
        runtime.spawn(async move {
            let mut beat = tokio::time::interval(VOUCH_EVERY);
            loop {
                beat.tick().await;
                board.board().vouch();
            }
        });
        Ok(Self { shared, addr, runtime: Some(runtime), clients: Mutex::default() })
    }

    /// The client to hand to what is tested; the same one each time.
    pub fn client(&self) -> Client {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.first().cloned().unwrap_or_else(|| unreachable!("new() makes one"))
    }

    /// Another client, as an instance of its own or with settings of its own. The environment is not looked at.
    ///
    /// # Panics
    /// If what is given cannot be built.
    pub fn client_with(&self, settings: impl FnOnce(Builder) -> Builder) -> Client {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let instance = format!("fake-{}", clients.len() + 1);
        let builder = settings(Client::builder(self.url()).service("tests").instance(instance).seed(1));
        let hears = builder.given_mode() != Some(Mode::Off);
        let client = builder.build_in(|_| None).unwrap_or_else(|error| panic!("{error}"));
        if hears {
            clients.push(client.clone());
        }
        client
    }

    /// Where it listens, for what builds its client itself. Such a client is not waited for.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The breaker is CLOSED.
    pub async fn close(&self, name: &str) {
        self.say(name, Says::Closed).await;
    }

    /// The breaker is OPEN, and rejects with this much time left. It stays OPEN until the test says otherwise, but from
    /// then on a call asks for a probe first.
    pub async fn open(&self, name: &str, retry_after: Duration) {
        let until = self.after(retry_after);
        self.say(name, Says::Open { until }).await;
    }

    /// The breaker is HALF_OPEN and gives this many probes; those that come back without an outcome are given again.
    ///
    /// [`acquire`](Breaker::acquire) and [`call`](Breaker::call) get one at once; [`try_acquire`](Breaker::try_acquire)
    /// is rejected while the client fetches one, as it always is.
    pub async fn half_open(&self, name: &str, permitted: u32) {
        self.say(name, Says::HalfOpen { permitted }).await;
    }

    /// An operator forces the breaker open, without an end.
    pub async fn force_open(&self, name: &str) {
        self.say(name, Says::ForcedOpen).await;
    }

    /// An operator disables the breaker: every call passes, none is counted.
    pub async fn disable(&self, name: &str) {
        self.say(name, Says::Disabled).await;
    }

    /// Every client of this panel is kept out for so long, while the breaker is CLOSED.
    pub async fn quarantine(&self, name: &str, retry_after: Duration) {
        let until = self.after(retry_after);
        self.say(name, Says::Quarantined { until }).await;
    }

    /// The breaker has this policy, and keeps its state: for its classification, what is slow, `on_disconnect`.
    ///
    /// # Panics
    /// Also if the policy is not valid.
    pub async fn policy(&self, name: &str, policy: PolicySpec) {
        let made = |revision| {
            Policy::try_new(policy, revision).unwrap_or_else(|wrong| {
                panic!("the policy of {name:?} is not valid: {}", crate::wire::sentence(&wrong))
            })
        };
        let mark = self.shared.board().govern(name, made);
        self.heard(name, mark).await;
    }

    /// The panel is away: every breaker is LOCAL when this returns, and nothing is reported. What it said of a breaker
    /// that was OPEN still holds for as long as was said.
    pub async fn disconnect(&self) {
        self.shared.board().disconnect();
        self.all_are(Freshness::Local).await;
    }

    /// The panel is back: every breaker is FRESH when this returns.
    pub async fn connect(&self) {
        self.shared.board().connect();
        self.all_are(Freshness::Fresh).await;
    }

    /// What was reported of a breaker so far. Outcomes leave a client within a fraction of a second:
    /// [`reported_calls`](Self::reported_calls) waits for them.
    pub fn reported(&self, name: &str) -> Reported {
        self.shared.board().reported(name)
    }

    /// What was reported of a breaker, once that is at least so many calls.
    ///
    /// # Panics
    /// If they have not come within ten seconds; the message says what has.
    pub async fn reported_calls(&self, name: &str, calls: u64) -> Reported {
        let (board, name) = (self.shared.clone(), name.to_owned());
        let wait = async move {
            until(|| {
                let reported = board.board().reported(&name);
                if reported.calls() >= calls {
                    return Ok(reported);
                }
                Err(format!("{calls} calls of {name:?} are reported, of which there are {reported:?}"))
            })
            .await
        };
        self.on_own_runtime(wait).await
    }

    fn after(&self, span: Duration) -> Duration {
        self.shared.board().now().saturating_add(span)
    }

    async fn say(&self, name: &str, says: Says) {
        let mark = {
            let name = name.to_owned();
            if let Err(error) = BreakerName::parse(&name) {
                panic!("{name:?} is no breaker's name: {error}");
            }
            self.shared.board().say(&name, says)
        };
        self.heard(name, mark).await;
    }

    /// Waits until the clients know the breaker as the mark has it. While the panel is away they cannot.
    async fn heard(&self, name: &str, mark: Mark) {
        if !self.shared.board().is_connected() {
            return;
        }
        let breakers = self.each(|client| client.breaker(name));
        let knows = move |breaker: &Breaker| {
            let status = breaker.status();
            status.freshness == Freshness::Fresh
                && status.generation.is_some_and(|generation| generation.revision == mark.generation)
                && (mark.policy_revision == 0 || status.policy_revision == mark.policy_revision)
        };
        self.all_know(breakers, knows).await;
    }

    async fn all_are(&self, freshness: Freshness) {
        let names = self.shared.board().names();
        let of = |client: &Client| names.iter().map(|name| client.breaker(name)).collect::<Vec<_>>();
        let breakers = self.each(of).into_iter().flatten().collect();
        self.all_know(breakers, move |breaker| breaker.freshness() == freshness).await;
    }

    fn each<T>(&self, of: impl Fn(&Client) -> T) -> Vec<T> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).iter().map(of).collect()
    }

    async fn all_know(
        &self,
        breakers: Vec<Breaker>,
        knows: impl Fn(&Breaker) -> bool + Send + Sync + 'static,
    ) {
        let wait = async move {
            until(|| match breakers.iter().find(|breaker| !knows(breaker)) {
                Some(late) => {
                    Err(format!("the client has heard of {:?}, which is {}", late.name(), late.status()))
                }
                None => Ok(()),
            })
            .await
        };
        self.on_own_runtime(wait).await;
    }

    /// Runs what needs a clock where there is one, and passes on its complaint.
    async fn on_own_runtime<T: Send + 'static>(
        &self,
        wait: impl Future<Output = Result<T, String>> + Send + 'static,
    ) -> T {
        let runtime = self.runtime.as_ref().unwrap_or_else(|| unreachable!("it ends with the panel"));
        match runtime.spawn(wait).await {
            Ok(Ok(waited)) => waited,
            Ok(Err(complaint)) => panic!("{complaint}"),
            Err(error) => panic!("the panel for tests has ended: {error}"),
        }
    }
}

impl Drop for FakePanel {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A test's runtime must not be blocked, and nothing here is worth waiting for.
            runtime.shutdown_background();
        }
    }
}

/// Asks again and again until there is an answer, or until it is too late; the last complaint says what was missing.
async fn until<T>(mut ask: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let began = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(missing) if began.elapsed() > BOUND => {
                return Err(format!("not within {BOUND:?}: {missing}"));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}
