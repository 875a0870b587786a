//! What kl remembers: states as rows, versions, specs, runs, reservations. One trait, two databases.
//!
//! Every method says what it guarantees; `store::conformance` checks the same on both backends. All times are the
//! database's.

mod care;
mod codec;
#[cfg(test)]
mod conformance;
mod decide;
mod error;
mod fault;
mod held;
mod home;
pub mod model;
mod open;
mod postgres;
mod roles;
mod schema;
mod sqlite;
mod url;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::domain::address::Pattern;
use crate::domain::coordination::lock::{LockId, LockInfo};
use crate::domain::coordination::reservation::{Claim, Reservation};
use crate::domain::id::{Actor, RunId, Serial, SpecId, StateId, StateName};
use crate::domain::request::RequestRef;
use crate::domain::run::event::{RecordedEvent, RunEvent};
use crate::domain::run::workplace::Workplace;
use crate::domain::run::{NewRun, Run, RunEnd, RunStatus, Tools};
use crate::domain::state::{Body, RowKey};
use crate::domain::token::TokenId;
use crate::mishap::Mishaps;
pub use care::Patience;
pub use error::StoreError;
pub(in crate::store) use error::not_found;
pub use held::{Acquired, Ask, Held, QUEUE_TTL, Takeover};
pub use open::{Memory, open, open_existing, open_unchecked, open_with};
pub use roles::Roles;
pub use url::{DatabaseUrl, DatabaseUrlError};

use model::{
    ApplyResult, CheckReport, Checkpoint, CommentLock, Commit, Committed, Garbage, GarbageKind, LockEnd, LockFreed,
    LockOnce, LockTaken, LockWrite, NewSpec, NewToken, Noted, OpenSpec, OriginQuery, PlainLock, PlanResult,
    PostedComment, ProjectRecord, RequestFacts, RequestQuery, Retention, RowChange, RowOrigin, RunQuery, Snapshot,
    StateHead, StoredRequest, StoredSpec, StoredToken, TokenMade, Version, VersionQuery,
};

/// The memory of kl.
#[async_trait]
pub trait Store: Send + Sync {
    /// The same store, which waits for a database that is away instead of failing, and does everything once all the same:
    /// when no answer to a commit came it finds out whether it was made.
    fn patient(&self, patience: Patience) -> Arc<dyn Store>;

    /// The same store, to which happens what a test has ordered.
    fn with_mishaps(&self, mishaps: Mishaps) -> Arc<dyn Store>;

    /// The database's time.
    async fn now(&self) -> Result<DateTime<Utc>, StoreError>;

    /// Brings the schema up to date. Safe to run by several processes at once; does nothing when it is.
    /// Returns the version before and after.
    async fn migrate(&self) -> Result<(i64, i64), StoreError>;

    /// Refuses a schema that is older or newer than this binary's.
    async fn schema_check(&self) -> Result<(), StoreError>;

    /// Looks whether everything in the database is as kl would have left it, in one consistent view and without changing
    /// anything. Of one invariant at most a thousand violations are told.
    async fn database_check(&self) -> Result<CheckReport, StoreError>;

    /// How much there is of a kind that is no longer needed. Reads only.
    ///
    /// Needed is, however old: the trunk, a run that lives or has left something in quarantine, with its checkpoint, the
    /// specs that may still be applied ([`Store::open_specs`]) and the history since they were planned; and the version,
    /// run, request and spec of whatever is kept.
    async fn garbage_count(&self, kind: GarbageKind, retention: &Retention) -> Result<Garbage, StoreError>;

    /// Removes at most `most` of a kind (runs, which go with all that they have: a five-hundredth of that) in one short
    /// transaction, and says how much that was: nothing when there is none left. Safe beside runs and commits. What
    /// begins to be needed meanwhile stays.
    async fn garbage_remove(&self, kind: GarbageKind, retention: &Retention, most: u32) -> Result<Garbage, StoreError>;

    /// The state of this name, compared exactly.
    async fn state_find(&self, name: &StateName) -> Result<Option<StateHead>, StoreError>;

    /// The state of this name; a new one starts at serial 0, without rows and without lineage. Of two that create it
    /// at once both get the same one.
    async fn state_ensure(&self, name: &StateName) -> Result<StateHead, StoreError>;

    /// All states, by name.
    async fn state_list(&self) -> Result<Vec<StateHead>, StoreError>;

    /// The rows of a state at a serial (none: the newest), read in one consistent view.
    /// `NotFound` when the state or that serial does not exist, `HistoryRemoved` when the rows of that time may be gone.
    /// Serial 0 is the empty state.
    async fn snapshot(&self, state: StateId, at: Option<Serial>) -> Result<Snapshot, StoreError>;

    /// Every row that was opened or closed after a serial, once, with every version that did so. `HistoryRemoved` when rows
    /// that were closed since may be gone.
    async fn rows_changed_since(&self, state: StateId, serial: Serial) -> Result<Vec<RowChange>, StoreError>;

    /// What stood in rows at serials, one answer for each question in its order; none where the row was not there, or where
    /// what it was then has been removed since. The work grows with the questions, not with the state.
    async fn row_contents(&self, state: StateId, at: &[(RowKey, Serial)]) -> Result<Vec<Option<Body>>, StoreError>;

    /// Versions of a state, newest first.
    async fn version_list(&self, state: StateId, query: VersionQuery) -> Result<Vec<Version>, StoreError>;

    /// The newest versions of a state, before a serial if one is given, that touched rows which these claims cover, newest
    /// first, each with all of those rows and no others. Every one of them is found. The work depends on how many rows,
    /// resources and instances of modules are claimed and on what is told of them, not on the state's size or age.
    async fn versions_touching(
        &self,
        state: StateId,
        claims: &[Claim],
        before: Option<Serial>,
        limit: u32,
    ) -> Result<Vec<Version>, StoreError>;

    /// All versions that these runs have made, as far as they are still there, by state and serial, each with what it did to
    /// which rows.
    async fn versions_of_runs(&self, runs: &[RunId]) -> Result<Vec<Version>, StoreError>;

    /// The versions that recoveries of these specs made, by their serials, each with what it did to which rows.
    async fn recovered_versions(&self, specs: &[SpecId]) -> Result<Vec<Version>, StoreError>;

    /// The newest version that applying a spec made in a state, without its rows: whatever came since.
    async fn applied_version(&self, state: StateId, spec: SpecId) -> Result<Option<Version>, StoreError>;

    /// The rows of a state's trunk that a pattern meets, by the bytes of their addresses, each with the version that gave it
    /// its content. The work depends on how many rows the pattern meets, or, where it names a module without its key, on how
    /// many stand in that module's instances: not on the size of the trunk, nor on its age.
    async fn row_origins(&self, state: StateId, query: &OriginQuery) -> Result<Vec<RowOrigin>, StoreError>;

    /// Stores a spec. Storing the same id twice is an error.
    async fn spec_insert(&self, spec: &NewSpec) -> Result<(), StoreError>;

    /// A stored spec.
    async fn spec_find(&self, id: SpecId) -> Result<StoredSpec, StoreError>;

    /// The stored specs among these, in no order, by one statement. What is not there is left out.
    async fn spec_list(&self, ids: &[SpecId]) -> Result<Vec<StoredSpec>, StoreError>;

    /// Records a run that begins, with status `started`.
    async fn run_start(&self, run: &NewRun) -> Result<(), StoreError>;

    /// A run by its id.
    async fn run_find(&self, id: RunId) -> Result<Run, StoreError>;

    /// Runs whose id begins or ends with this text (hyphens count), newest first, at most ten: ids that people type.
    async fn run_search(&self, fragment: &str) -> Result<Vec<Run>, StoreError>;

    /// Runs of a state, newest first; `live` keeps those that have not ended.
    async fn run_list(&self, state: StateId, live: bool, limit: u32) -> Result<Vec<Run>, StoreError>;

    /// Runs of one state or of all, newest first: a page, found by one step into an index however many runs there are.
    /// What narrows a page beside state and time is looked at run by run.
    async fn run_page(&self, query: &RunQuery) -> Result<Vec<Run>, StoreError>;

    /// Runs of all states that have ended and whose workplace is on record, newest first: they were cut off, and what
    /// their Terraform did since may be known to their machine alone.
    async fn run_cut_off(&self) -> Result<Vec<Run>, StoreError>;

    /// Moves a live run to another live status (`reserved` → `applying`). `LeaseLost` when the run has ended.
    async fn run_advance(&self, run: RunId, status: RunStatus) -> Result<(), StoreError>;

    /// Replaces the versions that a run is recorded with, once they are known exactly.
    async fn run_tools(&self, run: RunId, tools: &Tools) -> Result<(), StoreError>;

    /// Appends events to a run's timeline, in their order. Events of one run have consecutive places.
    async fn event_append(&self, run: RunId, events: &[RunEvent]) -> Result<(), StoreError>;

    /// The timeline of a run in its order.
    async fn event_list(&self, run: RunId) -> Result<Vec<RecordedEvent>, StoreError>;

    /// The timeline of a run without what happened to single resources, in its order: it stays short, however many
    /// resources there are. Nothing for a run that does not exist.
    async fn event_outline(&self, run: RunId) -> Result<Vec<RecordedEvent>, StoreError>;

    /// The outlines of several runs, as [`Store::event_outline`] has each, by one statement for all of them. A run without
    /// events, or one that does not exist, has none.
    async fn event_outlines(&self, runs: &[RunId]) -> Result<BTreeMap<RunId, Vec<RecordedEvent>>, StoreError>;

    /// The whole timelines of several runs, each in its order, by one statement for all of them. A run without events, or
    /// one that does not exist, has none.
    async fn event_lists(&self, runs: &[RunId]) -> Result<BTreeMap<RunId, Vec<RecordedEvent>>, StoreError>;

    /// Asks for reservations: all in one transaction, or none (design §6). Ended leases that stand in the way are
    /// reclaimed, and their runs marked `lost` (with the rows that Terraform had begun with, by their checkpoint and their
    /// timeline, kept as a quarantine; all that they may write, while their workplace is on record); both timelines get an
    /// event. Asking again adds to what the run holds and renews all of it.
    /// On success the run is `reserved`, and its timeline says which other runs were beside it at that moment; when blocked it
    /// is `waiting` if it queues, else unchanged. `LeaseLost` when the run itself has ended meanwhile.
    async fn reservation_acquire(&self, ask: &Ask) -> Result<Acquired, StoreError>;

    /// Extends the lease from now. `LeaseLost` when the run no longer holds every reservation that it took.
    /// An ended lease that nobody has reclaimed is renewed.
    async fn reservation_renew(&self, held: &Held) -> Result<DateTime<Utc>, StoreError>;

    /// Gives back everything that a live run holds or waits for, so that it can ask for more and wait in turn without anybody
    /// having to wait for it. `LeaseLost` when the run has ended.
    async fn reservation_return(&self, held: Held) -> Result<(), StoreError>;

    /// The reservations that stand: granted (also with an ended lease that nobody reclaimed), waiting, quarantined.
    async fn reservation_list(&self, state: StateId) -> Result<Vec<Reservation>, StoreError>;

    /// Keeps what Terraform has done so far. The newest checkpoint of a run counts.
    async fn checkpoint_put(&self, run: RunId, checkpoint: &Checkpoint) -> Result<(), StoreError>;

    /// The newest checkpoint of a run.
    async fn checkpoint_find(&self, run: RunId) -> Result<Option<Checkpoint>, StoreError>;

    /// Records where a run's Terraform is about to work, or works. While that is on record, whoever ends the run from
    /// outside keeps all that it may write in quarantine: Terraform may go on without kl.
    async fn workplace_put(&self, run: RunId, workplace: &Workplace) -> Result<(), StoreError>;

    /// Where a run's Terraform works, if the run has no complete record yet of what it did.
    async fn workplace_find(&self, run: RunId) -> Result<Option<Workplace>, StoreError>;

    /// Forgets where a run's Terraform worked: the store knows all that it did. Nothing to forget is no error.
    async fn workplace_forget(&self, run: RunId) -> Result<(), StoreError>;

    /// Commits a run's changes in one transaction: lock the state, check that the run still holds every reservation
    /// (`LeaseLost`), check lineage (`Stale`), take the next serial, close and open lifecycles for the changed rows only, insert
    /// the version, mark the run committed, say so on its timeline, release its reservations. Soft rows whose trunk row is no
    /// longer the expected one, or that another live run has reserved, are left out and named in the result.
    async fn run_commit(&self, held: &Held, commit: &Commit) -> Result<Committed, StoreError>;

    /// Ends a run without a commit: releases its reservations except the quarantined rows, records why. Ending an
    /// ended run again changes nothing, except that a run that was aborted or lost says now what it did change: that is
    /// quarantined for it, even beside a reservation that somebody else got meanwhile, and the rest of its quarantine is
    /// released.
    async fn run_end(&self, run: RunId, end: &RunEnd) -> Result<(), StoreError>;

    /// Ends a run from outside: `aborted`, with an event, reservations released, except that rows which its checkpoint
    /// changed or had in flight stay quarantined, and all that it may write while its workplace is on record. Returns the status before. An ended run without a quarantine is left as it is; with one, the
    /// quarantine stays too (that is for `kl recover`).
    async fn run_abort(&self, run: RunId, by: &Actor) -> Result<RunStatus, StoreError>;

    /// Lets `run`, which is live, take over the quarantine that `of` left, as reservations with a lease, and `of`'s
    /// checkpoint with it: in one transaction, so that nobody comes between (`kl recover`). With `kept` the rows stay
    /// in `of`'s quarantine beside that, for what its Terraform may do yet. If `run` is lost or aborted
    /// the rows are quarantined again, by its copy of the checkpoint. Refused while live runs have reserved some of the
    /// rows: a late quarantine stands beside them. `NotFound` when `of` has no quarantine (any more).
    async fn quarantine_adopt(
        &self,
        run: RunId,
        of: RunId,
        lease: Duration,
        kept: bool,
    ) -> Result<Takeover, StoreError>;

    /// Stores what is known of a run by now, and quarantines, when it has ended, what it changed and does not keep reserved
    /// yet, even beside a reservation that somebody else has got meanwhile: a record of what really exists must survive.
    async fn quarantine_add(&self, run: RunId, changed: &[Pattern], checkpoint: &Checkpoint) -> Result<(), StoreError>;

    /// Frees the quarantine of a run that has ended (`kl recover --discard`), with an event that says by whom. Returns how
    /// many reservations it had.
    async fn quarantine_release(&self, run: RunId, by: &Actor) -> Result<u64, StoreError>;

    /// Takes the lock of the whole state for a plain Terraform, as the reservation of a new run without an expiry: in one
    /// transaction against all runs (design §12). Ended leases in the way are reclaimed as in
    /// [`Store::reservation_acquire`]. A lock that has this id already is granted again, as the run that holds it. One that
    /// is refused gets a place in the queue with `queue`, as a run that waits: for [`QUEUE_TTL`] after the last time that a
    /// lock of this id is asked for; else nothing is recorded. `NotFound` when the state does not exist.
    async fn lock_take(&self, run: &NewRun, info: &LockInfo, queue: bool) -> Result<LockTaken, StoreError>;

    /// The lock that a plain Terraform holds on a state.
    async fn lock_find(&self, state: StateId) -> Result<Option<PlainLock>, StoreError>;

    /// Writes a version for who holds the lock of this id, which stays: in one transaction, as in
    /// [`Store::run_commit`], with an event. `Stale` when the state is not at serial `base`, which the changes were told
    /// by. Nothing is written by anybody but the lock's holder.
    async fn lock_write(
        &self,
        state: StateId,
        id: &LockId,
        base: Serial,
        commit: &Commit,
    ) -> Result<LockWrite, StoreError>;

    /// Takes the lock as in [`Store::lock_take`] without a place in the queue, writes as in [`Store::lock_write`], and gives
    /// the lock back, all in one transaction: so it cannot stay, whatever becomes of whoever asked. The run is recorded with
    /// the events of all three.
    async fn lock_once(
        &self,
        run: &NewRun,
        info: &LockInfo,
        base: Serial,
        commit: &Commit,
    ) -> Result<LockOnce, StoreError>;

    /// Ends the lock of a plain Terraform, with an event, and its run: `committed` or `noop` when it was returned,
    /// `failed` when it was left behind, `aborted` when it was taken away; or a place in the queue, as `conflict`. Never
    /// touches any other reservation. To return a lock twice changes nothing, also when another one is held by then.
    async fn lock_free(&self, state: StateId, end: &LockEnd, by: &Actor) -> Result<LockFreed, StoreError>;

    /// Remembers what the forge says of a request now, and returns what is known of it then. The last word counts,
    /// except that a merged request stays merged: news of it that do not speak of the merge change nothing. A merge
    /// commit that was known once is kept when the news do not name one.
    async fn request_put(&self, request: &RequestRef, facts: &RequestFacts) -> Result<StoredRequest, StoreError>;

    /// A request.
    async fn request_find(&self, request: &RequestRef) -> Result<Option<StoredRequest>, StoreError>;

    /// Requests of a repository, those that kl heard of last first.
    async fn request_list(&self, query: &RequestQuery) -> Result<Vec<StoredRequest>, StoreError>;

    /// Remembers what the newest plan job of a project came to. Nobody can tell which of two jobs for one commit is the
    /// newer, so the last one counts. A result for a commit that is neither the request's head nor its merge commit
    /// changes nothing, and says so. The newest spec stays known when a later job failed.
    /// `NotFound` when the request, the state or the spec does not exist, `Stale` when the spec is for another state.
    async fn plan_result_put(&self, request: &RequestRef, result: &PlanResult) -> Result<Noted, StoreError>;

    /// Marks every project of the request as dropped that is not among `affected`, the projects that the request
    /// touches at `head`. Changes nothing when that is no longer the request's head (nor its merge commit), and says so.
    async fn project_drop(&self, request: &RequestRef, head: &str, affected: &[String]) -> Result<Noted, StoreError>;

    /// Remembers what the newest apply of a project came to: the last one counts. The project need not have been
    /// planned. `NotFound` when the request, the state or the run does not exist.
    async fn apply_result_put(&self, request: &RequestRef, result: &ApplyResult) -> Result<(), StoreError>;

    /// The projects of a request with all that is known of them, by name, in one consistent view; none for a request
    /// that the store does not know.
    async fn request_projects(&self, request: &RequestRef) -> Result<Vec<ProjectRecord>, StoreError>;

    /// The newest spec of a project in a request, whatever became of later plan jobs, and the commit that it was planned
    /// from.
    async fn request_spec(
        &self,
        request: &RequestRef,
        project: &str,
    ) -> Result<Option<(StoredSpec, String)>, StoreError>;

    /// The specs of a state that may still be applied: the newest one of each project that an open request touches, or
    /// that a merged one touched, unless a run has committed it or found nothing to do. Those that were planned last
    /// first.
    async fn open_specs(&self, state: StateId, limit: u32) -> Result<Vec<OpenSpec>, StoreError>;

    /// The runs that came from a request, by their origin, newest first.
    async fn runs_of_request(&self, request: &RequestRef, limit: u32) -> Result<Vec<Run>, StoreError>;

    /// The comment of a request as it was last posted.
    async fn comment_find(&self, request: &RequestRef) -> Result<Option<PostedComment>, StoreError>;

    /// Locks the comment of a request for `owner`, an id of the job's own, so that one job renders it at a time. Of
    /// several that ask at once one gets it. It ends after `ttl` unless it is asked for again; who asks again while
    /// holding it gets it longer. The comment need not exist yet.
    async fn comment_lock(&self, request: &RequestRef, owner: Uuid, ttl: Duration) -> Result<CommentLock, StoreError>;

    /// Remembers the comment as `owner` has posted it. `CommentLockLost` when the lock is not `owner`'s; one that has
    /// ended and that nobody took counts.
    async fn comment_save(&self, request: &RequestRef, owner: Uuid, posted: &PostedComment) -> Result<(), StoreError>;

    /// Gives the lock back. Changes nothing when it is not `owner`'s.
    async fn comment_unlock(&self, request: &RequestRef, owner: Uuid) -> Result<(), StoreError>;

    /// Makes a token of the HTTP backend; it lasts so long by the database's clock. Of two that are given the same name
    /// at once one is made.
    async fn token_insert(&self, token: &NewToken) -> Result<TokenMade, StoreError>;

    /// A token, whatever its standing.
    async fn token_find(&self, id: &TokenId) -> Result<Option<StoredToken>, StoreError>;

    /// All tokens, those that were made first in front.
    async fn token_list(&self) -> Result<Vec<StoredToken>, StoreError>;

    /// Remembers that a token was used now. Nothing for one that does not exist.
    async fn token_used(&self, id: &TokenId) -> Result<(), StoreError>;

    /// Revokes a token, from now on. To do it twice changes nothing. `NotFound` when it does not exist.
    async fn token_revoke(&self, id: &TokenId, by: &Actor) -> Result<StoredToken, StoreError>;
}
