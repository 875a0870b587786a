//! GitHub's events by example, and by whatever a payload may hold.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const HEAD: &str = "1111111111111111111111111111111111111111";
const BASE: &str = "2222222222222222222222222222222222222222";
const MERGE: &str = "3333333333333333333333333333333333333333";
const ZEROS: &str = "0000000000000000000000000000000000000000";

fn pull_request(action: &str, merged: bool, fork: &Value) -> Value {
    json!({
        "action": action, "number": 7,
        "pull_request": {
            "number": 7, "merged": merged, "merge_commit_sha": MERGE, "draft": false,
            "head": { "sha": HEAD, "ref": "feature", "repo": fork },
            "base": { "sha": BASE, "ref": "main", "repo": { "full_name": "example/infra" } },
        },
    })
}

fn request_of(name: &str, payload: &Value) -> RequestEvent {
    match read(name, &payload.to_string()) {
        Ok(CiEvent::Request(request)) => request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pull_request_is_known_by_its_head_and_not_by_the_commit_that_tries_a_merge() {
    let ours = json!({ "full_name": "example/infra" });
    let request = request_of("pull_request", &pull_request("opened", false, &ours));
    assert_eq!(
        request,
        RequestEvent {
            number: 7,
            action: RequestAction::Opened,
            head: HEAD.into(),
            base_branch: "main".into(),
            base: Some(BASE.into()),
            from_fork: false,
            merge_commit: None,
            privileged: false,
        }
    );
    for (action, merged, meant) in [
        ("reopened", false, RequestAction::Opened),
        ("ready_for_review", false, RequestAction::Opened),
        ("synchronize", false, RequestAction::Synchronized),
        ("edited", false, RequestAction::Synchronized),
        ("labeled", false, RequestAction::Other),
        ("closed", false, RequestAction::Closed),
        ("closed", true, RequestAction::Merged),
    ] {
        let request = request_of("pull_request", &pull_request(action, merged, &ours));
        assert_eq!((request.action, request.merge_commit.is_some()), (meant, merged), "{action}");
    }
    assert!(request_of("pull_request_target", &pull_request("opened", false, &ours)).privileged);
    let review = request_of("pull_request_review", &pull_request("submitted", false, &ours));
    assert_eq!(review.action, RequestAction::Other);
}

#[test]
fn a_fork_is_another_repository_or_one_that_is_gone() {
    for fork in [json!({ "full_name": "mallory/infra" }), Value::Null] {
        assert!(request_of("pull_request", &pull_request("opened", false, &fork)).from_fork, "{fork}");
    }
}

#[test]
fn a_push_has_a_branch_and_its_commits() {
    let payload = |reference: &str, before: &str, after: &str, deleted: bool| {
        json!({ "ref": reference, "before": before, "after": after, "deleted": deleted,
                "repository": { "default_branch": "main" } })
        .to_string()
    };
    let push = |text: &str| match read("push", text) {
        Ok(CiEvent::Push(push)) => push,
        other => panic!("{other:?}"),
    };
    let merged = push(&payload("refs/heads/release/1", BASE, HEAD, false));
    assert_eq!(
        (merged.branch.as_str(), merged.before.as_deref(), merged.after.as_deref()),
        ("release/1", Some(BASE), Some(HEAD))
    );
    assert_eq!(merged.default_branch.as_deref(), Some("main"));
    assert_eq!(push(&payload("refs/heads/new", ZEROS, HEAD, false)).before, None);
    assert!(push(&payload("refs/heads/old", HEAD, ZEROS, true)).deleted());
    assert_eq!(
        read("push", &payload("refs/tags/v1", ZEROS, HEAD, false)),
        Ok(CiEvent::Unknown { name: "push of a tag".into() })
    );
    assert!(read("push", &payload("refs/heads/main", BASE, "$(id)", false)).is_err());
}

#[test]
fn a_merge_group_names_the_last_request_in_it() {
    let payload = |reference: &str| {
        json!({ "action": "checks_requested", "merge_group": {
            "head_sha": HEAD, "head_ref": reference, "base_sha": BASE, "base_ref": "refs/heads/main" } })
        .to_string()
    };
    let group = |reference: &str| match read("merge_group", &payload(reference)) {
        Ok(CiEvent::MergeGroup(group)) => group,
        other => panic!("{other:?}"),
    };
    let found = group("refs/heads/gh-readonly-queue/main/pr-12-eee");
    assert_eq!((found.requests, found.base_branch.as_str(), found.head.as_str()), (vec![12], "main", HEAD));
    assert_eq!(group("refs/heads/gh-readonly-queue/release/a/pr-9-0f").requests, [9]);
    for odd in ["refs/heads/x", "refs/heads/gh-readonly-queue/main/pr-", "refs/heads/gh-readonly-queue/main/pr-x-1"] {
        assert_eq!(group(odd).requests, Vec::<u64>::new(), "{odd}");
    }
    assert_eq!(CiEvent::MergeGroup(group("x")).commit(), Some(HEAD));
}

#[test]
fn only_members_give_orders_and_only_in_new_comments_on_requests() {
    let payload = |action: &str, association: &str, request: bool| {
        let mut issue = json!({ "number": 5 });
        if request {
            issue["pull_request"] = json!({ "url": "x" });
        }
        json!({ "action": action, "issue": issue,
                "comment": { "body": "kl apply", "author_association": association, "user": { "login": "bob" } } })
        .to_string()
    };
    for (association, trusted) in [
        ("OWNER", true),
        ("MEMBER", true),
        ("COLLABORATOR", true),
        ("CONTRIBUTOR", false),
        ("FIRST_TIME_CONTRIBUTOR", false),
        ("NONE", false),
        ("owner", false),
        ("", false),
    ] {
        let event = read("issue_comment", &payload("created", association, true)).unwrap();
        let CiEvent::Comment(comment) = event else { panic!("{event:?}") };
        assert_eq!((comment.trusted, comment.request, comment.author.as_str()), (trusted, 5, "bob"), "{association}");
    }
    for (action, request) in [("edited", true), ("deleted", true), ("created", false)] {
        let event = read("issue_comment", &payload(action, "OWNER", request)).unwrap();
        assert!(matches!(event, CiEvent::Unknown { .. }), "{event:?}");
    }
}

#[test]
fn jobs_without_a_request_are_known() {
    assert_eq!(read("workflow_dispatch", "{}"), Ok(CiEvent::Manual));
    assert_eq!(read("repository_dispatch", r#"{"client_payload":{"x":1}}"#), Ok(CiEvent::Manual));
    assert_eq!(read("schedule", "{}"), Ok(CiEvent::Schedule));
    assert_eq!(read("release", "{}"), Ok(CiEvent::Unknown { name: "release".into() }));
}

#[test]
fn what_github_would_not_send_is_refused_with_what_is_wrong() {
    for (name, text, part) in [
        ("pull_request", "", "EOF"),
        ("pull_request", "[]", "invalid"),
        ("pull_request", "{}", "missing field `pull_request`"),
        ("pull_request", r#"{"pull_request":{"number":"7"}}"#, "invalid type"),
        ("push", r#"{"ref":7}"#, "invalid type"),
        ("merge_group", "{\"action\":\"checks_requested\"}", "merge_group"),
    ] {
        let error = read(name, text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let huge = " ".repeat(MAX_BYTES + 1);
    assert_eq!(read("push", &huge), Err(EventError::TooLarge { size: MAX_BYTES + 1 }));
    assert!(read("push", &"[".repeat(1_000_000)).is_err());
}

/// JSON of any shape, with the keys that the reader looks for.
fn any_json() -> impl Strategy<Value = Value> {
    const KEYS: [&str; 28] = [
        "action",
        "pull_request",
        "number",
        "head",
        "base",
        "sha",
        "ref",
        "repo",
        "full_name",
        "merged",
        "merge_commit_sha",
        "before",
        "after",
        "deleted",
        "repository",
        "default_branch",
        "merge_group",
        "head_sha",
        "head_ref",
        "base_ref",
        "base_sha",
        "issue",
        "comment",
        "body",
        "author_association",
        "user",
        "login",
        "x",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
        prop_oneof![
            Just("closed"),
            Just("created"),
            Just("checks_requested"),
            Just("refs/heads/main"),
            Just(HEAD),
            Just(ZEROS)
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 12, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(proptest::sample::select(&KEYS[..]), inner, 0..12)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(
            &["pull_request", "pull_request_target", "push", "merge_group", "issue_comment", "schedule"][..]
        )
        .prop_map(str::to_owned),
        ".*",
    ]
}

proptest! {
    #[test]
    fn whatever_a_payload_holds_reading_it_ends_with_an_answer(name in any_name(), json in any_json()) {
        let event = read(&name, &json.to_string());
        if let Ok(event) = event {
            prop_assert!(event.commit().is_none_or(is_commit));
            drop(event.describe());
        }
    }

    #[test]
    fn text_that_is_no_json_is_refused_without_a_panic(name in any_name(), text in ".*") {
        drop(read(&name, &text));
    }

    #[test]
    fn the_branch_of_a_queue_may_be_called_anything(text in "(refs/heads/)?(gh-readonly-queue/)?.*") {
        prop_assert!(queued(&text).is_none_or(|number| text.contains(&number.to_string())));
    }
}
