//! Taking over what a failed or lost run has really done, or dropping it (design §9).

use std::collections::{BTreeMap, BTreeSet};

use super::Context;
use super::record::Recorder;
use super::reserve::DEFAULT_LEASE;
use crate::clock;
use crate::domain::address::Pattern;
use crate::domain::id::{RunId, Serial, StateId};
use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::event::RunEvent;
use crate::domain::run::{NewRun, Run, RunEnd, RunKind};
use crate::domain::state::delta::{Distance, distance};
use crate::domain::state::{Body, RowKey, document};
use crate::error::KlError;
use crate::store::model::{Checkpoint, Commit, CommitMode, Committed, LineageRule, RowWrite, Source};
use crate::store::{Held, StoreError};

/// Commits what the checkpoint of an ended run holds, and frees its quarantine.
pub async fn recover(ctx: &Context, failed: RunId) -> Result<Committed, KlError> {
    let old = ctx.store.run_find(failed).await?;
    if !old.status.ended() {
        return Err(KlError::usage(format!("run {failed} is still {}", old.status.word()))
            .hint(format!("wait for it, or end it with `kl abort {failed}` when its job is dead")));
    }
    let Some(checkpoint) = ctx.store.checkpoint_find(failed).await? else {
        return Err(KlError::usage(format!("run {failed} left no checkpoint that could be recovered"))
            .hint(format!("look at the real objects; `kl recover {failed} --discard` frees what it still reserves")));
    };
    let run = clock::new_run_id();
    ctx.store
        .run_start(&NewRun {
            id: run,
            state: old.state,
            kind: RunKind::Recover,
            actor: ctx.actor.clone(),
            origin: ctx.origin.clone(),
            spec: old.spec,
            source_serial: old.source_serial,
            tools: old.tools.clone(),
            claims: Vec::new(),
        })
        .await?;
    let recorder = Recorder::new(ctx.store.clone(), ctx.sink.clone(), run);
    let held = match ctx.store.quarantine_adopt(run, failed, DEFAULT_LEASE).await {
        Ok(held) => held,
        Err(StoreError::NotFound { .. }) => {
            ctx.store.run_end(run, &RunEnd::failed("nothing to recover")).await?;
            return Err(KlError::usage(format!(
                "run {failed} has no quarantine: it was recovered or discarded before"
            )));
        }
        Err(error) => {
            drop(ctx.store.run_end(run, &RunEnd::failed(error.to_string())).await);
            return Err(error.into());
        }
    };
    // The checkpoint went over with the rows: a crash from here on leaves this run lost, to be recovered the same way.
    match take_over(ctx, &recorder, &held, &old, &checkpoint).await {
        Ok(committed) => Ok(committed),
        Err(error) => {
            let end = RunEnd { quarantine: checkpoint.changed, ..RunEnd::failed(error.message()) };
            let ended = ctx.store.run_end(run, &end).await;
            let error = error.hint(format!("nothing was recovered yet; try again with `kl recover {run}`"));
            Err(match ended {
                Ok(()) => error,
                Err(_) => error.hint(format!("if that run is still live, end it first with `kl abort {run}`")),
            })
        }
    }
}

/// Commits what the checkpoint holds, under the reservations that were taken over.
async fn take_over(
    ctx: &Context,
    recorder: &Recorder,
    held: &Held,
    old: &Run,
    checkpoint: &Checkpoint,
) -> Result<Committed, KlError> {
    let snapshot = ctx.store.snapshot(old.state, None).await?;
    let left = document::read(&checkpoint.state)?;
    let trunk = snapshot.rows.iter().map(|(row, _)| (&row.key, &row.body)).collect();
    let commit = Commit {
        source: Source::Recover,
        mode: CommitMode::RowDelta,
        source_serial: old.source_serial,
        lineage: LineageRule::OrNew(clock::new_lineage()),
        at_least: None,
        document: None,
        providers: old.tools.providers.clone(),
        writes: writes(&checkpoint.changed, &trunk, &left)?,
        soft: Vec::new(),
    };
    let committed = ctx.store.run_commit(held, &commit).await?;
    // The version exists: a timeline that cannot be written does not make the recovery a failure.
    if !checkpoint.in_flight.is_empty() {
        drop(recorder.record(RunEvent::InFlight { addresses: checkpoint.in_flight.clone() }).await);
    }
    let event = RunEvent::Committed {
        serial: committed.serial,
        rows_opened: committed.rows_opened,
        rows_closed: committed.rows_closed,
    };
    drop(recorder.record(event).await);
    Ok(committed)
}

/// The rows of the checkpoint that the run had changed.
fn writes(
    changed: &[Pattern],
    trunk: &BTreeMap<&RowKey, &Body>,
    left: &document::StateDocument,
) -> Result<Vec<RowWrite>, KlError> {
    let changed: BTreeSet<&Pattern> = changed.iter().collect();
    let ours = |key: &RowKey| key.pattern().is_some_and(|pattern| changed.contains(&pattern));
    let now: BTreeMap<&RowKey, &Body> =
        left.rows.iter().filter(|row| ours(&row.key)).map(|row| (&row.key, &row.body)).collect();
    let mut writes = Vec::new();
    for (key, body) in &now {
        let same = match trunk.get(*key) {
            Some(before) => distance(before, body)? == Distance::Same,
            None => false,
        };
        if !same {
            writes.push(RowWrite { key: (*key).clone(), body: Some((*body).clone()) });
        }
    }
    for key in trunk.keys().filter(|key| ours(key) && !now.contains_key(**key)) {
        writes.push(RowWrite { key: (*key).clone(), body: None });
    }
    Ok(writes)
}

/// Drops what an ended run left: its rows are free again, and its real objects are nobody's.
pub async fn discard(ctx: &Context, failed: RunId) -> Result<u64, KlError> {
    let old = ctx.store.run_find(failed).await?;
    if !old.status.ended() {
        return Err(KlError::usage(format!("run {failed} is still {}", old.status.word())));
    }
    Ok(ctx.store.quarantine_release(failed).await?)
}

/// The rows that versions of this very spec have already brought into the trunk: an earlier apply that failed
/// half-way and was recovered.
pub async fn done_by_same_spec(ctx: &Context, state: StateId, spec: &PlanSpec) -> Result<BTreeSet<String>, KlError> {
    let since: Serial = spec.state.serial;
    let changes = ctx.store.rows_changed_since(state, since).await?;
    Ok(changes
        .into_iter()
        .filter(|change| change.spec == Some(spec.id))
        .map(|change| change.key.address_text())
        .collect())
}
