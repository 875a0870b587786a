//! Taking over what a failed or lost run has really done, or dropping it (design §9).

mod dead;
mod rows;
mod successor;
mod unsure;

use std::time::Duration;

use dead::{Ended, ended};
use rows::{changed_by_others, reserved_by_others, writes};
use successor::{successor, told};
use unsure::{created_unseen, needs_a_person, nothing_on_record};

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
    /// What stays reserved because that is on another machine, where it can be seen.
    pub kept: Vec<Pattern>,
}

/// What was dropped.
#[derive(Debug, Clone, Default)]
pub struct Dropped {
    /// What had been reserved.
    pub freed: Vec<Pattern>,
    /// Where Terraform may still be at work, as it cannot be seen from here.
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
    /// A person has to look first.
    Closed(KlError),
    Other(KlError),
}

impl<E: Into<KlError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// Commits what is known of an ended run, and frees its quarantine; not where more may be known to another machine. Asked
/// for by a person, who takes note of what is not known. The lease is that of the rows while it commits. A run that nobody has
/// ended, and whose kl is dead, is ended first; then nothing to recover is no error.
pub async fn recover(ctx: &Context, failed: RunId, lease: Duration) -> Result<Recovered, KlError> {
    let Ended { run: old, now } = ended(ctx, failed).await?;
    let evidence = match look(ctx, &old).await {
        Ok(evidence) => evidence,
        Err(trouble) => return Err(told(ctx, &old, trouble).await?),
    };
    match Box::pin(take(ctx, &old, evidence, lease, true)).await {
        Ok(recovered) => Ok(recovered),
        Err(Trouble::Gone) if now && successor(ctx, &old).await?.is_none() => Ok(Recovered::default()),
        Err(trouble) => Err(told(ctx, &old, trouble).await?),
    }
}

/// The same on the way of an apply of the same spec: only where nothing is left to be looked at.
pub async fn by_same_spec(ctx: &Context, failed: RunId, lease: Duration) -> Result<Attempt, KlError> {
    let old = ended(ctx, failed).await?.run;
    let evidence = match look(ctx, &old).await {
        Ok(evidence) => evidence,
        Err(Trouble::Closed(error)) => return Ok(Attempt::Refused(error)),
        Err(Trouble::TooEarly(error)) => return Ok(Attempt::TooEarly(error)),
        Err(Trouble::Gone) => return Ok(Attempt::Done),
        Err(Trouble::Other(error)) => return Err(error),
    };
    if let Some(refusal) = needs_a_person(failed, &evidence) {
        return Ok(Attempt::Refused(refusal));
    }
    // Boxed: an apply that waits for it need not be as large.
    match Box::pin(take(ctx, &old, evidence, lease.min(LEASE), false)).await {
        // Another apply of the same spec was faster.
        Ok(_) | Err(Trouble::Gone) => Ok(Attempt::Done),
        Err(Trouble::TooEarly(error)) => Ok(Attempt::TooEarly(error)),
        Err(Trouble::Closed(error) | Trouble::Other(error)) => Err(error),
    }
}

/// Drops what an ended run left: its rows are free again, and its real objects are nobody's. An error where nothing is
/// left of it, or where a recovery has taken it over.
pub async fn discard(ctx: &Context, failed: RunId) -> Result<Dropped, KlError> {
    let Ended { run: old, now } = ended(ctx, failed).await?;
    let leftover = match leftover::look(ctx, failed).await? {
        Leftover::Working(working) if !working.is_a_rest() => return Err(working.refusal()),
        Leftover::Closed(error) => return Err(error),
        leftover => leftover,
    };
    let left = reserved(ctx, &old, failed).await?;
    let freed = ctx.store.quarantine_release(failed, &ctx.actor).await?;
    if freed == 0 && successor(ctx, &old).await?.is_some() {
        // What its directory tells is of use until the recovery is done.
        return Err(told(ctx, &old, Trouble::Gone).await?);
    }
    ctx.store.workplace_forget(failed).await?;
    let unseen = match leftover {
        Leftover::Here(here) => {
            here.clear(ctx).await;
            None
        }
        Leftover::Elsewhere(place) => Some(place).filter(leftover::is_elsewhere),
        Leftover::Nothing | Leftover::Working(_) | Leftover::Closed(_) => None,
    };
    if freed == 0 && !now {
        return Err(told(ctx, &old, Trouble::Gone).await?);
    }
    Ok(Dropped { freed: left, unseen })
}

/// What an ended run, or its recovery, still reserves.
async fn reserved(ctx: &Context, old: &Run, run: RunId) -> Result<Vec<Pattern>, KlError> {
    let standing = ctx.store.reservation_list(old.state).await?;
    Ok(standing.into_iter().filter(|one| one.run == run).map(|one| one.claim.pattern).collect())
}

async fn look(ctx: &Context, old: &Run) -> Result<Evidence, Trouble> {
    match leftover::look(ctx, old.id).await? {
        Leftover::Working(working) => Err(Trouble::TooEarly(working.refusal())),
        Leftover::Closed(error) => Err(Trouble::Closed(error)),
        leftover => Ok(evidence::gather(ctx, old, leftover).await?),
    }
}

/// Takes the quarantine over and commits. A `person` takes note of what may exist unseen; without
/// one there must be no such thing.
async fn take(
    ctx: &Context,
    old: &Run,
    evidence: Evidence,
    lease: Duration,
    person: bool,
) -> Result<Recovered, Trouble> {
    let failed = old.id;
    let ctx = &ctx.patient(lease);
    let Evidence { checkpoint, news, unknown, unseen, unheard, here } = evidence;
    let Some(checkpoint) = checkpoint else {
        if unseen.is_none() && reserved(ctx, old, failed).await?.is_empty() {
            return Err(Trouble::Gone);
        }
        return Err(Trouble::Other(nothing_on_record(failed, unseen.as_ref())));
    };
    // What its machine alone can tell, or make yet, must stay reserved until it was asked.
    let kept = unseen.as_ref().is_some_and(leftover::is_elsewhere);
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
        // What was found out must not be lost with this process; and what came after a recovery elsewhere is kept again.
        ctx.store.quarantine_add(failed, &news, &checkpoint).await?;
        ctx.store.event_append(failed, &unheard).await?;
        ctx.store.workplace_forget(failed).await?;
    }
    let (held, copied) = match ctx.store.quarantine_adopt(run, failed, lease, kept).await {
        Ok(Takeover::Held { held, checkpoint }) => (held, checkpoint),
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
    let taken = async {
        // The run's own machine may have brought in a later one since this one was read.
        let (checkpoint, unknown) = match copied.filter(|copied| *copied != checkpoint) {
            Some(later) => {
                let unknown = evidence::on_record(ctx, old, Some(later.clone()), None).await?.unknown;
                (later, unknown)
            }
            None => (checkpoint, unknown),
        };
        if let Some(error) = created_unseen(run, &unknown).filter(|_| !person) {
            return Err(error);
        }
        let recovered = take_over(ctx, &recorder, &held, old, &checkpoint).await?;
        Ok(Recovered { in_flight: checkpoint.in_flight, unknown, ..recovered })
    };
    match taken.await {
        Ok(recovered) => {
            if let Some(here) = here {
                here.clear(ctx).await;
            }
            if unseen.is_some() && !kept {
                drop(ctx.store.workplace_forget(failed).await);
            }
            let kept = if kept { reserved(ctx, old, failed).await.unwrap_or_default() } else { Vec::new() };
            Ok(Recovered { unseen, kept, ..recovered })
        }
        Err(error) => {
            let (quarantine, next) = if kept { (Vec::new(), failed) } else { (vec![Pattern::Everything], run) };
            let end = RunEnd { quarantine, ..RunEnd::failed(error.message()) };
            let ended = ctx.store.run_end(run, &end).await;
            let left = reserved(ctx, old, run).await.unwrap_or_default();
            if ended.is_ok() && !left.is_empty() {
                let addresses = left.iter().map(ToString::to_string).collect();
                drop(recorder.record(RunEvent::Quarantined { addresses }).await);
            }
            let error = error.hint(format!("nothing was recovered yet; try again with `kl recover {next}`"));
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
