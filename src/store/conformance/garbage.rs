//! Old garbage: what goes, what stays, and that nobody is held up.

use std::time::Duration;

use super::fixture::{Fixture, commit, granted, new_run, pattern, write};
use super::requests::{facts, open, planned, request};
use crate::domain::id::{Actor, RunId, Serial, StateId};
use crate::domain::request::RequestPhase;
use crate::domain::run::event::RunEvent;
use crate::domain::run::{NewRun, RunEnd, RunKind, RunStatus};
use crate::store::model::{Checkpoint, CommentLock, Garbage, GarbageKind, Retention, VersionQuery};
use crate::store::{Acquired, Ask, StoreError};

/// What is older than 90 days goes, whatever its serial.
const OLD: Retention = Retention { younger_than: Duration::from_hours(90 * 24), versions: 1 };
/// Everything that can go.
const ANY: Retention = Retention { younger_than: Duration::ZERO, versions: 1 };

/// What a dry run finds, kind by kind; nothing is left out.
async fn counted(f: &Fixture, keep: &Retention) -> Vec<(GarbageKind, Garbage)> {
    let mut found = Vec::new();
    for kind in GarbageKind::ALL {
        found.push((kind, f.store.garbage_count(kind, keep).await.unwrap()));
    }
    found
}

/// Removes everything, one by one, and looks that it was what the dry run found.
async fn removed(f: &Fixture, keep: &Retention) -> Vec<(GarbageKind, u64)> {
    let expected = counted(f, keep).await;
    let mut found = Vec::new();
    for kind in GarbageKind::ALL {
        let mut sum = Garbage::default();
        loop {
            let some = f.store.garbage_remove(kind, keep, 1).await.unwrap();
            assert!(some.count <= 2, "{kind:?}: at most one, and one workplace");
            if some.count == 0 {
                break;
            }
            sum += some;
        }
        found.push((kind, sum));
    }
    assert_eq!(found, expected, "as the dry run said");
    let left = counted(f, keep).await;
    assert!(left.iter().all(|(_, garbage)| garbage.count == 0), "{left:?}");
    let report = f.store.database_check().await.unwrap();
    assert!(report.sound(), "{:?}", report.violations);
    found.into_iter().filter(|(_, garbage)| garbage.count > 0).map(|(kind, garbage)| (kind, garbage.count)).collect()
}

async fn serials(f: &Fixture, state: StateId) -> Vec<i64> {
    let all = VersionQuery { before: None, since: None, limit: 100, with_rows: true };
    f.store.version_list(state, all).await.unwrap().iter().map(|version| version.serial.0).collect()
}

/// A run from a serial that has reserved these rows.
async fn holding(f: &Fixture, state: StateId, source: i64, claims: &str) -> RunId {
    let run = NewRun { source_serial: Serial(source), ..new_run(state, "alice") };
    f.store.run_start(&run).await.unwrap();
    let _held = granted(f.again(run.id, claims, false).await);
    run.id
}

fn checkpoint(address: &str) -> Checkpoint {
    Checkpoint {
        state: "{\"serial\":1}".to_owned(),
        changed: vec![pattern(address)],
        in_flight: Vec::new(),
        slice_serial: None,
    }
}

pub(super) async fn what_is_old_goes_and_what_is_kept_can_be_read(f: &Fixture) {
    let state = f.state("prod").await.id;
    f.commit(state, "alice", &["a.x=1", "a.y=1", "a.z=\"z\""]).await;
    f.commit(state, "bob", &["a.x=2", "a.y"]).await;
    f.commit(state, "carol", &["a.x=3"]).await;
    f.commit(state, "alice", &["a.x=4"]).await;
    let failed = holding(f, state, 2, "w a.w").await;
    f.store.checkpoint_put(failed, &checkpoint("a.w")).await.unwrap();
    f.store.event_append(failed, &[RunEvent::LeaseLost { to: None, refused: false }]).await.unwrap();
    f.store.run_end(failed, &RunEnd::plain(RunStatus::Failed)).await.unwrap();
    f.ages(100).await;
    f.commit(state, "bob", &["a.x=5"]).await;
    let young = holding(f, state, 5, "w a.w").await;
    f.store.run_end(young, &RunEnd::plain(RunStatus::Failed)).await.unwrap();
    let (trunk, fourth) = (f.rows(state, None).await, f.rows(state, Some(4)).await);
    let all = f
        .store
        .version_list(state, VersionQuery { before: None, since: None, limit: 100, with_rows: false })
        .await
        .unwrap();
    let run_of = |serial: i64| all.iter().find(|version| version.serial.0 == serial).unwrap().run.unwrap();

    let ten = Retention { versions: 10, ..OLD };
    let found = counted(f, &ten).await;
    let found: Vec<_> = found.iter().filter(|(_, garbage)| garbage.count > 0).map(|(kind, _)| *kind).collect();
    assert_eq!(found, [GarbageKind::Checkpoints, GarbageKind::Runs], "the newest ten versions stay");

    // a.x at 1 and at 2, a.y; serial 2 (serial 1 made a.z, and 3 what 4 replaced); the runs of 2 and the failed one.
    assert_eq!(
        removed(f, &OLD).await,
        [
            (GarbageKind::Checkpoints, 1),
            (GarbageKind::Lifecycles, 3),
            (GarbageKind::Versions, 1),
            (GarbageKind::Runs, 2),
            (GarbageKind::Bodies, 2)
        ]
    );
    assert_eq!(f.rows(state, None).await, trunk);
    assert_eq!(f.rows(state, Some(4)).await, fourth);
    assert_eq!(serials(f, state).await, [5, 4, 3, 1]);
    for serial in [1, 2, 3] {
        let gone = f.store.snapshot(state, Some(Serial(serial))).await.unwrap_err();
        assert!(matches!(gone, StoreError::HistoryRemoved { from: Serial(4), .. }), "{gone:?}");
    }
    assert_eq!(f.store.rows_changed_since(state, Serial(3)).await.unwrap().len(), 1);
    let gone = f.store.rows_changed_since(state, Serial(2)).await.unwrap_err();
    assert!(matches!(gone, StoreError::HistoryRemoved { serial: Serial(2), from: Serial(4) }), "{gone:?}");
    for (run, stays) in [(run_of(1), true), (run_of(2), false), (run_of(5), true), (failed, false), (young, true)] {
        assert_eq!(f.store.run_find(run).await.is_ok(), stays, "{run}");
        assert_eq!(f.store.event_list(run).await.is_ok(), stays, "{run}");
    }
}

pub(super) async fn what_may_still_be_needed_keeps_its_history(f: &Fixture) {
    let state = f.state("prod").await.id;
    for value in 1..=4 {
        f.commit(state, "alice", &[&format!("a.x={value}")]).await;
    }
    let live = holding(f, state, 1, "w a.live").await;
    let failed = holding(f, state, 2, "w a.failed").await;
    f.store.checkpoint_put(failed, &checkpoint("a.failed")).await.unwrap();
    let end = RunEnd { quarantine: vec![pattern("a.failed")], ..RunEnd::plain(RunStatus::Failed) };
    f.store.run_end(failed, &end).await.unwrap();
    f.ages(100).await;
    assert_eq!(removed(f, &OLD).await, [], "the live run is from serial 1");

    f.store.run_end(live, &RunEnd::plain(RunStatus::Failed)).await.unwrap();
    f.ages(100).await;
    assert_eq!(removed(f, &OLD).await, [(GarbageKind::Runs, 1)], "the quarantine is from serial 2");
    assert!(f.store.checkpoint_find(failed).await.unwrap().is_some());
    assert_eq!(f.rows(state, Some(2)).await, ["a.x=2"]);

    f.store.quarantine_release(failed, &Actor("carol".to_owned())).await.unwrap();
    let lifecycles = [(GarbageKind::Lifecycles, 2), (GarbageKind::Versions, 2), (GarbageKind::Runs, 3)];
    let first = [(GarbageKind::Checkpoints, 1)];
    assert_eq!(removed(f, &OLD).await, [&first[..], &lifecycles, &[(GarbageKind::Bodies, 2)]].concat());
    assert_eq!(serials(f, state).await, [4, 3]);
}

pub(super) async fn requests_go_when_nothing_is_to_be_applied_any_more(f: &Fixture) {
    let state = f.state("prod").await.id;
    for value in 1..=3 {
        f.commit(state, "alice", &[&format!("a.x={value}")]).await;
    }
    let mut specs = Vec::new();
    for number in 1..=4 {
        let request = open(f, number, "h1").await;
        specs.push(planned(f, &request, "prod", state, "h1").await);
        let lock = f.store.comment_lock(&request, crate::clock::new_run_id().0, Duration::ZERO).await.unwrap();
        assert!(matches!(lock, CommentLock::Granted { .. }), "{lock:?}");
    }
    let superseded = specs[0];
    specs[0] = planned(f, &request(1), "prod", state, "h1").await;
    f.store.request_put(&request(2), &facts("h1", RequestPhase::Merged)).await.unwrap();
    f.store.request_put(&request(3), &facts("h1", RequestPhase::Merged)).await.unwrap();
    f.store.request_put(&request(4), &facts("h1", RequestPhase::Closed)).await.unwrap();
    // Request 3 is applied.
    let run = NewRun { spec: Some(specs[2]), source_serial: Serial(1), ..new_run(state, "carol") };
    f.store.run_start(&run).await.unwrap();
    let held = granted(f.again(run.id, "w a.x", false).await);
    assert_eq!(f.store.run_commit(&held, &commit(vec![write("a.x=4")])).await.unwrap().serial, Serial(4));
    // Request 2 was recovered: the rest of it is still to be applied.
    let recovery = NewRun { kind: RunKind::Recover, spec: Some(specs[1]), ..new_run(state, "carol") };
    f.store.run_start(&recovery).await.unwrap();
    f.store.run_end(recovery.id, &RunEnd::plain(RunStatus::Noop)).await.unwrap();
    assert_eq!(removed(f, &OLD).await, [], "all of it is young");

    f.ages(100).await;
    f.sql("UPDATE comments SET locked_by = NULL, locked_until = NULL").await.unwrap();
    // What the open and the merged request were planned from stays; the spec of request 3 made what stands.
    assert_eq!(removed(f, &OLD).await, [(GarbageKind::Requests, 2), (GarbageKind::Runs, 1), (GarbageKind::Specs, 2)]);
    for (number, stays) in [(1, true), (2, true), (3, false), (4, false)] {
        assert_eq!(f.store.request_find(&request(number)).await.unwrap().is_some(), stays, "{number}");
        assert_eq!(f.store.request_projects(&request(number)).await.unwrap().len(), usize::from(stays), "{number}");
    }
    assert!(f.store.spec_find(superseded).await.is_err() && f.store.spec_find(specs[3]).await.is_err());
    for spec in &specs[..3] {
        assert!(f.store.spec_find(*spec).await.is_ok());
    }
    assert_eq!(f.store.open_specs(state, 10).await.unwrap().len(), 2);

    // Nothing is to be applied any more: the history goes, too.
    f.store.request_put(&request(1), &facts("h1", RequestPhase::Closed)).await.unwrap();
    f.sql("UPDATE request_projects SET plan_status = 'dropped' WHERE request = 2").await.unwrap();
    f.ages(100).await;
    let kinds: Vec<GarbageKind> = removed(f, &OLD).await.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(
        kinds,
        [
            GarbageKind::Requests,
            GarbageKind::Lifecycles,
            GarbageKind::Versions,
            GarbageKind::Runs,
            GarbageKind::Specs,
            GarbageKind::Bodies
        ]
    );
    assert_eq!(f.store.spec_find(specs[2]).await.unwrap().spec.id, specs[2]);
}

pub(super) async fn who_began_and_died_is_lost(f: &Fixture) {
    let state = f.state("prod").await.id;
    let held = f.held(state, "alice", "w a.x").await;
    let (died, began) = (f.run(state, "bob").await, f.run(state, "carol").await);
    let queue = |run| Ask { queue: true, ..ask(run) };
    assert!(matches!(f.store.reservation_acquire(&queue(died)).await.unwrap(), Acquired::Blocked { .. }));
    f.store.event_append(began, &[RunEvent::LeaseLost { to: None, refused: false }]).await.unwrap();
    f.ages(2).await;
    let waits = NewRun { kind: RunKind::Refresh, ..new_run(state, "bob") };
    f.store.run_start(&waits).await.unwrap();
    f.ages(2).await;
    f.store.reservation_renew(&held).await.unwrap();
    assert!(matches!(f.store.reservation_acquire(&queue(waits.id)).await.unwrap(), Acquired::Blocked { .. }));
    let young = f.run(state, "carol").await;

    let abandoned = [(GarbageKind::Abandoned, 2)];
    assert_eq!(removed(f, &OLD).await, abandoned, "neither who holds, nor who still waits, nor who has just begun");
    let status = async |run| f.store.run_find(run).await.unwrap().status;
    assert_eq!((status(died).await, status(began).await), (RunStatus::Lost, RunStatus::Lost));
    assert_eq!((status(held.run()).await, status(waits.id).await), (RunStatus::Reserved, RunStatus::Waiting));
    assert_eq!(status(young).await, RunStatus::Started);
    let events = f.store.event_list(died).await.unwrap();
    assert_eq!(events.last().unwrap().event, RunEvent::LeaseLost { to: None, refused: false });
    // Whoever comes back hears of it.
    let back = f.store.reservation_acquire(&queue(died)).await.unwrap_err();
    assert!(matches!(back, StoreError::LeaseLost { .. }), "{back:?}");
}

fn ask(run: RunId) -> Ask {
    Ask { run, claims: super::fixture::claims("w a.x"), lease: super::fixture::LEASE, queue: false }
}

pub(super) async fn commits_go_on_beside_it(f: &Fixture) {
    let state = f.state("prod").await.id;
    let other = f.another().await;
    let (sweeping, stop) = tokio::sync::watch::channel(true);
    let sweeper = tokio::spawn(async move {
        let mut removed = 0;
        loop {
            let last = !*stop.borrow();
            for kind in GarbageKind::ALL {
                removed += other.garbage_remove(kind, &ANY, 100).await.unwrap().count;
            }
            if last {
                return removed;
            }
        }
    });
    // The same contents come and go: each is found, or stored again.
    for round in 0..30 {
        let value = round % 2;
        f.commit(state, "alice", &[&format!("a.x={value}"), &format!("a.y=[{value}]")]).await;
    }
    sweeping.send(false).unwrap();
    assert!(sweeper.await.unwrap() > 0);
    assert_eq!(f.rows(state, None).await, ["a.x=1", "a.y=[1]"]);
    assert_eq!(f.store.database_check().await.unwrap().violations, []);
}
