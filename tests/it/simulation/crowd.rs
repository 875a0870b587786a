//! Processes that really work at the same time, each on connections of its own: reserve or wait, change, commit, fail, are
//! killed, lose their leases, are aborted by others, recover what others have left. What they saw and wrote is then
//! replayed in the order of the serials.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kl_runner::domain::address::Pattern;
use kl_runner::domain::coordination::reservation::{Claim, HeldAs};
use kl_runner::domain::id::{Actor, RunId, Serial, StateId};
use kl_runner::domain::run::{RunEnd, RunKind, RunStatus};
use kl_runner::store::model::{Checkpoint, SoftWrite, VersionQuery};
use kl_runner::store::{Acquired, Ask, Held, StoreError, Takeover};
use tokio::task::JoinSet;

use super::model::{PATTERNS, ROWS, Trunk, Work, covered, effect, key};
use super::story::{LEASE, checkpoint, new_run, trunk};
use super::world::{World, commit, commit_of, write};
use crate::fuzz::mutate::Dice;
use crate::harness::database::{Backend, Database};

const WORKERS: u64 = 6;

/// So many runs each of them starts.
const RUNS: usize = 12;

/// Nothing waits for so long unless it waits for ever.
const LIMIT: Duration = Duration::from_mins(2);

/// What stands behind a version.
struct Deed {
    run: RunId,
    how: How,
}

enum How {
    /// An apply: what it had reserved, what it saw when that was granted, what it wrote.
    Applied { claims: BTreeSet<Claim>, saw: Trunk, wrote: Vec<(usize, Option<String>)> },
    /// A recovery of this work.
    Recovered(Work),
}

type Deeds = Arc<Mutex<BTreeMap<i64, Deed>>>;

struct Worker {
    world: World,
    state: StateId,
    dice: Dice,
    deeds: Deeds,
}

/// A round: everybody works, then everything is brought back in step, then all is looked at.
pub(super) async fn works(database: &Database, seed: u64) {
    let mut last = World::on(database).await;
    let state = last.new_state().await;
    let deeds = Deeds::default();
    let mut all = JoinSet::new();
    for number in 0..WORKERS {
        let (world, deeds) = (World::on(database).await, Arc::clone(&deeds));
        let mut worker = Worker { world, state, dice: Dice::new(seed ^ (number << 48)), deeds };
        all.spawn(async move {
            for _ in 0..RUNS {
                worker.one_run().await;
            }
        });
    }
    tokio::time::timeout(LIMIT, async { while all.join_next().await.transpose().unwrap().is_some() {} })
        .await
        .expect("nobody waits for ever");

    // All leases end; who needs everything takes them, and recovers what is left.
    let store = last.store();
    for run in store.run_list(state, true, 1_000).await.unwrap() {
        last.lease_ends(run.id).await;
    }
    let mut worker = Worker { world: last, state, dice: Dice::new(seed), deeds };
    let run = new_run(state, RunKind::Apply);
    store.run_start(&run).await.unwrap();
    let ask = Ask { run: run.id, claims: vec![Claim::write(Pattern::Everything)], lease: LEASE, queue: true };
    let everything = async {
        while let Acquired::Blocked { blockers, .. } = store.reservation_acquire(&ask).await.unwrap() {
            worker.recover(blockers[0].reservation.run).await;
        }
    };
    tokio::time::timeout(LIMIT, everything).await.expect("nothing stays in the way for ever");
    store.run_end(run.id, &RunEnd::plain(RunStatus::Noop)).await.unwrap();
    worker.all_was_in_turn().await;
    everybody_had_a_turn(database);
    let check = store.database_check().await.unwrap();
    assert!(check.sound(), "{:?}", check.violations);
}

impl Worker {
    fn chance(&mut self, percent: usize) -> bool {
        self.dice.below(100) < percent
    }

    fn claims(&mut self) -> Vec<Claim> {
        if self.chance(6) {
            return vec![Claim::write(Pattern::Everything)];
        }
        let mut one = || {
            let pattern = Pattern::parse(self.dice.pick(&PATTERNS)).unwrap();
            if self.dice.below(2) == 0 { Claim::write(pattern) } else { Claim::read(pattern) }
        };
        (0..3).map(|_| one()).collect()
    }

    async fn one_run(&mut self) {
        let store = self.world.store();
        let new = new_run(self.state, RunKind::Apply);
        store.run_start(&new).await.unwrap();
        let run = new.id;
        let ask = Ask { run, claims: self.claims(), lease: LEASE, queue: self.chance(75) };
        let Some(held) = self.turn(&ask).await else { return };
        let now = store.snapshot(self.state, None).await.unwrap();
        let (claims, saw) = (BTreeSet::from_iter(ask.claims), trunk(&now));
        let wrote = effect(self.dice.next(), &claims, &saw);
        let cut = self.dice.below(wrote.len() + 1);
        let work = Work { done: wrote[..cut].to_vec(), in_flight: Vec::new(), slice_serial: now.head.serial.0 };
        if self.chance(60) {
            self.works(run, &work).await;
        }
        if self.chance(10) {
            self.abort_somebody().await;
        }
        match self.dice.below(10) {
            // Killed.
            0 => return self.world.lease_ends(run).await,
            1 => {
                self.works(run, &work).await;
                return self.fails(run, &work).await;
            }
            // Paused for longer than its lease, and not told.
            2 => {
                self.world.lease_ends(run).await;
                self.recover_something().await;
            }
            3 => drop(store.reservation_renew(&held).await),
            _ => tokio::task::yield_now().await,
        }
        match store.run_commit(&held, &commit_of(&wrote)).await {
            Ok(committed) => self.did(committed.serial, run, How::Applied { claims, saw, wrote }),
            // All of it was done, and none of it is in the trunk.
            Err(StoreError::LeaseLost { .. }) => {
                let work = Work { done: wrote, ..work };
                self.works(run, &work).await;
                self.fails(run, &work).await;
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Asks until it is granted; none when it is refused, killed while it waits, or ended from outside.
    async fn turn(&mut self, ask: &Ask) -> Option<Held> {
        let store = self.world.store();
        loop {
            match store.reservation_acquire(ask).await {
                Ok(Acquired::Granted { held, .. }) => return Some(held),
                Ok(Acquired::Blocked { blockers, .. }) if ask.queue => {
                    if self.chance(1) {
                        self.world.lease_ends(ask.run).await;
                        return None;
                    }
                    match blockers.iter().find(|one| one.reservation.held_as == HeldAs::Quarantine) {
                        Some(left) => self.recover(left.reservation.run).await,
                        None => tokio::time::sleep(Duration::from_millis(5)).await,
                    }
                }
                Ok(Acquired::Blocked { blockers, .. }) => {
                    let end = RunEnd { conflict: blockers, ..RunEnd::plain(RunStatus::Conflict) };
                    store.run_end(ask.run, &end).await.unwrap();
                    return None;
                }
                Err(StoreError::LeaseLost { .. }) => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn works(&self, run: RunId, work: &Work) {
        let store = self.world.store();
        // It may have been ended from outside, without knowing.
        drop(store.run_advance(run, RunStatus::Applying).await);
        let state = serde_json::to_string(&work.done).unwrap();
        store.checkpoint_put(run, &Checkpoint { state, ..checkpoint(work) }).await.unwrap();
    }

    async fn fails(&self, run: RunId, work: &Work) {
        let end = RunEnd { quarantine: work.touched(), ..RunEnd::failed("broken") };
        self.world.store().run_end(run, &end).await.unwrap();
    }

    async fn abort_somebody(&mut self) {
        let store = self.world.store();
        let live = store.run_list(self.state, true, 100).await.unwrap();
        if let Some(run) = live.get(self.dice.below(live.len())) {
            store.run_abort(run.id, &Actor("carol".to_owned())).await.unwrap();
        }
    }

    async fn recover_something(&mut self) {
        let standing = self.world.store().reservation_list(self.state).await.unwrap();
        if let Some(left) = standing.iter().find(|one| one.held_as == HeldAs::Quarantine) {
            self.recover(left.run).await;
        }
    }

    /// As `kl recover` does: each row only where the trunk has it as the run saw it.
    async fn recover(&mut self, of: RunId) {
        let store = self.world.store();
        let new = new_run(self.state, RunKind::Recover);
        store.run_start(&new).await.unwrap();
        let held = match store.quarantine_adopt(new.id, of, LEASE, false).await {
            Ok(Takeover::Held { held, .. }) => held,
            Ok(Takeover::Blocked(blockers)) => {
                let end = RunEnd { conflict: blockers, ..RunEnd::plain(RunStatus::Conflict) };
                return store.run_end(new.id, &end).await.unwrap();
            }
            // Somebody was faster, or has aborted it.
            Err(StoreError::NotFound { .. } | StoreError::LeaseLost { .. }) => {
                return store.run_end(new.id, &RunEnd::failed("nothing to recover")).await.unwrap();
            }
            Err(error) => panic!("{error}"),
        };
        let found = store.checkpoint_find(new.id).await.unwrap().expect("what is quarantined has a checkpoint");
        let slice_serial = found.slice_serial.unwrap();
        let work = Work {
            done: serde_json::from_str(&found.state).unwrap(),
            in_flight: Vec::new(),
            slice_serial: slice_serial.0,
        };
        let changed = store.rows_changed_since(self.state, slice_serial).await.unwrap();
        let changed: BTreeSet<_> = changed.into_iter().map(|change| change.key).collect();
        let now = store.snapshot(self.state, None).await.unwrap();
        let mut ours = commit();
        for (row, value) in work.done.iter().filter(|(row, _)| !changed.contains(&key(*row))) {
            let found = now.rows.iter().find(|(found, _)| found.key == key(*row));
            let expected = found.map(|(found, _)| found.body.hash());
            ours.soft.push(SoftWrite { write: write(*row, value.as_deref()), expected });
        }
        match store.run_commit(&held, &ours).await {
            Ok(committed) => self.did(committed.serial, new.id, How::Recovered(work)),
            Err(StoreError::LeaseLost { .. }) => {
                let end = RunEnd { quarantine: vec![Pattern::Everything], ..RunEnd::failed("lost") };
                store.run_end(new.id, &end).await.unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn did(&self, serial: Serial, run: RunId, how: How) {
        assert!(self.deeds.lock().unwrap().insert(serial.0, Deed { run, how }).is_none(), "serial {serial} twice");
    }

    /// That the runs, one after another in the order of their serials, would have seen and made the same.
    async fn all_was_in_turn(&self) {
        let store = self.world.store();
        let query = VersionQuery { before: None, since: None, limit: 10_000, with_rows: true };
        let mut versions = store.version_list(self.state, query).await.unwrap();
        versions.reverse();
        let deeds = std::mem::take(&mut *self.deeds.lock().unwrap());
        assert_eq!(versions.len(), deeds.len(), "every version has a run that heard of it");
        let (mut now, mut changed_at): (Trunk, BTreeMap<usize, i64>) = Default::default();
        for (version, (serial, deed)) in versions.iter().zip(deeds.iter()) {
            assert_eq!((version.serial.0, version.run), (*serial, Some(deed.run)));
            let touched: BTreeSet<usize> = version
                .rows
                .iter()
                .map(|(found, _)| (0..ROWS.len()).find(|row| key(*row) == *found).unwrap())
                .collect();
            let writes = match &deed.how {
                How::Applied { claims, saw, wrote } => {
                    for row in covered(claims, None) {
                        assert_eq!(saw.get(&row), now.get(&row), "serial {serial} did not see {}", ROWS[row]);
                    }
                    wrote
                }
                How::Recovered(work) => {
                    for row in &touched {
                        let at = changed_at.get(row).copied().unwrap_or_default();
                        assert!(at <= work.slice_serial, "serial {serial} undoes {at} at {}", ROWS[*row]);
                    }
                    &work.done
                }
            };
            for (row, value) in writes {
                if touched.contains(row) {
                    match value {
                        Some(value) => drop(now.insert(*row, value.clone())),
                        None => drop(now.remove(row)),
                    }
                    changed_at.insert(*row, *serial);
                } else if matches!(deed.how, How::Applied { .. }) {
                    assert_eq!(now.get(row), value.as_ref(), "serial {serial} lost {}", ROWS[*row]);
                }
            }
            let outside = touched.iter().find(|row| !writes.iter().any(|(wrote, _)| wrote == *row));
            assert_eq!(outside, None, "serial {serial} changed what it had not reserved");
        }
        assert_eq!(trunk(&store.snapshot(self.state, None).await.unwrap()), now);
    }
}

/// That of two requests that conflict the one that asked first was served first. What a recovery takes over stood
/// already, and a quarantine that comes late waits for nobody.
fn everybody_had_a_turn(database: &Database) {
    let number = |column: &str| match database.backend() {
        Backend::Sqlite => format!("v.{column}"),
        Backend::Postgres => format!("CAST(EXTRACT(EPOCH FROM v.{column}) * 1000000 AS bigint)"),
    };
    let sql = format!(
        "SELECT CAST(v.run_id AS text), v.pattern, v.mode, v.ticket, {} FROM resource_reservations v
         JOIN runs r ON r.id = v.run_id
         WHERE r.kind = 'apply' AND v.acquired_at IS NOT NULL AND (r.ended_at IS NULL OR v.asked_at < r.ended_at)",
        number("acquired_at")
    );
    let read = |row: Vec<Option<String>>| {
        let [run, pattern, mode, ticket, at] = <[_; 5]>::try_from(row).unwrap().map(Option::unwrap);
        let pattern = Pattern::parse(&pattern).unwrap();
        let claim = if mode == "write" { Claim::write(pattern) } else { Claim::read(pattern) };
        (run, claim, ticket.parse::<i64>().unwrap(), at.parse::<i64>().unwrap())
    };
    let all: Vec<_> = database.rows(&sql).into_iter().map(read).collect();
    assert!(all.len() > 30, "{}", all.len());
    for (first, claim, ticket, at) in &all {
        let jumped = all.iter().find(|(second, theirs, place, then)| {
            second != first && place > ticket && then < at && claim.conflicts_with(theirs)
        });
        assert!(jumped.is_none(), "{first} asked first for {claim:?} and was served after {jumped:?}");
    }
}
