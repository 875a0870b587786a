//! What GitLab says of requests, which files they and pushes change, and where its API can be.

use kl_runner::domain::request::{ForgeKind, RequestPhase};
use kl_runner::forge::{Access, ForgeError, GitlabSettings, Push};

use super::{as_job, forge, with};
use crate::harness::forge::gitlab::GitlabStandIn;
use crate::harness::forge::{FileChange, Merge, OpenRequest};

#[tokio::test]
async fn a_request_is_open_merged_or_closed_and_perhaps_from_a_fork() {
    let stand_in = GitlabStandIn::start();
    let forge = forge(&stand_in);
    assert_eq!(forge.kind(), ForgeKind::Gitlab);
    let hostile = "/close `</details>` | \u{202e}\r\n<!-- kl:comment v1 --> \u{1f980}";
    let number = stand_in.open_request(&OpenRequest::new(hostile, &["a.tf"]));
    let request = forge.request(number).await.unwrap();
    assert_eq!((request.title.as_str(), request.phase, request.from_fork), (hostile, RequestPhase::Open, false));
    assert_eq!((request.head, request.base_branch), (stand_in.head(number), "main".into()));
    assert_eq!(request.merge_commit, None);
    let push = stand_in.merge(number, Merge::Squash);
    let request = forge.request(number).await.unwrap();
    assert_eq!((request.phase, request.merge_commit), (RequestPhase::Merged, Some(push.after)));
    let outside = stand_in.open_request(&OpenRequest::new("Outside", &["b.tf"]).out_of_fork());
    assert!(forge.request(outside).await.unwrap().from_fork);
    stand_in.close(outside);
    assert_eq!(forge.request(outside).await.unwrap().phase, RequestPhase::Closed);
    let error = forge.request(99).await.unwrap_err();
    assert!(error.to_string().starts_with("read !99: not found"), "{error}");
    stand_in.finish();
}

#[tokio::test]
async fn the_files_of_a_request_come_from_all_pages_with_both_names_of_a_rename() {
    let stand_in = GitlabStandIn::start();
    let names: Vec<String> = (0..250).map(|index| format!("live/{index:03}.tf")).collect();
    let request = OpenRequest::new("Many", &names.iter().map(String::as_str).collect::<Vec<_>>())
        .change(FileChange::renamed("old/net.tf", "net/m\u{fc}.tf"));
    let number = stand_in.open_request(&request);
    let files = forge(&stand_in).request_files(number).await.unwrap();
    assert_eq!(files.len(), 251);
    let renamed = files.iter().find(|file| file.previous.is_some()).unwrap();
    assert_eq!((renamed.path.as_str(), renamed.previous.as_deref()), ("net/m\u{fc}.tf", Some("old/net.tf")));
    stand_in.finish();
}

#[tokio::test]
async fn a_list_that_was_cut_is_said_to_be_cut() {
    let stand_in = GitlabStandIn::start();
    let names: Vec<String> = (0..1_001).map(|index| format!("{index}.tf")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let number = stand_in.open_request(&OpenRequest::new("Huge", &names));
    let forge = forge(&stand_in);
    let error = forge.request_files(number).await.unwrap_err();
    assert!(matches!(error, ForgeError::Incomplete { .. }), "{error:?}");
    assert!(error.to_string().contains("1000 of 1000+ files"), "{error}");
    let push = stand_in.push("main", "Huge", &names);
    assert!(matches!(forge.push_files(&push).await.unwrap_err(), ForgeError::Incomplete { .. }));
    stand_in.finish();
}

#[tokio::test]
async fn the_files_of_a_push_are_compared_straight() {
    let stand_in = GitlabStandIn::start();
    let first = stand_in.push("main", "One", &["a.tf"]);
    let last = stand_in.push("main", "Two", &["b.tf"]);
    let forge = as_job(&stand_in);
    let paths = |files: Vec<kl_runner::forge::ChangedFile>| files.into_iter().map(|it| it.path).collect::<Vec<_>>();
    let both = Push { before: first.before.clone(), ..last };
    assert_eq!(paths(forge.push_files(&both).await.unwrap()), ["a.tf", "b.tf"]);
    let back = stand_in.force("main", &first.before.unwrap());
    assert_eq!(paths(forge.push_files(&back).await.unwrap()), ["a.tf", "b.tf"]);
    let new = stand_in.push("release", "New", &["c.tf"]);
    assert!(matches!(forge.push_files(&new).await.unwrap_err(), ForgeError::Incomplete { .. }));
    stand_in.finish();
}

#[tokio::test]
async fn a_server_below_a_path_and_a_project_by_number_are_found() {
    let stand_in = GitlabStandIn::start_at("/gitlab");
    let number = stand_in.open_request(&OpenRequest::new("Add", &["a.tf"]));
    assert_eq!(forge(&stand_in).request_files(number).await.unwrap().len(), 1);
    let by_number = with(GitlabSettings { project: "7".into(), ..stand_in.settings() });
    assert_eq!(by_number.request(number).await.unwrap().number, number);
    assert!(stand_in.requests()[0].path.contains("/projects/example%2Fplatform%2Finfra/"));
    stand_in.finish();
}

#[tokio::test]
async fn doctor_learns_what_can_be_learned_by_reading() {
    let stand_in = GitlabStandIn::start();
    let granted = |list: &[Access]| list.iter().map(|access| access.granted).collect::<Vec<_>>();
    assert_eq!(granted(&forge(&stand_in).access().await), [Some(true), Some(true), None, None]);
    assert_eq!(granted(&as_job(&stand_in).access().await), [Some(true), Some(true), Some(false), Some(false)]);
    let wrong = with(GitlabSettings { token: Some("glpat-wrong".into()), ..stand_in.settings() });
    assert_eq!(granted(&wrong.access().await), [Some(false), Some(false), Some(false), Some(false)]);
    assert!(stand_in.requests().iter().all(|request| request.method == "GET"));
    stand_in.finish();
}
