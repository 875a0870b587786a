//! Old garbage: what there is of each kind, and its removal, a few at a time.
//!
//! The count of a kind does not suppose that earlier kinds are gone: it asks whether anything that *stays* needs the
//! thing. A removal comes after those of earlier kinds, and asks whether anything does.

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::{query, query_as, query_scalar};

use super::{Connection, ending, reservations, runs, states};
use crate::domain::digest::hex;
use crate::domain::id::RunId;
use crate::domain::run::RunStatus;
use crate::store::codec;
use crate::store::fault::Fault;
use crate::store::model::{Garbage, GarbageKind, Retention};
use crate::store::values::{Id, Time};

/// A run that was never granted anything and of which nobody has heard for so long is dead. One that waits renews its
/// place in the queue every few seconds.
const SILENCE: TimeDelta = TimeDelta::hours(24);

/// Runs go with all that they have, so only a few of them at a time.
const RUNS_PER_BATCH: u32 = 500;

/// Whether a run `u` lives, or has left a quarantine.
macro_rules! holds {
    () => {
        "(u.ended_at IS NULL OR EXISTS (
             SELECT 1 FROM resource_reservations x WHERE x.run_id = u.id AND x.released_at IS NULL)) "
    };
}

/// Whether the spec of a project `j` of a request `q` may still be applied: as `open_specs` has it.
macro_rules! may_be_applied {
    () => {
        "(q.phase IN ('open', 'merged') AND j.spec_id IS NOT NULL
          AND (j.plan_status IS NULL OR j.plan_status <> 'dropped')
          AND (q.phase = 'open' OR NOT EXISTS (
              SELECT 1 FROM runs d WHERE d.spec_id = j.spec_id AND d.status IN ('committed', 'noop'))))"
    };
}

/// Where the history that is kept begins, by state: at what was the newest version when the time to be kept began ($1),
/// at the newest so many ($2), and not after what a spec, a run or a quarantine that is still needed was made from.
macro_rules! horizon {
    () => {
        concat!(
            "horizon AS (
             SELECT s.id AS state_id,
                    CASE WHEN MIN(k.serial) > s.history_from THEN MIN(k.serial) ELSE s.history_from END AS serial
             FROM states s JOIN (
                 SELECT t.id AS state_id, COALESCE((
                     SELECT MAX(v.serial) FROM state_versions v WHERE v.state_id = t.id AND v.committed_at < $1), 0) AS serial
                 FROM states t
                 UNION ALL
                 SELECT t.id, COALESCE((
                     SELECT MIN(n.serial) FROM (SELECT v.serial FROM state_versions v WHERE v.state_id = t.id
                                                ORDER BY v.serial DESC LIMIT $2) n), 0) FROM states t
                 UNION ALL
                 SELECT p.state_id, p.source_serial FROM plan_specs p
                 WHERE EXISTS (SELECT 1 FROM request_projects j JOIN requests q
                                 ON q.forge = j.forge AND q.repository = j.repository AND q.number = j.request
                               WHERE j.spec_id = p.id AND ",
            may_be_applied!(),
            ")
                 UNION ALL
                 SELECT u.state_id, u.source_serial FROM runs u WHERE ",
            holds!(),
            "    UNION ALL
                 SELECT u.state_id, c.slice_serial FROM runs u JOIN run_checkpoints c ON c.run_id = u.id
                 WHERE c.slice_serial IS NOT NULL AND ",
            holds!(),
            ") k ON k.state_id = s.id GROUP BY s.id, s.history_from)"
        )
    };
}

/// Whether a request `q` goes.
macro_rules! request_goes {
    () => {
        concat!(
            "(q.phase <> 'open' AND q.updated_at < $1
              AND NOT EXISTS (SELECT 1 FROM comments c WHERE c.forge = q.forge AND c.repository = q.repository
                                AND c.request = q.number AND c.locked_until >= $1)
              AND NOT EXISTS (SELECT 1 FROM request_projects j LEFT JOIN runs u ON u.id = j.run_id
                              WHERE j.forge = q.forge AND j.repository = q.repository AND j.request = q.number
                                AND (j.planned_at >= $1 OR j.applied_at >= $1 OR ",
            may_be_applied!(),
            " OR (u.id IS NOT NULL AND ",
            holds!(),
            "))))"
        )
    };
}

/// Whether a lifecycle `l` stays, where the history begins with `h`. One that ended with the first version that is kept
/// stays, so that it is known what that version changed.
macro_rules! lifecycle_stays {
    () => {
        "(l.to_serial IS NULL OR l.to_serial >= h.serial)"
    };
}

/// Whether a version `v` goes, where the history begins with `h`.
macro_rules! version_goes {
    () => {
        concat!(
            "(v.serial < h.serial AND NOT EXISTS (
                 SELECT 1 FROM resources l WHERE l.state_id = v.state_id AND l.from_serial = v.serial AND ",
            lifecycle_stays!(),
            "))"
        )
    };
}

/// Whether a project of a request that stays has `$what` of `$of`.
macro_rules! requested {
    ($what:literal, $of:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM request_projects p JOIN requests q
                       ON q.forge = p.forge AND q.repository = p.repository AND q.number = p.request
                     WHERE p.",
            $what,
            " = ",
            $of,
            ".id AND NOT ",
            request_goes!(),
            ")"
        )
    };
}

/// Whether a version that stays has `$what` of `$of`.
macro_rules! made {
    ($what:literal, $of:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM state_versions v JOIN horizon h ON h.state_id = v.state_id
                     WHERE v.",
            $what,
            " = ",
            $of,
            ".id AND NOT ",
            version_goes!(),
            ")"
        )
    };
}

/// Whether a run `r` goes.
macro_rules! run_goes {
    () => {
        concat!(
            "(r.ended_at < $1
              AND NOT EXISTS (SELECT 1 FROM resource_reservations y WHERE y.run_id = r.id AND y.released_at IS NULL)
              AND NOT ",
            made!("run_id", "r"),
            " AND NOT ",
            requested!("run_id", "r"),
            ")"
        )
    };
}

/// Whether a spec `s` goes.
macro_rules! spec_goes {
    () => {
        concat!(
            "(s.created_at < $1 AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.spec_id = s.id AND NOT ",
            run_goes!(),
            ") AND NOT ",
            made!("spec_id", "s"),
            " AND NOT ",
            requested!("spec_id", "s"),
            ")"
        )
    };
}

/// Whether a body `b` goes.
macro_rules! body_goes {
    () => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM resources l JOIN horizon h ON h.state_id = l.state_id
                         WHERE l.content_hash = b.content_hash AND ",
            lifecycle_stays!(),
            ")"
        )
    };
}

/// The runs whose checkpoints and workplaces go.
macro_rules! settled {
    () => {
        "(SELECT u.id FROM runs u WHERE u.ended_at < $1 AND NOT EXISTS (
             SELECT 1 FROM resource_reservations x WHERE x.run_id = u.id AND x.released_at IS NULL))"
    };
}

/// The runs `u` that are dead: begun before $1, granted nothing, and silent since.
macro_rules! abandoned {
    () => {
        "u.status IN ('started', 'waiting') AND u.started_at < $1
         AND NOT EXISTS (SELECT 1 FROM resource_reservations x WHERE x.run_id = u.id
                           AND ((x.released_at IS NULL AND x.acquired_at IS NOT NULL) OR x.expires_at >= $1))
         AND NOT EXISTS (SELECT 1 FROM run_events e WHERE e.run_id = u.id AND e.at >= $1)
         AND NOT EXISTS (SELECT 1 FROM run_workplaces w WHERE w.run_id = u.id)"
    };
}

/// The moment before which things are old, by the database's clock.
async fn cutoff(db: &mut Connection, retention: &Retention) -> Result<DateTime<Utc>, Fault> {
    let age = TimeDelta::from_std(retention.younger_than).unwrap_or(TimeDelta::MAX);
    Ok(states::now(db).await?.checked_sub_signed(age).unwrap_or(DateTime::UNIX_EPOCH).max(DateTime::UNIX_EPOCH))
}

/// How many versions of each state can be read again at least.
fn versions(retention: &Retention) -> i64 {
    i64::from(retention.versions.max(1))
}

/// How much there is of a kind.
pub(super) async fn count(db: &mut Connection, kind: GarbageKind, retention: &Retention) -> Result<Garbage, Fault> {
    let cutoff = Time(cutoff(db, retention).await?);
    let without_history = match kind {
        GarbageKind::Abandoned => {
            let silent = Time(states::now(db).await? - SILENCE);
            let sql = concat!("SELECT COUNT(*), CAST(0 AS bigint) FROM runs u WHERE ", abandoned!());
            return Ok(garbage(query_as(sql).bind(silent).fetch_one(db).await?));
        }
        GarbageKind::Checkpoints => Some(concat!(
            "SELECT COUNT(*), CAST(COALESCE(SUM(size), 0) AS bigint) FROM (
                 SELECT run_id, ",
            octets!("state"),
            " AS size FROM run_checkpoints UNION ALL SELECT run_id, 0 FROM run_workplaces) t WHERE run_id IN ",
            settled!()
        )),
        GarbageKind::Requests => {
            Some(concat!("SELECT COUNT(*), CAST(0 AS bigint) FROM requests q WHERE ", request_goes!()))
        }
        _ => None,
    };
    if let Some(sql) = without_history {
        return Ok(garbage(query_as(sql).bind(cutoff).fetch_one(db).await?));
    }
    let sql = match kind {
        GarbageKind::Lifecycles => concat!(
            "WITH ",
            horizon!(),
            " SELECT COUNT(*), CAST(0 AS bigint) FROM resources l JOIN horizon h ON h.state_id = l.state_id WHERE NOT ",
            lifecycle_stays!()
        ),
        GarbageKind::Versions => concat!(
            "WITH ",
            horizon!(),
            " SELECT COUNT(*), CAST(0 AS bigint) FROM state_versions v JOIN horizon h ON h.state_id = v.state_id WHERE ",
            version_goes!()
        ),
        GarbageKind::Runs => concat!(
            "WITH ",
            horizon!(),
            " SELECT COUNT(*), CAST(COALESCE(SUM((
                  SELECT SUM(",
            octets!("event"),
            ") FROM run_events e WHERE e.run_id = r.id)), 0) AS bigint) FROM runs r WHERE ",
            run_goes!()
        ),
        GarbageKind::Specs => concat!(
            "WITH ",
            horizon!(),
            " SELECT COUNT(*), CAST(COALESCE(SUM(",
            octets!("document"),
            "), 0) AS bigint) FROM plan_specs s WHERE ",
            spec_goes!()
        ),
        // The other kinds are counted above.
        _ => concat!(
            "WITH ",
            horizon!(),
            " SELECT COUNT(*), CAST(COALESCE(SUM(",
            octets!("body"),
            "), 0) AS bigint) FROM resource_bodies b WHERE ",
            body_goes!()
        ),
    };
    Ok(garbage(query_as(sql).bind(cutoff).bind(versions(retention)).fetch_one(db).await?))
}

fn garbage((count, bytes): (i64, i64)) -> Garbage {
    Garbage { count: count.unsigned_abs(), bytes: bytes.unsigned_abs() }
}

/// The sum of what a removal returned: the bytes of each thing.
fn sum(sizes: &[i64]) -> Garbage {
    Garbage { count: sizes.len() as u64, bytes: sizes.iter().sum::<i64>().unsigned_abs() }
}

/// Removes at most `most` of a kind; nothing when there is none left.
pub(super) async fn remove(
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
