//! Reporting outcomes.

use std::{sync::Arc, time::Duration};

use panelboard_core::{Entry, Timestamp};
use panelboard_proto::v1;
use tonic::{Code, Status};

use super::{Agent, events::Event, probe::is_passing};
use crate::{
    cell::{Cell, Source},
    limits::{ENTRIES_PER_REPORT_MAX, RECONNECT_MAX, REPORT_TIMEOUT, REPORTS_IN_FLIGHT_MAX},
    metrics::Flush,
    slot::Slot,
    wire,
};

/// The owner of a breaker moved: the new one is known soon.
const MOVED: Duration = Duration::from_millis(100);

/// Reports under way, and what waits for them.
#[derive(Debug, Default)]
pub(super) struct Reports {
    in_flight: usize,
    batch: Vec<(Arc<Slot>, Entry)>,
    later: Vec<Arc<Slot>>,
    /// Reports in a row that were not answered.
    failures: u32,
}

impl Reports {
    pub(super) fn batch(&mut self, slot: Arc<Slot>, entry: Entry) {
        self.batch.push((slot, entry));
    }

    /// Looks at this cell again when a Report was answered.
    pub(super) fn later(&mut self, slot: Arc<Slot>) {
        self.later.push(slot);
    }

    pub(super) const fn are_idle(&self) -> bool {
        self.in_flight == 0
    }
}

impl Agent {
    pub(super) fn may_send(&self) -> bool {
        let reports = &self.reports;
        reports.in_flight + reports.batch.len() / ENTRIES_PER_REPORT_MAX < REPORTS_IN_FLIGHT_MAX
    }

    /// Sends what was batched.
    pub(super) fn send_reports(&mut self) {
        let mut batch = std::mem::take(&mut self.reports.batch);
        while !batch.is_empty() {
            let rest = batch.split_off(batch.len().min(ENTRIES_PER_REPORT_MAX));
            self.send_report(std::mem::replace(&mut batch, rest));
        }
    }

    fn send_report(&mut self, batch: Vec<(Arc<Slot>, Entry)>) {
        let entries = batch.iter().map(|(slot, entry)| wire::entry(slot.name.as_str(), entry)).collect();
        let sent = batch.into_iter().map(|(slot, entry)| (slot, entry.sequence.unwrap_or(0))).collect();
        let request = v1::ReportRequest { client: Some(wire::client(&self.told.identity)), entries };
        let Some(mut client) = self.client() else {
            return self.on_reported(sent, Err(Status::unavailable("there is no connection yet")));
        };
        self.reports.in_flight += 1;
        let sender = self.sender.clone();
        tokio::spawn(async move {
            let answer = tokio::time::timeout(REPORT_TIMEOUT, client.report(request)).await;
            let result = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer to Report")));
            let result = result.map(tonic::Response::into_inner);
            // A closed channel says that the client has ended.
            drop(sender.send(Event::Reported { sent, result }).await);
        });
    }

    pub(super) fn on_reported(
        &mut self,
        sent: Vec<(Arc<Slot>, u64)>,
        result: Result<v1::ReportResponse, Status>,
    ) {
        self.reports.in_flight = self.reports.in_flight.saturating_sub(1);
        self.touched.append(&mut self.reports.later);
        match result {
            Ok(answer) => {
                self.reports.failures = 0;
                self.meter.flushed(Flush::Ok);
                let mut results = answer.results.into_iter();
                for (slot, sequence) in sent {
                    slot.with(|cell, now| cell.ticked(answer.tick, now));
                    self.on_result(&slot, sequence, results.next());
                }
            }
            Err(status) => self.on_refused(sent, &status),
        }
    }

    fn on_result(&mut self, slot: &Arc<Slot>, sequence: u64, result: Option<v1::ReportResult>) {
        // Before the status is applied: what the status ends must not be sent again.
        slot.with(|cell, now| answered(cell, sequence, result.as_ref(), now));
        let Some(result) = result else { return self.touched.push(Arc::clone(slot)) };
        slot.meter.answered();
        if let Some(error) = &result.error {
            if error.code == Code::NotFound as i32 {
                self.not_found(slot, "");
            } else {
                self.log
                    .complain("an entry", &Status::new(Code::from_i32(error.code), error.message.clone()));
            }
        }
        if let Some(status) = &result.status {
            self.apply(slot, status, None, Source::Answer);
        }
        self.touched.push(Arc::clone(slot));
    }

    fn on_refused(&mut self, sent: Vec<(Arc<Slot>, u64)>, status: &Status) {
        let code = status.code();
        self.reports.failures = self.reports.failures.saturating_add(1);
        let again = if is_passing(code) {
            self.meter.flushed(Flush::Failed);
            super::backoff(&mut self.dice, self.reports.failures)
        } else {
            self.meter.flushed(Flush::Refused);
            self.log.complain("outcomes", status);
            RECONNECT_MAX
        };
        for (slot, sequence) in sent {
            slot.with(|cell, now| refused(cell, sequence, code, again, now));
            self.touched.push(slot);
        }
    }
}

/// What the result of an entry means for its cell.
pub(super) fn answered(cell: &mut Cell, sequence: u64, result: Option<&v1::ReportResult>, now: Timestamp) {
    match result.map(v1::ReportResult::result) {
        // Fewer results than entries: that server is broken, and the entry may or may not have been counted.
        None => cell.unanswered(sequence, RECONNECT_MAX, now),
        Some(v1::EntryResult::Retry) => cell.unanswered(sequence, MOVED, now),
        Some(_) => cell.acknowledged(sequence, now),
    }
}

/// What it means for a cell that a whole Report was refused.
pub(super) fn refused(cell: &mut Cell, sequence: u64, code: Code, again: Duration, now: Timestamp) {
    // Malformed or too large as it is: it would be refused for ever.
    if matches!(code, Code::InvalidArgument | Code::OutOfRange) {
        cell.acknowledged(sequence, now);
    } else {
        cell.unanswered(sequence, again, now);
    }
}
