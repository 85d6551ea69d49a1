//! Calls in one step: which endings a fallback meets, how it is counted, and what a subscriber sees.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use panelboard_client::{CallError, Fact, Missed, Reason, testing::FakePanel};
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, prelude::*};

// Fallbacks are counted by name for the process: each test has a name of its own.
const WAIT: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq)]
enum Broken {
    Timeout,
    Denied,
}

fn known(error: CallError<Broken>) -> Result<u32, CallError<Broken>> {
    match error {
        CallError::Rejected(rejected) if rejected.reason() != Reason::ForcedOpen => Ok(7),
        CallError::Failed(Broken::Timeout) => Ok(7),
        other => Err(other),
    }
}

#[tokio::test]
async fn a_fallback_meets_the_endings_it_knows_and_each_is_counted_by_kind() {
    const NAME: &str = "calls/counted";
    let panel = FakePanel::new();
    let quote = panel.client().breaker(NAME);
    panel.close(NAME).await;
    assert_eq!(quote.call_or(async || Ok(1), known).await, Ok(1));
    assert_eq!(quote.call_or(async || Err(Broken::Timeout), known).await, Ok(7));
    let denied = quote.call_or(async || Err(Broken::Denied), known).await;
    assert_eq!(denied, Err(CallError::Failed(Broken::Denied)));
    panel.open(NAME, WAIT).await;
    assert_eq!(quote.call_or(async || Ok(1), known).await, Ok(7));
    assert_eq!(quote.call_or(async || Ok(1), known).await, Ok(7));
    panel.force_open(NAME).await;
    let forced = quote.call_or(async || Ok(1), known).await.unwrap_err();
    assert_eq!(forced.reason(), Some(Reason::ForcedOpen));
    let counted: Vec<_> = quote.fallbacks().iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(counted, [(Missed::Rejected(Reason::Open), 2), (Missed::Failed, 1)]);
    assert_eq!(
        panel.client().breaker(NAME).fallbacks(),
        quote.fallbacks(),
        "handles of a name are one breaker"
    );
    assert_eq!(panel.client().breaker("another").fallbacks().total(), 0);
}

#[tokio::test]
async fn another_source_is_asked_only_when_told_so_and_counted_only_if_it_helped() {
    const NAME: &str = "calls/replica";
    let panel = FakePanel::new();
    let quote = panel.client().breaker(NAME);
    panel.close(NAME).await;
    let replica = async |_| Ok(2);
    let failed = quote.call_or_else(async || Err(Broken::Timeout), CallError::is_rejected, replica).await;
    assert_eq!(failed, Err(CallError::Failed(Broken::Timeout)));
    panel.open(NAME, WAIT).await;
    assert_eq!(quote.call_or_else(async || Ok(1), CallError::is_rejected, replica).await, Ok(2));
    let broken = async |_| Err(Broken::Denied);
    let failed = quote.call_or_else(async || Ok(1), CallError::is_rejected, broken).await;
    assert_eq!(failed, Err(CallError::Failed(Broken::Denied)));
    assert_eq!(quote.fallbacks().count(Missed::Rejected(Reason::Open)), 1);
    assert_eq!(quote.fallbacks().total(), 1);
}

#[tokio::test]
async fn a_fallback_that_is_written_out_is_counted_by_hand() {
    const NAME: &str = "calls/by-hand";
    let panel = FakePanel::new();
    let quote = panel.client().breaker(NAME);
    panel.quarantine(NAME, WAIT).await;
    quote.fell_back(&quote.try_acquire().unwrap_err());
    let error = CallError::Failed(Broken::Denied);
    quote.fell_back(&error);
    assert_eq!(quote.fallbacks().count(Missed::Rejected(Reason::Quarantined)), 1);
    assert_eq!(quote.fallbacks().count(Missed::Failed), 1);
}

#[tokio::test]
async fn a_failure_that_a_fallback_hides_from_the_caller_is_seen_by_the_breaker() {
    const NAME: &str = "calls/hidden";
    let panel = FakePanel::new();
    let quote = panel.client().breaker(NAME);
    panel.close(NAME).await;
    assert_eq!(quote.call_or(async || Err(Broken::Timeout), known).await, Ok(7));
    assert_eq!(panel.reported_calls(NAME, 1).await.failures, 1);
}

/// What a subscriber has seen of one span: `name{field=value ...}`, and whether something ran within it.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn add(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(format!("{}={value:?}", field.name()));
    }
}

impl<S: Subscriber> Layer<S> for Seen {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.add(attributes.metadata().name().to_owned());
        attributes.record(&mut self.clone());
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        values.record(&mut self.clone());
    }
}

#[tokio::test]
async fn a_call_is_a_span_that_says_how_it_ended_and_holds_what_ran_within() {
    const NAME: &str = "calls/spans";
    let panel = FakePanel::new();
    let quote = panel.client_with(|builder| builder.probe_wait(Duration::from_secs(5))).breaker(NAME);
    panel.half_open(NAME, 1).await;
    let seen = Seen::default();
    let filtered = seen.clone().with_filter(tracing_subscriber::filter::filter_fn(|metadata| {
        metadata.is_span() && metadata.target().starts_with("panelboard_client")
    }));
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(filtered));
    let within = async || {
        assert_eq!(tracing::Span::current().metadata().map(|metadata| metadata.name()), Some("breaker.call"));
        Err::<u32, _>(Broken::Timeout)
    };
    let began = Instant::now();
    // Asked again should the probe's way take longer than the client waits for it: the machine may be busy.
    while quote.call_with(|_| Fact::HttpStatus(503), within).await != Err(CallError::Failed(Broken::Timeout))
    {
        assert!(began.elapsed() < WAIT, "{}", quote.status());
        seen.take();
    }
    let head = ["breaker.call".to_owned(), format!("breaker={NAME:?}")];
    let ended =
        ["outcome=\"error\"", "fact=HttpStatus(503)", "freshness=FRESH", "probe=true"].map(str::to_owned);
    assert_eq!(seen.take(), [&head[..], &ended].concat());
    panel.open(NAME, WAIT).await;
    assert!(quote.call(async || Ok::<_, Broken>(1)).await.is_err());
    let ended =
        ["outcome=\"rejected\"", "reason=\"OPEN\"", "freshness=FRESH", "probe=false"].map(str::to_owned);
    assert_eq!(seen.take(), [&head[..], &ended].concat());
    panel.close(NAME).await;
    assert_eq!(quote.call(async || Ok::<_, Broken>(1)).await, Ok(1));
    let ended = ["outcome=\"ok\"", "fact=Success", "freshness=FRESH", "probe=false"].map(str::to_owned);
    assert_eq!(seen.take(), [&head[..], &ended].concat());
}
