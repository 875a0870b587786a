//! What a job leaves for the forge and for later steps: checks, summary, outputs, folded logs.

mod checks;
mod files;
mod log;

use std::sync::Arc;

use camino::Utf8Path;

use super::job::Job;
use super::outcome::{Outcome, speaks_for_its_project};
use crate::config::catalog::Listed;
use crate::domain::request::RequestPhase;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::request;
use crate::report::check::{self, Conclusion};
use crate::report::comment::place::Place;
use crate::report::view::{ApplyView, PlanView, ProjectView};
use crate::report::{annotation, summary};
use crate::store::Store;
use checks::put;
use files::{outputs, summarise};

pub(super) use files::plan_file;
pub(super) use log::{Group, mask};

/// What there is to tell besides the outcomes.
#[derive(Default)]
pub(super) struct Told {
    /// The commit that checks belong to.
    pub(super) commit: Option<String>,
    /// The memory.
    pub(super) store: Option<Arc<dyn Store>>,
    /// The comment's page.
    pub(super) comment_url: Option<String>,
    /// Whether the request is a fork's, in a job without secrets.
    pub(super) fork: bool,
}

/// Why a stranger's comment makes nothing happen.
pub(super) const UNTRUSTED: &str = "only owners, members and collaborators give orders by comment";

/// Says why there is nothing to do.
pub(super) fn nothing(job: &Job<'_>, why: &str) -> Exit {
    job.session.out.say(&format!("Nothing to do: {why}."));
    outputs(job, &[], &Told::default());
    Exit::Done
}

/// Tells what was planned.
pub(super) async fn plan(job: &Job<'_>, outcomes: &[Outcome], told: &Told, report: Option<&Utf8Path>) {
    if let Some(path) = report {
        let specs: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.spec.as_ref()).collect();
        if let Err(error) = std::fs::write(path, annotation::gitlab_report(&specs)) {
            job.warn(&format!("the report {path} cannot be written: {error}"));
        }
    }
    let place = place(job, told);
    for outcome in outcomes {
        if told.fork {
            match (&outcome.spec, &outcome.error) {
                (Some(spec), _) => {
                    summarise(job, &summary::offline(&outcome.project, spec, &outcome.values, &place));
                }
                (None, Some(error)) => job.warn(&format!("{}: {}", outcome.project, error.chain())),
                (None, None) => {}
            }
        } else if let Some(view) = view(job, told, outcome).await {
            summarise(job, &summary::summary(&view, RequestPhase::Open, &place));
            put(job, told, "plan", outcome, check::plan(&view, &place)).await;
        }
    }
    outputs(job, outcomes, told);
}

/// Tells what was applied.
pub(super) async fn apply(job: &Job<'_>, outcomes: &[Outcome], told: &Told) {
    results(job, outcomes, told).await;
    outputs(job, outcomes, told);
}

/// Tells people what became of runs, and leaves nothing for later steps.
pub(super) async fn results(job: &Job<'_>, outcomes: &[Outcome], told: &Told) {
    let place = place(job, told);
    for outcome in outcomes {
        let Some(view) = view(job, told, outcome).await else { continue };
        summarise(job, &summary::summary(&view, RequestPhase::Merged, &place));
        if let Some(applied) = &view.apply
            && speaks_for_its_project(outcome, outcomes)
        {
            let mut text = check::apply(&view, applied, &place);
            // A failure that was put in order at once is one all the same: not all of the plan was applied.
            if outcome.error.is_some() {
                text.conclusion = Some(Conclusion::Failure);
            }
            put(job, told, "apply", outcome, text).await;
        }
    }
}

/// Tells whether what waits could be applied.
pub(super) async fn check(job: &Job<'_>, outcomes: &[Outcome], told: &Told) {
    let place = place(job, told);
    for outcome in outcomes.iter().filter(|outcome| speaks_for_its_project(outcome, outcomes)) {
        let Some(view) = view(job, told, outcome).await else { continue };
        let mut text = check::plan(&view, &place);
        if let Some(error) = &outcome.error {
            text.conclusion = Some(Conclusion::Failure);
            text.title = error.message().lines().next().unwrap_or_default().chars().take(200).collect();
        } else {
            text.conclusion = Some(Conclusion::Success);
        }
        put(job, told, "check", outcome, text).await;
    }
    outputs(job, outcomes, told);
}

/// What is known of a project; none when it cannot be read, which is a warning.
async fn view(job: &Job<'_>, told: &Told, outcome: &Outcome) -> Option<ProjectView> {
    let found = async {
        let known = match (&told.store, &outcome.request) {
            (Some(store), Some(request)) => request::view(&**store, request, job.server_url()).await?,
            _ => None,
        };
        let known = known.and_then(|view| view.projects.into_iter().find(|project| project.name == outcome.project));
        if known.is_some() {
            return Ok::<_, KlError>(known);
        }
        let Some(listed) = job.catalog.find(&outcome.project) else { return Ok(None) };
        let plan = match (&outcome.spec, &told.store) {
            (Some(spec), Some(store)) => request::unattached(&**store, spec, outcome.values.clone()).await?,
            _ => failed(job, told, outcome, &**told.store.as_ref().ok_or_else(nowhere)?).await?,
        };
        let apply = match (&told.store, outcome.run) {
            (Some(store), Some(run)) => Some(request::of_run(&**store, run, job.job_url()).await?),
            _ => None,
        };
        Ok(Some(unnamed(listed, plan, apply)))
    };
    match found.await {
        Ok(view) => view,
        Err(error) => {
            job.warn(&format!("{} is not told to the forge: {}", outcome.project, error.message()));
            None
        }
    }
}

fn nowhere() -> KlError {
    KlError::failed("there is no database that knows it")
}

fn unnamed(listed: &Listed, plan: PlanView, apply: Option<ApplyView>) -> ProjectView {
    ProjectView {
        name: listed.name.clone(),
        dir: listed.shown_dir().to_owned(),
        workspace: listed.workspace.clone(),
        state: listed.state.clone(),
        plan,
        apply,
    }
}

async fn failed(job: &Job<'_>, told: &Told, outcome: &Outcome, store: &dyn Store) -> Result<PlanView, KlError> {
    Ok(PlanView::Failed {
        error: outcome.error.as_ref().map(KlError::on_record).unwrap_or_default(),
        head: told.commit.clone().unwrap_or_default(),
        job_url: job.job_url(),
        at: store.now().await?,
    })
}

fn place(job: &Job<'_>, told: &Told) -> Place {
    Place {
        forge: job.ci.forge,
        server_url: job.server_url().map(str::to_owned),
        repository: job.ci.origin.repository.clone(),
        head: told.commit.clone(),
    }
}
