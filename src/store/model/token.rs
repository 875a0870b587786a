//! What the store says of the tokens of the HTTP backend.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::domain::id::Actor;
use crate::domain::token::{Role, StatePattern, TokenHash, TokenId, TokenName};

/// A token that begins.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Its public part.
    pub id: TokenId,
    /// What people call it.
    pub name: TokenName,
    /// What it allows.
    pub role: Role,
    /// Which states it opens.
    pub states: StatePattern,
    /// All that is kept of it.
    pub hash: TokenHash,
    /// How long it lasts; none: until it is revoked.
    pub lifetime: Option<Duration>,
    /// Who makes it.
    pub by: Actor,
}

/// What became of a new token.
#[derive(Debug)]
pub enum TokenMade {
    /// It opens what it is meant to.
    Made(StoredToken),
    /// A token that is not revoked has this name.
    NameTaken(TokenId),
}

/// A token, without the token itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// Its public part.
    pub id: TokenId,
    /// What people call it.
    pub name: TokenName,
    /// What it allows.
    pub role: Role,
    /// Which states it opens.
    pub states: StatePattern,
    /// All that is kept of it.
    pub hash: TokenHash,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Who made it.
    pub created_by: Actor,
    /// When it ends by itself.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it last opened something, to the minute.
    pub last_used_at: Option<DateTime<Utc>>,
    /// When it was revoked.
    pub revoked_at: Option<DateTime<Utc>>,
    /// Who revoked it.
    pub revoked_by: Option<Actor>,
    /// The database's time when it was read.
    pub now: DateTime<Utc>,
}

/// Whether a token opens anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenStanding {
    /// It does.
    Valid,
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
}

impl TokenStanding {
    /// The standing in one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl StoredToken {
    /// Whether it opened anything when it was read.
    #[must_use]
    pub fn standing(&self) -> TokenStanding {
        if self.revoked_at.is_some() {
            TokenStanding::Revoked
        } else if self.expires_at.is_some_and(|end| end <= self.now) {
            TokenStanding::Expired
        } else {
            TokenStanding::Valid
        }
    }

    /// Whether its last use is so long ago that it is worth another note.
    #[must_use]
    pub fn unused_for_a_minute(&self) -> bool {
        self.last_used_at.is_none_or(|used| self.now - used >= TimeDelta::minutes(1))
    }
}
