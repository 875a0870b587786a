//! Which requests a push to GitHub merged, whatever the way of merging.

use kl_runner::domain::request::RequestPhase;
use kl_runner::forge::{ForgeError, Push};

use super::forge;
use crate::forges::{a_long_merge, a_squashed_request_is_not_merged_again_by_what_was_built_on_it, both, merged};
use crate::harness::forge::github::GithubStandIn;
use crate::harness::forge::{Fault, Merge, OpenRequest};

#[tokio::test]
async fn every_way_of_merging_leads_back_to_its_request() {
    for how in [Merge::Commit, Merge::Squash, Merge::Rebase] {
        let stand_in = GithubStandIn::start();
        stand_in.open_request(&OpenRequest::new("Stays open", &["x.tf"]));
        let number =
            stand_in.open_request(&OpenRequest::new("Add a network", &["a.tf"]).commit(&["b.tf"]).commit(&["c.tf"]));
        // Somebody else was faster, so that nothing can be a fast-forward by accident.
        stand_in.push("main", "Fix", &["d.tf"]);
        let landed = "c0ffee".repeat(6) + "c0de";
        if how != Merge::Rebase {
            stand_in.name_next_commits(&[&landed]);
        }
        let push = stand_in.merge(number, how);
        assert_eq!(push.after == landed, how != Merge::Rebase);
        let found = forge(&stand_in).merged_by(&push).await.unwrap();
        assert_eq!(found.len(), 1, "{how:?}");
        assert_eq!((found[0].number, found[0].phase), (number, RequestPhase::Merged));
        assert_eq!(found[0].merge_commit.as_deref(), Some(push.after.as_str()));
        assert_eq!(found[0].head, stand_in.head(number));
        stand_in.finish();
    }
}

#[tokio::test]
async fn several_requests_in_one_push_come_in_the_order_of_their_merges() {
    let stand_in = GithubStandIn::start();
    let numbers: Vec<u64> =
        (0..4).map(|index| stand_in.open_request(&OpenRequest::new("Change", &[&format!("{index}.tf")]))).collect();
    let first = stand_in.merge(numbers[3], Merge::Squash);
    stand_in.merge(numbers[0], Merge::Commit);
    stand_in.push("main", "In between", &["z.tf"]);
    let last = stand_in.merge(numbers[2], Merge::Rebase);
    let forge = forge(&stand_in);
    assert_eq!(merged(&*forge, &both(&first, &last)).await, [numbers[3], numbers[0], numbers[2]]);
    assert_eq!(merged(&*forge, &last).await, [numbers[2]]);
    stand_in.finish();
}

#[tokio::test]
async fn a_direct_push_merges_nothing_whatever_its_message_says() {
    let stand_in = GithubStandIn::start();
    let earlier = stand_in.open_request(&OpenRequest::new("Earlier", &["a.tf"]));
    stand_in.merge(earlier, Merge::Squash);
    let open = stand_in.open_request(&OpenRequest::new("Open", &["b.tf"]));
    let forge = forge(&stand_in);
    for message in
        [format!("Do it again (#{earlier})"), format!("Merge pull request #{open} from x/y"), "No (#99)".into()]
    {
        let push = stand_in.push("main", &message, &["c.tf"]);
        assert_eq!(merged(&*forge, &push).await, [] as [u64; 0], "{message}");
    }
    stand_in.finish();
}

#[tokio::test]
async fn a_request_built_on_one_that_was_squashed_does_not_bring_it_in_again() {
    let stand_in = GithubStandIn::start();
    let forge = forge(&stand_in);
    a_squashed_request_is_not_merged_again_by_what_was_built_on_it(stand_in, &*forge).await;
}

#[tokio::test]
async fn a_request_into_another_branch_is_not_merged_by_the_push_that_brings_it_along() {
    let stand_in = GithubStandIn::start();
    let outer = stand_in.open_request(&OpenRequest::new("Outer", &["a.tf"]));
    let inner = stand_in.open_request(&OpenRequest::new("Inner", &["b.tf"]).into_branch(&format!("change-{outer}")));
    stand_in.merge(inner, Merge::Commit);
    let push = stand_in.merge_by_hand("main", &stand_in.tip(&format!("change-{outer}")));
    assert_eq!(merged(&*forge(&stand_in), &push).await, [] as [u64; 0]);
    stand_in.finish();
}

#[tokio::test]
async fn a_squash_that_github_has_not_connected_yet_is_found_by_its_subject() {
    let stand_in = GithubStandIn::start();
    let number = stand_in.open_request(&OpenRequest::new("Add a network (fast)", &["a.tf"]));
    let push = stand_in.merge(number, Merge::Squash);
    stand_in.forget_connections();
    assert_eq!(merged(&*forge(&stand_in), &push).await, [number]);
    stand_in.finish();
}

#[tokio::test]
async fn a_new_branch_is_asked_for_its_newest_commit() {
    let stand_in = GithubStandIn::start();
    let number = stand_in.open_request(&OpenRequest::new("Add", &["a.tf"]));
    let push = stand_in.merge(number, Merge::Squash);
    let forge = forge(&stand_in);
    assert_eq!(merged(&*forge, &Push { before: None, ..push }).await, [number]);
    stand_in.finish();
}

#[tokio::test]
async fn a_long_branch_is_not_asked_about_commit_by_commit() {
    let stand_in = GithubStandIn::start();
    let (number, push) = a_long_merge(&stand_in);
    assert_eq!(merged(&*forge(&stand_in), &push).await, [number]);
    assert!(stand_in.requests().len() < 10, "{}", stand_in.requests().len());
    stand_in.finish();
}

#[tokio::test]
async fn too_many_direct_commits_are_said_to_be_too_many() {
    let stand_in = GithubStandIn::start();
    let first = stand_in.push("main", "0", &["a.tf"]);
    let mut last = first.clone();
    for index in 0..305 {
        last = stand_in.push("main", &index.to_string(), &["a.tf"]);
    }
    let (forge, push) = (forge(&stand_in), both(&first, &last));
    // As a push, and as a group in a queue: a request that is not looked at would be taken for one that is ready.
    for error in [forge.merged_by(&push).await.unwrap_err(), forge.grouped_in(&push).await.unwrap_err()] {
        assert!(matches!(error, ForgeError::Incomplete { .. }), "{error:?}");
        assert!(error.to_string().contains("too many"), "{error}");
    }
    stand_in.finish();
}

#[tokio::test]
async fn a_forge_that_fails_in_between_does_not_lose_a_request() {
    let stand_in = GithubStandIn::start();
    let number = stand_in.open_request(&OpenRequest::new("Add", &["a.tf"]));
    let push = stand_in.merge(number, Merge::Squash);
    stand_in.arm("GET", "/compare/", Fault::Status(502), 2);
    stand_in.arm("GET", "/pulls", Fault::Cut, 2);
    assert_eq!(merged(&*forge(&stand_in), &push).await, [number]);
    stand_in.finish();
}
