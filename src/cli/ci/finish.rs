//! `kl ci finish`: ends what an earlier step of the same job could not, because it was cancelled or killed.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::comment;
use super::job::Job;
use super::outcome::Outcome;
use super::publish::{self, Told};
use crate::cli::args::ci::CiFinishArgs;
use crate::domain::run::Run;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::Context;
use crate::pipeline::finish::{Finished, finish};
use crate::pipeline::request::request_of;
use crate::report::style::{good, loud, plain};
use crate::store::model::ApplyResult;
use crate::store::{Memory, Store};

/// So many live runs of a state are looked at.
const MAX_RUNS: u32 = 1000;

/// How often to look whether a Terraform that goes on alone is done.
const PAUSE: Duration = Duration::from_millis(500);

/// Runs the command.
pub(super) async fn run(job: &Job<'_>, args: &CiFinishArgs) -> Result<Exit, KlError> {
    let Some(own) = job.ci.origin.job.clone() else {
        return Err(KlError::usage(
            "`kl ci finish` ends what a CI job left, and this is no job that can be told from others",
        )
        .hint("outside CI, `kl status` shows dead runs and `kl abort RUN` ends them"));
    };
    let Memory::Open(store) = job.memory().await? else {
        job.session.out.say("Nothing was left: there is no database.");
        return Ok(Exit::Done);
    };
    let ctx = job.caller(None, None).with(store.clone());
    let mut ended = Vec::new();
    let mut outcomes = Vec::new();
    let told = Told { commit: job.merged_commit(), store: Some(store.clone()), ..Told::default() };
    let mut exit = Exit::Done;
    for state in store.state_list().await? {
        let live = store.run_list(state.id, true, MAX_RUNS).await?;
        for run in live.into_iter().filter(|run| run.origin.job.as_ref() == Some(&own)) {
            match in_time(&ctx, &run, args.wait).await? {
                Finished::Working(error) => {
                    job.session.out.error_text(&error);
                    exit = Exit::Failed;
                }
                Finished::Ended { quarantined, unknown } => {
                    tell(job, &run, &quarantined, &unknown);
                    outcomes.extend(note(job, &*store, &run, &quarantined).await?);
                    ended.push(json!({ "run": run.id, "quarantined": quarantined, "unknown": unknown }));
                }
            }
        }
    }
    publish::results(job, &outcomes, &told).await;
    if ended.is_empty() && exit == Exit::Done {
        job.session.out.say("Nothing was left: every run of this job has ended.");
    }
    if job.session.out.json() {
        job.session.out.data(&format!("{}\n", crate::report::json::document(json!({ "ended": ended }))));
    }
    Ok(exit)
}

/// Waits for a Terraform that goes on alone: what it finishes need not be looked for later.
async fn in_time(ctx: &Context, run: &Run, wait: Duration) -> Result<Finished, KlError> {
    let until = Instant::now() + wait;
    loop {
        match finish(ctx, run).await? {
            Finished::Working(_) if Instant::now() < until && !ctx.stop.interrupt.is_cancelled() => {
                tokio::time::sleep(PAUSE).await;
            }
            finished => return Ok(finished),
        }
    }
}

fn tell(job: &Job<'_>, run: &Run, quarantined: &[String], unknown: &[String]) {
    let out = &job.session.out;
    if quarantined.is_empty() {
        out.say(&format!("{} Run {} is ended; it had changed nothing.", good("✓"), run.id));
        return;
    }
    out.say(&format!(
        "{} Run {} is ended. It had changed real objects, or perhaps: {}\n  `kl recover {}` takes them over.",
        loud("!"),
        run.id,
        plain(&quarantined.join(", ")),
        run.id
    ));
    if !unknown.is_empty() {
        out.say(&format!("  These may exist without being in any state: {}", plain(&unknown.join(", "))));
    }
}

/// Puts it down for the run's request and tells that; gives the projects of the run, for their checks.
async fn note(job: &Job<'_>, store: &dyn Store, run: &Run, quarantined: &[String]) -> Result<Vec<Outcome>, KlError> {
    let request = match request_of(&run.origin) {
        Some(request) => store.request_find(&request).await?.map(|known| known.request),
        None => None,
    };
    let next = if quarantined.is_empty() {
        "run the job again".to_owned()
    } else {
        format!("run `kl recover {}`, then run the job again", run.id)
    };
    let mut outcomes = Vec::new();
    for listed in &job.catalog.projects {
        if store.state_find(&listed.state).await?.is_none_or(|head| head.id != run.state) {
            continue;
        }
        if let Some(request) = &request {
            let result = ApplyResult {
                place: Job::remembered(listed, run.state),
                run: Some(run.id),
                error: None,
                next: vec![next.clone()],
                job_url: job.job_url(),
            };
            store.apply_result_put(request, &result).await?;
        }
        let error = KlError::failed("the job ended before the run did").hint(next.clone());
        let outcome = Outcome::failed(&listed.name, error);
        outcomes.push(Outcome { request: request.clone(), run: Some(run.id), ..outcome });
    }
    if let Some(request) = &request {
        comment::post(job, store, request, &[run.id]).await;
    }
    Ok(outcomes)
}
