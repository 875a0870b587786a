//! Reservations: who asks, who holds, who has to wait.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::{query, query_as, query_scalar};

use super::runs::Locked;
use super::{Connection, bulk, ending, locks, runs, states, timeline};
use crate::domain::coordination::reservation::{AccessMode, Claim, HeldAs, Reservation, blockers};
use crate::domain::id::{Actor, RunId, StateId};
use crate::domain::run::RunStatus;
use crate::domain::run::event::{Holder, RunEvent};
use crate::store::codec::{self, ReservationColumns};
use crate::store::decide::{self, Unreleased};
use crate::store::fault::Fault;
use crate::store::values::{Id, JsonText, Time};
use crate::store::{Acquired, Ask, Held, QUEUE_TTL, Takeover, not_found};

/// The reservations of a state that have not been released.
pub(super) async fn standing(db: &mut Connection, state: StateId) -> Result<Vec<Unreleased>, Fault> {
    let rows: Vec<ReservationColumns> = query_as(
        "SELECT id, run_id, pattern, mode, held_as, asked_at, acquired_at, expires_at, ticket
         FROM resource_reservations WHERE state_id = $1 AND released_at IS NULL ORDER BY ticket, id",
    )
    .bind(Id(state.0))
    .fetch_all(&mut *db)
    .await?;
    // Once for each run: a run may have thousands of reservations.
    let holders: Vec<(Id, String, JsonText)> = query_as(
        "SELECT id, actor, origin FROM runs WHERE id IN (
             SELECT run_id FROM resource_reservations WHERE state_id = $1 AND released_at IS NULL)",
    )
    .bind(Id(state.0))
    .fetch_all(db)
    .await?;
    Ok(codec::standing(rows, holders)?)
}

pub(super) async fn list(db: &mut Connection, state: StateId) -> Result<Vec<Reservation>, Fault> {
    states::by_id(db, state).await?;
    let now = states::now(db).await?;
    let (_, standing) = decide::left_queue(standing(db, state).await?, now);
    Ok(standing.into_iter().map(|one| one.reservation).collect())
}

pub(super) async fn acquire(db: &mut Connection, ask: &Ask) -> Result<Acquired, Fault> {
    let locked = runs::lock(db, ask.run).await?;
    locked.live()?;
    let state = locked.state.id;
    let now = states::now(db).await?;
    let claims = decide::distinct(&ask.claims);

    let (left, found) = decide::left_queue(standing(db, state).await?, now);
    locks::gave_up(db, &left).await?;
    let losers = reclaim(db, &decide::ended_in_the_way(ask.run, &claims, &found, now), &found).await?;
    let reclaimed: Vec<RunId> = losers.iter().map(|(loser, _)| *loser).collect();
    let found = if reclaimed.is_empty() { found } else { standing(db, state).await? };

    let ours: Vec<&Unreleased> = found.iter().filter(|one| one.reservation.run == ask.run).collect();
    let waiting: Vec<&Unreleased> = ours.iter().copied().filter(|one| !one.granted()).collect();
    let ticket = waiting.first().map(|one| one.reservation.ticket);
    // Everybody who waits now asked before somebody who has no place in the queue.
    let in_the_way = blockers(ask.run, ticket.unwrap_or(i64::MAX), &claims, &decide::reservations(&found), now);
    taken(db, &locked, losers, !in_the_way.is_empty()).await?;
    if in_the_way.is_empty() {
        let held = grant(db, &locked, ask, &claims, &ours, now).await?;
        let beside = decide::beside(ask.run, &claims, &found);
        let mut tools_beside = Vec::with_capacity(beside.len());
        for neighbour in &beside {
            tools_beside.push((neighbour.run, runs::find(db, neighbour.run).await?.tools));
        }
        // With the grant, so that nobody is beside it who is not on record.
        let writes = claims.iter().filter(|claim| claim.mode == AccessMode::Write).count();
        let expires_at = Some(held.expires_at());
        let event = RunEvent::Reserved { writes, reads: claims.len() - writes, expires_at, beside: beside.clone() };
        timeline::append(db, ask.run, std::slice::from_ref(&event)).await?;
        Ok(Acquired::Granted { held, beside, tools_beside, reclaimed, event })
    } else {
        wait(db, &locked, ask, &claims, &waiting, now).await?;
        Ok(Acquired::Blocked { blockers: in_the_way, reclaimed })
    }
}

/// Takes their reservations from runs whose leases have ended; what each of them leaves is to be told by [`taken`], once it
/// is known whether whoever asked gets anything.
pub(super) async fn reclaim(
    db: &mut Connection,
    losers: &[RunId],
    found: &[Unreleased],
) -> Result<Vec<(RunId, Vec<RunEvent>)>, Fault> {
    let mut left = Vec::new();
    for loser in losers {
        left.push((*loser, ending::leave(db, *loser, found).await?));
    }
    Ok(left)
}

/// Puts on both timelines what became of runs whose leases had ended when another one asked for what they held.
async fn taken(
    db: &mut Connection,
    asker: &Locked,
    losers: Vec<(RunId, Vec<RunEvent>)>,
    refused: bool,
) -> Result<(), Fault> {
    for (loser, left) in losers {
        let to = Holder { run: asker.run.id, actor: asker.run.actor.clone() };
        ending::lost(db, loser, Some(to), refused, left).await?;
        timeline::append(db, asker.run.id, &[RunEvent::Reclaimed { from: loser, refused }]).await?;
    }
    Ok(())
}

/// A place in the queue.
#[derive(Clone, Copy)]
pub(in crate::store) struct Place {
    pub(in crate::store) ticket: i64,
    pub(in crate::store) asked_at: DateTime<Utc>,
}

/// The place that a run waits at already, or a new one at the end.
async fn place(
    db: &mut Connection,
    state: StateId,
    waiting: &[&Unreleased],
    now: DateTime<Utc>,
) -> Result<Place, Fault> {
    Ok(match waiting.first() {
        Some(one) => Place { ticket: one.reservation.ticket, asked_at: one.reservation.asked_at },
        None => Place { ticket: states::take_ticket(db, state).await?, asked_at: now },
    })
}

/// Gives a run what it asked for. What it holds already is renewed with it.
async fn grant(
    db: &mut Connection,
    locked: &Locked,
    ask: &Ask,
    claims: &[Claim],
    ours: &[&Unreleased],
    now: DateTime<Utc>,
) -> Result<Held, Fault> {
    let state = locked.state.id;
    let expires_at = after(now, ask.lease);
    let (granted, waiting): (Vec<&Unreleased>, Vec<&Unreleased>) = ours.iter().copied().partition(|one| one.granted());
    let place = place(db, state, &waiting, now).await?;
    bulk::release(db, &ids(&waiting)).await?;
    let held: HashSet<&Claim> = granted.iter().map(|one| &one.reservation.claim).collect();
    let new: Vec<&Claim> = claims.iter().filter(|claim| !held.contains(claim)).collect();
    if !granted.is_empty() {
        extend(db, ask.run, expires_at).await?;
    }
    bulk::insert_reservations(db, state, ask.run, &new, place, Some(now), expires_at).await?;
    remember_count(db, ask.run).await?;
    runs::set_status(db, ask.run, decide::forward(locked.run.status, RunStatus::Reserved)).await?;
    Ok(Held::new(ask.run, state, ask.lease, expires_at))
}

/// Puts a run that was refused into the queue, or takes it out.
async fn wait(
    db: &mut Connection,
    locked: &Locked,
    ask: &Ask,
    claims: &[Claim],
    waiting: &[&Unreleased],
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    if !ask.queue {
        return bulk::release(db, &ids(waiting)).await;
    }
    let state = locked.state.id;
    let until = after(now, QUEUE_TTL);
    if !waiting.is_empty() && decide::same_claims(waiting, claims) {
        query(
            "UPDATE resource_reservations SET expires_at = $2
             WHERE run_id = $1 AND released_at IS NULL AND acquired_at IS NULL",
        )
        .bind(Id(ask.run.0))
        .bind(Time(until))
        .execute(&mut *db)
        .await?;
    } else {
        let place = place(db, state, waiting, now).await?;
        bulk::release(db, &ids(waiting)).await?;
        let all: Vec<&Claim> = claims.iter().collect();
        bulk::insert_reservations(db, state, ask.run, &all, place, None, until).await?;
    }
    runs::set_status(db, ask.run, decide::forward(locked.run.status, RunStatus::Waiting)).await
}

pub(super) async fn renew(db: &mut Connection, held: &Held) -> Result<DateTime<Utc>, Fault> {
    fence(db, held).await?;
    let expires_at = after(states::now(db).await?, held.lease());
    extend(db, held.run(), expires_at).await?;
    Ok(expires_at)
}

pub(super) async fn give_back(db: &mut Connection, held: &Held) -> Result<(), Fault> {
    let locked = runs::lock(db, held.run()).await?;
    locked.live()?;
    release_all(db, held.run()).await?;
    remember_count(db, held.run()).await?;
    // Nothing is reserved any more, and who asks again may have to wait.
    runs::set_status(db, held.run(), RunStatus::Started).await
}

/// Checks, under the lock of the state, that the run is live and still has every reservation that it was granted.
pub(super) async fn fence(db: &mut Connection, held: &Held) -> Result<Locked, Fault> {
    let locked = runs::lock(db, held.run()).await?;
    locked.live()?;
    if held_count(db, held.run()).await? != locked.reserved {
        return Err(locked.lost(Some("but without its reservations")).into());
    }
    Ok(locked)
}

/// Lets a new run take over the quarantine of one that has ended, which may keep it beside that, and its checkpoint.
pub(super) async fn adopt(
    db: &mut Connection,
    run: RunId,
    of: RunId,
    lease: Duration,
    kept: bool,
) -> Result<Takeover, Fault> {
    let locked = runs::lock(db, run).await?;
    locked.live()?;
    let state = locked.state.id;
    let now = states::now(db).await?;
    let expires_at = after(now, lease);
    let found = standing(db, state).await?;
    let claims = decide::quarantine(of, &found);
    if claims.is_empty() {
        return Err(not_found("quarantine of run", of).into());
    }
    // A quarantine that came late stands beside what others have got meanwhile.
    let losers = reclaim(db, &decide::ended_in_the_way(run, &claims, &found, now), &found).await?;
    let found = if losers.is_empty() { found } else { standing(db, state).await? };
    let in_the_way = decide::live_blockers(run, &claims, &found, now);
    taken(db, &locked, losers, !in_the_way.is_empty()).await?;
    if !in_the_way.is_empty() {
        return Ok(Takeover::Blocked(in_the_way));
    }
    let place = place(db, state, &[], now).await?;
    if !kept {
        let taken: Vec<&Unreleased> = found.iter().filter(|one| one.quarantined_by(of)).collect();
        bulk::release(db, &ids(&taken)).await?;
    }
    bulk::insert_reservations(db, state, run, &claims.iter().collect::<Vec<_>>(), place, Some(now), expires_at).await?;
    timeline::checkpoint_copy(db, of, run).await?;
    // What it has now is what it asked for, and who else is at work meanwhile belongs to its story as to any other's.
    runs::set_claims(db, run, &claims).await?;
    let writes = claims.iter().filter(|claim| claim.mode == AccessMode::Write).count();
    let (reads, beside) = (claims.len() - writes, decide::beside(run, &claims, &found));
    let reserved = RunEvent::Reserved { writes, reads, expires_at: Some(expires_at), beside };
    timeline::append(db, run, &[RunEvent::Recovers { of }, reserved]).await?;
    let mut told = vec![RunEvent::TakenOver { by: run, actor: locked.run.actor.clone() }];
    if kept {
        told.push(RunEvent::Quarantined { addresses: claims.iter().map(|claim| claim.pattern.to_string()).collect() });
    }
    timeline::append(db, of, &told).await?;
    remember_count(db, run).await?;
    runs::set_status(db, run, decide::forward(locked.run.status, RunStatus::Reserved)).await?;
    let checkpoint = timeline::checkpoint_find(db, run).await?;
    Ok(Takeover::Held { held: Held::new(run, state, lease, expires_at), checkpoint })
}

/// Quarantines rows for a run that has ended already.
pub(super) async fn quarantine_late(db: &mut Connection, locked: &Locked, claims: &[Claim]) -> Result<(), Fault> {
    let (state, run) = (locked.state.id, locked.run.id);
    let now = states::now(db).await?;
    let place = place(db, state, &[], now).await?;
    bulk::insert_reservations(db, state, run, &claims.iter().collect::<Vec<_>>(), place, Some(now), now).await?;
    let standing = standing(db, state).await?;
    let new: Vec<i64> = standing
        .iter()
        .filter(|one| one.reservation.run == run && one.granted() && one.reservation.held_as == HeldAs::Run)
        .map(|one| one.id)
        .collect();
    bulk::quarantine(db, &new).await
}

/// Frees the quarantine of a run that has ended.
pub(super) async fn quarantine_release(db: &mut Connection, run: RunId, by: &Actor) -> Result<u64, Fault> {
    runs::lock(db, run).await?;
    let done = query(concat!(
        "UPDATE resource_reservations SET released_at = ",
        now!(),
        " WHERE run_id = $1 AND released_at IS NULL AND held_as = 'quarantine'"
    ))
    .bind(Id(run.0))
    .execute(&mut *db)
    .await?;
    let freed = done.rows_affected();
    if freed > 0 {
        timeline::append(db, run, &[RunEvent::Discarded { by: by.clone(), freed }]).await?;
    }
    Ok(freed)
}

/// Releases everything that a run holds, as a quarantine or otherwise.
pub(super) async fn release_all(db: &mut Connection, run: RunId) -> Result<(), Fault> {
    query(concat!(
        "UPDATE resource_reservations SET released_at = ",
        now!(),
        " WHERE run_id = $1 AND released_at IS NULL"
    ))
    .bind(Id(run.0))
    .execute(db)
    .await?;
    Ok(())
}

async fn extend(db: &mut Connection, run: RunId, expires_at: DateTime<Utc>) -> Result<(), Fault> {
    query(
        "UPDATE resource_reservations SET expires_at = $2
         WHERE run_id = $1 AND released_at IS NULL AND acquired_at IS NOT NULL AND held_as = 'run'",
    )
    .bind(Id(run.0))
    .bind(Time(expires_at))
    .execute(db)
    .await?;
    Ok(())
}

/// How many granted reservations of a run stand.
async fn held_count(db: &mut Connection, run: RunId) -> Result<i64, Fault> {
    Ok(query_scalar(
        "SELECT COUNT(*) FROM resource_reservations
         WHERE run_id = $1 AND released_at IS NULL AND acquired_at IS NOT NULL AND held_as = 'run'",
    )
    .bind(Id(run.0))
    .fetch_one(db)
    .await?)
}

/// Remembers how many reservations a run was granted, to tell later whether it still has them all.
async fn remember_count(db: &mut Connection, run: RunId) -> Result<(), Fault> {
    let count = held_count(db, run).await?;
    query("UPDATE runs SET reserved_count = $2 WHERE id = $1").bind(Id(run.0)).bind(count).execute(db).await?;
    Ok(())
}

fn ids(standing: &[&Unreleased]) -> Vec<i64> {
    standing.iter().map(|one| one.id).collect()
}

/// A moment later by a duration, at most ten years: a lease that is meant to last for ever must not overflow.
pub(super) fn after(now: DateTime<Utc>, lease: Duration) -> DateTime<Utc> {
    const LONGEST: TimeDelta = TimeDelta::days(3650);
    now + TimeDelta::from_std(lease).map_or(LONGEST, |lease| lease.min(LONGEST))
}
