//! Old garbage: its removal, a few at a time.

use chrono::{DateTime, Utc};
use sqlx::{query, query_as, query_scalar};

use super::super::{Connection, ending, reservations, runs, states};
use super::{SILENCE, cutoff, versions};
use crate::domain::digest::hex;
use crate::domain::id::RunId;
use crate::domain::run::RunStatus;
use crate::store::codec;
use crate::store::fault::Fault;
use crate::store::model::{Garbage, GarbageKind, Retention};
use crate::store::values::{Id, Time};

/// Runs go with all that they have, so only a few of them at a time.
const RUNS_PER_BATCH: u32 = 500;

/// The sum of what a removal returned: the bytes of each thing.
fn sum(sizes: &[i64]) -> Garbage {
    Garbage { count: sizes.len() as u64, bytes: sizes.iter().sum::<i64>().unsigned_abs() }
}

/// Removes at most `most` of a kind; nothing when there is none left.
pub(in super::super) async fn remove(
    db: &mut Connection,
    kind: GarbageKind,
    retention: &Retention,
    most: u32,
) -> Result<Garbage, Fault> {
    let cutoff = cutoff(db, retention).await?;
    let most = most.max(1);
    let removed = match kind {
        GarbageKind::Abandoned => end_abandoned(db, most).await,
        GarbageKind::Checkpoints => checkpoints(db, cutoff, most).await,
        GarbageKind::Requests => requests(db, cutoff, most).await,
        GarbageKind::Lifecycles => lifecycles(db, cutoff, retention, most).await,
        GarbageKind::Versions => remove_versions(db, most).await,
        GarbageKind::Runs => remove_runs(db, cutoff, (most / RUNS_PER_BATCH).max(1)).await,
        GarbageKind::Specs => specs(db, cutoff, most).await,
        GarbageKind::Bodies => bodies(db, most).await,
    };
    // Somebody has begun to need one of them in this very moment: looked at again, it stays.
    removed.map_err(|fault| if fault.missing_reference() { Fault::Overtaken } else { fault })
}

async fn end_abandoned(db: &mut Connection, most: u32) -> Result<Garbage, Fault> {
    let silent = Time(states::now(db).await? - SILENCE);
    let dead: Vec<Id> = query_scalar(concat!("SELECT u.id FROM runs u WHERE ", abandoned!(), " LIMIT $2"))
        .bind(silent)
        .bind(i64::from(most))
        .fetch_all(&mut *db)
        .await?;
    let mut ended = Garbage::default();
    for run in dead {
        let locked = runs::lock(db, RunId(run.0)).await?;
        let still: Option<Id> = query_scalar(concat!("SELECT u.id FROM runs u WHERE ", abandoned!(), " AND u.id = $2"))
            .bind(silent)
            .bind(Id(run.0))
            .fetch_optional(&mut *db)
            .await?;
        if still.is_some() && matches!(locked.run.status, RunStatus::Started | RunStatus::Waiting) {
            let standing = reservations::standing(db, locked.state.id).await?;
            ending::lose(db, locked.run.id, &standing).await?;
            ended.count += 1;
        }
    }
    Ok(ended)
}

async fn checkpoints(db: &mut Connection, cutoff: DateTime<Utc>, most: u32) -> Result<Garbage, Fault> {
    let sizes: Vec<i64> = query_scalar(concat!(
        "DELETE FROM run_checkpoints WHERE run_id IN (
             SELECT run_id FROM run_checkpoints WHERE run_id IN ",
        settled!(),
        " LIMIT $2) RETURNING ",
        octets!("state")
    ))
    .bind(Time(cutoff))
    .bind(i64::from(most))
    .fetch_all(&mut *db)
    .await?;
    let places = query(concat!(
        "DELETE FROM run_workplaces WHERE run_id IN (
             SELECT run_id FROM run_workplaces WHERE run_id IN ",
        settled!(),
        " LIMIT $2)"
    ))
    .bind(Time(cutoff))
    .bind(i64::from(most))
    .execute(db)
    .await?;
    let mut removed = sum(&sizes);
    removed.count += places.rows_affected();
    Ok(removed)
}

async fn requests(db: &mut Connection, cutoff: DateTime<Utc>, most: u32) -> Result<Garbage, Fault> {
    let found: Vec<(String, String, i64)> = query_as(concat!(
        "SELECT q.forge, q.repository, q.number FROM requests q WHERE ",
        request_goes!(),
        " LIMIT $2",
        lock_row!()
    ))
    .bind(Time(cutoff))
    .bind(i64::from(most))
    .fetch_all(&mut *db)
    .await?;
    for (forge, repository, number) in &found {
        for sql in [
            "DELETE FROM request_projects WHERE forge = $1 AND repository = $2 AND request = $3",
            "DELETE FROM comments WHERE forge = $1 AND repository = $2 AND request = $3",
            "DELETE FROM requests WHERE forge = $1 AND repository = $2 AND number = $3",
        ] {
            query(sql).bind(forge).bind(repository).bind(number).execute(&mut *db).await?;
        }
    }
    Ok(Garbage { count: found.len() as u64, bytes: 0 })
}

/// Records first where the history begins now, so that nobody reads what is about to go, and then removes.
async fn lifecycles(
    db: &mut Connection,
    cutoff: DateTime<Utc>,
    retention: &Retention,
    most: u32,
) -> Result<Garbage, Fault> {
    let moved: Vec<(Id, i64)> = query_as(concat!(
        "WITH ",
        horizon!(),
        " SELECT s.id, h.serial FROM states s JOIN horizon h ON h.state_id = s.id WHERE h.serial > s.history_from"
    ))
    .bind(Time(cutoff))
    .bind(versions(retention))
    .fetch_all(&mut *db)
    .await?;
    for (state, serial) in moved {
        query("UPDATE states SET history_from = $2 WHERE id = $1 AND history_from < $2")
            .bind(state)
            .bind(serial)
            .execute(&mut *db)
            .await?;
    }
    let removed = query(
        "DELETE FROM resources WHERE id IN (
             SELECT l.id FROM states s JOIN resources l ON l.state_id = s.id AND l.to_serial < s.history_from LIMIT $1)",
    )
    .bind(i64::from(most))
    .execute(db)
    .await?;
    Ok(Garbage { count: removed.rows_affected(), bytes: 0 })
}

/// A lifecycle refers to the versions at both its ends.
async fn remove_versions(db: &mut Connection, most: u32) -> Result<Garbage, Fault> {
    let removed = query(
        "DELETE FROM state_versions WHERE (state_id, serial) IN (
             SELECT v.state_id, v.serial FROM states s JOIN state_versions v ON v.state_id = s.id
             WHERE v.serial < s.history_from
               AND NOT EXISTS (SELECT 1 FROM resources l WHERE l.state_id = v.state_id AND l.from_serial = v.serial)
               AND NOT EXISTS (SELECT 1 FROM resources l WHERE l.state_id = v.state_id AND l.to_serial = v.serial)
             LIMIT $1)",
    )
    .bind(i64::from(most))
    .execute(db)
    .await?;
    Ok(Garbage { count: removed.rows_affected(), bytes: 0 })
}

async fn remove_runs(db: &mut Connection, cutoff: DateTime<Utc>, most: u32) -> Result<Garbage, Fault> {
    let found: Vec<Id> = query_scalar(
        "SELECT r.id FROM runs r WHERE r.ended_at < $1
           AND NOT EXISTS (SELECT 1 FROM resource_reservations x WHERE x.run_id = r.id AND x.released_at IS NULL)
           AND NOT EXISTS (SELECT 1 FROM state_versions v WHERE v.run_id = r.id)
           AND NOT EXISTS (SELECT 1 FROM request_projects p WHERE p.run_id = r.id) LIMIT $2",
    )
    .bind(Time(cutoff))
    .bind(i64::from(most))
    .fetch_all(&mut *db)
    .await?;
    let mut removed = Garbage::default();
    for run in found {
        // A run that was aborted long ago may come back to say what it changed: under the lock it cannot.
        let locked = runs::lock(db, RunId(run.0)).await?;
        let standing = reservations::standing(db, locked.state.id).await?;
        if standing.iter().any(|one| one.reservation.run == locked.run.id) {
            continue;
        }
        let events: Vec<i64> =
            query_scalar(concat!("DELETE FROM run_events WHERE run_id = $1 RETURNING ", octets!("event")))
                .bind(Id(run.0))
                .fetch_all(&mut *db)
                .await?;
        for sql in [
            "DELETE FROM resource_reservations WHERE run_id = $1",
            "DELETE FROM run_checkpoints WHERE run_id = $1",
            "DELETE FROM run_workplaces WHERE run_id = $1",
            "DELETE FROM runs WHERE id = $1",
        ] {
            query(sql).bind(Id(run.0)).execute(&mut *db).await?;
        }
        removed += Garbage { count: 1, bytes: sum(&events).bytes };
    }
    Ok(removed)
}

async fn specs(db: &mut Connection, cutoff: DateTime<Utc>, most: u32) -> Result<Garbage, Fault> {
    let sizes: Vec<i64> = query_scalar(concat!(
        "DELETE FROM plan_specs WHERE id IN (
             SELECT s.id FROM plan_specs s WHERE s.created_at < $1
               AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.spec_id = s.id)
               AND NOT EXISTS (SELECT 1 FROM state_versions v WHERE v.spec_id = s.id)
               AND NOT EXISTS (SELECT 1 FROM request_projects p WHERE p.spec_id = s.id) LIMIT $2) RETURNING ",
        octets!("document")
    ))
    .bind(Time(cutoff))
    .bind(i64::from(most))
    .fetch_all(db)
    .await?;
    Ok(sum(&sizes))
}

/// A commit finds that a content is there already and refers to it a moment later. So the states are locked, each for
/// that moment, while contents go that nobody refers to; they were looked for before.
async fn bodies(db: &mut Connection, most: u32) -> Result<Garbage, Fault> {
    let unused: Vec<Vec<u8>> = query_scalar(
        "SELECT b.content_hash FROM resource_bodies b
         WHERE NOT EXISTS (SELECT 1 FROM resources l WHERE l.content_hash = b.content_hash) LIMIT $1",
    )
    .bind(i64::from(most))
    .fetch_all(&mut *db)
    .await?;
    if unused.is_empty() {
        return Ok(Garbage::default());
    }
    let _locked: Vec<Id> =
        query_scalar(concat!("SELECT id FROM states ORDER BY id", lock_row!())).fetch_all(&mut *db).await?;
    let hashes: Vec<String> = unused.iter().map(|hash| hex(hash)).collect();
    let sizes: Vec<i64> = query_scalar(concat!(
        "DELETE FROM resource_bodies WHERE content_hash IN (SELECT ",
        unhex!("unused.value"),
        " FROM ",
        json_list!("$1"),
        " AS unused) AND NOT EXISTS (
             SELECT 1 FROM resources l WHERE l.content_hash = resource_bodies.content_hash) RETURNING ",
        octets!("body")
    ))
    .bind(codec::json(&hashes)?)
    .fetch_all(db)
    .await?;
    Ok(sum(&sizes))
}
