//! The commit: from a run's changes to a new version.

use std::collections::HashMap;

use sqlx::{query, query_as};

use super::runs::Locked;
use super::{Connection, bulk, reservations, timeline, workplaces};
use crate::domain::id::{Serial, StateId};
use crate::domain::run::RunKind;
use crate::domain::state::RowKeyDigest;
use crate::domain::state::document::DocumentHead;
use crate::store::codec;
use crate::store::decide::{self, Changes, Current};
use crate::store::fault::Fault;
use crate::store::model::{Commit, Committed};
use crate::store::values::{Id, JsonText};
use crate::store::{Held, StoreError};

pub(super) async fn commit(db: &mut Connection, held: &Held, commit: &Commit) -> Result<Committed, Fault> {
    let locked = reservations::fence(db, held).await?;
    let committed = version(db, &locked, commit).await?;
    query(concat!("UPDATE runs SET status = 'committed', result_serial = $2, ended_at = ", now!(), " WHERE id = $1"))
        .bind(Id(held.run().0))
        .bind(committed.serial.0)
        .execute(&mut *db)
        .await?;
    reservations::release_all(db, held.run()).await?;
    workplaces::forget(db, held.run()).await?;
    Ok(committed)
}

/// Writes a new version for a run, with what is told of it on the run's timeline, under the lock of its state. What becomes
/// of the run is the caller's.
pub(super) async fn version(db: &mut Connection, locked: &Locked, commit: &Commit) -> Result<Committed, Fault> {
    let state = &locked.state;
    let lineage = decide::lineage(state.lineage.as_ref(), &commit.lineage)?;
    let next = state.serial.next();
    let serial = commit.at_least.map_or(next, |least| least.max(next));

    let trunk = trunk(db, state.id, &decide::concerned(commit)).await?;
    // Only soft rows have to know who else has reserved what.
    let mut standing = if commit.soft.is_empty() { Vec::new() } else { reservations::standing(db, state.id).await? };
    if locked.run.kind == RunKind::Recover
        && let Some(of) = timeline::recovers(db, locked.run.id).await?
    {
        // What it recovers may be kept by the run that it recovers it from.
        standing.retain(|one| !one.quarantined_by(of));
    }
    let changes = decide::changes(locked.run.id, commit, &trunk, &standing);

    insert_version(db, locked, serial, commit, &changes).await?;
    bulk::close(db, &changes.close, serial).await?;
    bulk::insert_bodies(db, &changes.open).await?;
    bulk::open(db, state.id, serial, codec::row_columns(&changes.open)).await?;
    query("UPDATE states SET serial = $2, lineage = $3 WHERE id = $1")
        .bind(Id(state.id.0))
        .bind(serial.0)
        .bind(&lineage.0)
        .execute(&mut *db)
        .await?;
    let (rows_opened, rows_closed, rows_touched) = (changes.open.len(), changes.close.len(), changes.touched);
    let events = decide::told(commit, serial, &changes);
    timeline::append(db, locked.run.id, &events).await?;
    Ok(Committed { serial, rows_opened, rows_closed, rows_touched, left: changes.left, events })
}

/// The rows of the trunk that a commit is about.
async fn trunk(
    db: &mut Connection,
    state: StateId,
    digests: &[RowKeyDigest],
) -> Result<HashMap<RowKeyDigest, Current>, Fault> {
    let found = bulk::trunk(db, state, digests).await?;
    let read = |(id, digest, hash): (i64, Vec<u8>, Vec<u8>)| {
        Ok((codec::row_digest(&digest)?, Current { id, hash: codec::content_hash(&hash)? }))
    };
    Ok(found.into_iter().map(read).collect::<Result<_, StoreError>>()?)
}

async fn insert_version(
    db: &mut Connection,
    locked: &Locked,
    serial: Serial,
    commit: &Commit,
    changes: &Changes<'_>,
) -> Result<(), Fault> {
    let (state, run) = (&locked.state, &locked.run);
    let (terraform_version, extra) = match &commit.document {
        Some(DocumentHead { terraform_version, extra }) => (codec::plain(terraform_version), codec::json(extra)?),
        None => document(db, state.id, state.serial).await?,
    };
    query(concat!(
        "INSERT INTO state_versions (state_id, serial, source_serial, committed_at, actor, origin, run_id, spec_id,
                                     source, mode, terraform_version, document, providers, rows_opened, rows_closed,
                                     rows_touched)
         VALUES ($1, $2, $3, ",
        now!(),
        ", $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
    ))
    .bind(Id(state.id.0))
    .bind(serial.0)
    .bind(commit.source_serial.0)
    .bind(&run.actor.0)
    .bind(codec::origin(&run.origin)?)
    .bind(Id(run.id.0))
    .bind(run.spec.map(|spec| Id(spec.0)))
    .bind(codec::word(&commit.source))
    .bind(codec::word(&commit.mode))
    .bind(terraform_version)
    .bind(extra)
    .bind(codec::json(&commit.providers)?)
    .bind(i64::try_from(changes.open.len()).unwrap_or(i64::MAX))
    .bind(i64::try_from(changes.close.len()).unwrap_or(i64::MAX))
    .bind(i64::try_from(changes.touched).unwrap_or(i64::MAX))
    .execute(db)
    .await?;
    Ok(())
}

/// The document's other members at a serial.
async fn document(db: &mut Connection, state: StateId, serial: Serial) -> Result<(String, JsonText), Fault> {
    let found: Option<(String, JsonText)> =
        query_as("SELECT terraform_version, document FROM state_versions WHERE state_id = $1 AND serial = $2")
            .bind(Id(state.0))
            .bind(serial.0)
            .fetch_optional(db)
            .await?;
    Ok(found.unwrap_or_else(|| (String::new(), JsonText("[]".to_owned()))))
}
