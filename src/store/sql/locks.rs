//! The whole-state locks of plain Terraforms: each is the reservation of a run, without a lease, or a place in the queue
//! while others are in the way.

use chrono::{DateTime, Utc};
use sqlx::{query, query_scalar};

use super::{Connection, bulk, commit, ending, reservations, runs, states, timeline};
use crate::domain::address::Pattern;
use crate::domain::coordination::lock::{LockId, LockInfo};
use crate::domain::coordination::reservation::{Blocker, Claim, HeldAs, blockers};
use crate::domain::id::{Actor, RunId, Serial, StateId};
use crate::domain::run::event::{Holder, RunEvent};
use crate::domain::run::{NewRun, RunEnd, RunStatus};
use crate::store::decide::{self, Unreleased};
use crate::store::fault::Fault;
use crate::store::model::{Commit, Committed, LockEnd, LockFreed, LockOnce, LockTaken, LockWrite, PlainLock};
use crate::store::values::{Id, JsonText, Time};
use crate::store::{QUEUE_TTL, StoreError, codec};

pub(super) async fn take(db: &mut Connection, new: &NewRun, info: &LockInfo, queue: bool) -> Result<LockTaken, Fault> {
    let head = states::lock(db, new.state).await?;
    let state = head.id;
    let now = states::now(db).await?;
    let (left, found) = decide::left_queue(reservations::standing(db, state).await?, now);
    gave_up(db, &left).await?;
    let held = held(db, &found).await?;
    if let Some(lock) = held.as_ref().filter(|lock| lock.id == info.id) {
        return Ok(LockTaken::Granted(lock.run));
    }
    let place = place(db, state, &info.id, &found).await?;
    let run = place.as_ref().map_or(new.id, |place| place.reservation.run);

    let claims = [Claim::write(Pattern::Everything)];
    let losers = reservations::reclaim(db, &decide::ended_in_the_way(run, &claims, &found, now), &found).await?;
    let found = if losers.is_empty() { found } else { reservations::standing(db, state).await? };
    // Everybody who waits now asked before somebody who has no place in the queue.
    let ticket = place.as_ref().map_or(i64::MAX, |place| place.reservation.ticket);
    let in_the_way = blockers(run, ticket, &claims, &decide::reservations(&found), now);
    // A quarantine ends when a person ends it: whoever waited for that in the queue would keep everybody out until then.
    let for_a_person = in_the_way.iter().any(|one| one.reservation.held_as == HeldAs::Quarantine);
    let refused = !in_the_way.is_empty();
    // Whoever is refused at once leaves no run that could be named.
    let known = !refused || place.is_some() || (queue && !for_a_person);
    let mut reclaimed = Vec::new();
    for (loser, left) in losers {
        let to = known.then(|| Holder { run, actor: new.actor.clone() });
        ending::lost(db, loser, to, refused, left).await?;
        reclaimed.push(RunEvent::Reclaimed { from: loser, refused });
    }
    if refused {
        let until = reservations::after(now, QUEUE_TTL);
        match &place {
            Some(place) if for_a_person => {
                waits(db, run, &in_the_way).await?;
                bulk::release(db, &[place.id]).await?;
                let error = "what is in quarantine stands in the way, and waiting does not end that";
                gives_up(db, run, in_the_way.clone(), error).await?;
            }
            Some(place) => {
                set_place(db, place.id, None, Some(until)).await?;
                waits(db, run, &in_the_way).await?;
            }
            None if queue && !for_a_person => {
                insert(db, new, info, "waiting", now, None, Some(until)).await?;
                waits(db, run, &in_the_way).await?;
            }
            None => {}
        }
        if known {
            timeline::append(db, run, &reclaimed).await?;
        }
        return Ok(LockTaken::Blocked { blockers: in_the_way, lock: held });
    }

    match &place {
        Some(place) => {
            set_place(db, place.id, Some(now), None).await?;
            runs::set_status(db, run, RunStatus::Reserved).await?;
            // Terraform reads the state only now, and others have written while it waited.
            query("UPDATE runs SET source_serial = $2 WHERE id = $1")
                .bind(Id(run.0))
                .bind(head.serial.0)
                .execute(&mut *db)
                .await?;
        }
        None => insert(db, new, info, "reserved", now, Some(now), None).await?,
    }
    let mut events = reclaimed;
    events.push(RunEvent::Locked {
        id: info.id.0.clone(),
        operation: codec::plain(&info.operation),
        who: codec::plain(&info.who),
    });
    timeline::append(db, run, &events).await?;
    Ok(LockTaken::Granted(run))
}

/// Records a run with its reservation, granted or in the queue.
async fn insert(
    db: &mut Connection,
    new: &NewRun,
    info: &LockInfo,
    status: &str,
    asked_at: DateTime<Utc>,
    acquired_at: Option<DateTime<Utc>>,
    expires_at: Option<DateTime<Utc>>,
) -> Result<(), Fault> {
    runs::start(db, new).await?;
    query("UPDATE runs SET lock_id = $2, status = $3 WHERE id = $1")
        .bind(Id(new.id.0))
        .bind(&info.id.0)
        .bind(status)
        .execute(&mut *db)
        .await?;
    let ticket = states::take_ticket(db, new.state).await?;
    query(
        "INSERT INTO resource_reservations
             (state_id, run_id, pattern, mode, held_as, ticket, asked_at, acquired_at, expires_at)
         VALUES ($1, $2, '*', 'write', 'lock', $3, $4, $5, $6)",
    )
    .bind(Id(new.state.0))
    .bind(Id(new.id.0))
    .bind(ticket)
    .bind(Time(asked_at))
    .bind(acquired_at.map(Time))
    .bind(expires_at.map(Time))
    .execute(db)
    .await?;
    Ok(())
}

/// Puts on record behind whom a run waits, where that is news. What stands in its way is kept with the run: should it give
/// up, nobody is there who would say so.
async fn waits(db: &mut Connection, run: RunId, behind: &[Blocker]) -> Result<(), Fault> {
    let known = timeline::outline(db, run).await?;
    let last = known.into_iter().rev().find(|recorded| matches!(recorded.event, RunEvent::Waiting { .. }));
    let event = RunEvent::waiting(behind);
    if last.is_some_and(|last| last.event == event) {
        return Ok(());
    }
    query("UPDATE runs SET conflict = $2 WHERE id = $1")
        .bind(Id(run.0))
        .bind(codec::json(&behind)?)
        .execute(&mut *db)
        .await?;
    timeline::append(db, run, &[event]).await
}

/// Ends a run that waited and does so no longer, with what stands in its way.
async fn gives_up(db: &mut Connection, run: RunId, conflict: Vec<Blocker>, error: &str) -> Result<(), Fault> {
    let end = RunEnd { error: Some(error.to_owned()), conflict, ..RunEnd::plain(RunStatus::Conflict) };
    runs::set_ended(db, run, &end).await
}

/// Grants a place in the queue, or keeps it for longer.
async fn set_place(
    db: &mut Connection,
    place: i64,
    acquired_at: Option<DateTime<Utc>>,
    expires_at: Option<DateTime<Utc>>,
) -> Result<(), Fault> {
    query("UPDATE resource_reservations SET acquired_at = $2, expires_at = $3 WHERE id = $1")
        .bind(place)
        .bind(acquired_at.map(Time))
        .bind(expires_at.map(Time))
        .execute(db)
        .await?;
    Ok(())
}

/// The place in the queue of the lock with this id.
async fn place(
    db: &mut Connection,
    state: StateId,
    id: &LockId,
    standing: &[Unreleased],
) -> Result<Option<Unreleased>, Fault> {
    if !standing.iter().any(waits_for_the_lock) {
        return Ok(None);
    }
    let runs: Vec<Id> = query_scalar("SELECT id FROM runs WHERE state_id = $1 AND lock_id = $2 AND ended_at IS NULL")
        .bind(Id(state.0))
        .bind(&id.0)
        .fetch_all(db)
        .await?;
    let of_it = |one: &&Unreleased| waits_for_the_lock(one) && runs.iter().any(|run| run.0 == one.reservation.run.0);
    Ok(standing.iter().find(of_it).cloned())
}

fn waits_for_the_lock(one: &Unreleased) -> bool {
    !one.granted() && one.reservation.held_as == HeldAs::Lock
}

/// Takes places out of the queue that nobody came back for. A plain Terraform that does not ask again has given up, and
/// nobody else ends its run.
pub(super) async fn gave_up(db: &mut Connection, left: &[Unreleased]) -> Result<(), Fault> {
    bulk::release(db, &left.iter().map(|one| one.id).collect::<Vec<_>>()).await?;
    for one in left.iter().filter(|one| waits_for_the_lock(one)) {
        let run = one.reservation.run;
        let stood: JsonText =
            query_scalar("SELECT conflict FROM runs WHERE id = $1").bind(Id(run.0)).fetch_one(&mut *db).await?;
        gives_up(db, run, codec::from_json(&stood)?, "terraform has not asked for the lock again").await?;
    }
    Ok(())
}

pub(super) async fn find(db: &mut Connection, state: StateId) -> Result<Option<PlainLock>, Fault> {
    let standing = reservations::standing(db, state).await?;
    held(db, &standing).await
}

/// The lock among the reservations that stand.
async fn held(db: &mut Connection, standing: &[Unreleased]) -> Result<Option<PlainLock>, Fault> {
    let Some(one) = standing.iter().find(|one| one.granted() && one.reservation.held_as == HeldAs::Lock) else {
        return Ok(None);
    };
    let run = one.reservation.run;
    let id: Option<String> =
        query_scalar("SELECT lock_id FROM runs WHERE id = $1").bind(Id(run.0)).fetch_one(db).await?;
    let id = id.ok_or_else(|| StoreError::Corrupt(format!("run {run} holds a lock without an id")))?;
    Ok(Some(PlainLock { run, id: LockId(id), holder: one.reservation.holder.clone() }))
}

/// What became of the lock of this id that was the newest one, if it has ended.
async fn ended(db: &mut Connection, state: StateId, id: &LockId) -> Result<Option<(RunId, RunStatus)>, Fault> {
    let found: Option<Id> = query_scalar(
        "SELECT id FROM runs WHERE state_id = $1 AND lock_id = $2 AND ended_at IS NOT NULL
         ORDER BY started_at DESC, id DESC LIMIT 1",
    )
    .bind(Id(state.0))
    .bind(&id.0)
    .fetch_optional(&mut *db)
    .await?;
    let Some(run) = found else { return Ok(None) };
    let run = runs::find(db, RunId(run.0)).await?;
    Ok(Some((run.id, run.status)))
}

pub(super) async fn write(
    db: &mut Connection,
    state: StateId,
    id: &LockId,
    base: Serial,
    commit: &Commit,
) -> Result<LockWrite, Fault> {
    states::lock(db, state).await?;
    match find(db, state).await? {
        None => Ok(LockWrite::NotLocked),
        Some(lock) if lock.id != *id => Ok(LockWrite::Other(lock)),
        Some(lock) => Ok(LockWrite::Committed(version(db, lock.run, base, commit).await?)),
    }
}

/// Takes the lock, writes under it, and gives it back: nobody ever sees it, and nothing of it can be left.
pub(super) async fn once(
    db: &mut Connection,
    new: &NewRun,
    info: &LockInfo,
    base: Serial,
    commit: &Commit,
) -> Result<LockOnce, Fault> {
    match take(db, new, info, false).await? {
        LockTaken::Blocked { blockers, lock } => Ok(LockOnce::Blocked { blockers, lock }),
        LockTaken::Granted(run) => {
            let done = version(db, run, base, commit).await?;
            end(db, run, &new.actor, false, returned).await?;
            Ok(LockOnce::Committed(done))
        }
    }
}

/// Writes a version for the run that holds the lock.
async fn version(db: &mut Connection, run: RunId, base: Serial, commit: &Commit) -> Result<Committed, Fault> {
    let locked = runs::lock(db, run).await?;
    locked.live()?;
    if locked.state.serial != base {
        let now = locked.state.serial;
        return Err(StoreError::Stale(format!("the state is at serial {now} by now, and not at {base}")).into());
    }
    let done = commit::version(db, &locked, commit).await?;
    Ok(done)
}

pub(super) async fn free(db: &mut Connection, state: StateId, how: &LockEnd, by: &Actor) -> Result<LockFreed, Fault> {
    states::lock(db, state).await?;
    let standing = reservations::standing(db, state).await?;
    let held = held(db, &standing).await?;
    match (how, held) {
        (LockEnd::GivenUp(id), _) => {
            let Some(place) = place(db, state, id, &standing).await? else { return Ok(LockFreed::NotLocked) };
            let run = place.reservation.run;
            gave_up(db, &[place]).await?;
            Ok(LockFreed::Freed(run))
        }
        (LockEnd::Forced, Some(lock)) => end(db, lock.run, by, true, |_| RunEnd::plain(RunStatus::Aborted)).await,
        (LockEnd::Returned(id), Some(lock)) if lock.id == *id => end(db, lock.run, by, false, returned).await,
        (LockEnd::LeftBehind(id), Some(lock)) if lock.id == *id => {
            let error = Some("the command ended without giving the lock back".to_owned());
            end(db, lock.run, by, false, |_| RunEnd { error, ..RunEnd::plain(RunStatus::Failed) }).await
        }
        // Who has not heard our answer asks again, and somebody else may have the lock by then.
        (LockEnd::Returned(id), held) => Ok(match (ended(db, state, id).await?, held) {
            (Some((run, RunStatus::Committed | RunStatus::Noop)), _) => LockFreed::Freed(run),
            (Some((run, _)), _) => LockFreed::TakenAway(run),
            (None, Some(lock)) => LockFreed::Other(lock),
            (None, None) => LockFreed::NotLocked,
        }),
        (LockEnd::LeftBehind(_), Some(lock)) => Ok(LockFreed::Other(lock)),
        (LockEnd::LeftBehind(_) | LockEnd::Forced, None) => Ok(LockFreed::NotLocked),
    }
}

/// The end of a run whose lock was given back.
fn returned(wrote: bool) -> RunEnd {
    RunEnd::plain(if wrote { RunStatus::Committed } else { RunStatus::Noop })
}

/// Ends the lock that a run holds, and the run; how it ended may depend on whether it wrote anything.
async fn end(
    db: &mut Connection,
    run: RunId,
    by: &Actor,
    forced: bool,
    how: impl FnOnce(bool) -> RunEnd + Send,
) -> Result<LockFreed, Fault> {
    reservations::release_all(db, run).await?;
    let versions: i64 = query_scalar("SELECT COUNT(*) FROM state_versions WHERE run_id = $1")
        .bind(Id(run.0))
        .fetch_one(&mut *db)
        .await?;
    timeline::append(db, run, &[RunEvent::Unlocked { by: by.clone(), forced }]).await?;
    runs::set_ended(db, run, &how(versions > 0)).await?;
    Ok(LockFreed::Freed(run))
}
