//! The forge: what kl asks of GitHub and GitLab, and what it tells them.

mod error;
mod github;
mod gitlab;
mod http;
mod landed;
mod marker;
mod patience;
mod settings;
mod sticky;
mod talk;

use async_trait::async_trait;

use crate::domain::request::{ForgeKind, RequestPhase};
pub use crate::report::annotation::{Annotation, AnnotationLevel};
pub use crate::report::check::Conclusion;

pub use error::ForgeError;
pub use http::install_tls_provider;
pub use marker::comment_marker;
pub use patience::Patience;
pub use settings::{ForgeSettings, GithubSettings, GitlabSettings, connect};

/// A request as the forge has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo {
    /// Its number.
    pub number: u64,
    /// Its title: hostile text.
    pub title: String,
    /// The commit at its head.
    pub head: String,
    /// The branch that it would be merged into.
    pub base_branch: String,
    /// Where it stands.
    pub phase: RequestPhase,
    /// Whether its head lives in another repository.
    pub from_fork: bool,
    /// The commit by which it was merged.
    pub merge_commit: Option<String>,
}

/// A file that a request or a push changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangedFile {
    /// Its path in the repository.
    pub path: String,
    /// The path that it was renamed from.
    pub previous: Option<String>,
}

/// A push to a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// The branch.
    pub branch: String,
    /// The commit before it; none for a new branch.
    pub before: Option<String>,
    /// The commit after it.
    pub after: String,
}

/// A comment on the forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommentRef {
    /// The forge's id.
    pub id: String,
    /// Its page.
    pub url: Option<String>,
}

/// A check of one project on one commit. Texts are already within the forge's limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its name, as `kl plan: network`.
    pub name: String,
    /// The commit.
    pub commit: String,
    /// How it ended; none while it is in progress.
    pub conclusion: Option<Conclusion>,
    /// One line.
    pub title: String,
    /// A short Markdown text.
    pub summary: String,
    /// A long Markdown text.
    pub text: String,
    /// Remarks at lines, any number: the forge takes them in pages.
    pub annotations: Vec<Annotation>,
    /// The page with more.
    pub details_url: Option<String>,
}

/// Where a check was left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckRef {
    /// A check of its own, by the forge's id.
    Check(String),
    /// Only a commit status: checks are denied, or the forge has none.
    Status,
    /// Nowhere: the job's own result has to do.
    Nowhere,
}

/// Something that the token can or cannot do, for `kl doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// What, as `read pull requests`.
    pub what: &'static str,
    /// Whether; none when it cannot be found out without changing something.
    pub granted: Option<bool>,
    /// What to do when it is missing.
    pub fix: &'static str,
}

/// A forge.
#[async_trait]
pub trait Forge: Send + Sync {
    /// Which.
    fn kind(&self) -> ForgeKind;

    /// A request by its number.
    async fn request(&self, number: u64) -> Result<RequestInfo, ForgeError>;

    /// The files that a request changes.
    ///
    /// # Errors
    /// [`ForgeError::Incomplete`] when the forge lists some of them only: GitHub stops at 3,000.
    async fn request_files(&self, number: u64) -> Result<Vec<ChangedFile>, ForgeError>;

    /// The files that a push changes, also those that a forced push took back.
    ///
    /// # Errors
    /// [`ForgeError::Incomplete`] when the forge cannot tell: there are too many, or the default branch is new and there
    /// is nothing to compare it with.
    async fn push_files(&self, push: &Push) -> Result<Vec<ChangedFile>, ForgeError>;

    /// The requests that a push merged into its branch, in the order in which they were merged. Of a new branch, only
    /// the newest commit is looked at.
    ///
    /// # Errors
    /// [`ForgeError::Incomplete`] when the push brought too many commits to look up each.
    async fn merged_by(&self, push: &Push) -> Result<Vec<RequestInfo>, ForgeError>;

    /// The open requests that a merge queue has put together: those whose commits are in `group`, which is no push yet.
    /// Only GitHub has such queues.
    ///
    /// # Errors
    /// [`ForgeError::Incomplete`] when the group has too many commits to look up each.
    async fn grouped_in(&self, group: &Push) -> Result<Vec<RequestInfo>, ForgeError>;

    /// Writes the sticky comment of a request: updates `known` or the one that bears our marker on its first line and
    /// was written by us, else makes a new one. `body` begins with `marker` and a line end.
    async fn comment_put(
        &self,
        number: u64,
        known: Option<&str>,
        marker: &str,
        body: &str,
    ) -> Result<CommentRef, ForgeError>;

    /// Makes a check, or updates it when `existing` says where it is. An update adds its annotations to those that the
    /// check has. A token that may not make checks gets a commit status, or nothing: the answer says which.
    async fn check_put(&self, check: &Check, existing: Option<&CheckRef>) -> Result<CheckRef, ForgeError>;

    /// What the token can do. Never fails: what cannot be found out is unknown.
    async fn access(&self) -> Vec<Access>;
}
