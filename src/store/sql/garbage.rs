//! Old garbage: how much there is of each kind.
//!
//! The count of a kind does not suppose that earlier kinds are gone: it asks whether anything that *stays* needs the
//! thing. A removal (in `removal`) comes after those of earlier kinds, and asks whether anything does.

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::query_as;

use super::{Connection, states};
use crate::store::fault::Fault;
use crate::store::model::{Garbage, GarbageKind, Retention};
use crate::store::values::Time;

/// A run that was never granted anything and of which nobody has heard for so long is dead: it asks as soon as it begins,
/// and one that waits renews its place in the queue every few seconds.
const SILENCE: TimeDelta = TimeDelta::hours(1);

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
              SELECT 1 FROM runs d WHERE d.spec_id = j.spec_id AND d.kind = 'apply'
                AND d.status IN ('committed', 'noop'))))"
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

/// Removals use some of these conditions, too: they know what is declared above them.
mod removal;

pub(super) use removal::remove;

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
