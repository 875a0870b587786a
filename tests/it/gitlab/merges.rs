//! Which requests a push to GitLab merged, whatever the way of merging.

use kl_runner::domain::request::RequestPhase;
use kl_runner::forge::Push;

use super::{as_job, forge};
use crate::forges::{a_long_merge, a_squashed_request_is_not_merged_again_by_what_was_built_on_it, both, merged};
use crate::harness::forge::gitlab::{GitlabStandIn, PROJECT};
use crate::harness::forge::{Fault, Merge, OpenRequest};

#[tokio::test]
async fn every_way_of_merging_leads_back_to_its_request() {
    for how in [Merge::Commit, Merge::Squash, Merge::Rebase, Merge::FastForward] {
        for behind in [false, true] {
            let stand_in = GitlabStandIn::start();
            stand_in.open_request(&OpenRequest::new("Stays open", &["x.tf"]));
            let number = stand_in.open_request(&OpenRequest::new("Add", &["a.tf"]).commit(&["b.tf"]).commit(&["c.tf"]));
            if behind {
                stand_in.push("main", "Fix", &["d.tf"]);
            }
            let push = stand_in.merge(number, how);
            // A job's own token can read all that is needed.
            let found = as_job(&stand_in).merged_by(&push).await.unwrap();
            assert_eq!(found.len(), 1, "{how:?}, behind: {behind}");
            assert_eq!((found[0].number, found[0].phase), (number, RequestPhase::Merged));
            assert_eq!(found[0].merge_commit.as_deref(), Some(push.after.as_str()), "{how:?}");
            stand_in.finish();
        }
    }
}

#[tokio::test]
async fn several_requests_in_one_push_come_in_the_order_of_their_merges() {
    let stand_in = GitlabStandIn::start();
    let numbers: Vec<u64> =
        (0..4).map(|index| stand_in.open_request(&OpenRequest::new("Change", &[&format!("{index}.tf")]))).collect();
    let landed = "c0ffee".repeat(6) + "c0de";
    stand_in.name_next_commits(&[&landed]);
    let first = stand_in.merge(numbers[3], Merge::Squash);
    assert_eq!((&first.after, stand_in.tip("main")), (&landed, landed.clone()));
    stand_in.merge(numbers[0], Merge::Commit);
    stand_in.push("main", "In between", &["z.tf"]);
    let last = stand_in.merge(numbers[2], Merge::FastForward);
    let forge = forge(&stand_in);
    assert_eq!(merged(&*forge, &both(&first, &last)).await, [numbers[3], numbers[0], numbers[2]]);
    assert_eq!(merged(&*forge, &last).await, [numbers[2]]);
    assert_eq!(merged(&*forge, &Push { before: None, ..last }).await, [numbers[2]]);
    stand_in.finish();
}

#[tokio::test]
async fn a_message_counts_only_when_gitlab_confirms_it() {
    let stand_in = GitlabStandIn::start();
    let number = stand_in.open_request(&OpenRequest::new("Add", &["a.tf"]));
    let open = stand_in.open_request(&OpenRequest::new("Open", &["b.tf"]));
    let push = stand_in.merge(number, Merge::Commit);
    stand_in.forget_connections();
    let forge = forge(&stand_in);
    assert_eq!(merged(&*forge, &push).await, [number]);
    for other in [number, open, 99] {
        let push = stand_in.push("main", &format!("Forged\n\nSee merge request {PROJECT}!{other}"), &["c.tf"]);
        assert_eq!(merged(&*forge, &push).await, [] as [u64; 0]);
    }
    stand_in.finish();
}

#[tokio::test]
async fn a_request_built_on_one_that_was_squashed_does_not_bring_it_in_again() {
    let stand_in = GitlabStandIn::start();
    let forge = forge(&stand_in);
    a_squashed_request_is_not_merged_again_by_what_was_built_on_it(stand_in, &*forge).await;
}

#[tokio::test]
async fn a_long_push_is_read_from_all_pages_and_through_trouble() {
    let stand_in = GitlabStandIn::start();
    let (number, push) = a_long_merge(&stand_in);
    stand_in.arm("GET", "/repository/commits", Fault::Status(429), 1);
    stand_in.arm("GET", "/merge_requests", Fault::Cut, 1);
    assert_eq!(merged(&*forge(&stand_in), &push).await, [number]);
    assert!(stand_in.requests().len() < 12, "{}", stand_in.requests().len());
    stand_in.finish();
}
