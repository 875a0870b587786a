//! States and their snapshots.

use sqlx::{query, query_as, query_scalar};

use super::Connection;
use crate::domain::id::{Serial, StateId, StateName};
use crate::domain::state::document::DocumentHead;
use crate::store::codec::{self, StateColumns};
use crate::store::fault::Fault;
use crate::store::model::{Snapshot, StateHead};
use crate::store::values::{Id, JsonText, Time};
use crate::store::{StoreError, not_found};

pub(super) async fn now(db: &mut Connection) -> Result<chrono::DateTime<chrono::Utc>, Fault> {
    let time: Time = query_scalar(concat!("SELECT ", now!())).fetch_one(db).await?;
    Ok(time.0)
}

pub(super) async fn find(db: &mut Connection, name: &StateName) -> Result<Option<StateHead>, Fault> {
    let found: Option<StateColumns> = query_as("SELECT id, name, lineage, serial, secret FROM states WHERE name = $1")
        .bind(name.as_str())
        .fetch_optional(db)
        .await?;
    Ok(found.map(codec::state).transpose()?)
}

pub(super) async fn ensure(db: &mut Connection, name: &StateName) -> Result<StateHead, Fault> {
    if let Some(state) = find(db, name).await? {
        return Ok(state);
    }
    query(concat!(
        "INSERT INTO states (id, name, secret, created_at) VALUES (",
        new_id!(),
        ", $1, ",
        new_secret!(),
        ", ",
        now!(),
        ") ON CONFLICT (name) DO NOTHING"
    ))
    .bind(name.as_str())
    .execute(&mut *db)
    .await?;
    find(db, name).await?.ok_or_else(|| not_found("state", name).into())
}

pub(super) async fn list(db: &mut Connection) -> Result<Vec<StateHead>, Fault> {
    let found: Vec<StateColumns> =
        query_as("SELECT id, name, lineage, serial, secret FROM states ORDER BY name").fetch_all(db).await?;
    Ok(found.into_iter().map(codec::state).collect::<Result<_, StoreError>>()?)
}

pub(super) async fn by_id(db: &mut Connection, state: StateId) -> Result<StateHead, Fault> {
    let found: Option<StateColumns> = query_as("SELECT id, name, lineage, serial, secret FROM states WHERE id = $1")
        .bind(Id(state.0))
        .fetch_optional(db)
        .await?;
    Ok(codec::state(found.ok_or_else(|| not_found("state", state))?)?)
}

/// Locks the state until the end of the transaction: acquire, commit and every end of a run take turns.
pub(super) async fn lock(db: &mut Connection, state: StateId) -> Result<StateHead, Fault> {
    let found: Option<StateColumns> =
        query_as(concat!("SELECT id, name, lineage, serial, secret FROM states WHERE id = $1", lock_row!()))
            .bind(Id(state.0))
            .fetch_optional(db)
            .await?;
    Ok(codec::state(found.ok_or_else(|| not_found("state", state))?)?)
}

/// Takes a place in the queue.
pub(super) async fn take_ticket(db: &mut Connection, state: StateId) -> Result<i64, Fault> {
    let next: i64 =
        query_scalar("UPDATE states SET next_ticket = next_ticket + 1 WHERE id = $1 RETURNING next_ticket - 1")
            .bind(Id(state.0))
            .fetch_one(db)
            .await?;
    Ok(next)
}

/// Refuses to tell what was so at a serial, when a lifecycle that ended before `until` would have to be known.
pub(super) async fn remembered(
    db: &mut Connection,
    state: StateId,
    serial: Serial,
    until: Serial,
) -> Result<(), Fault> {
    let from: i64 =
        query_scalar("SELECT history_from FROM states WHERE id = $1").bind(Id(state.0)).fetch_one(db).await?;
    if from > 0 && until.0 < from {
        Err(StoreError::HistoryRemoved { serial, from: Serial(from) }.into())
    } else {
        Ok(())
    }
}

pub(super) async fn snapshot(db: &mut Connection, state: StateId, at: Option<Serial>) -> Result<Snapshot, Fault> {
    let mut head = by_id(db, state).await?;
    let serial = at.unwrap_or(head.serial);
    if serial != Serial(0) {
        remembered(db, state, serial, serial).await?;
    }
    let version: Option<(String, JsonText, JsonText)> = query_as(
        "SELECT terraform_version, document, providers FROM state_versions WHERE state_id = $1 AND serial = $2",
    )
    .bind(Id(state.0))
    .bind(serial.0)
    .fetch_optional(&mut *db)
    .await?;
    let Some((terraform_version, extra, providers)) = version else {
        if serial == Serial(0) {
            head.serial = serial;
            return Ok(Snapshot { head, document: DocumentHead::default(), providers: [].into(), rows: Vec::new() });
        }
        return Err(not_found("state at serial", serial).into());
    };
    let document = DocumentHead { terraform_version, extra: codec::from_json(&extra)? };
    let providers = codec::text_map(&providers)?;
    let found: Vec<(String, String, String, Vec<u8>, String, i64)> = if serial == head.serial {
        query_as(
            "SELECT r.kind, r.address, r.qualifier, r.content_hash, b.body, r.from_serial
             FROM resources r JOIN resource_bodies b ON b.content_hash = r.content_hash
             WHERE r.state_id = $1 AND r.to_serial IS NULL",
        )
        .bind(Id(state.0))
        .fetch_all(db)
        .await?
    } else {
        query_as(
            "SELECT r.kind, r.address, r.qualifier, r.content_hash, b.body, r.from_serial
             FROM resources r JOIN resource_bodies b ON b.content_hash = r.content_hash
             WHERE r.state_id = $1 AND r.from_serial <= $2 AND (r.to_serial IS NULL OR r.to_serial > $2)",
        )
        .bind(Id(state.0))
        .bind(serial.0)
        .fetch_all(db)
        .await?
    };
    let mut rows = found.into_iter().map(codec::row).collect::<Result<Vec<_>, StoreError>>()?;
    rows.sort_by(|(a, _), (b, _)| a.key.cmp(&b.key));
    head.serial = serial;
    Ok(Snapshot { head, document, providers, rows })
}
