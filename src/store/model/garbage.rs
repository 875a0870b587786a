//! What `kl gc` removes, kind by kind.

use std::time::Duration;

use serde::Serialize;

/// A kind of thing that may go. In this order: what a later kind is may depend on an earlier one being gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GarbageKind {
    /// Runs that began or waited, and that nobody has heard of since: they are ended as `lost`.
    Abandoned,
    /// Checkpoints and workplaces of runs that ended and left no quarantine.
    Checkpoints,
    /// Requests that are closed, or merged and applied, with their projects and comments.
    Requests,
    /// Contents of rows that ended before the history that is kept.
    Lifecycles,
    /// Versions before it that made nothing of what is kept.
    Versions,
    /// Runs that ended and made no version that is kept, with timelines and reservations.
    Runs,
    /// Specs that no run, version or request refers to.
    Specs,
    /// Contents that no row has, or had in the history that is kept.
    Bodies,
}

impl GarbageKind {
    /// All of them, in the order in which they have to be removed.
    pub const ALL: [Self; 8] = [
        Self::Abandoned,
        Self::Checkpoints,
        Self::Requests,
        Self::Lifecycles,
        Self::Versions,
        Self::Runs,
        Self::Specs,
        Self::Bodies,
    ];

    /// What it is, for people.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Abandoned => "runs that began and died (ended as lost)",
            Self::Checkpoints => "checkpoints and workplaces of ended runs",
            Self::Requests => "closed and applied requests",
            Self::Lifecycles => "former contents of rows",
            Self::Versions => "versions",
            Self::Runs => "runs with their timelines",
            Self::Specs => "specs",
            Self::Bodies => "stored contents",
        }
    }
}

/// What stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// What is younger.
    pub younger_than: Duration,
    /// The newest so many versions of each state can be read again, however old; at least one.
    pub versions: u32,
}

/// How much of a kind there is, or was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Garbage {
    /// Things.
    pub count: u64,
    /// Bytes of their long texts, as far as they have any; indexes and rows come on top.
    pub bytes: u64,
}

impl std::ops::AddAssign for Garbage {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.bytes += other.bytes;
    }
}
