//! A run that nobody has ended, because its kl died: whoever recovers it ends it first.

use crate::domain::id::RunId;
use crate::domain::run::event::RunEvent;
use crate::domain::run::{Run, RunKind};
use crate::error::KlError;
use crate::pipeline::Context;
use crate::pipeline::leftover;

/// A run that has ended.
pub(super) struct Ended {
    /// The run.
    pub(super) run: Run,
    /// Whether it was ended just now, its kl being dead.
    pub(super) now: bool,
}

/// The run, which must have ended. One whose kl is dead for sure, or gave no sign of life for as long as its lease, is ended
/// here: nobody else may come to do that for minutes.
pub(super) async fn ended(ctx: &Context, failed: RunId) -> Result<Ended, KlError> {
    let run = ctx.store.run_find(failed).await?;
    if run.status.ended() {
        return Ok(Ended { run, now: false });
    }
    let why = if leftover::is_dead_here(&*ctx.store, failed).await? {
        "its kl is dead: it no longer holds its work directory"
    } else if lease_is_over(ctx, &run).await? {
        "its lease is over"
    } else {
        let word = run.status.word();
        let hint = if ctx.store.workplace_find(failed).await?.is_some() {
            format!(
                "wait for it; when its job is dead, `kl recover {failed}` on its machine goes on at once, and elsewhere \
                 when the lease is over, or after `kl abort {failed}`"
            )
        } else if run.kind == RunKind::Recover {
            format!(
                "wait for it; when its job is dead, `kl abort {failed}` ends it at once, and `kl recover {failed}` then \
                 takes over what it was to bring in"
            )
        } else {
            format!(
                "wait for it; it has not begun to change anything, and when its job is dead, `kl abort {failed}` ends it \
                 at once"
            )
        };
        return Err(KlError::usage(format!("run {failed} is still {word}, and its lease is good")).hint(hint));
    };
    let message = format!("the run was still {}, and {why}: it is ended now", run.status.word());
    ctx.warn(format!("run {failed}: {message}"));
    ctx.store.event_append(failed, &[RunEvent::Warning { message }]).await?;
    ctx.store.run_abort(failed, &ctx.actor).await?;
    Ok(Ended { run: ctx.store.run_find(failed).await?, now: true })
}

/// Whether a run had reserved something, and any other run could have all of it by now.
async fn lease_is_over(ctx: &Context, run: &Run) -> Result<bool, KlError> {
    let standing = ctx.store.reservation_list(run.state).await?;
    let mut own = standing.iter().filter(|one| one.run == run.id && one.acquired_at.is_some()).peekable();
    if own.peek().is_none() {
        return Ok(false);
    }
    let now = ctx.store.now().await?;
    Ok(own.all(|one| one.expires_at.is_some_and(|end| end <= now)))
}
