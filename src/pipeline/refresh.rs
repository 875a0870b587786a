//! The refresh story: what differs in reality is taken into the trunk, under reservations, row by row.

use std::collections::BTreeSet;
use std::time::Duration;

use super::bench::Bench;
use super::record::Recorder;
use super::reserve::{self, Heartbeat};
use super::{Context, Project, leftover};
use crate::clock;
use crate::domain::address::{Address, Pattern};
use crate::domain::coordination::reservation::{Blocker, Claim};
use crate::domain::id::{RunId, Serial};
use crate::domain::run::{NewRun, RunEnd, RunKind, RunStatus};
use crate::domain::state::delta::{Change, delta};
use crate::domain::state::{Body, Row, document};
use crate::error::KlError;
use crate::report::event::Stage;
use crate::store::model::{Commit, CommitMode, LineageRule, RowWrite, Snapshot, SoftWrite, Source};
use crate::terraform::{ApplyRequest, PlanRequest};

/// How a refresh is to be done.
#[derive(Debug, Clone, Copy)]
pub struct RefreshOptions {
    /// Only look.
    pub dry_run: bool,
    /// The lease.
    pub lease: Duration,
    /// How long to wait in turn for the reservations.
    pub wait: Option<Duration>,
}

/// What a refresh came to.
#[derive(Debug, Clone, Default)]
pub struct RefreshReport {
    /// The run, when one was needed.
    pub run: Option<RunId>,
    /// Rows that differ in reality, each with whether it is gone there.
    pub drifted: Vec<(String, bool)>,
    /// The version that was made.
    pub serial: Option<Serial>,
    /// Rows that somebody else changed meanwhile: left alone.
    pub left: Vec<String>,
}

/// A refresh that was refused or failed.
#[derive(Debug)]
pub struct RefreshFailure {
    /// What stood in the way.
    pub blockers: Vec<Blocker>,
    /// What to tell.
    pub error: KlError,
}

impl<E: Into<KlError>> From<E> for RefreshFailure {
    fn from(error: E) -> Self {
        Self { blockers: Vec::new(), error: error.into() }
    }
}

/// Looks at the real objects, and commits what differs.
pub async fn refresh(
    ctx: &Context,
    project: &Project,
    options: &RefreshOptions,
) -> Result<RefreshReport, RefreshFailure> {
    leftover::sweep(ctx.store.as_ref()).await;
    let bench = Bench::prepare(ctx, project, None).await?;
    let Some(head) = ctx.store.state_find(&project.state).await? else {
        return Err(KlError::usage(format!("the database has no state {:?}", project.state.as_str()))
            .hint("plan and apply first, or import the state with `kl state import`")
            .into());
    };
    let snapshot = ctx.store.snapshot(head.id, None).await?;
    let before = snapshot.contents();
    let changes = look(ctx, &bench, &snapshot, &before).await?;
    let mut report = RefreshReport {
        drifted: changes.iter().map(|change| (change.key.to_string(), change.after.is_none())).collect(),
        ..RefreshReport::default()
    };
    if changes.is_empty() || options.dry_run {
        return Ok(report);
    }
    let claims: Vec<Claim> = {
        let patterns: BTreeSet<Pattern> = changes.iter().filter_map(|change| change.key.pattern()).collect();
        patterns.into_iter().map(Claim::write).collect()
    };
    let ctx = &ctx.patient(options.lease);
    let run = clock::new_run_id();
    let tools = bench.tools()?;
    ctx.store
        .run_start(&NewRun {
            id: run,
            state: head.id,
            kind: RunKind::Refresh,
            actor: ctx.actor.clone(),
            origin: ctx.origin.clone(),
            spec: None,
            source_serial: snapshot.head.serial,
            tools: tools.clone(),
            claims: claims.clone(),
        })
        .await?;
    report.run = Some(run);
    let recorder = Recorder::new(ctx.store.clone(), ctx.sink.clone(), run);
    let providers = tools.providers;
    match commit(ctx, &recorder, &claims, options, &snapshot, changes, providers, &mut report).await {
        Ok(()) => Ok(report),
        Err(failure) => {
            let status = if failure.blockers.is_empty() { RunStatus::Failed } else { RunStatus::Conflict };
            let end = RunEnd {
                error: Some(failure.error.on_record()),
                conflict: failure.blockers.clone(),
                ..RunEnd::plain(status)
            };
            drop(ctx.store.run_end(run, &end).await);
            Err(failure)
        }
    }
}

/// Plans and applies `-refresh-only` in the workspace: only its own copy of the state changes.
async fn look(ctx: &Context, bench: &Bench, snapshot: &Snapshot, before: &[Row]) -> Result<Vec<Change>, KlError> {
    bench.place(Some(snapshot), before.to_vec())?;
    ctx.begins(Stage::Plan).await?;
    let request = PlanRequest { refresh_only: true, ..bench.request() };
    let (plan, _) = bench.plan(&request, &ctx.stop).await?;
    let drifted: BTreeSet<String> = plan.resource_drift.iter().map(|change| change.address.clone()).collect();
    if drifted.is_empty() {
        return Ok(Vec::new());
    }
    ctx.begins(Stage::Analyse).await?;
    let apply = ApplyRequest { inputs: bench.ephemeral_inputs(), ..ApplyRequest::new(request.out.clone()) };
    let applied = bench.terraform().apply(bench.dirs(), &apply, &ctx.stop, &mut |_| {}).await;
    applied.map_err(|error| bench.without_secrets(error))?;
    let text = crate::workspace::read_settled(&bench.state_path())?.unwrap_or_default();
    let after = document::read(&text)?;
    let patterns: Vec<Pattern> =
        drifted.iter().filter_map(|address| Address::parse(address).ok()).map(Pattern::Resource).collect();
    // Only what drifted; outputs follow with the next apply that evaluates them.
    Ok(delta(before, &after.rows, &patterns, &BTreeSet::new())?.writes)
}

#[expect(clippy::too_many_arguments, reason = "the last step needs all that the ones before have found")]
async fn commit(
    ctx: &Context,
    recorder: &Recorder,
    claims: &[Claim],
    options: &RefreshOptions,
    snapshot: &Snapshot,
    changes: Vec<Change>,
    providers: std::collections::BTreeMap<String, String>,
    report: &mut RefreshReport,
) -> Result<(), RefreshFailure> {
    let held = match reserve::acquire(ctx, recorder, claims, options.lease, options.wait).await? {
        reserve::Outcome::Granted { held, .. } => held,
        reserve::Outcome::Blocked(refusal) => {
            refusal.remember(recorder, false).await?;
            return Err(RefreshFailure { error: refusal.error(), blockers: refusal.blockers });
        }
    };
    let _heartbeat = Heartbeat::start(ctx.store.clone(), recorder.clone(), &held, ctx.stop.clone());
    // The rows were looked at before they were reserved: only those that are still the same may be written.
    let soft = changes
        .into_iter()
        .map(|change| SoftWrite {
            expected: change.before.as_ref().map(Body::hash),
            write: RowWrite { key: change.key, body: change.after },
        })
        .collect();
    let commit = Commit {
        source: Source::Refresh,
        mode: CommitMode::Refresh,
        source_serial: snapshot.head.serial,
        lineage: LineageRule::OrNew(clock::new_lineage()),
        at_least: None,
        document: None,
        providers,
        writes: Vec::new(),
        soft,
        as_planned: None,
    };
    let committed = ctx.store.run_commit(&held, &commit).await?;
    report.serial = Some(committed.serial);
    report.left = committed.left.iter().map(ToString::to_string).collect();
    recorder.tell_all(&committed.events);
    Ok(())
}
