//! What has become, by now, of a run that did not go through: advice is for today, not for the day of the refusal.

use super::{stale, story};
use crate::domain::coordination::reservation::{Blocker, Reservation, blockers};
use crate::domain::id::SpecId;
use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::again::{Again, again, settles};
use crate::domain::run::{Run, RunKind, RunStatus};
use crate::error::KlError;
use crate::report::view::{Made, Today};
use crate::store::Store;
use crate::store::model::RunQuery;

/// So many later runs of the same request, or else of the same actor, are looked through for one that made the change.
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
        let still = still_so(store, run, spec).await?;
        let made = Made { serial: Some(version.serial), run: by, actor: version.actor, how: Again::Applied };
        let (made, undone) = if still { (Some(made), None) } else { (None, Some(made)) };
        return Ok(Some(Today { made, undone, in_the_way }));
    }
    let request = run.origin.request;
    let mut later = Vec::new();
    for status in [RunStatus::Committed, RunStatus::Noop] {
        let query = RunQuery {
            state: Some(run.state),
            since: Some(run.started_at),
            status: Some(status),
            actor: request.is_none().then(|| run.actor.clone()),
            request,
            limit: LATER,
            ..RunQuery::default()
        };
        later.extend(store.run_page(&query).await?);
    }
    later.sort_by_key(|run| (run.started_at, run.id));
    Ok(Some(Today { made: made(run, later.iter()), undone: None, in_the_way }))
}

/// Whether what applying the spec of a run has made is still so. A spec that another version of kl has stored says nothing
/// else than that it was applied.
async fn still_so(store: &dyn Store, run: &Run, spec: SpecId) -> Result<bool, KlError> {
    let document = story::found(store.spec_find(spec).await)?.map(|stored| stored.spec.document);
    let Some(spec) = document.and_then(|document| PlanSpec::read(&document).ok()) else { return Ok(true) };
    Ok(stale::applied_before(store, run.state, &spec).await?.is_some())
}

/// What would stand in the way of a run if it asked again now.
pub(super) fn in_the_way(run: &Run, standing: &[Reservation], now: chrono::DateTime<chrono::Utc>) -> Vec<Blocker> {
    if run.status == RunStatus::Conflict { blockers(run.id, i64::MAX, &run.claims, standing, now) } else { Vec::new() }
}

/// The first of some runs, in the order of their beginning, that made the change of an earlier one.
pub(super) fn made<'r>(run: &Run, mut runs: impl Iterator<Item = &'r Run>) -> Option<Made> {
    let settled = |other: &'r Run| {
        let how = again(run, other).filter(|how| settles(*how, other))?;
        Some(Made { serial: other.result_serial, run: other.id, actor: other.actor.clone(), how })
    };
    runs.find_map(settled)
}
