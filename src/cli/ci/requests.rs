//! What the forge says of requests, and what of it is remembered.

use super::job::{Job, changes};
use crate::config::affected::Change;
use crate::config::catalog::Listed;
use crate::domain::coordination::forecast::ForecastRelation;
use crate::domain::request::RequestRef;
use crate::error::KlError;
use crate::forge::{ForgeError, Push, RequestInfo};
use crate::pipeline::request;
use crate::report::view::PlanView;
use crate::store::Store;
use crate::store::model::{RequestFacts, StoredRequest};

/// Puts down what the forge says of a request.
pub(super) async fn remember(
    store: &dyn Store,
    request: &RequestRef,
    info: &RequestInfo,
) -> Result<StoredRequest, KlError> {
    let facts = RequestFacts {
        head: info.head.clone(),
        base_branch: info.base_branch.clone(),
        title: info.title.clone(),
        phase: info.phase,
        from_fork: info.from_fork,
        merge_commit: info.merge_commit.clone(),
    };
    Ok(store.request_put(request, &facts).await?)
}

/// So many other requests are asked after.
const MAX_ASKED: usize = 10;

/// Asks after the other requests that a forecast names as in the way: one may have been closed without any job to say so.
pub(super) async fn freshen(job: &Job<'_>, store: &dyn Store, request: &RequestRef) {
    let Some(forge) = job.forge.as_deref() else { return };
    let Ok(Some(view)) = request::view(store, request, None).await else { return };
    let mut near: Vec<RequestRef> = Vec::new();
    for project in &view.projects {
        if let PlanView::Planned(planned) = &project.plan {
            let meets = planned.forecast.iter().filter(|other| other.relation != ForecastRelation::Independent);
            near.extend(meets.map(|other| other.request.clone()));
        }
    }
    near.sort();
    near.dedup();
    let here = |other: &&RequestRef| other.forge == request.forge && other.repository == request.repository;
    for other in near.iter().filter(here).take(MAX_ASKED) {
        // Old news are better than none: the forecast is a courtesy.
        if let Ok(info) = forge.request(other.number).await {
            drop(remember(store, other, &info).await);
        }
    }
}

/// Which files changed, or that nobody can say.
pub(super) enum Changed {
    /// These.
    Files(Vec<Change>),
    /// The forge cannot tell all of them: every project may be concerned.
    Anything,
}

impl Changed {
    /// The files of a request.
    pub(super) async fn by_request(job: &Job<'_>, number: u64) -> Result<Self, KlError> {
        Self::told(job, job.forge()?.request_files(number).await)
    }

    /// The files of a push.
    pub(super) async fn by_push(job: &Job<'_>, push: &Push) -> Result<Self, KlError> {
        if push.before.is_none() {
            return Ok(Self::Anything);
        }
        Self::told(job, job.forge()?.push_files(push).await)
    }

    fn told(job: &Job<'_>, files: Result<Vec<crate::forge::ChangedFile>, ForgeError>) -> Result<Self, KlError> {
        match files {
            Ok(files) => Ok(Self::Files(changes(files))),
            Err(error @ ForgeError::Incomplete { .. }) => {
                job.warn(&format!("{error}; every project counts as changed"));
                Ok(Self::Anything)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The projects that are concerned, each after those that it depends on.
    pub(super) fn projects<'j>(&self, job: &'j Job<'_>) -> Vec<&'j Listed> {
        match self {
            Self::Files(files) => job.affected(files),
            Self::Anything => job.catalog.projects.iter().collect(),
        }
    }
}
