//! The events and checkpoints of runs.

use std::collections::BTreeMap;

use sqlx::{query, query_as, query_scalar};

use super::{Connection, bulk};
use crate::domain::id::RunId;
use crate::domain::run::event::{RecordedEvent, RunEvent};
use crate::store::codec;
use crate::store::fault::Fault;
use crate::store::model::Checkpoint;
use crate::store::values::{Id, JsonText, Time};
use crate::store::{StoreError, not_found};

type CheckpointColumns = (String, JsonText, JsonText, Option<i64>);

pub(super) async fn append(db: &mut Connection, run: RunId, events: &[RunEvent]) -> Result<(), Fault> {
    // The lock on the run keeps two writers from taking the same places.
    let known: Option<Id> = query_scalar(concat!("SELECT id FROM runs WHERE id = $1", lock_row!()))
        .bind(Id(run.0))
        .fetch_optional(&mut *db)
        .await?;
    known.ok_or_else(|| not_found("run", run))?;
    let last: i64 = query_scalar("SELECT COALESCE(MAX(seq), 0) FROM run_events WHERE run_id = $1")
        .bind(Id(run.0))
        .fetch_one(&mut *db)
        .await?;
    let columns = events.iter().map(codec::event_columns).collect::<Result<Vec<_>, StoreError>>()?;
    let placed: Vec<(i64, String, JsonText)> =
        (last + 1..).zip(columns).map(|(seq, (kind, event))| (seq, kind, event)).collect();
    bulk::insert_events(db, run, placed).await
}

pub(super) async fn list(db: &mut Connection, run: RunId) -> Result<Vec<RecordedEvent>, Fault> {
    let found: Vec<(i64, Time, JsonText)> =
        query_as("SELECT seq, at, event FROM run_events WHERE run_id = $1 ORDER BY seq")
            .bind(Id(run.0))
            .fetch_all(&mut *db)
            .await?;
    if found.is_empty() {
        super::runs::find(db, run).await?;
    }
    Ok(found.into_iter().map(codec::event).collect::<Result<_, StoreError>>()?)
}

/// The events of several runs, or all of them but those of single resources.
pub(super) async fn lists(
    db: &mut Connection,
    runs: &[RunId],
    whole: bool,
) -> Result<BTreeMap<RunId, Vec<RecordedEvent>>, Fault> {
    let found: Vec<(Id, i64, Time, JsonText)> = query_as(concat!(
        "SELECT run_id, seq, at, event FROM run_events WHERE run_id IN (",
        id_list!("$1"),
        ") AND ($2 OR kind <> 'resource') ORDER BY run_id, seq"
    ))
    .bind(codec::json(&runs)?)
    .bind(whole)
    .fetch_all(db)
    .await?;
    let mut lists: BTreeMap<RunId, Vec<RecordedEvent>> = BTreeMap::new();
    for (run, seq, at, event) in found {
        lists.entry(RunId(run.0)).or_default().push(codec::event((seq, at, event))?);
    }
    Ok(lists)
}

/// The events of a run but those of single resources, in their order.
pub(super) async fn outline(db: &mut Connection, run: RunId) -> Result<Vec<RecordedEvent>, Fault> {
    let found: Vec<(i64, Time, JsonText)> =
        query_as("SELECT seq, at, event FROM run_events WHERE run_id = $1 AND kind <> 'resource' ORDER BY seq")
            .bind(Id(run.0))
            .fetch_all(db)
            .await?;
    Ok(found.into_iter().map(codec::event).collect::<Result<_, StoreError>>()?)
}

/// The events of single resources, in their order.
pub(super) async fn worked_on(db: &mut Connection, run: RunId) -> Result<Vec<RunEvent>, Fault> {
    let found: Vec<(i64, Time, JsonText)> =
        query_as("SELECT seq, at, event FROM run_events WHERE run_id = $1 AND kind = 'resource' ORDER BY seq")
            .bind(Id(run.0))
            .fetch_all(db)
            .await?;
    let read = |columns| codec::event(columns).map(|recorded| recorded.event);
    Ok(found.into_iter().map(read).collect::<Result<_, StoreError>>()?)
}

/// The run whose quarantine a recovery has taken over.
pub(super) async fn recovers(db: &mut Connection, run: RunId) -> Result<Option<RunId>, Fault> {
    let found: Option<(i64, Time, JsonText)> = query_as(
        "SELECT seq, at, event FROM run_events WHERE run_id = $1 AND kind = 'recovers' ORDER BY seq DESC LIMIT 1",
    )
    .bind(Id(run.0))
    .fetch_optional(db)
    .await?;
    Ok(match found.map(codec::event).transpose()?.map(|recorded| recorded.event) {
        Some(RunEvent::Recovers { of }) => Some(of),
        _ => None,
    })
}

/// Stores a checkpoint; where there is one, `conflict` says what becomes of it.
macro_rules! checkpoint_insert {
    ($conflict:literal) => {
        concat!(
            "INSERT INTO run_checkpoints (run_id, state, changed, in_flight, slice_serial, taken_at)
             VALUES ($1, $2, $3, $4, $5, ",
            now!(),
            ") ON CONFLICT (run_id) ",
            $conflict
        )
    };
}

/// Runs one of the statements above; says whether a row was written.
async fn insert(
    db: &mut Connection,
    statement: &'static str,
    run: RunId,
    checkpoint: &Checkpoint,
) -> Result<bool, Fault> {
    let done = query(statement)
        .bind(Id(run.0))
        .bind(&checkpoint.state)
        .bind(codec::json(&checkpoint.changed)?)
        .bind(codec::json(&checkpoint.in_flight)?)
        .bind(checkpoint.slice_serial.map(|serial| serial.0))
        .execute(db)
        .await?;
    Ok(done.rows_affected() > 0)
}

pub(super) async fn checkpoint_put(db: &mut Connection, run: RunId, checkpoint: &Checkpoint) -> Result<(), Fault> {
    let replace = checkpoint_insert!(
        "DO UPDATE SET state = excluded.state, changed = excluded.changed, in_flight = excluded.in_flight,
           slice_serial = excluded.slice_serial, taken_at = excluded.taken_at"
    );
    match insert(db, replace, run, checkpoint).await {
        Err(fault) if fault.missing_reference() => Err(not_found("run", run).into()),
        other => other.map(drop),
    }
}

/// Keeps the first checkpoint of a run; says whether it is the first.
pub(super) async fn checkpoint_first(db: &mut Connection, run: RunId, checkpoint: &Checkpoint) -> Result<bool, Fault> {
    insert(db, checkpoint_insert!("DO NOTHING"), run, checkpoint).await
}

pub(super) async fn checkpoint_find(db: &mut Connection, run: RunId) -> Result<Option<Checkpoint>, Fault> {
    let found: Option<CheckpointColumns> =
        query_as("SELECT state, changed, in_flight, slice_serial FROM run_checkpoints WHERE run_id = $1")
            .bind(Id(run.0))
            .fetch_optional(db)
            .await?;
    Ok(found.map(codec::checkpoint).transpose()?)
}

/// The same, and nobody replaces it before this transaction has ended.
pub(super) async fn checkpoint_lock(db: &mut Connection, run: RunId) -> Result<Option<Checkpoint>, Fault> {
    let found: Option<CheckpointColumns> = query_as(concat!(
        "SELECT state, changed, in_flight, slice_serial FROM run_checkpoints WHERE run_id = $1",
        lock_row!()
    ))
    .bind(Id(run.0))
    .fetch_optional(db)
    .await?;
    Ok(found.map(codec::checkpoint).transpose()?)
}

/// Gives a run the checkpoint of another one, for when it takes over that one's quarantine.
pub(super) async fn checkpoint_copy(db: &mut Connection, from: RunId, to: RunId) -> Result<(), Fault> {
    query(
        "INSERT INTO run_checkpoints (run_id, state, changed, in_flight, slice_serial, taken_at)
         SELECT $2, state, changed, in_flight, slice_serial, taken_at FROM run_checkpoints WHERE run_id = $1
         ON CONFLICT (run_id) DO NOTHING",
    )
    .bind(Id(from.0))
    .bind(Id(to.0))
    .execute(db)
    .await?;
    Ok(())
}
