//! The forecast: how a spec relates to the claims of another request that may be merged before it (design §6).

use serde::{Deserialize, Serialize};

use crate::domain::address::Pattern;
use crate::domain::coordination::claim_index::ClaimIndex;
use crate::domain::coordination::reservation::{AccessMode, Claim};

/// How two specs relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForecastRelation {
    /// They can be applied at the same time.
    Independent,
    /// The other one reads what we write: it has to plan again after us.
    TheyReadOurs,
    /// We read what the other one writes: we have to plan again after it.
    WeReadTheirs,
    /// Both write the same rows: whoever is second has to plan again.
    BothWrite,
}

/// Two claims that meet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Meeting {
    /// What we claim.
    pub ours: Pattern,
    /// What the other one claims.
    pub theirs: Pattern,
    /// What the meeting amounts to.
    pub relation: ForecastRelation,
}

/// Every meeting of two sets of claims that matters, the worst first; and what they amount to together.
#[must_use]
pub fn forecast(ours: &[Claim], theirs: &[Claim]) -> (ForecastRelation, Vec<Meeting>) {
    let index = ClaimIndex::new(ours);
    let mut meetings = Vec::new();
    for their in theirs {
        for our in index.meeting(&their.pattern) {
            let relation = match (our.mode, their.mode) {
                (AccessMode::Write, AccessMode::Write) => ForecastRelation::BothWrite,
                (AccessMode::Read, AccessMode::Write) => ForecastRelation::WeReadTheirs,
                (AccessMode::Write, AccessMode::Read) => ForecastRelation::TheyReadOurs,
                (AccessMode::Read, AccessMode::Read) => continue,
            };
            meetings.push(Meeting { ours: our.pattern.clone(), theirs: their.pattern.clone(), relation });
        }
    }
    meetings.sort_by(|a, b| b.relation.cmp(&a.relation).then_with(|| (&a.ours, &a.theirs).cmp(&(&b.ours, &b.theirs))));
    meetings.dedup();
    let worst = meetings.first().map_or(ForecastRelation::Independent, |meeting| meeting.relation);
    (worst, meetings)
}
