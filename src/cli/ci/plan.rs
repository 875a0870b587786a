//! `kl ci plan`: plans what a request changes, and tells the request.

use camino::Utf8PathBuf;

use super::job::Job;
use super::outcome::{self, Outcome, Word};
use super::publish::{self, Told, UNTRUSTED};
use super::requests::{Changed, freshen, remember};
use super::{comment, publish::Group};
use crate::cli::args::ci::CiPlanArgs;
use crate::cli::git;
use crate::cli::plan::write as write_spec;
use crate::config::catalog::Listed;
use crate::config::event::{CiEvent, RequestAction, RequestEvent};
use crate::domain::plan::spec::Scope;
use crate::domain::request::{RequestPhase, RequestRef};
use crate::error::KlError;
use crate::exit::Exit;
use crate::forge::{Push, RequestInfo};
use crate::pipeline::{Rules, preflight};
use crate::store::model::{Noted, PlanOutcome, PlanResult};
use crate::store::{Memory, Store};

/// What is planned, and for whom.
struct Task<'j> {
    projects: Vec<&'j Listed>,
    /// The request that the specs belong to; none outside requests.
    request: Option<(RequestRef, RequestInfo)>,
    /// The commit that checks belong to.
    commit: Option<String>,
}

/// Runs the command.
pub(super) async fn run(job: &Job<'_>, args: &CiPlanArgs) -> Result<Exit, KlError> {
    let task = match job.event()? {
        Some(CiEvent::Request(event)) => {
            if event.privileged {
                return Err(KlError::usage("this job has the repository's secrets and runs a request's own code")
                    .hint("use the event pull_request, and not pull_request_target, for `kl ci plan`"));
            }
            if event.from_fork && !job.names_database() {
                return without_memory(job, event, args).await;
            }
            match event.action {
                RequestAction::Merged | RequestAction::Closed => return over(job, event).await,
                RequestAction::Opened | RequestAction::Synchronized | RequestAction::Other => {}
            }
            of_request(job, event).await?
        }
        Some(CiEvent::MergeGroup(group)) => {
            let push =
                Push { branch: group.base_branch.clone(), before: group.base.clone(), after: group.head.clone() };
            let projects = Changed::by_push(job, &push).await?.projects(job);
            Task { projects, request: None, commit: Some(group.head.clone()) }
        }
        Some(CiEvent::MergeTrain(event)) => {
            let projects = Changed::by_request(job, event.number).await?.projects(job);
            Task { projects, request: None, commit: job.ci.checkout.clone() }
        }
        Some(CiEvent::Push(push)) => match (&push.before, &push.after) {
            (_, None) => return Ok(publish::nothing(job, &format!("the branch {} is gone", push.branch))),
            (before, Some(after)) => {
                let push = Push { branch: push.branch.clone(), before: before.clone(), after: after.clone() };
                let changed = if job.forge.is_some() { Changed::by_push(job, &push).await? } else { Changed::Anything };
                Task { projects: changed.projects(job), request: None, commit: Some(push.after) }
            }
        },
        Some(CiEvent::Manual | CiEvent::Schedule) | None => {
            Task { projects: job.catalog.projects.iter().collect(), request: None, commit: None }
        }
        Some(CiEvent::Comment(comment)) if !comment.trusted => {
            return Ok(publish::nothing(job, UNTRUSTED));
        }
        Some(CiEvent::Comment(comment)) => by_comment(job, comment.request).await?,
        Some(event @ CiEvent::Unknown { .. }) => {
            return Err(KlError::usage(format!("`kl ci plan` does not act on this event: {}", event.describe()))
                .hint("run it on pull requests, merge queues, pushes, schedules, or by hand"));
        }
    };
    plan_all(job, task, args).await
}

/// The projects that a request changes.
async fn of_request<'j>(job: &'j Job<'_>, event: &RequestEvent) -> Result<Task<'j>, KlError> {
    let request = job.request(event.number)?;
    let info = match job.forge()?.request(event.number).await {
        Ok(info) => info,
        Err(error) => {
            job.warn(&format!("{error}; going on with what the event says"));
            described(event)
        }
    };
    if info.head != event.head {
        job.warn(&format!(
            "{} has a newer commit by now ({}); this plan is for {}",
            request.short(),
            short(&info.head),
            short(&event.head)
        ));
    }
    let changed = match Changed::by_request(job, event.number).await {
        Ok(changed) => changed,
        Err(error) => {
            job.warn(&format!("{}; every project counts as changed", error.message()));
            Changed::Anything
        }
    };
    Ok(Task { projects: changed.projects(job), request: Some((request, info)), commit: Some(event.head.clone()) })
}

/// The projects of a request that somebody whom the repository trusts asks for in a comment. Such a job has the
/// repository's secrets, and starts with the default branch checked out.
async fn by_comment<'j>(job: &'j Job<'_>, number: u64) -> Result<Task<'j>, KlError> {
    let request = job.request(number)?;
    let info = job.forge()?.request(number).await?;
    if info.from_fork {
        return Err(KlError::usage(format!(
            "{} comes from a fork, and a job on a comment has the repository's secrets: its code does not run here",
            request.short()
        ))
        .hint("let its own pull_request job plan it, or bring its branch into this repository"));
    }
    let checked_out = git::head(&job.place.root, &job.session.env).await;
    if checked_out.as_ref() != Some(&info.head) {
        return Err(KlError::usage(format!(
            "{} is at commit {}, and this is a checkout of {}",
            request.short(),
            info.head,
            checked_out.as_deref().unwrap_or("no commit")
        ))
        .hint(format!("check out refs/pull/{number}/head: a job on a comment begins with the default branch")));
    }
    let projects = Changed::by_request(job, number).await?.projects(job);
    let commit = Some(info.head.clone());
    Ok(Task { projects, request: Some((request, info)), commit })
}

/// A request as its event has it, where the forge cannot be asked.
fn described(event: &RequestEvent) -> RequestInfo {
    RequestInfo {
        number: event.number,
        title: String::new(),
        head: event.head.clone(),
        base_branch: event.base_branch.clone(),
        phase: match event.action {
            RequestAction::Merged => RequestPhase::Merged,
            RequestAction::Closed => RequestPhase::Closed,
            RequestAction::Opened | RequestAction::Synchronized | RequestAction::Other => RequestPhase::Open,
        },
        from_fork: event.from_fork,
        merge_commit: event.merge_commit.clone(),
    }
}

/// A request that was merged or closed: nothing is planned, but it is no longer in anybody's way.
async fn over(job: &Job<'_>, event: &RequestEvent) -> Result<Exit, KlError> {
    let request = job.request(event.number)?;
    let store = job.store().await?;
    let info = match job.forge()?.request(event.number).await {
        Ok(info) => info,
        Err(_) => described(event),
    };
    remember(&*store, &request, &info).await?;
    comment::post(job, &*store, &request, &[]).await;
    Ok(publish::nothing(job, &format!("{} is {}", request.short(), info.phase.word())))
}

/// A request of a fork, in a job without secrets: its plan is made without the state and told to the job's summary alone.
async fn without_memory(job: &Job<'_>, event: &RequestEvent, args: &CiPlanArgs) -> Result<Exit, KlError> {
    let changed = Changed::by_request(job, event.number).await.unwrap_or(Changed::Anything);
    let dir =
        tempfile::tempdir().map_err(|error| KlError::usage("a temporary directory cannot be made").because(error))?;
    let path = Utf8PathBuf::from_path_buf(dir.path().join("kl.db"))
        .map_err(|path| KlError::usage(format!("the temporary directory {} has an odd name", path.display())))?;
    job.warn("a request of a fork has no database: the plan is made as if nothing existed yet, and is not kept");
    let mut outcomes = Vec::new();
    for listed in changed.projects(job).into_iter().filter(|listed| job.wants(listed)) {
        let group = Group::open(job, &listed.name);
        let url = path
            .as_str()
            .parse()
            .map_err(|error| KlError::usage(format!("a temporary database cannot be made in {path}")).because(error))?;
        let outcome = match planned(job, listed, Memory::New(url), None, Some(&event.head)).await {
            Ok((planned, _)) => kept(job, listed, planned),
            Err(error) => Outcome::failed(&listed.name, error),
        };
        drop(group);
        outcomes.push(outcome);
    }
    let told = Told { fork: true, ..Told::default() };
    publish::plan(job, &outcomes, &told, args.report.as_deref()).await;
    // Without credentials, a plan that fails says little about the change.
    Ok(Exit::Done)
}

async fn plan_all(job: &Job<'_>, task: Task<'_>, args: &CiPlanArgs) -> Result<Exit, KlError> {
    let request = task.request.as_ref().map(|(request, _)| request);
    let mut told = Told { commit: task.commit.clone(), ..Told::default() };
    let mut outcomes = Vec::new();
    if let Some((request, info)) = &task.request {
        // Whether there is something to plan or not, the request is one that others may have to look at.
        if let Memory::Open(store) = job.memory().await? {
            remember(&*store, request, info).await?;
        }
    }
    for listed in task.projects.iter().copied().filter(|listed| job.wants(listed)) {
        let group = Group::open(job, &listed.name);
        let memory = job.memory().await?;
        let outcome = match planned(job, listed, memory, request, task.commit.as_deref()).await {
            Ok((planned, store)) => {
                told.store = Some(store);
                kept(job, listed, planned)
            }
            Err(error) => {
                job.session.out.error_text(&error);
                Outcome::failed(&listed.name, error)
            }
        };
        drop(group);
        outcomes.push(Outcome { request: request.cloned(), ..outcome });
    }
    if told.store.is_none() {
        told.store = match job.memory().await? {
            Memory::Open(store) => Some(store),
            Memory::New(_) if request.is_some() && !outcomes.is_empty() => Some(job.memory().await?.store().await?),
            Memory::New(_) => None,
        };
    }
    if let (Some((request, info)), Some(store)) = (&task.request, &told.store) {
        remember(&**store, request, info).await?;
        for (outcome, listed) in outcomes.iter().zip(task.projects.iter().filter(|listed| job.wants(listed))) {
            note(job, &**store, request, task.commit.as_deref().unwrap_or(&info.head), listed, outcome).await?;
        }
        let affected: Vec<String> = task.projects.iter().map(|listed| listed.name.clone()).collect();
        if let Noted::Superseded { head } =
            store.project_drop(request, task.commit.as_deref().unwrap_or(&info.head), &affected).await?
        {
            job.warn(&format!("{} has another head by now: {}", request.short(), short(&head)));
        }
        freshen(job, &**store, request).await;
        told.comment_url = comment::post(job, &**store, request, &[]).await;
        let specs: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.spec.as_ref()).collect();
        comment::tell_neighbours(job, &**store, request, &specs, true).await;
    }
    publish::plan(job, &outcomes, &told, args.report.as_deref()).await;
    Ok(outcome::exit(&outcomes))
}

/// Plans one project.
async fn planned(
    job: &Job<'_>,
    listed: &Listed,
    memory: Memory,
    request: Option<&RequestRef>,
    commit: Option<&str>,
) -> Result<(preflight::Planned, std::sync::Arc<dyn Store>), KlError> {
    let project = job.project(listed).await?;
    let rules = Rules::from(listed.settings.policies);
    let caller = job.caller(request, commit);
    let (planned, ctx) = preflight::plan(&caller, memory, &project, Scope::default(), &rules).await?;
    for warning in &planned.warnings {
        job.warn(warning);
    }
    if let Err(refusal) = rules.check_destroy(&planned.spec) {
        job.warn(&format!("{}; the apply will refuse it", refusal.message()));
    }
    job.session.out.say(&crate::report::plan::summary(&planned.spec));
    Ok((planned, ctx.store))
}

/// Writes the spec where the job's artifacts can take it from.
fn kept(job: &Job<'_>, listed: &Listed, planned: preflight::Planned) -> Outcome {
    let word = if planned.spec.has_changes() { Word::Planned } else { Word::NoChanges };
    let mut outcome = Outcome { values: planned.values, ..Outcome::new(&listed.name, word) };
    match publish::plan_file(job, &listed.name).and_then(|path| write_spec(&path, &planned.spec).map(|()| path)) {
        Ok(path) => outcome.plan_file = Some(path.into_string()),
        // The database has it.
        Err(error) => job.warn(&error.chain()),
    }
    outcome.spec = Some(planned.spec);
    outcome
}

/// Puts down what became of a project in a request.
async fn note(
    job: &Job<'_>,
    store: &dyn Store,
    request: &RequestRef,
    head: &str,
    listed: &Listed,
    outcome: &Outcome,
) -> Result<(), KlError> {
    let state = store.state_ensure(&listed.state).await?.id;
    let result = PlanResult {
        place: Job::remembered(listed, state),
        head: head.to_owned(),
        outcome: match (&outcome.spec, &outcome.error) {
            (Some(spec), _) => PlanOutcome::Planned { spec: spec.id, values: outcome.values.clone() },
            (None, error) => PlanOutcome::Failed {
                error: error.as_ref().map_or_else(|| "it was not planned".to_owned(), KlError::on_record),
            },
        },
        actor: job.actor().clone(),
        job_url: job.job_url(),
    };
    if let Noted::Superseded { head } = store.plan_result_put(request, &result).await? {
        job.warn(&format!(
            "the plan of {} is not kept: {} has another head by now, {}",
            listed.name,
            request.short(),
            short(&head)
        ));
    }
    Ok(())
}

/// A commit as people write it.
fn short(commit: &str) -> &str {
    commit.get(..9).unwrap_or(commit)
}
