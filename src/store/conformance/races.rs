//! Several processes at once.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use super::fixture::{Fixture, LEASE, claims, commit, write};
use crate::domain::id::Actor;
use crate::domain::request::{ForgeKind, RequestPhase, RequestRef};
use crate::domain::run::event::RunEvent;
use crate::store::model::{
    ApplyResult, CommentLock, Noted, PlanOutcome, PlanResult, PostedComment, ProjectPlace, RequestFacts, VersionQuery,
};
use crate::store::{Acquired, Ask, Store};

const RACERS: usize = 8;

fn request() -> RequestRef {
    RequestRef { forge: ForgeKind::Github, repository: "example/infra".to_owned(), number: 7 }
}

/// A connection of its own for each racer.
async fn racers(f: &Fixture) -> Vec<Arc<dyn Store>> {
    let mut stores = Vec::new();
    for _ in 0..RACERS {
        stores.push(f.another().await);
    }
    stores
}

pub(super) async fn of_overlapping_requests_one_wins(f: &Fixture) {
    let state = f.state("prod").await.id;
    let patterns = ["w a.x", "w a.x[0]\nr b.y", "r a.x\nw c.z", "w *", "w b.y\nw a.x", "w a.x", "w *", "w a.x\nw d.d"];
    let start = Arc::new(tokio::sync::Barrier::new(RACERS));
    let mut tasks = Vec::new();
    for (store, wanted) in racers(f).await.into_iter().zip(patterns) {
        let (run, start) = (f.run(state, wanted).await, Arc::clone(&start));
        tasks.push(tokio::spawn(async move {
            let ask = Ask { run, claims: claims(wanted), lease: LEASE, queue: false };
            start.wait().await;
            matches!(store.reservation_acquire(&ask).await.unwrap(), Acquired::Granted { .. })
        }));
    }
    let mut winners = 0;
    for task in tasks {
        winners += usize::from(task.await.unwrap());
    }
    assert_eq!(winners, 1);
}

pub(super) async fn disjoint_runs_all_commit(f: &Fixture) {
    let state = f.state("prod").await.id;
    let start = Arc::new(tokio::sync::Barrier::new(RACERS));
    let mut tasks = Vec::new();
    for (number, store) in racers(f).await.into_iter().enumerate() {
        let (run, start) = (f.run(state, "racer").await, Arc::clone(&start));
        tasks.push(tokio::spawn(async move {
            let wanted = format!("w a.x[{number}]\nw module.m[{number}].*\nr shared.r");
            let ask = Ask { run, claims: claims(&wanted), lease: LEASE, queue: false };
            start.wait().await;
            let Acquired::Granted { held, .. } = store.reservation_acquire(&ask).await.unwrap() else {
                panic!("blocked");
            };
            start.wait().await;
            // The same content everywhere, so that the bodies meet too.
            let writes = vec![write(&format!("a.x[{number}]={{}}")), write(&format!("module.m[{number}].a.y=[]"))];
            store.run_commit(&held, &commit(writes)).await.unwrap().serial.0
        }));
    }
    let mut serials = Vec::new();
    for task in tasks {
        serials.push(task.await.unwrap());
    }
    serials.sort_unstable();
    assert_eq!(serials, (1..=8).collect::<Vec<i64>>());
    assert_eq!(f.rows(state, None).await.len(), 2 * RACERS);
    let versions = f
        .store
        .version_list(state, VersionQuery { before: None, since: None, limit: 100, with_rows: true })
        .await
        .unwrap();
    assert!(versions.iter().all(|version| version.rows.len() == 2));
}

pub(super) async fn a_snapshot_is_one_moment(f: &Fixture) {
    let state = f.state("prod").await.id;
    f.commit(state, "alice", &["a.x=1", "b.y=1"]).await;
    let reader = f.another().await;
    let reading = tokio::spawn(async move {
        let mut seen = 1;
        while seen < 15 {
            let trunk = reader.snapshot(state, None).await.unwrap();
            let values: Vec<&str> = trunk.rows.iter().map(|(row, _)| row.body.text()).collect();
            let serial = trunk.head.serial.0.to_string();
            assert_eq!(values, [serial.as_str(), serial.as_str()]);
            seen = trunk.head.serial.0;
        }
    });
    for serial in 2..=15 {
        f.commit(state, "alice", &[&format!("a.x={serial}"), &format!("b.y={serial}")]).await;
    }
    reading.await.unwrap();
}

pub(super) async fn events_of_one_run_get_places_of_their_own(f: &Fixture) {
    let run = f.run(f.state("prod").await.id, "alice").await;
    let mut tasks = Vec::new();
    for store in racers(f).await {
        tasks.push(tokio::spawn(async move {
            for _ in 0..5 {
                store
                    .event_append(run, &[RunEvent::ApplyStarted, RunEvent::LeaseLost { to: None, refused: false }])
                    .await
                    .unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let events = f.store.event_list(run).await.unwrap();
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), (1..=80).collect::<Vec<i64>>());
    assert!(events.chunks(2).all(|pair| pair[0].event == RunEvent::ApplyStarted
        && pair[1].event == RunEvent::LeaseLost { to: None, refused: false }));
}

pub(super) async fn of_many_that_would_render_a_comment_one_does(f: &Fixture) {
    let start = Arc::new(tokio::sync::Barrier::new(RACERS));
    let mut tasks = Vec::new();
    for store in racers(f).await {
        let start = Arc::clone(&start);
        tasks.push(tokio::spawn(async move {
            let owner = crate::clock::new_run_id().0;
            start.wait().await;
            let lock = store.comment_lock(&request(), owner, LEASE).await.unwrap();
            matches!(lock, CommentLock::Granted { .. }).then_some(owner)
        }));
    }
    let mut winners = Vec::new();
    for task in tasks {
        winners.extend(task.await.unwrap());
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    // The one that has it may go on, and each of the others gets its turn.
    let mut rendered = Vec::new();
    f.store.comment_unlock(&request(), winners[0]).await.unwrap();
    let mut tasks = Vec::new();
    for store in racers(f).await {
        tasks.push(tokio::spawn(async move {
            let owner = crate::clock::new_run_id().0;
            let before = loop {
                match store.comment_lock(&request(), owner, LEASE).await.unwrap() {
                    CommentLock::Granted { posted, .. } => break posted.map_or(0, |posted| posted.digest.len()),
                    CommentLock::Busy { .. } => tokio::task::yield_now().await,
                }
            };
            let posted = PostedComment { id: "1".to_owned(), url: None, digest: "x".repeat(before + 1) };
            store.comment_save(&request(), owner, &posted).await.unwrap();
            store.comment_unlock(&request(), owner).await.unwrap();
            before
        }));
    }
    for task in tasks {
        rendered.push(task.await.unwrap());
    }
    rendered.sort_unstable();
    assert_eq!(rendered, (0..RACERS).collect::<Vec<_>>());
}

pub(super) async fn news_of_one_request_at_once_leave_one_whole(f: &Fixture) {
    let state = f.state("prod").await.id;
    let start = Arc::new(tokio::sync::Barrier::new(RACERS));
    let mut tasks = Vec::new();
    for (number, store) in racers(f).await.into_iter().enumerate() {
        let start = Arc::clone(&start);
        tasks.push(tokio::spawn(async move {
            let phase = if number == 0 { RequestPhase::Merged } else { RequestPhase::Open };
            let facts = RequestFacts {
                head: format!("h{number}"),
                base_branch: "main".to_owned(),
                title: format!("h{number}"),
                phase,
                from_fork: false,
                merge_commit: None,
            };
            start.wait().await;
            store.request_put(&request(), &facts).await.unwrap();
            // Every job of a matrix leaves its own project's result, or hears that it is too late.
            let place = ProjectPlace {
                project: format!("p{number}"),
                dir: ".".to_owned(),
                workspace: "default".to_owned(),
                state,
            };
            let result = PlanResult {
                place: place.clone(),
                head: facts.head,
                outcome: PlanOutcome::Failed { error: "x".to_owned() },
                actor: Actor("racer".to_owned()),
                job_url: None,
            };
            let noted = store.plan_result_put(&request(), &result).await.unwrap();
            let applied = ApplyResult { place, run: None, error: None, next: Vec::new(), job_url: None };
            store.apply_result_put(&request(), &applied).await.unwrap();
            noted
        }));
    }
    let mut noted = Vec::new();
    for task in tasks {
        noted.push(task.await.unwrap());
    }
    let stands = f.store.request_find(&request()).await.unwrap().unwrap();
    assert_eq!((stands.facts.phase, stands.facts.head.as_str()), (RequestPhase::Merged, "h0"));
    assert_eq!(stands.facts.title, stands.facts.head);
    assert_eq!(noted[0], Noted::Stored);
    let projects = f.store.request_projects(&request()).await.unwrap();
    assert_eq!(projects.len(), RACERS);
    for (number, (project, noted)) in projects.iter().zip(noted).enumerate() {
        assert_eq!(project.place.project, format!("p{number}"));
        assert_eq!(project.plan.is_some(), noted == Noted::Stored);
        assert!(project.apply.is_some());
    }
}

/// PostgreSQL ends one of two transactions that wait for each other. When it is the store's, the store tries again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_lost_a_deadlock_is_tried_again() {
    let Some(f) = Fixture::postgres().await else {
        return;
    };
    let state = f.state("prod").await.id;
    let held = f.held(state, "alice", "w a.x").await;
    let wanted = write("a.x={}");
    let hash = wanted.body.as_ref().map(|body| body.hash().to_string()).unwrap();
    let mut rival = PgConnection::connect(f.raw_url()).await.unwrap();
    rival.execute("BEGIN").await.unwrap();
    let body = format!("INSERT INTO resource_bodies VALUES (decode('{hash}', 'hex'), '{{}}')");
    rival.execute(AssertSqlSafe(body)).await.unwrap();

    let store = Arc::clone(&f.store);
    let ours = tokio::spawn(async move { store.run_commit(&held, &commit(vec![wanted])).await });
    // The commit holds the state and waits for the body.
    let waits = "SELECT 'yes' FROM pg_locks JOIN pg_database ON pg_database.oid = database
                 WHERE datname = current_database() AND NOT granted
                 UNION SELECT 'yes' FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted AND pid IN
                   (SELECT pid FROM pg_stat_activity WHERE datname = current_database())";
    while f.sql(waits).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    rival.execute("SELECT id FROM states FOR UPDATE").await.unwrap();
    rival.execute("COMMIT").await.unwrap();
    assert_eq!(ours.await.unwrap().unwrap().serial.0, 1);
    let lost = "SELECT 'yes' FROM pg_stat_database WHERE datname = current_database() AND deadlocks = 1";
    while f.sql(lost).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(f.rows(state, None).await, ["a.x={}"]);
}
