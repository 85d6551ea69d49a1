//! What Prometheus sees, made at each scrape from what the server knows.
//!
//! Nothing is counted here: numbers live beside what they count, and each scrape sets them into a recorder of its own.
//! A breaker that is gone is therefore gone from the next scrape, one that is quiet stays, and two servers of one
//! process share nothing.

mod breaker;
mod clients;
mod durations;
mod families;
mod page;
mod reports;
mod server;

use std::sync::Arc;

use metrics::{Label, SharedString};
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::sync::Mutex;

use self::{
    families::{Family, Kind},
    page::Page,
};
use crate::parts::Parts;

pub(crate) use clients::Clients;
pub(crate) use durations::Durations;
pub(crate) use reports::Reports;

/// Makes pages of metrics.
#[derive(Debug, Default)]
pub(crate) struct Exporter {
    /// Held while a page is made: with many breakers one takes time and memory, and one at a time is enough.
    turn: Mutex<()>,
}

impl Exporter {
    /// A page of metrics, made where blocking hurts nobody.
    pub(crate) async fn scrape(&self, parts: &Parts) -> String {
        let _turn = self.turn.lock().await;
        let parts = parts.clone();
        let page = tokio::task::spawn_blocking(move || render(&parts)).await;
        page.unwrap_or_else(|error| {
            tracing::error!(%error, "a page of metrics could not be made");
            String::new()
        })
    }
}

/// Breakers that one recorder takes in. Ten thousand breakers make a page of about 26 MB within two seconds: with one
/// recorder for all of them in 250 MB, with one for each hundred in 40 MB.
const BREAKERS_AT_A_TIME: usize = 100;

fn render(parts: &Parts) -> String {
    let registry = &parts.registry;
    let mut page = Page::default();
    page.add(&recorded(|| server::show(parts)));
    let mut slots = registry.all();
    slots.sort_by(|a, b| a.name.cmp(&b.name));
    for slots in slots.chunks(BREAKERS_AT_A_TIME) {
        page.add(&recorded(|| {
            let seen = slots.iter().filter_map(|slot| breaker::Seen::of(slot, registry.clock.now()));
            seen.for_each(|seen| seen.show());
        }));
    }
    let mut text = page.into_text();
    // The facade takes single measurements only; these are counted in buckets already.
    durations::write(&mut text, &families::STORE_COMMIT, [(Vec::new(), parts.persist.commits().durations)]);
    let rpcs = parts.rpcs.all().into_iter();
    let rpcs = rpcs.map(|((method, code), durations)| (vec![("method", method), ("code", code)], durations));
    durations::write(&mut text, &families::RPC_DURATION, rpcs);
    text
}

/// What a recorder makes of what `show` sets into it.
fn recorded(show: impl FnOnce()) -> String {
    let recorder = PrometheusBuilder::new().with_recommended_naming(true).build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        families::describe();
        show();
    });
    handle.render()
}

/// The labels of one series.
type Labels = Vec<Label>;

/// A label. The exporter takes two backslashes for one that is escaped already, so each is doubled here.
fn label(name: &'static str, value: impl Into<SharedString>) -> Label {
    let value: SharedString = value.into();
    if value.contains('\\') { Label::new(name, value.replace('\\', "\\\\")) } else { Label::new(name, value) }
}

/// A label whose value many series share.
fn shared(name: &'static str, value: &Arc<str>) -> Label {
    label(name, Arc::clone(value))
}

fn gauge(family: &Family, labels: Labels, value: f64) {
    debug_assert_eq!(family.kind, Kind::Gauge, "{}", family.name);
    metrics::gauge!(family.name, labels).set(value);
}

fn counter(family: &Family, labels: Labels, value: u64) {
    debug_assert_eq!(family.kind, Kind::Counter, "{}", family.name);
    metrics::counter!(family.name, labels).absolute(value);
}
