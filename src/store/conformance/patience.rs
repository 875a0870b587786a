//! A database that goes away in the midst of something: with patience everything is done, and done once.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::fixture::{Fixture, commit, write};
use crate::domain::id::Serial;
use crate::domain::run::event::RunEvent;
use crate::mishap::Mishaps;
use crate::store::{Patience, Store};

fn patience() -> Patience {
    Patience { limit: Duration::from_mins(1), stop: CancellationToken::new() }
}

fn unlucky(f: &Fixture, order: &str) -> Arc<dyn Store> {
    f.store.with_mishaps(Mishaps::read(Some(order), None).unwrap())
}

fn warning(message: &str) -> RunEvent {
    RunEvent::Warning { message: message.to_owned() }
}

/// The connection is lost before the transaction, before its commit, and between the commit and its answer.
pub(super) async fn a_lost_connection_does_everything_once(f: &Fixture) {
    let state = f.state("prod").await.id;
    for (number, moment) in (1_i64..).zip(["begin", "commit", "done"]) {
        let held = f.held(state, "alice", &format!("w a.{moment}")).await;
        let store = unlucky(f, &format!("store/record an event/{moment}#1=fail")).patient(patience());
        store.event_append(held.run(), &[warning("once")]).await.unwrap();
        let told = f.store.event_list(held.run()).await.unwrap();
        assert_eq!(told.iter().filter(|recorded| recorded.event == warning("once")).count(), 1, "{moment}: {told:?}");

        let store = unlucky(f, &format!("store/commit the run/{moment}#1=fail")).patient(patience());
        let done = store.run_commit(&held, &commit(vec![write(&format!("a.{moment}=1"))])).await.unwrap();
        assert_eq!((done.serial, done.rows_opened), (Serial(number), 1), "{moment}");
        assert_eq!(f.state("prod").await.serial, Serial(number));
    }
}

/// A commit that goes on while nobody may wait any longer is made all the same, and not made again. (The last tries take four
/// seconds, so this does.)
pub(super) async fn a_commit_that_outlasts_the_last_tries_is_known_to_be_made(f: &Fixture) {
    let state = f.state("prod").await.id;
    let held = f.held(state, "alice", "w a.x").await;
    let stopped = patience();
    stopped.stop.cancel();
    let store = unlucky(f, "store/commit the run/done#1=stall:4500").patient(stopped);
    let done = store.run_commit(&held, &commit(vec![write("a.x=1")])).await.unwrap();
    assert_eq!((done.serial, done.rows_opened), (Serial(1), 1));
    assert_eq!(f.state("prod").await.serial, Serial(1));
}

pub(super) async fn without_patience_a_lost_connection_is_an_error(f: &Fixture) {
    let state = f.state("prod").await.id;
    let held = f.held(state, "alice", "w a.x").await;
    let store = unlucky(f, "store/commit the run/commit#1=fail");
    store.run_commit(&held, &commit(vec![write("a.x=1")])).await.unwrap_err();
    assert_eq!(f.state("prod").await.serial, Serial(0));
}

pub(super) async fn patience_ends_with_its_limit_and_soon_after_a_stop(f: &Fixture) {
    let run = f.run(f.state("prod").await.id, "alice").await;
    let down = unlucky(f, "store/record an event/begin#1=down");
    let short = Patience { limit: Duration::from_millis(300), ..patience() };
    down.patient(short).event_append(run, &[warning("never")]).await.unwrap_err();
    let stopped = patience();
    stopped.stop.cancel();
    down.patient(stopped).event_append(run, &[warning("never")]).await.unwrap_err();
    assert_eq!(f.store.event_list(run).await.unwrap(), []);
}

/// The server ends our connections again and again, whatever they are doing.
pub(super) async fn connections_that_are_cut_lose_and_double_nothing(f: &Fixture) {
    const EVENTS: usize = 60;
    let run = f.run(f.state("prod").await.id, "alice").await;
    let store = f.another().await.patient(patience());
    let writing = tokio::spawn(async move {
        for number in 0..EVENTS {
            store.event_append(run, &[warning(&number.to_string())]).await.unwrap();
        }
    });
    // Longer and longer apart: a machine with a lot to do gets nothing done between two cuts that follow at once.
    let mut pause = Duration::from_millis(15);
    while !writing.is_finished() {
        if !f.is_sqlite() {
            f.sql(
                "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity
                 WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
            .await
            .unwrap();
        }
        tokio::time::sleep(pause).await;
        pause += Duration::from_millis(1);
    }
    writing.await.unwrap();
    let told: Vec<RunEvent> =
        f.store.patient(patience()).event_list(run).await.unwrap().into_iter().map(|one| one.event).collect();
    let expected: Vec<RunEvent> = (0..EVENTS).map(|number| warning(&number.to_string())).collect();
    assert_eq!(told, expected);
}
