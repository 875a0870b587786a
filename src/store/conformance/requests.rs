//! Requests, their projects and their specs.

use super::fixture::{Fixture, commit, granted, new_run, write};
use crate::domain::id::{Actor, Serial, SpecId, StateId};
use crate::domain::plan::changed::ChangedValue;
use crate::domain::request::{ForgeKind, RequestPhase, RequestRef};
use crate::domain::run::{NewRun, Origin, RunEnd, RunKind, RunStatus};
use crate::store::model::{
    ApplyResult, NewSpec, Noted, OpenSpec, PlanOutcome, PlanResult, ProjectPlace, RequestFacts, RequestQuery, SpecAt,
};
use crate::store::{Ask, StoreError};

pub(in crate::store::conformance) fn request(number: u64) -> RequestRef {
    RequestRef { forge: ForgeKind::Github, repository: "example/infra".to_owned(), number }
}

pub(in crate::store::conformance) fn facts(head: &str, phase: RequestPhase) -> RequestFacts {
    RequestFacts {
        head: head.to_owned(),
        base_branch: "main".to_owned(),
        title: "Grow \0 the `web` | tier".to_owned(),
        phase,
        from_fork: false,
        merge_commit: (phase == RequestPhase::Merged).then(|| "merge1".to_owned()),
    }
}

pub(in crate::store::conformance) async fn open(f: &Fixture, number: u64, head: &str) -> RequestRef {
    let request = request(number);
    f.store.request_put(&request, &facts(head, RequestPhase::Open)).await.unwrap();
    request
}

fn place(project: &str, state: StateId) -> ProjectPlace {
    ProjectPlace { project: project.to_owned(), dir: format!("envs/{project}"), workspace: "default".to_owned(), state }
}

async fn stored_spec(f: &Fixture, state: StateId) -> SpecId {
    let spec = NewSpec {
        id: crate::clock::new_spec_id(),
        state,
        source_serial: Serial(1),
        actor: Actor("alice".to_owned()),
        origin: Origin::default(),
        digest: "d".to_owned(),
        document: "{}".to_owned(),
    };
    f.store.spec_insert(&spec).await.unwrap();
    spec.id
}

fn result(project: &str, state: StateId, head: &str, outcome: PlanOutcome) -> PlanResult {
    PlanResult {
        place: place(project, state),
        head: head.to_owned(),
        outcome,
        actor: Actor("alice".to_owned()),
        job_url: Some("https://ci.example/1".to_owned()),
    }
}

/// Plans a project at a head; the spec must have been taken.
pub(in crate::store::conformance) async fn planned(
    f: &Fixture,
    request: &RequestRef,
    project: &str,
    state: StateId,
    head: &str,
) -> SpecId {
    let spec = stored_spec(f, state).await;
    let outcome = PlanOutcome::Planned { spec, values: Vec::new() };
    let noted = f.store.plan_result_put(request, &result(project, state, head, outcome)).await.unwrap();
    assert_eq!(noted, Noted::Stored);
    spec
}

fn applied(project: &str, state: StateId) -> ApplyResult {
    ApplyResult { place: place(project, state), run: None, error: None, next: Vec::new(), job_url: None }
}

pub(super) async fn a_request_comes_back_as_the_forge_described_it(f: &Fixture) {
    let request = request(7);
    assert_eq!(f.store.request_find(&request).await.unwrap(), None);
    let mut facts = facts("h1", RequestPhase::Open);
    facts.from_fork = true;
    let first = f.store.request_put(&request, &facts).await.unwrap();
    assert_eq!(first.request, request);
    assert_eq!(first.facts, RequestFacts { title: facts.title.replace('\0', "\u{fffd}"), ..facts.clone() });
    assert_eq!(f.store.request_find(&request).await.unwrap(), Some(first.clone()));
    facts.head = "h2".to_owned();
    facts.title = "Another".to_owned();
    let second = f.store.request_put(&request, &facts).await.unwrap();
    assert_eq!((&second.facts, second.created_at), (&facts, first.created_at));
    assert!(second.updated_at >= first.updated_at);
    // Names are compared exactly, and each forge has its own numbers.
    for other in [
        RequestRef { repository: "Example/infra".to_owned(), ..request.clone() },
        RequestRef { forge: ForgeKind::Gitlab, ..request.clone() },
        RequestRef { number: 8, ..request },
    ] {
        assert_eq!(f.store.request_find(&other).await.unwrap(), None, "{other}");
    }
}

pub(super) async fn a_merged_request_stays_merged(f: &Fixture) {
    use RequestPhase::{Closed, Merged, Open};
    let request = request(7);
    for (said, head, stands, known) in [
        (Open, "h1", Open, "h1"),
        (Closed, "h1", Closed, "h1"),
        (Open, "h2", Open, "h2"),
        (Merged, "h3", Merged, "h3"),
        (Open, "h2", Merged, "h3"),
        (Closed, "h2", Merged, "h3"),
        (Merged, "h3", Merged, "h3"),
    ] {
        let mut news = facts(head, said);
        let before = f.store.request_find(&request).await.unwrap();
        if before.is_some_and(|before| before.facts.merge_commit.is_some()) {
            news.merge_commit = None;
        }
        let now = f.store.request_put(&request, &news).await.unwrap();
        assert_eq!((now.facts.phase, now.facts.head.as_str()), (stands, known), "{said:?} {head}");
        assert_eq!(now.facts.merge_commit.as_deref(), (stands == Merged).then_some("merge1"));
    }
    assert!(f.sql("UPDATE requests SET phase = 'open'").await.is_err());
}

pub(super) async fn requests_are_listed_with_the_last_news_first(f: &Fixture) {
    for number in [1, 2, 3] {
        open(f, number, "h").await;
    }
    f.tick().await;
    f.store.request_put(&request(2), &facts("h", RequestPhase::Closed)).await.unwrap();
    let elsewhere = RequestRef { repository: "example/other".to_owned(), ..request(9) };
    f.store.request_put(&elsewhere, &facts("h", RequestPhase::Open)).await.unwrap();
    for (phase, limit, numbers) in [
        (None, 10, vec![2, 3, 1]),
        (None, 2, vec![2, 3]),
        (Some(RequestPhase::Open), 10, vec![3, 1]),
        (Some(RequestPhase::Closed), 10, vec![2]),
        (Some(RequestPhase::Merged), 10, vec![]),
    ] {
        let query = RequestQuery { forge: ForgeKind::Github, repository: "example/infra".to_owned(), phase, limit };
        let found = f.store.request_list(&query).await.unwrap();
        assert_eq!(found.iter().map(|one| one.request.number).collect::<Vec<_>>(), numbers, "{query:?}");
    }
}

pub(super) async fn a_plan_comes_back_as_it_was_recorded(f: &Fixture) {
    let state = f.state("prod").await;
    let request = open(f, 7, "h1").await;
    assert!(f.store.request_projects(&request).await.unwrap().is_empty());
    let value = |after: Option<&str>| ChangedValue {
        address: "a.x[\"|\"]".to_owned(),
        attribute: "tags.Name".to_owned(),
        before: Some("\"\\u0000\"".to_owned()),
        after: after.map(str::to_owned),
    };
    let spec = stored_spec(f, state.id).await;
    let values = vec![value(Some("(sensitive)")), value(None)];
    let new = result("web", state.id, "h1", PlanOutcome::Planned { spec, values });
    assert_eq!(f.store.plan_result_put(&request, &new).await.unwrap(), Noted::Stored);
    let failed = result("db", state.id, "h1", PlanOutcome::Failed { error: "it broke\0".to_owned() });
    assert_eq!(f.store.plan_result_put(&request, &failed).await.unwrap(), Noted::Stored);

    let found = f.store.request_projects(&request).await.unwrap();
    assert_eq!(found.iter().map(|one| one.place.project.as_str()).collect::<Vec<_>>(), ["db", "web"]);
    assert_eq!((&found[1].place, &found[1].state_name), (&new.place, &state.name));
    assert_eq!(found[1].newest_spec, Some(SpecAt { spec, head: "h1".to_owned() }));
    assert_eq!(found[1].apply, None);
    let plan = found[1].plan.clone().unwrap();
    assert_eq!((&plan.outcome, &plan.head, plan.actor.as_ref()), (&new.outcome, &new.head, Some(&new.actor)));
    assert_eq!(plan.job_url, new.job_url);
    assert!(plan.at <= f.store.now().await.unwrap());
    let plan = found[0].plan.clone().unwrap();
    assert_eq!(plan.outcome, PlanOutcome::Failed { error: "it broke\u{fffd}".to_owned() });
    assert_eq!(found[0].newest_spec, None);
}

pub(super) async fn a_result_for_another_head_changes_nothing(f: &Fixture) {
    let state = f.state("prod").await.id;
    let request = open(f, 7, "h1").await;
    planned(f, &request, "web", state, "h1").await;
    open(f, 7, "h2").await;
    let before = f.store.request_projects(&request).await.unwrap();
    let superseded = Noted::Superseded { head: "h2".to_owned() };
    let late = PlanOutcome::Planned { spec: stored_spec(f, state).await, values: Vec::new() };
    let failed = PlanOutcome::Failed { error: "late".to_owned() };
    for outcome in [late, failed, PlanOutcome::Dropped] {
        let noted = f.store.plan_result_put(&request, &result("web", state, "h1", outcome)).await.unwrap();
        assert_eq!(noted, superseded);
    }
    assert_eq!(f.store.project_drop(&request, "h1", &[]).await.unwrap(), superseded);
    assert_eq!(f.store.request_projects(&request).await.unwrap(), before);
    // After the merge the commit that it made counts, too: a plan that was made then.
    f.store.request_put(&request, &facts("h2", RequestPhase::Merged)).await.unwrap();
    planned(f, &request, "web", state, "merge1").await;
    planned(f, &request, "web", state, "h2").await;
}

pub(super) async fn the_newest_spec_outlives_plans_that_fail(f: &Fixture) {
    let state = f.state("prod").await.id;
    let request = open(f, 7, "h1").await;
    assert!(f.store.request_spec(&request, "web").await.unwrap().is_none());
    let outcome = PlanOutcome::Planned { spec: stored_spec(f, state).await, values: Vec::new() };
    assert_eq!(f.store.plan_result_put(&request, &result("web", state, "h1", outcome)).await.unwrap(), Noted::Stored);
    // Planned again, and the last one counts.
    let second = planned(f, &request, "web", state, "h1").await;
    open(f, 7, "h2").await;
    let failed = PlanOutcome::Failed { error: "broken".to_owned() };
    assert_eq!(f.store.plan_result_put(&request, &result("web", state, "h2", failed)).await.unwrap(), Noted::Stored);

    let (stored, head) = f.store.request_spec(&request, "web").await.unwrap().unwrap();
    assert_eq!((stored.spec.id, head.as_str()), (second, "h1"));
    let found = f.store.request_projects(&request).await.unwrap().remove(0);
    assert_eq!(found.newest_spec, Some(SpecAt { spec: second, head: "h1".to_owned() }));
    let plan = found.plan.unwrap();
    assert_eq!(plan.head, "h2");
    assert!(f.store.request_spec(&request, "other").await.unwrap().is_none());
}

pub(super) async fn projects_that_are_no_longer_touched_are_dropped(f: &Fixture) {
    let state = f.state("prod").await.id;
    let request = open(f, 7, "h1").await;
    for project in ["a", "b", "c"] {
        planned(f, &request, project, state, "h1").await;
    }
    open(f, 7, "h2").await;
    let other = open(f, 8, "h2").await;
    planned(f, &other, "a", state, "h2").await;
    let affected = ["b".to_owned(), "new".to_owned()];
    for _ in 0..2 {
        assert_eq!(f.store.project_drop(&request, "h2", &affected).await.unwrap(), Noted::Stored);
    }
    let found = f.store.request_projects(&request).await.unwrap();
    let dropped = |one: &crate::store::model::ProjectRecord| one.plan.as_ref().unwrap().outcome == PlanOutcome::Dropped;
    let names: Vec<_> = found.iter().map(|one| (one.place.project.as_str(), dropped(one))).collect();
    assert_eq!(names, [("a", true), ("b", false), ("c", true)]);
    assert_eq!(found[0].plan.as_ref().unwrap().head, "h2");
    assert!(!dropped(&f.store.request_projects(&other).await.unwrap()[0]));
    // Touched again.
    planned(f, &request, "a", state, "h2").await;
    assert!(!dropped(&f.store.request_projects(&request).await.unwrap()[0]));
}

pub(super) async fn an_apply_comes_back_as_it_was_recorded(f: &Fixture) {
    let state = f.state("prod").await.id;
    let request = open(f, 7, "h1").await;
    // Refused before there was a run, in a project that was never planned.
    let refused = ApplyResult {
        error: Some("no approved spec\0".to_owned()),
        next: vec!["kl ci plan\0".to_owned(), "then merge".to_owned()],
        job_url: Some("https://ci.example/2".to_owned()),
        ..applied("web", state)
    };
    f.store.apply_result_put(&request, &refused).await.unwrap();
    let found = f.store.request_projects(&request).await.unwrap().remove(0);
    assert_eq!((found.plan, found.newest_spec, found.place), (None, None, refused.place.clone()));
    let apply = found.apply.unwrap();
    assert_eq!((apply.run, apply.error.as_deref()), (None, Some("no approved spec\u{fffd}")));
    assert_eq!(apply.next, ["kl ci plan\u{fffd}", "then merge"]);
    assert_eq!(apply.job_url, refused.job_url);

    // Planned and applied after all: each part leaves the other alone.
    let spec = planned(f, &request, "web", state, "h1").await;
    let run = f.run(state, "bob").await;
    f.store.apply_result_put(&request, &ApplyResult { run: Some(run), ..applied("web", state) }).await.unwrap();
    let found = f.store.request_projects(&request).await.unwrap().remove(0);
    assert_eq!(found.newest_spec.unwrap().spec, spec);
    let apply = found.apply.unwrap();
    assert_eq!((apply.run, apply.error, apply.next), (Some(run), None, Vec::new()));
}

pub(super) async fn results_of_what_does_not_exist_are_refused(f: &Fixture) {
    let (state, other) = (f.state("prod").await.id, f.state("other").await.id);
    let request = request(7);
    let failed = || PlanOutcome::Failed { error: "x".to_owned() };
    let missing = |error: StoreError, expected: &str| {
        assert!(matches!(&error, StoreError::NotFound { what, .. } if *what == expected), "{expected}: {error:?}");
    };
    missing(f.store.plan_result_put(&request, &result("a", state, "h1", failed())).await.unwrap_err(), "request");
    missing(f.store.project_drop(&request, "h1", &[]).await.unwrap_err(), "request");
    missing(f.store.apply_result_put(&request, &applied("a", state)).await.unwrap_err(), "request");
    open(f, 7, "h1").await;
    let nowhere = StateId(crate::clock::new_run_id().0);
    missing(f.store.plan_result_put(&request, &result("a", nowhere, "h1", failed())).await.unwrap_err(), "state");
    missing(f.store.apply_result_put(&request, &applied("a", nowhere)).await.unwrap_err(), "state");
    missing(f.store.open_specs(nowhere, 10).await.unwrap_err(), "state");
    let planned = |spec| result("a", state, "h1", PlanOutcome::Planned { spec, values: Vec::new() });
    let stray = planned(crate::clock::new_spec_id());
    missing(f.store.plan_result_put(&request, &stray).await.unwrap_err(), "spec");
    let run = Some(crate::clock::new_run_id());
    missing(f.store.apply_result_put(&request, &ApplyResult { run, ..applied("a", state) }).await.unwrap_err(), "run");
    let foreign = planned(stored_spec(f, other).await);
    let refused = f.store.plan_result_put(&request, &foreign).await.unwrap_err();
    assert!(matches!(refused, StoreError::Stale(_)), "{refused:?}");
    assert!(f.store.request_projects(&request).await.unwrap().is_empty());
}

/// `#7 web h1` each.
fn told(specs: &[OpenSpec]) -> Vec<String> {
    specs.iter().map(|one| format!("{} {} {}", one.request.short(), one.project, one.spec_head)).collect()
}

pub(super) async fn open_specs_are_those_that_may_still_be_applied(f: &Fixture) {
    let (state, other) = (f.state("prod").await.id, f.state("other").await.id);
    let (seven, eight, nine) = (open(f, 7, "h1").await, open(f, 8, "h8").await, open(f, 9, "h9").await);
    planned(f, &seven, "web", state, "h1").await;
    planned(f, &seven, "elsewhere", other, "h1").await;
    let spec = planned(f, &eight, "web", state, "h8").await;
    planned(f, &nine, "web", state, "h9").await;
    planned(f, &nine, "db", state, "h9").await;
    let all = f.store.open_specs(state, 10).await.unwrap();
    assert_eq!(told(&all), ["#9 db h9", "#9 web h9", "#8 web h8", "#7 web h1"]);
    assert_eq!((all[2].spec.spec.id, all[2].phase, all[2].head.as_str()), (spec, RequestPhase::Open, "h8"));
    assert_eq!(all[2].title, "Grow \u{fffd} the `web` | tier");
    assert_eq!(told(&f.store.open_specs(state, 1).await.unwrap()), ["#9 db h9"]);

    f.tick().await;
    // A later plan that failed leaves the spec, a project that is dropped does not, nor does a closed request.
    open(f, 7, "h2").await;
    let failed = PlanOutcome::Failed { error: "broken".to_owned() };
    assert_eq!(f.store.plan_result_put(&seven, &result("web", state, "h2", failed)).await.unwrap(), Noted::Stored);
    assert_eq!(f.store.project_drop(&nine, "h9", &["web".to_owned()]).await.unwrap(), Noted::Stored);
    assert_eq!(told(&f.store.open_specs(state, 10).await.unwrap()), ["#7 web h1", "#9 web h9", "#8 web h8"]);
    f.store.request_put(&nine, &facts("h9", RequestPhase::Closed)).await.unwrap();
    assert_eq!(told(&f.store.open_specs(state, 10).await.unwrap()), ["#7 web h1", "#8 web h8"]);

    // A merged one counts until a run has applied it.
    f.store.request_put(&eight, &facts("h8", RequestPhase::Merged)).await.unwrap();
    let mut run = new_run(state, "bob");
    run.spec = Some(spec);
    f.store.run_start(&run).await.unwrap();
    f.store.run_end(run.id, &RunEnd::failed("broken")).await.unwrap();
    let left = f.store.open_specs(state, 10).await.unwrap();
    assert_eq!((told(&left)[1].as_str(), left[1].phase), ("#8 web h8", RequestPhase::Merged));
    // A recovery brings in what was done, and leaves the rest to be applied.
    let recovery = NewRun { id: crate::clock::new_run_id(), kind: RunKind::Recover, ..run.clone() };
    f.store.run_start(&recovery).await.unwrap();
    let held = granted(f.again(recovery.id, "w a.x", false).await);
    f.store.run_commit(&held, &commit(vec![write("a.x={\"half\":true}")])).await.unwrap();
    assert_eq!(told(&f.store.open_specs(state, 10).await.unwrap()), ["#7 web h1", "#8 web h8"]);
    run.id = crate::clock::new_run_id();
    f.store.run_start(&run).await.unwrap();
    let ask = Ask { run: run.id, claims: super::fixture::claims("w a.x"), lease: super::fixture::LEASE, queue: false };
    let held = granted(f.store.reservation_acquire(&ask).await.unwrap());
    f.store.run_commit(&held, &commit(vec![write("a.x={}")])).await.unwrap();
    assert_eq!(told(&f.store.open_specs(state, 10).await.unwrap()), ["#7 web h1"]);
}

pub(super) async fn runs_are_found_by_their_request(f: &Fixture) {
    let state = f.state("prod").await.id;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let mut run = new_run(state, "alice");
        run.origin = Origin {
            forge: Some("github".to_owned()),
            repository: Some("example/infra".to_owned()),
            request: Some(7),
            commit: Some("a\0b".to_owned()),
            job_url: None,
            job: None,
        };
        f.store.run_start(&run).await.unwrap();
        ids.push(run.id);
    }
    // Others: without a repository, of another request, from a laptop.
    f.run(state, "bob").await;
    let mut run = new_run(state, "carol");
    run.origin = Origin { request: Some(8), ..f.store.run_find(ids[0]).await.unwrap().origin };
    f.store.run_start(&run).await.unwrap();
    run = new_run(state, "dave");
    run.origin = Origin::default();
    f.store.run_start(&run).await.unwrap();

    ids.reverse();
    f.store.run_end(ids[0], &RunEnd::plain(RunStatus::Noop)).await.unwrap();
    let found = |runs: Vec<crate::domain::run::Run>| runs.iter().map(|run| run.id).collect::<Vec<_>>();
    assert_eq!(found(f.store.runs_of_request(&request(7), 10).await.unwrap()), ids);
    assert_eq!(found(f.store.runs_of_request(&request(7), 2).await.unwrap()), ids[..2]);
    assert!(f.store.runs_of_request(&request(9), 10).await.unwrap().is_empty());
}
