//! Asking for reservations, what comes of it, and the proof that they are held.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::domain::coordination::reservation::{Blocker, Claim};
use crate::domain::id::{RunId, StateId};
use crate::domain::run::Tools;
use crate::domain::run::event::{Neighbour, RunEvent};
use crate::store::model::Checkpoint;

/// The proof that a run holds its reservations. Only [`Store::reservation_acquire`](super::Store::reservation_acquire) makes one, and a commit takes it,
/// so that committing without a reservation does not compile. That the proof is still good is checked at the commit.
#[derive(Debug)]
pub struct Held {
    run: RunId,
    state: StateId,
    lease: Duration,
    expires_at: DateTime<Utc>,
}

impl Held {
    /// Made where the reservations were granted, and nowhere else.
    pub(in crate::store) fn new(run: RunId, state: StateId, lease: Duration, expires_at: DateTime<Utc>) -> Self {
        Self { run, state, lease, expires_at }
    }

    /// A second handle for renewing the same reservations.
    pub(crate) fn for_renewal(&self) -> Self {
        Self { run: self.run, state: self.state, lease: self.lease, expires_at: self.expires_at }
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> StateId {
        self.state
    }

    /// How long each renewal lasts.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// When the lease ends unless it is renewed, as it was granted.
    #[must_use]
    pub fn expires_at(&self) -> DateTime<Utc> {
        self.expires_at
    }
}

/// What became of a request for reservations.
#[derive(Debug)]
pub enum Acquired {
    /// All of them were granted.
    Granted {
        /// The proof.
        held: Held,
        /// Every other live run on the state, and how it relates; the reason why this was allowed.
        beside: Vec<Neighbour>,
        /// The versions that those runs use.
        tools_beside: Vec<(RunId, Tools)>,
        /// Runs whose ended leases were taken.
        reclaimed: Vec<RunId>,
        /// What is on the run's timeline about it.
        event: RunEvent,
    },
    /// None was granted.
    Blocked {
        /// Every reservation in the way.
        blockers: Vec<Blocker>,
        /// Runs whose ended leases were taken on the way.
        reclaimed: Vec<RunId>,
    },
}

impl Acquired {
    /// Runs whose ended leases were taken.
    #[must_use]
    pub fn reclaimed(&self) -> &[RunId] {
        match self {
            Self::Granted { reclaimed, .. } | Self::Blocked { reclaimed, .. } => reclaimed,
        }
    }
}

/// What became of a request to take over a quarantine.
#[derive(Debug)]
pub enum Takeover {
    /// It was taken over.
    Held {
        /// The proof.
        held: Held,
        /// The checkpoint that went over with it: what was read before may be older.
        checkpoint: Option<Checkpoint>,
    },
    /// Live runs have reserved some of its rows.
    Blocked(Vec<Blocker>),
}

/// A request for reservations.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The run, already recorded by [`Store::run_start`](super::Store::run_start).
    pub run: RunId,
    /// What it wants; all or nothing.
    pub claims: Vec<Claim>,
    /// How long the lease is.
    pub lease: Duration,
    /// Whether to stand in the queue when blocked. A place in it lasts [`QUEUE_TTL`] after the last try.
    pub queue: bool,
}

/// How long a place in the queue survives without another try: a waiter that died must not hold up the others.
pub const QUEUE_TTL: Duration = Duration::from_secs(30);
