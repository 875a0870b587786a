//! How the stand-in for GitLab shows things.

use serde_json::{Value, json};

use super::super::history::{Commit, FileChange};
use super::{Gitlab, Note, PROJECT};

impl Gitlab {
    /// A merge request; `short` as it is in lists.
    pub(super) fn merge_request(&self, number: u64, short: bool) -> Value {
        let request = &self.repository.requests[&number];
        let merged = request.merged.as_ref();
        let mut shown = json!({
            "id": 10_000 + number,
            "iid": number,
            "project_id": 7,
            "title": request.title,
            "state": if merged.is_some() { "merged" } else if request.open { "opened" } else { "closed" },
            "sha": request.head,
            "source_branch": request.branch,
            "target_branch": request.base,
            "source_project_id": if request.fork { 8 } else { 7 },
            "target_project_id": 7,
            "merge_commit_sha": merged.and_then(|it| it.merge.as_ref()),
            "squash_commit_sha": merged.and_then(|it| it.squash.as_ref()),
            "web_url": format!("https://gitlab.example/{PROJECT}/-/merge_requests/{number}"),
        });
        if !short {
            let count = self.repository.own_files(number).len();
            let counted = if count > self.most_files { format!("{}+", self.most_files) } else { count.to_string() };
            shown["changes_count"] = json!(counted);
        }
        shown
    }
}

pub(super) fn diff(file: &FileChange) -> Value {
    json!({
        "old_path": file.previous.as_ref().unwrap_or(&file.path),
        "new_path": file.path,
        "a_mode": "100644",
        "b_mode": "100644",
        "diff": "",
        "new_file": false,
        "renamed_file": file.previous.is_some(),
        "deleted_file": false,
    })
}

pub(super) fn commit(commit: &Commit) -> Value {
    json!({
        "id": commit.sha,
        "short_id": commit.sha[..8],
        "parent_ids": commit.parents,
        "title": commit.message.lines().next(),
        "message": commit.message,
        "author_name": "alice",
    })
}

pub(super) fn note(note: &Note) -> Value {
    json!({
        "id": note.id,
        "body": note.body,
        "author": { "id": note.author, "username": format!("user{}", note.author) },
        "system": note.system,
        "noteable_iid": note.number,
    })
}
