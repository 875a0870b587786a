//! States: their names, their identity, and what does not exist.

use secrecy::ExposeSecret as _;

use super::fixture::{Fixture, commit, write};
use crate::domain::id::{Lineage, Serial, StateId, StateName};
use crate::store::StoreError;
use crate::store::model::VersionQuery;

#[expect(clippy::disallowed_methods, reason = "the machine's clock is what it is compared with")]
pub(super) async fn the_clock_is_the_databases(f: &Fixture) {
    let first = f.store.now().await.unwrap();
    let second = f.store.now().await.unwrap();
    assert!(first <= second);
    assert!((chrono::Utc::now() - second).num_seconds().abs() < 60, "test and database share a machine");
}

pub(super) async fn names_are_compared_exactly(f: &Fixture) {
    let mut names = vec!["A", "a", "%", "_", "prod:eu", "ä", "é", "e\u{301}", "a b", "'; DROP TABLE states; --"];
    for name in &names {
        assert!(f.store.state_find(&StateName::new(*name).unwrap()).await.unwrap().is_none(), "{name}");
        let made = f.store.state_ensure(&StateName::new(*name).unwrap()).await.unwrap();
        assert_eq!((made.serial, made.lineage), (Serial(0), None));
        assert!(made.secret.expose_secret().len() >= 61);
    }
    for name in &names {
        let found = f.store.state_find(&StateName::new(*name).unwrap()).await.unwrap().unwrap();
        assert_eq!(found.name.as_str(), *name);
    }
    let listed = f.store.state_list().await.unwrap();
    names.sort_unstable();
    assert_eq!(listed.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), names);
    let secrets: std::collections::HashSet<_> = listed.iter().map(|state| state.secret.expose_secret()).collect();
    assert_eq!(secrets.len(), names.len(), "every state has a secret of its own");
}

pub(super) async fn two_creators_get_the_same_state(f: &Fixture) {
    let name = StateName::new("prod").unwrap();
    let other = f.another().await;
    let (one, two) = tokio::join!(f.store.state_ensure(&name), other.state_ensure(&name));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.id, two.id);
    assert_eq!(one.secret.expose_secret(), two.secret.expose_secret());
}

pub(super) async fn what_does_not_exist_is_not_found(f: &Fixture) {
    let nowhere = StateId(crate::clock::new_run_id().0);
    let nobody = crate::clock::new_run_id();
    let all = VersionQuery { before: None, since: None, limit: 10, with_rows: true };
    let state = f.state("prod").await.id;
    for (what, error) in [
        ("snapshot", f.store.snapshot(nowhere, None).await.map(drop).unwrap_err()),
        ("serial", f.store.snapshot(state, Some(Serial(1))).await.map(drop).unwrap_err()),
        ("changes", f.store.rows_changed_since(nowhere, Serial(0)).await.map(drop).unwrap_err()),
        ("versions", f.store.version_list(nowhere, all).await.map(drop).unwrap_err()),
        ("spec", f.store.spec_find(crate::clock::new_spec_id()).await.map(drop).unwrap_err()),
        ("run", f.store.run_find(nobody).await.map(drop).unwrap_err()),
        ("events", f.store.event_list(nobody).await.map(drop).unwrap_err()),
        ("reservations", f.store.reservation_list(nowhere).await.map(drop).unwrap_err()),
    ] {
        assert!(matches!(error, StoreError::NotFound { .. }), "{what}: {error:?}");
    }
    let empty = f.store.snapshot(state, None).await.unwrap();
    assert_eq!((empty.head.serial, empty.rows.len()), (Serial(0), 0));
}

pub(super) async fn lineage_and_serial_are_guarded(f: &Fixture) {
    let state = f.state("prod").await.id;
    f.commit(state, "alice", &["a.x={}"]).await;
    let held = f.held(state, "bob", "w a.x").await;
    let foreign = crate::store::model::Commit {
        lineage: crate::store::model::LineageRule::Must(Lineage("another".to_owned())),
        ..commit(vec![write("a.x=1")])
    };
    let refused = f.store.run_commit(&held, &foreign).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Stale(why) if why.contains("the-lineage")), "{refused:?}");
    f.store.run_commit(&held, &commit(vec![write("a.x=1")])).await.unwrap();

    for sql in
        ["UPDATE states SET lineage = 'another'", "UPDATE states SET lineage = NULL", "UPDATE states SET serial = 1"]
    {
        assert!(f.sql(sql).await.is_err(), "{sql}");
    }
}
