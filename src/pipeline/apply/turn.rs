//! An apply gets its turn: its reservations, beside runs with the same versions alone, with what an earlier apply of the same
//! spec has left recovered on the way.

use std::collections::BTreeSet;
use std::time::Instant;

use super::ApplyOptions;
use super::halt::Halt;
use crate::domain::coordination::reservation::{Blocker, HeldAs};
use crate::domain::id::RunId;
use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::event::RunEvent;
use crate::domain::run::{RunEnd, RunStatus, Tools};
use crate::error::KlError;
use crate::pipeline::record::Recorder;
use crate::pipeline::recover::{self, Attempt};
use crate::pipeline::reserve::{self, Refusal};
use crate::pipeline::{Context, Project, leftover};
use crate::report::event::Stage;
use crate::store::Held;

/// Gets the reservations. What an earlier apply of the same spec left behind is recovered on the way.
pub(super) async fn reserved(
    ctx: &Context,
    recorder: &Recorder,
    project: &Project,
    spec: &PlanSpec,
    options: &ApplyOptions,
) -> Result<Held, Box<Halt>> {
    let claims = spec.claims();
    let mut recovered: Vec<RunId> = Vec::new();
    let started = Instant::now();
    let mut looked = false;
    loop {
        // A first look that waits for nobody: what has died on this machine would be waited for until its lease is over.
        let wait = options.wait.map(|wait| wait.saturating_sub(started.elapsed())).filter(|_| looked);
        let first = !std::mem::replace(&mut looked, true);
        match reserve::acquire(ctx, recorder, &claims, options.lease, wait).await? {
            reserve::Outcome::Granted { held, tools_beside } => {
                same_versions(recorder, project, spec, &tools_beside).await?;
                return Ok(held);
            }
            reserve::Outcome::Blocked(refusal) => {
                let own = own_leftover(ctx, spec, &refusal.blockers, &recovered).await?;
                let Some(leftover) = own else {
                    if first && options.wait.is_some() {
                        continue;
                    }
                    refusal.remember(recorder, options.dry_run).await?;
                    return Err(Box::new(conflicted(refusal)));
                };
                ctx.begins(Stage::Recover).await?;
                loop {
                    match recover::by_same_spec(ctx, leftover, options.lease).await? {
                        Attempt::Done => break,
                        // Its Terraform comes to an end by itself, and that is worth waiting for.
                        Attempt::TooEarly(error) => {
                            let left = options.wait.unwrap_or_default().saturating_sub(started.elapsed());
                            if left.is_zero() {
                                return Err(Box::new(in_the_way(refusal.blockers, error)));
                            }
                            reserve::pause(ctx, left).await?;
                        }
                        Attempt::Refused(error) => return Err(Box::new(in_the_way(refusal.blockers, error))),
                    }
                }
                recovered.push(leftover);
            }
        }
    }
}

/// A run of the same spec that is in the way with its quarantine, or whose kl has died on this machine; unless somebody else's
/// quarantine is, too: that one does not end by waiting. Others that are at work are waited for afterwards.
async fn own_leftover(
    ctx: &Context,
    spec: &PlanSpec,
    blockers: &[Blocker],
    recovered: &[RunId],
) -> Result<Option<RunId>, KlError> {
    let mut found = None;
    let mut seen = BTreeSet::new();
    for blocker in blockers.iter().filter(|blocker| seen.insert(blocker.reservation.run)) {
        let run = blocker.reservation.run;
        let own = !recovered.contains(&run) && ctx.store.run_find(run).await?.spec == Some(spec.id);
        match blocker.reservation.held_as {
            HeldAs::Quarantine if !own => return Ok(None),
            HeldAs::Run if !own || !leftover::is_dead_here(&*ctx.store, run).await? => {}
            HeldAs::Lock => {}
            HeldAs::Quarantine | HeldAs::Run => {
                found.get_or_insert(run);
            }
        }
    }
    Ok(found)
}

fn conflicted(refusal: Refusal) -> Halt {
    let error = refusal.error();
    let end = RunEnd { error: Some(refusal.title()), conflict: refusal.blockers, ..RunEnd::plain(RunStatus::Conflict) };
    Halt::new(end, error)
}

/// The run of the same spec that is in the way cannot be recovered on the way.
fn in_the_way(blockers: Vec<Blocker>, error: KlError) -> Halt {
    let end =
        RunEnd { error: Some(error.message().to_owned()), conflict: blockers, ..RunEnd::plain(RunStatus::Conflict) };
    Halt::new(end, error)
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
pub(super) fn version_differences(before: &Tools, now: &Tools) -> Vec<String> {
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
