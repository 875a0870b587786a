//! What GitHub says of requests, and which files they and pushes change.

use kl_runner::domain::request::{ForgeKind, RequestPhase};
use kl_runner::forge::{ChangedFile, ForgeError, Push};

use super::{forge, with};
use crate::harness::forge::github::{ALICES_TOKEN, GithubStandIn, Permission};
use crate::harness::forge::{FileChange, Merge, OpenRequest};

fn paths(files: &[ChangedFile]) -> Vec<&str> {
    files.iter().map(|file| file.path.as_str()).collect()
}

#[tokio::test]
async fn a_request_is_open_merged_or_closed() {
    let stand_in = GithubStandIn::start();
    let forge = forge(&stand_in);
    assert_eq!(forge.kind(), ForgeKind::Github);
    let hostile = "`</details>` | [x](javascript:0) \u{202e}\r\n<!-- kl:comment v1 --> /close @alice \u{1f980}";
    let number = stand_in.open_request(&OpenRequest::new(hostile, &["a.tf"]));
    let request = forge.request(number).await.unwrap();
    assert_eq!(request.title, hostile);
    assert_eq!((request.number, request.head.as_str()), (number, stand_in.head(number).as_str()));
    assert_eq!((request.base_branch.as_str(), request.phase, request.from_fork), ("main", RequestPhase::Open, false));
    // GitHub names the commit of a trial merge before there is a real one.
    assert_eq!(request.merge_commit, None);

    let push = stand_in.merge(number, Merge::Squash);
    let request = forge.request(number).await.unwrap();
    assert_eq!((request.phase, request.merge_commit), (RequestPhase::Merged, Some(push.after)));

    let other = stand_in.open_request(&OpenRequest::new("Other", &["b.tf"]));
    stand_in.close(other);
    assert_eq!(forge.request(other).await.unwrap().phase, RequestPhase::Closed);
    stand_in.finish();
}

#[tokio::test]
async fn a_request_from_a_fork_is_told() {
    let stand_in = GithubStandIn::start();
    let number = stand_in.open_request(&OpenRequest::new("From outside", &["a.tf"]).out_of_fork());
    assert!(forge(&stand_in).request(number).await.unwrap().from_fork);
    stand_in.finish();
}

#[tokio::test]
async fn a_request_that_does_not_exist_is_not_found() {
    let stand_in = GithubStandIn::start();
    let error = forge(&stand_in).request(12).await.unwrap_err();
    assert!(matches!(error, ForgeError::NotFound { .. }), "{error:?}");
    assert!(error.to_string().starts_with("read #12: not found"), "{error}");
    stand_in.finish();
}

#[tokio::test]
async fn the_files_of_a_request_come_from_all_pages_with_both_names_of_a_rename() {
    let stand_in = GithubStandIn::start();
    let names: Vec<String> = (0..250).map(|index| format!("live/{index:03}.tf")).collect();
    let mut request = OpenRequest::new("Many", &names.iter().map(String::as_str).collect::<Vec<_>>());
    request = request.change(FileChange::renamed("old/net.tf", "net/m\u{fc} \u{201c}x\u{201d}.tf"));
    let number = stand_in.open_request(&request);
    let files = forge(&stand_in).request_files(number).await.unwrap();
    assert_eq!(files.len(), 251);
    let renamed = files.iter().find(|file| file.previous.is_some()).unwrap();
    assert_eq!(renamed.previous.as_deref(), Some("old/net.tf"));
    assert_eq!(renamed.path, "net/m\u{fc} \u{201c}x\u{201d}.tf");
    stand_in.finish();
}

#[tokio::test]
async fn a_list_of_3_000_files_is_said_to_be_cut_when_it_is() {
    for (count, whole) in [(3_000, true), (3_001, false)] {
        let stand_in = GithubStandIn::start();
        let names: Vec<String> = (0..count).map(|index| format!("{index}.tf")).collect();
        let request = OpenRequest::new("Huge", &names.iter().map(String::as_str).collect::<Vec<_>>());
        let number = stand_in.open_request(&request);
        match forge(&stand_in).request_files(number).await {
            Ok(files) => assert!(whole && files.len() == count),
            Err(error) => {
                assert!(!whole && matches!(error, ForgeError::Incomplete { .. }), "{error:?}");
                assert!(error.to_string().contains("no more than 3,000"), "{error}");
            }
        }
        stand_in.finish();
    }
}

#[tokio::test]
async fn the_files_of_a_push_are_those_of_all_its_commits() {
    let stand_in = GithubStandIn::start();
    let first = stand_in.push("main", "One", &["a.tf", "b.tf"]);
    let last = stand_in.push("main", "Two", &["b.tf", "c.tf"]);
    let push = Push { before: first.before, ..last };
    assert_eq!(paths(&forge(&stand_in).push_files(&push).await.unwrap()), ["a.tf", "b.tf", "c.tf"]);
    stand_in.finish();
}

#[tokio::test]
async fn what_a_forced_push_took_back_has_changed_as_well() {
    let stand_in = GithubStandIn::start();
    let start = stand_in.tip("main");
    let old = stand_in.push("main", "Old", &["old.tf"]);
    let back = stand_in.force("main", &start);
    let forge = forge(&stand_in);
    assert_eq!(paths(&forge.push_files(&back).await.unwrap()), ["old.tf"]);
    let new = stand_in.push("main", "New", &["new.tf"]);
    let push = Push { before: Some(old.after), ..new };
    assert_eq!(paths(&forge.push_files(&push).await.unwrap()), ["new.tf", "old.tf"]);
    stand_in.finish();
}

#[tokio::test]
async fn a_new_branch_is_compared_with_the_default_branch() {
    let stand_in = GithubStandIn::start();
    let push = stand_in.push("release", "Prepare", &["r.tf"]);
    assert_eq!(push.before, None);
    let forge = forge(&stand_in);
    assert_eq!(paths(&forge.push_files(&push).await.unwrap()), ["r.tf"]);
    let first = Push { branch: "main".into(), before: None, after: stand_in.tip("main") };
    let error = forge.push_files(&first).await.unwrap_err();
    assert!(matches!(error, ForgeError::Incomplete { .. }), "{error:?}");
    stand_in.finish();
}

#[tokio::test]
async fn a_push_of_more_files_than_a_comparison_lists_is_read_commit_by_commit() {
    let stand_in = GithubStandIn::start();
    let names: Vec<String> = (0..450).map(|index| format!("{index:03}.tf")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let first = stand_in.push("main", "One", &names);
    let last = stand_in.push("main", "Two", &["z.tf"]);
    let files = forge(&stand_in).push_files(&Push { before: first.before, ..last }).await.unwrap();
    assert_eq!(files.len(), 451);
    stand_in.finish();
}

#[tokio::test]
async fn a_server_of_ones_own_has_its_api_below_a_path() {
    let stand_in = GithubStandIn::start_at("/api/v3");
    let number = stand_in.open_request(&OpenRequest::new("Add", &["a.tf"]));
    let forge = forge(&stand_in);
    assert_eq!(forge.request_files(number).await.unwrap().len(), 1);
    forge.comment_put(number, None, "<!-- m -->", "<!-- m -->\nx").await.unwrap();
    assert_eq!(stand_in.comments(number).len(), 1);
    // GraphQL stands beside the REST API there, not below it.
    assert!(stand_in.requests().iter().any(|request| request.path == "/api/graphql"));
    stand_in.finish();
}

#[tokio::test]
async fn doctor_learns_what_can_be_learned_by_reading() {
    let stand_in = GithubStandIn::start();
    stand_in.deny(Permission::PullRequests);
    let job = forge(&stand_in).access().await;
    let granted =
        |what: &str, list: &[kl_runner::forge::Access]| list.iter().find(|it| it.what == what).unwrap().granted;
    assert_eq!(granted("read the repository", &job), Some(true));
    assert_eq!(granted("read pull requests", &job), Some(false));
    assert_eq!(granted("write comments", &job), None);
    assert!(job.iter().all(|access| !access.fix.is_empty()));
    let mut settings = stand_in.settings();
    settings.token = Some(ALICES_TOKEN.into());
    let hers = with(settings).access().await;
    assert_eq!(granted("write comments", &hers), Some(true));
    assert_eq!(granted("write checks", &hers), Some(false));
    assert!(stand_in.requests().iter().all(|request| request.method == "GET"));
    stand_in.finish();
}
