//! A change of rows that needs no Terraform: worked out, reserved, worked out again, committed, and on record as a run.

use std::time::{Duration, Instant};

use super::Context;
use super::record::Recorder;
use super::reserve;
use crate::clock;
use crate::domain::coordination::claim_index::ClaimIndex;
use crate::domain::coordination::reservation::{Blocker, Claim};
use crate::domain::id::RunId;
use crate::domain::run::event::RunEvent;
use crate::domain::run::{NewRun, RunEnd, RunKind, RunStatus, Tools};
use crate::error::KlError;
use crate::store::Held;
use crate::store::model::{Commit, Committed, Snapshot, StateHead};

/// So often an errand is worked out again because somebody else has committed meanwhile.
const TRIES: usize = 10;

/// How an errand is carried out.
#[derive(Debug, Clone, Copy)]
pub struct Errand {
    /// What for.
    pub kind: RunKind,
    /// The lease of its reservations.
    pub lease: Duration,
    /// How long to wait in turn for them.
    pub wait: Option<Duration>,
}

/// What an errand comes to on a trunk.
#[derive(Debug, Clone)]
pub struct Change {
    /// What has to be reserved for it.
    pub claims: Vec<Claim>,
    /// What is said of it on the run's timeline, before it is done.
    pub announced: Option<RunEvent>,
    /// What is committed.
    pub commit: Commit,
}

/// Carries out a change. `work_out` says what it is on a trunk, none when there is nothing to do: it is asked before
/// anything is reserved, and again with everything reserved. Gives the run and what it committed; none when there was
/// nothing to do.
pub async fn carry_out(
    ctx: &Context,
    head: &StateHead,
    errand: Errand,
    mut work_out: impl AsyncFnMut(&Snapshot) -> Result<Option<Change>, KlError>,
) -> Result<Option<(RunId, Committed)>, KlError> {
    let ctx = &ctx.patient(errand.lease);
    let snapshot = ctx.store.snapshot(head.id, None).await?;
    let Some(change) = work_out(&snapshot).await? else { return Ok(None) };
    let run = clock::new_run_id();
    ctx.store
        .run_start(&NewRun {
            id: run,
            state: head.id,
            kind: errand.kind,
            actor: ctx.actor.clone(),
            origin: ctx.origin.clone(),
            spec: None,
            source_serial: snapshot.head.serial,
            tools: Tools::default(),
            claims: change.claims.clone(),
        })
        .await?;
    let recorder = Recorder::new(ctx.store.clone(), ctx.sink.clone(), run);
    let end = match reserved(ctx, &recorder, head, errand, change, &mut work_out).await {
        Ok(Some(committed)) => return Ok(Some((run, committed))),
        Ok(None) => {
            ctx.store.run_end(run, &RunEnd::plain(RunStatus::Noop)).await?;
            return Ok(None);
        }
        Err(failure) => failure,
    };
    let (error, blockers) = end;
    let status = if blockers.is_empty() { RunStatus::Failed } else { RunStatus::Conflict };
    let end = RunEnd { error: Some(error.on_record()), conflict: blockers, ..RunEnd::plain(status) };
    drop(ctx.store.run_end(run, &end).await);
    Err(error)
}

type Failure = (KlError, Vec<Blocker>);

fn plain(error: impl Into<KlError>) -> Failure {
    (error.into(), Vec::new())
}

async fn reserved(
    ctx: &Context,
    recorder: &Recorder,
    head: &StateHead,
    errand: Errand,
    first: Change,
    work_out: &mut impl AsyncFnMut(&Snapshot) -> Result<Option<Change>, KlError>,
) -> Result<Option<Committed>, Failure> {
    let mut claims = first.claims;
    let started = Instant::now();
    for _ in 0..TRIES {
        let wait = errand.wait.map(|wait| wait.saturating_sub(started.elapsed()));
        let held = acquire(ctx, recorder, &claims, Errand { wait, ..errand }).await?;
        let snapshot = ctx.store.snapshot(head.id, None).await.map_err(plain)?;
        let Some(change) = work_out(&snapshot).await.map_err(plain)? else { return Ok(None) };
        // Somebody else may have been first, and what there is to do may be more by that.
        let index = ClaimIndex::new(&claims);
        let covered = |claim: &Claim| index.meeting(&claim.pattern).any(|own| own.pattern.covers(&claim.pattern));
        let more: Vec<Claim> = change.claims.iter().filter(|claim| !covered(claim)).cloned().collect();
        if more.is_empty() {
            return commit(ctx, recorder, &held, change).await.map(Some);
        }
        claims.extend(more);
        if errand.wait.is_some() {
            // Whoever waits holds nothing: nobody renews its lease, and two could wait for each other.
            ctx.store.reservation_return(held).await.map_err(plain)?;
        }
    }
    Err(plain(
        KlError::failed("others commit faster than this could be worked out; nothing was changed").hint("try again"),
    ))
}

async fn acquire(ctx: &Context, recorder: &Recorder, claims: &[Claim], errand: Errand) -> Result<Held, Failure> {
    match reserve::acquire(ctx, recorder, claims, errand.lease, errand.wait).await.map_err(plain)? {
        reserve::Outcome::Granted { held, .. } => Ok(held),
        reserve::Outcome::Blocked(refusal) => {
            refusal.remember(recorder, false).await.map_err(plain)?;
            Err((refusal.error(), refusal.blockers))
        }
    }
}

async fn commit(ctx: &Context, recorder: &Recorder, held: &Held, change: Change) -> Result<Committed, Failure> {
    if let Some(event) = change.announced {
        recorder.record(event).await.map_err(plain)?;
    }
    let committed = ctx.store.run_commit(held, &change.commit).await.map_err(plain)?;
    recorder.tell_all(&committed.events);
    Ok(committed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::address::Pattern;
    use crate::domain::coordination::reservation::Claim;
    use crate::domain::id::{Actor, StateName};
    use crate::domain::run::Origin;
    use crate::mishap::Mishaps;
    use crate::pipeline::Caller;
    use crate::report::event::{Progress, Sink};
    use crate::store::model::{CommitMode, LineageRule, Source};
    use crate::store::{Acquired, Ask, DatabaseUrl};
    use crate::terraform::Stop;

    struct Deaf;

    impl Sink for Deaf {
        fn emit(&self, _: &Progress) {}
    }

    fn writes(addresses: &[&str]) -> Vec<Claim> {
        addresses.iter().map(|address| Claim::write(Pattern::parse(address).unwrap())).collect()
    }

    fn nothing() -> Commit {
        Commit {
            source: Source::Remove,
            mode: CommitMode::RowDelta,
            source_serial: crate::domain::id::Serial(0),
            lineage: LineageRule::OrNew(clock::new_lineage()),
            at_least: None,
            document: None,
            as_planned: None,
            providers: [].into(),
            writes: Vec::new(),
            soft: Vec::new(),
        }
    }

    /// Bob waits for the errand's row and stands before it for the row that it finds it needs as well.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_errand_that_has_to_wait_for_more_gives_back_what_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let url = DatabaseUrl::sqlite(dir.path().join("kl.db").to_str().unwrap());
        let store = crate::store::open(&url).await.unwrap();
        let caller = Caller {
            sink: Arc::new(Deaf),
            actor: Actor("alice".to_owned()),
            origin: Origin::default(),
            stop: Stop::never(),
            mishaps: Mishaps::default(),
            database: std::sync::Arc::default(),
        };
        let ctx = caller.with(store);
        let head = ctx.store.state_ensure(&StateName::new("prod").unwrap()).await.unwrap();
        let bob = NewRun {
            id: clock::new_run_id(),
            state: head.id,
            kind: RunKind::Apply,
            actor: Actor("bob".to_owned()),
            origin: Origin::default(),
            spec: None,
            source_serial: head.serial,
            tools: Tools::default(),
            claims: Vec::new(),
        };
        ctx.store.run_start(&bob).await.unwrap();
        let lease = Duration::from_mins(15);
        let ask = Ask { run: bob.id, claims: writes(&["a.x", "a.y"]), lease, queue: true };
        let mut asked = 0;
        let (store, again) = (ctx.store.clone(), ask.clone());
        let mut served = None;
        let errand = Errand { kind: RunKind::Remove, lease, wait: Some(Duration::from_mins(1)) };
        let done = carry_out(&ctx, &head, errand, async |_: &Snapshot| {
            asked += 1;
            if asked == 2 {
                let refused = store.reservation_acquire(&ask).await?;
                assert!(matches!(refused, Acquired::Blocked { .. }), "{refused:?}");
                let (store, again) = (store.clone(), again.clone());
                served = Some(tokio::spawn(async move {
                    loop {
                        if let Acquired::Granted { held, .. } = store.reservation_acquire(&again).await.unwrap() {
                            break store.run_commit(&held, &nothing()).await.unwrap();
                        }
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }));
            }
            let claims = writes(if asked < 2 { &["a.x"] } else { &["a.x", "a.y"] });
            Ok(Some(Change { claims, announced: None, commit: nothing() }))
        })
        .await
        .unwrap();
        let first = served.unwrap().await.unwrap().serial;
        let (run, committed) = done.unwrap();
        assert_eq!(committed.serial, first.next());
        assert_eq!(ctx.store.run_find(run).await.unwrap().status, RunStatus::Committed);
    }
}
