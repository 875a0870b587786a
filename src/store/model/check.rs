//! What `kl db check` can find wrong in a database.

use serde::Serialize;

use crate::domain::id::{RunId, Serial};

/// Something that is true of every database that kl alone has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Invariant {
    /// A row has one open lifecycle at most.
    OneOpenLifecycle,
    /// Lifecycles of one row do not overlap.
    LifecyclesApart,
    /// A lifecycle begins and ends with a version.
    LifecycleVersions,
    /// The key of a row is that of its address.
    RowKeys,
    /// Every lifecycle has its content.
    Contents,
    /// A content is the one that its hash is of.
    ContentHashes,
    /// Every version follows the one before it; only an import leaves serials out.
    ConsecutiveSerials,
    /// The serial of a state is that of its newest version.
    NewestSerial,
    /// A version opened and closed as many lifecycles as it says.
    RowCounts,
    /// Nothing is reserved for a run that has ended, except what it left in quarantine.
    ReservationsOfLiveRuns,
    /// No run that has ended waits for reservations.
    WaitersAlive,
    /// What belongs to a run belongs to one that is known.
    KnownRuns,
    /// A run that committed has made its version.
    CommittedRuns,
    /// A run that has ended names the newest version that it made.
    NamedVersions,
    /// What is stored as JSON is JSON.
    Json,
}

impl Invariant {
    /// Its name, as in the JSON of `kl db check`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::OneOpenLifecycle => "one-open-lifecycle",
            Self::LifecyclesApart => "lifecycles-apart",
            Self::LifecycleVersions => "lifecycle-versions",
            Self::RowKeys => "row-keys",
            Self::Contents => "contents",
            Self::ContentHashes => "content-hashes",
            Self::ConsecutiveSerials => "consecutive-serials",
            Self::NewestSerial => "newest-serial",
            Self::RowCounts => "row-counts",
            Self::ReservationsOfLiveRuns => "reservations-of-live-runs",
            Self::WaitersAlive => "waiters-alive",
            Self::KnownRuns => "known-runs",
            Self::CommittedRuns => "committed-runs",
            Self::NamedVersions => "named-versions",
            Self::Json => "json",
        }
    }

    /// What to do about it, in a sentence.
    #[must_use]
    pub fn next(self) -> &'static str {
        match self {
            Self::OneOpenLifecycle | Self::LifecyclesApart | Self::LifecycleVersions | Self::RowKeys => {
                "let no job apply to this state, and restore the database from a backup"
            }
            Self::Contents | Self::ContentHashes => {
                "what the row holds is lost or altered: restore the database from a backup"
            }
            Self::ConsecutiveSerials | Self::NewestSerial | Self::RowCounts | Self::CommittedRuns => {
                "a version was removed or added by other hands: restore the database from a backup"
            }
            Self::NamedVersions => {
                "`kl explain` tells of the run what its versions say; set `result_serial` of its row in runs to the newest one"
            }
            Self::ReservationsOfLiveRuns | Self::WaitersAlive => {
                "look at `kl show` of the run; if all that it did is in the state, set `released_at` of its rows in \
                 resource_reservations"
            }
            Self::KnownRuns => "the run was removed by other hands: restore the database from a backup",
            Self::Json => "the text was altered by other hands: restore the database from a backup",
        }
    }
}

/// One thing that is not as it has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What does not hold.
    pub invariant: Invariant,
    /// The name of the state that it is about, as it stands in the database.
    pub state: Option<String>,
    /// The run that it is about.
    pub run: Option<RunId>,
    /// The row, or whatever else the table holds.
    pub subject: Option<String>,
    /// The serial.
    pub serial: Option<Serial>,
    /// What is wrong, in a sentence without a value of an attribute.
    pub problem: String,
}

/// How much was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Looked {
    /// States.
    pub states: u64,
    /// Versions.
    pub versions: u64,
    /// Lifecycles of rows.
    pub lifecycles: u64,
    /// Contents of rows.
    pub contents: u64,
    /// Runs.
    pub runs: u64,
}

/// The outcome of a check.
#[derive(Debug, Clone, Default)]
pub struct CheckReport {
    /// What was found, invariant by invariant; nothing when the database is sound.
    pub violations: Vec<Violation>,
    /// Invariants with so many violations that not all are told.
    pub more: Vec<Invariant>,
    /// How much was looked at.
    pub looked: Looked,
}

impl CheckReport {
    /// So many violations of one invariant are told.
    pub const MOST: usize = 1_000;

    /// Adds a violation, unless there are too many of its kind.
    pub(in crate::store) fn add(&mut self, violation: Violation) {
        let invariant = violation.invariant;
        if self.violations.iter().filter(|one| one.invariant == invariant).count() < Self::MOST {
            self.violations.push(violation);
        } else if !self.more.contains(&invariant) {
            self.more.push(invariant);
        }
    }

    /// Whether everything is as it has to be.
    #[must_use]
    pub fn sound(&self) -> bool {
        self.violations.is_empty()
    }
}
