//! `kl ci apply`: applies what was merged, as it was reviewed.

use std::collections::BTreeSet;

use super::comment;
use super::job::Job;
use super::outcome::{self, Outcome, Word};
use super::publish::{self, Group, Told, UNTRUSTED};
use super::requests::{Changed, remember};
use crate::cli::args::ci::CiApplyArgs;
use crate::config::catalog::Listed;
use crate::config::event::{CiEvent, RequestAction};
use crate::config::policy::MissingSpec;
use crate::domain::plan::spec::{PlanSpec, Scope};
use crate::domain::request::{RequestPhase, RequestRef};
use crate::domain::run::RunStatus;
use crate::error::KlError;
use crate::exit::Exit;
use crate::forge::{Push, RequestInfo};
use crate::pipeline::apply::{ApplyOptions, apply};
use crate::pipeline::execute::LaneChoice;
use crate::pipeline::{Rules, preflight, request as facts};
use crate::report::conflict;
use crate::store::model::{ApplyResult, PlanOutcome};
use crate::store::{Memory, Store};

/// What was merged: a request, or commits that came without one.
struct Merge<'j> {
    request: Option<(RequestRef, RequestInfo)>,
    projects: Vec<&'j Listed>,
}

/// Runs the command.
pub(super) async fn run(job: &Job<'_>, args: &CiApplyArgs) -> Result<Exit, KlError> {
    let merges = match (args.request, job.event()?) {
        // Whatever else the command says: such a job runs because somebody wrote a comment.
        (_, Some(CiEvent::Comment(comment))) if !comment.trusted => {
            return Ok(publish::nothing(job, UNTRUSTED));
        }
        (None, Some(CiEvent::Comment(comment))) => {
            vec![merged(job, job.forge()?.request(comment.request).await?).await?]
        }
        (Some(number), _) => vec![merged(job, job.forge()?.request(number).await?).await?],
        (None, Some(CiEvent::Push(push))) => {
            let Some(after) = push.after.clone() else {
                return Ok(publish::nothing(job, &format!("the branch {} is gone", push.branch)));
            };
            let default = push.default_branch.as_ref().is_none_or(|branch| *branch == push.branch);
            let push = Push { branch: push.branch.clone(), before: push.before.clone(), after };
            of_push(job, &push, default).await?
        }
        (None, Some(CiEvent::Request(event))) if event.action == RequestAction::Merged => {
            vec![merged(job, job.forge()?.request(event.number).await?).await?]
        }
        (None, Some(CiEvent::Request(event))) if event.action == RequestAction::Closed => {
            return Ok(publish::nothing(job, "the request was closed without a merge"));
        }
        (None, event) => {
            let what = event.map_or_else(|| "there is none".to_owned(), CiEvent::describe);
            return Err(KlError::usage(format!("`kl ci apply` acts on merges, and this event is none: {what}")).hint(
                "run it on pushes to the default branch or on merged requests; by hand, name a request: --request N",
            ));
        }
    };
    let mut outcomes = Vec::new();
    let mut told = Told { commit: job.merged_commit(), ..Told::default() };
    if merges.iter().all(|merge| merge.projects.is_empty()) {
        for merge in &merges {
            if let (Some((request, info)), Memory::Open(store)) = (&merge.request, job.memory().await?) {
                remember(&*store, request, info).await?;
                comment::post(job, &*store, request, &[]).await;
            }
        }
        return Ok(publish::nothing(job, "no project is concerned"));
    }
    let store = job.memory().await?.store().await?;
    for merge in merges {
        if let Some((request, info)) = &merge.request {
            remember(&*store, request, info).await?;
            job.session.out.say(&format!("{} ({})", request, info.title.chars().take(100).collect::<String>()));
        }
        let done = Box::pin(in_order(job, &*store, args, &merge)).await?;
        if let Some((request, _)) = &merge.request {
            let runs: Vec<_> = done.iter().filter_map(|outcome| outcome.run).collect();
            told.comment_url = comment::post(job, &*store, request, &runs).await.or(told.comment_url);
            // Whose plan no longer holds learns it now, and not at the merge.
            let committed = done.iter().filter(|outcome| outcome.word == Word::Committed);
            let specs: Vec<_> = committed.filter_map(|outcome| outcome.spec.as_ref()).collect();
            comment::tell_neighbours(job, &*store, request, &specs, false).await;
        }
        outcomes.extend(done);
    }
    told.store = Some(store);
    publish::apply(job, &outcomes, &told).await;
    Ok(outcome::exit(&outcomes))
}

/// What a push brought: the requests that it merged, or its own commits when there is none.
async fn of_push<'j>(job: &'j Job<'_>, push: &Push, default: bool) -> Result<Vec<Merge<'j>>, KlError> {
    let requests = job.forge()?.merged_by(push).await?;
    let mut merges = Vec::new();
    for info in requests {
        merges.push(merged(job, info).await?);
    }
    if merges.is_empty() && default {
        let projects = Changed::by_push(job, push).await?.projects(job);
        merges.push(Merge { request: None, projects });
    }
    Ok(merges)
}

async fn merged<'j>(job: &'j Job<'_>, info: RequestInfo) -> Result<Merge<'j>, KlError> {
    let request = job.request(info.number)?;
    if info.phase != RequestPhase::Merged {
        return Err(KlError::usage(format!("{} is {}, not merged", request.short(), info.phase.word()))
            .hint("only what was merged is applied"));
    }
    let projects = Changed::by_request(job, info.number).await?.projects(job);
    Ok(Merge { request: Some((request, info)), projects })
}

/// Applies the projects of a merge, each after those that it depends on, and none after one that failed.
async fn in_order(
    job: &Job<'_>,
    store: &dyn Store,
    args: &CiApplyArgs,
    merge: &Merge<'_>,
) -> Result<Vec<Outcome>, KlError> {
    let chosen: BTreeSet<&str> = merge.projects.iter().map(|listed| listed.name.as_str()).collect();
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut failed: BTreeSet<String> = BTreeSet::new();
    for listed in merge.projects.iter().copied().filter(|listed| job.wants(listed)) {
        let group = Group::open(job, &listed.name);
        let before = job.before(listed, &chosen);
        let broken = before.iter().find(|name| failed.contains(**name));
        let outcome = if let Some(name) = broken {
            let error = KlError::failed(format!("not applied: it depends on {name}, which failed"))
                .hint("run the job again when that is mended");
            Outcome { word: Word::Skipped, ..Outcome::failed(&listed.name, error) }
        } else if !job.dir(listed).is_dir() {
            job.warn(&format!("the root module {} is gone: nothing is applied", listed.shown_dir()));
            Outcome::new(&listed.name, Word::Skipped)
        } else {
            one(job, store, args, merge.request.as_ref(), listed).await
        };
        if let Some(error) = &outcome.error {
            job.session.out.error_text(error);
            failed.insert(listed.name.clone());
        }
        let outcome = Outcome { request: merge.request.as_ref().map(|(request, _)| request.clone()), ..outcome };
        if let Some((request, _)) = &merge.request {
            note(job, store, request, listed, &outcome).await?;
        }
        drop(group);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Applies one project.
async fn one(
    job: &Job<'_>,
    store: &dyn Store,
    args: &CiApplyArgs,
    request: Option<&(RequestRef, RequestInfo)>,
    listed: &Listed,
) -> Outcome {
    let reviewed = match request {
        Some((request, info)) => reviewed(job, store, request, info, listed).await,
        None => Err(missing(listed, "these commits came without a request")),
    };
    let at_once = listed.settings.policies.missing_spec == MissingSpec::Plan;
    let spec = match reviewed {
        Ok(spec) => Some(spec),
        Err(error) if error.exit() == Exit::Stale && at_once => {
            job.warn(&format!("{}; planning and applying at once, as kl.yaml says", error.message()));
            None
        }
        Err(error) => {
            let word = if error.exit() == Exit::Stale { Word::Missing } else { Word::Failed };
            return Outcome { word, ..Outcome::failed(&listed.name, error) };
        }
    };
    match applied(job, args, request.map(|(request, _)| request), listed, spec).await {
        Ok(outcome) => outcome,
        Err(error) => Outcome::failed(&listed.name, error),
    }
}

/// The newest spec of a project in a request.
async fn reviewed(
    job: &Job<'_>,
    store: &dyn Store,
    request: &RequestRef,
    info: &RequestInfo,
    listed: &Listed,
) -> Result<PlanSpec, KlError> {
    let records = store.request_projects(request).await?;
    let record = records.iter().find(|record| record.place.project == listed.name);
    if let Some(plan) = record.and_then(|record| record.plan.as_ref())
        && let PlanOutcome::Failed { error } = &plan.outcome
    {
        return Err(missing(listed, &format!("the last plan failed: {}", error.lines().next().unwrap_or_default())));
    }
    let Some((stored, head)) = store.request_spec(request, &listed.name).await? else {
        return Err(missing(listed, &format!("{} has no plan of it", request.short())));
    };
    if head != info.head {
        job.warn(&format!(
            "the plan of {} is for commit {}, and {} was merged at {}: planning again will show whether it still holds",
            listed.name,
            head,
            request.short(),
            info.head
        ));
    }
    facts::read(&stored)
}

fn missing(listed: &Listed, why: &str) -> KlError {
    KlError::new(Exit::Stale, format!("there is no reviewed plan of project {}: {why}", listed.name))
        .hint("open a request that touches the project and let `kl ci plan` run in it, or run `kl plan` and `kl apply`")
        .hint("`missing_spec: plan` in kl.yaml lets merges without a plan be planned and applied at once")
}

async fn applied(
    job: &Job<'_>,
    args: &CiApplyArgs,
    request: Option<&RequestRef>,
    listed: &Listed,
    spec: Option<PlanSpec>,
) -> Result<Outcome, KlError> {
    let mut project = job.project(listed).await?;
    let rules = Rules::from(listed.settings.policies);
    let caller = job.caller(request, job.ci.checkout.as_deref());
    let memory = job.memory().await?;
    let (spec, ctx) = if let Some(spec) = spec {
        // What was planned in another workspace or for another state is not this project's plan any more.
        if spec.project.workspace != listed.workspace || spec.state.name != listed.state {
            return Err(missing(listed, "its plan is for another workspace or state"));
        }
        project.var_files.clone_from(&spec.project.var_files);
        (spec, caller.with(memory.store().await?))
    } else {
        let (planned, ctx) = preflight::plan(&caller, memory, &project, Scope::default(), &rules).await?;
        job.session.out.say(&crate::report::plan::summary(&planned.spec));
        (planned.spec, ctx)
    };
    let options = ApplyOptions {
        dry_run: false,
        lease: args.reserve.lease,
        wait: args.reserve.wait,
        timeout: args.timeout,
        lane: LaneChoice::Auto,
        accept_values: false,
    };
    Ok(match Box::pin(apply(&ctx, &project, &spec, &rules, &options)).await {
        Ok(report) => {
            job.session.out.say(&crate::cli::apply::told(&report));
            let word = if report.status == RunStatus::Committed { Word::Committed } else { Word::Noop };
            let before = report.done_before.map(|before| before.serial);
            Outcome {
                run: Some(report.run),
                serial: report.serial.or(before),
                spec: Some(spec),
                ..Outcome::new(&listed.name, word)
            }
        }
        Err(failure) => Outcome {
            run: failure.run,
            conflict: (!failure.blockers.is_empty()).then(|| conflict::title(&failure.blockers)),
            spec: Some(spec),
            ..Outcome::failed(&listed.name, failure.error)
        },
    })
}

/// Puts down what became of a project in a request.
async fn note(
    job: &Job<'_>,
    store: &dyn Store,
    request: &RequestRef,
    listed: &Listed,
    outcome: &Outcome,
) -> Result<(), KlError> {
    let state = store.state_ensure(&listed.state).await?.id;
    let result = ApplyResult {
        place: Job::remembered(listed, state),
        run: outcome.run,
        error: outcome.error.as_ref().filter(|_| outcome.run.is_none()).map(KlError::on_record),
        next: outcome.error.as_ref().map(|error| error.hints().to_vec()).unwrap_or_default(),
        job_url: job.job_url(),
    };
    store.apply_result_put(request, &result).await?;
    Ok(())
}
