//! Our breakers: FRESH, against the real server.

use std::{
    hint::black_box,
    thread,
    time::{Duration, Instant},
};

use panelboard_client::{Breaker, BreakerLayer, Client, Fact, Freshness, Rejected, State, layer::BoxError};
use tower::{Layer, Service};

use crate::{
    Failure,
    backend::{Backend, Request, at_once},
    call::{Call, Failed, failing_work, work},
    server::Server,
};

/// Far longer than anything takes that works.
const BOUND: Duration = Duration::from_secs(20);

/// One client, and the breakers of the contest.
pub(crate) struct Ours {
    client: Client,
    pub(crate) plain: Breaker,
    pub(crate) timed: Breaker,
    /// OPEN, because the server said so.
    pub(crate) open: Breaker,
}

impl Ours {
    pub(crate) fn connect(server: &Server) -> Result<Self, Failure> {
        let client = client(server.url())?;
        let breaker = |name| client.breaker(name);
        let ours = Self {
            plain: breaker("plain/one"),
            timed: breaker("timed/one"),
            open: breaker("crossing/opened"),
            client: client.clone(),
        };
        ready(&client)?;
        for _ in 0..20 {
            Caller(&ours.open).fail();
        }
        wait_until("the server opens a breaker of which every call failed", || {
            ours.open.state() == State::Open
        })?;
        Ok(ours)
    }

    /// New breakers, CLOSED and FRESH.
    pub(crate) fn for_outages(&self, pace: &str, outages: usize) -> Result<Vec<Breaker>, Failure> {
        let breakers = (0..outages).map(|n| self.client.breaker(&format!("crossing/{pace}-{n}"))).collect();
        ready(&self.client)?;
        Ok(breakers)
    }

    /// Whether all is as the contest wants it. Waits for that, if it has to.
    pub(crate) fn is_fresh(&self) -> bool {
        [&self.plain, &self.timed, &self.open].iter().all(|breaker| breaker.freshness() == Freshness::Fresh)
    }
}

/// A client of a process of its own or of the benchmark's.
pub(crate) fn client(url: String) -> Result<Client, Failure> {
    Ok(Client::builder(url).service("benchmark").instance("one").build()?)
}

pub(crate) fn ready(client: &Client) -> Result<(), Failure> {
    Ok(tokio::runtime::Builder::new_current_thread().build()?.block_on(client.ready(BOUND))?)
}

fn wait_until(what: &str, is_true: impl Fn() -> bool) -> Result<(), Failure> {
    let began = Instant::now();
    while !is_true() {
        if began.elapsed() > BOUND {
            return Err(format!("not in {BOUND:?}: {what}").into());
        }
        thread::yield_now();
    }
    Ok(())
}

/// One thread's way to one of ours.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a>(pub(crate) &'a Breaker);

impl Call for Caller<'_> {
    #[inline(always)]
    fn succeed(&mut self) -> bool {
        match self.0.try_acquire() {
            Ok(permit) => permit.record(work()).is_ok(),
            Err(rejected) => {
                black_box(rejected.retry_after());
                false
            }
        }
    }

    fn fail(&mut self) -> bool {
        match self.0.try_acquire() {
            Ok(permit) => permit.record(failing_work()).is_err(),
            Err(rejected) => {
                black_box(rejected.retry_after());
                false
            }
        }
    }
}

/// Our layer around a service, on one thread. As the peer's, it takes an error for a failure.
pub(crate) struct Layered<S>(S);

pub(crate) fn layered(
    breaker: &Breaker,
) -> Layered<impl Service<Request, Response = u64, Error = BoxError> + use<>> {
    let classify = |result: Result<&u64, &Failed>| match result {
        Ok(_) => Fact::Success,
        Err(_) => Fact::Failure("other"),
    };
    Layered(BreakerLayer::by_result(breaker.clone(), classify).layer(Backend))
}

impl<S: Service<Request, Response = u64, Error = BoxError>> Call for Layered<S> {
    #[inline(always)]
    fn succeed(&mut self) -> bool {
        at_once(&mut self.0, Request(true)).is_ok()
    }

    fn fail(&mut self) -> bool {
        at_once(&mut self.0, Request(false)).is_err_and(|error| Rejected::in_error(&*error).is_none())
    }
}
