//! Pull requests, the files that they and pushes change, and what a push merged.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::Github;
use super::wire::{Commit, Comparison, File, Pull, RepositoryInfo};
use crate::forge::error::ForgeError;
use crate::forge::http::segment;
use crate::forge::landed::{Candidate, PushedCommit, Repository};
use crate::forge::patience::Budget;
use crate::forge::talk::Talk as _;
use crate::forge::{ChangedFile, Push};

/// So many files of a pull request, or of a commit, GitHub lists at most.
const MAX_FILES: usize = 3_000;

/// So many files a comparison lists at most, all on its first page.
const MAX_COMPARED: usize = 300;

/// So many commits of a push are looked at.
const MAX_COMMITS: usize = 2_500;

impl Github {
    pub(super) async fn pull(&self, number: u64) -> Result<Pull, ForgeError> {
        let mut budget = self.api.patience.begin();
        self.api.get(&format!("read #{number}"), &mut budget, &self.api.path(&format!("/pulls/{number}"))).await
    }

    pub(super) async fn files_of_request(&self, number: u64) -> Result<Vec<ChangedFile>, ForgeError> {
        let what = format!("list the files of #{number}");
        let mut budget = self.api.patience.begin();
        let path = self.api.path(&format!("/pulls/{number}/files"));
        let files: Vec<File> =
            self.api.pages(&what, &mut budget, &path, |files: &[File]| files.len() >= MAX_FILES).await?;
        if files.len() >= MAX_FILES && self.pull(number).await?.changed_files != Some(files.len() as u64) {
            return Err(ForgeError::Incomplete { what, message: "GitHub lists no more than 3,000".into() });
        }
        Ok(files.into_iter().map(ChangedFile::from).collect())
    }

    pub(super) async fn files_of_push(&self, push: &Push) -> Result<Vec<ChangedFile>, ForgeError> {
        let what = format!("list the files of the push of {}", push.after);
        let mut budget = self.api.patience.begin();
        let before = if let Some(before) = &push.before {
            before.clone()
        } else {
            let repository: RepositoryInfo = self.api.get(&what, &mut budget, &self.api.path("")).await?;
            if repository.default_branch == push.branch {
                let message = "the default branch is new, and there is nothing to compare it with".into();
                return Err(ForgeError::Incomplete { what, message });
            }
            repository.default_branch
        };
        let mut files = BTreeSet::new();
        let status = self.compare(&what, &mut budget, &before, &push.after, &mut files).await?;
        // What a forced push took back, has changed as well. A new branch took nothing back.
        if push.before.is_some() && matches!(status.as_str(), "diverged" | "behind") {
            self.compare(&what, &mut budget, &push.after, &before, &mut files).await?;
        }
        Ok(files.into_iter().collect())
    }

    /// Adds the files that differ from the common ancestor of `from` and `to` to `to`. Gives how the two are related.
    async fn compare(
        &self,
        what: &str,
        budget: &mut Budget,
        from: &str,
        to: &str,
        files: &mut BTreeSet<ChangedFile>,
    ) -> Result<String, ForgeError> {
        let path = self.api.path(&format!("/compare/{}...{}?per_page=1&page=1", segment(from), segment(to)));
        let compared: Comparison = self.api.get(what, budget, &path).await?;
        if compared.files.len() >= MAX_COMPARED {
            // The list is cut. Commits list more, each for itself; together they list at least what the push changed.
            for commit in self.commits_between(what, budget, from, to).await? {
                files.extend(self.files_of_commit(what, budget, &commit.sha).await?);
            }
        } else {
            files.extend(compared.files.into_iter().map(ChangedFile::from));
        }
        Ok(compared.status)
    }

    async fn files_of_commit(
        &self,
        what: &str,
        budget: &mut Budget,
        sha: &str,
    ) -> Result<Vec<ChangedFile>, ForgeError> {
        let mut files = Vec::new();
        loop {
            let page = files.len() / MAX_COMPARED + 1;
            let path = self.api.path(&format!("/commits/{}?per_page={MAX_COMPARED}&page={page}", segment(sha)));
            let answer = self.api.answer(what, budget, &path).await?;
            let commit: Commit = answer.content(what)?;
            files.extend(commit.files.into_iter().map(ChangedFile::from));
            if files.len() >= MAX_FILES {
                let message = format!("GitHub lists no more than 3,000 files of the commit {sha}");
                return Err(ForgeError::Incomplete { what: what.to_owned(), message });
            }
            if !super::api::has_next(&answer) {
                return Ok(files);
            }
        }
    }

    /// The commits that are in `to` and not in `from`, oldest first.
    async fn commits_between(
        &self,
        what: &str,
        budget: &mut Budget,
        from: &str,
        to: &str,
    ) -> Result<Vec<Commit>, ForgeError> {
        let mut commits = Vec::new();
        for page in 1.. {
            let path = self.api.path(&format!("/compare/{}...{}?per_page=100&page={page}", segment(from), segment(to)));
            let answer = self.api.answer(what, budget, &path).await?;
            commits.extend(answer.content::<Comparison>(what)?.commits);
            if !super::api::has_next(&answer) {
                break;
            }
            if commits.len() >= MAX_COMMITS {
                let message = format!("it brought more than {MAX_COMMITS} commits");
                return Err(ForgeError::Incomplete { what: what.to_owned(), message });
            }
        }
        Ok(commits)
    }
}

#[async_trait]
impl Repository for Github {
    async fn pushed(&self, push: &Push) -> Result<Vec<PushedCommit>, ForgeError> {
        let what = format!("list the commits of the push of {}", push.after);
        let mut budget = self.api.patience.begin();
        let commits = if let Some(before) = &push.before {
            self.commits_between(&what, &mut budget, before, &push.after).await?
        } else {
            let path = self.api.path(&format!("/commits/{}?per_page=1", segment(&push.after)));
            vec![self.api.get::<Commit>(&what, &mut budget, &path).await?]
        };
        Ok(commits
            .into_iter()
            .map(|commit| PushedCommit {
                sha: commit.sha,
                parents: commit.parents.into_iter().map(|parent| parent.sha).collect(),
                message: commit.text.message,
            })
            .collect())
    }

    async fn with_commit(&self, sha: &str) -> Result<Vec<Candidate>, ForgeError> {
        let what = format!("find the pull requests of the commit {sha}");
        let mut budget = self.api.patience.begin();
        let path = self.api.path(&format!("/commits/{}/pulls", segment(sha)));
        let pulls: Vec<Pull> = self.api.pages(&what, &mut budget, &path, |_| false).await?;
        Ok(pulls.into_iter().map(|pull| pull.candidate(&self.api.repository)).collect())
    }

    async fn candidate(&self, number: u64) -> Result<Option<Candidate>, ForgeError> {
        match self.pull(number).await {
            Ok(pull) => Ok(Some(pull.candidate(&self.api.repository))),
            Err(ForgeError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn own_commits(&self, number: u64) -> Result<Vec<String>, ForgeError> {
        let what = format!("list the commits of #{number}");
        let mut budget = self.api.patience.begin();
        let path = self.api.path(&format!("/pulls/{number}/commits"));
        let commits: Vec<Commit> = self.api.pages(&what, &mut budget, &path, |_| false).await?;
        Ok(commits.into_iter().map(|commit| commit.sha).collect())
    }

    fn named_in(&self, message: &str) -> Option<u64> {
        named_in(message)
    }
}

/// `Merge pull request #7 from …`, or the `(#7)` with which a squash ends its subject.
fn named_in(message: &str) -> Option<u64> {
    let subject = message.lines().next()?.trim_end();
    if let Some(rest) = subject.strip_prefix("Merge pull request #") {
        return rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    }
    subject.strip_suffix(')')?.rsplit_once("(#")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::named_in;

    #[test]
    fn a_merge_and_a_squash_name_their_request() {
        assert_eq!(named_in("Merge pull request #12 from alice/x\n\nTitle (#3)"), Some(12));
        assert_eq!(named_in("Add a network (#7)\n\n* a (#1)"), Some(7));
        assert_eq!(named_in("Revert \"Add (#7)\" (#9)"), Some(9));
        for text in ["", "Fix #7", "(#7) fix", "Fix (#x)", "Fix (#7) again", "Fix (#99999999999999999999999)"] {
            assert_eq!(named_in(text), None, "{text}");
        }
    }
}
