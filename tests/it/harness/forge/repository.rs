//! What both forges have around a repository's history: requests by their numbers, pushes, and ids.

use std::collections::BTreeMap;

use kl_runner::forge::Push;

use super::history::{Commit, FileChange, History, Merge, Merged, OpenRequest};

/// A request as it stands.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) title: String,
    pub(super) base: String,
    pub(super) branch: String,
    pub(super) head: String,
    /// Where the request's branch left its base.
    pub(super) start: String,
    pub(super) fork: bool,
    pub(super) open: bool,
    pub(super) merged: Option<Merged>,
    pub(super) merged_at: Option<String>,
}

/// A repository with its requests.
pub(crate) struct Repository {
    pub(super) history: History,
    pub(super) requests: BTreeMap<u64, Opened>,
    /// As in the first moments after a merge: no commit is connected with its requests.
    pub(super) unconnected: bool,
    merges: u32,
    last: u64,
}

impl Repository {
    pub(super) fn new() -> Self {
        Self { history: History::new(), requests: BTreeMap::new(), unconnected: false, merges: 0, last: 0 }
    }

    /// An id that nothing has yet.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The number in a path, if there is such a request.
    pub(super) fn numbered(&self, text: &str) -> Option<u64> {
        text.parse().ok().filter(|number| self.requests.contains_key(number))
    }

    /// The commits of a request's own branch, oldest first.
    pub(super) fn own_commits(&self, number: u64) -> Vec<Commit> {
        let request = &self.requests[&number];
        self.history.between(&request.start, &request.head)
    }

    /// The files that a request changes.
    pub(super) fn own_files(&self, number: u64) -> Vec<FileChange> {
        History::files(&self.own_commits(number))
    }

    /// The requests that a commit is connected with: it landed with them, or is one of their own.
    pub(super) fn with_commit(&self, sha: &str) -> Vec<u64> {
        let own = |number: u64| self.own_commits(number).iter().any(|commit| commit.sha == sha);
        let connected = self.requests.iter().filter(|_| !self.unconnected).filter(|(number, request)| {
            request.merged.as_ref().is_some_and(|merged| merged.brought(sha)) || own(**number)
        });
        connected.map(|(number, _)| *number).collect()
    }

    pub(super) fn open(&mut self, request: &OpenRequest) -> u64 {
        let number = self.requests.len() as u64 + 1;
        let branch = format!("change-{number}");
        let start = self.history.resolve(request.from.as_deref().unwrap_or(&request.base)).unwrap();
        let head = self.history.open(request, &branch);
        let opened = Opened {
            title: request.title.clone(),
            base: request.base.clone(),
            branch,
            head,
            start,
            fork: request.fork,
            open: true,
            merged: None,
            merged_at: None,
        };
        self.requests.insert(number, opened);
        number
    }

    /// Merges a request by a commit with this message, and gives the push that it is.
    pub(super) fn merge(&mut self, number: u64, how: Merge, message: &str) -> Push {
        let request = self.requests.get_mut(&number).unwrap();
        let before = self.history.branches[&request.base].clone();
        let merged = self.history.merge(&request.base, &request.head, how, message);
        self.merges += 1;
        let push = Push { branch: request.base.clone(), before: Some(before), after: merged.tip.clone() };
        request.open = false;
        request.merged = Some(merged);
        request.merged_at = Some(format!("2026-01-01T00:{:02}:{:02}Z", self.merges / 60, self.merges % 60));
        push
    }

    pub(super) fn push(&mut self, branch: &str, message: &str, files: &[&str]) -> Push {
        let before = self.history.branches.get(branch).cloned();
        let parent = before.clone().unwrap_or_else(|| self.history.branches["main"].clone());
        let files = files.iter().map(|path| FileChange::of(path)).collect();
        let after = self.history.commit(&[&parent], message, files);
        self.history.branches.insert(branch.into(), after.clone());
        Push { branch: branch.into(), before, after }
    }
}
