//! What people look at: pages of runs, outlines of timelines, and which version each row comes from.

use super::fixture::{Fixture, pattern};
use crate::domain::id::{Actor, RunId, Serial, SpecId};
use crate::domain::run::event::{ResourceStep, RunEvent};
use crate::domain::run::{Origin, RunEnd, RunStatus};
use crate::store::model::{NewSpec, OriginQuery, RowMark, RowOrigin, RunQuery};

pub(super) async fn pages_of_runs_follow_each_other(f: &Fixture) {
    let (state, other) = (f.state("prod").await.id, f.state("other").await.id);
    let mut all = Vec::new();
    for (number, actor) in ["alice", "bob", "alice", "carol", "alice", "bob", "alice"].into_iter().enumerate() {
        all.push(f.run(if number % 3 == 2 { other } else { state }, actor).await);
    }
    let ended = all[0];
    f.store.run_end(ended, &RunEnd::plain(RunStatus::Noop)).await.unwrap();
    all.reverse();
    let ids = |runs: &[crate::domain::run::Run]| runs.iter().map(|run| run.id).collect::<Vec<_>>();
    let page = async |query: RunQuery| f.store.run_page(&query).await.unwrap();
    let everything = RunQuery { limit: 100, ..RunQuery::default() };
    assert_eq!(ids(&page(everything.clone()).await), all);

    for of in [None, Some(state), Some(other)] {
        let whole = ids(&page(RunQuery { state: of, ..everything.clone() }).await);
        assert_eq!(whole.len(), of.map_or(7, |id| if id == state { 5 } else { 2 }));
        let (mut walked, mut before) = (Vec::new(), None);
        loop {
            let next = page(RunQuery { state: of, before, limit: 2, ..RunQuery::default() }).await;
            let Some(last) = next.last() else { break };
            before = Some((last.started_at, last.id));
            walked.extend(ids(&next));
        }
        assert_eq!(walked, whole);
    }

    let alice = page(RunQuery { actor: Some(Actor("alice".to_owned())), ..everything.clone() }).await;
    assert_eq!(alice.len(), 4);
    assert!(alice.iter().all(|run| run.actor.0 == "alice"));
    let noop = page(RunQuery { status: Some(RunStatus::Noop), ..everything.clone() }).await;
    assert_eq!(ids(&noop), [ended]);
    for (request, count) in [(7, 7), (8, 0), (u64::MAX, 0)] {
        assert_eq!(page(RunQuery { request: Some(request), ..everything.clone() }).await.len(), count);
    }
    f.tick().await;
    let now = f.store.now().await.unwrap();
    assert!(page(RunQuery { since: Some(now), ..everything.clone() }).await.is_empty());
    let newest = f.store.run_find(all[0]).await.unwrap();
    let since = page(RunQuery { since: Some(newest.started_at), ..everything }).await;
    assert_eq!(ids(&since).first(), Some(&all[0]));
}

pub(super) async fn an_outline_leaves_out_single_resources(f: &Fixture) {
    let run = f.run(f.state("prod").await.id, "alice").await;
    assert!(f.store.event_outline(run).await.unwrap().is_empty());
    let resource = RunEvent::Resource {
        address: "a.x".to_owned(),
        action: "create".to_owned(),
        step: ResourceStep::Started,
        elapsed_seconds: 0,
    };
    f.store
        .event_append(run, &[RunEvent::ApplyStarted, resource, RunEvent::ApplyFinished { success: true }])
        .await
        .unwrap();
    let outline = f.store.event_outline(run).await.unwrap();
    let (silent, nobody) = (f.run(f.state("prod").await.id, "bob").await, RunId(uuid::Uuid::nil()));
    let several = f.store.event_outlines(&[silent, run, nobody]).await.unwrap();
    assert_eq!(several, [(run, outline.clone())].into());
    assert!(f.store.event_outlines(&[]).await.unwrap().is_empty());
    let told: Vec<_> = outline.into_iter().map(|recorded| (recorded.seq, recorded.event)).collect();
    assert_eq!(told, [(1, RunEvent::ApplyStarted), (3, RunEvent::ApplyFinished { success: true })]);
}

pub(super) async fn timelines_of_many_runs_are_those_of_each(f: &Fixture) {
    assert!(f.store.event_lists(&[]).await.unwrap().is_empty());
    let state = f.state("prod").await.id;
    let runs = [f.run(state, "alice").await, f.run(state, "bob").await, f.run(state, "carol").await];
    for number in 0..12 {
        let finished = RunEvent::ApplyFinished { success: number % 2 == 0 };
        f.store.event_append(runs[number % 2], &[RunEvent::ApplyStarted, finished]).await.unwrap();
    }
    let asked = [runs[1], runs[2], runs[0], RunId(uuid::Uuid::nil())];
    let lists = f.store.event_lists(&asked).await.unwrap();
    assert_eq!(lists.len(), 2);
    for run in &runs[..2] {
        assert_eq!(lists[run], f.store.event_list(*run).await.unwrap());
    }
    assert_eq!(f.store.event_lists(&runs[1..]).await.unwrap().into_keys().collect::<Vec<_>>(), [runs[1]]);
}

pub(super) async fn specs_of_many_runs_are_those_of_each(f: &Fixture) {
    assert!(f.store.spec_list(&[]).await.unwrap().is_empty());
    let state = f.state("prod").await.id;
    let mut ids = Vec::new();
    for number in 1_u128..=3 {
        let spec = NewSpec {
            id: SpecId(uuid::Uuid::from_u128(number)),
            state,
            source_serial: Serial(0),
            actor: Actor("alice".to_owned()),
            origin: Origin::default(),
            digest: "d".to_owned(),
            document: format!("{{\"number\":{number}}}"),
        };
        f.store.spec_insert(&spec).await.unwrap();
        ids.push(spec.id);
    }
    let asked = [ids[2], SpecId(uuid::Uuid::nil()), ids[0], ids[2]];
    let mut found = f.store.spec_list(&asked).await.unwrap();
    found.sort_by_key(|stored| stored.spec.id);
    assert_eq!(found.iter().map(|stored| stored.spec.id).collect::<Vec<_>>(), [ids[0], ids[2]]);
    for stored in found {
        let alone = f.store.spec_find(stored.spec.id).await.unwrap();
        assert_eq!((stored.spec.document, stored.created_at), (alone.spec.document, alone.created_at));
    }
}

/// `ROW SERIAL ACTOR` of each.
fn told(rows: &[RowOrigin]) -> Vec<String> {
    rows.iter().map(|row| format!("{} {} {}", row.key, row.version.serial, row.version.actor)).collect()
}

/// Rows of the trunk that a pattern meets, at most so many.
fn within(text: &str, limit: u32) -> OriginQuery {
    OriginQuery { within: pattern(text), after: None, since: None, limit }
}

pub(super) async fn every_row_names_the_version_that_made_it_so(f: &Fixture) {
    let state = f.state("prod").await.id;
    assert!(f.store.row_origins(state, &within("*", 10)).await.unwrap().is_empty());
    f.commit(state, "alice", &["a.x=1", "a.y=1", "output.o=1", "a.Z=1"]).await;
    f.commit(state, "bob", &["a.y=2", "a.gone=1"]).await;
    f.tick().await;
    let late = f.store.now().await.unwrap();
    f.commit(state, "carol", &["a.gone", "module.m[\"é\"].a.x=1"]).await;
    f.commit(f.state("other").await.id, "zoe", &["a.x=1"]).await;
    let whole = told(&f.store.row_origins(state, &within("*", 10)).await.unwrap());
    let expected = ["a.Z 1 alice", "a.x 1 alice", "a.y 2 bob", "module.m[\"é\"].a.x 3 carol", "output.o 1 alice"];
    assert_eq!(whole, expected);
    let (mut walked, mut after) = (Vec::new(), None);
    loop {
        let page = f.store.row_origins(state, &OriginQuery { after, ..within("*", 2) }).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.mark.clone());
        walked.extend(told(&page));
    }
    assert_eq!(walked, expected);
    let behind = RowMark { address: "a.x".to_owned(), number: i64::MAX };
    let page = OriginQuery { after: Some(behind), ..within("*", 1) };
    assert_eq!(told(&f.store.row_origins(state, &page).await.unwrap()), ["a.y 2 bob"]);
    let since = OriginQuery { since: Some(late), ..within("*", 10) };
    assert_eq!(told(&f.store.row_origins(state, &since).await.unwrap()), ["module.m[\"é\"].a.x 3 carol"]);
}

pub(super) async fn the_rows_that_a_pattern_meets_are_found_among_all_others(f: &Fixture) {
    f.corrupted_on_purpose();
    let state = f.state("prod").await.id;
    // Different only behind what an index holds.
    let long = |end: &str| format!("module.{}.a.{end}", "mé".repeat(4_000));
    let rows = [
        "a.x[0]=1",
        "a.x[1]=1",
        r#"a.x["k.[l]"]=1"#,
        "a.x2=1",
        "data.a.x=1",
        "module.m.a.x[0]=1",
        "module.m.module.n[1].a.x[0]=1",
        "module.m2.a.x[0]=1",
        r#"module.k["a"].a.x[0]=1"#,
        r#"module.k["a"].module.n.a.x[0]=1"#,
        r#"module.k["a.b"].a.x[1]=1"#,
        "output.a=1",
        &format!("{}=1", long("x")),
        &format!("{}=1", long("y")),
    ];
    f.commit(state, "alice", &rows).await;
    f.commit(state, "bob", &["a.x[1]=2", "module.m.a.x[0]=2"]).await;
    let (long_x, long_line) = (long("x"), format!("{} 1 alice", long("x")));
    let cases = [
        ("a.x[0]", vec!["a.x[0] 1 alice"]),
        ("a.x", vec![r#"a.x["k.[l]"] 1 alice"#, "a.x[0] 1 alice", "a.x[1] 2 bob"]),
        ("data.a.x", vec!["data.a.x 1 alice"]),
        ("output.a", vec!["output.a 1 alice"]),
        ("module.m.*", vec!["module.m.a.x[0] 2 bob", "module.m.module.n[1].a.x[0] 1 alice"]),
        ("module.m.module.n.a.x[0]", vec!["module.m.module.n[1].a.x[0] 1 alice"]),
        (r#"module.k["a"].*"#, vec![r#"module.k["a"].a.x[0] 1 alice"#, r#"module.k["a"].module.n.a.x[0] 1 alice"#]),
        ("module.k.a.x", vec![r#"module.k["a"].a.x[0] 1 alice"#, r#"module.k["a.b"].a.x[1] 1 alice"#]),
        ("module.k.a.x[1]", vec![r#"module.k["a.b"].a.x[1] 1 alice"#]),
        (long_x.as_str(), vec![long_line.as_str()]),
        ("a.never", vec![]),
        ("module.never.*", vec![]),
    ];
    for (pattern, lines) in &cases {
        // However small a page is, it is full unless there are no more.
        let first = told(&f.store.row_origins(state, &within(pattern, 1)).await.unwrap());
        assert_eq!(first, lines[..lines.len().min(1)], "{pattern}");
        assert_eq!(told(&f.store.row_origins(state, &within(pattern, 10)).await.unwrap()), *lines, "{pattern}");
    }
    // Nobody could tell what these rows are: whoever reads one of them fails.
    f.sql("UPDATE resources SET kind = 'object', address = 'nothing that kl could read' WHERE address = 'a.x2'")
        .await
        .unwrap();
    assert!(f.store.row_origins(state, &within("*", 100)).await.is_err());
    for (pattern, lines) in &cases {
        assert_eq!(told(&f.store.row_origins(state, &within(pattern, 10)).await.unwrap()), *lines, "{pattern}");
    }
}
