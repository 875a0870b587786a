//! Statements over many rows at once, on `SQLite`: as many rows each as its number of parameters allows.

use chrono::{DateTime, Utc};
use sqlx::QueryBuilder;

use super::Connection;
use super::sql::Place;
use crate::domain::coordination::reservation::Claim;
use crate::domain::id::{RunId, Serial, StateId};
use crate::domain::state::RowKeyDigest;
use crate::store::codec::RowColumns;
use crate::store::decide::Opened;
use crate::store::fault::Fault;
use crate::store::values::{Id, JsonText, Time};

/// Rows in one statement. A statement takes 32,766 parameters, and a row at most 12 of them.
const ROWS: usize = 2_000;

/// Executes a statement whose text depends on the number of rows: not worth a place in the cache of statements.
async fn execute(db: &mut Connection, mut statement: QueryBuilder<sqlx::Sqlite>) -> Result<(), Fault> {
    statement.build().persistent(false).execute(db).await?;
    Ok(())
}

/// Places events in a run's timeline.
pub(super) async fn insert_events(
    db: &mut Connection,
    run: RunId,
    events: Vec<(i64, String, JsonText)>,
) -> Result<(), Fault> {
    for chunk in events.chunks(ROWS) {
        let mut insert = QueryBuilder::new("INSERT INTO run_events (run_id, seq, kind, event, at) ");
        insert.push_values(chunk, |mut row, (seq, kind, event)| {
            row.push_bind(Id(run.0)).push_bind(*seq).push_bind(kind.clone()).push_bind(event.clone()).push(now!());
        });
        execute(db, insert).await?;
    }
    Ok(())
}

/// Stores reservations: granted ones, or places in the queue.
pub(super) async fn insert_reservations(
    db: &mut Connection,
    state: StateId,
    run: RunId,
    claims: &[&Claim],
    place: Place,
    acquired_at: Option<DateTime<Utc>>,
    expires_at: DateTime<Utc>,
) -> Result<(), Fault> {
    for chunk in claims.chunks(ROWS) {
        let mut insert = QueryBuilder::new(
            "INSERT INTO resource_reservations
                 (state_id, run_id, pattern, mode, ticket, asked_at, acquired_at, expires_at) ",
        );
        insert.push_values(chunk, |mut row, claim| {
            row.push_bind(Id(state.0))
                .push_bind(Id(run.0))
                .push_bind(claim.pattern.to_string())
                .push_bind(claim.mode.word())
                .push_bind(place.ticket)
                .push_bind(Time(place.asked_at))
                .push_bind(acquired_at.map(Time))
                .push_bind(Time(expires_at));
        });
        execute(db, insert).await?;
    }
    Ok(())
}

/// Adds `IN (…)` with numbers.
fn push_ids(statement: &mut QueryBuilder<sqlx::Sqlite>, ids: &[i64]) {
    statement.push_tuples(ids, |mut row, id| {
        row.push_bind(*id);
    });
}

/// Ends reservations.
pub(super) async fn release(db: &mut Connection, ids: &[i64]) -> Result<(), Fault> {
    for chunk in ids.chunks(ROWS) {
        let mut update =
            QueryBuilder::new(concat!("UPDATE resource_reservations SET released_at = ", now!(), " WHERE id IN "));
        push_ids(&mut update, chunk);
        execute(db, update).await?;
    }
    Ok(())
}

/// Keeps reservations for ever, as a quarantine.
pub(super) async fn quarantine(db: &mut Connection, ids: &[i64]) -> Result<(), Fault> {
    for chunk in ids.chunks(ROWS) {
        let mut update = QueryBuilder::new(
            "UPDATE resource_reservations SET held_as = 'quarantine', expires_at = NULL WHERE id IN ",
        );
        push_ids(&mut update, chunk);
        execute(db, update).await?;
    }
    Ok(())
}

/// The living rows with these keys: number, key, content.
pub(super) async fn trunk(
    db: &mut Connection,
    state: StateId,
    keys: &[RowKeyDigest],
) -> Result<Vec<(i64, Vec<u8>, Vec<u8>)>, Fault> {
    let mut found = Vec::with_capacity(keys.len());
    for chunk in keys.chunks(ROWS) {
        let mut select = QueryBuilder::new(
            "SELECT id, row_key, content_hash FROM resources WHERE to_serial IS NULL AND state_id = ",
        );
        select.push_bind(Id(state.0)).push(" AND row_key IN ");
        select.push_tuples(chunk, |mut row, key| {
            row.push_bind(key.0.to_vec());
        });
        let rows: Vec<(i64, Vec<u8>, Vec<u8>)> = select.build_query_as().persistent(false).fetch_all(&mut *db).await?;
        found.extend(rows);
    }
    Ok(found)
}

/// Ends lifecycles.
pub(super) async fn close(db: &mut Connection, ids: &[i64], serial: Serial) -> Result<(), Fault> {
    for chunk in ids.chunks(ROWS) {
        let mut update = QueryBuilder::new("UPDATE resources SET to_serial = ");
        update.push_bind(serial.0).push(" WHERE id IN ");
        push_ids(&mut update, chunk);
        execute(db, update).await?;
    }
    Ok(())
}

/// Stores contents that are not there yet.
pub(super) async fn insert_bodies(db: &mut Connection, open: &[Opened<'_>]) -> Result<(), Fault> {
    for chunk in open.chunks(ROWS) {
        let mut insert = QueryBuilder::new("INSERT INTO resource_bodies (content_hash, body) ");
        insert.push_values(chunk, |mut row, opened| {
            row.push_bind(opened.body.hash().0.to_vec()).push_bind(opened.body.text().to_owned());
        });
        insert.push(" ON CONFLICT (content_hash) DO NOTHING");
        execute(db, insert).await?;
    }
    Ok(())
}

/// Begins lifecycles.
pub(super) async fn open(
    db: &mut Connection,
    state: StateId,
    serial: Serial,
    rows: Vec<RowColumns>,
) -> Result<(), Fault> {
    for chunk in rows.chunks(ROWS) {
        let mut insert = QueryBuilder::new(
            "INSERT INTO resources (state_id, from_serial, row_key, kind, address, qualifier, module_path,
                                    resource_key, mode, type, name, content_hash) ",
        );
        insert.push_values(chunk, |mut columns, row| {
            columns
                .push_bind(Id(state.0))
                .push_bind(serial.0)
                .push_bind(row.digest.clone())
                .push_bind(row.kind)
                .push_bind(row.address.clone())
                .push_bind(row.qualifier.clone())
                .push_bind(row.parts.module_path.clone())
                .push_bind(row.parts.resource_key.clone())
                .push_bind(row.parts.mode)
                .push_bind(row.parts.type_name.clone())
                .push_bind(row.parts.name.clone())
                .push_bind(row.hash.clone());
        });
        execute(db, insert).await?;
    }
    Ok(())
}
