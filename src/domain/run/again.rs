//! Whether a later run takes up the change of an earlier one that did not go through.

use super::{Origin, Run, RunStatus};
use crate::domain::address::Pattern;
use crate::domain::coordination::reservation::AccessMode;

/// So many patterns of a run are compared with those of another one.
const COMPARED: usize = 200;

/// How a later run takes up the change of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// It applies the same spec.
    Applied,
    /// It applies another plan for the same request, which writes all that the earlier one was to write.
    Planned,
    /// It applies another plan of the same request, or outside of requests of the same actor, which writes some of the same
    /// rows. It may be for something else.
    Followed,
}

/// How a run that began later takes up the change of an earlier one; none if it does not.
#[must_use]
pub fn again(first: &Run, later: &Run) -> Option<Again> {
    let follows = later.id != first.id && later.started_at >= first.started_at;
    if !follows || (later.state, later.kind) != (first.state, first.kind) {
        return None;
    }
    if first.spec.is_some() && later.spec == first.spec {
        return Some(Again::Applied);
    }
    let (same_request, same_author) = match (request(&first.origin), request(&later.origin)) {
        (Some(ours), Some(theirs)) => (ours == theirs, ours == theirs),
        (None, None) => (false, first.actor == later.actor),
        _ => (false, false),
    };
    if !same_author {
        return None;
    }
    let (wanted, wants) = (writes(first), writes(later));
    let all = (1..=COMPARED).contains(&wanted.len());
    let mut wanted = wanted.into_iter().take(COMPARED);
    if same_request && all && wanted.clone().all(|pattern| wants.iter().any(|other| other.covers(pattern))) {
        return Some(Again::Planned);
    }
    let meets = wanted.any(|pattern| wants.iter().any(|other| pattern.intersects(other)));
    meets.then_some(Again::Followed)
}

/// Whether a later run has brought the change of an earlier one to its end: it made a version, or there was nothing left to
/// do.
#[must_use]
pub fn settles(how: Again, later: &Run) -> bool {
    match later.status {
        RunStatus::Committed => true,
        // That another plan had nothing to do says nothing of this one.
        RunStatus::Noop => how != Again::Followed,
        _ => false,
    }
}

/// The request behind a run, with all that tells it from others of the same number.
fn request(origin: &Origin) -> Option<impl PartialEq> {
    origin.request.map(|number| (origin.forge.clone(), origin.repository.clone(), number))
}

/// What a run wants to write.
fn writes(run: &Run) -> Vec<&Pattern> {
    let claims = run.claims.iter().filter(|claim| claim.mode == AccessMode::Write);
    claims.map(|claim| &claim.pattern).collect()
}
