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
mod tests;
