//! Which requests a push merged: commits to requests, whatever way of merging there was.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use async_trait::async_trait;

use super::error::ForgeError;
use super::{Push, RequestInfo};
use crate::domain::request::RequestPhase;

/// So many commits are looked up at most: each is a question to the forge, and its rate limit is everybody's.
const MAX_LOOKUPS: usize = 300;

/// A push of so few commits is looked up whole; in a longer one, what a merge commit brought along is not.
const FEW: usize = 30;

/// A commit that a push brought.
#[derive(Debug, Clone)]
pub(super) struct PushedCommit {
    pub(super) sha: String,
    pub(super) parents: Vec<String>,
    pub(super) message: String,
}

/// A request that may have been merged by a push.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) info: RequestInfo,
    /// Whether it was to be merged into this repository.
    pub(super) here: bool,
    /// The commits as which it landed on its base branch, as far as the forge says.
    pub(super) landed: Vec<String>,
}

/// What has to be known of a repository.
#[async_trait]
pub(super) trait Repository: Sync {
    /// The commits of a push, oldest first; only the last one for a new branch.
    async fn pushed(&self, push: &Push) -> Result<Vec<PushedCommit>, ForgeError>;

    /// The requests that a commit belongs to; those that were merged, at least.
    async fn with_commit(&self, sha: &str) -> Result<Vec<Candidate>, ForgeError>;

    /// One request; none when there is none by that number.
    async fn candidate(&self, number: u64) -> Result<Option<Candidate>, ForgeError>;

    /// The commits of a request's own branch.
    async fn own_commits(&self, number: u64) -> Result<Vec<String>, ForgeError>;

    /// The request that a commit message says it merges.
    fn named_in(&self, message: &str) -> Option<u64>;
}

/// The requests that a push merged into its branch, in the order in which they landed there.
pub(super) async fn merged_by(repository: &dyn Repository, push: &Push) -> Result<Vec<RequestInfo>, ForgeError> {
    let commits = repository.pushed(push).await?;
    let place: HashMap<&str, usize> =
        commits.iter().enumerate().map(|(index, commit)| (commit.sha.as_str(), index)).collect();
    // The branch's own line first, newest first: nearly always, that is where requests land.
    let line = first_parents(&commits, &place, &push.after);
    let on_line: BTreeSet<usize> = line.iter().copied().collect();
    let order = line.into_iter().chain((0..commits.len()).rev().filter(|index| !on_line.contains(index)));

    let mut found: BTreeMap<u64, (usize, RequestInfo)> = BTreeMap::new();
    let mut explained: BTreeSet<String> = BTreeSet::new();
    let mut lookups = 0;
    for index in order {
        let commit = &commits[index];
        if explained.contains(&commit.sha) {
            continue;
        }
        lookups += 1;
        if lookups > MAX_LOOKUPS {
            return Err(ForgeError::Incomplete {
                what: format!("find the requests that were merged by the push of {}", push.after),
                message: format!("it brought {} commits, too many to look up each; name the request", commits.len()),
            });
        }
        let mut candidates = repository.with_commit(&commit.sha).await?;
        candidates.retain(|candidate| landed_here(candidate, push, &place));
        if candidates.is_empty()
            && on_line.contains(&index)
            && let Some(number) = repository.named_in(&commit.message)
            && !found.contains_key(&number)
        {
            // A message is anybody's text: what it says counts only when the forge confirms it.
            candidates.extend(repository.candidate(number).await?.filter(|it| landed_here(it, push, &place)));
        }
        for candidate in candidates {
            let at = landing(&candidate).filter_map(|sha| place.get(sha).copied()).max().unwrap_or(index).max(index);
            let number = candidate.info.number;
            let new = !found.contains_key(&number);
            let entry = found.entry(number).or_insert((at, candidate.info));
            entry.0 = entry.0.max(at);
            // A merge commit brought the request's own commits with it: they need no questions of their own.
            if new && commit.parents.len() > 1 && commits.len() > FEW {
                explained.extend(repository.own_commits(number).await?);
            }
        }
    }
    let mut found: Vec<(usize, RequestInfo)> = found.into_values().collect();
    found.sort_by_key(|(at, request)| (*at, request.number));
    Ok(found.into_iter().map(|(_, request)| request).collect())
}

/// The open requests whose commits, or whose merge as a queue tries it, are in a group.
pub(super) async fn grouped_in(repository: &dyn Repository, group: &Push) -> Result<Vec<RequestInfo>, ForgeError> {
    let commits = repository.pushed(group).await?;
    if commits.len() > MAX_LOOKUPS {
        return Err(ForgeError::Incomplete {
            what: format!("find the requests of the group {}", group.after),
            message: format!("it has {} commits, too many to look up each", commits.len()),
        });
    }
    let waits = |candidate: &Candidate| {
        candidate.info.phase == RequestPhase::Open && candidate.here && candidate.info.base_branch == group.branch
    };
    let mut found: BTreeMap<u64, RequestInfo> = BTreeMap::new();
    for commit in &commits {
        let mut candidates = repository.with_commit(&commit.sha).await?;
        // A queue that squashes makes a commit that belongs to no request yet, and names its request.
        if let Some(number) = repository.named_in(&commit.message).filter(|number| !found.contains_key(number)) {
            candidates.extend(repository.candidate(number).await?);
        }
        for candidate in candidates.into_iter().filter(waits) {
            found.entry(candidate.info.number).or_insert(candidate.info);
        }
    }
    Ok(found.into_values().collect())
}

/// From the newest commit back along first parents, as far as the push goes.
fn first_parents(commits: &[PushedCommit], place: &HashMap<&str, usize>, after: &str) -> Vec<usize> {
    let mut line = Vec::new();
    let mut next = place.get(after).copied();
    while let Some(index) = next {
        // A forge that gives a circle is not followed for ever.
        if line.len() > commits.len() {
            break;
        }
        line.push(index);
        next = commits[index].parents.first().and_then(|parent| place.get(parent.as_str()).copied());
    }
    line
}

/// The commits as which it landed; its head when the forge names none, as after a fast-forward.
fn landing(candidate: &Candidate) -> impl Iterator<Item = &str> {
    let head = candidate.landed.is_empty().then_some(candidate.info.head.as_str());
    candidate.landed.iter().map(String::as_str).chain(head)
}

/// Whether a request was merged into this branch, by this push and no other. A commit of an earlier request can come
/// in once more, through a branch that was built on it: that request landed as another commit.
fn landed_here(candidate: &Candidate, push: &Push, place: &HashMap<&str, usize>) -> bool {
    candidate.info.phase == RequestPhase::Merged
        && candidate.here
        && candidate.info.base_branch == push.branch
        && landing(candidate).any(|sha| place.contains_key(sha))
}
