//! A change of rows that needs no Terraform: worked out, reserved, worked out again, committed, and on record as a run.

use std::time::Duration;

use super::Context;
use super::record::Recorder;
use super::reserve;
use crate::clock;
use crate::domain::coordination::claim_index::ClaimIndex;
use crate::domain::coordination::reservation::{Blocker, Claim};
use crate::domain::id::RunId;
use crate::domain::run::event::RunEvent;
use crate::domain::run::{NewRun, RunEnd, RunKind, RunStatus, Tools};
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::conflict;
use crate::store::Held;
use crate::store::model::{Commit, Committed, Snapshot, StateHead};

/// So often an errand is worked out again because somebody else has committed meanwhile.
const TRIES: usize = 10;

/// How an errand is carried out.
#[derive(Debug, Clone, Copy)]
pub struct Errand {
    /// What for.
    pub kind: RunKind,
    /// The lease of its reservations.
    pub lease: Duration,
    /// How long to wait in turn for them.
    pub wait: Option<Duration>,
}

/// What an errand comes to on a trunk.
#[derive(Debug, Clone)]
pub struct Change {
    /// What has to be reserved for it.
    pub claims: Vec<Claim>,
    /// What is said of it on the run's timeline, before it is done.
    pub announced: Option<RunEvent>,
    /// What is committed.
    pub commit: Commit,
}

/// Carries out a change. `work_out` says what it is on a trunk, none when there is nothing to do: it is asked before
/// anything is reserved, and again with everything reserved. Gives the run and what it committed; none when there was
/// nothing to do.
pub async fn carry_out(
    ctx: &Context,
    head: &StateHead,
    errand: Errand,
    mut work_out: impl AsyncFnMut(&Snapshot) -> Result<Option<Change>, KlError>,
) -> Result<Option<(RunId, Committed)>, KlError> {
    let ctx = &ctx.patient(errand.lease);
    let snapshot = ctx.store.snapshot(head.id, None).await?;
    let Some(change) = work_out(&snapshot).await? else { return Ok(None) };
    let run = clock::new_run_id();
    ctx.store
        .run_start(&NewRun {
            id: run,
            state: head.id,
            kind: errand.kind,
            actor: ctx.actor.clone(),
            origin: ctx.origin.clone(),
            spec: None,
            source_serial: snapshot.head.serial,
            tools: Tools::default(),
            claims: change.claims.clone(),
        })
        .await?;
    let recorder = Recorder::new(ctx.store.clone(), ctx.sink.clone(), run);
    let end = match reserved(ctx, &recorder, head, errand, change, &mut work_out).await {
        Ok(Some(committed)) => return Ok(Some((run, committed))),
        Ok(None) => {
            ctx.store.run_end(run, &RunEnd::plain(RunStatus::Noop)).await?;
            return Ok(None);
        }
        Err(failure) => failure,
    };
    let (error, blockers) = end;
    let status = if blockers.is_empty() { RunStatus::Failed } else { RunStatus::Conflict };
    let end = RunEnd { error: Some(error.on_record()), conflict: blockers, ..RunEnd::plain(status) };
    drop(ctx.store.run_end(run, &end).await);
    Err(error)
}

type Failure = (KlError, Vec<Blocker>);

fn plain(error: impl Into<KlError>) -> Failure {
    (error.into(), Vec::new())
}

async fn reserved(
    ctx: &Context,
    recorder: &Recorder,
    head: &StateHead,
    errand: Errand,
    first: Change,
    work_out: &mut impl AsyncFnMut(&Snapshot) -> Result<Option<Change>, KlError>,
) -> Result<Option<Committed>, Failure> {
    let mut claims = first.claims;
    for _ in 0..TRIES {
        let held = acquire(ctx, recorder, &claims, errand).await?;
        let snapshot = ctx.store.snapshot(head.id, None).await.map_err(plain)?;
        let Some(change) = work_out(&snapshot).await.map_err(plain)? else { return Ok(None) };
        // Somebody else may have been first, and what there is to do may be more by that.
        let index = ClaimIndex::new(&claims);
        let covered = |claim: &Claim| index.meeting(&claim.pattern).any(|own| own.pattern.covers(&claim.pattern));
        let more: Vec<Claim> = change.claims.iter().filter(|claim| !covered(claim)).cloned().collect();
        if more.is_empty() {
            return commit(ctx, recorder, &held, change).await.map(Some);
        }
        claims.extend(more);
    }
    Err(plain(
        KlError::failed("others commit faster than this could be worked out; nothing was changed").hint("try again"),
    ))
}

async fn acquire(ctx: &Context, recorder: &Recorder, claims: &[Claim], errand: Errand) -> Result<Held, Failure> {
    match reserve::acquire(ctx, recorder, claims, errand.lease, errand.wait).await.map_err(plain)? {
        reserve::Outcome::Granted { held, .. } => Ok(held),
        reserve::Outcome::Blocked(blockers) => {
            let message = format!("{}\n{}", conflict::title(&blockers), conflict::text(&blockers).trim_end());
            let error = KlError::new(Exit::Conflict, message);
            Err((conflict::hints(&blockers).into_iter().fold(error, KlError::hint), blockers))
        }
    }
}

async fn commit(ctx: &Context, recorder: &Recorder, held: &Held, change: Change) -> Result<Committed, Failure> {
    if let Some(event) = change.announced {
        recorder.record(event).await.map_err(plain)?;
    }
    let committed = ctx.store.run_commit(held, &change.commit).await.map_err(plain)?;
    recorder.tell_all(&committed.events);
    Ok(committed)
}
