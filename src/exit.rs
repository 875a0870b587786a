//! The exit codes of kl, each with its meaning (design §7). README.md lists the same.

use std::process::{ExitCode, Termination};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// Committed, or there was nothing to do.
    Done,
    /// It failed: Terraform, the database, or kl itself.
    Failed,
    /// Another run's reservation stands in the way.
    Conflict,
    /// Wrong usage, configuration or environment; nothing was touched.
    Usage,
    /// The reviewed plan no longer holds: rows that it read or writes have changed, or planning again gives
    /// something else.
    Stale,
    /// What the command said that `kl exec` has run.
    Command(u8),
}

impl Exit {
    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Conflict => 2,
            Self::Usage => 3,
            Self::Stale => 4,
            Self::Command(code) => code,
        }
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self.code())
    }
}
