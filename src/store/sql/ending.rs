//! Runs that end without a commit, and what stays reserved after them.

use super::runs::Locked;
use super::{Connection, bulk, reservations, runs, timeline, workplaces};
use crate::domain::address::Pattern;
use crate::domain::id::{Actor, RunId};
use crate::domain::run::event::{Holder, RunEvent};
use crate::domain::run::{RunEnd, RunKind, RunStatus};
use crate::store::StoreError;
use crate::store::decide::{self, Unreleased};
use crate::store::fault::Fault;
use crate::store::model::Checkpoint;

pub(super) async fn end(db: &mut Connection, run: RunId, end: &RunEnd) -> Result<(), Fault> {
    if !end.status.ended() || end.status == RunStatus::Committed {
        return Err(StoreError::Stale(format!("a run cannot end without a commit as {}", end.status.word())).into());
    }
    let locked = runs::lock(db, run).await?;
    if locked.run.status.ended() {
        return settle(db, &locked, &end.quarantine).await;
    }
    let standing = reservations::standing(db, locked.state.id).await?;
    release(db, run, &standing, &end.quarantine).await?;
    // What changed without having been planned was never reserved. `*` stands for whatever the run has.
    let changed: Vec<Pattern> =
        end.quarantine.iter().filter(|pattern| **pattern != Pattern::Everything).cloned().collect();
    keep(db, &locked, &changed).await?;
    runs::set_ended(db, run, end).await
}

/// Stores what is known of a run by now, and adds to its quarantine, when it has ended, what it changed and does not keep
/// yet. Whoever takes it over sees both, or neither.
pub(super) async fn add(
    db: &mut Connection,
    run: RunId,
    changed: &[Pattern],
    checkpoint: &Checkpoint,
) -> Result<(), Fault> {
    let locked = runs::lock(db, run).await?;
    timeline::checkpoint_put(db, run, checkpoint).await?;
    if !locked.run.status.ended() {
        return Ok(());
    }
    late(db, &locked, changed).await
}

pub(super) async fn abort(db: &mut Connection, run: RunId, by: &Actor) -> Result<RunStatus, Fault> {
    let locked = runs::lock(db, run).await?;
    let before = locked.run.status;
    if before.ended() {
        return Ok(before);
    }
    let standing = reservations::standing(db, locked.state.id).await?;
    let end = RunEnd::plain(RunStatus::Aborted);
    let left = leave(db, run, &standing).await?;
    conclude(db, run, &end, RunEvent::Aborted { by: by.clone() }, left).await?;
    Ok(before)
}

/// A run that was ended from outside comes to its end, and says what it did change: between an abort and the moment in
/// which the run hears of it, Terraform goes on. That is quarantined even where somebody else has reserved it meanwhile,
/// because a record of what really exists must survive. What was kept only because it might change is free.
async fn settle(db: &mut Connection, locked: &Locked, changed: &[Pattern]) -> Result<(), Fault> {
    let run = locked.run.id;
    if !matches!(locked.run.status, RunStatus::Aborted | RunStatus::Lost) {
        return Ok(());
    }
    // One that recovers changes no real object. All that it had taken over was kept when it was ended, and may have been
    // recovered by somebody else since.
    if locked.run.kind == RunKind::Recover {
        return Ok(());
    }
    let standing = reservations::standing(db, locked.state.id).await?;
    bulk::release(db, &decide::kept_for_nothing(run, &standing, changed)).await?;
    late(db, locked, changed).await
}

/// Quarantines what a run changed and does not keep reserved yet, and says so on its timeline.
async fn late(db: &mut Connection, locked: &Locked, changed: &[Pattern]) -> Result<(), Fault> {
    let addresses = keep(db, locked, changed).await?;
    if addresses.is_empty() {
        return Ok(());
    }
    timeline::append(db, locked.run.id, &[RunEvent::Quarantined { addresses }]).await
}

/// Quarantines what a run changed and does not keep reserved yet. Returns the patterns of that.
async fn keep(db: &mut Connection, locked: &Locked, changed: &[Pattern]) -> Result<Vec<String>, Fault> {
    if changed.is_empty() {
        return Ok(Vec::new());
    }
    let standing = reservations::standing(db, locked.state.id).await?;
    let missing = decide::not_kept(locked.run.id, &standing, changed);
    if !missing.is_empty() {
        reservations::quarantine_late(db, locked, &missing).await?;
    }
    Ok(missing.iter().map(|claim| claim.pattern.to_string()).collect())
}

/// Ends a run that nobody has heard of any more, and that was left behind.
pub(super) async fn lose(db: &mut Connection, run: RunId, standing: &[Unreleased]) -> Result<(), Fault> {
    let left = leave(db, run, standing).await?;
    lost(db, run, None, false, left).await
}

/// Puts on record that a run is lost, and what it left. Its lease had ended when somebody asked for what it held, who did
/// or did not get that: others may be in the way, or what it left itself.
pub(super) async fn lost(
    db: &mut Connection,
    run: RunId,
    to: Option<Holder>,
    refused: bool,
    left: Vec<RunEvent>,
) -> Result<(), Fault> {
    let error = match &to {
        Some(taker) if refused => {
            let Holder { run, actor } = taker;
            format!("its lease had ended when run {run} by {actor} asked for what it held, and did not get it")
        }
        Some(taker) => {
            format!("its lease had ended, and run {} by {} has taken its reservations", taker.run, taker.actor)
        }
        None => "it was not heard of any more".to_owned(),
    };
    let end = RunEnd { error: Some(error), ..RunEnd::plain(RunStatus::Lost) };
    conclude(db, run, &end, RunEvent::LeaseLost { to, refused }, left).await
}

/// Takes its reservations from a run that cannot say itself what it has changed: its checkpoint does. Returns what there is
/// to tell of that.
pub(super) async fn leave(db: &mut Connection, run: RunId, standing: &[Unreleased]) -> Result<Vec<RunEvent>, Fault> {
    // Before the checkpoint is read: whoever brings the complete one forgets the workplace only then.
    let may_go_on = workplaces::find(db, run).await?.is_some();
    let checkpoint = completed(db, run).await?;
    let recovers = runs::find(db, run).await?.kind == RunKind::Recover;
    let keep = if recovers {
        // One that recovers has taken over what another one did, unless that one has kept it all.
        let of = timeline::recovers(db, run).await?;
        let kept = of.is_some_and(|of| decide::kept_by(of, run, standing));
        if kept { Vec::new() } else { vec![Pattern::Everything] }
    } else if may_go_on {
        // A Terraform whose end is not on record may still go on.
        vec![Pattern::Everything]
    } else {
        decide::touched(checkpoint.as_ref())
    };
    let quarantined = release(db, run, standing, &keep).await?;
    let mut events = Vec::new();
    // A recovery has its checkpoint from the run that it recovers, which says so itself.
    if let Some(checkpoint) = checkpoint.as_ref().filter(|_| !recovers) {
        let (rows, in_flight) = (checkpoint.recorded().len(), checkpoint.in_flight.len());
        events.push(RunEvent::CheckpointKept { rows, in_flight });
    }
    let in_flight = checkpoint.map(|checkpoint| checkpoint.in_flight).unwrap_or_default();
    if !quarantined.is_empty() {
        events.push(RunEvent::Quarantined { addresses: quarantined });
    }
    if !in_flight.is_empty() {
        events.push(RunEvent::InFlight { addresses: in_flight });
    }
    Ok(events)
}

/// Ends a run that has left what it held, with what there is to tell.
async fn conclude(
    db: &mut Connection,
    run: RunId,
    end: &RunEnd,
    event: RunEvent,
    left: Vec<RunEvent>,
) -> Result<(), Fault> {
    let events: Vec<RunEvent> = std::iter::once(event).chain(left).collect();
    timeline::append(db, run, &events).await?;
    runs::set_ended(db, run, end).await
}

/// The checkpoint of a run that is cut off, completed by what its timeline knows. One that somebody brings in this very
/// moment, who knows more, is not replaced.
async fn completed(db: &mut Connection, run: RunId) -> Result<Option<Checkpoint>, Fault> {
    let events = timeline::worked_on(db, run).await?;
    loop {
        let before = timeline::checkpoint_lock(db, run).await?;
        let now = decide::completed(before.as_ref(), &events);
        match (&before, &now) {
            (None, Some(new)) if !timeline::checkpoint_first(db, run, new).await? => {}
            (Some(before), Some(new)) if before != new => {
                timeline::checkpoint_put(db, run, new).await?;
                return Ok(now);
            }
            _ => return Ok(now),
        }
    }
}

/// Releases a run's reservations, except those to write rows that it changed. Returns the patterns of those.
async fn release(
    db: &mut Connection,
    run: RunId,
    standing: &[Unreleased],
    changed: &[Pattern],
) -> Result<Vec<String>, Fault> {
    let ending = decide::ending(run, standing, changed);
    bulk::release(db, &ending.release).await?;
    bulk::quarantine(db, &ending.keep).await?;
    Ok(ending.quarantined)
}
