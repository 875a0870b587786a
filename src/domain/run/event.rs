//! The timeline of a run: typed events, append-only, without secrets.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::domain::coordination::reservation::{Blocker, Relation};
use crate::domain::id::{Actor, RunId, Serial, SpecId};

use super::fidelity::is_zero;

pub use super::changed_row::{ChangedRow, RowVersion};

/// A stored event with its place in the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedEvent {
    /// Its place, counted from 1.
    pub seq: i64,
    /// When, by the database's clock.
    pub at: DateTime<Utc>,
    /// What happened.
    pub event: RunEvent,
}

/// Another live run beside which a reservation was granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The other run.
    pub run: RunId,
    /// Who runs it.
    pub actor: Actor,
    /// Why the two can go together.
    pub relation: Relation,
}

/// A run that holds what another one wants, or has taken it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The run.
    pub run: RunId,
    /// Who runs it.
    pub actor: Actor,
}

/// What happened to one resource while Terraform applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceStep {
    /// Terraform began with it.
    Started,
    /// It is still at it.
    Progress,
    /// It finished.
    Finished,
    /// It failed.
    Failed,
}

/// One thing that happened to a run. Names of variants and members are the stored and printed format: add, never
/// rename.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunEvent {
    /// The spec was loaded and fits the state.
    SpecLoaded {
        /// Which spec.
        spec: SpecId,
        /// The serial that it was planned at.
        source_serial: Serial,
        /// The trunk's serial now.
        trunk_serial: Serial,
    },
    /// The stale check passed.
    StaleCheckPassed {
        /// Rows outside the footprint that changed after the plan.
        outside: Vec<ChangedRow>,
        /// How many more there were than are named.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: usize,
        /// How many of these were as before again.
        #[serde(default, skip_serializing_if = "is_zero")]
        more_back: usize,
    },
    /// The stale check found changes in the footprint.
    StaleCheckFailed {
        /// Rows of the read set that changed.
        read: Vec<ChangedRow>,
        /// Rows of the write set that changed.
        write: Vec<ChangedRow>,
        /// Whether the re-plan decides instead of refusing (`on_stale: revalidate`).
        revalidate: bool,
    },
    /// The run stands in the queue.
    Waiting {
        /// The runs in front of it.
        behind: Vec<RunId>,
        /// The same with their people; empty in older timelines.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        who: Vec<Holder>,
    },
    /// The run did not get its reservations.
    Refused {
        /// What stood in the way, in a line.
        title: String,
        /// For how long it had waited in turn; none when it did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_seconds: Option<u64>,
        /// Whether it only looked: `--dry-run`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        dry_run: bool,
    },
    /// All reservations were granted.
    Reserved {
        /// How many patterns to write.
        writes: usize,
        /// How many patterns to read.
        reads: usize,
        /// When the lease ends unless renewed.
        expires_at: Option<DateTime<Utc>>,
        /// The other live runs, and why each can go on beside this one.
        beside: Vec<Neighbour>,
    },
    /// Reservations of a run whose lease had ended were in the way, and were taken from it.
    Reclaimed {
        /// The run that lost them.
        from: RunId,
        /// Whether this run did not get them either: others were in the way, or what that run left in quarantine.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        refused: bool,
    },
    /// How the slice was made.
    LaneChosen {
        /// `narrow` or `footprint`.
        lane: String,
        /// Why not narrow, or why it was forced; empty for narrow.
        reasons: Vec<String>,
        /// Rows that Terraform got to see.
        slice_rows: usize,
        /// Rows in the trunk.
        trunk_rows: usize,
        /// Targets that limit the plan.
        targets: usize,
    },
    /// Terraform planned again on the slice, and this is how it compares with the spec.
    Replanned {
        /// `identical`, `refined`, `values_differ` or `shape_differs`.
        relation: String,
        /// Addresses that differ, each with what differs; no values.
        differences: Vec<String>,
        /// The same for programs: which addresses, and which of their attributes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        at: Vec<Differs>,
    },
    /// Rows of the footprint had changed, and planning again came out as the reviewed plan: it still holds.
    Revalidated {
        /// `identical`, `refined` or `values_differ`, as the rules allow.
        relation: String,
    },
    /// Planning again gave other values of the same shape, which nobody had reviewed, and somebody let them pass
    /// (`--accept-values`).
    ValuesAccepted {
        /// Who did.
        by: Actor,
    },
    /// The command in which a plain Terraform ran has ended (`kl exec`).
    CommandEnded {
        /// Its exit code; none where a signal ended it.
        code: Option<i32>,
        /// The signal that ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// The narrow lane was given up.
    FellBack {
        /// Why.
        reason: String,
    },
    /// The Terraform or provider versions differ from the trunk's last version or from a run in flight.
    VersionsDiffer {
        /// One line a difference.
        differences: Vec<String>,
    },
    /// Terraform began to change real objects.
    ApplyStarted,
    /// Something happened to one resource.
    Resource {
        /// Its address.
        address: String,
        /// `create`, `update`, `delete`, `read`.
        action: String,
        /// What happened.
        step: ResourceStep,
        /// Seconds since it began.
        elapsed_seconds: u64,
    },
    /// Terraform ended.
    ApplyFinished {
        /// Whether it succeeded.
        success: bool,
    },
    /// Rows turned out to differ in reality: outside the write set, where they were not committed, or in an apply that was
    /// refused as its plan was another one by then.
    DriftObserved {
        /// Their addresses.
        addresses: Vec<String>,
    },
    /// Metadata of rows outside the write set: taken over where nobody else had touched them, else left.
    SoftRows {
        /// Taken over.
        taken: Vec<String>,
        /// Left as the trunk has them.
        left: Vec<String>,
    },
    /// The changes are in the trunk.
    Committed {
        /// The new version.
        serial: Serial,
        /// Rows that got a new content or are new.
        rows_opened: usize,
        /// Rows whose former content ended.
        rows_closed: usize,
        /// Rows that it changed, each once; none on a timeline from before that was told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rows_touched: Option<usize>,
        /// Whether that is exactly what was planned; none where nothing was planned, as for an import.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        as_planned: Option<bool>,
    },
    /// The run holds its lease again.
    LeaseRenewed {
        /// When it ends unless renewed.
        expires_at: DateTime<Utc>,
    },
    /// A renewal did not go through; the run goes on until the lease ends.
    LeaseLate {
        /// Why.
        reason: String,
    },
    /// The run no longer holds its reservations.
    LeaseLost {
        /// Who has asked for them; none where nobody did, and in older timelines.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Holder>,
        /// Whether they did not get them either.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        refused: bool,
    },
    /// What Terraform had done by then is kept with the run, for a recovery.
    CheckpointKept {
        /// How many rows differ from what the run started with.
        rows: usize,
        /// How many objects Terraform was working on.
        in_flight: usize,
    },
    /// Rows that Terraform changed without a commit stay reserved.
    Quarantined {
        /// Which.
        addresses: Vec<String>,
    },
    /// Objects that Terraform was working on when it was cut off: look at the provider.
    InFlight {
        /// Which.
        addresses: Vec<String>,
    },
    /// Rows that a recovery left alone, because somebody else had changed them since.
    NotRecovered {
        /// Which, and who changed them last.
        rows: Vec<ChangedRow>,
    },
    /// The run takes over what another one left: its quarantine and its checkpoint.
    Recovers {
        /// The run that was cut off or failed.
        of: RunId,
    },
    /// Another run has taken over what this one left.
    TakenOver {
        /// Which one.
        by: RunId,
        /// Who.
        actor: Actor,
    },
    /// What the run left was dropped: its rows are free, and its real objects are nobody's.
    Discarded {
        /// By whom.
        by: Actor,
        /// How many reservations that freed.
        freed: u64,
    },
    /// The forge did not take what the job had to tell about the run.
    ForgeUnreachable {
        /// What was not told, as `the comment on #7`.
        what: String,
        /// Why.
        reason: String,
    },
    /// The run was ended from outside.
    Aborted {
        /// By whom.
        by: Actor,
    },
    /// A plain `terraform` took the lock of the whole state.
    Locked {
        /// The id that it gave the lock.
        id: String,
        /// What it does, as `OperationTypeApply`; empty when it did not say.
        operation: String,
        /// Who it says it is; empty when it did not say.
        who: String,
    },
    /// The lock of the whole state was given back.
    Unlocked {
        /// By whom.
        by: Actor,
        /// Whether by somebody else than its holder: `terraform force-unlock`.
        forced: bool,
    },
    /// Rows are to go back to what they were at a serial.
    RollingBack {
        /// Which serial.
        to: Serial,
        /// The patterns that limit it; empty when all rows go back.
        addresses: Vec<String>,
    },
    /// Rows are to leave the state, while their objects stay.
    Removing {
        /// What was named.
        addresses: Vec<String>,
    },
    /// What stands at one address is to stand at another.
    Moving {
        /// The module, resource or instance that was named.
        from: String,
        /// Where to.
        to: String,
    },
    /// Something that a person should know, in a sentence.
    Warning {
        /// The sentence.
        message: String,
    },
    /// The run ended without a commit.
    Ended {
        /// The final status, as [`super::RunStatus::word`] has it.
        status: String,
        /// Why.
        reason: Option<String>,
    },
}

impl RunEvent {
    /// That a run stands in the queue behind these.
    #[must_use]
    pub fn waiting(in_the_way: &[Blocker]) -> Self {
        let who = holders(in_the_way);
        Self::Waiting { behind: who.iter().map(|holder| holder.run).collect(), who }
    }
}

/// The runs in the way with their people, by their ids.
#[must_use]
pub fn holders(in_the_way: &[Blocker]) -> Vec<Holder> {
    let holder = |one: &Blocker| (one.reservation.run, one.reservation.holder.clone());
    let all: BTreeMap<RunId, Actor> = in_the_way.iter().map(holder).collect();
    all.into_iter().map(|(run, actor)| Holder { run, actor }).collect()
}

/// Where a new plan differs from the reviewed one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Differs {
    /// The address or output.
    pub address: String,
    /// `refined`, `values_differ` or `shape_differs`.
    pub relation: String,
    /// Names of the attributes in question; empty where the change as a whole is another one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<String>,
}
