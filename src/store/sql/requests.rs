//! Pull and merge requests, and what became of their projects.

use sqlx::{query, query_as, query_scalar};

use super::{Connection, states};
use crate::domain::id::{RunId, SpecId, StateId};
use crate::domain::request::{RequestPhase, RequestRef};
use crate::store::codec;
use crate::store::codec::request::{ApplyColumns, OpenColumns, ProjectColumns, RequestColumns, number};
use crate::store::fault::Fault;
use crate::store::model::{
    ApplyResult, Noted, OpenSpec, PlanOutcome, PlanResult, ProjectRecord, RequestFacts, RequestQuery, StoredRequest,
    StoredSpec,
};
use crate::store::values::Id;
use crate::store::{StoreError, not_found};

/// The columns of [`RequestColumns`], in its order.
macro_rules! columns {
    () => {
        "forge, repository, number, head, base_branch, title, phase, from_fork, merge_commit, created_at, updated_at"
    };
}

pub(super) async fn put(
    db: &mut Connection,
    request: &RequestRef,
    facts: &RequestFacts,
) -> Result<StoredRequest, Fault> {
    query(concat!(
        "INSERT INTO requests (forge, repository, number, head, base_branch, title, phase, from_fork, merge_commit,
                               created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, ",
        now!(),
        ", ",
        now!(),
        ") ON CONFLICT (forge, repository, number) DO UPDATE SET head = excluded.head,
             base_branch = excluded.base_branch, title = excluded.title, phase = excluded.phase,
             from_fork = excluded.from_fork, merge_commit = COALESCE(excluded.merge_commit, requests.merge_commit),
             updated_at = excluded.updated_at
           WHERE requests.phase <> 'merged' OR excluded.phase = 'merged'"
    ))
    .bind(request.forge.word())
    .bind(&request.repository)
    .bind(number(request))
    .bind(codec::plain(&facts.head))
    .bind(codec::plain(&facts.base_branch))
    .bind(codec::plain(&facts.title))
    .bind(facts.phase.word())
    .bind(facts.from_fork)
    .bind(facts.merge_commit.as_deref().map(codec::plain))
    .execute(&mut *db)
    .await?;
    find(db, request).await?.ok_or_else(|| not_found("request", request).into())
}

pub(super) async fn find(db: &mut Connection, request: &RequestRef) -> Result<Option<StoredRequest>, Fault> {
    let found: Option<RequestColumns> =
        query_as(concat!("SELECT ", columns!(), " FROM requests WHERE forge = $1 AND repository = $2 AND number = $3"))
            .bind(request.forge.word())
            .bind(&request.repository)
            .bind(number(request))
            .fetch_optional(db)
            .await?;
    Ok(found.map(codec::request::request).transpose()?)
}

pub(super) async fn list(db: &mut Connection, ask: &RequestQuery) -> Result<Vec<StoredRequest>, Fault> {
    let found: Vec<RequestColumns> = query_as(concat!(
        "SELECT ",
        columns!(),
        " FROM requests WHERE forge = $1 AND repository = $2 AND ($3 IS NULL OR phase = $3)
         ORDER BY updated_at DESC, number DESC LIMIT $4"
    ))
    .bind(ask.forge.word())
    .bind(&ask.repository)
    .bind(ask.phase.map(RequestPhase::word))
    .bind(i64::from(ask.limit))
    .fetch_all(db)
    .await?;
    Ok(found.into_iter().map(codec::request::request).collect::<Result<_, StoreError>>()?)
}

/// Locks the request until the end of the transaction, and looks whether a job for `head` may still say anything about it.
async fn lock(db: &mut Connection, request: &RequestRef, head: &str) -> Result<Noted, Fault> {
    let found: Option<(String, Option<String>)> = query_as(concat!(
        "SELECT head, merge_commit FROM requests WHERE forge = $1 AND repository = $2 AND number = $3",
        lock_row!()
    ))
    .bind(request.forge.word())
    .bind(&request.repository)
    .bind(number(request))
    .fetch_optional(db)
    .await?;
    let (current, merge) = found.ok_or_else(|| not_found("request", request))?;
    if current == head || merge.as_deref() == Some(head) {
        Ok(Noted::Stored)
    } else {
        Ok(Noted::Superseded { head: current })
    }
}

/// Refuses a spec that does not exist or is for another state.
async fn check_spec(db: &mut Connection, spec: SpecId, state: StateId) -> Result<(), Fault> {
    let known: Option<Id> =
        query_scalar("SELECT state_id FROM plan_specs WHERE id = $1").bind(Id(spec.0)).fetch_optional(db).await?;
    let known = known.ok_or_else(|| not_found("spec", spec))?;
    if known.0 == state.0 {
        Ok(())
    } else {
        Err(StoreError::Stale(format!("spec {spec} is not for the state of its project")).into())
    }
}

pub(super) async fn plan_put(db: &mut Connection, request: &RequestRef, result: &PlanResult) -> Result<Noted, Fault> {
    if let superseded @ Noted::Superseded { .. } = lock(db, request, &result.head).await? {
        return Ok(superseded);
    }
    let place = &result.place;
    states::by_id(db, place.state).await?;
    let (status, spec, values, error) = match &result.outcome {
        PlanOutcome::Planned { spec, values } => {
            check_spec(db, *spec, place.state).await?;
            let values = if values.is_empty() { None } else { Some(codec::json(values)?) };
            ("planned", Some(*spec), values, None)
        }
        PlanOutcome::Failed { error } => ("failed", None, None, Some(codec::plain(error))),
        PlanOutcome::Dropped => ("dropped", None, None, None),
    };
    let head = codec::plain(&result.head);
    query(concat!(
        "INSERT INTO request_projects (forge, repository, request, project, dir, workspace, state_id, plan_status,
                                       plan_head, plan_error, plan_values, planned_by, plan_job_url,
                                       spec_id, spec_head, planned_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, ",
        now!(),
        ") ON CONFLICT (forge, repository, request, project) DO UPDATE SET dir = excluded.dir,
             workspace = excluded.workspace, state_id = excluded.state_id, plan_status = excluded.plan_status,
             plan_head = excluded.plan_head, plan_error = excluded.plan_error, plan_values = excluded.plan_values,
             planned_by = excluded.planned_by, plan_job_url = excluded.plan_job_url,
             spec_id = COALESCE(excluded.spec_id, request_projects.spec_id),
             spec_head = COALESCE(excluded.spec_head, request_projects.spec_head), planned_at = excluded.planned_at"
    ))
    .bind(request.forge.word())
    .bind(&request.repository)
    .bind(number(request))
    .bind(codec::plain(&place.project))
    .bind(codec::plain(&place.dir))
    .bind(codec::plain(&place.workspace))
    .bind(Id(place.state.0))
    .bind(status)
    .bind(&head)
    .bind(error)
    .bind(values)
    .bind(codec::plain(&result.actor.0))
    .bind(result.job_url.as_deref().map(codec::plain))
    .bind(spec.map(|spec| Id(spec.0)))
    .bind(spec.map(|_| &head))
    .execute(db)
    .await?;
    Ok(Noted::Stored)
}

pub(super) async fn drop_others(
    db: &mut Connection,
    request: &RequestRef,
    head: &str,
    affected: &[String],
) -> Result<Noted, Fault> {
    if let superseded @ Noted::Superseded { .. } = lock(db, request, head).await? {
        return Ok(superseded);
    }
    let known: Vec<String> = query_scalar(
        "SELECT project FROM request_projects
         WHERE forge = $1 AND repository = $2 AND request = $3 AND (plan_status IS NULL OR plan_status <> 'dropped')",
    )
    .bind(request.forge.word())
    .bind(&request.repository)
    .bind(number(request))
    .fetch_all(&mut *db)
    .await?;
    for project in known.iter().filter(|project| !affected.contains(project)) {
        query(concat!(
            "UPDATE request_projects SET plan_status = 'dropped', plan_head = $5, plan_error = NULL,
                    plan_values = NULL, planned_at = ",
            now!(),
            " WHERE forge = $1 AND repository = $2 AND request = $3 AND project = $4"
        ))
        .bind(request.forge.word())
        .bind(&request.repository)
        .bind(number(request))
        .bind(project)
        .bind(codec::plain(head))
        .execute(&mut *db)
        .await?;
    }
    Ok(Noted::Stored)
}

/// Refuses a run that does not exist.
async fn check_run(db: &mut Connection, run: RunId) -> Result<(), Fault> {
    let known: Option<Id> =
        query_scalar("SELECT id FROM runs WHERE id = $1").bind(Id(run.0)).fetch_optional(db).await?;
    known.map(drop).ok_or_else(|| not_found("run", run).into())
}

pub(super) async fn apply_put(db: &mut Connection, request: &RequestRef, result: &ApplyResult) -> Result<(), Fault> {
    // Looked up one by one, because a violated foreign key does not say what is missing.
    find(db, request).await?.ok_or_else(|| not_found("request", request))?;
    states::by_id(db, result.place.state).await?;
    if let Some(run) = result.run {
        check_run(db, run).await?;
    }
    let place = &result.place;
    let next: Vec<String> = result.next.iter().map(|sentence| codec::plain(sentence)).collect();
    query(concat!(
        "INSERT INTO request_projects (forge, repository, request, project, dir, workspace, state_id, run_id,
                                       apply_error, apply_next, apply_job_url, applied_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, ",
        now!(),
        ") ON CONFLICT (forge, repository, request, project) DO UPDATE SET dir = excluded.dir,
             workspace = excluded.workspace, state_id = excluded.state_id, run_id = excluded.run_id,
             apply_error = excluded.apply_error, apply_next = excluded.apply_next,
             apply_job_url = excluded.apply_job_url,
             applied_at = excluded.applied_at"
    ))
    .bind(request.forge.word())
    .bind(&request.repository)
    .bind(number(request))
    .bind(codec::plain(&place.project))
    .bind(codec::plain(&place.dir))
    .bind(codec::plain(&place.workspace))
    .bind(Id(place.state.0))
    .bind(result.run.map(|run| Id(run.0)))
    .bind(result.error.as_deref().map(codec::plain))
    .bind(codec::json(&next)?)
    .bind(result.job_url.as_deref().map(codec::plain))
    .execute(db)
    .await?;
    Ok(())
}

pub(super) async fn projects(db: &mut Connection, request: &RequestRef) -> Result<Vec<ProjectRecord>, Fault> {
    let plans: Vec<ProjectColumns> = query_as(
        "SELECT p.project, p.dir, p.workspace, p.state_id, s.name, p.plan_status, p.plan_head, p.plan_error,
                p.plan_values, p.planned_by, p.plan_job_url, p.planned_at, p.spec_id, p.spec_head
         FROM request_projects p JOIN states s ON s.id = p.state_id
         WHERE p.forge = $1 AND p.repository = $2 AND p.request = $3 ORDER BY p.project",
    )
    .bind(request.forge.word())
    .bind(&request.repository)
    .bind(number(request))
    .fetch_all(&mut *db)
    .await?;
    // A row of all columns is longer than sqlx reads at once.
    let applies: Vec<ApplyColumns> = query_as(
        "SELECT run_id, apply_error, apply_next, apply_job_url, applied_at FROM request_projects
         WHERE forge = $1 AND repository = $2 AND request = $3 ORDER BY project",
    )
    .bind(request.forge.word())
    .bind(&request.repository)
    .bind(number(request))
    .fetch_all(db)
    .await?;
    let both = plans.into_iter().zip(applies);
    Ok(both.map(|(plan, apply)| codec::request::project(plan, apply)).collect::<Result<_, StoreError>>()?)
}

pub(super) async fn spec(
    db: &mut Connection,
    request: &RequestRef,
    project: &str,
) -> Result<Option<(StoredSpec, String)>, Fault> {
    let found: Option<(Id, String)> = query_as(
        "SELECT spec_id, spec_head FROM request_projects
         WHERE forge = $1 AND repository = $2 AND request = $3 AND project = $4 AND spec_id IS NOT NULL",
    )
    .bind(request.forge.word())
    .bind(&request.repository)
    .bind(number(request))
    .bind(project)
    .fetch_optional(&mut *db)
    .await?;
    match found {
        None => Ok(None),
        Some((id, head)) => Ok(Some((super::runs::spec_find(db, SpecId(id.0)).await?, head))),
    }
}

pub(super) async fn open_specs(db: &mut Connection, state: StateId, limit: u32) -> Result<Vec<OpenSpec>, Fault> {
    states::by_id(db, state).await?;
    let found: Vec<OpenColumns> = query_as(
        "SELECT r.forge, r.repository, r.number, r.title, r.phase, r.head, p.project, p.spec_head,
                s.id, s.state_id, s.source_serial, s.actor, s.origin, s.digest, s.document, s.created_at
         FROM request_projects p
         JOIN requests r ON r.forge = p.forge AND r.repository = p.repository AND r.number = p.request
         JOIN plan_specs s ON s.id = p.spec_id AND s.state_id = p.state_id
         WHERE p.state_id = $1 AND p.spec_id IS NOT NULL AND p.plan_status <> 'dropped'
           AND r.phase IN ('open', 'merged')
           AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.spec_id = p.spec_id AND runs.kind = 'apply'
                             AND runs.status IN ('committed', 'noop'))
         ORDER BY p.planned_at DESC, r.number DESC, p.project LIMIT $2",
    )
    .bind(Id(state.0))
    .bind(i64::from(limit))
    .fetch_all(db)
    .await?;
    Ok(found.into_iter().map(codec::request::open_spec).collect::<Result<_, StoreError>>()?)
}
