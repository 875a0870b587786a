//! Locks of plain Terraforms: reservations of the whole state, without a lease.

use std::sync::Arc;

use super::fixture::{Fixture, blocked, commit, new_run, write};
use crate::domain::coordination::lock::{LockId, LockInfo};
use crate::domain::coordination::reservation::HeldAs;
use crate::domain::id::{Actor, RunId, Serial, StateId};
use crate::domain::run::event::{Holder, RunEvent};
use crate::domain::run::{RunEnd, RunKind, RunStatus};
use crate::store::model::{CommitMode, LockEnd, LockFreed, LockOnce, LockTaken, LockWrite, Source};
use crate::store::{Store, StoreError};

fn id(text: &str) -> LockId {
    LockId(text.to_owned())
}

fn info(text: &str) -> LockInfo {
    let document = format!(r#"{{"ID":"{text}","Operation":"OperationTypeApply","Who":"alice@laptop"}}"#);
    LockInfo::read(document.as_bytes()).unwrap()
}

fn alice() -> Actor {
    Actor("alice".to_owned())
}

async fn take(store: &dyn Store, state: StateId, lock: &str) -> LockTaken {
    ask(store, state, lock, false).await
}

async fn ask(store: &dyn Store, state: StateId, lock: &str, queue: bool) -> LockTaken {
    let run = crate::domain::run::NewRun { kind: RunKind::Plain, ..new_run(state, "alice") };
    store.lock_take(&run, &info(lock), queue).await.unwrap()
}

/// The runs in the way of a lock.
async fn refused(f: &Fixture, state: StateId, lock: &str, queue: bool) -> Vec<RunId> {
    match ask(&*f.store, state, lock, queue).await {
        LockTaken::Granted(run) => panic!("granted as {run}"),
        LockTaken::Blocked { blockers, .. } => blockers.into_iter().map(|blocker| blocker.reservation.run).collect(),
    }
}

#[track_caller]
fn granted(taken: LockTaken) -> RunId {
    match taken {
        LockTaken::Granted(run) => run,
        LockTaken::Blocked { blockers, .. } => panic!("blocked by {blockers:?}"),
    }
}

async fn events(f: &Fixture, run: RunId) -> Vec<RunEvent> {
    f.store.event_list(run).await.unwrap().into_iter().map(|recorded| recorded.event).collect()
}

pub(super) async fn a_plain_lock_and_runs_keep_each_other_out(f: &Fixture) {
    let state = f.state("prod").await.id;
    let other = f.state("other").await.id;
    assert_eq!(f.store.lock_find(state).await.unwrap(), None);
    let run = granted(take(&*f.store, state, "one").await);
    let lock = f.store.lock_find(state).await.unwrap().unwrap();
    assert_eq!((lock.run, &lock.id, &lock.holder), (run, &id("one"), &alice()));
    let found = f.store.run_find(run).await.unwrap();
    assert_eq!((found.kind, found.status), (RunKind::Plain, RunStatus::Reserved));
    let reservations = f.store.reservation_list(state).await.unwrap();
    assert_eq!((reservations[0].held_as, reservations[0].expires_at), (HeldAs::Lock, None));
    // It does not end by itself, and a read is enough to meet it.
    f.time_passes().await;
    let blockers = blocked(f.ask(state, "bob", "r a.x").await.1);
    assert_eq!((blockers[0].reservation.run, blockers[0].reservation.held_as), (run, HeldAs::Lock));
    f.held(other, "bob", "w *").await;

    // The same lock again is the same lock; another one is refused, and leaves nothing.
    assert_eq!(granted(take(&*f.store, state, "one").await), run);
    let LockTaken::Blocked { blockers, lock } = take(&*f.store, state, "two").await else { panic!("granted") };
    assert_eq!((blockers.len(), blockers[0].reservation.run, lock.unwrap().id), (1, run, id("one")));
    assert_eq!(f.store.run_list(state, false, 10).await.unwrap().len(), 2);
    let freed = f.store.lock_free(state, &LockEnd::Returned(id("one")), &alice()).await.unwrap();
    assert_eq!(freed, LockFreed::Freed(run));
    assert_eq!(f.store.run_find(run).await.unwrap().status, RunStatus::Noop);

    // The other way round: whoever holds anything is in the way, until the lease has ended.
    let held = f.held(state, "bob", "r a.x").await;
    let LockTaken::Blocked { blockers, lock } = take(&*f.store, state, "three").await else { panic!("granted") };
    assert_eq!((blockers[0].reservation.run, lock), (held.run(), None));
    f.lease_ends(held.run()).await;
    let run = granted(take(&*f.store, state, "three").await);
    assert_eq!(f.store.run_find(held.run()).await.unwrap().status, RunStatus::Lost);
    assert!(
        matches!(events(f, run).await[..], [RunEvent::Reclaimed { from, refused: false }, RunEvent::Locked { .. }] if from == held.run())
    );
    assert!(matches!(
        f.store.lock_take(&new_run(StateId(run.0), "x"), &info("x"), true).await,
        Err(StoreError::NotFound { what: "state", .. })
    ));
}

pub(super) async fn a_plain_terraform_that_asks_again_waits_in_turn(f: &Fixture) {
    let state = f.state("prod").await.id;
    let bob = f.held(state, "bob", "r a.x").await;
    // Who asks once may never come back; who asks again has a place, for as long as it does.
    assert_eq!(refused(f, state, "one", false).await, [bob.run()]);
    assert_eq!(f.store.run_list(state, true, 10).await.unwrap().len(), 1);
    for _ in 0..2 {
        assert_eq!(refused(f, state, "one", true).await, [bob.run()]);
    }
    let live = f.store.run_list(state, true, 10).await.unwrap();
    let waiting = live.iter().find(|run| run.kind == RunKind::Plain).unwrap();
    assert_eq!((live.len(), waiting.status), (2, RunStatus::Waiting));
    // Whoever comes later waits behind it, a run and another lock alike.
    let carol = f.run(state, "carol").await;
    let blockers = blocked(f.again(carol, "r b.y", true).await);
    assert_eq!((blockers.len(), blockers[0].reservation.run), (1, waiting.id));
    assert_eq!((blockers[0].reservation.held_as, blockers[0].reservation.acquired_at), (HeldAs::Lock, None));
    assert_eq!(refused(f, state, "two", true).await, [bob.run(), waiting.id, carol]);
    // Nothing is locked yet.
    assert_eq!(f.store.lock_find(state).await.unwrap(), None);
    assert_eq!(f.store.lock_free(state, &LockEnd::Forced, &alice()).await.unwrap(), LockFreed::NotLocked);

    f.store.run_commit(&bob, &commit(vec![])).await.unwrap();
    assert_eq!(blocked(f.again(carol, "r b.y", true).await).len(), 1);
    assert_eq!(granted(ask(&*f.store, state, "one", true).await), waiting.id);
    assert_eq!(f.store.lock_find(state).await.unwrap().unwrap().id, id("one"));
    let found = f.store.run_find(waiting.id).await.unwrap();
    assert_eq!((found.status, found.source_serial), (RunStatus::Reserved, Serial(1)), "it reads the state only now");
    // However often it asked, behind whom it waited is told once.
    let told = events(f, waiting.id).await;
    let behind = Holder { run: bob.run(), actor: Actor("bob".to_owned()) };
    let waits = RunEvent::Waiting { behind: vec![bob.run()], who: vec![behind] };
    assert!(matches!(&told[..], [first, RunEvent::Locked { .. }] if *first == waits), "{told:?}");
    f.time_passes().await;
    let freed = f.store.lock_free(state, &LockEnd::Returned(id("one")), &alice()).await.unwrap();
    assert_eq!(freed, LockFreed::Freed(waiting.id));
    // It went through in the end: nothing stood in its way.
    assert_eq!(f.store.run_find(waiting.id).await.unwrap().conflict, []);
}

pub(super) async fn who_stood_in_the_way_of_a_plain_terraform_is_on_record(f: &Fixture) {
    let state = f.state("prod").await.id;
    let bob = f.held(state, "bob", "w a.x").await;
    let carol = f.held(state, "carol", "w a.y").await;
    refused(f, state, "one", true).await;
    let live = f.store.run_list(state, true, 10).await.unwrap();
    let run = live.into_iter().find(|run| run.kind == RunKind::Plain).unwrap();
    assert_eq!(run.conflict, [], "it may get its turn yet");
    let conflicts = async || f.sql("SELECT holder FROM run_conflicts ORDER BY holder").await.unwrap();
    assert!(conflicts().await.is_empty());
    f.store.run_commit(&bob, &commit(vec![])).await.unwrap();
    refused(f, state, "one", true).await;
    let told = events(f, run.id).await;
    let behind = |event: &RunEvent| match event {
        RunEvent::Waiting { behind, .. } => behind.clone(),
        other => panic!("{other:?}"),
    };
    let mut both = vec![bob.run(), carol.run()];
    both.sort();
    assert_eq!(told.iter().map(behind).collect::<Vec<_>>(), [both, vec![carol.run()]], "whenever that is another one");

    // Nobody is in its way any more when it is found to have given up: those count that were when it asked last.
    f.store.run_commit(&carol, &commit(vec![])).await.unwrap();
    f.lease_ends(run.id).await;
    f.held(state, "dave", "w *").await;
    let found = f.store.run_find(run.id).await.unwrap();
    assert_eq!(found.status, RunStatus::Conflict);
    let stood = found.conflict.iter().map(|one| (one.reservation.run, one.reservation.claim.pattern.to_string()));
    assert_eq!(stood.collect::<Vec<_>>(), [(carol.run(), "a.y".to_owned())]);
    assert_eq!(conflicts().await, ["carol"]);
}

pub(super) async fn a_plain_terraform_has_no_place_behind_a_quarantine(f: &Fixture) {
    let state = f.state("prod").await.id;
    let held = f.held(state, "bob", "w a.x").await;
    refused(f, state, "one", true).await;
    let live = f.store.run_list(state, true, 10).await.unwrap();
    let waits = live.into_iter().find(|run| run.kind == RunKind::Plain).unwrap().id;
    let quarantine = vec![super::fixture::pattern("a.x")];
    let end = RunEnd { quarantine, ..RunEnd::plain(RunStatus::Failed) };
    f.store.run_end(held.run(), &end).await.unwrap();
    // It asks again by itself, and keeps nobody out meanwhile, whether it had a place before or not.
    for _ in 0..2 {
        assert_eq!(refused(f, state, "one", true).await, [held.run()]);
        assert!(f.store.run_list(state, true, 10).await.unwrap().is_empty());
        let carol = f.held(state, "carol", "w b.y").await;
        f.store.run_commit(&carol, &commit(vec![])).await.unwrap();
    }
    let found = f.store.run_find(waits).await.unwrap();
    assert_eq!((found.status, found.conflict[0].reservation.held_as), (RunStatus::Conflict, HeldAs::Quarantine));
    f.store.quarantine_release(held.run(), &alice()).await.unwrap();
    granted(ask(&*f.store, state, "one", true).await);
}

pub(super) async fn a_place_that_no_terraform_comes_back_to_is_free(f: &Fixture) {
    let state = f.state("prod").await.id;
    let bob = f.held(state, "bob", "w a.x").await;
    let lives = async || f.store.run_list(state, true, 10).await.unwrap();
    let plain = async || lives().await.into_iter().find(|run| run.kind == RunKind::Plain).unwrap().id;
    // It stays away: the next one that asks ends it, whether a run or a lock.
    for ends in ["a run", "a lock"] {
        assert_eq!(refused(f, state, ends, true).await[0], bob.run());
        let run = plain().await;
        f.lease_ends(run).await;
        if ends == "a run" {
            f.held(state, "carol", "r b.y").await;
        } else {
            refused(f, state, "another", false).await;
        }
        let found = f.store.run_find(run).await.unwrap();
        assert!(found.status == RunStatus::Conflict && found.error.is_some(), "{found:?}");
    }
    // It is known to have ended, or somebody ends it.
    refused(f, state, "three", true).await;
    let run = plain().await;
    let end = LockEnd::GivenUp(id("three"));
    assert_eq!(f.store.lock_free(state, &end, &alice()).await.unwrap(), LockFreed::Freed(run));
    assert_eq!(f.store.lock_free(state, &end, &alice()).await.unwrap(), LockFreed::NotLocked);
    assert_eq!(f.store.run_find(run).await.unwrap().status, RunStatus::Conflict);
    refused(f, state, "four", true).await;
    let run = plain().await;
    f.store.run_abort(run, &alice()).await.unwrap();
    assert_eq!(f.store.run_find(run).await.unwrap().status, RunStatus::Aborted);
    assert!(lives().await.iter().all(|run| run.kind != RunKind::Plain));
}

pub(super) async fn a_state_is_written_by_the_holder_of_its_lock_alone(f: &Fixture) {
    let state = f.state("prod").await.id;
    f.commit(state, "bob", &["a.x=1", "a.y=1"]).await;
    let change = crate::store::model::Commit {
        source: Source::Http,
        mode: CommitMode::Snapshot,
        at_least: Some(Serial(7)),
        ..commit(vec![write("a.x=2"), write("a.y=1")])
    };
    let by = |lock: &'static str, base: i64| {
        let (change, store) = (change.clone(), f.store.clone());
        async move { store.lock_write(state, &id(lock), Serial(base), &change).await }
    };
    assert!(matches!(by("one", 1).await, Ok(LockWrite::NotLocked)));
    let run = granted(take(&*f.store, state, "one").await);
    assert!(matches!(by("two", 1).await, Ok(LockWrite::Other(lock)) if lock.id == id("one")));
    assert!(matches!(by("one", 0).await, Err(StoreError::Stale(_))));
    assert_eq!(f.rows(state, None).await, ["a.x=1", "a.y=1"]);

    let Ok(LockWrite::Committed(done)) = by("one", 1).await else { panic!("refused") };
    assert_eq!((done.serial, done.rows_opened, done.rows_closed), (Serial(7), 1, 1));
    assert_eq!(f.rows(state, None).await, ["a.x=2", "a.y=1"]);
    // The lock stays, for the next write.
    let Ok(LockWrite::Committed(done)) = by("one", 7).await else { panic!("refused") };
    assert_eq!((done.serial, done.rows_opened), (Serial(8), 0));

    let other = f.store.lock_free(state, &LockEnd::Returned(id("two")), &alice()).await.unwrap();
    assert!(matches!(other, LockFreed::Other(lock) if lock.run == run));
    for _ in 0..2 {
        let freed = f.store.lock_free(state, &LockEnd::Returned(id("one")), &alice()).await.unwrap();
        assert_eq!(freed, LockFreed::Freed(run));
    }
    let found = f.store.run_find(run).await.unwrap();
    assert_eq!((found.status, found.result_serial), (RunStatus::Committed, Some(Serial(8))));
    let unknown = f.store.lock_free(state, &LockEnd::Returned(id("never")), &alice()).await.unwrap();
    assert_eq!(unknown, LockFreed::NotLocked);
    assert!(matches!(by("one", 8).await, Ok(LockWrite::NotLocked)));
    // Also once somebody else has the lock, who keeps it.
    let other = granted(take(&*f.store, state, "two").await);
    let freed = f.store.lock_free(state, &LockEnd::Returned(id("one")), &alice()).await.unwrap();
    assert_eq!(freed, LockFreed::Freed(run));
    assert_eq!(f.store.lock_find(state).await.unwrap().unwrap().run, other);
    f.store.lock_free(state, &LockEnd::Returned(id("two")), &alice()).await.unwrap();
    f.held(state, "bob", "w *").await;
}

pub(super) async fn a_lock_for_one_write_is_taken_and_given_back_at_once(f: &Fixture) {
    let state = f.state("prod").await.id;
    f.commit(state, "bob", &["a.x=1"]).await;
    let change = commit(vec![write("a.x=2")]);
    let once = async |base: i64| {
        let run = crate::domain::run::NewRun { kind: RunKind::Plain, ..new_run(state, "alice") };
        f.store.lock_once(&run, &info("one"), Serial(base), &change).await.map(|done| (run.id, done))
    };
    let recorded = async || f.store.run_list(state, false, 10).await.unwrap().len();
    // Whoever holds anything is in the way, and nothing is recorded.
    let held = f.held(state, "bob", "r a.x").await;
    let Ok((_, LockOnce::Blocked { blockers, lock: None })) = once(1).await else { panic!("not blocked") };
    assert_eq!((blockers.len(), blockers[0].reservation.run, recorded().await), (1, held.run(), 2));
    f.store.run_commit(&held, &commit(vec![])).await.unwrap();
    let run = granted(take(&*f.store, state, "other").await);
    let Ok((_, LockOnce::Blocked { lock: Some(lock), .. })) = once(2).await else { panic!("not blocked") };
    assert_eq!((lock.run, recorded().await), (run, 3));
    f.store.lock_free(state, &LockEnd::Returned(id("other")), &alice()).await.unwrap();

    // A write that cannot be leaves no lock.
    assert!(matches!(once(1).await, Err(StoreError::Stale(_))));
    assert_eq!((f.store.lock_find(state).await.unwrap(), recorded().await), (None, 3));
    let Ok((run, LockOnce::Committed(done))) = once(2).await else { panic!("refused") };
    assert_eq!((done.serial, done.rows_opened, f.store.lock_find(state).await.unwrap()), (Serial(3), 1, None));
    let found = f.store.run_find(run).await.unwrap();
    assert_eq!((found.status, found.result_serial), (RunStatus::Committed, Some(Serial(3))));
    let events = events(f, run).await;
    assert!(
        matches!(
            events[..],
            [RunEvent::Locked { .. }, RunEvent::Committed { .. }, RunEvent::Unlocked { forced: false, .. }]
        ),
        "{events:?}"
    );
    f.held(state, "bob", "w *").await;
}

pub(super) async fn a_lock_that_is_taken_away_is_the_lock_alone(f: &Fixture) {
    let state = f.state("prod").await.id;
    let held = f.held(state, "bob", "w a.x").await;
    assert_eq!(f.store.lock_free(state, &LockEnd::Forced, &alice()).await.unwrap(), LockFreed::NotLocked);
    f.store.reservation_renew(&held).await.unwrap();
    f.store.run_commit(&held, &commit(vec![write("a.x=1")])).await.unwrap();

    let run = granted(take(&*f.store, state, "one").await);
    let carol = Actor("carol".to_owned());
    assert_eq!(f.store.lock_free(state, &LockEnd::Forced, &carol).await.unwrap(), LockFreed::Freed(run));
    assert_eq!(f.store.run_find(run).await.unwrap().status, RunStatus::Aborted);
    assert!(events(f, run).await.contains(&RunEvent::Unlocked { by: carol, forced: true }));
    // Its holder hears of it.
    let late = f.store.lock_free(state, &LockEnd::Returned(id("one")), &alice()).await.unwrap();
    assert_eq!(late, LockFreed::TakenAway(run));

    let run = granted(take(&*f.store, state, "next").await);
    let late = f.store.lock_free(state, &LockEnd::Returned(id("one")), &alice()).await.unwrap();
    assert!(matches!(late, LockFreed::TakenAway(taken) if taken != run));
    f.store.lock_free(state, &LockEnd::Returned(id("next")), &alice()).await.unwrap();

    // What it has written counts, however it ends.
    for (number, end) in ["taken away", "left", "aborted"].into_iter().enumerate() {
        let run = granted(take(&*f.store, state, end).await);
        let base = Serial(i64::try_from(number).unwrap() + 1);
        let done = f.store.lock_write(state, &id(end), base, &commit(vec![write(&format!("a.y={number}"))])).await;
        assert!(matches!(done, Ok(LockWrite::Committed(_))), "{done:?}");
        match end {
            "taken away" => drop(f.store.lock_free(state, &LockEnd::Forced, &alice()).await.unwrap()),
            "left" => drop(f.store.lock_free(state, &LockEnd::LeftBehind(id(end)), &alice()).await.unwrap()),
            _ => drop(f.store.run_abort(run, &alice()).await.unwrap()),
        }
        let found = f.store.run_find(run).await.unwrap();
        assert!(found.status != RunStatus::Committed && found.result_serial == Some(base.next()), "{end}: {found:?}");
    }
    // One that its holder left is no success, and one whose run is aborted is free.
    let run = granted(take(&*f.store, state, "two").await);
    let left = f.store.lock_free(state, &LockEnd::LeftBehind(id("two")), &alice()).await.unwrap();
    assert_eq!(left, LockFreed::Freed(run));
    let found = f.store.run_find(run).await.unwrap();
    assert!(found.status == RunStatus::Failed && found.error.is_some(), "{found:?}");
    let run = granted(take(&*f.store, state, "three").await);
    f.store.run_abort(run, &alice()).await.unwrap();
    assert_eq!(f.store.lock_find(state).await.unwrap(), None);
    assert!(f.store.reservation_list(state).await.unwrap().is_empty());
}

pub(super) async fn of_many_that_lock_at_once_one_wins(f: &Fixture) {
    let state = f.state("prod").await.id;
    for round in 0..3 {
        let mut tasks = Vec::new();
        for number in 0..20 {
            let store: Arc<dyn Store> = f.store.clone();
            tasks.push(tokio::spawn(async move {
                let name = format!("{round}-{number}");
                matches!(take(&*store, state, &name).await, LockTaken::Granted(_)).then_some(name)
            }));
        }
        let mut winners = Vec::new();
        for task in tasks {
            winners.extend(task.await.unwrap());
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
        let end = LockEnd::Returned(LockId(winners.remove(0)));
        assert!(matches!(f.store.lock_free(state, &end, &alice()).await, Ok(LockFreed::Freed(_))));
    }
}
