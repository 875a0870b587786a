//! Checks by example.

use insta::assert_snapshot;

use super::*;
use crate::domain::coordination::reservation::HeldAs;
use crate::domain::run::aftermath::Became;
use crate::report::fixture::{self, blocker, changed_row};
use crate::report::view::RequestView;

fn place() -> Place {
    Place { repository: Some("acme/infra".to_owned()), ..Place::default() }
}

/// A check as one text.
fn shown(check: &CheckText) -> String {
    let remarks: Vec<String> = check.annotations.iter().map(Annotation::command).collect();
    let CheckText { title, summary, text, conclusion, .. } = check;
    format!(
        "TITLE {title}\nCONCLUSION {conclusion:?}\n\nSUMMARY\n{summary}\n\nTEXT\n{text}\n\nREMARKS\n{}",
        remarks.join("\n")
    )
}

fn applied(view: &RequestView) -> CheckText {
    let project = &view.projects[0];
    apply(project, project.apply.as_ref().unwrap(), &place())
}

#[test]
fn a_conflict_is_titled_with_pattern_and_holder() {
    let check = applied(&fixture::conflicted());
    assert_eq!(check.title, "aws_vpc.main is reserved by bob (and 1 more)");
    assert_eq!(check.conclusion, Some(Conclusion::Failure));
    assert_snapshot!(shown(&check));
}

#[test]
fn a_plan_has_a_remark_at_every_block_that_it_changes() {
    let view = fixture::neighbours();
    assert_snapshot!(shown(&plan(&view.projects[0], &place())));
}

#[test]
fn the_summary_of_what_was_not_planned_says_why() {
    for (plan_view, words) in
        [(PlanView::Missing, "No plan job has finished"), (PlanView::Dropped, "nothing will be applied")]
    {
        let check = plan(&fixture::project("network", plan_view), &place());
        assert!(check.summary.contains(words) && check.text.contains(words), "{check:?}");
    }
}

#[test]
fn a_stale_plan_fails_its_check_and_a_reservation_does_not() {
    let mut view = fixture::small();
    let PlanView::Planned(planned) = &mut view.projects[0].plan else { unreachable!("the fixture is planned") };
    planned.in_the_way = vec![blocker("aws_route_table.private", HeldAs::Run, &["aws_route_table.private"])];
    let check = plan(&view.projects[0], &place());
    assert_eq!(check.conclusion, Some(Conclusion::Success));
    assert!(check.title.ends_with("; aws_route_table.private is reserved by bob"), "{}", check.title);
    let worst = &check.annotations[0];
    assert_eq!(
        (worst.path.as_str(), worst.line, worst.level),
        ("infra/network/routes.tf", 8, AnnotationLevel::Warning)
    );

    let PlanView::Planned(planned) = &mut view.projects[0].plan else { unreachable!("the fixture is planned") };
    planned.since.read = vec![changed_row("aws_vpc.main")];
    assert_eq!(plan(&view.projects[0], &place()).conclusion, Some(Conclusion::Failure));
}

#[test]
fn a_failed_apply_marks_what_it_left_behind() {
    let check = applied(&fixture::lost());
    assert_eq!(check.title, "The run was lost: its lease ended while it was at work");
    let lines: Vec<(&str, u32)> = check.annotations.iter().map(|remark| (remark.path.as_str(), remark.line)).collect();
    assert_eq!(lines, [("modules/nat/main.tf", 3), ("modules/nat/main.tf", 9)]);
}

#[test]
fn what_was_recovered_or_dropped_since_is_blamed_on_no_line() {
    let mut view = fixture::lost();
    let after = |view: &mut RequestView, became| {
        view.projects[0].apply.as_mut().unwrap().aftermath = Some(fixture::aftermath(became));
        applied(view)
    };
    for became in [Became::Recovered { serial: None, left: Vec::new() }, Became::Dropped, Became::Forgotten] {
        assert_eq!(after(&mut view, became).annotations, []);
    }
    // A recovery that died has it now.
    let check = after(&mut view, Became::Kept);
    let recover = format!("`kl recover {}`", fixture::run_id(9));
    assert_eq!(check.annotations.len(), 2);
    assert!(check.annotations.iter().all(|remark| remark.message.contains(&recover)), "{check:?}");
}

#[test]
fn titles_are_one_short_line_and_texts_fit_whatever_is_in_them() {
    let hostile = fixture::hostile();
    let check = plan(&hostile.projects[0], &place());
    assert!(check.title.chars().count() <= 251 && !check.title.contains('\n'));
    let many = plan(&fixture::many(5_000).projects[0], &place());
    assert!(many.text.len() <= 65_535 && many.annotations.len() == 100);
    assert_eq!(many.annotations[0].level, AnnotationLevel::Warning);
}
