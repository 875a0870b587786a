//! What changed since a plan, sorted by what it means for the plan (design §8).

use crate::domain::address::Pattern;
use crate::domain::coordination::claim_index::ClaimIndex;
use crate::domain::coordination::reservation::{AccessMode, Claim};
use crate::domain::run::event::ChangedRow;
use crate::domain::state::RowKey;

/// Rows that changed since a plan's serial, in three classes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Staleness {
    /// Neither read nor written by the plan.
    pub outside: Vec<ChangedRow>,
    /// Read by the plan.
    pub read: Vec<ChangedRow>,
    /// Written by the plan.
    pub write: Vec<ChangedRow>,
}

impl Staleness {
    /// Whether the plan's own rows are as it saw them.
    #[must_use]
    pub fn fresh(&self) -> bool {
        self.read.is_empty() && self.write.is_empty()
    }
}

/// Sorts changed rows against the claims of a plan.
///
/// Data rows and check results never make a plan stale: the apply reads data sources again by itself, and comparing
/// the new plan with the reviewed one catches what that changes.
#[must_use]
pub fn classify(claims: &[Claim], changed: Vec<(RowKey, ChangedRow)>) -> Staleness {
    let index = ClaimIndex::new(claims);
    let mut sorted = Staleness::default();
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
