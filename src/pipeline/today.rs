//! What has become, by now, of a run that did not go through: advice is for today, not for the day of the refusal.

use crate::domain::coordination::reservation::{Blocker, Reservation, blockers};
use crate::domain::id::Serial;
use crate::domain::run::{Run, RunKind, RunStatus};
use crate::error::KlError;
use crate::report::view::{Made, Today};
use crate::store::Store;
use crate::store::model::RunQuery;

/// So many later runs of the same request are looked through for one that made the change.
const LATER: u32 = 50;

/// Whether a run has ended without making its change.
pub(super) fn unmade(run: &Run) -> bool {
    use RunStatus::{Aborted, Conflict, Failed, Lost, Stale};
    run.kind == RunKind::Apply && matches!(run.status, Failed | Conflict | Stale | Lost | Aborted)
}

/// The same by a few questions to the store; none for a run that went through or still goes on.
pub async fn look(store: &dyn Store, run: &Run) -> Result<Option<Today>, KlError> {
    if !unmade(run) {
        return Ok(None);
    }
    let standing = store.reservation_list(run.state).await?;
    let now = store.now().await?;
    let in_the_way = in_the_way(run, &standing, now);
    if let Some(spec) = run.spec
        && let Some(version) = store.applied_version(run.state, spec).await?
        && let Some(by) = version.run.filter(|_| version.at >= run.started_at)
    {
        let made = Made { serial: version.serial, run: by, actor: version.actor, planned_again: false };
        return Ok(Some(Today { made: Some(made), in_the_way }));
    }
    let Some(request) = run.origin.request else { return Ok(Some(Today { made: None, in_the_way })) };
    let query = RunQuery {
        state: Some(run.state),
        since: Some(run.started_at),
        status: Some(RunStatus::Committed),
        request: Some(request),
        limit: LATER,
        ..RunQuery::default()
    };
    let later = store.run_page(&query).await?;
    Ok(Some(Today { made: made(run, later.iter().rev()), in_the_way }))
}

/// What would stand in the way of a run if it asked again now.
pub(super) fn in_the_way(run: &Run, standing: &[Reservation], now: chrono::DateTime<chrono::Utc>) -> Vec<Blocker> {
    if run.status == RunStatus::Conflict { blockers(run.id, i64::MAX, &run.claims, standing, now) } else { Vec::new() }
}

/// The first of some runs, in the order of their beginning, that made the change of an earlier one: of the same spec, or of
/// the same request.
pub(super) fn made<'r>(run: &Run, runs: impl Iterator<Item = &'r Run>) -> Option<Made> {
    let ours = &run.origin;
    let same_spec = |other: &Run| run.spec.is_some() && other.spec == run.spec;
    let same_request = |other: &Run| {
        let theirs = &other.origin;
        ours.request.is_some()
            && (&ours.forge, &ours.repository, ours.request) == (&theirs.forge, &theirs.repository, theirs.request)
    };
    let later = |other: &&Run| {
        other.state == run.state
            && other.kind == RunKind::Apply
            && other.started_at >= run.started_at
            && other.id != run.id
            && (same_spec(other) || same_request(other))
    };
    let found = |other: &Run| {
        let serial: Serial = other.result_serial?;
        Some(Made { serial, run: other.id, actor: other.actor.clone(), planned_again: !same_spec(other) })
    };
    runs.filter(later).find_map(found)
}
