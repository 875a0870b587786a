//! What kl reads and writes of GitHub's JSON, and no more.

use serde::{Deserialize, Serialize};

use crate::domain::request::RequestPhase;
use crate::forge::landed::Candidate;
use crate::forge::{Annotation, AnnotationLevel, ChangedFile, Check, Conclusion, RequestInfo};

/// A pull request, as a single one and in lists.
#[derive(Debug, Deserialize)]
pub(super) struct Pull {
    pub(super) number: u64,
    title: String,
    state: String,
    merged_at: Option<String>,
    merge_commit_sha: Option<String>,
    head: Side,
    base: Side,
    /// In a single one only.
    pub(super) changed_files: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Side {
    #[serde(rename = "ref")]
    branch: String,
    sha: String,
    /// None when the repository has been deleted.
    repo: Option<RepositoryName>,
}

#[derive(Debug, Deserialize)]
struct RepositoryName {
    id: u64,
    full_name: String,
}

impl Pull {
    pub(super) fn info(self) -> RequestInfo {
        let phase = match (self.state.as_str(), &self.merged_at) {
            (_, Some(_)) => RequestPhase::Merged,
            ("open", None) => RequestPhase::Open,
            _ => RequestPhase::Closed,
        };
        let id = |side: &Side| side.repo.as_ref().map(|repo| repo.id);
        RequestInfo {
            number: self.number,
            title: self.title,
            // A head whose repository is gone was somebody else's.
            from_fork: id(&self.head).is_none() || id(&self.head) != id(&self.base),
            head: self.head.sha,
            base_branch: self.base.branch,
            phase,
            // Before the merge, it is that of a trial merge.
            merge_commit: self.merge_commit_sha.filter(|_| phase == RequestPhase::Merged),
        }
    }

    pub(super) fn candidate(self, repository: &str) -> Candidate {
        let here = self.base.repo.as_ref().is_some_and(|repo| repo.full_name.eq_ignore_ascii_case(repository));
        let info = self.info();
        Candidate { landed: info.merge_commit.clone().into_iter().collect(), here, info }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct File {
    filename: String,
    previous_filename: Option<String>,
}

impl From<File> for ChangedFile {
    fn from(file: File) -> Self {
        Self { path: file.filename, previous: file.previous_filename }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Commit {
    pub(super) sha: String,
    #[serde(default)]
    pub(super) parents: Vec<Parent>,
    #[serde(rename = "commit")]
    pub(super) text: CommitText,
    #[serde(default)]
    pub(super) files: Vec<File>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Parent {
    pub(super) sha: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct CommitText {
    pub(super) message: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Comparison {
    pub(super) status: String,
    pub(super) commits: Vec<Commit>,
    #[serde(default)]
    pub(super) files: Vec<File>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RepositoryInfo {
    pub(super) default_branch: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) body: Option<String>,
    pub(super) html_url: Option<String>,
    pub(super) user: Option<User>,
}

#[derive(Debug, Deserialize)]
pub(super) struct User {
    pub(super) login: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ViewerAnswer {
    pub(super) data: Option<ViewerData>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ViewerData {
    pub(super) viewer: Option<User>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CheckRun {
    pub(super) id: u64,
    pub(super) output: Option<CheckOutput>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CheckOutput {
    pub(super) annotations_count: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct CheckRuns {
    pub(super) check_runs: Vec<CheckRun>,
}

/// A check run, to be made or to be changed.
#[derive(Debug, Serialize)]
pub(super) struct CheckBody<'a> {
    name: &'a str,
    /// Only when it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    head_sha: Option<&'a str>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    conclusion: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details_url: Option<&'a str>,
    output: Output<'a>,
}

#[derive(Debug, Serialize)]
struct Output<'a> {
    title: &'a str,
    summary: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    text: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    annotations: Vec<Remark<'a>>,
}

#[derive(Debug, Serialize)]
struct Remark<'a> {
    path: &'a str,
    start_line: u32,
    end_line: u32,
    annotation_level: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    title: &'a str,
    message: &'a str,
}

impl<'a> CheckBody<'a> {
    /// The check with some of its annotations; `new` when it is to be made.
    pub(super) fn of(check: &'a Check, annotations: &'a [Annotation], new: bool) -> Self {
        let remark = |annotation: &'a Annotation| Remark {
            path: &annotation.path,
            start_line: annotation.line,
            end_line: annotation.line,
            annotation_level: match annotation.level {
                AnnotationLevel::Notice => "notice",
                AnnotationLevel::Warning => "warning",
                AnnotationLevel::Failure => "failure",
            },
            title: &annotation.title,
            message: &annotation.message,
        };
        Self {
            name: &check.name,
            head_sha: new.then_some(check.commit.as_str()),
            status: if check.conclusion.is_some() { "completed" } else { "in_progress" },
            conclusion: check.conclusion.map(|conclusion| match conclusion {
                Conclusion::Success => "success",
                Conclusion::Failure => "failure",
                Conclusion::Neutral => "neutral",
            }),
            details_url: check.details_url.as_deref(),
            output: Output {
                title: &check.title,
                summary: &check.summary,
                text: &check.text,
                annotations: annotations.iter().map(remark).collect(),
            },
        }
    }
}

/// A commit status.
#[derive(Debug, Serialize)]
pub(super) struct StatusBody<'a> {
    pub(super) state: &'static str,
    pub(super) context: &'a str,
    pub(super) description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target_url: Option<&'a str>,
}

/// The text of a comment.
#[derive(Debug, Serialize)]
pub(super) struct CommentBody<'a> {
    pub(super) body: &'a str,
}
