//! Checks on GitHub: check runs with annotations, and what is left when they are denied.

use kl_runner::forge::{CheckRef, Conclusion};

use super::{forge, with, with_head};
use crate::forges::check;
use crate::harness::forge::Fault;
use crate::harness::forge::github::{ALICES_TOKEN, Permission};

#[tokio::test]
async fn a_check_goes_from_running_to_its_end() {
    let (stand_in, head) = with_head();
    let forge = forge(&stand_in);
    let made = forge.check_put(&check(&head, None, 0), None).await.unwrap();
    assert_eq!(stand_in.checks(&head)[0].told["status"], "in_progress");
    let ended = forge.check_put(&check(&head, Some(Conclusion::Failure), 3), Some(&made)).await.unwrap();
    assert_eq!(ended, made);
    let checks = stand_in.checks(&head);
    assert_eq!(checks.len(), 1);
    assert_eq!(checks[0].conclusion.as_deref(), Some("failure"));
    assert_eq!(checks[0].title, "2 to add, held by alice");
    assert_eq!(checks[0].told["details_url"], "https://ci.example/jobs/1");
    assert_eq!(checks[0].annotations.len(), 3);
    stand_in.finish();
}

#[tokio::test]
async fn a_hundred_and_twenty_annotations_arrive_in_pages_and_in_order() {
    let (stand_in, head) = with_head();
    let forge = forge(&stand_in);
    let made = forge.check_put(&check(&head, Some(Conclusion::Neutral), 120), None).await.unwrap();
    let found = stand_in.checks(&head);
    let lines: Vec<u64> = found[0].annotations.iter().map(|it| it["start_line"].as_u64().unwrap()).collect();
    assert_eq!(lines, (1..=120).collect::<Vec<_>>());
    assert_eq!(found[0].annotations[1]["annotation_level"], "failure");
    assert_eq!(stand_in.requests().len(), 3);
    // Nothing is lost from the check while the pages arrive: it has its end and its texts from the first request on.
    assert_eq!(stand_in.requests()[0].body.as_ref().unwrap()["conclusion"], "neutral");
    drop(made);
    stand_in.finish();
}

#[tokio::test]
async fn annotations_whose_answer_was_lost_are_there_once() {
    let (stand_in, head) = with_head();
    stand_in.arm("PATCH", "/check-runs/", Fault::DoneThenCut, 1);
    stand_in.arm("PATCH", "/check-runs/", Fault::Status(502), 1);
    forge(&stand_in).check_put(&check(&head, Some(Conclusion::Success), 120), None).await.unwrap();
    assert_eq!(stand_in.checks(&head)[0].annotations.len(), 120);
    stand_in.finish();
}

#[tokio::test]
async fn a_check_whose_answer_was_lost_is_not_made_twice() {
    let (stand_in, head) = with_head();
    stand_in.arm("POST", "/check-runs", Fault::DoneThen(504), 1);
    let made = forge(&stand_in).check_put(&check(&head, Some(Conclusion::Success), 60), None).await.unwrap();
    let checks = stand_in.checks(&head);
    assert_eq!(checks.len(), 1);
    assert_eq!(made, CheckRef::Check(checks[0].id.to_string()));
    assert_eq!(checks[0].annotations.len(), 60);
    stand_in.finish();
}

#[tokio::test]
async fn an_earlier_jobs_check_is_not_taken_for_one_whose_answer_was_lost() {
    let (stand_in, head) = with_head();
    let forge = forge(&stand_in);
    forge.check_put(&check(&head, Some(Conclusion::Failure), 0), None).await.unwrap();
    stand_in.arm("POST", "/check-runs", Fault::Status(502), 1);
    forge.check_put(&check(&head, Some(Conclusion::Success), 0), None).await.unwrap();
    let checks = stand_in.checks(&head);
    assert_eq!(checks.last().unwrap().conclusion.as_deref(), Some("success"), "{checks:?}");
    stand_in.finish();
}

#[tokio::test]
async fn a_check_that_github_does_not_know_yet_is_asked_for_again() {
    let (stand_in, head) = with_head();
    stand_in.arm("PATCH", "/check-runs/", Fault::Status(404), 2);
    forge(&stand_in).check_put(&check(&head, Some(Conclusion::Success), 51), None).await.unwrap();
    assert_eq!(stand_in.checks(&head)[0].annotations.len(), 51);
    stand_in.finish();
}

#[tokio::test]
async fn a_check_that_is_gone_is_made_anew() {
    let (stand_in, head) = with_head();
    let gone = CheckRef::Check("4711".into());
    let made = forge(&stand_in).check_put(&check(&head, Some(Conclusion::Success), 0), Some(&gone)).await.unwrap();
    assert_ne!(made, gone);
    assert_eq!(stand_in.checks(&head).len(), 1);
    stand_in.finish();
}

#[tokio::test]
async fn denied_checks_become_a_commit_status_with_a_short_text() {
    let (stand_in, head) = with_head();
    stand_in.deny(Permission::Checks);
    let forge = forge(&stand_in);
    let mut long = check(&head, None, 70);
    long.title = "ü".repeat(200);
    assert_eq!(forge.check_put(&long, None).await.unwrap(), CheckRef::Status);
    assert_eq!(stand_in.statuses(&head)[0].state, "pending");
    assert_eq!(stand_in.statuses(&head)[0].description, format!("{}…", "ü".repeat(139)));
    let failed = check(&head, Some(Conclusion::Failure), 0);
    assert_eq!(forge.check_put(&failed, Some(&CheckRef::Status)).await.unwrap(), CheckRef::Status);
    assert_eq!(forge.check_put(&failed, None).await.unwrap(), CheckRef::Status);
    let statuses = stand_in.statuses(&head);
    assert_eq!(statuses.len(), 1);
    assert_eq!((statuses[0].context.as_str(), statuses[0].state.as_str()), ("kl plan: network", "failure"));
    // It has been told once that it may not.
    assert_eq!(stand_in.requests().iter().filter(|request| request.path.ends_with("/check-runs")).count(), 1);
    stand_in.finish();
}

#[tokio::test]
async fn a_persons_token_sets_a_status_because_it_can_make_no_check() {
    let (stand_in, head) = with_head();
    let mut settings = stand_in.settings();
    settings.token = Some(ALICES_TOKEN.into());
    let forge = with(settings);
    assert_eq!(forge.check_put(&check(&head, Some(Conclusion::Neutral), 0), None).await.unwrap(), CheckRef::Status);
    assert_eq!(stand_in.statuses(&head)[0].state, "success");
    stand_in.finish();
}

#[tokio::test]
async fn a_token_that_may_do_neither_leaves_it_to_the_job() {
    let (stand_in, head) = with_head();
    stand_in.deny(Permission::Checks);
    stand_in.deny(Permission::Statuses);
    let left = forge(&stand_in).check_put(&check(&head, Some(Conclusion::Failure), 0), None).await.unwrap();
    assert_eq!(left, CheckRef::Nowhere);
    stand_in.finish();
}
