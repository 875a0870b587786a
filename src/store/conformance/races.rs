//! Several processes at once.

use std::sync::Arc;

use super::fixture::{Fixture, LEASE, claims, commit, write};
use crate::domain::run::event::RunEvent;
use crate::store::model::VersionQuery;
use crate::store::{Acquired, Ask, Store};

const RACERS: usize = 8;

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
    let versions =
        f.store.version_list(state, VersionQuery { before: None, limit: 100, with_rows: true }).await.unwrap();
    assert!(versions.iter().all(|version| version.rows.len() == 2));
}

pub(super) async fn events_of_one_run_get_places_of_their_own(f: &Fixture) {
    let run = f.run(f.state("prod").await.id, "alice").await;
    let mut tasks = Vec::new();
    for store in racers(f).await {
        tasks.push(tokio::spawn(async move {
            for _ in 0..5 {
                store.event_append(run, &[RunEvent::ApplyStarted, RunEvent::LeaseLost]).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let events = f.store.event_list(run).await.unwrap();
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), (1..=80).collect::<Vec<i64>>());
    assert!(
        events.chunks(2).all(|pair| pair[0].event == RunEvent::ApplyStarted && pair[1].event == RunEvent::LeaseLost)
    );
}
