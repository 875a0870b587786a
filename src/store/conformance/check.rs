//! The check of a database: every invariant, broken on purpose behind the store's back.

use std::collections::BTreeSet;

use super::fixture::{Fixture, granted, pattern};
use crate::domain::id::{Actor, RunId, Serial, StateId};
use crate::domain::run::Origin;
use crate::domain::run::event::RunEvent;
use crate::store::Acquired;
use crate::store::model::{Checkpoint, Invariant, NewSpec, Violation};

/// What a case breaks: the statement, what it breaks, and what the violation has to name.
type Break<'a> = (&'a str, Invariant, Vec<&'a str>);

/// Executes a statement that foreign keys and triggers would refuse.
async fn force(f: &Fixture, sql: &str) {
    let free = if f.is_sqlite() { "PRAGMA foreign_keys = OFF" } else { "SET session_replication_role = replica" };
    f.sql(&format!("{free}; {sql}")).await.unwrap();
}

/// Every member of a violation in one line.
fn line(one: &Violation) -> String {
    let serial = one.serial.map(|serial| format!("serial {serial}"));
    let run = one.run.map(|run| format!("run {run}"));
    let parts = [one.state.clone(), one.subject.clone(), serial, run, Some(one.problem.clone())];
    format!("{}: {}", one.invariant.word(), parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

async fn found(f: &Fixture) -> BTreeSet<String> {
    f.store.database_check().await.unwrap().violations.iter().map(line).collect()
}

/// A state with a history, a run that holds, one that waits, and one that failed; a spec.
async fn story(f: &Fixture) -> (StateId, RunId, RunId, RunId) {
    let state = f.state("prod").await.id;
    f.commit(state, "alice", &["a.x=1", "a.y=1", "a.z={\"z\":1}"]).await;
    f.commit(state, "bob", &["a.x=2", "a.y"]).await;
    f.commit(state, "carol", &["a.x=3"]).await;
    let holder = f.held(state, "alice", "w a.x\nr a.z").await.run();
    let waiter = f.run(state, "bob").await;
    assert!(matches!(f.again(waiter, "w a.x", true).await, Acquired::Blocked { .. }));
    let failed = granted(f.ask(state, "carol", "w a.w").await.1).run();
    let checkpoint = Checkpoint {
        state: "{}".to_owned(),
        changed: vec![pattern("a.w")],
        in_flight: Vec::new(),
        slice_serial: Some(Serial(3)),
    };
    f.store.checkpoint_put(failed, &checkpoint).await.unwrap();
    f.store.event_append(failed, &[RunEvent::LeaseLost { to: None, refused: false }]).await.unwrap();
    f.store.run_abort(failed, &Actor("alice".to_owned())).await.unwrap();
    let spec = NewSpec {
        id: crate::clock::new_spec_id(),
        state,
        source_serial: Serial(3),
        actor: Actor("alice".to_owned()),
        origin: Origin::default(),
        digest: "d".to_owned(),
        document: "{}".to_owned(),
    };
    f.store.spec_insert(&spec).await.unwrap();
    (state, holder, waiter, failed)
}

pub(super) async fn a_sound_database_is_told_from_every_broken_one(f: &Fixture) {
    f.corrupted_on_purpose();
    let (_, holder, waiter, failed) = story(f).await;
    let report = f.store.database_check().await.unwrap();
    assert!(report.sound(), "{:?}", report.violations);
    let looked = report.looked;
    assert_eq!((looked.states, looked.versions, looked.lifecycles, looked.contents), (1, 3, 5, 4));

    let (ended_waiter, ended_holder) = (ended(waiter), ended(holder));
    let (holder, waiter, gone) = (format!("run {holder}"), format!("run {waiter}"), format!("run {failed}"));
    let forgotten = format!("DELETE FROM runs WHERE id = '{failed}'");
    let mut breaks: Vec<Break<'_>> = vec![
        (&ended_waiter, Invariant::WaitersAlive, vec!["prod", "a.x", &waiter, "waited for (write)"]),
        (&ended_holder, Invariant::ReservationsOfLiveRuns, vec!["prod", "a.z", &holder, "reserved (read)", "failed"]),
        (
            "DELETE FROM resource_bodies WHERE body = '2'",
            Invariant::Contents,
            vec!["prod", "a.x", "serial 2", "its content is missing"],
        ),
        (
            "UPDATE resource_bodies SET body = '{\"z\":2}' WHERE body = '{\"z\":1}'",
            Invariant::ContentHashes,
            vec!["prod", "a.z", "serial 1", "not the one that its hash is of"],
        ),
        (
            "UPDATE resource_bodies SET body = '{\"z\":' WHERE body = '{\"z\":2}'",
            Invariant::ContentHashes,
            vec!["prod", "a.z", "its content is not JSON"],
        ),
        (
            "UPDATE state_versions SET rows_opened = 7 WHERE serial = 1",
            Invariant::RowCounts,
            vec!["prod", "serial 1", "opened 7 lifecycles and closed 0, and there are 3 and 0"],
        ),
        (
            "UPDATE resources SET to_serial = 3 WHERE address = 'a.x' AND from_serial = 1",
            Invariant::LifecyclesApart,
            vec!["prod", "a.x", "serial 2", "from serial 1, ends with serial 3"],
        ),
        (
            "DROP INDEX resources_open; UPDATE resources SET to_serial = NULL WHERE address = 'a.x' AND from_serial = 2",
            Invariant::OneOpenLifecycle,
            vec!["prod", "a.x", "serial 3", "it has 2 open lifecycles"],
        ),
        (
            "UPDATE resources SET address = 'a.zz' WHERE address = 'a.z'",
            Invariant::RowKeys,
            vec!["prod", "a.zz", "its key is not that of its address"],
        ),
        (
            "UPDATE resources SET from_serial = 77 WHERE address = 'a.zz'",
            Invariant::LifecycleVersions,
            vec!["prod", "a.zz", "serial 77", "a serial that is no version"],
        ),
        (
            "DELETE FROM state_versions WHERE serial = 2",
            Invariant::ConsecutiveSerials,
            vec!["prod", "serial 3", "the version before it is 1"],
        ),
        ("SELECT 'nothing more'", Invariant::CommittedRuns, vec!["prod", "serial 2", "there is no such version of it"]),
        (
            "UPDATE runs SET result_serial = NULL WHERE result_serial = 3",
            Invariant::NamedVersions,
            vec!["prod", "serial 3", "the newest version of the run, which names none"],
        ),
        ("UPDATE states SET serial = 9", Invariant::NewestSerial, vec!["prod", "serial 9", "the newest version is 3"]),
        (&forgotten, Invariant::KnownRuns, vec!["its checkpoint", &gone]),
        ("SELECT 'nothing more'", Invariant::KnownRuns, vec!["a reservation of it", &gone]),
        ("SELECT 'nothing more'", Invariant::KnownRuns, vec!["its events", &gone]),
        (
            "UPDATE plan_specs SET document = '{'",
            Invariant::Json,
            vec!["prod", "spec ", "plan_specs.document is not JSON"],
        ),
        ("UPDATE run_checkpoints SET state = '{'", Invariant::Json, vec![&gone, "run_checkpoints.state is not JSON"]),
    ];
    if f.is_sqlite() {
        breaks.push(("UPDATE runs SET tools = '{'", Invariant::Json, vec!["prod", &holder, "runs.tools is not JSON"]));
    }
    for (sql, invariant, names) in breaks {
        force(f, sql).await;
        let found = found(f).await;
        let named = |line: &&String| line.starts_with(invariant.word()) && names.iter().all(|name| line.contains(name));
        assert!(found.iter().any(|line| named(&line)), "{sql}: no {invariant:?} with {names:?} in {found:#?}");
    }
}

/// Ends a run and leaves its reservations.
fn ended(run: RunId) -> String {
    format!("UPDATE runs SET status = 'failed', ended_at = started_at WHERE id = '{run}'")
}

pub(super) async fn more_than_can_be_told_is_counted_and_not_told(f: &Fixture) {
    f.corrupted_on_purpose();
    let state = f.state("prod").await.id;
    let rows: Vec<String> = (0..1_100).map(|number| format!("a.x[{number}]={number}")).collect();
    f.commit(state, "alice", &rows.iter().map(String::as_str).collect::<Vec<_>>()).await;
    force(f, "DELETE FROM resource_bodies").await;
    let report = f.store.database_check().await.unwrap();
    assert_eq!((report.violations.len(), report.more), (1_000, vec![Invariant::Contents]));
    let next = report.violations[0].invariant.next();
    assert!(next.contains("backup"), "{next}");
}
