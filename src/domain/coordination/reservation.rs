//! Reservations: modes, who stands in whose way, and what a refused request has to say.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::claim_index::ClaimIndex;
use crate::domain::address::Pattern;
use crate::domain::id::{Actor, RunId};
use crate::domain::run::Origin;

/// What a reservation allows its run to do with the rows that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessMode {
    /// The run uses the rows' values.
    Read,
    /// The run changes the rows.
    Write,
}

/// One pattern that a run asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Claim {
    /// The rows.
    pub pattern: Pattern,
    /// What for.
    pub mode: AccessMode,
}

/// Why a reservation exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldAs {
    /// A live run works on the rows; the lease ends it if the run does not.
    Run,
    /// A failed run changed the real objects and the trunk does not know them yet: `kl recover RUN`.
    Quarantine,
    /// A plain `terraform` holds its whole-state lock.
    Lock,
}

/// A reservation as it stands in the store: granted, or waiting for its turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The run that holds it or waits for it.
    pub run: RunId,
    /// Who runs it.
    pub holder: Actor,
    /// The CI job and request that the run came from.
    pub origin: Origin,
    /// What it covers, and how.
    pub claim: Claim,
    /// Why it exists.
    pub held_as: HeldAs,
    /// When it was asked for, by the database's clock.
    pub asked_at: DateTime<Utc>,
    /// When it was granted; none while it waits.
    pub acquired_at: Option<DateTime<Utc>>,
    /// When the lease ends; none for a reservation without one.
    pub expires_at: Option<DateTime<Utc>>,
    /// The place in the queue: lower asked earlier.
    pub ticket: i64,
}

/// A reservation that stands in the way of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocker {
    /// What is in the way.
    pub reservation: Reservation,
    /// The claims of the request that met it.
    pub met: Vec<Claim>,
    /// The database's time when they met; from it come "held for" and "expires in".
    pub at: DateTime<Utc>,
}

/// How another live run relates to a request that was granted beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// No pattern of one meets a pattern of the other.
    Disjoint,
    /// Both read some of the same rows.
    SharedReads,
}

impl AccessMode {
    /// The matrix of design §6: only two reads go together.
    #[must_use]
    pub fn conflicts_with(self, other: Self) -> bool {
        !(self == Self::Read && other == Self::Read)
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

impl Claim {
    /// A claim to change rows.
    #[must_use]
    pub fn write(pattern: Pattern) -> Self {
        Self { pattern, mode: AccessMode::Write }
    }

    /// A claim to use rows.
    #[must_use]
    pub fn read(pattern: Pattern) -> Self {
        Self { pattern, mode: AccessMode::Read }
    }

    /// Whether the two cannot be held by different runs at once.
    #[must_use]
    pub fn conflicts_with(&self, other: &Self) -> bool {
        self.mode.conflicts_with(other.mode) && self.pattern.intersects(&other.pattern)
    }
}

/// The reservations that stand in the way of `asked` by `run`, each with the claims that met it.
///
/// A granted reservation blocks when it conflicts. One that waits blocks only those that asked later (`ticket`), so
/// that requests are served in order of arrival. A run never blocks itself.
#[must_use]
pub fn blockers(run: RunId, ticket: i64, asked: &[Claim], standing: &[Reservation], at: DateTime<Utc>) -> Vec<Blocker> {
    let index = ClaimIndex::new(asked);
    let in_the_way = |other: &&Reservation| other.run != run && (other.acquired_at.is_some() || other.ticket < ticket);
    let mut found = Vec::new();
    for other in standing.iter().filter(in_the_way) {
        let met: Vec<Claim> = index
            .meeting(&other.claim.pattern)
            .filter(|claim| claim.mode.conflicts_with(other.claim.mode))
            .cloned()
            .collect();
        if !met.is_empty() {
            found.push(Blocker { reservation: other.clone(), met, at });
        }
    }
    found
}

/// How two sets of claims that do not conflict relate.
#[must_use]
pub fn relation(ours: &[Claim], theirs: &[Claim]) -> Relation {
    let index = ClaimIndex::new(ours);
    let meets = theirs.iter().any(|claim| index.meeting(&claim.pattern).next().is_some());
    if meets { Relation::SharedReads } else { Relation::Disjoint }
}
