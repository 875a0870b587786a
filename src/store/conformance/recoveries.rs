//! Recoveries: what goes over to them, what stays, and what is added to a quarantine when it becomes known.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use super::fixture::{Fixture, LEASE, blocked, commit, granted, new_run, pattern, write};
use crate::domain::coordination::reservation::HeldAs;
use crate::domain::id::{Actor, RunId, Serial, StateId};
use crate::domain::run::event::{ResourceStep, RunEvent};
use crate::domain::run::workplace::{Host, Workplace};
use crate::domain::run::{RunEnd, RunKind, RunStatus};
use crate::store::model::{Checkpoint, Commit, SoftWrite};
use crate::store::{Held, Takeover};

fn checkpoint(state: &str, changed: &[&str]) -> Checkpoint {
    Checkpoint {
        state: state.to_owned(),
        changed: changed.iter().map(|text| pattern(text)).collect(),
        in_flight: Vec::new(),
        slice_serial: Some(Serial(0)),
    }
}

fn workplace() -> Workplace {
    let host = Host { name: "build-7".to_owned(), machine: None, boot: None, processes: None };
    Workplace { host, dir: "/tmp/kl-live".to_owned(), group: None, slice_serial: Serial(0) }
}

fn carol() -> Actor {
    Actor("carol".to_owned())
}

/// What a run has in quarantine.
async fn quarantined(f: &Fixture, state: StateId, run: RunId) -> Vec<String> {
    let standing = f.store.reservation_list(state).await.unwrap();
    let own = standing.iter().filter(|one| one.run == run && one.held_as == HeldAs::Quarantine);
    own.map(|one| one.claim.pattern.to_string()).collect()
}

/// A recovery that takes over what a run left, and the checkpoint that it has got.
async fn recovery(f: &Fixture, state: StateId, of: RunId, kept: bool) -> (Held, Option<Checkpoint>) {
    let mut new = new_run(state, "dave");
    new.kind = RunKind::Recover;
    f.store.run_start(&new).await.unwrap();
    match f.store.quarantine_adopt(new.id, of, LEASE, kept).await.unwrap() {
        Takeover::Held { held, checkpoint } => (held, checkpoint),
        Takeover::Blocked(blockers) => panic!("blocked by {blockers:?}"),
    }
}

/// A run whose Terraform may go on, and that was ended from outside.
async fn cut_off(f: &Fixture, state: StateId, claims: &str) -> RunId {
    let (run, acquired) = f.ask(state, "alice", claims).await;
    granted(acquired);
    f.store.run_advance(run, RunStatus::Applying).await.unwrap();
    f.store.workplace_put(run, &workplace()).await.unwrap();
    f.store.checkpoint_put(run, &checkpoint("{}", &["a.x"])).await.unwrap();
    f.store.run_abort(run, &carol()).await.unwrap();
    run
}

pub(super) async fn what_another_machine_may_know_stays_with_the_run(f: &Fixture) {
    let state = f.state("prod").await.id;
    let run = cut_off(f, state, "w a.x\nw a.y").await;
    let (held, _) = recovery(f, state, run, true).await;
    assert_eq!(quarantined(f, state, run).await, ["a.x", "a.y"]);
    let told = f.store.event_list(run).await.unwrap();
    let addresses = vec!["a.x".to_owned(), "a.y".to_owned()];
    assert_eq!(told[told.len() - 2].event, RunEvent::TakenOver { by: held.run(), actor: Actor("dave".to_owned()) });
    assert_eq!(told[told.len() - 1].event, RunEvent::Quarantined { addresses });
    // What is on record gets into the trunk, and the run's own quarantine is not in the way of that.
    let soft = vec![SoftWrite { expected: None, write: write("a.x={}") }];
    let committed = f.store.run_commit(&held, &Commit { soft, ..commit(Vec::new()) }).await.unwrap();
    assert_eq!((committed.left.len(), committed.rows_opened), (0, 1));
    assert_eq!(f.store.reservation_list(state).await.unwrap().len(), 2);
    assert_eq!(quarantined(f, state, run).await, ["a.x", "a.y"]);

    // One that is cut off leaves nothing of its own: all of it is where it was.
    let (aborted, _) = recovery(f, state, run, true).await;
    f.store.run_abort(aborted.run(), &carol()).await.unwrap();
    let (silent, _) = recovery(f, state, run, true).await;
    f.lease_ends(silent.run()).await;
    let met = blocked(f.ask(state, "bob", "w a.y").await.1);
    assert_eq!(met.iter().map(|one| one.reservation.run).collect::<Vec<_>>(), [run]);
    assert_eq!(f.store.reservation_list(state).await.unwrap().len(), 2);

    // On that machine it is taken over as a whole.
    let (held, _) = recovery(f, state, run, false).await;
    assert_eq!(quarantined(f, state, run).await, Vec::<String>::new());
    f.store.run_commit(&held, &commit(vec![write("a.y={}")])).await.unwrap();
    assert_eq!(f.store.reservation_list(state).await.unwrap(), []);
}

pub(super) async fn what_becomes_known_later_is_quarantined_again(f: &Fixture) {
    let state = f.state("prod").await.id;
    let (live, acquired) = f.ask(state, "alice", "w b.x").await;
    granted(acquired);
    f.store.quarantine_add(live, &[pattern("b.x")], &checkpoint("{}", &["b.x"])).await.unwrap();
    assert_eq!(quarantined(f, state, live).await, Vec::<String>::new());

    let run = cut_off(f, state, "w a.x\nw a.y").await;
    let (held, _) = recovery(f, state, run, false).await;
    f.store.run_commit(&held, &commit(vec![write("a.x={}")])).await.unwrap();
    f.held(state, "bob", "w a.y").await;
    for _ in 0..2 {
        f.store.quarantine_add(run, &[pattern("a.y")], &checkpoint("{}", &["a.y"])).await.unwrap();
        assert_eq!(quarantined(f, state, run).await, ["a.y"]);
        let last = f.store.event_list(run).await.unwrap().pop().unwrap().event;
        assert_eq!(last, RunEvent::Quarantined { addresses: vec!["a.y".to_owned()] });
        assert_eq!(f.store.checkpoint_find(run).await.unwrap(), Some(checkpoint("{}", &["a.y"])));
    }
}

pub(super) async fn what_changed_without_having_been_planned_is_kept(f: &Fixture) {
    let state = f.state("prod").await.id;
    for (changed, kept) in [(&["a.x", "b.z"][..], &["a.x", "b.z"][..]), (&["b.z"], &["b.z"]), (&["*"], &["a.x"])] {
        let (run, acquired) = f.ask(state, "alice", "w a.x").await;
        granted(acquired);
        let quarantine = changed.iter().map(|text| pattern(text)).collect();
        f.store.run_end(run, &RunEnd { quarantine, ..RunEnd::failed("more than planned") }).await.unwrap();
        assert_eq!(quarantined(f, state, run).await, kept);
        f.store.quarantine_release(run, &carol()).await.unwrap();
    }
}

pub(super) async fn the_checkpoint_that_goes_over_is_told(f: &Fixture) {
    let state = f.state("prod").await.id;
    let run = cut_off(f, state, "w a.x\nw a.y").await;
    // Its machine knows more by now than whoever looked before.
    let later = checkpoint(r#"{"version":4}"#, &["a.x", "a.y"]);
    f.store.checkpoint_put(run, &later).await.unwrap();
    let (held, told) = recovery(f, state, run, false).await;
    assert_eq!(told.as_ref(), Some(&later));
    assert_eq!(f.store.checkpoint_find(held.run()).await.unwrap(), told);
}

/// Whoever ends a run from outside reads its checkpoint and writes it again. The complete one that the run's machine brings
/// in between stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_checkpoint_is_not_replaced_by_an_older_one() {
    let Some(f) = Fixture::postgres().await else {
        return;
    };
    let state = f.state("prod").await.id;
    for has_one in [true, false] {
        let (run, acquired) = f.ask(state, "alice", "w a.x\nw a.y").await;
        granted(acquired);
        f.store.run_advance(run, RunStatus::Applying).await.unwrap();
        f.store.workplace_put(run, &workplace()).await.unwrap();
        if has_one {
            f.store.checkpoint_put(run, &checkpoint("{}", &["a.x"])).await.unwrap();
        }
        // The timeline knows of an object that no checkpoint has yet.
        let step = ResourceStep::Started;
        let (address, action) = ("a.y".to_owned(), "create".to_owned());
        let begun = RunEvent::Resource { address, action, step, elapsed_seconds: 0 };
        f.store.event_append(run, &[begun]).await.unwrap();
        let mut rival = PgConnection::connect(f.raw_url()).await.unwrap();
        rival.execute("BEGIN").await.unwrap();
        let put = format!(
            "INSERT INTO run_checkpoints (run_id, state, changed, in_flight, slice_serial, taken_at)
             VALUES ('{run}', '\"complete\"', '[\"a.x\", \"a.y\"]', '[]', 0, now())
             ON CONFLICT (run_id) DO UPDATE SET state = excluded.state, changed = excluded.changed"
        );
        rival.execute(AssertSqlSafe(put)).await.unwrap();
        let store = Arc::clone(&f.store);
        let ended = tokio::spawn(async move { store.run_abort(run, &carol()).await });
        let waits = "SELECT 'yes' FROM pg_locks WHERE NOT granted AND pid IN
                       (SELECT pid FROM pg_stat_activity WHERE datname = current_database())";
        while f.sql(waits).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        rival.execute("COMMIT").await.unwrap();
        ended.await.unwrap().unwrap();
        let stands = f.store.checkpoint_find(run).await.unwrap().unwrap();
        assert_eq!(stands.state, "\"complete\"", "had one before: {has_one}");
        assert_eq!(stands.changed, [pattern("a.x"), pattern("a.y")]);
        f.store.quarantine_release(run, &carol()).await.unwrap();
    }
}
