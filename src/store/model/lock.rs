//! What the store says of the locks of plain Terraforms.

use super::Committed;
use crate::domain::coordination::lock::LockId;
use crate::domain::coordination::reservation::Blocker;
use crate::domain::id::{Actor, RunId};

/// A lock that a plain Terraform holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainLock {
    /// The run that stands for it.
    pub run: RunId,
    /// The id that Terraform gave it.
    pub id: LockId,
    /// Who holds it.
    pub holder: Actor,
}

/// What became of a request for a lock.
#[derive(Debug)]
pub enum LockTaken {
    /// It is held, by this run.
    Granted(RunId),
    /// Others have reserved something.
    Blocked {
        /// Every reservation in the way.
        blockers: Vec<Blocker>,
        /// The plain lock among them.
        lock: Option<PlainLock>,
    },
}

/// What became of a write under a lock.
#[derive(Debug)]
pub enum LockWrite {
    /// It is a new version.
    Committed(Committed),
    /// Nobody holds a lock.
    NotLocked,
    /// Another lock is held.
    Other(PlainLock),
}

/// What became of a write for which the lock was taken and given back at once.
#[derive(Debug)]
pub enum LockOnce {
    /// It is a new version, and the lock is free.
    Committed(Committed),
    /// Others have reserved something.
    Blocked {
        /// Every reservation in the way.
        blockers: Vec<Blocker>,
        /// The plain lock among them.
        lock: Option<PlainLock>,
    },
}

/// How a lock ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockEnd {
    /// Its holder gives it back.
    Returned(LockId),
    /// Its holder ended and left it.
    LeftBehind(LockId),
    /// Whoever waited for it in the queue has ended.
    GivenUp(LockId),
    /// Somebody takes it away, whoever holds it: `terraform force-unlock`.
    Forced,
}

/// What became of a request to end a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockFreed {
    /// This run holds it no longer.
    Freed(RunId),
    /// There is no lock; and of this id, where one was given back, there never was one.
    NotLocked,
    /// This run had it, and it was taken away before.
    TakenAway(RunId),
    /// Another lock is held.
    Other(PlainLock),
}
