//! Taking over what a failed or lost run has really done, or dropping it (design §9).

mod rows;

use std::time::Duration;

use rows::{changed_by_others, reserved_by_others, writes};

use super::Context;
use super::evidence::{self, Evidence};
use super::leftover::{self, Leftover};
use super::record::Recorder;
use crate::clock;
use crate::domain::address::Pattern;
use crate::domain::id::{RunId, Serial};
use crate::domain::run::event::{ChangedRow, RunEvent};
use crate::domain::run::workplace::Workplace;
use crate::domain::run::{NewRun, Run, RunEnd, RunKind, RunStatus};
use crate::domain::state::document;
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::conflict;
use crate::store::model::{Checkpoint, Commit, CommitMode, LineageRule, RowWrite, SoftWrite, Source};
use crate::store::{Held, StoreError, Takeover};

/// The lease of a recovery on the way of an apply, at most: it takes seconds, and nobody should wait long for one that died.
const LEASE: Duration = Duration::from_mins(2);

/// What was recovered.
#[derive(Debug, Clone, Default)]
pub struct Recovered {
    /// The version that it made; none when the run had changed nothing.
    pub serial: Option<Serial>,
    /// Rows that got a new content, or are new.
    pub rows_opened: usize,
    /// Rows whose former content ended.
    pub rows_closed: usize,
    /// Rows that are new, changed, or gone, each counted once.
    pub rows_touched: usize,
    /// Objects that Terraform was working on when it was cut off.
    pub in_flight: Vec<String>,
    /// Among these, those that may exist without being in the state.
    pub unknown: Vec<String>,
    /// Rows that somebody else has changed since the run saw them: left as they are.
    pub left: Vec<ChangedRow>,
    /// Where Terraform may have gone on unseen.
    pub unseen: Option<Workplace>,
}

/// What came of recovering on the way, for an apply of the same spec.
pub enum Attempt {
    /// It was done, by this run or by another one.
    Done,
    /// Terraform still works for the run.
    TooEarly(KlError),
    /// A person has to look first.
    Refused(KlError),
}

/// Why a recovery did not happen.
enum Trouble {
    TooEarly(KlError),
    /// The quarantine is no longer there.
    Gone,
    Other(KlError),
}

impl<E: Into<KlError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// Commits what is known of an ended run, and frees its quarantine. Asked for by a person, who takes note of what is
/// not known. The lease is that of the rows while it commits.
pub async fn recover(ctx: &Context, failed: RunId, lease: Duration) -> Result<Recovered, KlError> {
    let old = ended(ctx, failed).await?;
    let evidence = match look(ctx, &old).await {
        Ok(evidence) => evidence,
        Err(trouble) => return Err(told(ctx, &old, trouble).await?),
    };
    match take(ctx, &old, evidence, lease).await {
        Ok(recovered) => Ok(recovered),
        Err(trouble) => Err(told(ctx, &old, trouble).await?),
    }
}

/// The same on the way of an apply of the same spec: only where nothing is left to be looked at.
pub async fn by_same_spec(ctx: &Context, failed: RunId, lease: Duration) -> Result<Attempt, KlError> {
    let old = ended(ctx, failed).await?;
    let evidence = match look(ctx, &old).await {
        Ok(evidence) => evidence,
        Err(Trouble::TooEarly(error)) => return Ok(Attempt::TooEarly(error)),
        Err(Trouble::Gone) => return Ok(Attempt::Done),
        Err(Trouble::Other(error)) => return Err(error),
    };
    if let Some(refusal) = needs_a_person(failed, &evidence) {
        return Ok(Attempt::Refused(refusal));
    }
    match take(ctx, &old, evidence, lease.min(LEASE)).await {
        // Another apply of the same spec was faster.
        Ok(_) | Err(Trouble::Gone) => Ok(Attempt::Done),
        Err(Trouble::TooEarly(error)) => Ok(Attempt::TooEarly(error)),
        Err(Trouble::Other(error)) => Err(error),
    }
}

/// Drops what an ended run left: its rows are free again, and its real objects are nobody's. An error where nothing is
/// left of it, or where a recovery has taken it over. Gives what it had reserved.
pub async fn discard(ctx: &Context, failed: RunId) -> Result<Vec<Pattern>, KlError> {
    let old = ended(ctx, failed).await?;
    let leftover = leftover::look(ctx, failed).await?;
    if let Leftover::Working(working) = &leftover
        && !working.is_a_rest()
    {
        return Err(working.refusal());
    }
    let left = reserved(ctx, &old).await?;
    let freed = ctx.store.quarantine_release(failed, &ctx.actor).await?;
    if freed == 0 && successor(ctx, &old).await?.is_some() {
        // What its directory tells is of use until the recovery is done.
        return Err(told(ctx, &old, Trouble::Gone).await?);
    }
    ctx.store.workplace_forget(failed).await?;
    if let Leftover::Here(here) = leftover {
        here.clear(ctx).await;
    }
    if freed == 0 {
        return Err(told(ctx, &old, Trouble::Gone).await?);
    }
    Ok(left)
}

/// What an ended run still reserves.
async fn reserved(ctx: &Context, old: &Run) -> Result<Vec<Pattern>, KlError> {
    let standing = ctx.store.reservation_list(old.state).await?;
    Ok(standing.into_iter().filter(|one| one.run == old.id).map(|one| one.claim.pattern).collect())
}

/// The run, which must have ended.
async fn ended(ctx: &Context, failed: RunId) -> Result<Run, KlError> {
    let old = ctx.store.run_find(failed).await?;
    if old.status.ended() {
        return Ok(old);
    }
    Err(KlError::usage(format!("run {failed} is still {}", old.status.word()))
        .hint(format!("wait for it, or end it with `kl abort {failed}` when its job is dead")))
}

async fn look(ctx: &Context, old: &Run) -> Result<Evidence, Trouble> {
    match leftover::look(ctx, old.id).await? {
        Leftover::Working(working) => Err(Trouble::TooEarly(working.refusal())),
        leftover => Ok(evidence::gather(ctx, old, leftover).await?),
    }
}

async fn told(ctx: &Context, old: &Run, trouble: Trouble) -> Result<KlError, KlError> {
    let failed = old.id;
    match trouble {
        Trouble::TooEarly(error) | Trouble::Other(error) => Ok(error),
        Trouble::Gone => Ok(match successor(ctx, old).await? {
            Some(run) if run.status.ended() => KlError::usage(format!(
                "run {} took over what run {failed} left, and failed before it was done",
                run.id
            ))
            .hint(format!("try again with `kl recover {}`", run.id)),
            Some(run) => KlError::new(
                Exit::Conflict,
                format!("run {} by {} is recovering what run {failed} left", run.id, run.actor),
            )
            .hint(format!(
                "wait for it; if it is dead, `kl abort {0}` ends it, and `kl recover {0}` goes on from there",
                run.id
            )),
            None => KlError::usage(format!(
                "run {failed} has no quarantine: it left nothing, or was recovered or discarded before"
            )),
        }),
    }
}

/// The recovery that has what a run left, and has not brought it into the trunk: as the timelines tell, from one that took
/// it over to the next.
async fn successor(ctx: &Context, old: &Run) -> Result<Option<Run>, KlError> {
    let mut last = None;
    let mut run = old.id;
    while let Some(by) = taken_over_by(ctx, run).await? {
        last = Some(by);
        run = by;
    }
    let Some(last) = last else { return Ok(None) };
    let standing = ctx.store.reservation_list(old.state).await?;
    if standing.iter().any(|reservation| reservation.run == last) {
        return Ok(Some(ctx.store.run_find(last).await?));
    }
    Ok(None)
}

async fn taken_over_by(ctx: &Context, run: RunId) -> Result<Option<RunId>, KlError> {
    let events = ctx.store.event_list(run).await?;
    Ok(events.into_iter().rev().find_map(|recorded| match recorded.event {
        RunEvent::TakenOver { by, .. } => Some(by),
        _ => None,
    }))
}

/// Why going on without a person could make an object a second time.
fn needs_a_person(failed: RunId, evidence: &Evidence) -> Option<KlError> {
    if let Some(Workplace { host, dir, .. }) = &evidence.unseen {
        let in_flight = evidence.checkpoint.iter().flat_map(|checkpoint| &checkpoint.in_flight).cloned();
        let in_flight: Vec<String> = in_flight.collect();
        let working_on =
            if in_flight.is_empty() { String::new() } else { format!("; it was working on {}", in_flight.join(", ")) };
        let message = format!(
            "run {failed} was cut off on {host}, and from here it cannot be seen what its Terraform did after that{working_on}"
        );
        let by_hand = if evidence.checkpoint.is_some() {
            format!(
                "or look at the provider, then `kl recover {failed}` takes over what is on record; import or delete what is not"
            )
        } else {
            format!(
                "nothing is on record: else look at the provider, import or delete what it made, then \
                 `kl recover {failed} --discard` frees the rows"
            )
        };
        return Some(
            KlError::new(Exit::Conflict, message)
                .hint(format!("its work directory is {dir} on {host}: an apply there finds out by itself"))
                .hint(by_hand),
        );
    }
    if evidence.unknown.is_empty() {
        return None;
    }
    let names = evidence.unknown.join(", ");
    Some(
        KlError::new(
            Exit::Conflict,
            format!("run {failed} was cut off while it created {names}: it may exist without being in the state"),
        )
        .hint(format!("look at the provider; `kl recover {failed}` takes over what is known"))
        .hint("then import the object or delete it: the next apply would create it a second time"),
    )
}

/// Takes the quarantine over and commits.
async fn take(ctx: &Context, old: &Run, evidence: Evidence, lease: Duration) -> Result<Recovered, Trouble> {
    let failed = old.id;
    let ctx = &ctx.patient(lease);
    let Evidence { checkpoint, unknown, unseen, unheard, here } = evidence;
    let Some(checkpoint) = checkpoint else {
        if unseen.is_none() && reserved(ctx, old).await?.is_empty() {
            return Err(Trouble::Gone);
        }
        let error = KlError::usage(format!("run {failed} left no checkpoint that could be recovered"));
        let error = match unseen {
            Some(Workplace { host, dir, .. }) => error.hint(format!(
                "its work directory was {dir} on {host}: should it be there still, `kl recover {failed}` there takes over \
                 what it tells"
            )),
            None => error,
        };
        return Err(Trouble::Other(
            error.hint(format!(
                "look at the real objects; `kl recover {failed} --discard` frees what it still reserves"
            )),
        ));
    };
    let run = clock::new_run_id();
    ctx.store
        .run_start(&NewRun {
            id: run,
            state: old.state,
            kind: RunKind::Recover,
            actor: ctx.actor.clone(),
            origin: ctx.origin.on_behalf_of(&old.origin),
            spec: old.spec,
            source_serial: old.source_serial,
            tools: old.tools.clone(),
            claims: Vec::new(),
        })
        .await?;
    let recorder = Recorder::new(ctx.store.clone(), ctx.sink.clone(), run);
    if here.is_some() {
        // What was found out must not be lost with this process.
        ctx.store.checkpoint_put(failed, &checkpoint).await?;
        ctx.store.event_append(failed, &unheard).await?;
    }
    let held = match ctx.store.quarantine_adopt(run, failed, lease).await {
        Ok(Takeover::Held(held)) => held,
        Ok(Takeover::Blocked(blockers)) => {
            let error = conflict::error(&blockers);
            let end = RunEnd {
                error: Some(conflict::title(&blockers)),
                conflict: blockers,
                ..RunEnd::plain(RunStatus::Conflict)
            };
            ctx.store.run_end(run, &end).await?;
            return Err(Trouble::Other(error));
        }
        Err(StoreError::NotFound { .. }) => {
            ctx.store.run_end(run, &RunEnd::failed("nothing to recover")).await?;
            return Err(Trouble::Gone);
        }
        Err(error) => {
            drop(ctx.store.run_end(run, &RunEnd::failed(error.to_string())).await);
            return Err(error.into());
        }
    };
    // The checkpoint went over with the rows: a crash from here on leaves this run lost, to be recovered the same way.
    match take_over(ctx, &recorder, &held, old, &checkpoint).await {
        Ok(recovered) => {
            drop(ctx.store.workplace_forget(failed).await);
            if let Some(here) = here {
                here.clear(ctx).await;
            }
            Ok(Recovered { in_flight: checkpoint.in_flight, unknown, unseen, ..recovered })
        }
        Err(error) => {
            let end = RunEnd { quarantine: vec![Pattern::Everything], ..RunEnd::failed(error.message()) };
            let ended = ctx.store.run_end(run, &end).await;
            let error = error.hint(format!("nothing was recovered yet; try again with `kl recover {run}`"));
            Err(Trouble::Other(match ended {
                Ok(()) => error,
                Err(_) => error.hint(format!("if that run is still live, end it first with `kl abort {run}`")),
            }))
        }
    }
}

/// Commits what the checkpoint holds, under the reservations that were taken over: each row only where the trunk still
/// has what the run saw.
async fn take_over(
    ctx: &Context,
    recorder: &Recorder,
    held: &Held,
    old: &Run,
    checkpoint: &Checkpoint,
) -> Result<Recovered, KlError> {
    let snapshot = ctx.store.snapshot(old.state, None).await?;
    let left_by_terraform = document::read(&checkpoint.state)?;
    let trunk = snapshot.rows.iter().map(|(row, _)| (&row.key, &row.body)).collect();
    // Where no state was ever read, nothing is known of what it would say: rows that it does not name are not gone.
    let writes =
        if checkpoint.state.is_empty() { Vec::new() } else { writes(&checkpoint.changed, &trunk, &left_by_terraform)? };
    let mut others = changed_by_others(ctx, old, checkpoint).await?;
    let (late, good): (Vec<RowWrite>, Vec<RowWrite>) =
        writes.into_iter().partition(|write| others.contains_key(&write.key));
    let mut left: Vec<ChangedRow> = late.iter().filter_map(|write| others.remove(&write.key)).collect();
    let mut recovered = Recovered::default();
    if good.is_empty() {
        ended_without_a_version(ctx, recorder, checkpoint, &left).await?;
        return Ok(Recovered { left, ..recovered });
    }
    let commit = Commit {
        source: Source::Recover,
        mode: CommitMode::Recover,
        source_serial: old.source_serial,
        lineage: LineageRule::OrNew(clock::new_lineage()),
        at_least: None,
        document: None,
        providers: old.tools.providers.clone(),
        writes: Vec::new(),
        soft: good
            .into_iter()
            .map(|write| SoftWrite { expected: trunk.get(&write.key).map(|body| body.hash()), write })
            .collect(),
        as_planned: None,
    };
    let committed = ctx.store.run_commit(held, &commit).await?;
    left.extend(reserved_by_others(ctx, old, &committed.left, snapshot.head.serial).await?);
    recovered.serial = Some(committed.serial);
    (recovered.rows_opened, recovered.rows_closed) = (committed.rows_opened, committed.rows_closed);
    recovered.rows_touched = committed.rows_touched;
    recorder.tell_all(&committed.events);
    // The version exists: a timeline that cannot be written does not make the recovery a failure.
    drop(tell(recorder, checkpoint, &left).await);
    Ok(Recovered { left, ..recovered })
}

async fn ended_without_a_version(
    ctx: &Context,
    recorder: &Recorder,
    checkpoint: &Checkpoint,
    left: &[ChangedRow],
) -> Result<(), KlError> {
    tell(recorder, checkpoint, left).await?;
    let reason = "there was nothing to take over".to_owned();
    recorder.record(RunEvent::Ended { status: RunStatus::Noop.word().to_owned(), reason: Some(reason) }).await?;
    Ok(ctx.store.run_end(recorder.run(), &RunEnd::plain(RunStatus::Noop)).await?)
}

/// Puts on the timeline what was not taken over.
async fn tell(recorder: &Recorder, checkpoint: &Checkpoint, left: &[ChangedRow]) -> Result<(), StoreError> {
    if !checkpoint.in_flight.is_empty() {
        recorder.record(RunEvent::InFlight { addresses: checkpoint.in_flight.clone() }).await?;
    }
    if !left.is_empty() {
        recorder.record(RunEvent::NotRecovered { rows: left.to_vec() }).await?;
    }
    Ok(())
}
