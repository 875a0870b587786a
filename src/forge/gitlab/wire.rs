//! What kl reads and writes of GitLab's JSON, and no more.

use serde::{Deserialize, Serialize};

use crate::domain::request::RequestPhase;
use crate::forge::landed::Candidate;
use crate::forge::{ChangedFile, RequestInfo};

#[derive(Debug, Deserialize)]
pub(super) struct MergeRequest {
    pub(super) iid: u64,
    title: String,
    state: String,
    /// None until GitLab has looked at the branch, and for a request without commits.
    sha: Option<String>,
    target_branch: String,
    source_project_id: Option<u64>,
    target_project_id: u64,
    merge_commit_sha: Option<String>,
    squash_commit_sha: Option<String>,
    /// In a single one only. `1000+` when there are more than GitLab counts.
    pub(super) changes_count: Option<String>,
}

impl MergeRequest {
    pub(super) fn info(self) -> RequestInfo {
        let phase = match self.state.as_str() {
            "merged" => RequestPhase::Merged,
            // `locked` is the moment of merging.
            "opened" | "locked" => RequestPhase::Open,
            _ => RequestPhase::Closed,
        };
        let head = self.sha.unwrap_or_default();
        // A fast-forward makes no commit of its own: the branch's head is it.
        let landed = self.merge_commit_sha.or(self.squash_commit_sha).or_else(|| Some(head.clone()));
        RequestInfo {
            number: self.iid,
            title: self.title,
            base_branch: self.target_branch,
            phase,
            from_fork: self.source_project_id != Some(self.target_project_id),
            merge_commit: landed.filter(|sha| phase == RequestPhase::Merged && !sha.is_empty()),
            head,
        }
    }

    pub(super) fn candidate(self) -> Candidate {
        let landed = [&self.merge_commit_sha, &self.squash_commit_sha].into_iter().flatten().cloned().collect();
        // A project is asked for the requests into it, and gives no others.
        Candidate { landed, here: true, info: self.info() }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Diff {
    old_path: String,
    new_path: String,
    #[serde(default)]
    renamed_file: bool,
}

impl From<Diff> for ChangedFile {
    fn from(diff: Diff) -> Self {
        let previous = (diff.renamed_file || diff.old_path != diff.new_path).then_some(diff.old_path);
        Self { path: diff.new_path, previous: previous.filter(|path| !path.is_empty()) }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Comparison {
    #[serde(default)]
    pub(super) diffs: Vec<Diff>,
    #[serde(default)]
    pub(super) compare_timeout: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Commit {
    pub(super) id: String,
    #[serde(default)]
    pub(super) parent_ids: Vec<String>,
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Note {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) body: String,
    pub(super) author: Option<User>,
    #[serde(default)]
    pub(super) system: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct User {
    pub(super) id: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Job {
    pub(super) user: Option<User>,
}

#[derive(Debug, Serialize)]
pub(super) struct NoteBody<'a> {
    pub(super) body: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct StatusBody<'a> {
    pub(super) state: &'static str,
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pipeline_id: Option<u64>,
}
