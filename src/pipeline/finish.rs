//! Ending a run whose job is over and that could not end itself: what Terraform did is brought into the store first,
//! because the machine may be gone a moment later.

use super::Context;
use super::evidence;
use super::leftover::{self, Leftover};
use crate::domain::run::Run;
use crate::domain::run::event::RunEvent;
use crate::domain::run::workplace::Workplace;
use crate::error::KlError;

/// What came of it.
pub enum Finished {
    /// Somebody still works for it, as the error says.
    Working(KlError),
    /// It is ended.
    Ended(Remains),
}

/// What remains of a run that is ended.
pub struct Remains {
    /// Rows that Terraform changed, or was working on, and that stay reserved until they are recovered.
    pub quarantined: Vec<String>,
    /// Objects that may exist without being in any state.
    pub unknown: Vec<String>,
    /// Whether anything is on record that could be recovered.
    pub on_record: bool,
    /// Where Terraform may have gone on unseen.
    pub unseen: Option<Workplace>,
}

/// Ends a run whose kl is known to be gone. One that somebody else has ended in the meantime keeps its status and its
/// quarantine; what its Terraform did is brought into the store all the same. Where Terraform still works, what it has done
/// so far is put on record if this is the `last` look at it.
pub async fn finish(ctx: &Context, run: &Run, last: bool) -> Result<Finished, KlError> {
    let leftover = leftover::look(ctx, run.id).await?;
    // One that is closed to this kl is refused where it would be read: nothing is ended or freed.
    if let Leftover::Working(working) = &leftover {
        let error = working.refusal();
        return Ok(Finished::Working(match working.so_far().filter(|_| last) {
            Some(here) => {
                let checkpoint = evidence::so_far(ctx, run, here).await?;
                ctx.store.checkpoint_put(run.id, &checkpoint).await?;
                error.hint("what it has done so far is on record")
            }
            None => error,
        }));
    }
    let evidence = evidence::gather(ctx, run, leftover).await?;
    if let (Some(checkpoint), Some(_)) = (&evidence.checkpoint, &evidence.here) {
        // Somebody may have recovered elsewhere what was on record until now.
        ctx.store.quarantine_add(run.id, &evidence.news, checkpoint).await?;
        ctx.store.event_append(run.id, &evidence.unheard).await?;
        // The checkpoint is complete now: no more than what it names has to stay reserved.
        ctx.store.workplace_forget(run.id).await?;
    }
    if !run.status.ended() {
        let message = "the job ended before the run did; what terraform had done by then is on record".to_owned();
        ctx.store.event_append(run.id, &[RunEvent::Warning { message }]).await?;
        ctx.store.run_abort(run.id, &ctx.actor).await?;
    }
    if let Some(here) = evidence.here {
        here.clear(ctx).await;
    }
    let standing = ctx.store.reservation_list(run.state).await?;
    let own = standing.into_iter().filter(|reservation| reservation.run == run.id);
    Ok(Finished::Ended(Remains {
        quarantined: own.map(|reservation| reservation.claim.pattern.to_string()).collect(),
        unknown: evidence.unknown,
        on_record: evidence.checkpoint.is_some(),
        unseen: evidence.unseen,
    }))
}
