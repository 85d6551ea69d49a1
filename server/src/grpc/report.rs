//! Report.

use std::net::IpAddr;

use panelboard_core::{BreakerName, Reported};
use panelboard_proto::v1;
use tonic::Status;

use super::{
    errors,
    errors::reason,
    validate::{Identity, Violations},
};
use crate::{limits::SUGGESTIONS, parts::Parts, registry::Seen};

pub(super) fn report(
    parts: &Parts,
    request: &v1::ReportRequest,
    from: Option<IpAddr>,
) -> Result<v1::ReportResponse, Status> {
    let registry = &parts.registry;
    let limits = &registry.limits;
    if request.entries.len() > limits.entries_per_report {
        let (n, most) = (request.entries.len(), limits.entries_per_report);
        let message = format!("{n} entries, {most} are allowed: split the report");
        return Err(errors::exhausted(reason::TOO_MANY_ENTRIES, "entries_per_report", message));
    }
    // Nothing is counted unless everything is well formed.
    let mut wrong = Violations::default();
    let identity = wrong.client(request.client.as_ref(), limits);
    let names: Vec<_> =
        request.entries.iter().enumerate().map(|(at, entry)| wrong.entry(at, entry, limits)).collect();
    wrong.into_result()?;
    registry.seen_from(identity.caller(), from);

    // Finding the nearest name is a search: the first few slips of a request are worth it.
    let mut suggestions = SUGGESTIONS;
    let results = request.entries.iter().zip(names);
    let results = results
        .filter_map(|(entry, name)| Some(take(parts, &identity, entry, &name?, &mut suggestions)))
        .collect();
    Ok(v1::ReportResponse { results, tick: registry.clock.now().as_millis() })
}

fn take(
    parts: &Parts,
    identity: &Identity,
    entry: &v1::ReportEntry,
    name: &BreakerName,
    suggestions: &mut usize,
) -> v1::ReportResult {
    let registry = &parts.registry;
    let (reported, Seen { after, progress }) = match registry.report(name, identity.caller(), entry) {
        Ok(done) => done,
        Err(mut missing) => {
            registry.reports.refused();
            if *suggestions > 0 {
                *suggestions -= 1;
                missing = registry.with_nearest(missing);
            }
            let (code, reason) = errors::entry_code(&missing);
            let error =
                v1::EntryError { code: code.into(), reason: reason.into(), message: missing.to_string() };
            return v1::ReportResult { error: Some(error), ..v1::ReportResult::default() };
        }
    };
    v1::ReportResult {
        result: result_to_wire(reported).into(),
        status: Some(after.to_wire(name, false)),
        progress,
        error: None,
    }
}

const fn result_to_wire(reported: Reported) -> v1::EntryResult {
    match reported {
        Reported::Counted => v1::EntryResult::Counted,
        Reported::StaleGeneration => v1::EntryResult::StaleGeneration,
        Reported::UnknownProbe => v1::EntryResult::UnknownProbe,
        Reported::Duplicate => v1::EntryResult::Duplicate,
        Reported::TooOld => v1::EntryResult::TooOld,
        Reported::NotRecorded => v1::EntryResult::NotRecorded,
    }
}
