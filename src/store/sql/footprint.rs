//! The history of a footprint: the newest versions that touched rows which a set of claims covers.
//!
//! A state may have a million lifecycles. So each row, resource or group of instances that is claimed is asked for its
//! newest change by one step into an index, and asked again when that change has been told: no lifecycle is read that is
//! not told.

use std::collections::BTreeMap;

use sqlx::{query_as, query_scalar};

use super::versions::{Lifecycle, touched};
use super::{Connection, states, versions};
use crate::domain::address::Pattern;
use crate::domain::coordination::claim_index::ClaimIndex;
use crate::domain::coordination::reservation::Claim;
use crate::domain::id::{Serial, StateId};
use crate::domain::state::{RowKey, RowKeyDigest};
use crate::store::StoreError;
use crate::store::codec;
use crate::store::decide::footprint::{Footprint, Search, footprint};
use crate::store::fault::Fault;
use crate::store::model::{Touched, Version, VersionQuery};
use crate::store::values::Id;

/// So many versions are read at once when the whole state is claimed.
const PAGE: u32 = 200;

/// What of `r` is in the indexes of groups: rows in instances of modules.
macro_rules! in_instance {
    () => {
        "replace(r.module_path, '[', '') <> r.module_path"
    };
}

/// The group of `r`: its address without the key of the resource, as far as the index has it.
macro_rules! group {
    () => {
        "substr(r.module_path || '.' || CASE WHEN r.mode = 'data' THEN 'data.' ELSE '' END || r.type || '.' || r.name, \
         1, 500)"
    };
}

/// Whether `r` is of the resource that `keys` names, as far as the index has its name.
macro_rules! of_resource {
    () => {
        "substr(r.resource_key, 1, 500) = substr(keys.value, 1, 500)"
    };
}

/// Whether `r` is of the group that `keys` names.
macro_rules! of_group {
    () => {
        concat!(in_instance!(), " AND ", group!(), " = substr(keys.value, 1, 500)")
    };
}

pub(super) async fn versions_touching(
    db: &mut Connection,
    state: StateId,
    claims: &[Claim],
    before: Option<Serial>,
    limit: u32,
) -> Result<Vec<Version>, Fault> {
    states::by_id(db, state).await?;
    let footprint = footprint(claims);
    if footprint.everything {
        return all(db, state, before, limit).await;
    }
    let mut found = Vec::new();
    if limit == 0 {
        return Ok(found);
    }
    let index = ClaimIndex::new(claims);
    let keys = keys(db, state, footprint).await?;
    let mut ahead: BTreeMap<Serial, Vec<Key>> = BTreeMap::new();
    newest(db, state, before.unwrap_or(Serial(i64::MAX)), keys, &mut ahead).await?;
    while found.len() < limit as usize
        && let Some((serial, keys)) = ahead.pop_last()
    {
        let rows = rows(db, state, serial, &keys).await?;
        let rows: Vec<(RowKey, Touched)> = rows.into_iter().filter(|(key, _)| covered(&index, key)).collect();
        // What an index has cut may have led to something else.
        if !rows.is_empty() {
            let ask = VersionQuery { before: Some(serial.next()), since: None, limit: 1, with_rows: false };
            let version = versions::list(db, state, ask).await?.pop();
            let missing = || StoreError::Corrupt(format!("rows changed at serial {serial}, which is no version"));
            found.push(Version { rows, ..version.ok_or_else(missing)? });
        }
        newest(db, state, serial, keys, &mut ahead).await?;
    }
    Ok(found)
}

/// The versions that touched anything.
async fn all(
    db: &mut Connection,
    state: StateId,
    mut before: Option<Serial>,
    limit: u32,
) -> Result<Vec<Version>, Fault> {
    let mut found: Vec<Version> = Vec::new();
    while found.len() < limit as usize {
        let ask = VersionQuery { before, since: None, limit: limit.min(PAGE), with_rows: true };
        let page = versions::list(db, state, ask).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.serial);
        found.extend(page.into_iter().filter(|version| !version.rows.is_empty()));
    }
    found.truncate(limit as usize);
    Ok(found)
}

/// What an index is asked by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// The digest of a row's key, in hex.
    Row(String),
    /// A resource without instance keys.
    Resource(String),
    /// A resource in an instance of its module.
    Group(String),
}

/// Everything that has to be asked for.
async fn keys(db: &mut Connection, state: StateId, mut footprint: Footprint) -> Result<Vec<Key>, Fault> {
    for search in std::mem::take(&mut footprint.searches) {
        for name in there(db, state, &search).await? {
            footprint.found(&search, name);
        }
    }
    footprint.tidy();
    let mut rows = footprint.rows;
    rows.extend(deposed(db, state, &footprint.instances).await?);
    rows.sort_unstable();
    rows.dedup();
    let resources = footprint.resources.into_iter().map(Key::Resource);
    Ok(rows.into_iter().map(Key::Row).chain(resources).chain(footprint.groups.into_iter().map(Key::Group)).collect())
}

/// The resources, or groups, that there are or were in a range: by one step into an index for each.
async fn there(db: &mut Connection, state: StateId, search: &Search) -> Result<Vec<String>, Fault> {
    macro_rules! names {
        ($name:expr, $where:expr) => {
            concat!(
                "WITH RECURSIVE names (name) AS (
                     SELECT (SELECT ",
                $name,
                " FROM resources r WHERE r.state_id = $1 AND ",
                $where,
                " AND ",
                $name,
                " >= $2 AND ",
                $name,
                " < $3 ORDER BY ",
                $name,
                " LIMIT 1)
                     UNION ALL
                     SELECT (SELECT ",
                $name,
                " FROM resources r WHERE r.state_id = $1 AND ",
                $where,
                " AND ",
                $name,
                " > names.name AND ",
                $name,
                " < $3 ORDER BY ",
                $name,
                " LIMIT 1)
                     FROM names WHERE names.name IS NOT NULL
                 ) SELECT name FROM names WHERE name IS NOT NULL"
            )
        };
    }
    let statement = if search.keyed {
        names!(group!(), in_instance!())
    } else {
        names!("substr(r.resource_key, 1, 500)", "r.resource_key IS NOT NULL")
    };
    Ok(query_scalar(statement).bind(Id(state.0)).bind(&search.from).bind(&search.to).fetch_all(db).await?)
}

/// The keys, in hex, of the deposed objects that instances have or had.
async fn deposed(db: &mut Connection, state: StateId, instances: &[String]) -> Result<Vec<String>, Fault> {
    if instances.is_empty() {
        return Ok(Vec::new());
    }
    let found: Vec<Vec<u8>> = query_scalar(concat!(
        "SELECT DISTINCT r.row_key FROM ",
        json_list!("$2"),
        " AS keys CROSS JOIN resources r
         WHERE r.state_id = $1 AND r.kind = 'object' AND r.qualifier <> ''
           AND substr(r.address, 1, 500) = substr(keys.value, 1, 500) AND r.address = keys.value"
    ))
    .bind(Id(state.0))
    .bind(codec::json(&instances)?)
    .fetch_all(db)
    .await?;
    let digests = found.iter().map(|key| codec::row_digest(key)).collect::<Result<Vec<RowKeyDigest>, StoreError>>()?;
    Ok(digests.iter().map(ToString::to_string).collect())
}

/// Sorts keys by what sort they are, for the three parameters of a statement.
fn lists(keys: &[Key]) -> Result<[crate::store::values::JsonText; 3], StoreError> {
    let (mut rows, mut resources, mut groups) = (Vec::new(), Vec::new(), Vec::new());
    for key in keys {
        match key {
            Key::Row(key) => rows.push(key),
            Key::Resource(key) => resources.push(key),
            Key::Group(key) => groups.push(key),
        }
    }
    Ok([codec::json(&rows)?, codec::json(&resources)?, codec::json(&groups)?])
}

/// Whether a claim covers the row.
fn covered(index: &ClaimIndex<'_>, key: &RowKey) -> bool {
    // The result of a check is covered by a claim on everything alone.
    key.pattern().is_some_and(|pattern: Pattern| index.meeting(&pattern).next().is_some())
}

/// Puts each key to the newest version before another one that touched it.
async fn newest(
    db: &mut Connection,
    state: StateId,
    before: Serial,
    keys: Vec<Key>,
    ahead: &mut BTreeMap<Serial, Vec<Key>>,
) -> Result<(), Fault> {
    let [rows, resources, groups] = lists(&keys)?;
    macro_rules! last {
        ($sort:literal, $list:literal, $moment:literal, $which:expr) => {
            concat!(
                "SELECT ",
                $sort,
                ", keys.value, (SELECT r.",
                $moment,
                " FROM resources r WHERE r.state_id = $1 AND ",
                $which,
                " AND r.",
                $moment,
                " < $2 ORDER BY r.",
                $moment,
                " DESC LIMIT 1) FROM ",
                json_list!($list),
                " AS keys"
            )
        };
    }
    // The lifecycles of one row follow each other: the last one that began before has the last change.
    let found: Vec<(i32, String, Option<i64>)> = query_as(concat!(
        "SELECT 0, keys.value,
                (SELECT CASE WHEN r.to_serial < $2 THEN r.to_serial ELSE r.from_serial END FROM resources r
                 WHERE r.state_id = $1 AND r.row_key = ",
        unhex!("keys.value"),
        "          AND r.from_serial < $2 ORDER BY r.from_serial DESC LIMIT 1)
         FROM ",
        json_list!("$3"),
        " AS keys UNION ALL ",
        last!(1, "$4", "from_serial", of_resource!()),
        " UNION ALL ",
        last!(1, "$4", "to_serial", of_resource!()),
        " UNION ALL ",
        last!(2, "$5", "from_serial", of_group!()),
        " UNION ALL ",
        last!(2, "$5", "to_serial", of_group!())
    ))
    .bind(Id(state.0))
    .bind(before.0)
    .bind(rows)
    .bind(resources)
    .bind(groups)
    .fetch_all(db)
    .await?;
    let mut last: BTreeMap<Key, Serial> = BTreeMap::new();
    for (kind, key, serial) in found {
        let Some(serial) = serial.map(Serial) else { continue };
        let key = match kind {
            0 => Key::Row(key),
            1 => Key::Resource(key),
            _ => Key::Group(key),
        };
        last.entry(key).and_modify(|seen| *seen = serial.max(*seen)).or_insert(serial);
    }
    for (key, serial) in last {
        ahead.entry(serial).or_default().push(key);
    }
    Ok(())
}

/// What a version did to rows of these keys. `SQLite` takes a `CROSS JOIN` in its order: each key is one step into an index,
/// and the version may have touched a great many rows.
async fn rows(
    db: &mut Connection,
    state: StateId,
    serial: Serial,
    keys: &[Key],
) -> Result<Vec<(RowKey, Touched)>, Fault> {
    macro_rules! select {
        ($list:literal, $which:expr) => {
            concat!(
                "SELECT r.kind, r.address, r.qualifier, r.from_serial, r.to_serial FROM ",
                json_list!($list),
                " AS keys CROSS JOIN resources r WHERE r.state_id = $1 AND ",
                $which
            )
        };
    }
    let [rows, resources, groups] = lists(keys)?;
    let lifecycles: Vec<Lifecycle> = query_as(concat!(
        select!("$3", concat!("r.from_serial = $2 AND r.row_key = ", unhex!("keys.value"))),
        " UNION ALL ",
        select!("$3", concat!("r.to_serial = $2 AND r.row_key = ", unhex!("keys.value"))),
        " AND r.from_serial = (SELECT MAX(q.from_serial) FROM resources q
                               WHERE q.state_id = $1 AND q.from_serial < $2 AND q.row_key = ",
        unhex!("keys.value"),
        ") UNION ALL ",
        select!("$4", concat!("r.from_serial = $2 AND ", of_resource!())),
        " UNION ALL ",
        select!("$4", concat!("r.to_serial = $2 AND ", of_resource!())),
        " UNION ALL ",
        select!("$5", concat!("r.from_serial = $2 AND ", of_group!())),
        " UNION ALL ",
        select!("$5", concat!("r.to_serial = $2 AND ", of_group!()))
    ))
    .bind(Id(state.0))
    .bind(serial.0)
    .bind(rows)
    .bind(resources)
    .bind(groups)
    .fetch_all(db)
    .await?;
    Ok(touched(lifecycles)?.remove(&serial).unwrap_or_default().into_iter().collect())
}
