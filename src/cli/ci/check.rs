//! `kl ci check`: whether what waits in a merge queue could be applied now, without applying it.

use std::sync::Arc;

use super::comment;
use super::job::Job;
use super::outcome::{self, Outcome, Word};
use super::publish::{self, Group, Told};
use super::requests::{Changed, remember};
use crate::config::catalog::Listed;
use crate::config::event::CiEvent;
use crate::config::policy::{MissingSpec, OnStale};
use crate::domain::request::RequestRef;
use crate::error::KlError;
use crate::exit::Exit;
use crate::forge::Push;
use crate::pipeline::request::{Validity, validity};
use crate::pipeline::stale;
use crate::report::conflict;
use crate::store::Store;

/// Runs the command.
pub(super) async fn run(job: &Job<'_>) -> Result<Exit, KlError> {
    let (requests, commit) = match job.event()? {
        Some(CiEvent::Request(event)) => (vec![event.number], Some(event.head.clone())),
        Some(CiEvent::MergeTrain(event)) => (vec![event.number], job.ci.checkout.clone()),
        Some(CiEvent::MergeGroup(group)) => {
            let push =
                Push { branch: group.base_branch.clone(), before: group.base.clone(), after: group.head.clone() };
            (of_group(job, &push, &group.requests).await, Some(group.head.clone()))
        }
        event => {
            let what = event.map_or_else(|| "there is none".to_owned(), CiEvent::describe);
            return Err(KlError::usage(format!(
                "`kl ci check` acts on requests and merge queues, not on this: {what}"
            )));
        }
    };
    let store = job.store().await?;
    let mut outcomes = Vec::new();
    let mut comment_url = None;
    for number in requests {
        let request = job.request(number)?;
        let info = job.forge()?.request(number).await?;
        remember(&*store, &request, &info).await?;
        let projects = Changed::by_request(job, number).await?.projects(job);
        for listed in projects.into_iter().filter(|listed| job.wants(listed)) {
            let group = Group::open(job, &listed.name);
            let outcome =
                one(&store, &request, listed).await.unwrap_or_else(|error| Outcome::failed(&listed.name, error));
            let outcome = Outcome { request: Some(request.clone()), ..outcome };
            match &outcome.error {
                Some(error) => job.session.out.error_text(error),
                None => job.session.out.say(&format!("{}: {}", listed.name, outcome.word.text())),
            }
            drop(group);
            outcomes.push(outcome);
        }
        // The last look before the merge: what has changed since the plan, and what is reserved now.
        comment_url = comment::post(job, &*store, &request, &[]).await.or(comment_url);
    }
    if outcomes.is_empty() {
        return Ok(publish::nothing(job, "no project is concerned"));
    }
    let told = Told { commit, store: Some(store), comment_url, ..Told::default() };
    publish::check(job, &outcomes, &told).await;
    Ok(outcome::exit(&outcomes))
}

/// The requests of a group: those that its commits belong to, and the one that its branch names.
async fn of_group(job: &Job<'_>, push: &Push, named: &[u64]) -> Vec<u64> {
    let mut found: Vec<u64> = match job.forge() {
        Ok(forge) => match forge.grouped_in(push).await {
            Ok(requests) => requests.into_iter().map(|info| info.number).collect(),
            Err(error) => {
                job.warn(&format!("{error}; only the request that the queue's branch names is looked at"));
                Vec::new()
            }
        },
        Err(_) => Vec::new(),
    };
    found.extend(named);
    found.sort_unstable();
    found.dedup();
    found
}

async fn one(store: &Arc<dyn Store>, request: &RequestRef, listed: &Listed) -> Result<Outcome, KlError> {
    let policies = listed.settings.policies;
    let Some(Validity { spec, since, in_the_way }) = validity(&**store, request, &listed.name).await? else {
        if policies.missing_spec == MissingSpec::Plan {
            return Ok(Outcome::new(&listed.name, Word::Missing));
        }
        let error = KlError::new(
            Exit::Stale,
            format!("there is no reviewed plan of project {} in {}", listed.name, request.short()),
        );
        return Ok(Outcome {
            word: Word::Missing,
            ..Outcome::failed(&listed.name, error.hint("let `kl ci plan` run first"))
        });
    };
    if !spec.has_changes() {
        return Ok(Outcome { spec: Some(spec), ..Outcome::new(&listed.name, Word::NoChanges) });
    }
    if !since.fresh() && policies.on_stale == OnStale::Refuse {
        return Ok(Outcome { spec: Some(spec), ..Outcome::failed(&listed.name, stale::refusal(&since)) });
    }
    if !in_the_way.is_empty() {
        let title = conflict::title(&in_the_way);
        let error = KlError::new(Exit::Conflict, format!("{title}\n{}", conflict::text(&in_the_way).trim_end()));
        let error = conflict::hints(&in_the_way).into_iter().fold(error, KlError::hint);
        return Ok(Outcome { spec: Some(spec), conflict: Some(title), ..Outcome::failed(&listed.name, error) });
    }
    Ok(Outcome { spec: Some(spec), ..Outcome::new(&listed.name, Word::Ready) })
}
