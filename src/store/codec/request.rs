//! Requests, their projects and their comments, between columns and values.

use super::{SpecColumns, corrupt, from_json, spec};
use crate::domain::id::{Actor, RunId, SpecId, StateId, StateName};
use crate::domain::request::{ForgeKind, RequestPhase, RequestRef};
use crate::store::StoreError;
use crate::store::model::{
    ApplyRecord, OpenSpec, PlanOutcome, PlanRecord, PostedComment, ProjectPlace, ProjectRecord, RequestFacts, SpecAt,
    StoredRequest,
};
use crate::store::values::{Id, JsonText, Time};

/// `forge, repository, number, head, base_branch, title, phase, from_fork, merge_commit, created_at, updated_at` of a
/// request.
pub(in crate::store) type RequestColumns =
    (String, String, i64, String, String, String, String, bool, Option<String>, Time, Time);

/// `project, dir, workspace, state_id, name, plan_status, plan_head, plan_error, plan_values, planned_by, plan_job_url,
/// planned_at, spec_id, spec_head` of a project of a request.
pub(in crate::store) type ProjectColumns = (
    String,
    String,
    String,
    Id,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<JsonText>,
    Option<String>,
    Option<String>,
    Option<Time>,
    Option<Id>,
    Option<String>,
);

/// `run_id, apply_error, apply_next, apply_job_url, applied_at` of the same.
pub(in crate::store) type ApplyColumns = (Option<Id>, Option<String>, Option<JsonText>, Option<String>, Option<Time>);

/// `forge, repository, number, title, phase, head, project, spec_head` of an open spec; then [`SpecColumns`].
pub(in crate::store) type OpenColumns =
    (String, String, i64, String, String, String, String, String, Id, Id, i64, String, JsonText, String, String, Time);

/// A request's number as a column. Forges count far below the end of it.
pub(in crate::store) fn number(request: &RequestRef) -> i64 {
    i64::try_from(request.number).unwrap_or(i64::MAX)
}

fn reference(forge: &str, repository: String, number: i64) -> Result<RequestRef, StoreError> {
    Ok(RequestRef {
        forge: ForgeKind::from_word(forge).ok_or_else(|| corrupt("a forge", forge))?,
        repository,
        number: u64::try_from(number).map_err(|error| corrupt("a request's number", error))?,
    })
}

fn phase(word: &str) -> Result<RequestPhase, StoreError> {
    RequestPhase::from_word(word).ok_or_else(|| corrupt("a request's phase", word))
}

pub(in crate::store) fn request(columns: RequestColumns) -> Result<StoredRequest, StoreError> {
    let (forge, repository, number, head, base_branch, title, word, from_fork, merge_commit, created, updated) =
        columns;
    Ok(StoredRequest {
        request: reference(&forge, repository, number)?,
        facts: RequestFacts { head, base_branch, title, phase: phase(&word)?, from_fork, merge_commit },
        created_at: created.0,
        updated_at: updated.0,
    })
}

pub(in crate::store) fn project(plan: ProjectColumns, apply: ApplyColumns) -> Result<ProjectRecord, StoreError> {
    let (project, dir, workspace, state, name, status, head, error, values, by, job_url, at, spec, spec_head) = plan;
    let newest_spec = spec.zip(spec_head).map(|(spec, head)| SpecAt { spec: SpecId(spec.0), head });
    let plan = match (status, head, at) {
        (Some(status), Some(head), Some(at)) => {
            let outcome = match (status.as_str(), &newest_spec) {
                ("planned", Some(newest)) => PlanOutcome::Planned {
                    spec: newest.spec,
                    values: values.as_ref().map(from_json).transpose()?.unwrap_or_default(),
                },
                ("failed", _) => PlanOutcome::Failed { error: error.unwrap_or_default() },
                ("dropped", _) => PlanOutcome::Dropped,
                _ => return Err(corrupt("the status of a plan", status)),
            };
            Some(PlanRecord { outcome, head, actor: by.map(Actor), job_url, at: at.0 })
        }
        _ => None,
    };
    Ok(ProjectRecord {
        place: ProjectPlace { project, dir, workspace, state: StateId(state.0) },
        state_name: StateName::new(name).map_err(|error| corrupt("a state", error))?,
        plan,
        newest_spec,
        apply: self::apply(apply)?,
    })
}

fn apply((run, error, next, job_url, at): ApplyColumns) -> Result<Option<ApplyRecord>, StoreError> {
    let Some(at) = at else {
        return Ok(None);
    };
    Ok(Some(ApplyRecord {
        run: run.map(|id| RunId(id.0)),
        error,
        next: next.as_ref().map(from_json).transpose()?.unwrap_or_default(),
        job_url,
        at: at.0,
    }))
}

pub(in crate::store) fn open_spec(columns: OpenColumns) -> Result<OpenSpec, StoreError> {
    let (
        forge,
        repository,
        number,
        title,
        word,
        head,
        project,
        spec_head,
        id,
        state,
        serial,
        actor,
        origin,
        d,
        doc,
        at,
    ) = columns;
    let stored: SpecColumns = (id, state, serial, actor, origin, d, doc, at);
    Ok(OpenSpec {
        request: reference(&forge, repository, number)?,
        title,
        phase: phase(&word)?,
        head,
        project,
        spec_head,
        spec: spec(stored)?,
    })
}

/// Reads `comment_id, url, digest`; none before the comment was posted.
pub(in crate::store) fn posted(
    (id, url, digest): (Option<String>, Option<String>, Option<String>),
) -> Option<PostedComment> {
    Some(PostedComment { id: id?, url, digest: digest? })
}
