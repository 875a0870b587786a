//! The apply story (design §7): load, stale check, reserve, plan again and compare, apply, commit.

use std::time::{Duration, Instant};

use super::bench::Bench;
use super::commit::{self, Outcome};
use super::execute::{self, LaneChoice, Rehearsal};
use super::record::Recorder;
use super::recover::{self, Attempt};
use super::reserve::{self, Heartbeat, Loss};
use super::stale::{self, Verdict};
use super::{Context, Project, Rules, inputs, leftover};
use crate::clock;
use crate::config::policy::OnFailure;
use crate::domain::coordination::reservation::{Blocker, HeldAs};
use crate::domain::coordination::slice;
use crate::domain::id::{RunId, Serial};
use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::event::RunEvent;
use crate::domain::run::{NewRun, RunEnd, RunKind, RunStatus, Tools};
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::conflict;
use crate::report::event::Stage;
use crate::store::model::StateHead;
use crate::store::{Held, StoreError};

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

/// How a story inside a run ends early.
struct Halt {
    end: RunEnd,
    error: KlError,
}

impl<E: Into<KlError>> From<E> for Halt {
    fn from(error: E) -> Self {
        let error = error.into();
        let status = match error.exit() {
            Exit::Stale => RunStatus::Stale,
            _ => RunStatus::Failed,
        };
        let end = RunEnd { error: Some(error.on_record()), ..RunEnd::plain(status) };
        Self { end, error }
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
    let head = check_fit(ctx, project, spec, rules).await?;
    let ctx = &ctx.patient(options.lease);
    let run = clock::new_run_id();
    let tools = Tools { version: project.terraform.version().to_string(), ..spec.tools.clone() };
    ctx.store
        .run_start(&NewRun {
            id: run,
            state: head.id,
            kind: RunKind::Apply,
            actor: ctx.actor.clone(),
            origin: ctx.origin.clone(),
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

/// `on_failure: salvage`: what terraform has done is committed at once, unless a person has to look first.
async fn salvaged(ctx: &Context, run: RunId, lease: Duration, mut failure: ApplyFailure) -> ApplyFailure {
    let attempt = async {
        ctx.begins(Stage::Recover).await?;
        recover::by_same_spec(ctx, run, lease).await
    };
    failure.error = match attempt.await {
        Ok(recover::Attempt::Done) => failure
            .error
            .without_hints()
            .hint("what terraform had done is in the state, as `on_failure: salvage` says; plan again for the rest"),
        Ok(recover::Attempt::TooEarly(why) | recover::Attempt::Refused(why)) | Err(why) => {
            failure.error.hint(format!("what terraform had done could not be salvaged: {}", why.message()))
        }
    };
    failure
}

/// Asks Terraform to stop when the time is over, and waits for the story to come to its end.
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
    story.await
}

/// Ends the run as the halt says. A store that cannot be reached now leaves the lease to run out.
async fn finish(ctx: &Context, recorder: &Recorder, halt: Halt) -> ApplyFailure {
    let Halt { end, mut error } = halt;
    if !end.quarantine.is_empty() {
        let addresses = end.quarantine.iter().map(ToString::to_string).collect();
        drop(recorder.record(RunEvent::Quarantined { addresses }).await);
        let run = recorder.run();
        error = error
            .hint(format!(
                "`kl recover {run}` takes over what terraform has done; `kl recover {run} --discard` drops it"
            ))
            .hint("applying the same spec again recovers first and goes on from there");
    }
    let event = RunEvent::Ended { status: end.status.word().to_owned(), reason: end.error.clone() };
    drop(recorder.record(event).await);
    if let Err(trouble) = ctx.store.run_end(recorder.run(), &end).await {
        error = error.hint(format!(
            "the run could not be closed ({trouble}); its reservations end with the lease, or with `kl abort {}`",
            recorder.run()
        ));
    }
    ApplyFailure { run: Some(recorder.run()), blockers: end.conflict, error }
}

/// Whether the spec fits the state at all; nothing is recorded before.
async fn check_fit(ctx: &Context, project: &Project, spec: &PlanSpec, rules: &Rules) -> Result<StateHead, KlError> {
    if spec.state.name != project.state {
        return Err(KlError::usage(format!(
            "the spec is for state {:?}, and this directory has state {:?}",
            spec.state.name.as_str(),
            project.state.as_str()
        ))
        .hint("apply the spec in the directory that it was planned in, or name the state with --state"));
    }
    rules.check_destroy(spec)?;
    missing_variables(project, spec)?;
    inputs::check(project)?;
    let stored = ctx.store.spec_find(spec.id).await.map_err(|error| match error {
        StoreError::NotFound { .. } => KlError::usage(format!("the database does not know the spec {}", spec.id))
            .hint("use the database that the plan was made with (--database, KL_DATABASE_URL)"),
        other => other.into(),
    })?;
    if stored.spec.digest != spec.digest {
        return Err(KlError::usage("the spec file differs from the spec that is stored in the database")
            .hint("run `kl plan` again; a spec is not to be edited"));
    }
    let Some(head) = ctx.store.state_find(&spec.state.name).await? else {
        return Err(KlError::usage(format!("the database has no state {:?}", spec.state.name.as_str())));
    };
    if let (Some(planned), Some(actual)) = (&spec.state.lineage, &head.lineage)
        && planned != actual
    {
        return Err(KlError::usage(format!(
            "the spec was planned for lineage {planned}, and state {:?} has lineage {actual}",
            head.name.as_str()
        ))
        .hint("this is another state under the same name; plan again"));
    }
    if spec.state.serial > head.serial {
        return Err(KlError::usage(format!(
            "the spec was planned at serial {}, and state {:?} is only at serial {}",
            spec.state.serial,
            head.name.as_str(),
            head.serial
        ))
        .hint("is this the database that the plan was made with?"));
    }
    if let Some(limit) = rules.max_plan_age {
        let age = crate::report::style::between(stored.created_at, ctx.store.now().await?);
        if age > limit {
            return Err(KlError::new(
                Exit::Stale,
                format!(
                    "the plan is {} old, and max_plan_age is {}",
                    crate::report::style::duration(age),
                    crate::report::style::duration(limit)
                ),
            )
            .hint("run `kl plan` again and have the new plan reviewed"));
        }
    }
    Ok(head)
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
    if let Some(version) = stale::applied_before(ctx, head.id, spec).await? {
        let before = DoneBefore { serial: version.serial, run: version.run, recovered: false };
        return nothing_left(ctx, recorder, Some(before)).await;
    }
    // Refused early where it can be, before anybody is kept waiting; what counts is the check under the reservation.
    let early = stale::since(&*ctx.store, head.id, spec).await?;
    if !early.fresh() {
        checked(recorder, early, rules).await?;
    }
    let held = reserved(ctx, recorder, project, spec, options).await?;
    let heartbeat = Heartbeat::start(ctx.store.clone(), recorder.clone(), &held, ctx.stop.interrupt.clone());
    let result = under_reservation(ctx, recorder, project, spec, rules, options, &held).await;
    if let Err(halt) = result {
        if let Some(loss) = heartbeat.lost() {
            let message = match loss {
                Loss::Aborted => "the run was aborted from outside, so nothing was committed",
                Loss::Taken => "the lease was lost: another run has taken the reservations, so nothing was committed",
                Loss::RanOut => {
                    "the lease ran out while the database gave no answer, so terraform was stopped and nothing was committed"
                }
            };
            let error = KlError::failed(message).because(halt.error.chain()).hint("apply the spec again");
            return Err(Box::new(Halt { error, ..*halt }));
        }
        return Err(halt);
    }
    result
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

/// Gets the reservations. What an earlier apply of the same spec left behind is recovered on the way.
async fn reserved(
    ctx: &Context,
    recorder: &Recorder,
    project: &Project,
    spec: &PlanSpec,
    options: &ApplyOptions,
) -> Result<Held, Box<Halt>> {
    let claims = spec.claims();
    let mut recovered: Vec<RunId> = Vec::new();
    let started = Instant::now();
    loop {
        match reserve::acquire(ctx, recorder, &claims, options.lease, options.wait).await? {
            reserve::Outcome::Granted { held, tools_beside } => {
                same_versions(recorder, project, spec, &tools_beside).await?;
                return Ok(held);
            }
            reserve::Outcome::Blocked(blockers) => {
                let own = own_leftover(ctx, spec, &blockers, &recovered).await?;
                let Some(leftover) = own else {
                    return Err(Box::new(conflicted(blockers)));
                };
                ctx.begins(Stage::Recover).await?;
                loop {
                    match recover::by_same_spec(ctx, leftover, options.lease).await? {
                        Attempt::Done => break,
                        // Its Terraform comes to an end by itself, and that is worth waiting for.
                        Attempt::TooEarly(error) => {
                            let left = options.wait.unwrap_or_default().saturating_sub(started.elapsed());
                            if left.is_zero() {
                                return Err(Box::new(in_the_way(blockers, error)));
                            }
                            reserve::pause(ctx, left).await?;
                        }
                        Attempt::Refused(error) => return Err(Box::new(in_the_way(blockers, error))),
                    }
                }
                recovered.push(leftover);
            }
        }
    }
}

/// The run of the same spec whose quarantine is in the way, if that is all that is.
async fn own_leftover(
    ctx: &Context,
    spec: &PlanSpec,
    blockers: &[Blocker],
    recovered: &[RunId],
) -> Result<Option<RunId>, KlError> {
    let mut found = None;
    for blocker in blockers {
        let run = blocker.reservation.run;
        if blocker.reservation.held_as != HeldAs::Quarantine || recovered.contains(&run) {
            return Ok(None);
        }
        if ctx.store.run_find(run).await?.spec != Some(spec.id) {
            return Ok(None);
        }
        found.get_or_insert(run);
    }
    Ok(found)
}

fn conflicted(blockers: Vec<Blocker>) -> Halt {
    let error = conflict::error(&blockers);
    let end =
        RunEnd { error: Some(conflict::title(&blockers)), conflict: blockers, ..RunEnd::plain(RunStatus::Conflict) };
    Halt { end, error }
}

/// The run of the same spec that is in the way cannot be recovered on the way.
fn in_the_way(blockers: Vec<Blocker>, error: KlError) -> Halt {
    let end =
        RunEnd { error: Some(error.message().to_owned()), conflict: blockers, ..RunEnd::plain(RunStatus::Conflict) };
    Halt { end, error }
}

/// Two runs in flight on one state use the same versions, or their rows would not fit together (design §7).
async fn same_versions(
    recorder: &Recorder,
    project: &Project,
    spec: &PlanSpec,
    beside: &[(RunId, Tools)],
) -> Result<(), KlError> {
    let ours = Tools { version: project.terraform.version().to_string(), ..spec.tools.clone() };
    for (other, theirs) in beside.iter().filter(|(other, _)| *other != recorder.run()) {
        let differences = version_differences(theirs, &ours);
        if !differences.is_empty() {
            recorder.record(RunEvent::VersionsDiffer { differences: differences.clone() }).await?;
            return Err(KlError::usage(format!(
                "run {other} is in flight on this state with other versions: {}",
                differences.join(", ")
            ))
            .hint("use the same versions, or try again when that run is done"));
        }
    }
    Ok(())
}

/// What differs between two sets of versions, for what both know.
fn version_differences(before: &Tools, now: &Tools) -> Vec<String> {
    let mut differences = Vec::new();
    if !before.version.is_empty() && (before.version != now.version || before.program != now.program) {
        differences.push(format!("{} {} and not {} {}", before.program, before.version, now.program, now.version));
    }
    for (provider, version) in &before.providers {
        if let Some(other) = now.providers.get(provider).filter(|other| *other != version) {
            differences.push(format!("{provider} {version} and not {other}"));
        }
    }
    differences
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
    let staleness = stale::since(&*ctx.store, held.state(), spec).await?;
    let stale = !staleness.fresh();
    checked(recorder, staleness, rules).await?;
    if options.dry_run {
        return ended(ctx, recorder, RunStatus::DryRun, None).await;
    }
    let snapshot = ctx.store.snapshot(held.state(), None).await?;
    leftover::sweep(ctx.store.as_ref()).await;
    // Boxed, as the two large ones below: what waits for them need not be as large as they are.
    let bench = Box::pin(Bench::prepare(ctx, project)).await?;
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
    let done = recover::done_by_same_spec(ctx, held.state(), spec).await?;
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
    if stale {
        recorder.record(RunEvent::Revalidated { relation: ready.relation.word().to_owned() }).await?;
    }
    if ready.nothing_left {
        let before = done.last.map(|(serial, run)| DoneBefore { serial, run, recovered: true });
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

async fn after_failure(recorder: &Recorder, broken: execute::Broken) -> Halt {
    let mut halt = Halt::from(broken.error);
    if !broken.in_flight.is_empty() {
        drop(recorder.record(RunEvent::InFlight { addresses: broken.in_flight }).await);
    }
    halt.end.quarantine = broken.changed;
    halt
}

/// Variables that were given at the plan are needed again: their values are in no spec.
fn missing_variables(project: &Project, spec: &PlanSpec) -> Result<(), KlError> {
    let given = |name: &String| project.variables.iter().any(|variable| variable.name == *name);
    let missing: Vec<&str> = spec.project.variables.iter().filter(|name| !given(name)).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(KlError::usage(format!("the plan was made with --var for {}; the apply needs the same", missing.join(", ")))
        .hint(format!("add --var {}=VALUE; a spec never holds values", missing[0])))
}

impl<E: Into<KlError>> From<E> for Box<Halt> {
    fn from(error: E) -> Self {
        Box::new(Halt::from(error))
    }
}
