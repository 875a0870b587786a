//! The sticky comment: rendered whole from the database under a lock, by whichever job has something new.

use std::time::Duration;

use uuid::Uuid;

use super::job::Job;
use crate::clock;
use crate::domain::digest::sha256;
use crate::domain::id::RunId;
use crate::domain::plan::spec::PlanSpec;
use crate::domain::request::RequestRef;
use crate::domain::run::event::RunEvent;
use crate::error::KlError;
use crate::forge::{Forge, comment_marker};
use crate::pipeline::request;
use crate::report::comment;
use crate::store::model::{CommentLock, PostedComment};
use crate::store::{Store, StoreError};

/// How long the lock outlives a job that died, and how often one that lives renews it.
const LOCK: Duration = Duration::from_secs(45);
const RENEWAL: Duration = Duration::from_secs(15);

/// How long a job waits for others that render. They may have read the database before our news, so waiting is worth
/// it; giving up is no loss, because the next job's comment has everything.
const PATIENCE: Duration = Duration::from_mins(5);

/// How often to look whether the other one is done.
const PAUSE: Duration = Duration::from_millis(300);

/// Renders and posts; gives the comment's page. A comment that cannot be posted is a warning, and stands on the timeline of
/// the runs that it would have told of: it never changes how the job ends.
pub(super) async fn post(job: &Job<'_>, store: &dyn Store, request: &RequestRef, runs: &[RunId]) -> Option<String> {
    let forge = job.forge.as_deref()?;
    let why = match tokio::time::timeout(PATIENCE, in_turn(job, store, forge, request)).await {
        Ok(Ok(url)) => return url,
        Ok(Err(error)) => error.message().to_owned(),
        Err(_) => "other jobs have been writing it for too long".to_owned(),
    };
    job.warn(&format!("the comment on {} was not updated: {why}", request.short()));
    let what = format!("the comment on {}", request.short());
    untold(store, runs, &what, &why).await;
    None
}

/// Puts on the timeline of runs that the forge did not take what was to be told of them. A store that does not take this
/// either changes nothing.
pub(super) async fn untold(store: &dyn Store, runs: &[RunId], what: &str, reason: &str) {
    for run in runs {
        let event = RunEvent::ForgeUnreachable { what: what.to_owned(), reason: reason.to_owned() };
        drop(store.event_append(*run, &[event]).await);
    }
}

/// So many other requests learn of a plan or an apply at once; the others do with their next job.
const MAX_NEIGHBOURS: usize = 8;

/// Renders the comments of other requests that these specs are near to: each sees the other in its forecast. Only where
/// kl has commented already.
pub(super) async fn tell_neighbours(
    job: &Job<'_>,
    store: &dyn Store,
    request: &RequestRef,
    specs: &[&PlanSpec],
    all: bool,
) {
    let near = match request::neighbours(store, request, specs, all).await {
        Ok(near) => near,
        Err(error) => return job.warn(&format!("other requests were not told: {}", error.message())),
    };
    for other in near.into_iter().take(MAX_NEIGHBOURS) {
        if matches!(store.comment_find(&other).await, Ok(Some(_))) {
            drop(post(job, store, &other, &[]).await);
        }
    }
}

async fn in_turn(
    job: &Job<'_>,
    store: &dyn Store,
    forge: &dyn Forge,
    request: &RequestRef,
) -> Result<Option<String>, KlError> {
    let owner = clock::new_lock_owner();
    loop {
        let posted = match store.comment_lock(request, owner, LOCK).await? {
            CommentLock::Granted { posted, .. } => posted,
            CommentLock::Busy { remaining, .. } => {
                tokio::time::sleep(PAUSE.min(remaining)).await;
                continue;
            }
        };
        let written = tokio::select! {
            written = write(job, store, forge, request, posted) => written,
            error = keep(store, request, owner) => Err(error),
        };
        let saved = match written {
            Ok(Some(posted)) => {
                let url = posted.url.clone();
                store.comment_save(request, owner, &posted).await.map(|()| url)
            }
            Ok(None) => Ok(None),
            Err(error) => {
                drop(store.comment_unlock(request, owner).await);
                return Err(error);
            }
        };
        drop(store.comment_unlock(request, owner).await);
        match saved {
            Ok(url) => return Ok(url),
            // Somebody else may have posted over ours: what stands there has to be looked at again.
            Err(StoreError::CommentLockLost { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Renews the lock until it cannot.
async fn keep(store: &dyn Store, request: &RequestRef, owner: Uuid) -> KlError {
    loop {
        tokio::time::sleep(RENEWAL).await;
        match store.comment_lock(request, owner, LOCK).await {
            Ok(CommentLock::Granted { .. }) => {}
            Ok(CommentLock::Busy { .. }) => return KlError::failed("another job writes it by now"),
            Err(error) => return error.into(),
        }
    }
}

async fn write(
    job: &Job<'_>,
    store: &dyn Store,
    forge: &dyn Forge,
    request: &RequestRef,
    posted: Option<PostedComment>,
) -> Result<Option<PostedComment>, KlError> {
    let Some(view) = request::view(store, request, job.server_url()).await? else {
        return Ok(None);
    };
    // Most requests of a repository have nothing to do with kl, and are left in peace.
    if view.projects.is_empty() && posted.is_none() {
        return Ok(None);
    }
    let text = comment::comment(&view, request.forge);
    let digest = sha256(&text);
    if posted.as_ref().is_some_and(|posted| posted.digest == digest) {
        return Ok(posted);
    }
    let marker = comment_marker("");
    let body = format!("{marker}\n{text}");
    let known = posted.as_ref().map(|posted| posted.id.as_str());
    let comment = forge.comment_put(request.number, known, &marker, &body).await?;
    Ok(Some(PostedComment { id: comment.id, url: comment.url, digest }))
}
