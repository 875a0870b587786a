//! Values that go into the store and come out of it.

mod check;
mod garbage;
mod lock;
mod request;
mod token;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::domain::address::Pattern;
use crate::domain::id::{Actor, Lineage, RunId, Serial, SpecId, StateId, StateName};
use crate::domain::run::event::RunEvent;
use crate::domain::run::{Origin, RunStatus};
use crate::domain::state::document::DocumentHead;
use crate::domain::state::{Body, ContentHash, Row, RowKey};

pub use crate::domain::state::Touched;
pub use check::{CheckReport, Invariant, Looked, Violation};
pub use garbage::{Garbage, GarbageKind, Retention};
pub use lock::{LockEnd, LockFreed, LockOnce, LockTaken, LockWrite, PlainLock};
pub use request::{
    ApplyRecord, ApplyResult, CommentLock, Noted, OpenSpec, PlanOutcome, PlanRecord, PlanResult, PostedComment,
    ProjectPlace, ProjectRecord, RequestFacts, RequestQuery, SpecAt, StoredRequest,
};
pub use token::{NewToken, StoredToken, TokenMade, TokenStanding};

/// A state without its rows.
#[derive(Debug, Clone)]
pub struct StateHead {
    /// Its id.
    pub id: StateId,
    /// Its name.
    pub name: StateName,
    /// Its lineage; none before the first version.
    pub lineage: Option<Lineage>,
    /// The serial of its newest version; 0 when there is none.
    pub serial: Serial,
    /// The key for digests of values (design §5); never leaves the process.
    pub secret: SecretString,
}

/// A state at one serial.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The state; `serial` is that of the snapshot.
    pub head: StateHead,
    /// The document's other members at that serial.
    pub document: DocumentHead,
    /// Provider versions recorded with that version.
    pub providers: BTreeMap<String, String>,
    /// The rows, ordered by their key, each with the serial since when it has this content.
    pub rows: Vec<(Row, Serial)>,
}

impl Snapshot {
    /// The rows alone.
    #[must_use]
    pub fn contents(&self) -> Vec<Row> {
        self.rows.iter().map(|(row, _)| row.clone()).collect()
    }

    /// The empty state that a plan was made from before the state had a version, whatever it has now.
    #[must_use]
    pub fn before_any_version(head: StateHead) -> Self {
        Self {
            head: StateHead { lineage: None, serial: Serial(0), ..head },
            document: DocumentHead::default(),
            providers: BTreeMap::new(),
            rows: Vec::new(),
        }
    }
}

/// A row that changed after some serial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChange {
    /// Which row.
    pub key: RowKey,
    /// The newest version that touched it.
    pub newest: RowStep,
    /// The versions since that serial that touched it before, the oldest first.
    pub earlier: Vec<RowStep>,
    /// Whether it is as it was at that serial: it has the same content, or was not there then and is not now.
    pub back: bool,
}

impl RowChange {
    /// Whether the row is gone now.
    #[must_use]
    pub fn gone(&self) -> bool {
        self.newest.touched == Touched::Removed
    }

    /// All versions that touched it, the oldest first.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &RowStep> {
        self.earlier.iter().chain([&self.newest])
    }
}

/// What one version did to a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowStep {
    /// What.
    pub touched: Touched,
    /// The version, without its rows.
    pub version: Arc<Version>,
}

/// How a version came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `kl apply`.
    Apply,
    /// `kl refresh`.
    Refresh,
    /// `kl state import`.
    Import,
    /// `kl recover`.
    Recover,
    /// A plain `terraform`, by way of the HTTP backend.
    Http,
    /// `kl state rollback`.
    Rollback,
    /// `kl state rm`.
    Remove,
    /// `kl state mv`.
    Move,
}

impl Source {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Refresh => "refresh",
            Self::Import => "import",
            Self::Recover => "recover",
            Self::Http => "http",
            Self::Rollback => "rollback",
            Self::Remove => "remove",
            Self::Move => "move",
        }
    }
}

/// How a version was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommitMode {
    /// The rows that a plan changed.
    RowDelta,
    /// A whole document, compared with the trunk.
    Snapshot,
    /// Rows as they were at an earlier serial.
    Rollback,
    /// Rows as they are in reality.
    Refresh,
    /// Rows as an earlier run had left them.
    Recover,
}

impl CommitMode {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::RowDelta => "row-delta",
            Self::Snapshot => "snapshot",
            Self::Rollback => "rollback",
            Self::Refresh => "refresh",
            Self::Recover => "recover",
        }
    }
}

/// One committed version of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Its serial.
    pub serial: Serial,
    /// The serial that the run's plan was made from.
    pub source_serial: Serial,
    /// When, by the database's clock.
    pub at: DateTime<Utc>,
    /// Who.
    pub actor: Actor,
    /// From where.
    pub origin: Origin,
    /// The run.
    pub run: Option<RunId>,
    /// The spec.
    pub spec: Option<SpecId>,
    /// How it came to be.
    pub source: Source,
    /// How it was written.
    pub mode: CommitMode,
    /// The Terraform version of the document.
    pub terraform_version: String,
    /// Rows that got a new content, or are new.
    pub rows_opened: i64,
    /// Rows whose former content ended.
    pub rows_closed: i64,
    /// Rows that it changed, each once: new, with a new content, or gone.
    pub rows_touched: i64,
    /// What changed: addresses, each with `created`, `changed` or `removed`.
    pub rows: Vec<(RowKey, Touched)>,
}

/// Which runs to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunQuery {
    /// Only of this state; none: of all.
    pub state: Option<StateId>,
    /// Only those that began then or later.
    pub since: Option<DateTime<Utc>>,
    /// Only those that come behind this one, by its beginning and its id: the next page.
    pub before: Option<(DateTime<Utc>, RunId)>,
    /// Only with this status.
    pub status: Option<RunStatus>,
    /// Only of this actor, compared exactly.
    pub actor: Option<Actor>,
    /// Only from the request with this number, of whatever repository.
    pub request: Option<u64>,
    /// At most so many.
    pub limit: u32,
}

/// A place in the rows of a trunk, ordered by address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowMark {
    /// The text of the address.
    pub address: String,
    /// What tells rows of one address apart; the largest number stands behind them all.
    pub number: i64,
}

/// Which rows of a trunk to tell with their versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginQuery {
    /// Only rows that this meets; the results of checks belong to the whole state alone.
    pub within: Pattern,
    /// Only rows behind this place: the next page.
    pub after: Option<RowMark>,
    /// Only rows that got their content then or later.
    pub since: Option<DateTime<Utc>>,
    /// At most so many.
    pub limit: u32,
}

/// A row of the trunk and the version that gave it its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowOrigin {
    /// Which row.
    pub key: RowKey,
    /// Its place: where the next page goes on.
    pub mark: RowMark,
    /// The version, without its rows.
    pub version: Version,
}

/// Which versions to list.
#[derive(Debug, Clone, Copy)]
pub struct VersionQuery {
    /// Only versions before this serial: paging.
    pub before: Option<Serial>,
    /// Only versions from then on.
    pub since: Option<DateTime<Utc>>,
    /// At most so many.
    pub limit: u32,
    /// Whether to fill [`Version::rows`].
    pub with_rows: bool,
}

/// A spec to store.
#[derive(Debug, Clone)]
pub struct NewSpec {
    /// Its id.
    pub id: SpecId,
    /// The state.
    pub state: StateId,
    /// The serial that it was planned at.
    pub source_serial: Serial,
    /// Who planned it.
    pub actor: Actor,
    /// From where.
    pub origin: Origin,
    /// The digest of the document.
    pub digest: String,
    /// The canonical text of `kl-plan.json`.
    pub document: String,
}

/// A stored spec.
#[derive(Debug, Clone)]
pub struct StoredSpec {
    /// As it was stored.
    pub spec: NewSpec,
    /// When, by the database's clock.
    pub created_at: DateTime<Utc>,
}

/// What Terraform has done so far in a run that has not committed.
#[derive(Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The slice's state document as Terraform last wrote it. Holds secrets.
    pub state: String,
    /// Rows that differ from the slice that the run started with: what a quarantine has to cover.
    pub changed: Vec<Pattern>,
    /// Addresses that Terraform was working on.
    pub in_flight: Vec<String>,
    /// The serial of the trunk that the slice was cut from; none where it is not known.
    pub slice_serial: Option<Serial>,
}

impl Checkpoint {
    /// The rows whose change is in the state document. What was in flight is only kept reserved.
    #[must_use]
    pub fn recorded(&self) -> BTreeSet<String> {
        let changed = self.changed.iter().map(ToString::to_string);
        changed.filter(|address| !self.in_flight.contains(address)).collect()
    }
}

impl std::fmt::Debug for Checkpoint {
    /// The state document holds secrets: only what is around it is shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint")
            .field("changed", &self.changed)
            .field("in_flight", &self.in_flight)
            .field("slice_serial", &self.slice_serial)
            .finish_non_exhaustive()
    }
}

/// A change of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowWrite {
    /// Which row.
    pub key: RowKey,
    /// Its new content; none ends it.
    pub body: Option<Body>,
}

/// A change of a row outside the write set, made only where the trunk still has what the run saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoftWrite {
    /// The change.
    pub write: RowWrite,
    /// The content that the run saw; none when the row was absent.
    pub expected: Option<ContentHash>,
}

/// How a commit treats the state's lineage, which is given once and never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineageRule {
    /// The state keeps the lineage that it has; one without any gets this one.
    OrNew(Lineage),
    /// The state must have this lineage, or none yet (`Stale` otherwise).
    Must(Lineage),
}

/// What a run commits.
#[derive(Debug, Clone)]
pub struct Commit {
    /// How it came to be.
    pub source: Source,
    /// How it was written.
    pub mode: CommitMode,
    /// The serial that the plan was made from.
    pub source_serial: Serial,
    /// What the commit knows of the state's lineage.
    pub lineage: LineageRule,
    /// The serial to take when it is higher than the next one: an import keeps its document's.
    pub at_least: Option<Serial>,
    /// The document's other members from now on; none keeps the trunk's.
    pub document: Option<DocumentHead>,
    /// The provider versions of this version.
    pub providers: BTreeMap<String, String>,
    /// Changes of reserved rows. One that changes nothing is skipped.
    pub writes: Vec<RowWrite>,
    /// Changes of other rows.
    pub soft: Vec<SoftWrite>,
    /// Whether that is exactly what was planned; none where nothing was planned. It goes onto the run's timeline.
    pub as_planned: Option<bool>,
}

/// What a commit did.
#[derive(Debug, Clone, PartialEq)]
pub struct Committed {
    /// The new version.
    pub serial: Serial,
    /// Rows that got a new content, or are new.
    pub rows_opened: usize,
    /// Rows whose former content ended.
    pub rows_closed: usize,
    /// Rows that it changed, each once: new, with a new content, or gone.
    pub rows_touched: usize,
    /// Soft rows that were left as the trunk has them.
    pub left: Vec<RowKey>,
    /// What is on the run's timeline about it.
    pub events: Vec<RunEvent>,
}
