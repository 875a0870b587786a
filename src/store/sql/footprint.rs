//! The history of a footprint: the newest versions that touched rows which a set of claims covers.
//!
//! A state may have a million lifecycles. So the versions are found one after the other, from the newest back, each by
//! one step into an index for every row or resource that is claimed: no lifecycle is read that is not told.

use sqlx::{query_as, query_scalar};

use super::versions::{Lifecycle, touched};
use super::{Connection, states, versions};
use crate::domain::address::Pattern;
use crate::domain::coordination::claim_index::ClaimIndex;
use crate::domain::coordination::reservation::Claim;
use crate::domain::id::{Serial, StateId};
use crate::domain::state::RowKey;
use crate::store::StoreError;
use crate::store::codec;
use crate::store::decide::{self, Footprint};
use crate::store::fault::Fault;
use crate::store::model::{Touched, Version, VersionQuery};
use crate::store::values::{Id, JsonText};

/// How many versions are looked at in vain: a claim may be narrower than what the indexes go by.
const IN_VAIN: u32 = 50;

/// How many rows of one version are looked at.
const ROWS: i64 = 10_000;

pub(super) async fn versions_touching(
    db: &mut Connection,
    state: StateId,
    claims: &[Claim],
    before: Option<Serial>,
    limit: u32,
) -> Result<Vec<Version>, Fault> {
    states::by_id(db, state).await?;
    let mut footprint = decide::footprint(claims);
    let mut keys = Keys { rows: codec::json(&footprint.rows)?, resources: codec::json(&footprint.resources)? };
    let index = ClaimIndex::new(claims);
    let (mut found, mut in_vain, mut before) = (Vec::new(), 0, before.unwrap_or(Serial(i64::MAX)));
    while found.len() < limit as usize {
        if in_vain == IN_VAIN {
            // The claims that the indexes serve worse are given up first.
            if !footprint.narrow() {
                break;
            }
            keys.resources = codec::json(&footprint.resources)?;
            in_vain = 0;
        }
        let Some(serial) = newest(db, state, before, &footprint, &keys).await? else {
            break;
        };
        let rows = rows(db, state, serial, &footprint, &keys).await?;
        let rows: Vec<(RowKey, Touched)> = rows.into_iter().filter(|(key, _)| covered(&index, key)).collect();
        if rows.is_empty() {
            in_vain += 1;
        } else {
            let ask = VersionQuery { before: Some(serial.next()), since: None, limit: 1, with_rows: false };
            let version = versions::list(db, state, ask).await?.pop();
            let missing = || StoreError::Corrupt(format!("rows changed at serial {serial}, which is no version"));
            found.push(Version { rows, ..version.ok_or_else(missing)? });
        }
        before = serial;
    }
    Ok(found)
}

/// The lists of a [`Footprint`] as parameters.
struct Keys {
    rows: JsonText,
    resources: JsonText,
}

/// Whether a claim covers the row. Only one on the whole state covers the result of a check.
fn covered(index: &ClaimIndex<'_>, key: &RowKey) -> bool {
    match key.pattern() {
        Some(pattern) => index.meeting(&pattern).next().is_some(),
        None => index.meeting(&Pattern::Everything).any(|claim| claim.pattern == Pattern::Everything),
    }
}

/// The newest version before another one that touched the footprint, or may have.
async fn newest(
    db: &mut Connection,
    state: StateId,
    before: Serial,
    footprint: &Footprint,
    keys: &Keys,
) -> Result<Option<Serial>, Fault> {
    if footprint.wide {
        let serial: Option<i64> =
            query_scalar("SELECT MAX(serial) FROM state_versions WHERE state_id = $1 AND serial < $2")
                .bind(Id(state.0))
                .bind(before.0)
                .fetch_one(db)
                .await?;
        return Ok(serial.map(Serial));
    }
    // The lifecycles of one row follow each other: the last one that began before has the last change.
    let serial: Option<i64> = query_scalar(concat!(
        "SELECT MAX(serial) FROM (
             SELECT (SELECT CASE WHEN r.to_serial < $2 THEN r.to_serial ELSE r.from_serial END FROM resources r
                     WHERE r.state_id = $1 AND r.row_key = ",
        unhex!("keys.value"),
        "              AND r.from_serial < $2 ORDER BY r.from_serial DESC LIMIT 1) AS serial
             FROM ",
        json_list!("$3"),
        " AS keys
             UNION ALL
             SELECT (SELECT r.from_serial FROM resources r
                     WHERE r.state_id = $1 AND substr(r.resource_key, 1, 500) = substr(keys.value, 1, 500)
                       AND r.resource_key = keys.value AND r.from_serial < $2
                     ORDER BY r.from_serial DESC LIMIT 1)
             FROM ",
        json_list!("$4"),
        " AS keys
             UNION ALL
             SELECT (SELECT r.to_serial FROM resources r
                     WHERE r.state_id = $1 AND substr(r.resource_key, 1, 500) = substr(keys.value, 1, 500)
                       AND r.resource_key = keys.value AND r.to_serial < $2
                     ORDER BY r.to_serial DESC LIMIT 1)
             FROM ",
        json_list!("$4"),
        " AS keys
         ) AS found"
    ))
    .bind(Id(state.0))
    .bind(before.0)
    .bind(keys.rows.clone())
    .bind(keys.resources.clone())
    .fetch_one(db)
    .await?;
    Ok(serial.map(Serial))
}

/// What a version did to rows of the footprint, and perhaps to some around it.
async fn rows(
    db: &mut Connection,
    state: StateId,
    serial: Serial,
    footprint: &Footprint,
    keys: &Keys,
) -> Result<Vec<(RowKey, Touched)>, Fault> {
    let mut lifecycles: Vec<Lifecycle> = query_as(concat!(
        "SELECT r.kind, r.address, r.qualifier, r.from_serial, r.to_serial
         FROM ",
        json_list!("$3"),
        " AS keys JOIN resources r ON r.state_id = $1 AND r.from_serial = $2 AND r.row_key = ",
        unhex!("keys.value"),
        " UNION ALL
         SELECT r.kind, r.address, r.qualifier, r.from_serial, r.to_serial
         FROM ",
        json_list!("$3"),
        " AS keys JOIN resources r ON r.state_id = $1 AND r.to_serial = $2 AND r.row_key = ",
        unhex!("keys.value"),
        "  AND r.from_serial = (SELECT MAX(q.from_serial) FROM resources q
                                WHERE q.state_id = $1 AND q.from_serial < $2 AND q.row_key = ",
        unhex!("keys.value"),
        ") UNION ALL
         SELECT r.kind, r.address, r.qualifier, r.from_serial, r.to_serial
         FROM ",
        json_list!("$4"),
        " AS keys JOIN resources r ON r.state_id = $1 AND r.from_serial = $2 AND r.resource_key = keys.value
              AND substr(r.resource_key, 1, 500) = substr(keys.value, 1, 500)
         UNION ALL
         SELECT r.kind, r.address, r.qualifier, r.from_serial, r.to_serial
         FROM ",
        json_list!("$4"),
        " AS keys JOIN resources r ON r.state_id = $1 AND r.to_serial = $2 AND r.resource_key = keys.value
              AND substr(r.resource_key, 1, 500) = substr(keys.value, 1, 500)
         LIMIT $5"
    ))
    .bind(Id(state.0))
    .bind(serial.0)
    .bind(keys.rows.clone())
    .bind(keys.resources.clone())
    .bind(ROWS)
    .fetch_all(&mut *db)
    .await?;
    if footprint.wide {
        let all: Vec<Lifecycle> = query_as(
            "SELECT kind, address, qualifier, from_serial, to_serial FROM resources
             WHERE state_id = $1 AND from_serial = $2
             UNION ALL
             SELECT kind, address, qualifier, from_serial, to_serial FROM resources
             WHERE state_id = $1 AND to_serial = $2
             LIMIT $3",
        )
        .bind(Id(state.0))
        .bind(serial.0)
        .bind(ROWS)
        .fetch_all(db)
        .await?;
        lifecycles.extend(all);
    }
    Ok(touched(lifecycles)?.remove(&serial).unwrap_or_default().into_iter().collect())
}
