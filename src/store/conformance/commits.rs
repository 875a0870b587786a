//! Commits, and what they leave: versions, lifecycles, bodies.

use std::fmt::Write as _;

use super::fixture::{Fixture, commit, granted, key, new_run, write};
use crate::domain::address::{Address, Key, Mode, ModulePath};
use crate::domain::coordination::lock::LockInfo;
use crate::domain::id::{Actor, Lineage, Serial};
use crate::domain::run::Origin;
use crate::domain::run::event::RunEvent;
use crate::domain::state::document::DocumentHead;
use crate::domain::state::row::DeposedKey;
use crate::domain::state::{Body, RowKey};
use crate::store::StoreError;
use crate::store::model::{
    Commit, CommitMode, LineageRule, LockEnd, LockTaken, LockWrite, NewSpec, RowChange, RowStep, RowWrite, SoftWrite,
    Source, Touched, Version, VersionQuery,
};

const ALL: VersionQuery = VersionQuery { before: None, since: None, limit: 100, with_rows: true };

fn touched(version: &Version) -> Vec<String> {
    version.rows.iter().map(|(key, what)| format!("{key} {what:?}")).collect()
}

pub(super) async fn versions_follow_each_other(f: &Fixture) {
    let state = f.state("prod").await.id;
    f.commit(state, "alice", &["a.x=1", "a.y=1", "output.o=\"v\""]).await;
    f.commit(state, "bob", &["a.x=2", "a.y"]).await;
    let held = f.held(state, "carol", "w a.z").await;
    let third =
        Commit { document: None, source: Source::Refresh, source_serial: Serial(1), ..commit(vec![write("a.z=3")]) };
    let done = f.store.run_commit(&held, &third).await.unwrap();
    assert_eq!((done.serial, done.rows_opened, done.rows_closed, done.left.len()), (Serial(3), 1, 0, 0));

    let versions = f.store.version_list(state, ALL).await.unwrap();
    assert_eq!(versions.iter().map(|version| version.serial.0).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!(touched(&versions[0]), ["a.z Created"]);
    assert_eq!(touched(&versions[1]), ["a.x Changed", "a.y Removed"]);
    assert_eq!(touched(&versions[2]), ["a.x Created", "a.y Created", "output.o Created"]);
    // Each row counts once, whatever happened to it.
    assert_eq!((versions[1].rows_opened, versions[1].rows_closed, versions[1].rows_touched), (1, 2, 2));
    let newest = &versions[0];
    assert_eq!((newest.actor.0.as_str(), newest.run), ("carol", Some(held.run())));
    assert_eq!((newest.source, newest.mode, newest.source_serial), (Source::Refresh, CommitMode::RowDelta, Serial(1)));
    assert_eq!((newest.terraform_version.as_str(), newest.origin.request), ("1.11.4", Some(7)));
    assert!(versions.is_sorted_by(|newer, older| newer.at >= older.at));
    let page = VersionQuery { before: Some(Serial(3)), since: None, limit: 1, with_rows: false };
    let page = f.store.version_list(state, page).await.unwrap();
    assert_eq!((page.len(), page[0].serial, page[0].rows.len()), (1, Serial(2), 0));

    let trunk = f.store.snapshot(state, None).await.unwrap();
    assert_eq!((trunk.head.serial, trunk.head.lineage), (Serial(3), Some(Lineage("the-lineage".to_owned()))));
    assert_eq!(trunk.providers["registry.terraform.io/hashicorp/null"], "3.2.4");
    let since: Vec<i64> = trunk.rows.iter().map(|(_, since)| since.0).collect();
    assert_eq!((f.rows(state, None).await.join(" "), since), ("a.x=2 a.z=3 output.o=\"v\"".to_owned(), vec![2, 3, 1]));
    let run = f.store.run_find(held.run()).await.unwrap();
    assert_eq!((run.status.word(), run.result_serial), ("committed", Some(Serial(3))));
}

pub(super) async fn a_commit_stands_on_the_timeline_with_its_version(f: &Fixture) {
    let state = f.state("prod").await.id;
    f.commit(state, "alice", &["a.x=1", "b.x=1", "b.y=1"]).await;
    f.held(state, "bob", "w b.y").await;
    let held = f.held(state, "carol", "w a.x").await;
    let soft = |text: &str| SoftWrite { expected: Some(Body::new("1").unwrap().hash()), write: write(text) };
    let change =
        Commit { soft: vec![soft("b.x=2"), soft("b.y=2")], as_planned: Some(false), ..commit(vec![write("a.x=2")]) };
    let done = f.store.run_commit(&held, &change).await.unwrap();
    let told = [
        RunEvent::SoftRows { taken: vec!["b.x".to_owned()], left: vec!["b.y".to_owned()] },
        RunEvent::Committed {
            serial: Serial(2),
            rows_opened: 2,
            rows_closed: 2,
            rows_touched: Some(2),
            as_planned: Some(false),
        },
    ];
    assert_eq!(done.events, told);
    let events = f.store.event_list(held.run()).await.unwrap();
    assert_eq!(events.into_iter().skip(1).map(|recorded| recorded.event).collect::<Vec<_>>(), told);
}

pub(super) async fn what_was_recovered_of_a_spec_is_found(f: &Fixture) {
    let state = f.state("prod").await.id;
    let mut specs = Vec::new();
    for (number, source) in [(1, Source::Recover), (2, Source::Apply), (3, Source::Recover)] {
        let spec = NewSpec {
            id: crate::clock::new_spec_id(),
            state,
            source_serial: Serial(0),
            actor: Actor("alice".to_owned()),
            origin: Origin::default(),
            digest: "d".to_owned(),
            document: "{}".to_owned(),
        };
        f.store.spec_insert(&spec).await.unwrap();
        let mut run = new_run(state, "alice");
        run.spec = Some(spec.id);
        f.store.run_start(&run).await.unwrap();
        let held = granted(f.again(run.id, "w a.x", false).await);
        let change = Commit { source, ..commit(vec![write(&format!("a.x={number}"))]) };
        f.store.run_commit(&held, &change).await.unwrap();
        specs.push(spec.id);
    }
    let found = f.store.recovered_versions(&specs).await.unwrap();
    assert_eq!(found.iter().map(|version| version.serial.0).collect::<Vec<_>>(), [1, 3]);
    assert_eq!((touched(&found[0]), found[0].spec), (vec!["a.x Created".to_owned()], Some(specs[0])));
    assert_eq!(touched(&found[1]), ["a.x Changed"]);
    assert!(f.store.recovered_versions(&specs[1..2]).await.unwrap().is_empty());
    assert!(f.store.recovered_versions(&[]).await.unwrap().is_empty());
    let applied =
        f.store.applied_version(state, specs[1]).await.unwrap().map(|version| (version.serial.0, version.spec));
    assert_eq!(applied, Some((2, Some(specs[1]))));
    assert_eq!(f.store.applied_version(state, specs[0]).await.unwrap(), None, "it was recovered, and not applied");
}

pub(super) async fn every_version_of_a_run_is_found(f: &Fixture) {
    let (state, other) = (f.state("prod").await.id, f.state("other").await.id);
    let (first, plain) = (f.held(state, "alice", "w a.x").await, new_run(state, "bob"));
    f.store.run_commit(&first, &commit(vec![write("a.x=1")])).await.unwrap();
    f.commit(other, "carol", &["a.y=1"]).await;
    // A plain Terraform writes as often as it likes, and an import goes on at its own serial.
    let info = LockInfo::read(br#"{"ID":"one"}"#).unwrap();
    let LockTaken::Granted(_) = f.store.lock_take(&plain, &info, false).await.unwrap() else { panic!("blocked") };
    for (base, at_least, rows) in [(1, None, "a.x=2"), (2, Some(Serial(900)), "a.y=1"), (900, None, "a.x")] {
        let change = Commit { at_least, source: Source::Http, ..commit(vec![write(rows)]) };
        let done = f.store.lock_write(state, &info.id, Serial(base), &change).await.unwrap();
        assert!(matches!(done, LockWrite::Committed(_)), "{done:?}");
    }
    let end = LockEnd::Returned(info.id.clone());
    f.store.lock_free(state, &end, &plain.actor).await.unwrap();
    let last = f.held(state, "dave", "w a.z").await;
    f.store.run_commit(&last, &commit(vec![write("a.z=1")])).await.unwrap();
    let all = |versions: Vec<Version>| -> Vec<(i64, Vec<String>)> {
        versions.iter().map(|version| (version.serial.0, touched(version))).collect()
    };
    let bobs = [(2, "a.x Changed"), (900, "a.y Created"), (901, "a.x Removed")];
    let bobs = bobs.map(|(serial, row)| (serial, vec![row.to_owned()]));
    let found = f.store.versions_of_runs(&[plain.id]).await.unwrap();
    assert!(found.iter().all(|version| version.run == Some(plain.id)));
    assert_eq!(all(found), bobs);
    let found = f.store.versions_of_runs(&[last.run(), plain.id, first.run()]).await.unwrap();
    assert_eq!(all(found).iter().map(|(serial, _)| *serial).collect::<Vec<_>>(), [1, 2, 900, 901, 902]);
    assert!(f.store.versions_of_runs(&[]).await.unwrap().is_empty());
}

pub(super) async fn of_two_first_writers_one_wins(f: &Fixture) {
    let state = f.state("prod").await.id;
    let (one, two) = (f.held(state, "alice", "w a.x").await, f.held(state, "bob", "w b.x").await);
    let other = f.another().await;
    let ours = commit(vec![write("a.x=1")]);
    let theirs = Commit { lineage: LineageRule::Must(Lineage("another".to_owned())), ..commit(vec![write("b.x=1")]) };
    let (first, second) = tokio::join!(f.store.run_commit(&one, &ours), other.run_commit(&two, &theirs));
    assert_eq!(u8::from(first.is_ok()) + u8::from(second.is_ok()), 1, "{first:?} {second:?}");
    let lost = first.and(second).unwrap_err();
    assert!(matches!(lost, StoreError::Stale(_)), "{lost:?}");
    assert_eq!(f.rows(state, None).await.len(), 1);
}

pub(super) async fn what_changes_nothing_is_skipped(f: &Fixture) {
    let state = f.state("prod").await.id;
    f.commit(state, "alice", &["a.x={\"a\":1,\"b\":2}"]).await;
    let held = f.held(state, "bob", "w a.x\nw a.y").await;
    let same = vec![write("a.x={ \"b\": 2, \"a\": 1 }"), write("a.y")];
    let done = f.store.run_commit(&held, &commit(same)).await.unwrap();
    assert_eq!((done.serial, done.rows_opened, done.rows_closed), (Serial(2), 0, 0), "a version is made all the same");
    assert_eq!(f.store.version_list(state, ALL).await.unwrap()[0].rows.len(), 0);
    assert_eq!(f.rows(state, None).await, ["a.x={\"a\":1,\"b\":2}"]);
    // Of two writes of one row the later counts.
    let held = f.held(state, "carol", "w a.x").await;
    let done = f.store.run_commit(&held, &commit(vec![write("a.x=1"), write("a.x=2")])).await.unwrap();
    assert_eq!((done.rows_opened, f.rows(state, None).await), (1, vec!["a.x=2".to_owned()]));
}

pub(super) async fn every_serial_can_be_read_again(f: &Fixture) {
    let state = f.state("prod").await.id;
    for rows in [&["a.x=1", "a.y=1"][..], &["a.x=2"], &["a.x"], &["a.x=1"]] {
        f.commit(state, "alice", rows).await;
    }
    for (serial, rows) in [(0, ""), (1, "a.x=1 a.y=1"), (2, "a.x=2 a.y=1"), (3, "a.y=1"), (4, "a.x=1 a.y=1")] {
        assert_eq!(f.rows(state, Some(serial)).await.join(" "), rows, "{serial}");
    }
    for serial in [5, -1] {
        let none = f.store.snapshot(state, Some(Serial(serial))).await;
        assert!(matches!(none, Err(StoreError::NotFound { .. })), "{serial}");
    }
}

pub(super) async fn changes_since_a_serial_name_their_versions(f: &Fixture) {
    let state = f.state("prod").await.id;
    f.commit(state, "alice", &["a.x=1", "a.y=1", "a.z=1"]).await;
    f.commit(state, "bob", &["a.x=2", "a.new=1"]).await;
    f.commit(state, "carol", &["a.x=3", "a.y", "a.gone=1"]).await;
    f.commit(state, "dave", &["a.gone"]).await;
    f.commit(state, "erin", &["a.x=1"]).await;
    let told = |changes: Vec<RowChange>| -> Vec<String> {
        let step = |step: &RowStep| {
            assert!(step.version.run.is_some() && step.version.rows.is_empty());
            format!("{}{} {}", step.touched.sign(), step.version.serial, step.version.actor)
        };
        let line = |change: &RowChange| {
            let steps: Vec<String> = change.steps().map(step).collect();
            format!("{} {}{}", change.key, steps.join(" "), if change.back { " back" } else { "" })
        };
        changes.iter().map(line).collect()
    };
    assert_eq!(
        told(f.store.rows_changed_since(state, Serial(1)).await.unwrap()),
        ["a.gone +3 carol -4 dave back", "a.new +2 bob", "a.x ~2 bob ~3 carol ~5 erin back", "a.y -3 carol"]
    );
    assert_eq!(told(f.store.rows_changed_since(state, Serial(3)).await.unwrap()), ["a.gone -4 dave", "a.x ~5 erin"]);
    assert!(f.store.rows_changed_since(state, Serial(5)).await.unwrap().is_empty());
}

pub(super) async fn what_stood_in_a_row_at_a_serial_is_found(f: &Fixture) {
    let state = f.state("prod").await.id;
    f.commit(state, "alice", &["a.x=1", "a.y=1", "output.o=7"]).await;
    f.commit(state, "bob", &["a.x=2", "a.y"]).await;
    f.commit(state, "carol", &["a.y=3"]).await;
    let ask = |row: &str, serial: i64| (key(row), Serial(serial));
    let asked = [
        ask("a.x", 0),
        ask("a.x", 1),
        ask("a.x", 2),
        ask("a.x", 3),
        ask("a.y", 1),
        ask("a.y", 2),
        ask("a.y", 3),
        ask("output.o", 3),
        ask("a.never", 3),
        ask("a.x", 1),
    ];
    let found = f.store.row_contents(state, &asked).await.unwrap();
    let texts: Vec<&str> = found.iter().map(|body| body.as_ref().map_or("none", Body::text)).collect();
    assert_eq!(texts, ["none", "1", "2", "2", "1", "none", "3", "7", "none", "1"]);
    assert!(f.store.row_contents(state, &[]).await.unwrap().is_empty());
}

pub(super) async fn soft_rows_are_taken_only_where_nothing_stands_against_it(f: &Fixture) {
    let state = f.state("prod").await.id;
    f.commit(state, "alice", &["a.free=1", "a.moved=1", "a.read=1", "a.write=1", "a.same=2", "a.end=1"]).await;
    let hash = |text: &str| Some(Body::new(text).unwrap().hash());
    f.commit(state, "alice", &["a.moved=9"]).await;
    let reader = f.held(state, "bob", "r a.read\nw a.write[0]").await;
    let held = f.held(state, "carol", "w a.own").await;
    let soft = |text: &str, expected| SoftWrite { write: write(text), expected };
    let check = RowKey::Check { object_kind: "check".to_owned(), config_address: "check.c".to_owned() };
    let commit = Commit {
        soft: vec![
            soft("a.free=2", hash("1")),
            soft("a.moved=2", hash("1")),
            soft("a.read=2", hash("1")),
            soft("a.write=2", hash("1")),
            soft("a.same=2", hash("1")),
            soft("a.end", hash("1")),
            soft("a.absent=1", None),
            soft("a.free=3", hash("1")),
            SoftWrite { write: RowWrite { key: check.clone(), body: write("a.x={}").body }, expected: None },
        ],
        ..commit(vec![write("a.own=1")])
    };
    let done = f.store.run_commit(&held, &commit).await.unwrap();
    assert_eq!(done.left, [key("a.moved"), key("a.read"), key("a.write")]);
    assert_eq!((done.rows_opened, done.rows_closed), (4, 2));
    assert_eq!(
        f.rows(state, None).await.join(" "),
        "a.absent=1 a.free=2 a.moved=9 a.own=1 a.read=1 a.same=2 a.write=1 check.c (check check)={}"
    );
    assert_eq!(f.store.reservation_list(state).await.unwrap()[0].run, reader.run());
}

pub(super) async fn bodies_and_documents_come_back_to_the_letter(f: &Fixture) {
    let state = f.state("prod").await.id;
    let long = "k\u{e9}\"${[.*%_".repeat(700);
    let instance = |key: &str| Address {
        module: ModulePath::parse("module.m[\"a.b\"].module.n[3]").unwrap(),
        mode: Mode::Managed,
        type_name: "t".to_owned(),
        name: "n".to_owned(),
        key: Some(Key::Str(key.to_owned())),
    };
    let text = r#"{ "z" : 123456789012345678901234567890, "nul": "a\u0000b\\u0000", "f": 1.10, "e":1E400, "é": "€" }"#;
    let body = Body::new(text).unwrap();
    let keys = [
        RowKey::object(instance(&long)),
        RowKey::object(instance(&format!("{long}!"))),
        RowKey::Object { address: instance("\0"), deposed: Some(DeposedKey("00c0ffee".to_owned())) },
        RowKey::Output("o".to_owned()),
        RowKey::Check { object_kind: "resource".to_owned(), config_address: "module.m.t.n".to_owned() },
        RowKey::Husk(Address::parse("data.t.n").unwrap()),
    ];
    let document = DocumentHead {
        terraform_version: "1.12.0".to_owned(),
        extra: vec![
            ("future".to_owned(), r#"{ "b": 1.50, "a": "\u0000" }"#.to_owned()),
            ("check_results".to_owned(), "null".to_owned()),
        ],
    };
    let writes = keys.iter().map(|key| RowWrite { key: key.clone(), body: Some(body.clone()) }).collect();
    let held = f.held(state, "alice", "w *").await;
    let wanted = Commit { document: Some(document.clone()), ..commit(writes) };
    f.store.run_commit(&held, &wanted).await.unwrap();
    let trunk = f.store.snapshot(state, None).await.unwrap();
    let mut sorted = keys.to_vec();
    sorted.sort();
    assert_eq!(trunk.rows.iter().map(|(row, _)| row.key.clone()).collect::<Vec<_>>(), sorted);
    assert!(trunk.rows.iter().all(|(row, _)| row.body.text() == text && row.body.hash() == body.hash()));
    assert_eq!(trunk.document, document);
    let found = f.sql("SELECT module_path || ' ' || resource_key || ' ' || mode || ' ' || type || ' ' || name FROM resources WHERE qualifier = '00c0ffee'").await.unwrap();
    assert_eq!(found, ["module.m[\"a.b\"].module.n[3] module.m.module.n.t.n managed t n"]);
    // A key of 7 kB is reserved and released like any other.
    let mut claims = String::new();
    writeln!(claims, "w {}", keys[0].pattern().unwrap()).unwrap();
    let held = f.held(state, "bob", &claims).await;
    let done = f.store.run_commit(&held, &commit(vec![RowWrite { key: keys[0].clone(), body: None }])).await.unwrap();
    assert_eq!(done.rows_closed, 1);
    // A document that a commit does not give stays.
    let held = f.held(state, "bob", "w a.x").await;
    f.store.run_commit(&held, &Commit { document: None, ..commit(vec![]) }).await.unwrap();
    assert_eq!(f.store.snapshot(state, None).await.unwrap().document.terraform_version, "1.11.4");
    assert_eq!(f.store.snapshot(state, Some(Serial(1))).await.unwrap().document, document);
}

pub(super) async fn dependencies_can_be_queried(f: &Fixture) {
    let state = f.state("prod").await.id;
    let block = |dependencies: &str| {
        format!(r#"{{"mode":"managed","instances":[{{"attributes":{{"a":"\u0000\\u0000"}}{dependencies}}}]}}"#)
    };
    let rows = [
        format!("a.x[\"k\"]={}", block(r#","dependencies":["module.m.b.y","c.z"]"#)),
        format!("a.none={}", block("")),
        format!("a.null={}", block(r#","dependencies":null"#)),
        format!("a.empty={}", block(r#","dependencies":[]"#)),
        format!("a.old={}", block(r#","dependencies":["c.z"]"#)),
        "output.o={\"instances\":[{\"dependencies\":[\"not.this\"]}]}".to_owned(),
    ];
    let held = f.held(state, "alice", "w *").await;
    f.store.run_commit(&held, &commit(rows.iter().map(|row| write(row)).collect())).await.unwrap();
    f.commit(state, "bob", &["a.old"]).await;
    let edges = f
        .sql("SELECT state || ' ' || address || ' ' || depends_on FROM resource_dependencies ORDER BY depends_on")
        .await
        .unwrap();
    assert_eq!(edges, ["prod a.x[\"k\"] c.z", "prod a.x[\"k\"] module.m.b.y"]);
}

pub(super) async fn an_import_keeps_its_serial(f: &Fixture) {
    let state = f.state("prod").await.id;
    for (at_least, serial) in [(Some(41), 41), (Some(7), 42), (None, 43)] {
        let held = f.held(state, "alice", "w *").await;
        let import = Commit {
            at_least: at_least.map(Serial),
            source: Source::Import,
            mode: CommitMode::Snapshot,
            ..commit(vec![write(&format!("a.x={serial}"))])
        };
        assert_eq!(f.store.run_commit(&held, &import).await.unwrap().serial, Serial(serial));
    }
    let between = f.store.snapshot(state, Some(Serial(7))).await;
    assert!(matches!(between, Err(StoreError::NotFound { .. })), "no version ever had it");
    let versions = f.store.version_list(state, ALL).await.unwrap();
    assert_eq!(versions.iter().map(touched).collect::<Vec<_>>(), [["a.x Changed"], ["a.x Changed"], ["a.x Created"]]);
    assert_eq!((versions[2].source, versions[2].mode), (Source::Import, CommitMode::Snapshot));
    assert_eq!(touched(&versions[2])[0], format!("a.x {:?}", Touched::Created));
}
