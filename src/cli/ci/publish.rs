//! What a job leaves for the forge and for later steps: checks, summary, outputs, folded logs.

use std::io::Write as _;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

use super::job::Job;
use super::outcome::{Outcome, Word, worst};
use crate::clock;
use crate::config::catalog::Listed;
use crate::domain::plan::spec::PlanSpec;
use crate::domain::request::{ForgeKind, RequestPhase, RequestRef};
use crate::error::KlError;
use crate::exit::Exit;
use crate::forge::{self, Check, CheckRef};
use crate::pipeline::request;
use crate::report::annotation::{self, AnnotationLevel};
use crate::report::check::{self, CheckText, Conclusion};
use crate::report::comment::place::Place;
use crate::report::view::{PlanView, ProjectView};
use crate::report::{json as documents, summary};
use crate::store::Store;

/// What there is to tell besides the outcomes.
#[derive(Default)]
pub(super) struct Told {
    /// The request.
    pub(super) request: Option<RequestRef>,
    /// The commit that checks belong to.
    pub(super) commit: Option<String>,
    /// The memory.
    pub(super) store: Option<Arc<dyn Store>>,
    /// The comment's page.
    pub(super) comment_url: Option<String>,
    /// Whether the request is a fork's, in a job without secrets.
    pub(super) fork: bool,
}

/// GitHub shows so many annotations of a step's log.
const MAX_COMMANDS: usize = 10;

/// The part of the log that belongs to one project: folded on GitHub, and deaf to commands in other programs' output.
pub(super) struct Group<'a> {
    job: &'a Job<'a>,
    ends: Vec<String>,
}

impl<'a> Group<'a> {
    /// Begins it.
    pub(super) fn open(job: &'a Job<'a>, name: &str) -> Self {
        let mut ends = Vec::new();
        if job.ci.forge == Some(ForgeKind::Github) {
            let (begin, end) = annotation::group(name);
            let (stop, go) = annotation::stopped(&clock::new_token());
            job.session.out.command(&begin);
            job.session.out.command(&stop);
            ends = vec![go, end.to_owned()];
        } else {
            job.session.out.say(&format!("— {}", crate::report::style::plain(name)));
        }
        Self { job, ends }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        for line in &self.ends {
            self.job.session.out.command(line);
        }
    }
}

/// Hides what the job was given and should not print.
pub(super) fn mask(job: &Job<'_>, secret: &str) {
    if job.ci.forge == Some(ForgeKind::Github) {
        for line in annotation::masks(secret) {
            job.session.out.command(&line);
        }
    }
}

/// Says why there is nothing to do.
pub(super) fn nothing(job: &Job<'_>, why: &str) -> Exit {
    job.session.out.say(&format!("Nothing to do: {why}."));
    outputs(job, &[], &Told::default());
    Exit::Done
}

/// Where a project's spec is written to, for artifacts.
pub(super) fn plan_file(job: &Job<'_>, name: &str) -> Result<Utf8PathBuf, KlError> {
    let base = job.session.env.get("RUNNER_TEMP").map(Utf8PathBuf::from);
    let dir = base.map_or_else(|| job.place.root.join(".kl"), |temp| temp.join("kl"));
    let cannot = |error| KlError::usage(format!("cannot write to {dir}")).because(error);
    std::fs::create_dir_all(&dir).map_err(cannot)?;
    let ignore = dir.join(".gitignore");
    if !ignore.exists() {
        std::fs::write(&ignore, "*\n").map_err(cannot)?;
    }
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' };
    Ok(dir.join(format!("{}.plan.json", name.chars().map(plain).collect::<String>())))
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
    let place = place(job, told);
    for outcome in outcomes {
        let Some(view) = view(job, told, outcome).await else { continue };
        summarise(job, &summary::summary(&view, RequestPhase::Merged, &place));
        if let Some(applied) = &view.apply {
            put(job, told, "apply", outcome, check::apply(&view, applied, &place)).await;
        }
    }
    outputs(job, outcomes, told);
}

/// Tells whether what waits could be applied.
pub(super) async fn check(job: &Job<'_>, outcomes: &[Outcome], told: &Told) {
    let place = place(job, told);
    for outcome in outcomes {
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

fn unnamed(listed: &Listed, plan: PlanView, apply: Option<crate::report::view::ApplyView>) -> ProjectView {
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

/// Puts a check on the commit. What the forge does not take is a warning, and its remarks go into the log.
async fn put(job: &Job<'_>, told: &Told, verb: &str, outcome: &Outcome, text: CheckText) {
    let (Some(forge), Some(commit)) = (&job.forge, &told.commit) else { return };
    let check = Check {
        name: format!("kl {verb}: {}", outcome.project),
        commit: commit.clone(),
        conclusion: text.conclusion.map(|conclusion| match conclusion {
            Conclusion::Success => forge::Conclusion::Success,
            Conclusion::Failure => forge::Conclusion::Failure,
            Conclusion::Neutral => forge::Conclusion::Neutral,
        }),
        title: text.title,
        summary: text.summary,
        text: text.text,
        annotations: text.annotations.iter().map(remark).collect(),
        details_url: job.job_url(),
    };
    match forge.check_put(&check, None).await {
        Ok(CheckRef::Check(_)) => return,
        Ok(CheckRef::Status | CheckRef::Nowhere) => {}
        Err(error) => job.warn(&format!("the check {:?} was not put: {error}", check.name)),
    }
    if job.ci.forge == Some(ForgeKind::Github) {
        for annotation in text.annotations.iter().take(MAX_COMMANDS) {
            job.session.out.command(&annotation.command());
        }
    }
}

fn remark(annotation: &annotation::Annotation) -> forge::Annotation {
    forge::Annotation {
        path: annotation.path.clone(),
        line: annotation.line,
        level: match annotation.level {
            AnnotationLevel::Notice => forge::AnnotationLevel::Notice,
            AnnotationLevel::Warning => forge::AnnotationLevel::Warning,
            AnnotationLevel::Failure => forge::AnnotationLevel::Failure,
        },
        title: annotation.title.clone(),
        message: annotation.message.clone(),
    }
}

/// Appends to the job's summary, where the forge has one.
fn summarise(job: &Job<'_>, text: &str) {
    append(job, "GITHUB_STEP_SUMMARY", &format!("{text}\n"));
}

fn append(job: &Job<'_>, variable: &str, text: &str) {
    let Some(path) = job.session.env.get(variable) else { return };
    let written = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    if let Err(error) = written {
        job.warn(&format!("cannot write to {path}, which {variable} names: {error}"));
    }
}

/// The job's outputs: those of its only project, and those of all as a list.
fn outputs(job: &Job<'_>, outcomes: &[Outcome], told: &Told) {
    let results: Vec<Value> = outcomes.iter().map(document).collect();
    let mut values: Vec<(&str, String)> = Vec::new();
    if let [only] = outcomes {
        values.extend(only.spec.iter().map(|spec| ("spec-id", spec.id.to_string())));
        values.extend(only.serial.iter().map(|serial| ("serial", serial.to_string())));
        values.extend(only.run.iter().map(|run| ("run-id", run.to_string())));
        values.extend(only.plan_file.iter().map(|path| ("plan-file", path.clone())));
    }
    let changes = outcomes.iter().any(|outcome| outcome.spec.as_ref().is_some_and(PlanSpec::has_changes));
    values.push(("has-changes", changes.to_string()));
    values.push(("result", worst(outcomes).map_or("nothing", Word::text).to_owned()));
    values.extend(outcomes.iter().find_map(|outcome| outcome.conflict.clone()).map(|title| ("conflict", title)));
    values.extend(told.comment_url.iter().map(|url| ("comment-url", url.clone())));
    values.push(("results", Value::from(results.clone()).to_string()));
    let text: String =
        values.iter().map(|(name, value)| annotation::output(name, value, &clock::new_token())).collect();
    append(job, "GITHUB_OUTPUT", &text);
    if job.session.out.json() {
        let document = json!({ "results": results, "comment_url": told.comment_url });
        job.session.out.data(&format!("{}\n", documents::document(document)));
    }
}

fn document(outcome: &Outcome) -> Value {
    json!({
        "project": outcome.project,
        "request": outcome.request.as_ref().map(|request| request.number),
        "result": outcome.word.text(),
        "exit": outcome.exit() as u8,
        "spec": outcome.spec.as_ref().map(|spec| spec.id),
        "has_changes": outcome.spec.as_ref().is_some_and(PlanSpec::has_changes),
        "plan_file": outcome.plan_file,
        "run": outcome.run,
        "serial": outcome.serial,
        "conflict": outcome.conflict,
        "error": outcome.error.as_ref().map(KlError::on_record),
    })
}
