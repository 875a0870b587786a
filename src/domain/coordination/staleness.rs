//! What changed since a plan, sorted by what it means for the plan (design §8).

use crate::domain::address::Pattern;
use crate::domain::coordination::claim_index::ClaimIndex;
use crate::domain::coordination::reservation::{AccessMode, Claim};
use crate::domain::run::event::ChangedRow;
use crate::domain::state::RowKey;

/// Something about rows that changed since a plan's serial, in three classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sorted<R> {
    /// Neither read nor written by the plan.
    pub outside: Vec<R>,
    /// Read by the plan.
    pub read: Vec<R>,
    /// Written by the plan.
    pub write: Vec<R>,
}

/// Rows that changed since a plan's serial, in three classes.
pub type Staleness = Sorted<ChangedRow>;

impl<R> Sorted<R> {
    /// Whether nobody has touched the plan's own rows.
    #[must_use]
    pub fn fresh(&self) -> bool {
        self.read.is_empty() && self.write.is_empty()
    }

    /// All of them, those first that matter most to the plan.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.write.iter().chain(&self.read).chain(&self.outside)
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut R> {
        self.write.iter_mut().chain(&mut self.read).chain(&mut self.outside)
    }

    /// Something else about each of them.
    #[must_use]
    pub fn map<S>(self, mut to: impl FnMut(R) -> S) -> Sorted<S> {
        Sorted {
            write: self.write.into_iter().map(&mut to).collect(),
            read: self.read.into_iter().map(&mut to).collect(),
            outside: self.outside.into_iter().map(&mut to).collect(),
        }
    }
}

impl<R> Default for Sorted<R> {
    fn default() -> Self {
        Self { outside: Vec::new(), read: Vec::new(), write: Vec::new() }
    }
}

/// Sorts changed rows against the claims of a plan.
///
/// Data rows and check results never make a plan stale: the apply reads data sources again by itself, and comparing
/// the new plan with the reviewed one catches what that changes.
#[must_use]
pub fn classify<R>(claims: &[Claim], changed: impl IntoIterator<Item = (RowKey, R)>) -> Sorted<R> {
    let index = ClaimIndex::new(claims);
    let mut sorted = Sorted::default();
    for (key, row) in changed {
        let pattern = key.pattern().filter(|pattern| !pattern.is_data());
        match pattern.and_then(|pattern| strongest(&index, &pattern)) {
            Some(AccessMode::Write) => sorted.write.push(row),
            Some(AccessMode::Read) => sorted.read.push(row),
            None => sorted.outside.push(row),
        }
    }
    sorted
}

fn strongest(index: &ClaimIndex<'_>, pattern: &Pattern) -> Option<AccessMode> {
    index.meeting(pattern).map(|claim| claim.mode).max()
}
