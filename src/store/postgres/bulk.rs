//! Statements over many rows at once, on PostgreSQL: one each, over arrays.

use chrono::{DateTime, Utc};
use sqlx::{query, query_as};

use super::Connection;
use super::sql::Place;
use crate::domain::coordination::reservation::Claim;
use crate::domain::id::{RunId, Serial, StateId};
use crate::domain::state::RowKeyDigest;
use crate::store::codec::RowColumns;
use crate::store::decide::Opened;
use crate::store::fault::Fault;
use crate::store::values::{Id, JsonText, Time};

/// Places events in a run's timeline.
pub(super) async fn insert_events(
    db: &mut Connection,
    run: RunId,
    events: Vec<(i64, String, JsonText)>,
) -> Result<(), Fault> {
    if events.is_empty() {
        return Ok(());
    }
    let mut columns = (Vec::new(), Vec::new(), Vec::new());
    for (seq, kind, event) in events {
        columns.0.push(seq);
        columns.1.push(kind);
        columns.2.push(event.0);
    }
    query(
        "INSERT INTO run_events (run_id, seq, at, kind, event)
         SELECT $1, seq, (SELECT clock_timestamp()), kind, event::json
         FROM UNNEST($2::bigint[], $3::text[], $4::text[]) AS new (seq, kind, event)",
    )
    .bind(Id(run.0))
    .bind(columns.0)
    .bind(columns.1)
    .bind(columns.2)
    .execute(db)
    .await?;
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
    let patterns: Vec<String> = claims.iter().map(|claim| claim.pattern.to_string()).collect();
    let modes: Vec<&str> = claims.iter().map(|claim| claim.mode.word()).collect();
    query(
        "INSERT INTO resource_reservations
             (state_id, run_id, pattern, mode, ticket, asked_at, acquired_at, expires_at)
         SELECT $1, $2, pattern, mode, $5, $6, $7, $8 FROM UNNEST($3::text[], $4::text[]) AS new (pattern, mode)",
    )
    .bind(Id(state.0))
    .bind(Id(run.0))
    .bind(patterns)
    .bind(modes)
    .bind(place.ticket)
    .bind(Time(place.asked_at))
    .bind(acquired_at.map(Time))
    .bind(Time(expires_at))
    .execute(db)
    .await?;
    Ok(())
}

/// Ends reservations.
pub(super) async fn release(db: &mut Connection, ids: &[i64]) -> Result<(), Fault> {
    if !ids.is_empty() {
        query("UPDATE resource_reservations SET released_at = clock_timestamp() WHERE id = ANY($1)")
            .bind(ids)
            .execute(db)
            .await?;
    }
    Ok(())
}

/// Keeps reservations for ever, as a quarantine.
pub(super) async fn quarantine(db: &mut Connection, ids: &[i64]) -> Result<(), Fault> {
    if !ids.is_empty() {
        query("UPDATE resource_reservations SET held_as = 'quarantine', expires_at = NULL WHERE id = ANY($1)")
            .bind(ids)
            .execute(db)
            .await?;
    }
    Ok(())
}

/// The living rows with these keys: number, key, content.
pub(super) async fn trunk(
    db: &mut Connection,
    state: StateId,
    keys: &[RowKeyDigest],
) -> Result<Vec<(i64, Vec<u8>, Vec<u8>)>, Fault> {
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.0.as_slice()).collect();
    Ok(query_as(
        "SELECT id, row_key, content_hash FROM resources
         WHERE state_id = $1 AND to_serial IS NULL AND row_key = ANY($2)",
    )
    .bind(Id(state.0))
    .bind(keys)
    .fetch_all(db)
    .await?)
}

/// Ends lifecycles.
pub(super) async fn close(db: &mut Connection, ids: &[i64], serial: Serial) -> Result<(), Fault> {
    if !ids.is_empty() {
        query("UPDATE resources SET to_serial = $2 WHERE id = ANY($1)").bind(ids).bind(serial.0).execute(db).await?;
    }
    Ok(())
}

/// Stores contents that are not there yet.
pub(super) async fn insert_bodies(db: &mut Connection, open: &[Opened<'_>]) -> Result<(), Fault> {
    if open.is_empty() {
        return Ok(());
    }
    // In one order, so that two commits with the same contents wait for each other and do not deadlock.
    let mut bodies: Vec<_> = open.iter().map(|opened| opened.body).collect();
    bodies.sort_by_key(|body| body.hash());
    let hashes: Vec<Vec<u8>> = bodies.iter().map(|body| body.hash().0.to_vec()).collect();
    let texts: Vec<&str> = bodies.iter().map(|body| body.text()).collect();
    query(
        "INSERT INTO resource_bodies (content_hash, body) SELECT * FROM UNNEST($1::bytea[], $2::text[])
         ON CONFLICT (content_hash) DO NOTHING",
    )
    .bind(hashes)
    .bind(texts)
    .execute(db)
    .await?;
    Ok(())
}

/// Begins lifecycles.
pub(super) async fn open(
    db: &mut Connection,
    state: StateId,
    serial: Serial,
    rows: Vec<RowColumns>,
) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    let (mut digests, mut kinds, mut addresses, mut qualifiers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut modules, mut keys, mut modes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut types, mut names, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        digests.push(row.digest);
        kinds.push(row.kind);
        addresses.push(row.address);
        qualifiers.push(row.qualifier);
        modules.push(row.parts.module_path);
        keys.push(row.parts.resource_key);
        modes.push(row.parts.mode);
        types.push(row.parts.type_name);
        names.push(row.parts.name);
        hashes.push(row.hash);
    }
    query(
        "INSERT INTO resources (state_id, from_serial, row_key, kind, address, qualifier, module_path, resource_key,
                                mode, type, name, content_hash)
         SELECT $1, $2, * FROM UNNEST($3::bytea[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                                      $9::text[], $10::text[], $11::text[], $12::bytea[])",
    )
    .bind(Id(state.0))
    .bind(serial.0)
    .bind(digests)
    .bind(kinds)
    .bind(addresses)
    .bind(qualifiers)
    .bind(modules)
    .bind(keys)
    .bind(modes)
    .bind(types)
    .bind(names)
    .bind(hashes)
    .execute(db)
    .await?;
    Ok(())
}
