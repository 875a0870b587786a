//! What a recovery cannot find out by itself, and who can: a person who looks, or the machine on which the run worked.

use crate::domain::id::RunId;
use crate::domain::run::workplace::Workplace;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::evidence::Evidence;
use crate::pipeline::leftover::is_elsewhere;

/// Why going on without a person could make an object a second time.
pub(super) fn needs_a_person(failed: RunId, evidence: &Evidence) -> Option<KlError> {
    if let Some(place) = &evidence.unseen {
        return Some(not_seen(failed, place, evidence));
    }
    created_unseen(failed, &evidence.unknown)
}

/// Why going on could make an object a second time that was being made when the run was cut off.
pub(super) fn created_unseen(failed: RunId, unknown: &[String]) -> Option<KlError> {
    if unknown.is_empty() {
        return None;
    }
    let names = unknown.join(", ");
    Some(
        KlError::new(
            Exit::Conflict,
            format!("run {failed} was cut off while it created {names}: it may exist without being in the state"),
        )
        .hint(format!("look at the provider; `kl recover {failed}` takes over what is known"))
        .hint("then import the object or delete it: the next apply would create it a second time"),
    )
}

fn not_seen(failed: RunId, place: &Workplace, evidence: &Evidence) -> KlError {
    let Workplace { host, dir, .. } = place;
    let in_flight = evidence.checkpoint.iter().flat_map(|checkpoint| &checkpoint.in_flight).cloned();
    let in_flight: Vec<String> = in_flight.collect();
    let working_on =
        if in_flight.is_empty() { String::new() } else { format!("; it was working on {}", in_flight.join(", ")) };
    let error = KlError::new(
        Exit::Conflict,
        format!(
            "run {failed} was cut off on {host}, and from here it cannot be seen what its Terraform did after that{working_on}"
        ),
    )
    .hint(format!("its work directory is {dir} on {host}: `kl recover {failed}` there, or an apply, finds out by itself"));
    match (evidence.checkpoint.is_some(), is_elsewhere(place)) {
        (false, _) => error.hint(format!(
            "nothing is on record: else look at the provider, import or delete what it made, then \
             `kl recover {failed} --discard` frees the rows"
        )),
        (true, true) => error.hint(format!(
            "when that machine is gone: `kl recover {failed}` takes over what is on record; look at the provider, import or \
             delete what is not, then `kl recover {failed} --discard` frees the rows"
        )),
        (true, false) => error.hint(format!(
            "or look at the provider, then `kl recover {failed}` takes over what is on record; import or delete what is not"
        )),
    }
}

/// Why nothing can be recovered where nothing is on record.
pub(super) fn nothing_on_record(failed: RunId, unseen: Option<&Workplace>) -> KlError {
    let error = KlError::usage(format!("run {failed} left no checkpoint that could be recovered"));
    let error = match unseen {
        Some(Workplace { host, dir, .. }) => error.hint(format!(
            "its work directory was {dir} on {host}: should it be there still, `kl recover {failed}` there takes over \
             what it tells"
        )),
        None => error,
    };
    error.hint(format!("look at the real objects; `kl recover {failed} --discard` frees what it still reserves"))
}
