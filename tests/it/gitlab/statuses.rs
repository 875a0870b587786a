//! Commit statuses on GitLab.

use kl_runner::forge::{CheckRef, Conclusion, ForgeError};

use super::{as_job, forge, with_head};
use crate::forges::check;
use crate::harness::forge::Fault;
use crate::harness::forge::gitlab::PIPELINE;

#[tokio::test]
async fn a_status_joins_the_jobs_own_pipeline() {
    let (stand_in, head) = with_head();
    let forge = forge(&stand_in);
    let mut failed = check(&head, Some(Conclusion::Failure), 3);
    failed.title = "x".repeat(300);
    assert_eq!(forge.check_put(&failed, None).await.unwrap(), CheckRef::Status);
    let statuses = stand_in.statuses(&head);
    assert_eq!((statuses[0].name.as_str(), statuses[0].state.as_str()), ("kl plan: network", "failed"));
    assert_eq!(statuses[0].pipeline, Some(PIPELINE));
    assert_eq!(statuses[0].description.chars().count(), 255);
    // The second time, GitLab says that it says so already.
    assert_eq!(forge.check_put(&failed, Some(&CheckRef::Status)).await.unwrap(), CheckRef::Status);
    let neutral = check(&head, Some(Conclusion::Neutral), 0);
    forge.check_put(&neutral, None).await.unwrap();
    assert_eq!(stand_in.statuses(&head)[0].state, "success");
    stand_in.finish();
}

#[tokio::test]
async fn no_status_stays_running_when_kl_is_killed() {
    let (stand_in, head) = with_head();
    assert_eq!(forge(&stand_in).check_put(&check(&head, None, 0), None).await.unwrap(), CheckRef::Status);
    assert!(stand_in.requests().is_empty());
    stand_in.finish();
}

#[tokio::test]
async fn a_pipeline_that_another_job_writes_to_is_tried_again() {
    let (stand_in, head) = with_head();
    stand_in.arm("POST", "/statuses/", Fault::Status(409), 3);
    forge(&stand_in).check_put(&check(&head, Some(Conclusion::Success), 0), None).await.unwrap();
    assert_eq!(stand_in.statuses(&head).len(), 1);
    stand_in.finish();
}

#[tokio::test]
async fn a_token_that_may_not_leaves_it_to_the_job() {
    let (stand_in, head) = with_head();
    let success = check(&head, Some(Conclusion::Success), 0);
    assert_eq!(as_job(&stand_in).check_put(&success, None).await.unwrap(), CheckRef::Nowhere);
    assert!(stand_in.requests().is_empty(), "a job's own token can set no status, and need not try");
    stand_in.deny_statuses();
    let forge = forge(&stand_in);
    assert_eq!(forge.check_put(&success, None).await.unwrap(), CheckRef::Nowhere);
    assert_eq!(forge.check_put(&success, None).await.unwrap(), CheckRef::Nowhere);
    assert_eq!(stand_in.requests().len(), 1);
    stand_in.finish();
}

#[tokio::test]
async fn a_commit_that_was_replaced_needs_no_status() {
    let (stand_in, head) = with_head();
    stand_in.replace_commit(&head);
    let success = check(&head, Some(Conclusion::Success), 0);
    assert_eq!(forge(&stand_in).check_put(&success, None).await.unwrap(), CheckRef::Nowhere);
    stand_in.arm("POST", "/statuses/", Fault::Status(422), 1);
    let error = forge(&stand_in).check_put(&success, None).await.unwrap_err();
    assert!(matches!(error, ForgeError::Refused { status: 422, .. }), "{error:?}");
    stand_in.finish();
}
