//! The history of a footprint.

use super::fixture::{Fixture, claims, commit};
use crate::domain::address::Address;
use crate::domain::id::{Serial, StateId};
use crate::domain::state::row::DeposedKey;
use crate::domain::state::{Body, RowKey};
use crate::store::StoreError;
use crate::store::model::{RowWrite, Touched, Version};

/// `2 bob a.x+ a.y~ a.z-` for each version.
fn told(versions: &[Version]) -> Vec<String> {
    let sign = |touched: Touched| match touched {
        Touched::Created => '+',
        Touched::Changed => '~',
        Touched::Removed => '-',
    };
    let line = |version: &Version| {
        let rows: Vec<String> = version.rows.iter().map(|(key, what)| format!("{key}{}", sign(*what))).collect();
        format!("{} {} {}", version.serial, version.actor, rows.join(" "))
    };
    versions.iter().map(line).collect()
}

async fn history(f: &Fixture, state: StateId, wanted: &str, limit: u32) -> Vec<String> {
    told(&f.store.versions_touching(state, &claims(wanted), None, limit).await.unwrap())
}

pub(super) async fn the_history_of_a_footprint_is_of_its_rows_alone(f: &Fixture) {
    let state = f.state("prod").await.id;
    assert!(history(f, state, "w *", 10).await.is_empty());
    f.commit(state, "alice", &["a.x=1", "a.n[0]=1", "a.n[1]=1", "module.m[0].a.x=1", "output.o=1"]).await;
    f.commit(state, "bob", &["a.x=2", "b.other=1"]).await;
    f.commit(state, "carol", &["a.n[1]=2", "module.m[0].a.x=2", "module.m[1].a.x=1"]).await;
    f.commit(state, "dave", &["a.x", "output.o=2", "data.a.x=1"]).await;
    f.commit(state, "erin", &["a.x=1", "a.n[0]", "a.n[\"0\"]=1"]).await;
    // The same rows in another state.
    f.commit(f.state("other").await.id, "zoe", &["a.x=1", "a.n[0]=1"]).await;

    for (wanted, limit, lines) in [
        ("w a.x", 10, vec!["5 erin a.x+", "4 dave a.x-", "2 bob a.x~", "1 alice a.x+"]),
        ("r a.x", 2, vec!["5 erin a.x+", "4 dave a.x-"]),
        ("w a.n", 10, vec!["5 erin a.n[0]- a.n[\"0\"]+", "3 carol a.n[1]~", "1 alice a.n[0]+ a.n[1]+"]),
        ("w a.n[0]", 10, vec!["5 erin a.n[0]-", "1 alice a.n[0]+"]),
        ("w a.n[1]\nr output.o", 10, vec!["4 dave output.o~", "3 carol a.n[1]~", "1 alice a.n[1]+ output.o+"]),
        ("w a.n[0]\nw a.n", 1, vec!["5 erin a.n[0]- a.n[\"0\"]+"]),
        ("w module.m[0].a.x", 10, vec!["3 carol module.m[0].a.x~", "1 alice module.m[0].a.x+"]),
        ("w module.m.a.x", 1, vec!["3 carol module.m[0].a.x~ module.m[1].a.x+"]),
        ("w module.m[1].*", 10, vec!["3 carol module.m[1].a.x+"]),
        ("w module.m.*\nw b.other", 2, vec!["3 carol module.m[0].a.x~ module.m[1].a.x+", "2 bob b.other+"]),
        ("w *", 1, vec!["5 erin a.n[0]- a.n[\"0\"]+ a.x+"]),
        ("w a.never\nr output.never\nw module.never.*", 10, vec![]),
        ("w a.x", 0, vec![]),
    ] {
        assert_eq!(history(f, state, wanted, limit).await, lines, "{wanted}");
    }
    assert!(f.store.versions_touching(state, &[], None, 10).await.unwrap().is_empty());
    for (before, lines) in
        [(5, vec!["4 dave a.x-", "2 bob a.x~", "1 alice a.x+"]), (2, vec!["1 alice a.x+"]), (1, vec![])]
    {
        let older = f.store.versions_touching(state, &claims("w a.x"), Some(Serial(before)), 10).await.unwrap();
        assert_eq!(told(&older), lines, "before {before}");
    }
    let nowhere = StateId(crate::clock::new_run_id().0);
    let refused = f.store.versions_touching(nowhere, &claims("w a.x"), None, 10).await.unwrap_err();
    assert!(matches!(refused, StoreError::NotFound { what: "state", .. }), "{refused:?}");
}

pub(super) async fn the_history_of_modules_and_of_their_instances_is_whole(f: &Fixture) {
    let state = f.state("prod").await.id;
    let rows = [
        r#"module.m["a"].x.y[0]=1"#,
        r#"module.m["a"].x.y[1]=1"#,
        r#"module.m["a"].data.x.y=1"#,
        r#"module.m["a"].module.n["b"].x.z=1"#,
        r#"module.m["a"].module.plain.x.z=1"#,
        r#"module.m["a.x"].x.y[0]=1"#,
        r#"module.m["c"].module.n["b"].x.z["k"]=1"#,
        "module.one.x.y[0]=1",
        "module.one.module.n[0].x.y[0]=1",
        "module.one2.x.y[0]=1",
    ];
    f.commit(state, "alice", &rows).await;
    f.commit(state, "bob", &[r#"module.m["a"].x.y[1]=2"#, "module.one2.x.y[0]=2"]).await;
    f.commit(state, "carol", &[r#"module.m["a"].module.n["b"].x.z=2"#]).await;
    f.commit(state, "dave", &[r#"module.m["a.x"].x.y[0]"#, r#"module.m["a"].data.x.y=2"#]).await;
    f.commit(state, "erin", &["module.one.module.n[0].x.y[0]=2"]).await;
    for (wanted, lines) in [
        (
            r#"w module.m["a"].x.y"#,
            vec![
                r#"2 bob module.m["a"].x.y[1]~"#.to_owned(),
                r#"1 alice module.m["a"].x.y[0]+ module.m["a"].x.y[1]+"#.to_owned(),
            ],
        ),
        (
            r#"w module.m["a"].data.x.y"#,
            vec![r#"4 dave module.m["a"].data.x.y~"#.to_owned(), r#"1 alice module.m["a"].data.x.y+"#.to_owned()],
        ),
        (
            r#"w module.m["a"].module.n.*"#,
            vec![
                r#"3 carol module.m["a"].module.n["b"].x.z~"#.to_owned(),
                r#"1 alice module.m["a"].module.n["b"].x.z+"#.to_owned(),
            ],
        ),
        (
            r#"w module.m.module.n["b"].*"#,
            vec![
                r#"3 carol module.m["a"].module.n["b"].x.z~"#.to_owned(),
                r#"1 alice module.m["a"].module.n["b"].x.z+ module.m["c"].module.n["b"].x.z["k"]+"#.to_owned(),
            ],
        ),
        (r#"w module.m.module.n.x.z["k"]"#, vec![r#"1 alice module.m["c"].module.n["b"].x.z["k"]+"#.to_owned()]),
        (r#"w module.m["a"].module.plain.x.z"#, vec![r#"1 alice module.m["a"].module.plain.x.z+"#.to_owned()]),
        (
            "w module.m.x.y[0]",
            vec![
                r#"4 dave module.m["a.x"].x.y[0]-"#.to_owned(),
                r#"1 alice module.m["a"].x.y[0]+ module.m["a.x"].x.y[0]+"#.to_owned(),
            ],
        ),
        ("w module.one.x.y[0]", vec!["1 alice module.one.x.y[0]+".to_owned()]),
        (
            "w module.one.*",
            vec![
                "5 erin module.one.module.n[0].x.y[0]~".to_owned(),
                "1 alice module.one.x.y[0]+ module.one.module.n[0].x.y[0]+".to_owned(),
            ],
        ),
        (r#"w module.m["never"].*"#, vec![]),
    ] {
        assert_eq!(history(f, state, wanted, 10).await, lines, "{wanted}");
    }
    let deep: Vec<String> = history(f, state, r#"w module.m["a"].*"#, 10).await;
    assert_eq!(deep.iter().map(|line| &line[..1]).collect::<Vec<_>>(), ["4", "3", "2", "1"], "{deep:?}");
    assert_eq!(deep[3].split(' ').count(), 2 + 5, "{deep:?}");
}

pub(super) async fn a_version_that_only_removed_a_deposed_object_belongs_to_its_instance(f: &Fixture) {
    let state = f.state("prod").await.id;
    f.commit(state, "alice", &["a.x[0]=1", "a.x[1]=1"]).await;
    let key = |deposed: &str| RowKey::Object {
        address: Address::parse("a.x[0]").unwrap(),
        deposed: Some(DeposedKey(deposed.to_owned())),
    };
    for (actor, body) in [("bob", Some("1")), ("carol", None)] {
        let held = f.held(state, actor, "w a.x[0]").await;
        let body = body.map(|text| Body::new(text).unwrap());
        f.store.run_commit(&held, &commit(vec![RowWrite { key: key("00000001"), body }])).await.unwrap();
    }
    let lines = ["3 carol a.x[0] (deposed 00000001)-", "2 bob a.x[0] (deposed 00000001)+", "1 alice a.x[0]+"];
    assert_eq!(history(f, state, "w a.x[0]", 10).await, lines);
    assert_eq!(history(f, state, "w a.x[1]", 10).await, ["1 alice a.x[1]+"]);
}

pub(super) async fn addresses_longer_than_an_index_entry_have_a_history(f: &Fixture) {
    let state = f.state("prod").await.id;
    // Different only behind what the index holds.
    let long = |end: &str| format!("module.{}.a.{end}", "mé".repeat(4_000));
    f.commit(state, "alice", &[&format!("{}=1", long("x")), &format!("{}=1", long("y"))]).await;
    f.commit(state, "bob", &[&format!("{}=2", long("y"))]).await;
    let found = history(f, state, &format!("w {}", long("x")), 10).await;
    assert_eq!(found, [format!("1 alice {}+", long("x"))]);
    let key = |end: &str| format!("module.m[\"{}\"].a.{end}", "mé".repeat(4_000));
    f.commit(state, "carol", &[&format!("{}=1", key("x")), &format!("{}=1", key("y"))]).await;
    f.commit(state, "dave", &[&format!("{}=2", key("y"))]).await;
    let found = history(f, state, &format!("w {}", key("x")), 10).await;
    assert_eq!(found, [format!("3 carol {}+", key("x"))]);
    let found = history(f, state, "w module.m.a.y", 10).await;
    assert_eq!(found, [format!("4 dave {}~", key("y")), format!("3 carol {}+", key("y"))]);
}

/// Versions from 2 on, in each of which every one of so many instances of `a.x` gets a new content, behind the store's
/// back: through it that would take minutes.
async fn busy_years(f: &Fixture, state: StateId, versions: i64, instances: i64) {
    let (blob, now) = if f.is_sqlite() {
        ("CAST('filler ' || i.n AS BLOB)", "0")
    } else {
        ("decode(md5(CAST(i.n AS text)), 'hex')", "'epoch'")
    };
    let numbers = |name: &str, from: i64, to: i64| {
        format!(
            "(WITH RECURSIVE s (n) AS (SELECT {from} UNION ALL SELECT n + 1 FROM s WHERE n < {to}) SELECT n FROM s) AS {name}"
        )
    };
    let last = versions + 1;
    for sql in [
        format!(
            "INSERT INTO state_versions (state_id, serial, source_serial, committed_at, actor, origin, source, mode,
                                         terraform_version, document, providers, rows_opened, rows_closed)
             SELECT '{state}', v.n, 0, {now}, 'robot', '{{}}', 'apply', 'row-delta', '', '[]', '{{}}', 0, 0
             FROM {}",
            numbers("v", 2, last)
        ),
        format!(
            "INSERT INTO resources (state_id, from_serial, to_serial, row_key, kind, address, resource_key, content_hash)
             SELECT '{state}', v.n, CASE WHEN v.n < {last} THEN v.n + 1 END, {blob}, 'object', 'a.x[' || i.n || ']', 'a.x',
                    (SELECT content_hash FROM resource_bodies LIMIT 1)
             FROM {}, {}",
            numbers("v", 2, last),
            numbers("i", 1, instances)
        ),
        format!("UPDATE states SET serial = {last} WHERE name = 'prod'"),
        "ANALYZE".to_owned(),
    ] {
        f.sql(&sql).await.unwrap();
    }
}

pub(super) async fn a_long_history_is_searched_from_its_end(f: &Fixture) {
    f.corrupted_on_purpose();
    let state = f.state("prod").await.id;
    let module = r#"module.m["k"].d.w"#;
    f.commit(state, "alice", &["a.x[0]=1", "b.y[0]=1", "c.z=1", &format!("{module}=1")]).await;
    busy_years(f, state, 60, 100).await;
    f.commit(state, "bob", &["c.z=2"]).await;
    for (wanted, limit, serials) in [
        ("w a.x[0]", 5, vec![1]),
        ("w a.x", 3, vec![61, 60, 59]),
        ("w b.y", 5, vec![1]),
        ("w c.z\nw a.x[0]\nr output.never", 5, vec![62, 1]),
        ("w *", 2, vec![62, 61]),
        // However many versions there are in which nothing of a module changed.
        ("w module.never.*\nr b.y[0]", 5, vec![1]),
        ("w module.m.*", 5, vec![1]),
        ("w module.m[\"k\"].*", 5, vec![1]),
        ("w module.m[\"k\"].d.w", 5, vec![1]),
        ("w module.m.d.w", 5, vec![1]),
    ] {
        let found = f.store.versions_touching(state, &claims(wanted), None, limit).await.unwrap();
        assert_eq!(found.iter().map(|version| version.serial.0).collect::<Vec<_>>(), serials, "{wanted}");
        assert!(found.iter().all(|version| !version.rows.is_empty()), "{wanted}");
    }
    let all = f.store.versions_touching(state, &claims("w a.x"), None, 1).await.unwrap();
    assert_eq!(all[0].rows.len(), 100);
}
