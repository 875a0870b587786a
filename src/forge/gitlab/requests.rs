//! Merge requests, the files that they and pushes change, and what a push merged.

use async_trait::async_trait;

use super::Gitlab;
use super::wire::{Commit, Comparison, Diff, MergeRequest};
use crate::forge::error::ForgeError;
use crate::forge::http::segment;
use crate::forge::landed::{Candidate, PushedCommit, Repository};
use crate::forge::talk::Talk as _;
use crate::forge::{ChangedFile, Push};

/// With so many files a comparison may have been cut: servers list 1,000 unless they are told otherwise, and do not say.
const MAX_COMPARED: usize = 1_000;

/// So many commits of a push are looked at.
const MAX_COMMITS: usize = 2_500;

impl Gitlab {
    pub(super) async fn merge_request(&self, number: u64) -> Result<MergeRequest, ForgeError> {
        let mut budget = self.api.patience.begin();
        let path = self.api.path(&format!("/merge_requests/{number}"));
        self.api.get(&format!("read !{number}"), &mut budget, &path).await
    }

    pub(super) async fn files_of_request(&self, number: u64) -> Result<Vec<ChangedFile>, ForgeError> {
        let what = format!("list the files of !{number}");
        let mut budget = self.api.patience.begin();
        let path = self.api.path(&format!("/merge_requests/{number}/diffs"));
        let diffs: Vec<Diff> = self.api.pages(&what, &mut budget, &path, |_| false).await?;
        // The list is cut where the server's limit for differences is, and does not say so; the request's own count does.
        let count = self.merge_request(number).await?.changes_count.unwrap_or_default();
        if count.ends_with('+') || count.parse::<usize>().is_ok_and(|count| count > diffs.len()) {
            let message = format!("GitLab lists {} of {count} files", diffs.len());
            return Err(ForgeError::Incomplete { what, message });
        }
        Ok(diffs.into_iter().map(ChangedFile::from).collect())
    }

    pub(super) async fn files_of_push(&self, push: &Push) -> Result<Vec<ChangedFile>, ForgeError> {
        let what = format!("list the files of the push of {}", push.after);
        let Some(before) = &push.before else {
            let message = "the branch is new, and there is nothing to compare it with".into();
            return Err(ForgeError::Incomplete { what, message });
        };
        let mut budget = self.api.patience.begin();
        // Straight: from one tree to the other, so that what a forced push took back is in it, too.
        let path = self.api.path(&format!(
            "/repository/compare?from={}&to={}&straight=true",
            segment(before),
            segment(&push.after)
        ));
        let compared: Comparison = self.api.get(&what, &mut budget, &path).await?;
        if compared.compare_timeout || compared.diffs.len() >= MAX_COMPARED {
            let message = "GitLab gave up before the end of the list".into();
            return Err(ForgeError::Incomplete { what, message });
        }
        Ok(compared.diffs.into_iter().map(ChangedFile::from).collect())
    }
}

#[async_trait]
impl Repository for Gitlab {
    async fn pushed(&self, push: &Push) -> Result<Vec<PushedCommit>, ForgeError> {
        let what = format!("list the commits of the push of {}", push.after);
        let mut budget = self.api.patience.begin();
        let mut commits: Vec<Commit> = if let Some(before) = &push.before {
            let range = segment(&format!("{before}..{}", push.after));
            let path = self.api.path(&format!("/repository/commits?ref_name={range}&order=topo"));
            self.api.pages(&what, &mut budget, &path, |commits: &[Commit]| commits.len() > MAX_COMMITS).await?
        } else {
            let path = self.api.path(&format!("/repository/commits/{}", segment(&push.after)));
            vec![self.api.get(&what, &mut budget, &path).await?]
        };
        if commits.len() > MAX_COMMITS {
            let message = format!("it brought more than {MAX_COMMITS} commits");
            return Err(ForgeError::Incomplete { what, message });
        }
        // GitLab gives the newest first.
        commits.reverse();
        Ok(commits
            .into_iter()
            .map(|commit| PushedCommit { sha: commit.id, parents: commit.parent_ids, message: commit.message })
            .collect())
    }

    async fn with_commit(&self, sha: &str) -> Result<Vec<Candidate>, ForgeError> {
        let what = format!("find the merge requests of the commit {sha}");
        let mut budget = self.api.patience.begin();
        let path = self.api.path(&format!("/repository/commits/{}/merge_requests?state=merged", segment(sha)));
        let requests: Vec<MergeRequest> = self.api.pages(&what, &mut budget, &path, |_| false).await?;
        Ok(requests.into_iter().map(MergeRequest::candidate).collect())
    }

    async fn candidate(&self, number: u64) -> Result<Option<Candidate>, ForgeError> {
        match self.merge_request(number).await {
            Ok(request) => Ok(Some(request.candidate())),
            Err(ForgeError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn own_commits(&self, number: u64) -> Result<Vec<String>, ForgeError> {
        let what = format!("list the commits of !{number}");
        let mut budget = self.api.patience.begin();
        let path = self.api.path(&format!("/merge_requests/{number}/commits"));
        let commits: Vec<Commit> = self.api.pages(&what, &mut budget, &path, |_| false).await?;
        Ok(commits.into_iter().map(|commit| commit.id).collect())
    }

    fn named_in(&self, message: &str) -> Option<u64> {
        named_in(message)
    }
}

/// `See merge request group/name!7`, the last line of a merge commit.
fn named_in(message: &str) -> Option<u64> {
    let line = message.lines().rev().find(|line| !line.trim().is_empty())?;
    line.trim().strip_prefix("See merge request ")?.rsplit_once('!')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::named_in;

    #[test]
    fn a_merge_commit_names_its_request() {
        assert_eq!(
            named_in("Merge branch 'x' into 'main'\n\nTitle\n\nSee merge request group/sub/name!12\n"),
            Some(12)
        );
        for text in ["", "See merge request", "See merge request a/b!x", "See merge request a/b!1\n\nand more"] {
            assert_eq!(named_in(text), None, "{text}");
        }
    }
}
