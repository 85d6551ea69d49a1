//! What the client says in the log: one line when it goes LOCAL, one when it is back, and each complaint once.

use std::collections::HashSet;

use tonic::{Code, Status};

use crate::state::Freshness;

#[derive(Debug)]
pub(super) struct Log {
    url: String,
    /// The log says that the server is away.
    away: bool,
    complaints: HashSet<(&'static str, Code)>,
    pub(super) last_error: String,
}

impl Log {
    pub(super) fn new(url: String) -> Self {
        Self { url, away: false, complaints: HashSet::new(), last_error: "no answer yet".into() }
    }

    pub(super) fn turned(&mut self, from: Freshness, to: Freshness) {
        if to == Freshness::Local && from != Freshness::Local {
            self.is_away();
        }
    }

    /// A stream could not be opened, or broke.
    pub(super) fn broke(&mut self, status: Option<&Status>, was_ever_up: bool) {
        self.last_error = status.map_or_else(|| "the server ended the stream".into(), said);
        tracing::debug!(url = self.url, error = self.last_error, "no stream to the panel");
        // Once it was up, answers hold for a while: then the freshness says when they do not any more.
        if !was_ever_up {
            self.is_away();
        }
    }

    fn is_away(&mut self) {
        if !std::mem::replace(&mut self.away, true) {
            tracing::warn!(
                url = self.url,
                error = self.last_error,
                "the panel is away: breakers are LOCAL until it answers"
            );
        }
    }

    /// A stream has delivered all there is.
    pub(super) fn complete(&mut self) {
        if std::mem::replace(&mut self.away, false) {
            tracing::info!(url = self.url, "the panel answers: breakers are FRESH again");
        }
        self.complaints.clear();
    }

    /// An answer that no repetition will better. Said once until things go well again.
    pub(super) fn complain(&mut self, what: &'static str, status: &Status) {
        if self.complaints.insert((what, status.code())) {
            tracing::warn!(url = self.url, error = said(status), "the panel refuses {what}");
        }
    }
}

/// A status in one line, without its metadata.
pub(super) fn said(status: &Status) -> String {
    let mut message: String = status.message().chars().take(300).collect();
    let mut source = std::error::Error::source(status);
    while let Some(cause) = source {
        let cause_said = cause.to_string();
        if !message.contains(&cause_said) && message.len() < 600 {
            message = format!("{message}: {cause_said}");
        }
        source = cause.source();
    }
    format!("{:?}: {message}", status.code())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::{
        Event, Level, Metadata, Subscriber,
        span::{Attributes, Id, Record},
    };

    use super::*;

    /// Keeps the levels of what is logged above DEBUG.
    #[derive(Clone, Default)]
    struct Levels(Arc<Mutex<Vec<Level>>>);

    impl Subscriber for Levels {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::INFO
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            self.0.lock().unwrap().push(*event.metadata().level());
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    fn logged(script: impl FnOnce(&mut Log)) -> Vec<Level> {
        let levels = Levels::default();
        tracing::subscriber::with_default(levels.clone(), || script(&mut Log::new("http://panel".into())));
        levels.0.lock().unwrap().clone()
    }

    #[test]
    fn one_line_when_it_goes_local_and_one_when_it_is_back_however_many_breakers_there_are() {
        let levels = logged(|log| {
            log.complete();
            for _ in 0..100 {
                log.broke(None, true);
                log.turned(Freshness::Fresh, Freshness::Stale);
                log.turned(Freshness::Stale, Freshness::Local);
            }
            log.complete();
            log.complete();
        });
        assert_eq!(levels, [Level::WARN, Level::INFO]);
    }

    #[test]
    fn a_server_that_was_never_there_is_said_once() {
        let levels = logged(|log| {
            for _ in 0..100 {
                log.broke(Some(&Status::unavailable("refused")), false);
            }
        });
        assert_eq!(levels, [Level::WARN]);
    }

    #[test]
    fn each_complaint_is_made_once_until_things_go_well() {
        let levels = logged(|log| {
            for _ in 0..10 {
                log.complain("outcomes", &Status::unimplemented("too old"));
                log.complain("outcomes", &Status::permission_denied("no"));
            }
            log.complete();
            log.complain("outcomes", &Status::unimplemented("too old"));
        });
        assert_eq!(levels, [Level::WARN; 3]);
    }
}
