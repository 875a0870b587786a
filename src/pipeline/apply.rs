//! The apply story (design §7): load, stale check, reserve, plan again and compare, apply, commit.

mod fit;
mod halt;
mod turn;

use std::time::Duration;

use fit::check_fit;
use halt::{Halt, after_failure, finish, salvaged};
use turn::{reserved, version_differences};

use super::bench::Bench;
use super::commit::{self, Outcome};
use super::execute::{self, LaneChoice, Rehearsal};
use super::record::Recorder;
use super::reserve::{self, Heartbeat};
use super::stale::{self, Verdict};
use super::{Context, Project, Rules, done, leftover};
use crate::clock;
use crate::config::policy::OnFailure;
use crate::domain::coordination::reservation::Blocker;
use crate::domain::coordination::slice;
use crate::domain::id::{RunId, Serial, StateId};
use crate::domain::plan::compare::Relation;
use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::event::RunEvent;
use crate::domain::run::{NewRun, RunEnd, RunKind, RunStatus, Tools};
use crate::error::KlError;
use crate::report::event::Stage;
use crate::store::Held;
use crate::store::model::{Source, StateHead};

/// How an apply is to be done.
#[derive(Debug, Clone, Copy)]
pub struct ApplyOptions {
    /// Only acquire, report and release.
    pub dry_run: bool,
    /// The lease.
    pub lease: Duration,
    /// How long to wait in turn for the reservations.
    pub wait: Option<Duration>,
    /// How long the whole apply may take before Terraform is asked to stop.
    pub timeout: Option<Duration>,
    /// Which lane.
    pub lane: LaneChoice,
    /// Whether other values of the same shape may pass.
    pub accept_values: bool,
}

/// What an apply came to.
#[derive(Debug, Clone)]
pub struct ApplyReport {
    /// The run.
    pub run: RunId,
    /// How it ended.
    pub status: RunStatus,
    /// The version that it made.
    pub serial: Option<Serial>,
    /// Rows that got a new content, or are new.
    pub rows_opened: usize,
    /// Rows whose former content ended.
    pub rows_closed: usize,
    /// The version that an earlier apply of the same spec has made, when that is why there was nothing to do.
    pub done_before: Option<DoneBefore>,
}

/// What an earlier apply of a spec came to, so that nothing is left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoneBefore {
    /// The version.
    pub serial: Serial,
    /// The run that made it.
    pub run: Option<RunId>,
    /// Whether that apply was cut off or failed, and a recovery has committed what it had done.
    pub recovered: bool,
}

impl DoneBefore {
    /// Why there is nothing to do, as the rest of a sentence.
    #[must_use]
    pub fn reason(&self) -> String {
        let how = if self.recovered {
            "an earlier apply of the spec had done all of it, and was recovered"
        } else {
            "the spec was already applied, and committed"
        };
        format!("{how} as serial {}", self.serial)
    }
}

/// A failed apply: the run is recorded and ended, this is what to tell.
#[derive(Debug)]
pub struct ApplyFailure {
    /// The run, when there is one.
    pub run: Option<RunId>,
    /// What stood in the way.
    pub blockers: Vec<Blocker>,
    /// What to tell.
    pub error: KlError,
}

impl<E: Into<KlError>> From<E> for ApplyFailure {
    fn from(error: E) -> Self {
        Self { run: None, blockers: Vec::new(), error: error.into() }
    }
}

/// Applies a spec.
pub async fn apply(
    ctx: &Context,
    project: &Project,
    spec: &PlanSpec,
    rules: &Rules,
    options: &ApplyOptions,
) -> Result<ApplyReport, ApplyFailure> {
    let (head, planned_from) = check_fit(ctx, project, spec, rules).await?;
    let ctx = &ctx.patient(options.lease);
    let run = clock::new_run_id();
    let tools = Tools { version: project.terraform.version().to_string(), ..spec.tools.clone() };
    ctx.store
        .run_start(&NewRun {
            id: run,
            state: head.id,
            kind: RunKind::Apply,
            actor: ctx.actor.clone(),
            origin: ctx.origin.on_behalf_of(&planned_from),
            spec: Some(spec.id),
            source_serial: spec.state.serial,
            tools,
            claims: spec.claims(),
        })
        .await?;
    let recorder = Recorder::new(ctx.store.clone(), ctx.sink.clone(), run);
    let told = story(ctx, &recorder, project, spec, &head, rules, options);
    let result = match options.timeout {
        Some(limit) => within(limit, ctx, told).await,
        None => told.await,
    };
    match result {
        Ok(report) => Ok(report),
        Err(halt) => {
            let salvage = rules.on_failure == OnFailure::Salvage && !halt.end.quarantine.is_empty();
            let failure = finish(ctx, &recorder, *halt).await;
            Err(if salvage { salvaged(ctx, run, options.lease, failure).await } else { failure })
        }
    }
}

/// Asks Terraform to stop when the time is over, and waits for the story to come to its end. Nobody hurries yet: what is in
/// flight should not be cut off, because then nobody knows whether it exists.
async fn within(
    limit: Duration,
    ctx: &Context,
    story: impl Future<Output = Result<ApplyReport, Box<Halt>>>,
) -> Result<ApplyReport, Box<Halt>> {
    tokio::pin!(story);
    tokio::select! {
        result = &mut story => return result,
        () = tokio::time::sleep(limit) => {}
    }
    ctx.warn(format!(
        "the apply has taken longer than --timeout {}; asking terraform to stop",
        crate::report::style::duration(limit)
    ));
    ctx.stop.interrupt.cancel();
    tokio::select! {
        result = &mut story => return result,
        () = tokio::time::sleep(reserve::LEISURE) => {}
    }
    ctx.stop.soon.cancel();
    story.await
}

/// What happens between the start and the end of the run.
async fn story(
    ctx: &Context,
    recorder: &Recorder,
    project: &Project,
    spec: &PlanSpec,
    head: &StateHead,
    rules: &Rules,
    options: &ApplyOptions,
) -> Result<ApplyReport, Box<Halt>> {
    recorder
        .record(RunEvent::SpecLoaded { spec: spec.id, source_serial: spec.state.serial, trunk_serial: head.serial })
        .await?;
    if !spec.has_changes() {
        return nothing_left(ctx, recorder, None).await;
    }
    // The same job run again, or a second one for the same merge: what it promises has been done.
    if let Some(before) = done_before(ctx, head.id, spec).await? {
        return nothing_left(ctx, recorder, Some(before)).await;
    }
    // Refused early where it can be, before anybody is kept waiting; what counts is the check under the reservation.
    let early = stale::since(&*ctx.store, head.id, spec).await?;
    if !early.fresh() {
        checked(recorder, early, rules).await?;
    }
    let held = reserved(ctx, recorder, project, spec, options).await?;
    let heartbeat = Heartbeat::start(ctx.store.clone(), recorder.clone(), &held, ctx.stop.clone());
    let result = under_reservation(ctx, recorder, project, spec, rules, options, &held).await;
    match result {
        Err(halt) => Err(match reserve::lost(ctx, recorder.run(), heartbeat.lost()).await {
            // What it was told to do stands beside why: where the record of real objects lies must not get lost.
            Some(error) => {
                let why = halt.error.chain();
                let error = halt.error.hints().iter().cloned().fold(error, KlError::hint).because(why);
                Box::new(Halt { error, ..*halt })
            }
            None => halt,
        }),
        done => done,
    }
}

async fn checked(
    recorder: &Recorder,
    staleness: crate::domain::coordination::staleness::Staleness,
    rules: &Rules,
) -> Result<(), Box<Halt>> {
    match stale::judge(recorder, staleness, rules).await? {
        Verdict::Fresh | Verdict::Revalidate => Ok(()),
        Verdict::Refused(error) => Err(Box::new(error.into())),
    }
}

/// The version that an earlier apply of the same spec has made, while what it wrote is still so.
async fn done_before(ctx: &Context, state: StateId, spec: &PlanSpec) -> Result<Option<DoneBefore>, KlError> {
    let version = stale::applied_before(&*ctx.store, state, spec).await?;
    Ok(version.map(|version| DoneBefore {
        serial: version.serial,
        run: version.run,
        recovered: version.source == Source::Recover,
    }))
}

async fn nothing_left(
    ctx: &Context,
    recorder: &Recorder,
    before: Option<DoneBefore>,
) -> Result<ApplyReport, Box<Halt>> {
    ended(ctx, recorder, RunStatus::Noop, before).await
}

async fn ended(
    ctx: &Context,
    recorder: &Recorder,
    status: RunStatus,
    done_before: Option<DoneBefore>,
) -> Result<ApplyReport, Box<Halt>> {
    let reason = done_before.as_ref().map(DoneBefore::reason);
    recorder.record(RunEvent::Ended { status: status.word().to_owned(), reason }).await?;
    ctx.store.run_end(recorder.run(), &RunEnd::plain(status)).await?;
    Ok(ApplyReport { run: recorder.run(), status, serial: None, rows_opened: 0, rows_closed: 0, done_before })
}

async fn under_reservation(
    ctx: &Context,
    recorder: &Recorder,
    project: &Project,
    spec: &PlanSpec,
    rules: &Rules,
    options: &ApplyOptions,
    held: &Held,
) -> Result<ApplyReport, Box<Halt>> {
    // Whoever it has waited for may have applied the same spec, and those versions count as no change of others below.
    if let Some(before) = done_before(ctx, held.state(), spec).await? {
        return nothing_left(ctx, recorder, Some(before)).await;
    }
    let staleness = stale::since(&*ctx.store, held.state(), spec).await?;
    let stale = !staleness.fresh();
    checked(recorder, staleness, rules).await?;
    if options.dry_run {
        return ended(ctx, recorder, RunStatus::DryRun, None).await;
    }
    let snapshot = ctx.store.snapshot(held.state(), None).await?;
    leftover::sweep(ctx.store.as_ref()).await;
    // Boxed, as the two large ones below: what waits for them need not be as large as they are.
    let bench = Box::pin(Bench::prepare(ctx, project, Some(recorder.run()))).await?;
    let tools = bench.tools()?;
    ctx.store.run_tools(recorder.run(), &tools).await?;
    let trunk_tools = Tools {
        program: tools.program.clone(),
        version: snapshot.document.terraform_version.clone(),
        providers: snapshot.providers.clone(),
    };
    let differences = version_differences(&trunk_tools, &tools);
    if !differences.is_empty() {
        recorder.record(RunEvent::VersionsDiffer { differences }).await?;
    }
    let done = done::by_same_spec(ctx, held.state(), spec, None).await?;
    let rehearsal = Rehearsal {
        ctx,
        recorder,
        bench: &bench,
        spec,
        snapshot: &snapshot,
        accept_values: options.accept_values,
        rules,
        done: &done,
    };
    let ready = Box::pin(rehearsal.prepare(options.lane)).await?;
    let other_values = ready.relation == Relation::ValuesDiffer;
    if other_values {
        recorder.record(RunEvent::ValuesAccepted { by: ctx.actor.clone() }).await?;
    }
    if stale {
        recorder.record(RunEvent::Revalidated { relation: ready.relation.word().to_owned() }).await?;
    }
    if ready.nothing_left {
        let before = done.last.map(|(serial, run)| DoneBefore { serial, run, recovered: done.recovered });
        return nothing_left(ctx, recorder, before).await;
    }
    ctx.store.run_advance(recorder.run(), RunStatus::Applying).await?;
    let applied = match Box::pin(execute::apply(ctx, recorder, &bench, held, &ready)).await {
        Ok(applied) => applied,
        Err(broken) => return Err(Box::new(after_failure(recorder, *broken).await)),
    };
    let outcome = Outcome {
        snapshot: &snapshot,
        before: &ready.before,
        after: &applied.after,
        write_set: &ready.write_set,
        drifted: &ready.drifted,
        other_values,
        forgotten: slice::forgotten_data(spec, bench.tree(), snapshot.rows.iter().map(|(row, _)| row)),
    };
    let committed = async {
        ctx.begins(Stage::Commit).await?;
        let delta = commit::judge(&outcome)?;
        commit::commit(ctx, recorder, held, spec, &outcome, delta, tools.providers).await
    };
    match committed.await {
        Ok(committed) => Ok(ApplyReport {
            run: recorder.run(),
            status: RunStatus::Committed,
            serial: Some(committed.serial),
            rows_opened: committed.rows_opened,
            rows_closed: committed.rows_closed,
            done_before: None,
        }),
        Err(error) => {
            // The objects are real by now: their record has to survive, and their rows stay reserved.
            let changed = execute::keep_record(ctx, recorder, &bench, &ready).await;
            let mut halt = Halt::from(error);
            halt.end.quarantine = changed;
            Err(Box::new(halt))
        }
    }
}
