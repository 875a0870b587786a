//! `kl ci finish`: ends what an earlier step of the same job could not, because it was cancelled or killed.

use std::time::Duration;

use camino::Utf8PathBuf;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::comment;
use super::job::Job;
use super::outcome::Outcome;
use super::publish::{self, Told};
use crate::cli::args::ci::CiFinishArgs;
use crate::domain::run::{Origin, Run};
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::Context;
use crate::pipeline::finish::{Finished, Remains, finish};
use crate::pipeline::leftover;
use crate::pipeline::request::request_of;
use crate::report::style::{good, loud, plain};
use crate::store::model::ApplyResult;
use crate::store::{Memory, Store};

/// So many live runs of a state are looked at.
const MAX_RUNS: u32 = 1000;

/// How often to look whether a Terraform that goes on alone is done.
const PAUSE: Duration = Duration::from_millis(500);

/// What came of all runs.
struct Report {
    ended: Vec<Value>,
    outcomes: Vec<Outcome>,
    exit: Exit,
}

/// Runs the command.
pub(super) async fn run(job: &Job<'_>, args: &CiFinishArgs) -> Result<Exit, KlError> {
    if job.ci.origin.job.is_none() {
        return Err(KlError::usage(
            "`kl ci finish` ends what a CI job left, and this is no job that can be told from others",
        )
        .hint("outside CI, `kl status` shows dead runs and `kl abort RUN` ends them"));
    }
    let until = Instant::now() + args.wait;
    // Nobody may come to this machine after this command: a database that is away is waited for.
    let memory = match job.memory_in_time(args.wait).await {
        Ok(memory) => memory,
        Err(error) => return Err(only_record(error).await),
    };
    let Memory::Open(store) = memory else {
        job.session.out.say("Nothing was left: there is no database.");
        return Ok(Exit::Done);
    };
    let ctx = job.caller(None, None).with(store).patient(args.wait);
    let store = ctx.store.clone();
    let mut report = Report { ended: Vec::new(), outcomes: Vec::new(), exit: Exit::Done };
    let runs = match of_this_job(&*store, &job.ci.origin).await {
        Ok(runs) => runs,
        Err(error) => return Err(only_record(error).await),
    };
    for run in runs {
        // What cannot be done for one run must not keep the others from their end: the machine may be gone soon.
        if let Err(error) = one(job, &ctx, &run, until, &mut report).await {
            job.session.out.error_text(&error);
            report.exit = Exit::Failed;
        }
    }
    let told = Told { commit: job.merged_commit(), store: Some(store.clone()), ..Told::default() };
    publish::results(job, &report.outcomes, &told).await;
    if report.ended.is_empty() && report.exit == Exit::Done {
        job.session.out.say("Nothing was left: every run of this job has ended.");
    }
    if job.session.out.json() {
        let document = crate::report::json::document(json!({ "ended": report.ended }));
        job.session.out.data(&format!("{document}\n"));
    }
    Ok(report.exit)
}

/// The runs of this job that nobody has ended, and those that somebody else has ended while their Terraform was at
/// work: only this machine may know what it did.
async fn of_this_job(store: &dyn Store, origin: &Origin) -> Result<Vec<Run>, KlError> {
    let mut runs = store.run_cut_off().await?;
    for state in store.state_list().await? {
        runs.extend(store.run_list(state.id, true, MAX_RUNS).await?);
    }
    runs.retain(|run| run.origin.same_job(origin));
    // One that ended in between is in both lists.
    runs.sort_by_key(|run| run.id);
    runs.dedup_by_key(|run| run.id);
    Ok(runs)
}

/// Ends one run, and tells of it.
async fn one(job: &Job<'_>, ctx: &Context, run: &Run, until: Instant, report: &mut Report) -> Result<(), KlError> {
    let finished = match in_time(ctx, run, until).await {
        Ok(finished) => finished,
        Err(error) => return Err(only_record(error).await),
    };
    let remains = match finished {
        Finished::Working(error) if run.status.ended() => {
            let (word, run) = (run.status.word(), run.id);
            return Err(
                error.hint(format!("it had ended before ({word}) and its rows stay reserved: `kl recover {run}`"))
            );
        }
        Finished::Working(error) => return Err(error),
        Finished::Ended(remains) => remains,
    };
    if run.status.ended() && remains.quarantined.is_empty() {
        // Recovered or dropped since.
        return Ok(());
    }
    tell(job, run, &remains);
    let Remains { quarantined, unknown, .. } = &remains;
    report.ended.push(json!({ "run": run.id, "quarantined": quarantined, "unknown": unknown }));
    report.outcomes.extend(note(job, &*ctx.store, run, &remains).await?);
    Ok(())
}

/// What to do where the store could not be told what the job's runs did.
async fn only_record(error: KlError) -> KlError {
    let dirs: Vec<String> = leftover::records_here().await.into_iter().map(Utf8PathBuf::into_string).collect();
    let error = if dirs.is_empty() {
        error.hint(
            "should a run of this job have been cut off, its work directory (`kl-…` in TMPDIR) is the only record of what \
             its terraform did: save it before this machine goes",
        )
    } else {
        error.hint(format!(
            "what terraform did is in the work directories on this machine only; save them before it goes: {}",
            dirs.join(", ")
        ))
    };
    error.hint("`kl ci finish` on this machine, in the same job, brings it into the database when that answers again")
}

/// Waits for a Terraform that goes on alone: what it finishes need not be looked for later.
async fn in_time(ctx: &Context, run: &Run, until: Instant) -> Result<Finished, KlError> {
    loop {
        let last = Instant::now() >= until || ctx.stop.interrupt.is_cancelled();
        match finish(ctx, run, last).await? {
            Finished::Working(_) if !last => tokio::time::sleep(PAUSE).await,
            finished => return Ok(finished),
        }
    }
}

fn tell(job: &Job<'_>, run: &Run, remains: &Remains) {
    let out = &job.session.out;
    let is_ended = if run.status.ended() {
        format!("had ended before ({}), while its terraform was at work", run.status.word())
    } else {
        "is ended".to_owned()
    };
    if remains.quarantined.is_empty() {
        out.say(&format!("{} Run {} {is_ended}; it had changed nothing.", good("✓"), run.id));
        return;
    }
    let rows = plain(&remains.quarantined.join(", "));
    out.say(&format!("{} Run {} {is_ended}. It had changed real objects, or perhaps: {rows}", loud("!"), run.id));
    out.say(&format!("  {}", next(run, remains)));
    if !remains.unknown.is_empty() {
        out.say(&format!("  These may exist without being in any state: {}", plain(&remains.unknown.join(", "))));
    }
    if let Some(place) = &remains.unseen {
        out.say(&format!(
            "  What Terraform did after the run was cut off is not known: its work directory is {} on {}.",
            plain(&place.dir),
            plain(&place.host.name)
        ));
    }
}

/// What puts the rows in order.
fn next(run: &Run, remains: &Remains) -> String {
    let run = run.id;
    if remains.on_record {
        format!("`kl recover {run}` takes them over.")
    } else {
        format!(
            "Nothing of it is on record: look at the real objects, then `kl recover {run} --discard` frees the rows."
        )
    }
}

/// Puts it down for the run's request and tells that; gives the projects of the run, for their checks.
async fn note(job: &Job<'_>, store: &dyn Store, run: &Run, remains: &Remains) -> Result<Vec<Outcome>, KlError> {
    let request = match request_of(&run.origin) {
        Some(request) => store.request_find(&request).await?.map(|known| known.request),
        None => None,
    };
    let next = match remains {
        Remains { quarantined, .. } if quarantined.is_empty() => "run the job again".to_owned(),
        // What is recovered from elsewhere stays reserved until its machine was asked.
        Remains { on_record: true, unseen: Some(place), .. } if leftover::is_elsewhere(place) => format!(
            "run `kl recover {}` on {}, then run the job again; when that machine is gone, look at the provider, and free \
             the rest with `kl recover {} --discard`",
            run.id, place.host, run.id
        ),
        Remains { on_record: true, unknown, .. } if !unknown.is_empty() => format!(
            "run `kl recover {}`, and look at the provider for {}: what exists and is in no state has to be imported or \
             deleted before the job is run again",
            run.id,
            unknown.join(", ")
        ),
        Remains { on_record: true, .. } => format!("run `kl recover {}`, then run the job again", run.id),
        Remains { on_record: false, .. } => format!(
            "nothing is on record: look at the real objects, run `kl recover {} --discard`, then run the job again",
            run.id
        ),
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
