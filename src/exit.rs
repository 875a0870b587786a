//! The exit codes of kl, each with its meaning (design §7). README.md lists the same.

use std::process::{ExitCode, Termination};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// Committed, or there was nothing to do.
    Done = 0,
    /// It failed: Terraform, the database, or kl itself.
    Failed = 1,
    /// Another run's reservation stands in the way.
    Conflict = 2,
    /// Wrong usage, configuration or environment; nothing was touched.
    Usage = 3,
    /// The reviewed plan no longer holds: rows that it read or writes have changed, or planning again gives
    /// something else.
    Stale = 4,
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}
