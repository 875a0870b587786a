//! Runs and specs.

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use sqlx::{query, query_as, query_scalar};
use uuid::Uuid;

use super::{Connection, states};
use crate::domain::coordination::reservation::Claim;
use crate::domain::id::{RunId, SpecId, StateId};
use crate::domain::request::RequestRef;
use crate::domain::run::{NewRun, Run, RunEnd, RunStatus, Tools};
use crate::store::codec::request::number;
use crate::store::codec::{self, RunColumns, SpecColumns};
use crate::store::fault::Fault;
use crate::store::model::{NewSpec, RunQuery, StateHead, StoredSpec};
use crate::store::values::{Id, Time};
use crate::store::{StoreError, not_found};

/// Later than any run, and a time that both databases can tell.
const END_OF_TIME: DateTime<Utc> = match NaiveDate::from_ymd_opt(9999, 12, 31) {
    Some(day) => day.and_time(NaiveTime::MIN).and_utc(),
    None => DateTime::<Utc>::MAX_UTC,
};

/// The columns of [`RunColumns`], in its order.
macro_rules! columns {
    () => {
        "id, state_id, kind, status, actor, origin, spec_id, source_serial, tools, claims, started_at, ended_at, \
         result_serial, error, conflict"
    };
}

pub(super) async fn spec_insert(db: &mut Connection, spec: &NewSpec) -> Result<(), Fault> {
    let inserted = query(concat!(
        "INSERT INTO plan_specs (id, state_id, source_serial, actor, origin, digest, document, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, ",
        now!(),
        ")"
    ))
    .bind(Id(spec.id.0))
    .bind(Id(spec.state.0))
    .bind(spec.source_serial.0)
    .bind(codec::plain(&spec.actor.0))
    .bind(codec::origin(&spec.origin)?)
    .bind(&spec.digest)
    .bind(&spec.document)
    .execute(db)
    .await
    .map_err(Fault::from);
    match inserted {
        Err(fault) if fault.duplicate() => Err(StoreError::Stale(format!("spec {} is already stored", spec.id)).into()),
        Err(fault) if fault.missing_reference() => Err(not_found("state", spec.state).into()),
        other => other.map(drop),
    }
}

pub(super) async fn spec_find(db: &mut Connection, id: SpecId) -> Result<StoredSpec, Fault> {
    let found: Option<SpecColumns> = query_as(
        "SELECT id, state_id, source_serial, actor, origin, digest, document, created_at FROM plan_specs WHERE id = $1",
    )
    .bind(Id(id.0))
    .fetch_optional(db)
    .await?;
    Ok(codec::spec(found.ok_or_else(|| not_found("spec", id))?)?)
}

pub(super) async fn spec_list(db: &mut Connection, ids: &[SpecId]) -> Result<Vec<StoredSpec>, Fault> {
    let found: Vec<SpecColumns> = query_as(concat!(
        "SELECT id, state_id, source_serial, actor, origin, digest, document, created_at FROM plan_specs WHERE id IN (",
        id_list!("$1"),
        ")"
    ))
    .bind(codec::json(&ids)?)
    .fetch_all(db)
    .await?;
    Ok(found.into_iter().map(codec::spec).collect::<Result<_, StoreError>>()?)
}

pub(super) async fn start(db: &mut Connection, run: &NewRun) -> Result<(), Fault> {
    // Looked up one by one, because a violated foreign key does not say which of the two is missing.
    states::by_id(db, run.state).await?;
    if let Some(spec) = run.spec {
        let known: Option<i64> = query_scalar("SELECT source_serial FROM plan_specs WHERE id = $1")
            .bind(Id(spec.0))
            .fetch_optional(&mut *db)
            .await?;
        known.ok_or_else(|| not_found("spec", spec))?;
    }
    query(concat!(
        "INSERT INTO runs (id, state_id, kind, status, actor, origin, spec_id, source_serial, tools, claims, started_at)
         VALUES ($1, $2, $3, 'started', $4, $5, $6, $7, $8, $9, ",
        now!(),
        ")"
    ))
    .bind(Id(run.id.0))
    .bind(Id(run.state.0))
    .bind(run.kind.word())
    .bind(codec::plain(&run.actor.0))
    .bind(codec::origin(&run.origin)?)
    .bind(run.spec.map(|spec| Id(spec.0)))
    .bind(run.source_serial.0)
    .bind(codec::json(&run.tools)?)
    .bind(codec::json(&run.claims)?)
    .execute(db)
    .await?;
    Ok(())
}

pub(super) async fn find(db: &mut Connection, id: RunId) -> Result<Run, Fault> {
    let found: Option<RunColumns> =
        query_as(concat!("SELECT ", columns!(), " FROM runs WHERE id = $1")).bind(Id(id.0)).fetch_optional(db).await?;
    Ok(codec::run(found.ok_or_else(|| not_found("run", id))?)?)
}

pub(super) async fn search(db: &mut Connection, fragment: &str) -> Result<Vec<Run>, Fault> {
    let fragment = fragment.to_ascii_lowercase();
    // What is no part of an id finds nothing, and LIKE never sees its own letters.
    if fragment.is_empty() || !fragment.chars().all(|letter| letter.is_ascii_hexdigit() || letter == '-') {
        return Ok(Vec::new());
    }
    let found: Vec<RunColumns> = query_as(concat!(
        "SELECT ",
        columns!(),
        " FROM runs WHERE CAST(id AS text) LIKE $1 || '%' OR CAST(id AS text) LIKE '%' || $1
         ORDER BY started_at DESC, id DESC LIMIT 10"
    ))
    .bind(fragment)
    .fetch_all(db)
    .await?;
    Ok(found.into_iter().map(codec::run).collect::<Result<_, StoreError>>()?)
}

pub(super) async fn list(db: &mut Connection, state: StateId, live: bool, limit: u32) -> Result<Vec<Run>, Fault> {
    // Two queries, so that the few live runs among many are found by the index that has these alone.
    let sql = if live {
        concat!(
            "SELECT ",
            columns!(),
            " FROM runs WHERE state_id = $1 AND ended_at IS NULL ORDER BY started_at DESC, id DESC LIMIT $2"
        )
    } else {
        concat!("SELECT ", columns!(), " FROM runs WHERE state_id = $1 ORDER BY started_at DESC, id DESC LIMIT $2")
    };
    let found: Vec<RunColumns> = query_as(sql).bind(Id(state.0)).bind(i64::from(limit)).fetch_all(db).await?;
    Ok(found.into_iter().map(codec::run).collect::<Result<_, StoreError>>()?)
}

pub(super) async fn cut_off(db: &mut Connection) -> Result<Vec<Run>, Fault> {
    // Found by way of the workplaces: few runs have one.
    let found: Vec<RunColumns> = query_as(concat!(
        "SELECT ",
        columns!(),
        " FROM runs WHERE id IN (SELECT run_id FROM run_workplaces) AND ended_at IS NOT NULL
         ORDER BY started_at DESC, id DESC"
    ))
    .fetch_all(db)
    .await?;
    Ok(found.into_iter().map(codec::run).collect::<Result<_, StoreError>>()?)
}

/// A page of runs, with or without a condition on the state in front.
macro_rules! page {
    ($of_state:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM runs WHERE ",
            $of_state,
            " (started_at, id) < ($1, $2) AND started_at >= $3 AND ($4 = '' OR status = $4) AND ($5 = '' OR actor = $5)
              AND ($6 < 0 OR request = $6)
             ORDER BY started_at DESC, id DESC LIMIT $7"
        )
    };
}

pub(super) async fn page(db: &mut Connection, ask: &RunQuery) -> Result<Vec<Run>, Fault> {
    let (before, last) = ask.before.unwrap_or((END_OF_TIME, RunId(Uuid::max())));
    let text = if ask.state.is_some() { page!("state_id = $8 AND") } else { page!("") };
    let asked = query_as(text)
        .bind(Time(before))
        .bind(Id(last.0))
        .bind(Time(ask.since.unwrap_or(DateTime::UNIX_EPOCH)))
        .bind(ask.status.map_or("", RunStatus::word))
        .bind(ask.actor.as_ref().map(|actor| codec::plain(&actor.0)).unwrap_or_default())
        .bind(ask.request.map_or(-1, |number| i64::try_from(number).unwrap_or(i64::MAX)))
        .bind(i64::from(ask.limit));
    let found: Vec<RunColumns> = match ask.state {
        Some(state) => asked.bind(Id(state.0)).fetch_all(db).await?,
        None => asked.fetch_all(db).await?,
    };
    Ok(found.into_iter().map(codec::run).collect::<Result<_, StoreError>>()?)
}

pub(super) async fn of_request(db: &mut Connection, request: &RequestRef, limit: u32) -> Result<Vec<Run>, Fault> {
    let found: Vec<RunColumns> = query_as(concat!(
        "SELECT ",
        columns!(),
        " FROM runs WHERE forge = $1 AND repository = $2 AND request = $3 ORDER BY started_at DESC, id DESC LIMIT $4"
    ))
    .bind(request.forge.word())
    .bind(&request.repository)
    .bind(number(request))
    .bind(i64::from(limit))
    .fetch_all(db)
    .await?;
    Ok(found.into_iter().map(codec::run).collect::<Result<_, StoreError>>()?)
}

pub(super) async fn tools(db: &mut Connection, run: RunId, tools: &Tools) -> Result<(), Fault> {
    let done =
        query("UPDATE runs SET tools = $2 WHERE id = $1").bind(Id(run.0)).bind(codec::json(tools)?).execute(db).await?;
    if done.rows_affected() == 0 { Err(not_found("run", run).into()) } else { Ok(()) }
}

/// A run under the lock of its state.
pub(super) struct Locked {
    pub(super) state: StateHead,
    pub(super) run: Run,
    /// How many reservations it was granted.
    pub(super) reserved: i64,
}

impl Locked {
    /// The error for an operation that the run has no right to any more.
    pub(super) fn lost(&self, why: Option<&str>) -> StoreError {
        let status = self.run.status.word();
        StoreError::LeaseLost {
            run: self.run.id,
            status: why.map_or_else(|| status.to_owned(), |why| format!("{status}, {why}")),
        }
    }

    /// Refuses a run that has ended.
    pub(super) fn live(&self) -> Result<(), StoreError> {
        if self.run.status.ended() { Err(self.lost(None)) } else { Ok(()) }
    }
}

/// Locks the state of a run and reads the run under that lock.
pub(super) async fn lock(db: &mut Connection, id: RunId) -> Result<Locked, Fault> {
    let state: Option<Id> =
        query_scalar("SELECT state_id FROM runs WHERE id = $1").bind(Id(id.0)).fetch_optional(&mut *db).await?;
    let state = states::lock(db, StateId(state.ok_or_else(|| not_found("run", id))?.0)).await?;
    let run = find(db, id).await?;
    let reserved =
        query_scalar("SELECT reserved_count FROM runs WHERE id = $1").bind(Id(id.0)).fetch_one(&mut *db).await?;
    Ok(Locked { state, run, reserved })
}

/// Moves a live run on, under the lock of its state.
pub(super) async fn set_status(db: &mut Connection, run: RunId, status: RunStatus) -> Result<(), Fault> {
    query("UPDATE runs SET status = $2 WHERE id = $1").bind(Id(run.0)).bind(status.word()).execute(db).await?;
    Ok(())
}

/// Records what a run has reserved where that was not known when it began, under the lock of its state.
pub(super) async fn set_claims(db: &mut Connection, run: RunId, claims: &[Claim]) -> Result<(), Fault> {
    query("UPDATE runs SET claims = $2 WHERE id = $1").bind(Id(run.0)).bind(codec::json(&claims)?).execute(db).await?;
    Ok(())
}

/// Ends a live run, under the lock of its state. A plain Terraform may have made versions before, however it ends.
pub(super) async fn set_ended(db: &mut Connection, run: RunId, end: &RunEnd) -> Result<(), Fault> {
    query(concat!(
        "UPDATE runs SET status = $2, error = $3, conflict = $4, ended_at = ",
        now!(),
        ", result_serial = (SELECT MAX(v.serial) FROM state_versions v WHERE v.run_id = runs.id) WHERE id = $1"
    ))
    .bind(Id(run.0))
    .bind(end.status.word())
    .bind(end.error.as_deref().map(codec::plain))
    .bind(codec::json(&end.conflict)?)
    .execute(db)
    .await?;
    Ok(())
}

pub(super) async fn advance(db: &mut Connection, id: RunId, status: RunStatus) -> Result<(), Fault> {
    let locked = lock(db, id).await?;
    locked.live()?;
    if status.ended() {
        return Err(StoreError::Stale(format!("{} is an end, not a step of a run", status.word())).into());
    }
    set_status(db, id, status).await
}
