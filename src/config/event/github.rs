//! GitHub's events, from their name and the payload that a job finds in a file.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{
    CiEvent, CommentEvent, EventError, MergeGroupEvent, PushEvent, RequestAction, RequestEvent, commit, is_commit,
};

/// GitHub sends no larger payload.
pub const MAX_BYTES: usize = 25 * 1024 * 1024;

#[derive(Deserialize)]
struct PullRequestPayload {
    #[serde(default)]
    action: String,
    pull_request: PullRequest,
}

#[derive(Deserialize)]
struct PullRequest {
    number: u64,
    head: Side,
    base: Side,
    #[serde(default)]
    merged: Option<bool>,
    #[serde(default)]
    merge_commit_sha: Option<String>,
}

#[derive(Deserialize)]
struct Side {
    sha: String,
    #[serde(rename = "ref")]
    branch: String,
    /// Null when the fork is gone.
    #[serde(default)]
    repo: Option<Repository>,
}

#[derive(Deserialize)]
struct Repository {
    full_name: String,
}

#[derive(Deserialize)]
struct PushPayload {
    #[serde(rename = "ref")]
    reference: String,
    #[serde(default)]
    before: String,
    #[serde(default)]
    after: String,
    #[serde(default)]
    deleted: bool,
    #[serde(default)]
    repository: Option<PushedRepository>,
}

#[derive(Deserialize)]
struct PushedRepository {
    #[serde(default)]
    default_branch: Option<String>,
}

#[derive(Deserialize)]
struct MergeGroupPayload {
    #[serde(default)]
    action: String,
    merge_group: MergeGroup,
}

#[derive(Deserialize)]
struct MergeGroup {
    head_sha: String,
    head_ref: String,
    base_ref: String,
    #[serde(default)]
    base_sha: String,
}

#[derive(Deserialize)]
struct CommentPayload {
    #[serde(default)]
    action: String,
    issue: Issue,
    comment: Comment,
}

#[derive(Deserialize)]
struct Issue {
    number: u64,
    /// Absent on plain issues.
    #[serde(default)]
    pull_request: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Comment {
    #[serde(default)]
    body: String,
    #[serde(default)]
    author_association: String,
    #[serde(default)]
    user: Option<User>,
}

#[derive(Deserialize)]
struct User {
    login: String,
}

/// Reads an event from its name and its payload.
///
/// # Errors
/// When the payload is too large, or not what GitHub sends with such an event.
pub fn read(name: &str, payload: &str) -> Result<CiEvent, EventError> {
    if payload.len() > MAX_BYTES {
        return Err(EventError::TooLarge { size: payload.len() });
    }
    match name {
        "pull_request" | "pull_request_target" | "pull_request_review" => request(name, parse(name, payload)?),
        "push" => push(name, parse(name, payload)?),
        "merge_group" => merge_group(name, parse(name, payload)?),
        "issue_comment" => Ok(comment(name, parse(name, payload)?)),
        "workflow_dispatch" | "repository_dispatch" => Ok(CiEvent::Manual),
        "schedule" => Ok(CiEvent::Schedule),
        other => Ok(CiEvent::Unknown { name: other.to_owned() }),
    }
}

fn parse<T: DeserializeOwned>(event: &str, payload: &str) -> Result<T, EventError> {
    // The error says what is missing, and repeats nothing of the payload but short words.
    serde_json::from_str(payload).map_err(|error| malformed(event, error.to_string()))
}

fn malformed(event: &str, reason: impl Into<String>) -> EventError {
    EventError::Malformed { event: event.to_owned(), reason: reason.into().chars().take(200).collect() }
}

fn request(name: &str, payload: PullRequestPayload) -> Result<CiEvent, EventError> {
    let PullRequest { number, head, base, merged, merge_commit_sha } = payload.pull_request;
    if !is_commit(&head.sha) {
        return Err(malformed(name, "pull_request.head.sha is no commit"));
    }
    let action = match (name, payload.action.as_str()) {
        ("pull_request_review", _) => RequestAction::Other,
        (_, "closed") if merged == Some(true) => RequestAction::Merged,
        (_, "closed") => RequestAction::Closed,
        (_, "opened" | "reopened" | "ready_for_review") => RequestAction::Opened,
        // `edited` may have changed the base.
        (_, "synchronize" | "edited") => RequestAction::Synchronized,
        _ => RequestAction::Other,
    };
    let from_fork = match (&head.repo, &base.repo) {
        (Some(head), Some(base)) => head.full_name != base.full_name,
        _ => true,
    };
    Ok(CiEvent::Request(RequestEvent {
        number,
        action,
        head: head.sha,
        base_branch: base.branch,
        base: commit(&base.sha),
        from_fork,
        // Until it is merged, this is a commit that only tries whether it could be.
        merge_commit: merge_commit_sha.filter(|_| action == RequestAction::Merged).as_deref().and_then(commit),
        privileged: name == "pull_request_target",
    }))
}

fn push(name: &str, payload: PushPayload) -> Result<CiEvent, EventError> {
    let Some(branch) = payload.reference.strip_prefix("refs/heads/") else {
        return Ok(CiEvent::Unknown { name: "push of a tag".to_owned() });
    };
    let after = commit(&payload.after).filter(|_| !payload.deleted);
    if after.is_none() && !payload.deleted {
        return Err(malformed(name, "after is no commit"));
    }
    Ok(CiEvent::Push(PushEvent {
        branch: branch.to_owned(),
        before: commit(&payload.before),
        after,
        default_branch: payload.repository.and_then(|repository| repository.default_branch),
    }))
}

fn merge_group(name: &str, payload: MergeGroupPayload) -> Result<CiEvent, EventError> {
    let group = payload.merge_group;
    if payload.action != "checks_requested" {
        return Ok(CiEvent::Unknown { name: "merge_group that asks for nothing".to_owned() });
    }
    if !is_commit(&group.head_sha) {
        return Err(malformed(name, "merge_group.head_sha is no commit"));
    }
    Ok(CiEvent::MergeGroup(MergeGroupEvent {
        requests: queued(&group.head_ref).into_iter().collect(),
        head: group.head_sha,
        base_branch: group.base_ref.strip_prefix("refs/heads/").unwrap_or(&group.base_ref).to_owned(),
        base: commit(&group.base_sha),
    }))
}

/// The request that the branch of a queue names: `refs/heads/gh-readonly-queue/main/pr-12-SHA`.
fn queued(reference: &str) -> Option<u64> {
    let branch = reference.strip_prefix("refs/heads/").unwrap_or(reference);
    let (_, last) = branch.strip_prefix("gh-readonly-queue/")?.rsplit_once('/')?;
    let (number, _) = last.strip_prefix("pr-")?.split_once('-')?;
    number.parse().ok()
}

fn comment(name: &str, payload: CommentPayload) -> CiEvent {
    if payload.issue.pull_request.is_none() {
        return CiEvent::Unknown { name: "comment on an issue".to_owned() };
    }
    // Whoever edits a comment is not its author: what it says now was not said by a member.
    if payload.action != "created" {
        return CiEvent::Unknown { name: format!("{name} that is not new") };
    }
    CiEvent::Comment(CommentEvent {
        request: payload.issue.number,
        body: payload.comment.body,
        author: payload.comment.user.map(|user| user.login).unwrap_or_default(),
        trusted: matches!(payload.comment.author_association.as_str(), "OWNER" | "MEMBER" | "COLLABORATOR"),
    })
}

#[cfg(test)]
mod tests {
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
        for odd in ["refs/heads/x", "refs/heads/gh-readonly-queue/main/pr-", "refs/heads/gh-readonly-queue/main/pr-x-1"]
        {
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
            assert_eq!(
                (comment.trusted, comment.request, comment.author.as_str()),
                (trusted, 5, "bob"),
                "{association}"
            );
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
            ("pull_request", r#"{"pull_request":{"number":"7"}}"#, "number"),
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
            drop(queued(&text));
        }
    }
}
