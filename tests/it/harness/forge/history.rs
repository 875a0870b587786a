//! A repository as a forge knows it: commits with parents and changed files, branches, and the ways of merging.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A file that a commit changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileChange {
    pub(crate) path: String,
    pub(crate) previous: Option<String>,
}

impl FileChange {
    /// A changed file.
    pub(crate) fn of(path: &str) -> Self {
        Self { path: path.into(), previous: None }
    }

    /// A renamed file.
    pub(crate) fn renamed(from: &str, to: &str) -> Self {
        Self { path: to.into(), previous: Some(from.into()) }
    }
}

/// How a request is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Merge {
    /// A merge commit.
    Commit,
    /// One commit with everything.
    Squash,
    /// The request's commits, made anew on top of the branch.
    Rebase,
    /// The branch moves to the request's head; GitLab only.
    FastForward,
}

/// A request to open: its title and its commits, each with the files that it changes.
#[derive(Debug, Clone)]
pub(crate) struct OpenRequest {
    pub(crate) title: String,
    pub(crate) base: String,
    pub(crate) commits: Vec<Vec<FileChange>>,
    pub(crate) fork: bool,
    /// The branch or commit that it starts from; the base by default.
    pub(crate) from: Option<String>,
}

impl OpenRequest {
    /// A request with one commit that changes these files.
    pub(crate) fn new(title: &str, files: &[&str]) -> Self {
        let files = files.iter().map(|path| FileChange::of(path)).collect();
        Self { title: title.into(), base: "main".into(), commits: vec![files], fork: false, from: None }
    }

    /// With one more commit.
    pub(crate) fn commit(mut self, files: &[&str]) -> Self {
        self.commits.push(files.iter().map(|path| FileChange::of(path)).collect());
        self
    }

    /// With one more change in its last commit.
    pub(crate) fn change(mut self, change: FileChange) -> Self {
        self.commits.last_mut().unwrap().push(change);
        self
    }

    /// From somebody else's repository.
    pub(crate) fn out_of_fork(mut self) -> Self {
        self.fork = true;
        self
    }

    /// To another branch.
    pub(crate) fn into_branch(mut self, base: &str) -> Self {
        self.base = base.into();
        self
    }

    /// Built on another branch or commit than its base.
    pub(crate) fn built_on(mut self, from: &str) -> Self {
        self.from = Some(from.into());
        self
    }
}

#[derive(Debug, Clone)]
pub(super) struct Commit {
    pub(super) sha: String,
    pub(super) parents: Vec<String>,
    pub(super) message: String,
    pub(super) files: Vec<FileChange>,
}

/// What a merge did.
#[derive(Debug)]
pub(super) struct Merged {
    /// Where the base branch is now.
    pub(super) tip: String,
    /// The request's commits as they are on the base branch, if they are others.
    pub(super) copies: Vec<String>,
    /// The commit that squashed them.
    pub(super) squash: Option<String>,
    /// The merge commit.
    pub(super) merge: Option<String>,
}

impl Merged {
    /// Whether it brought this commit to the base branch.
    pub(super) fn brought(&self, sha: &str) -> bool {
        self.tip == sha || self.copies.iter().any(|copy| copy == sha)
    }
}

#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) commits: BTreeMap<String, Commit>,
    pub(super) branches: BTreeMap<String, String>,
    names: VecDeque<String>,
}

impl History {
    pub(super) fn new() -> Self {
        let mut history = Self::default();
        let root = history.commit(&[], "Begin", vec![FileChange::of("README.md")]);
        history.branches.insert("main".into(), root);
        history
    }

    /// The next commits get these names, as a real repository has given them.
    pub(super) fn name_next(&mut self, names: &[&str]) {
        self.names.extend(names.iter().map(|name| (*name).to_owned()));
    }

    pub(super) fn commit(&mut self, parents: &[&str], message: &str, files: Vec<FileChange>) -> String {
        let number = self.commits.len() as u64 + 1;
        let sha = self
            .names
            .pop_front()
            .unwrap_or_else(|| format!("{:016x}{number:024x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let parents = parents.iter().map(|parent| (*parent).to_owned()).collect();
        let commit = Commit { sha: sha.clone(), parents, message: message.into(), files };
        self.commits.insert(sha.clone(), commit);
        sha
    }

    /// A branch's commit, or the commit itself.
    pub(super) fn resolve(&self, name: &str) -> Option<String> {
        self.branches.get(name).cloned().or_else(|| self.commits.contains_key(name).then(|| name.to_owned()))
    }

    pub(super) fn ancestry(&self, sha: &str) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let mut queue = vec![sha.to_owned()];
        while let Some(sha) = queue.pop() {
            if seen.insert(sha.clone())
                && let Some(commit) = self.commits.get(&sha)
            {
                queue.extend(commit.parents.iter().cloned());
            }
        }
        seen
    }

    /// What is in `to` and not in `from`, parents before children.
    pub(super) fn between(&self, from: &str, to: &str) -> Vec<Commit> {
        let known = self.ancestry(from);
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        // A stack instead of recursion: histories of thousands of commits are tested.
        let mut stack = vec![(to.to_owned(), false)];
        while let Some((sha, parents_done)) = stack.pop() {
            if known.contains(&sha) {
                continue;
            }
            if parents_done {
                order.push(self.commits[&sha].clone());
            } else if seen.insert(sha.clone()) {
                stack.push((sha.clone(), true));
                stack.extend(self.commits[&sha].parents.iter().rev().map(|parent| (parent.clone(), false)));
            }
        }
        order
    }

    /// The files that the commits change, each once.
    pub(super) fn files(commits: &[Commit]) -> Vec<FileChange> {
        // A merge commit repeats what it brings.
        commits.iter().flat_map(|commit| commit.files.iter().cloned()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Makes a request's commits, and gives the one at its head.
    pub(super) fn open(&mut self, request: &OpenRequest, branch: &str) -> String {
        let mut head = self.resolve(request.from.as_deref().unwrap_or(&request.base)).unwrap();
        for (index, files) in request.commits.iter().enumerate() {
            head = self.commit(&[&head], &format!("{} {}", request.title, index + 1), files.clone());
        }
        self.branches.insert(branch.into(), head.clone());
        head
    }

    pub(super) fn merge(&mut self, base: &str, head: &str, how: Merge, subject: &str) -> Merged {
        let tip = self.branches[base].clone();
        let commits = self.between(&tip, head);
        let files = Self::files(&commits);
        let mut merged = Merged { tip: String::new(), copies: Vec::new(), squash: None, merge: None };
        merged.tip = match how {
            Merge::Commit => {
                let sha = self.commit(&[&tip, head], subject, files);
                merged.merge = Some(sha.clone());
                sha
            }
            Merge::Squash => {
                let sha = self.commit(&[&tip], subject, files);
                merged.squash = Some(sha.clone());
                sha
            }
            Merge::Rebase | Merge::FastForward => {
                let on_top = how == Merge::FastForward && self.ancestry(head).contains(&tip);
                if on_top {
                    head.to_owned()
                } else {
                    let mut top = tip;
                    for commit in commits {
                        top = self.commit(&[&top], &commit.message, commit.files.clone());
                        merged.copies.push(top.clone());
                    }
                    top
                }
            }
        };
        self.branches.insert(base.into(), merged.tip.clone());
        merged
    }
}
