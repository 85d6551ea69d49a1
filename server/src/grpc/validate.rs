//! What is wrong with a request: all of it at once, each with its field.

use std::fmt::Display;

use panelboard_core::{BreakerName, Caller, Instance, Pattern, Session};
use panelboard_proto::v1;

use crate::limits::{DURATION_SECONDS, Limits, RAW_PER_ENTRY, VIOLATIONS};

/// What is wrong with a request, as (field, description).
#[derive(Debug, Default)]
pub(super) struct Violations {
    told: Vec<(String, String)>,
    count: usize,
}

impl Violations {
    pub(super) fn add(&mut self, field: impl Into<String>, description: impl Display) {
        self.count += 1;
        if self.told.len() < VIOLATIONS {
            self.told.push((field.into(), description.to_string()));
        }
    }

    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// The first of them.
    pub(super) fn told(self) -> impl Iterator<Item = (String, String)> {
        self.told.into_iter()
    }

    pub(super) fn into_result(self) -> Result<(), Self> {
        if self.count == 0 { Ok(()) } else { Err(self) }
    }

    pub(super) fn name(&mut self, field: &str, text: &str) -> Option<BreakerName> {
        BreakerName::parse(text).map_err(|error| self.add(field, error)).ok()
    }

    pub(super) fn pattern(&mut self, field: &str, text: &str) -> Option<Pattern> {
        Pattern::parse(text).map_err(|error| self.add(field, error)).ok()
    }

    /// The client: who it is. None given: the anonymous instance.
    pub(super) fn client(&mut self, client: Option<&v1::Client>, limits: &Limits) -> Identity {
        let Some(client) = client else { return Identity::anonymous() };
        let words = [
            ("service", &client.service),
            ("instance", &client.instance),
            ("session", &client.session),
            ("zone", &client.zone),
            ("version", &client.version),
        ];
        for (field, word) in words {
            if word.len() > limits.client_word_bytes {
                let (bytes, most) = (word.len(), limits.client_word_bytes);
                self.add(
                    format!("client.{field}"),
                    format!("has {bytes} bytes, {most} are allowed: shorten it"),
                );
            } else if let Some(control) = word.chars().find(|c| c.is_control()) {
                self.add(
                    format!("client.{field}"),
                    format!("holds the control character {control:?}: remove it"),
                );
            }
        }
        Identity {
            instance: Instance::new(&client.service, &client.instance),
            session: (!client.session.is_empty()).then(|| Session(client.session.as_str().into())),
        }
    }

    pub(super) fn entry(
        &mut self,
        at: usize,
        entry: &v1::ReportEntry,
        limits: &Limits,
    ) -> Option<BreakerName> {
        let field = |name: &str| format!("entries[{at}].{name}");
        let name = self.name(&field("breaker"), &entry.breaker);
        let counts = [
            ("successes", entry.successes),
            ("failures", entry.failures),
            ("slow_successes", entry.slow_successes),
            ("slow_failures", entry.slow_failures),
            ("ignored", entry.ignored),
            ("abandoned", entry.abandoned),
            ("rejected", entry.rejected),
        ];
        let most = u32::try_from(limits.counts_per_entry).unwrap_or(u32::MAX);
        let too_many = |n: u32| (n > most).then(|| format!("{n} calls, {most} are allowed: split the entry"));
        for (count, n) in counts {
            if let Some(message) = too_many(n) {
                self.add(field(count), message);
            }
        }
        for (slow, of, part, whole) in [
            ("slow_successes", "successes", entry.slow_successes, entry.successes),
            ("slow_failures", "failures", entry.slow_failures, entry.failures),
        ] {
            if part > whole {
                self.add(field(slow), format!("{part} are more than the {whole} {of} they are part of"));
            }
        }
        if let Some(streaks) = &entry.streaks {
            let longest = streaks.leading.max(streaks.trailing).max(streaks.longest);
            if longest > entry.failures {
                let failures = entry.failures;
                self.add(
                    field("streaks"),
                    format!("a streak of {longest} is longer than the {failures} failures"),
                );
            }
        }
        self.causes(&field("causes"), entry, limits, &too_many);
        self.duration(&field("retry_after"), entry.retry_after.as_ref());
        if entry.raw.len() > RAW_PER_ENTRY {
            self.add(
                field("raw"),
                format!("{} facts, {RAW_PER_ENTRY} are allowed: split the entry", entry.raw.len()),
            );
        }
        for (index, raw) in entry.raw.iter().take(RAW_PER_ENTRY).enumerate() {
            self.raw(&field(&format!("raw[{index}]")), raw, limits, &too_many);
        }
        if entry.probe_id != 0 {
            let raw: u64 = entry.raw.iter().map(|raw| u64::from(raw.count.max(1))).sum();
            let calls = [entry.successes, entry.failures, entry.ignored, entry.abandoned];
            let calls = calls.into_iter().map(u64::from).sum::<u64>() + raw;
            if calls != 1 {
                self.add(field("probe_id"), format!("a probe is one call, the entry holds {calls}"));
            }
        }
        name
    }

    fn causes(
        &mut self,
        field: &str,
        entry: &v1::ReportEntry,
        limits: &Limits,
        too_many: &impl Fn(u32) -> Option<String>,
    ) {
        if entry.causes.len() > limits.causes_per_entry {
            let (n, most) = (entry.causes.len(), limits.causes_per_entry);
            self.add(field, format!("{n} causes, {most} are allowed: count the rare ones together"));
            return;
        }
        for (cause, n) in &entry.causes {
            self.cause(field, cause, limits);
            if let Some(message) = too_many(*n) {
                self.add(field, message);
            }
        }
    }

    fn cause(&mut self, field: &str, cause: &str, limits: &Limits) {
        if cause.is_empty() || cause.len() > limits.cause_bytes {
            let (bytes, most) = (cause.len(), limits.cause_bytes);
            self.add(field, format!("a cause has {bytes} bytes: give 1 to {most}"));
        }
    }

    fn raw(
        &mut self,
        field: &str,
        raw: &v1::RawOutcome,
        limits: &Limits,
        too_many: &impl Fn(u32) -> Option<String>,
    ) {
        use v1::raw_outcome::Fact;
        match &raw.fact {
            Some(Fact::HttpStatus(status)) if !(100..=599).contains(status) => {
                self.add(
                    format!("{field}.http_status"),
                    format!("{status} is not an HTTP status: give 100 to 599"),
                );
            }
            Some(Fact::GrpcCode(code)) if *code > 16 => {
                self.add(format!("{field}.grpc_code"), format!("{code} is not a gRPC code: give 0 to 16"));
            }
            Some(Fact::Cause(cause)) => self.cause(&format!("{field}.cause"), cause, limits),
            None => self.add(field, "says nothing: give http_status, grpc_code, timed_out or cause"),
            Some(Fact::HttpStatus(_) | Fact::GrpcCode(_) | Fact::TimedOut(_)) => {}
        }
        self.duration(&format!("{field}.duration"), raw.duration.as_ref());
        if let Some(message) = too_many(raw.count) {
            self.add(format!("{field}.count"), message);
        }
    }

    fn duration(&mut self, field: &str, duration: Option<&prost_types::Duration>) {
        let Some(duration) = duration else { return };
        let (seconds, nanos) = (duration.seconds, duration.nanos);
        if seconds < 0 || nanos < 0 {
            self.add(
                field,
                format!("{seconds} s and {nanos} ns are negative: give a duration of zero or more"),
            );
        } else if nanos > 999_999_999 || seconds > DURATION_SECONDS {
            self.add(field, format!("{seconds} s and {nanos} ns are out of range: give at most a week"));
        }
    }

    /// A page's size; 0 means the default.
    pub(super) fn page_size(&mut self, given: i32, limits: &Limits) -> usize {
        const DEFAULT: usize = 100;
        match usize::try_from(given) {
            Ok(0) => DEFAULT.min(limits.page_size),
            Ok(size) if size <= limits.page_size => size,
            _ => {
                self.add(
                    "page_size",
                    format!("{given} is out of range: give 1 to {}, or 0", limits.page_size),
                );
                0
            }
        }
    }
}

/// Who calls.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    instance: Instance,
    session: Option<Session>,
}

impl Identity {
    fn anonymous() -> Self {
        Self { instance: Instance::anonymous(), session: None }
    }

    pub(super) fn caller(&self) -> Caller<'_> {
        Caller { instance: &self.instance, session: self.session.as_ref() }
    }
}
