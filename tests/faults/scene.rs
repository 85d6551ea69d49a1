//! A server, a client of it, and an application that uses the client, before anything has gone wrong.

use std::time::{Duration, Instant};

use panelboard_client::{Builder, Client, Freshness, Reason};
use panelboard_proto::v1;

use crate::{
    application::{Application, Role, Verdict},
    eventually::{until, until_some, within},
    gate::Gate,
    panel::{Panel, Site},
    relay::Relay,
};

/// How long [`Role::Tripped`] stays OPEN: longer than it takes to be LOCAL.
pub(crate) const OPEN: Duration = Duration::from_secs(11);
/// Failures in a row that open [`Role::Busy`], at the server and in the client alone.
pub(crate) const ENOUGH: u64 = 20;
/// What a client that was cut off adds to an OPEN at most: a tenth.
pub(crate) const OPEN_JITTER: Duration = Duration::from_millis(1_100);
/// What a server that is well needs for anything.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) const POLICIES: &str = "
policies:
  - name: faults
    match: ['faults/*']
    owner: tests
    trip:
      - consecutive_failures: 20
    open: { wait: 11s, multiplier: 1, jitter: 0% }
    half_open: { permitted_calls: 2, probe_timeout: 3s }
    guard: { min_instances: 1 }
    close: { spread: 0s }
";

/// What is between the client and the server.
#[derive(Debug)]
pub(crate) struct Between {
    pub(crate) relay: Relay,
    pub(crate) gate: Gate,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) site: Site,
    panel: Option<Panel>,
    pub(crate) between: Option<Between>,
    pub(crate) client: Client,
    pub(crate) application: Application,
}

impl World {
    /// All is well: the client is FRESH, and what it reports is counted.
    pub(crate) async fn start() -> Self {
        let site = Site::new(POLICIES);
        let panel = site.start().await;
        let client = client(site.url()).build().expect("a client");
        let application = Application::start(&client);
        Self::with(site, panel, None, client, application).await
    }

    /// The same with a relay, and a gate before it, between the client and the server.
    pub(crate) async fn relayed() -> Self {
        let site = Site::new(POLICIES);
        let panel = site.start().await;
        let between = between(&site).await;
        let client = client(between.gate.url()).build().expect("a client");
        let application = Application::start(&client);
        Self::with(site, panel, Some(between), client, application).await
    }

    pub(crate) async fn with(
        site: Site,
        panel: Panel,
        between: Option<Between>,
        client: Client,
        application: Application,
    ) -> Self {
        within("FRESH", SOON, client.ready(SOON)).await.expect("FRESH");
        let world = Self { site, panel: Some(panel), between, client, application };
        world.is_counted(0).await;
        world
    }

    pub(crate) fn panel(&self) -> &Panel {
        self.panel.as_ref().expect("there is a server now")
    }

    pub(crate) fn relay(&self) -> &Relay {
        &self.between.as_ref().expect("there is a relay").relay
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.between.as_ref().expect("there is a gate").gate
    }

    pub(crate) async fn kill(&mut self) {
        self.panel.take().expect("there is a server now").kill().await;
    }

    pub(crate) async fn stop(&mut self) {
        self.panel.take().expect("there is a server now").stop().await;
    }

    pub(crate) async fn start_again(&mut self) {
        self.panel = Some(self.site.start().await);
    }

    /// Somebody else's failures open [`Role::Tripped`]. Returns an instant from which on its wait cannot have begun
    /// earlier.
    pub(crate) async fn trip(&self) -> Instant {
        let began = Instant::now();
        let state = self.panel().report_failures(Role::Tripped.name(), 20).await;
        assert_eq!(state, v1::State::Open);
        let open = |verdict| verdict == Verdict::Rejected(Reason::Open, Freshness::Fresh);
        let told = || self.application.told(Role::Tripped, began, open).is_some();
        until("the client has heard of the OPEN", SOON, told).await;
        began
    }

    /// The outcomes of calls arrive at the server, beyond so many.
    async fn is_counted(&self, before: u64) {
        let name = Role::Busy.name();
        let more = async || (self.panel().calls(name, "success").await >= before + 10).then_some(());
        until_some("what the client reports is counted", SOON, more).await;
    }

    /// All is well again, for the client and for the server, and nothing that the client recorded meanwhile is held
    /// against the dependency.
    pub(crate) async fn is_well(&self) {
        let name = Role::Busy.name();
        // What arrives from here on was recorded since.
        let before = self.panel().calls(name, "success").await;
        self.is_counted(before).await;
        assert_eq!(
            self.panel().calls(name, "failure").await,
            0,
            "recorded while away, and counted all the same"
        );
        assert_eq!(self.panel().state(name).await, v1::State::Closed);
        let closed = async || {
            let state = self.panel().state(Role::Tripped.name()).await;
            (state == v1::State::Closed).then_some(())
        };
        until_some("the other breaker closes by its probes", SOON + OPEN, closed).await;
        let now = Instant::now();
        for role in [Role::Busy, Role::Tripped] {
            let admitted =
                || self.application.told(role, now, |verdict| verdict == Verdict::Admitted).is_some();
            until("calls pass", SOON, admitted).await;
        }
        for role in Role::ALL {
            let freshness = self.client.breaker(role.name()).freshness();
            assert_eq!(freshness, Freshness::Fresh, "{role:?}");
        }
    }
}

/// A relay between here and a server's site, a gate before it, and cuts as the relay wants them.
pub(crate) async fn between(site: &Site) -> Between {
    let (relay, mut cuts) = Relay::start(site.grpc).await;
    let gate = Gate::start(relay.addr).await;
    let cutting = gate.clone();
    tokio::spawn(async move {
        while cuts.recv().await.is_some() {
            cutting.cut();
        }
    });
    Between { relay, gate }
}

pub(crate) fn client(url: String) -> Builder {
    Client::builder(url).service("faults").instance("a").mode(panelboard_client::Mode::Enforce)
}
