//! Looking: GetBreaker, ListBreakers, ListTransitions. None of them takes a probe or makes a breaker.

use panelboard_core::BreakerName;
use panelboard_proto::v1;
use prost::Message;
use tonic::Status;

use super::validate::Violations;
use crate::history;
use crate::parts::Parts;

pub(super) fn get_breaker(
    parts: &Parts,
    request: &v1::GetBreakerRequest,
) -> Result<v1::GetBreakerResponse, Status> {
    let registry = &parts.registry;
    let name = one_name(&request.breaker)?;
    let slot = registry.look_up(&name)?;
    Ok(crate::view::breaker(registry, &slot).full)
}

pub(super) fn list_breakers(
    parts: &Parts,
    request: &v1::ListBreakersRequest,
) -> Result<v1::ListBreakersResponse, Status> {
    let registry = &parts.registry;
    let mut wrong = Violations::default();
    let size = wrong.page_size(request.page_size, &registry.limits);
    let pattern = match request.pattern.as_str() {
        "" => None,
        text => wrong.pattern("pattern", text),
    };
    // A page token is the last name of the page before.
    let after = match request.page_token.as_str() {
        "" => None,
        text => wrong.name("page_token", text),
    };
    wrong.into_result()?;

    let mut names = registry.names(pattern.as_ref());
    names.retain(|name| after.as_ref().is_none_or(|after| name > after));
    let status = |name: &BreakerName| Some(registry.look(&*registry.find(name)?).after.to_wire(name, false));
    let (breakers, more) = page(names.iter().filter_map(status), size, registry.limits.message_bytes);
    let next_page_token = match breakers.last() {
        Some(last) if more => last.name.clone(),
        _ => String::new(),
    };
    Ok(v1::ListBreakersResponse { breakers, next_page_token })
}

/// The first of `all`, as many as a page and a message hold, and whether there are more.
fn page<M: Message>(all: impl Iterator<Item = M>, size: usize, message_bytes: usize) -> (Vec<M>, bool) {
    // A quarter is left for what is around them; a single one is always sent.
    let bytes_max = message_bytes / 4 * 3;
    let (mut taken, mut bytes) = (Vec::new(), 0);
    for item in all {
        bytes += item.encoded_len();
        if taken.len() == size || (bytes > bytes_max && !taken.is_empty()) {
            return (taken, true);
        }
        taken.push(item);
    }
    (taken, false)
}

pub(super) fn list_transitions(
    parts: &Parts,
    request: &v1::ListTransitionsRequest,
) -> Result<v1::ListTransitionsResponse, Status> {
    let registry = &parts.registry;
    let mut wrong = Violations::default();
    let name = wrong.name("breaker", &request.breaker);
    let size = wrong.page_size(request.page_size, &registry.limits);
    // A page token is when the last incident of the page before began.
    let before = match request.page_token.as_str() {
        "" => u64::MAX,
        text => text.parse().unwrap_or_else(|_| {
            wrong.add("page_token", format!("{text:?} is not a token of this method"));
            0
        }),
    };
    wrong.into_result()?;
    let Some(name) = name else { return Err(Status::internal("a name was lost")) };

    let slot = registry.look_up(&name)?;
    registry.look(&slot);
    let incidents: Vec<_> = {
        let mut cell = slot.lock();
        history::prune(&mut cell.incidents, registry.clock.unix_ms(), &registry.limits);
        let older = cell.incidents.iter().rev().filter(|incident| history::opened_unix_ms(incident) < before);
        older.take(size + 1).cloned().collect()
    };
    let incidents = incidents.iter().map(|incident| v1::Incident::clone(incident));
    let (incidents, more) = page(incidents, size, registry.limits.message_bytes);
    let next_page_token = match incidents.last() {
        Some(last) if more => history::opened_unix_ms(last).to_string(),
        _ => String::new(),
    };
    Ok(v1::ListTransitionsResponse { incidents, next_page_token })
}

fn one_name(text: &str) -> Result<BreakerName, Status> {
    let mut wrong = Violations::default();
    let name = wrong.name("breaker", text);
    wrong.into_result()?;
    name.ok_or_else(|| Status::internal("a name was lost"))
}
