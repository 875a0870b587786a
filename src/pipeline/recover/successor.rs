//! Who has taken over what a run left, and what to do where that was no success.

use super::Trouble;
use crate::domain::id::RunId;
use crate::domain::run::Run;
use crate::domain::run::event::RunEvent;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::Context;

/// Why it was not recovered, for whoever asked.
pub(super) async fn told(ctx: &Context, old: &Run, trouble: Trouble) -> Result<KlError, KlError> {
    let failed = old.id;
    match trouble {
        Trouble::TooEarly(error) | Trouble::Closed(error) | Trouble::Other(error) => Ok(error),
        Trouble::Gone => Ok(match successor(ctx, old).await? {
            Some(run) if run.status.ended() => KlError::usage(format!(
                "run {} took over what run {failed} left, and failed before it was done",
                run.id
            ))
            .hint(format!("try again with `kl recover {}`", run.id)),
            Some(run) => KlError::new(
                Exit::Conflict,
                format!("run {} by {} is recovering what run {failed} left", run.id, run.actor),
            )
            .hint(format!(
                "wait for it; if it is dead, `kl abort {0}` ends it, and `kl recover {0}` goes on from there",
                run.id
            )),
            None => KlError::usage(format!(
                "run {failed} has no quarantine: it left nothing, or was recovered or discarded before"
            )),
        }),
    }
}

/// The recovery that has what a run left, and has not brought it into the trunk: as the timelines tell, from one that took
/// it over to the next.
pub(super) async fn successor(ctx: &Context, old: &Run) -> Result<Option<Run>, KlError> {
    let mut last = None;
    let mut run = old.id;
    while let Some(by) = taken_over_by(ctx, run).await? {
        last = Some(by);
        run = by;
    }
    let Some(last) = last else { return Ok(None) };
    let standing = ctx.store.reservation_list(old.state).await?;
    if standing.iter().any(|reservation| reservation.run == last) {
        return Ok(Some(ctx.store.run_find(last).await?));
    }
    Ok(None)
}

async fn taken_over_by(ctx: &Context, run: RunId) -> Result<Option<RunId>, KlError> {
    let events = ctx.store.event_list(run).await?;
    Ok(events.into_iter().rev().find_map(|recorded| match recorded.event {
        RunEvent::TakenOver { by, .. } => Some(by),
        _ => None,
    }))
}
