//! The invariants of a database, each a query that finds what breaks it. Reads only, page by page where contents have to
//! be read.

use sqlx::{AssertSqlSafe, query_as, query_scalar};
use uuid::Uuid;

use super::Connection;
use crate::domain::id::{RunId, Serial};
use crate::domain::json::Json;
use crate::domain::state::{Body, RowKey};
use crate::store::fault::Fault;
use crate::store::model::{CheckReport, Invariant, Looked, Violation};
use crate::store::values::Id;

/// So many lifecycles are read at once.
const PAGE: i64 = 1_000;

/// So many contents or documents, which can be long.
const LONG_PAGE: i64 = 100;

/// `state, run, subject, serial, problem` of a violation.
type Columns = (Option<String>, Option<Id>, Option<String>, Option<i64>, String);

/// `id, state, kind, address, qualifier, row_key, from_serial` of a lifecycle.
type Keyed = (i64, Option<String>, String, String, String, Vec<u8>, i64);

/// The row of a lifecycle `l`, with the deposed key or what else tells it apart.
macro_rules! row {
    () => {
        "l.address || CASE WHEN l.qualifier = '' THEN '' ELSE ' (' || l.qualifier || ')' END"
    };
}

/// What holds, and the query that finds what breaks it.
const QUERIES: &[(Invariant, &str)] = &[
    (
        Invariant::OneOpenLifecycle,
        concat!(
            "SELECT s.name, NULL, MIN(",
            row!(),
            "), MAX(l.from_serial), 'it has ' || COUNT(*) || ' open lifecycles'
             FROM resources l JOIN states s ON s.id = l.state_id
             WHERE l.to_serial IS NULL GROUP BY s.name, l.row_key HAVING COUNT(*) > 1"
        ),
    ),
    (
        Invariant::LifecyclesApart,
        concat!(
            "SELECT s.name, NULL, ",
            row!(),
            ", l.from_serial, 'the lifecycle before it, from serial ' || l.last_from || ', ends '
                    || CASE WHEN l.last_to IS NULL THEN 'never' ELSE 'with serial ' || l.last_to END
             FROM (SELECT r.*, LAG(from_serial) OVER lives AS last_from, LAG(to_serial) OVER lives AS last_to
                   FROM resources r WINDOW lives AS (PARTITION BY state_id, row_key ORDER BY from_serial)) l
             JOIN states s ON s.id = l.state_id
             WHERE l.last_to > l.from_serial
                OR (l.last_from IS NOT NULL AND l.last_to IS NULL AND l.to_serial IS NOT NULL)"
        ),
    ),
    (
        Invariant::LifecycleVersions,
        concat!(
            "SELECT s.name, NULL, ",
            row!(),
            ", l.from_serial, 'it begins or ends with a serial that is no version'
             FROM resources l LEFT JOIN states s ON s.id = l.state_id
             WHERE NOT EXISTS (SELECT 1 FROM state_versions v WHERE v.state_id = l.state_id AND v.serial = l.from_serial)
                OR (l.to_serial IS NOT NULL AND NOT EXISTS (
                    SELECT 1 FROM state_versions v WHERE v.state_id = l.state_id AND v.serial = l.to_serial))"
        ),
    ),
    (
        Invariant::Contents,
        concat!(
            "SELECT s.name, NULL, ",
            row!(),
            ", l.from_serial, 'its content is missing'
             FROM resources l LEFT JOIN states s ON s.id = l.state_id
             WHERE NOT EXISTS (SELECT 1 FROM resource_bodies b WHERE b.content_hash = l.content_hash)"
        ),
    ),
    (
        Invariant::ConsecutiveSerials,
        "SELECT s.name, v.run_id, NULL, v.serial, 'the version before it is ' || v.last
         FROM (SELECT state_id, run_id, source, serial,
                      COALESCE(LAG(serial) OVER (PARTITION BY state_id ORDER BY serial), 0) AS last
               FROM state_versions) v JOIN states s ON s.id = v.state_id
         WHERE v.serial <> v.last + 1 AND v.source NOT IN ('import', 'http') AND v.serial > s.history_from",
    ),
    (
        Invariant::NewestSerial,
        "SELECT s.name, NULL, NULL, s.serial, 'the newest version is ' || v.newest
         FROM states s JOIN (SELECT t.id, COALESCE(MAX(w.serial), 0) AS newest
                             FROM states t LEFT JOIN state_versions w ON w.state_id = t.id GROUP BY t.id) v ON v.id = s.id
         WHERE s.serial <> v.newest",
    ),
    (
        Invariant::RowCounts,
        // Before the history begins, a part of the lifecycles is gone.
        "SELECT s.name, v.run_id, NULL, v.serial,
                'it says that it opened ' || v.rows_opened || ' lifecycles and closed ' || v.rows_closed
                || ', and there are ' || COALESCE(o.number, 0) || ' and ' || COALESCE(c.number, 0)
         FROM state_versions v JOIN states s ON s.id = v.state_id
         LEFT JOIN (SELECT state_id, from_serial AS serial, COUNT(*) AS number FROM resources
                    GROUP BY state_id, from_serial) o ON o.state_id = v.state_id AND o.serial = v.serial
         LEFT JOIN (SELECT state_id, to_serial AS serial, COUNT(*) AS number FROM resources WHERE to_serial IS NOT NULL
                    GROUP BY state_id, to_serial) c ON c.state_id = v.state_id AND c.serial = v.serial
         WHERE COALESCE(o.number, 0) > v.rows_opened OR COALESCE(c.number, 0) > v.rows_closed
            OR (v.serial >= s.history_from
                AND (COALESCE(o.number, 0) < v.rows_opened OR COALESCE(c.number, 0) < v.rows_closed))",
    ),
    (
        Invariant::ReservationsOfLiveRuns,
        "SELECT s.name, u.id, x.pattern, NULL, 'it is reserved (' || x.mode || ') although the run has ended: ' || u.status
         FROM resource_reservations x JOIN runs u ON u.id = x.run_id LEFT JOIN states s ON s.id = x.state_id
         WHERE x.released_at IS NULL AND x.acquired_at IS NOT NULL AND x.held_as <> 'quarantine'
           AND u.ended_at IS NOT NULL",
    ),
    (
        Invariant::WaitersAlive,
        "SELECT s.name, u.id, x.pattern, NULL, 'it is waited for (' || x.mode || ') although the run has ended: ' || u.status
         FROM resource_reservations x JOIN runs u ON u.id = x.run_id LEFT JOIN states s ON s.id = x.state_id
         WHERE x.released_at IS NULL AND x.acquired_at IS NULL AND u.ended_at IS NOT NULL",
    ),
    (
        Invariant::KnownRuns,
        "SELECT NULL, x.run_id, x.what, NULL, 'the run that it belongs to is not known'
         FROM (SELECT run_id, 'its checkpoint' AS what FROM run_checkpoints
               UNION ALL SELECT run_id, 'its workplace' FROM run_workplaces
               UNION ALL SELECT run_id, 'a reservation of it' FROM resource_reservations
               UNION ALL SELECT run_id, 'its events' FROM run_events WHERE seq = 1) x
         WHERE NOT EXISTS (SELECT 1 FROM runs u WHERE u.id = x.run_id)",
    ),
    (
        Invariant::CommittedRuns,
        "SELECT s.name, u.id, NULL, u.result_serial, 'the run has committed, and there is no such version of it'
         FROM runs u JOIN states s ON s.id = u.state_id
         WHERE u.status = 'committed' AND (u.result_serial IS NULL OR u.result_serial >= s.history_from)
           AND NOT EXISTS (SELECT 1 FROM state_versions v
                           WHERE v.state_id = u.state_id AND v.serial = u.result_serial AND v.run_id = u.id)",
    ),
    (
        Invariant::NamedVersions,
        // Of the versions of a run, `kl gc` may have removed the newest.
        "SELECT s.name, u.id, NULL, v.newest, 'it is the newest version of the run, which names '
                || COALESCE('serial ' || u.result_serial, 'none')
         FROM (SELECT run_id, MAX(serial) AS newest FROM state_versions WHERE run_id IS NOT NULL GROUP BY run_id) v
         JOIN runs u ON u.id = v.run_id JOIN states s ON s.id = u.state_id
         WHERE u.ended_at IS NOT NULL
           AND (u.result_serial IS NULL OR u.result_serial < v.newest
                OR (u.result_serial > v.newest AND u.result_serial >= s.history_from))",
    ),
];

/// A query for what is no JSON in a column: where, whose state, whose run.
macro_rules! no_json {
    ($table:literal, $column:literal, $state:literal, $run:literal) => {
        concat!(
            "SELECT (SELECT name FROM states WHERE id = ",
            $state,
            "), ",
            $run,
            ", NULL, NULL, '",
            $table,
            ".",
            $column,
            " is not JSON' FROM ",
            $table,
            " t WHERE ",
            not_json!($column)
        )
    };
}

/// On PostgreSQL the types of the columns see to it.
const JSON: &[&str] = &[
    no_json!("plan_specs", "origin", "t.state_id", "NULL"),
    no_json!("runs", "origin", "t.state_id", "t.id"),
    no_json!("runs", "tools", "t.state_id", "t.id"),
    no_json!("runs", "claims", "t.state_id", "t.id"),
    no_json!("runs", "conflict", "t.state_id", "t.id"),
    no_json!("run_events", "event", "NULL", "t.run_id"),
    no_json!("run_checkpoints", "changed", "NULL", "t.run_id"),
    no_json!("run_checkpoints", "in_flight", "NULL", "t.run_id"),
    no_json!("run_workplaces", "host", "NULL", "t.run_id"),
    no_json!("state_versions", "origin", "t.state_id", "t.run_id"),
    no_json!("state_versions", "document", "t.state_id", "t.run_id"),
    no_json!("state_versions", "providers", "t.state_id", "t.run_id"),
    no_json!("request_projects", "plan_values", "t.state_id", "t.run_id"),
    no_json!("request_projects", "apply_next", "t.state_id", "t.run_id"),
];

pub(super) async fn check(db: &mut Connection) -> Result<CheckReport, Fault> {
    let mut report = CheckReport { looked: looked(db).await?, ..CheckReport::default() };
    for (invariant, sql) in QUERIES {
        query(db, &mut report, *invariant, sql).await?;
    }
    for sql in JSON {
        query(db, &mut report, Invariant::Json, sql).await?;
    }
    row_keys(db, &mut report).await?;
    contents(db, &mut report).await?;
    documents(db, &mut report).await?;
    checkpoints(db, &mut report).await?;
    report.violations.sort_by_key(|one| one.invariant);
    Ok(report)
}

async fn looked(db: &mut Connection) -> Result<Looked, Fault> {
    let (states, versions, lifecycles, contents, runs): (i64, i64, i64, i64, i64) = query_as(
        "SELECT (SELECT COUNT(*) FROM states), (SELECT COUNT(*) FROM state_versions),
                (SELECT COUNT(*) FROM resources), (SELECT COUNT(*) FROM resource_bodies), (SELECT COUNT(*) FROM runs)",
    )
    .fetch_one(db)
    .await?;
    let [states, versions, lifecycles, contents, runs] =
        [states, versions, lifecycles, contents, runs].map(i64::unsigned_abs);
    Ok(Looked { states, versions, lifecycles, contents, runs })
}

/// Adds what a query finds.
async fn query(db: &mut Connection, report: &mut CheckReport, invariant: Invariant, sql: &str) -> Result<(), Fault> {
    // The text is made of constants alone.
    let sql = AssertSqlSafe(format!("{sql} ORDER BY 1, 3, 4 LIMIT {}", CheckReport::MOST + 1));
    let found: Vec<Columns> = query_as(sql).fetch_all(db).await?;
    for (state, run, subject, serial, problem) in found {
        let (run, serial) = (run.map(|run| RunId(run.0)), serial.map(Serial));
        report.add(Violation { invariant, state, run, subject, serial, problem });
    }
    Ok(())
}

/// Whether the keys of rows are those of their addresses.
async fn row_keys(db: &mut Connection, report: &mut CheckReport) -> Result<(), Fault> {
    let mut last = i64::MIN;
    loop {
        let page: Vec<Keyed> = query_as(
            "SELECT l.id, s.name, l.kind, l.address, l.qualifier, l.row_key, l.from_serial
             FROM resources l LEFT JOIN states s ON s.id = l.state_id WHERE l.id > $1 ORDER BY l.id LIMIT $2",
        )
        .bind(last)
        .bind(PAGE)
        .fetch_all(&mut *db)
        .await?;
        let Some(end) = page.last() else { return Ok(()) };
        last = end.0;
        for (_, state, kind, address, qualifier, stored, from) in page {
            let problem = match RowKey::from_parts(&kind, &address, &qualifier) {
                Ok(key) if key.digest().0.as_slice() == stored => continue,
                Ok(_) => "its key is not that of its address".to_owned(),
                Err(error) => format!("its address cannot be read: {error}"),
            };
            report.add(Violation {
                invariant: Invariant::RowKeys,
                state,
                run: None,
                subject: Some(address),
                serial: Some(Serial(from)),
                problem,
            });
        }
    }
}

/// Whether contents are what their hashes are of. Names every lifecycle that has a wrong one.
async fn contents(db: &mut Connection, report: &mut CheckReport) -> Result<(), Fault> {
    let mut last = Vec::new();
    loop {
        let page: Vec<(Vec<u8>, String)> = query_as(
            "SELECT content_hash, body FROM resource_bodies WHERE content_hash > $1 ORDER BY content_hash LIMIT $2",
        )
        .bind(&last)
        .bind(LONG_PAGE)
        .fetch_all(&mut *db)
        .await?;
        let Some((end, _)) = page.last() else { return Ok(()) };
        last.clone_from(end);
        for (hash, body) in page {
            let problem = match Body::new(body) {
                Ok(body) if body.hash().0.as_slice() == hash => continue,
                Ok(_) => "its content is not the one that its hash is of",
                Err(_) => "its content is not JSON",
            };
            let mut users: Vec<(Option<String>, Option<String>, Option<i64>)> = query_as(concat!(
                "SELECT s.name, ",
                row!(),
                ", l.from_serial FROM resources l LEFT JOIN states s ON s.id = l.state_id
                 WHERE l.content_hash = $1 ORDER BY 1, 2, 3 LIMIT 100"
            ))
            .bind(&hash)
            .fetch_all(&mut *db)
            .await?;
            if users.is_empty() {
                users.push((None, Some("a content that no row has".to_owned()), None));
            }
            for (state, subject, from) in users {
                let (invariant, serial) = (Invariant::ContentHashes, from.map(Serial));
                report.add(Violation { invariant, state, run: None, subject, serial, problem: problem.to_owned() });
            }
        }
    }
}

/// Whether the documents of specs are JSON.
async fn documents(db: &mut Connection, report: &mut CheckReport) -> Result<(), Fault> {
    let mut last = Uuid::nil();
    loop {
        let page: Vec<(Id, Option<String>, i64, String)> = query_as(
            "SELECT p.id, s.name, p.source_serial, p.document FROM plan_specs p LEFT JOIN states s ON s.id = p.state_id
             WHERE p.id > $1 ORDER BY p.id LIMIT $2",
        )
        .bind(Id(last))
        .bind(LONG_PAGE)
        .fetch_all(&mut *db)
        .await?;
        let Some(end) = page.last() else { return Ok(()) };
        last = end.0.0;
        for (id, state, serial, document) in page {
            if Json::parse(&document).is_err() {
                report.add(Violation {
                    invariant: Invariant::Json,
                    state,
                    run: None,
                    subject: Some(format!("spec {}", id.0)),
                    serial: Some(Serial(serial)),
                    problem: "plan_specs.document is not JSON".to_owned(),
                });
            }
        }
    }
}

/// Whether the states in checkpoints are JSON. One of a run that only had objects in flight is empty.
async fn checkpoints(db: &mut Connection, report: &mut CheckReport) -> Result<(), Fault> {
    let runs: Vec<Id> = query_scalar("SELECT run_id FROM run_checkpoints WHERE state <> '' ORDER BY run_id")
        .fetch_all(&mut *db)
        .await?;
    for run in runs {
        let (state, text): (Option<String>, String) = query_as(
            "SELECT s.name, c.state FROM run_checkpoints c LEFT JOIN runs u ON u.id = c.run_id
             LEFT JOIN states s ON s.id = u.state_id WHERE c.run_id = $1",
        )
        .bind(Id(run.0))
        .fetch_one(&mut *db)
        .await?;
        if Json::parse(&text).is_err() {
            report.add(Violation {
                invariant: Invariant::Json,
                state,
                run: Some(RunId(run.0)),
                subject: None,
                serial: None,
                problem: "run_checkpoints.state is not JSON".to_owned(),
            });
        }
    }
    Ok(())
}
