//! The whole-state locks of plain Terraforms: each is the reservation of a run, without a lease, or a place in the queue
//! while others are in the way.

use chrono::{DateTime, Utc};
use sqlx::{query, query_scalar};

use super::{Connection, bulk, commit, ending, reservations, runs, states, timeline};
use crate::domain::address::Pattern;
use crate::domain::coordination::lock::{LockId, LockInfo};
use crate::domain::coordination::reservation::{Claim, HeldAs, blockers};
use crate::domain::id::{Actor, RunId, Serial, StateId};
use crate::domain::run::event::RunEvent;
use crate::domain::run::{NewRun, RunEnd, RunStatus};
use crate::store::decide::{self, Standing};
use crate::store::fault::Fault;
use crate::store::model::{Commit, LockEnd, LockFreed, LockTaken, LockWrite, PlainLock};
use crate::store::values::{Id, Time};
use crate::store::{QUEUE_TTL, StoreError, codec};

pub(super) async fn take(db: &mut Connection, new: &NewRun, info: &LockInfo, queue: bool) -> Result<LockTaken, Fault> {
    let state = states::lock(db, new.state).await?.id;
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
    let reclaimed = decide::ended_in_the_way(run, &claims, &found, now);
    for loser in &reclaimed {
        ending::lose(db, *loser, &found).await?;
    }
    let found = if reclaimed.is_empty() { found } else { reservations::standing(db, state).await? };
    // Everybody who waits now asked before somebody who has no place in the queue.
    let ticket = place.as_ref().map_or(i64::MAX, |place| place.reservation.ticket);
    let in_the_way = blockers(run, ticket, &claims, &decide::reservations(&found), now);
    if !in_the_way.is_empty() {
        let until = reservations::after(now, QUEUE_TTL);
        match &place {
            Some(place) => set_place(db, place.id, None, Some(until)).await?,
            None if queue => insert(db, new, info, "waiting", now, None, Some(until)).await?,
            None => {}
        }
        return Ok(LockTaken::Blocked { blockers: in_the_way, lock: held });
    }

    match &place {
        Some(place) => {
            set_place(db, place.id, Some(now), None).await?;
            runs::set_status(db, run, RunStatus::Reserved).await?;
        }
        None => insert(db, new, info, "reserved", now, Some(now), None).await?,
    }
    let mut events: Vec<RunEvent> = reclaimed.into_iter().map(|from| RunEvent::Reclaimed { from }).collect();
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
    standing: &[Standing],
) -> Result<Option<Standing>, Fault> {
    if !standing.iter().any(waits_for_the_lock) {
        return Ok(None);
    }
    let runs: Vec<Id> = query_scalar("SELECT id FROM runs WHERE state_id = $1 AND lock_id = $2 AND ended_at IS NULL")
        .bind(Id(state.0))
        .bind(&id.0)
        .fetch_all(db)
        .await?;
    let of_it = |one: &&Standing| waits_for_the_lock(one) && runs.iter().any(|run| run.0 == one.reservation.run.0);
    Ok(standing.iter().find(of_it).cloned())
}

fn waits_for_the_lock(one: &Standing) -> bool {
    !one.granted() && one.reservation.held_as == HeldAs::Lock
}

/// Takes places out of the queue that nobody came back for. A plain Terraform that does not ask again has given up, and
/// nobody else ends its run.
pub(super) async fn gave_up(db: &mut Connection, left: &[Standing]) -> Result<(), Fault> {
    bulk::release(db, &left.iter().map(|one| one.id).collect::<Vec<_>>()).await?;
    for one in left.iter().filter(|one| waits_for_the_lock(one)) {
        let error = Some("terraform has not asked for the lock again".to_owned());
        runs::set_ended(db, one.reservation.run, &RunEnd { error, ..RunEnd::plain(RunStatus::Conflict) }).await?;
    }
    Ok(())
}

pub(super) async fn find(db: &mut Connection, state: StateId) -> Result<Option<PlainLock>, Fault> {
    let standing = reservations::standing(db, state).await?;
    held(db, &standing).await
}

/// The lock among the reservations that stand.
async fn held(db: &mut Connection, standing: &[Standing]) -> Result<Option<PlainLock>, Fault> {
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
    let Some(lock) = find(db, state).await? else {
        return Ok(LockWrite::NotLocked);
    };
    if lock.id != *id {
        return Ok(LockWrite::Other(lock));
    }
    let locked = runs::lock(db, lock.run).await?;
    locked.live()?;
    if locked.state.serial != base {
        let now = locked.state.serial;
        return Err(StoreError::Stale(format!("the state is at serial {now} by now, and not at {base}")).into());
    }
    let done = commit::version(db, &locked, commit).await?;
    let event = RunEvent::Committed {
        serial: done.serial,
        rows_opened: done.rows_opened,
        rows_closed: done.rows_closed,
        as_planned: None,
    };
    timeline::append(db, lock.run, &[event]).await?;
    Ok(LockWrite::Committed(done))
}

pub(super) async fn free(db: &mut Connection, state: StateId, end: &LockEnd, by: &Actor) -> Result<LockFreed, Fault> {
    states::lock(db, state).await?;
    let standing = reservations::standing(db, state).await?;
    if let LockEnd::GivenUp(id) = end {
        let Some(place) = place(db, state, id, &standing).await? else { return Ok(LockFreed::NotLocked) };
        let run = place.reservation.run;
        gave_up(db, &[place]).await?;
        return Ok(LockFreed::Freed(run));
    }
    let Some(lock) = held(db, &standing).await? else {
        // Who has not heard our answer asks again.
        let before = match end {
            LockEnd::Returned(id) => ended(db, state, id).await?,
            LockEnd::LeftBehind(_) | LockEnd::GivenUp(_) | LockEnd::Forced => None,
        };
        return Ok(match before {
            Some((run, RunStatus::Committed | RunStatus::Noop)) => LockFreed::Freed(run),
            Some((run, _)) => LockFreed::TakenAway(run),
            None => LockFreed::NotLocked,
        });
    };
    if let LockEnd::Returned(id) | LockEnd::LeftBehind(id) = end
        && lock.id != *id
    {
        return Ok(LockFreed::Other(lock));
    }
    reservations::release_all(db, lock.run).await?;
    let newest: Option<i64> =
        query_scalar("SELECT MAX(serial) FROM state_versions WHERE state_id = $1 AND run_id = $2")
            .bind(Id(state.0))
            .bind(Id(lock.run.0))
            .fetch_one(&mut *db)
            .await?;
    let (status, error) = match end {
        LockEnd::Returned(_) if newest.is_some() => (RunStatus::Committed, None),
        LockEnd::Returned(_) => (RunStatus::Noop, None),
        LockEnd::LeftBehind(_) => {
            (RunStatus::Failed, Some("the command ended without giving the lock back".to_owned()))
        }
        LockEnd::GivenUp(_) | LockEnd::Forced => (RunStatus::Aborted, None),
    };
    let forced = matches!(end, LockEnd::Forced);
    timeline::append(db, lock.run, &[RunEvent::Unlocked { by: by.clone(), forced }]).await?;
    runs::set_ended(db, lock.run, &RunEnd { error, ..RunEnd::plain(status) }).await?;
    query("UPDATE runs SET result_serial = $2 WHERE id = $1").bind(Id(lock.run.0)).bind(newest).execute(db).await?;
    Ok(LockFreed::Freed(lock.run))
}
