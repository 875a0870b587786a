//! How the stand-in for GitHub shows things: the description's own examples, with what is known laid over them.

use serde_json::{Value, json};

use super::super::contract::{Contract, over};
use super::super::history::{Commit, FileChange};
use super::{CheckRun, Comment, Github, REPOSITORY};

fn example(name: &str) -> Value {
    Contract::github().example(name)
}

impl Github {
    /// A pull request; `short` as it is in lists.
    pub(super) fn pull(&self, number: u64, short: bool) -> Value {
        let pull = &self.repository.requests[&number];
        let merge_commit = pull.merged.as_ref().map(|merged| merged.tip.clone());
        let example = if short { example("pull-request-simple-items")[0].clone() } else { example("pull-request") };
        let here = over(example["base"]["repo"].clone(), json!({ "id": 7, "full_name": REPOSITORY }));
        let theirs = over(here.clone(), json!({ "id": 8, "full_name": "mallory/infra", "fork": true }));
        let mut own = json!({
            "number": number,
            "title": pull.title,
            "requested_teams": [],
            "state": if pull.open { "open" } else { "closed" },
            "merged_at": pull.merged_at,
            // Before the merge, it is that of a trial merge.
            "merge_commit_sha": merge_commit.unwrap_or_else(|| "0123456789".repeat(4)),
            "head": { "ref": pull.branch, "sha": pull.head, "repo": if pull.fork { theirs } else { here.clone() } },
            "base": { "ref": pull.base, "sha": pull.start, "repo": here },
        });
        if !short {
            own["merged"] = json!(pull.merged_at.is_some());
            own["changed_files"] = json!(self.repository.own_files(number).len());
        }
        over(example, own)
    }
}

/// The examples of the description do not keep to all of it: `language` and `requested_teams` are set right.
pub(super) fn repository() -> Value {
    over(
        example("full-repository-default-response"),
        json!({
            "id": 7,
            "full_name": REPOSITORY,
            "default_branch": "main",
            "private": true,
            "language": "HCL",
            "source": { "language": "HCL" },
        }),
    )
}

pub(super) fn file(file: &FileChange) -> Value {
    let mut own = json!({ "filename": file.path });
    if let Some(previous) = &file.previous {
        own["previous_filename"] = json!(previous);
        own["status"] = json!("renamed");
    }
    over(example("diff-entry-items")[0].clone(), own)
}

pub(super) fn commit(commit: &Commit, files: &[FileChange]) -> Value {
    let parent =
        |sha: &String| json!({ "sha": sha, "url": "https://api.example/commit", "html_url": "https://example/commit" });
    over(
        example("commit"),
        json!({
            "sha": commit.sha,
            "commit": { "message": commit.message },
            "parents": commit.parents.iter().map(parent).collect::<Vec<_>>(),
            "files": files.iter().map(file).collect::<Vec<_>>(),
        }),
    )
}

pub(super) fn user() -> Value {
    over(example("private-user-response-with-public-and-private-profile-information"), json!({ "login": "alice" }))
}

pub(super) fn remark(comment: &Comment) -> Value {
    over(
        example("issue-comment"),
        json!({
            "id": comment.id,
            "body": comment.body,
            "html_url": format!("https://github.example/{REPOSITORY}/pull/{}#issuecomment-{}", comment.number, comment.id),
            "user": { "login": comment.author },
        }),
    )
}

pub(super) fn run(check: &CheckRun) -> Value {
    over(
        example("check-run-example-of-completed-conclusion"),
        json!({
            "id": check.id,
            "name": check.name,
            "head_sha": check.sha,
            "status": if check.conclusion.is_some() { "completed" } else { "in_progress" },
            "conclusion": check.conclusion,
            "output": { "title": check.title, "annotations_count": check.annotations.len() },
        }),
    )
}
