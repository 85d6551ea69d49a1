//! The faults, one after the other.

mod alone;
mod application;
mod fleet;
mod gone;
mod network;
mod permits;
mod reports;
mod rpc;

use std::{pin::Pin, time::Duration};

use crate::{matrix::Row, place::Place};

/// None takes longer than this.
pub(crate) const BOUND: Duration = Duration::from_secs(180);

/// One line of the table.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    pub(crate) play: fn() -> Pin<Box<dyn Future<Output = Row>>>,
}

impl Scene {
    /// Whether it computes all the time that it takes.
    pub(crate) fn is_busy(&self) -> bool {
        ["500-clients-probe", "reports-bounded-memory"].contains(&self.name)
    }
}

macro_rules! scenes {
    ($($name:literal, $place:ident, $play:path;)*) => {
        [$(Scene { name: $name, place: Place::$place, play: || Box::pin($play()) }),*]
    };
}

/// All of them, in the order of the table.
pub(crate) static ALL: [Scene; 21] = scenes! {
    "never-there", Here, alone::never_there;
    "killed", Here, gone::killed;
    "killed-and-the-dependency-too", Here, gone::killed_and_the_dependency_too;
    "restarted-empty", Here, gone::restarted_empty;
    "rolling-restart", Here, gone::rolling_restart;
    "frozen", Here, network::frozen;
    "black-holed", Network, network::black_holed;
    "slow", Here, rpc::slow;
    "slow-and-cut", Here, rpc::slow_and_cut;
    "reports-refused", Here, rpc::reports_refused;
    "errors", Here, rpc::errors;
    "runtime-blocked", Here, application::runtime_blocked;
    "clock-stepped", Clock, application::clock_stepped;
    "on-disconnect", Here, alone::on_disconnect;
    "200-clients-return", Here, fleet::two_hundred_return;
    "500-clients-probe", Here, fleet::five_hundred_probe;
    "permits-come-back", Here, permits::they_come_back;
    "permits-leaked-while-closed", Here, permits::leaked_while_closed;
    "reports-exactly-once", Here, reports::exactly_once;
    "reports-bounded-memory", Apart, reports::bounded_memory;
    "reports-at-shutdown", Here, reports::at_shutdown;
};

pub(crate) fn find(name: &str) -> Option<&'static Scene> {
    ALL.iter().find(|scene| scene.name == name)
}
