//! Comments by example: each is what a reader of the request sees.

use insta::assert_snapshot;

use super::*;
use crate::domain::coordination::reservation::HeldAs;
use crate::domain::id::Serial;
use crate::domain::plan::action::Action;
use crate::domain::run::RunStatus;
use crate::domain::run::aftermath::Became;
use crate::domain::run::event::RunEvent;
use crate::report::fixture::{self, Plan, at, blocker, changed_row, planned, project, request};
use crate::report::markdown::tests::{read, shape};
use crate::report::view::{NearbyRun, PlannedView};

fn github(view: &RequestView) -> String {
    comment(view, ForgeKind::Github)
}

fn with(edit: impl FnOnce(&mut PlannedView)) -> RequestView {
    let mut planned = planned(fixture::network());
    edit(&mut planned);
    request(vec![project("network", PlanView::Planned(Box::new(planned)))])
}

#[test]
fn a_small_plan() {
    assert_snapshot!(github(&fixture::small()));
}

#[test]
fn a_plan_without_changes() {
    let spec = Plan::new("prod/network").spec();
    assert_snapshot!(github(&request(vec![project("network", PlanView::Planned(Box::new(planned(spec))))])));
}

#[test]
fn three_projects_and_one_that_is_no_longer_touched() {
    let mut view = fixture::neighbours();
    let error = "terraform plan failed\n  because infra/dns/main.tf:4: Unsupported argument: an argument named \"recrods\" is not expected here";
    let failed = PlanView::Failed {
        error: error.to_owned(),
        head: fixture::HEAD.to_owned(),
        job_url: Some("https://github.com/acme/infra/actions/runs/901".to_owned()),
        at: at(30),
    };
    view.projects.insert(0, project("dns", failed));
    view.projects.push(project("mail", PlanView::Planned(Box::new(planned(Plan::new("prod/mail").spec())))));
    view.projects.push(project("old", PlanView::Dropped));
    assert_snapshot!(github(&view));
    view.projects.pop();
    assert_snapshot!(github(&view));
}

#[test]
fn a_reservation_in_the_way() {
    let held = blocker("aws_vpc.main", HeldAs::Run, &["aws_vpc.main"]);
    assert_snapshot!(github(&with(|planned| planned.in_the_way = vec![held])));
}

#[test]
fn a_stale_plan() {
    assert_snapshot!(github(&with(|planned| {
        planned.since.write = vec![changed_row("aws_route_table.private")];
        planned.since.read = vec![changed_row("aws_vpc.main")];
        planned.since.outside = vec![changed_row("aws_iam_role.deploy")];
        planned.trunk_serial = Serial(42);
    })));
}

#[test]
fn a_forecast_with_all_relations() {
    assert_snapshot!(github(&fixture::neighbours()));
}

#[test]
fn a_destroy_plan() {
    let spec = Plan::new("prod/network")
        .write("aws_db_instance.main", Action::Delete, &[], "infra/network/db.tf:3")
        .write("aws_s3_bucket.logs", Action::Forget, &[], "infra/network/logs.tf:1")
        .write("aws_vpc.main", Action::Delete, &[], "infra/network/main.tf:1")
        .edit(|spec| spec.scope.targets = vec!["aws_vpc.main".to_owned()])
        .destroy()
        .spec();
    assert_snapshot!(github(&request(vec![project("network", PlanView::Planned(Box::new(planned(spec))))])));
}

#[test]
fn hostile_texts() {
    let text = github(&fixture::hostile());
    // Cases B43: nothing of it is markup, a mention, a command of GitLab, or our marker.
    let ours = ["<details>", "</details>", "<code>", "</code>", "<sub>", "</sub>"];
    let shape = shape(&text);
    let tags = shape.iter().filter_map(|line| line.trim_start().strip_prefix("html "));
    assert_eq!(tags.filter(|tag| !ours.contains(tag)).collect::<Vec<_>>(), [""; 0]);
    let links = shape.iter().filter_map(|line| line.trim_start().strip_prefix("link "));
    assert_eq!(links.filter(|url| !url.starts_with("https://github.com/acme/infra/")).collect::<Vec<_>>(), [""; 0]);
    let (prose, _) = read(&text);
    assert!(!prose.contains("@example") && !prose.contains("@alice"), "{prose}");
    assert!(!text.lines().any(|line| line.starts_with('/')));
    assert!(!text.contains("hunter2"));
    assert_snapshot!(text);
}

#[test]
fn a_plan_that_failed() {
    let error = "terraform plan failed\n  because infra/network/main.tf:4: Invalid reference\n  the token was ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let failed = PlanView::Failed {
        error: error.to_owned(),
        head: fixture::HEAD.to_owned(),
        job_url: Some("https://github.com/acme/infra/actions/runs/901".to_owned()),
        at: at(30),
    };
    assert_snapshot!(github(&request(vec![project("network", failed)])));
}

#[test]
fn after_the_merge_a_committed_serial() {
    assert_snapshot!(github(&fixture::committed()));
}

#[test]
fn after_the_merge_a_conflict() {
    assert_snapshot!(github(&fixture::conflicted()));
}

#[test]
fn after_the_merge_a_failure_that_left_objects() {
    assert_snapshot!(github(&fixture::quarantined()));
}

#[test]
fn after_the_merge_a_failure_that_was_put_in_order() {
    let view = |became: Became| {
        let mut events = fixture::beginning();
        events.push((700, RunEvent::ApplyStarted));
        events.push((701, RunEvent::Quarantined { addresses: vec!["aws_vpc.main".to_owned()] }));
        let taken_over = RunEvent::TakenOver { by: fixture::run_id(9), actor: fixture::actor("erin") };
        let dropped = RunEvent::Discarded { by: fixture::actor("erin"), freed: 1 };
        events.push((800, if became == Became::Dropped { dropped } else { taken_over }));
        let mut outcome = fixture::apply(fixture::run(RunStatus::Failed), events);
        outcome.next = vec!["run `kl recover 1`, then run the job again".to_owned()];
        outcome.aftermath = Some(fixture::aftermath(became));
        github(&fixture::merged(outcome))
    };
    let recovered = |left| view(Became::Recovered { serial: Some(Serial(50)), left });
    let whole = recovered(Vec::new());
    let part = recovered(vec![changed_row("aws_vpc.main")]);
    let dropped = view(Became::Dropped);
    for (text, told) in [
        (&whole, "a recovery has taken over what it had done; the state is in step"),
        (&part, "recovered in part"),
        (&dropped, "its record was dropped"),
    ] {
        assert!(text.contains(told) && !text.contains("kl recover"), "{text}");
    }
    assert!(part.contains("Not recovered, because it was changed since: `aws_vpc.main") && !part.contains("in step"));

    // One that died, or goes on, has put nothing in order yet.
    let (kept, under_way) = (view(Became::Kept), view(Became::UnderWay));
    for text in [&kept, &under_way] {
        assert!(text.contains("the apply failed half-way, some objects have changed"), "{text}");
        assert!(!text.contains("Recovered") && !text.contains("in step") && !text.contains("kl recover 1`"), "{text}");
    }
    let recovery = fixture::run_id(9);
    assert!(kept.contains(&format!("`kl recover {recovery}` takes what was really changed into the state")), "{kept}");
    assert!(kept.contains("it is not in the state yet, and stays reserved"), "{kept}");
    assert!(
        under_way.contains(&format!("Run {recovery} by erin is taking over what was really changed")),
        "{under_way}"
    );
}

#[test]
fn what_is_kept_counts_once_however_often_it_was_told() {
    let mut apply = fixture::lost().projects.remove(0).apply.unwrap();
    let kept = super::status::quarantined(&apply);
    assert!(!kept.is_empty());
    let again = apply.events.iter().find(|one| matches!(one.event, RunEvent::Quarantined { .. })).unwrap().clone();
    apply.events.push(again);
    assert_eq!(super::status::quarantined(&apply), kept);
}

#[test]
fn after_the_merge_a_lost_run() {
    assert_snapshot!(github(&fixture::lost()));
}

#[test]
fn after_the_merge_a_plan_that_no_longer_held() {
    let mut events: Vec<(i64, RunEvent)> = fixture::beginning().into_iter().take(1).collect();
    let (read, write) = (vec![changed_row("aws_vpc.main")], Vec::new());
    events.push((602, RunEvent::StaleCheckFailed { read, write, revalidate: false }));
    assert_snapshot!(github(&fixture::merged(fixture::apply(fixture::run(RunStatus::Stale), events))));
}

#[test]
fn after_the_merge_of_what_a_recovery_had_brought_in() {
    let mut events: Vec<(i64, RunEvent)> = fixture::beginning();
    let reason = "an earlier apply of the spec had done all of it, and was recovered as serial 42".to_owned();
    events.push((604, RunEvent::Ended { status: "noop".to_owned(), reason: Some(reason) }));
    let text = github(&fixture::merged(fixture::apply(fixture::run(RunStatus::Noop), events)));
    let told =
        "There was nothing to do: an earlier apply of the spec had done all of it, and was recovered as serial 42.";
    assert!(text.contains(told), "{text}");
}

#[test]
fn of_many_who_were_at_work_the_rest_is_counted() {
    let mut outcome = fixture::apply(fixture::run(RunStatus::Committed), fixture::beginning());
    let first = outcome.beside[0].clone();
    outcome.beside = (0..15).map(|number| NearbyRun { run: fixture::run_id(100 + number), ..first.clone() }).collect();
    let text = github(&fixture::merged(outcome));
    let (_, line) = text.split_once("At work on the same state at the same time: ").unwrap();
    let line = line.lines().next().unwrap();
    assert!(line.matches("bob").count() == 12 && line.ends_with("; and 3 more"), "{line}");
}

#[test]
fn a_merge_request_on_gitlab() {
    let mut view = fixture::neighbours();
    view.server_url = Some("https://git.example.com".to_owned());
    view.request.forge = ForgeKind::Gitlab;
    if let PlanView::Planned(planned) = &mut view.projects[0].plan {
        planned.forecast.iter_mut().for_each(|other| other.request.forge = ForgeKind::Gitlab);
    }
    assert_snapshot!(comment(&view, ForgeKind::Gitlab));
}

#[test]
fn five_thousand_changes_fit_and_the_rest_is_counted() {
    let view = fixture::many(5_000);
    let text = github(&view);
    assert!(text.chars().count() <= 65_000 && text.len() <= 250_000);
    let rows = text.lines().filter(|line| line.contains("`module.zone") && line.starts_with('|')).count();
    let (_, tail) = text.split_once("Not shown here: ").unwrap();
    assert!(tail.starts_with(&format!("{} changes", 5_000 - rows)), "{rows} {tail}");
    assert!(text.len() > 60_000, "the room is used: {}", text.len());
    // The first screen, as a reader sees it.
    let head: Vec<&str> = text.lines().take(24).collect();
    assert_snapshot!(format!("{}\n…\n{tail}", head.join("\n")));
}
