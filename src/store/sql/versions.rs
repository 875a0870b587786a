//! Versions of a state and what each of them changed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::DateTime;
use sqlx::query_as;

use super::{Connection, states};
use crate::domain::id::{RunId, Serial, SpecId, StateId};
use crate::domain::state::RowKey;
use crate::store::StoreError;
use crate::store::codec::{self, VersionColumns};
use crate::store::fault::Fault;
use crate::store::model::{RowChange, RowStep, Touched, Version, VersionQuery};
use crate::store::values::{Id, Time};

/// Versions that stand at most so many serials apart are read at once.
const RANGE: i64 = 200;

/// `kind, address, qualifier, from_serial, to_serial` of a lifecycle.
pub(super) type Lifecycle = (String, String, String, i64, Option<i64>);

/// The same with the hash of its content.
type Content = (String, String, String, i64, Option<i64>, Vec<u8>);

pub(super) async fn list(db: &mut Connection, state: StateId, ask: VersionQuery) -> Result<Vec<Version>, Fault> {
    states::by_id(db, state).await?;
    let found: Vec<VersionColumns> = query_as(
        "SELECT serial, source_serial, committed_at, actor, origin, run_id, spec_id, source, mode, terraform_version,
                rows_opened, rows_closed, rows_touched
         FROM state_versions WHERE state_id = $1 AND serial < $2 AND committed_at >= $4 ORDER BY serial DESC LIMIT $3",
    )
    .bind(Id(state.0))
    .bind(ask.before.map_or(i64::MAX, |serial| serial.0))
    .bind(i64::from(ask.limit))
    .bind(Time(ask.since.unwrap_or(DateTime::UNIX_EPOCH)))
    .fetch_all(&mut *db)
    .await?;
    let mut versions = found.into_iter().map(codec::version).collect::<Result<Vec<_>, StoreError>>()?;
    if let (true, Some(newest), Some(oldest)) = (ask.with_rows, versions.first(), versions.last()) {
        let mut touched = touched(lifecycles(db, state, oldest.serial, newest.serial).await?)?;
        for version in &mut versions {
            version.rows = touched.remove(&version.serial).unwrap_or_default().into_iter().collect();
        }
    }
    Ok(versions)
}

/// The versions of some serials, without their rows.
pub(super) async fn of_serials(
    db: &mut Connection,
    state: StateId,
    serials: &[Serial],
) -> Result<HashMap<Serial, Version>, Fault> {
    let texts: Vec<String> = serials.iter().map(ToString::to_string).collect();
    let found: Vec<VersionColumns> = query_as(concat!(
        "SELECT v.serial, v.source_serial, v.committed_at, v.actor, v.origin, v.run_id, v.spec_id, v.source, v.mode,
                v.terraform_version, v.rows_opened, v.rows_closed, v.rows_touched
         FROM ",
        json_list!("$2"),
        " AS keys CROSS JOIN state_versions v WHERE v.state_id = $1 AND v.serial = CAST(keys.value AS bigint)"
    ))
    .bind(Id(state.0))
    .bind(codec::json(&texts)?)
    .fetch_all(db)
    .await?;
    let versions = found.into_iter().map(codec::version).collect::<Result<Vec<_>, StoreError>>()?;
    Ok(versions.into_iter().map(|version| (version.serial, version)).collect())
}

pub(super) async fn applied(db: &mut Connection, state: StateId, spec: SpecId) -> Result<Option<Version>, Fault> {
    let found: Option<VersionColumns> = query_as(
        "SELECT serial, source_serial, committed_at, actor, origin, run_id, spec_id, source, mode, terraform_version,
                rows_opened, rows_closed, rows_touched
         FROM state_versions WHERE spec_id = $2 AND state_id = $1 AND source = 'apply' ORDER BY serial DESC LIMIT 1",
    )
    .bind(Id(state.0))
    .bind(Id(spec.0))
    .fetch_optional(db)
    .await?;
    Ok(found.map(codec::version).transpose()?)
}

pub(super) async fn of_runs(db: &mut Connection, runs: &[RunId]) -> Result<Vec<Version>, Fault> {
    let found: Vec<(Id, i64)> = query_as(concat!(
        "SELECT state_id, serial FROM state_versions WHERE run_id IN (",
        id_list!("$1"),
        ") ORDER BY state_id, serial"
    ))
    .bind(codec::json(&runs)?)
    .fetch_all(&mut *db)
    .await?;
    // The serials of runs that began together stand close to each other.
    let mut ranges: Vec<(StateId, i64, i64)> = Vec::new();
    for (state, serial) in found {
        let state = StateId(state.0);
        match ranges.last_mut() {
            Some((known, oldest, newest)) if *known == state && serial - *oldest < RANGE => *newest = serial,
            _ => ranges.push((state, serial, serial)),
        }
    }
    let runs: HashSet<RunId> = runs.iter().copied().collect();
    let mut versions = Vec::new();
    for (state, oldest, newest) in ranges {
        let limit = u32::try_from(newest - oldest + 1).unwrap_or(u32::MAX);
        let ask = VersionQuery { before: Some(Serial(newest).next()), since: None, limit, with_rows: true };
        let mut page = list(db, state, ask).await?;
        // Where serials were left out, the page goes back further.
        page.retain(|version| version.serial.0 >= oldest && version.run.is_some_and(|run| runs.contains(&run)));
        versions.extend(page.into_iter().rev());
    }
    Ok(versions)
}

pub(super) async fn recovered(db: &mut Connection, specs: &[SpecId]) -> Result<Vec<Version>, Fault> {
    let found: Vec<(Id, i64)> = query_as(concat!(
        "SELECT state_id, serial FROM state_versions WHERE source = 'recover' AND spec_id IN (",
        id_list!("$1"),
        ") ORDER BY serial"
    ))
    .bind(codec::json(&specs)?)
    .fetch_all(&mut *db)
    .await?;
    let mut versions = Vec::with_capacity(found.len());
    for (state, serial) in found {
        let ask = VersionQuery { before: Some(Serial(serial).next()), since: None, limit: 1, with_rows: true };
        versions.extend(list(db, StateId(state.0), ask).await?);
    }
    Ok(versions)
}

/// Every lifecycle that began or ended at a serial from `oldest` to `newest`.
async fn lifecycles(
    db: &mut Connection,
    state: StateId,
    oldest: Serial,
    newest: Serial,
) -> Result<Vec<Lifecycle>, Fault> {
    Ok(query_as(
        "SELECT kind, address, qualifier, from_serial, to_serial FROM resources
         WHERE state_id = $1 AND (from_serial BETWEEN $2 AND $3 OR to_serial BETWEEN $2 AND $3)",
    )
    .bind(Id(state.0))
    .bind(oldest.0)
    .bind(newest.0)
    .fetch_all(db)
    .await?)
}

/// What each version did to each row.
pub(super) fn touched(lifecycles: Vec<Lifecycle>) -> Result<HashMap<Serial, BTreeMap<RowKey, Touched>>, StoreError> {
    let mut versions: HashMap<Serial, BTreeMap<RowKey, Touched>> = HashMap::new();
    for (kind, address, qualifier, from, to) in lifecycles {
        let key = codec::row_key(&(kind, address, qualifier))?;
        let ends = to.map(|serial| (Serial(serial), Touched::Removed));
        for (serial, what) in [Some((Serial(from), Touched::Created)), ends].into_iter().flatten() {
            also(versions.entry(serial).or_default(), key.clone(), what);
        }
    }
    Ok(versions)
}

pub(super) async fn rows_changed_since(
    db: &mut Connection,
    state: StateId,
    serial: Serial,
) -> Result<Vec<RowChange>, Fault> {
    states::by_id(db, state).await?;
    states::remembered(db, state, serial, serial.next()).await?;
    let lives: Vec<Content> = query_as(
        "SELECT kind, address, qualifier, from_serial, to_serial, content_hash FROM resources
         WHERE state_id = $1 AND (from_serial > $2 OR to_serial > $2)",
    )
    .bind(Id(state.0))
    .bind(serial.0)
    .fetch_all(&mut *db)
    .await?;
    let mut rows: BTreeMap<RowKey, Since> = BTreeMap::new();
    for (kind, address, qualifier, from, to, hash) in lives {
        let seen = rows.entry(codec::row_key(&(kind, address, qualifier))?).or_default();
        if from > serial.0 {
            also(&mut seen.steps, Serial(from), Touched::Created);
        } else {
            seen.before = Some(hash.clone());
        }
        match to {
            Some(to) => also(&mut seen.steps, Serial(to), Touched::Removed),
            None => seen.now = Some(hash),
        }
    }
    let found: Vec<VersionColumns> = query_as(
        "SELECT serial, source_serial, committed_at, actor, origin, run_id, spec_id, source, mode, terraform_version,
                rows_opened, rows_closed, rows_touched
         FROM state_versions WHERE state_id = $1 AND serial > $2",
    )
    .bind(Id(state.0))
    .bind(serial.0)
    .fetch_all(db)
    .await?;
    let mut versions = HashMap::new();
    for columns in found {
        let version = codec::version(columns)?;
        versions.insert(version.serial, Arc::new(version));
    }
    let step = |(serial, touched): (Serial, Touched)| {
        let version = versions
            .get(&serial)
            .ok_or_else(|| StoreError::Corrupt(format!("a row changed at serial {serial}, which is no version")))?;
        Ok(RowStep { touched, version: version.clone() })
    };
    let mut changes = Vec::with_capacity(rows.len());
    for (key, seen) in rows {
        let back = seen.before == seen.now;
        let mut steps = seen.steps.into_iter().map(step).collect::<Result<Vec<_>, StoreError>>()?;
        if let Some(newest) = steps.pop() {
            changes.push(RowChange { key, newest, earlier: steps, back });
        }
    }
    Ok(changes)
}

/// What is known of a row since a serial.
#[derive(Default)]
struct Since {
    /// What each version did to it.
    steps: BTreeMap<Serial, Touched>,
    /// The hash of its content at the serial.
    before: Option<Vec<u8>>,
    /// The hash of its content now.
    now: Option<Vec<u8>>,
}

/// Notes that a lifecycle begins or ends there.
fn also<K: Ord>(seen: &mut BTreeMap<K, Touched>, there: K, what: Touched) {
    let seen = seen.entry(there).or_insert(what);
    // The end of one lifecycle and the beginning of the next at one serial are one change.
    if *seen != what {
        *seen = Touched::Changed;
    }
}
