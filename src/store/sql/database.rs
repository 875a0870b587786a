//! [`Store`] over a pool of connections: each method is one transaction or one statement.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{
    COMMIT_HAS_AN_ANSWER, Pool, begin_read, begin_write, check, comments, commit, contents, ending, fate, footprint,
    garbage, locks, mark, migration, origins, requests, reservations, runs, states, timeline, tokens, versions,
    workplaces,
};
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
use crate::store::care::{Care, Fate, Mark, Moment, Tries, silent};
use crate::store::fault::Fault;
use crate::store::home::Home;
use crate::store::model::{
    ApplyResult, CheckReport, Checkpoint, CommentLock, Commit, Committed, Garbage, GarbageKind, LockEnd, LockFreed,
    LockOnce, LockTaken, LockWrite, NewSpec, NewToken, Noted, OpenSpec, OriginQuery, PlainLock, PlanResult,
    PostedComment, ProjectRecord, RequestFacts, RequestQuery, Retention, RowChange, RowOrigin, RunQuery, Snapshot,
    StateHead, StoredRequest, StoredSpec, StoredToken, TokenMade, Version, VersionQuery,
};
use crate::store::{Acquired, Ask, Held, Patience, Store, StoreError, Takeover, schema};

/// The database behind a pool.
pub(in crate::store) struct Database {
    pub(in crate::store) pool: Pool,
    care: Care,
}

impl Database {
    /// A database that is asked without patience; its file, where it is one.
    pub(in crate::store) fn new(pool: Pool, home: Option<Home>) -> Self {
        Self { pool, care: Care { home, ..Care::default() } }
    }

    /// Whether a transaction of which no answer came was committed. `mark` is its own; without one it had written
    /// nothing, or this database always answers.
    async fn has_committed(&self, mark: Option<Mark>, tries: &mut Tries<'_>) -> Result<bool, Fault> {
        let Some(mark) = mark else { return Ok(false) };
        loop {
            match self.care.in_time(fate(&self.pool, &mark)).await {
                Ok(Fate::Committed) => return Ok(true),
                Ok(Fate::TakenBack) => return Ok(false),
                // The server has not noticed yet that nobody listens any more, or it waits for another one itself.
                Ok(Fate::Open) => tries.waited(silent()).await?,
                Err(fault) => tries.waited(fault).await?,
            }
        }
    }
}

#[async_trait]
impl Store for Database {
    fn patient(&self, patience: Patience) -> Arc<dyn Store> {
        let care = Care { patience: Some(patience), ..self.care.clone() };
        Arc::new(Self { pool: self.pool.clone(), care })
    }

    fn with_mishaps(&self, mishaps: Mishaps) -> Arc<dyn Store> {
        let care = Care { mishaps, ..self.care.clone() };
        Arc::new(Self { pool: self.pool.clone(), care })
    }

    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        transaction!(self, begin_read, "tell the time", |db| states::now(db))
    }

    async fn migrate(&self) -> Result<(i64, i64), StoreError> {
        migration::run(&self.pool).await.map_err(|fault| fault.during("migrate"))
    }

    async fn schema_check(&self) -> Result<(), StoreError> {
        let found = migration::version(&self.pool).await.map_err(|fault| fault.during("tell its schema's version"))?;
        schema::check(found)
    }

    async fn database_check(&self) -> Result<CheckReport, StoreError> {
        transaction!(self, begin_read, "check the database", |db| check::check(db))
    }

    async fn garbage_count(&self, kind: GarbageKind, retention: &Retention) -> Result<Garbage, StoreError> {
        transaction!(self, begin_read, "count what is no longer needed", |db| garbage::count(db, kind, retention))
    }

    async fn garbage_remove(&self, kind: GarbageKind, retention: &Retention, most: u32) -> Result<Garbage, StoreError> {
        transaction!(self, begin_write, "remove what is no longer needed", |db| garbage::remove(
            db, kind, retention, most
        ))
    }

    async fn state_find(&self, name: &StateName) -> Result<Option<StateHead>, StoreError> {
        transaction!(self, begin_read, "find the state", |db| states::find(db, name))
    }

    async fn state_ensure(&self, name: &StateName) -> Result<StateHead, StoreError> {
        transaction!(self, begin_write, "create the state", |db| states::ensure(db, name))
    }

    async fn state_list(&self) -> Result<Vec<StateHead>, StoreError> {
        transaction!(self, begin_read, "list the states", |db| states::list(db))
    }

    async fn snapshot(&self, state: StateId, at: Option<Serial>) -> Result<Snapshot, StoreError> {
        transaction!(self, begin_read, "read the state", |db| states::snapshot(db, state, at))
    }

    async fn rows_changed_since(&self, state: StateId, serial: Serial) -> Result<Vec<RowChange>, StoreError> {
        transaction!(self, begin_read, "read what changed", |db| versions::rows_changed_since(db, state, serial))
    }

    async fn row_contents(&self, state: StateId, at: &[(RowKey, Serial)]) -> Result<Vec<Option<Body>>, StoreError> {
        transaction!(self, begin_read, "read what stood in rows", |db| contents::row_contents(db, state, at))
    }

    async fn version_list(&self, state: StateId, query: VersionQuery) -> Result<Vec<Version>, StoreError> {
        transaction!(self, begin_read, "list the versions", |db| versions::list(db, state, query))
    }

    async fn versions_touching(
        &self,
        state: StateId,
        claims: &[Claim],
        before: Option<Serial>,
        limit: u32,
    ) -> Result<Vec<Version>, StoreError> {
        transaction!(self, begin_read, "read the footprint's history", |db| footprint::versions_touching(
            db, state, claims, before, limit
        ))
    }

    async fn versions_of_runs(&self, runs: &[RunId]) -> Result<Vec<Version>, StoreError> {
        transaction!(self, begin_read, "read the versions of runs", |db| versions::of_runs(db, runs))
    }

    async fn recovered_versions(&self, specs: &[SpecId]) -> Result<Vec<Version>, StoreError> {
        transaction!(self, begin_read, "read what was recovered", |db| versions::recovered(db, specs))
    }

    async fn applied_version(&self, state: StateId, spec: SpecId) -> Result<Option<Version>, StoreError> {
        transaction!(self, begin_read, "read what was applied", |db| versions::applied(db, state, spec))
    }

    async fn row_origins(&self, state: StateId, query: &OriginQuery) -> Result<Vec<RowOrigin>, StoreError> {
        transaction!(self, begin_read, "read where rows come from", |db| origins::row_origins(db, state, query))
    }

    async fn spec_insert(&self, spec: &NewSpec) -> Result<(), StoreError> {
        transaction!(self, begin_write, "store the spec", |db| runs::spec_insert(db, spec))
    }

    async fn spec_find(&self, id: SpecId) -> Result<StoredSpec, StoreError> {
        transaction!(self, begin_read, "read the spec", |db| runs::spec_find(db, id))
    }

    async fn spec_list(&self, ids: &[SpecId]) -> Result<Vec<StoredSpec>, StoreError> {
        transaction!(self, begin_read, "read the specs", |db| runs::spec_list(db, ids))
    }

    async fn run_start(&self, run: &NewRun) -> Result<(), StoreError> {
        transaction!(self, begin_write, "record the run", |db| runs::start(db, run))
    }

    async fn run_find(&self, id: RunId) -> Result<Run, StoreError> {
        transaction!(self, begin_read, "read the run", |db| runs::find(db, id))
    }

    async fn run_search(&self, fragment: &str) -> Result<Vec<Run>, StoreError> {
        transaction!(self, begin_read, "look for the run", |db| runs::search(db, fragment))
    }

    async fn run_list(&self, state: StateId, live: bool, limit: u32) -> Result<Vec<Run>, StoreError> {
        transaction!(self, begin_read, "list the runs", |db| runs::list(db, state, live, limit))
    }

    async fn run_page(&self, query: &RunQuery) -> Result<Vec<Run>, StoreError> {
        transaction!(self, begin_read, "list a page of runs", |db| runs::page(db, query))
    }

    async fn run_cut_off(&self) -> Result<Vec<Run>, StoreError> {
        transaction!(self, begin_read, "list the runs that were cut off", |db| runs::cut_off(db))
    }

    async fn run_advance(&self, run: RunId, status: RunStatus) -> Result<(), StoreError> {
        transaction!(self, begin_write, "move the run on", |db| runs::advance(db, run, status))
    }

    async fn run_tools(&self, run: RunId, tools: &Tools) -> Result<(), StoreError> {
        transaction!(self, begin_write, "record the run's tools", |db| runs::tools(db, run, tools))
    }

    async fn event_append(&self, run: RunId, events: &[RunEvent]) -> Result<(), StoreError> {
        transaction!(self, begin_write, "record an event", |db| timeline::append(db, run, events))
    }

    async fn event_list(&self, run: RunId) -> Result<Vec<RecordedEvent>, StoreError> {
        transaction!(self, begin_read, "read the run's events", |db| timeline::list(db, run))
    }

    async fn event_outline(&self, run: RunId) -> Result<Vec<RecordedEvent>, StoreError> {
        transaction!(self, begin_read, "read the outline of the run", |db| timeline::outline(db, run))
    }

    async fn event_outlines(&self, runs: &[RunId]) -> Result<BTreeMap<RunId, Vec<RecordedEvent>>, StoreError> {
        transaction!(self, begin_read, "read the runs' outlines", |db| timeline::lists(db, runs, false))
    }

    async fn event_lists(&self, runs: &[RunId]) -> Result<BTreeMap<RunId, Vec<RecordedEvent>>, StoreError> {
        transaction!(self, begin_read, "read the runs' events", |db| timeline::lists(db, runs, true))
    }

    async fn reservation_acquire(&self, ask: &Ask) -> Result<Acquired, StoreError> {
        transaction!(self, begin_write, "reserve", |db| reservations::acquire(db, ask))
    }

    async fn reservation_renew(&self, held: &Held) -> Result<DateTime<Utc>, StoreError> {
        transaction!(self, begin_write, "renew the lease", |db| reservations::renew(db, held))
    }

    async fn reservation_return(&self, held: Held) -> Result<(), StoreError> {
        transaction!(self, begin_write, "give reservations back", |db| reservations::give_back(db, &held))
    }

    async fn reservation_list(&self, state: StateId) -> Result<Vec<Reservation>, StoreError> {
        transaction!(self, begin_read, "list the reservations", |db| reservations::list(db, state))
    }

    async fn checkpoint_put(&self, run: RunId, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        transaction!(self, begin_write, "store a checkpoint", |db| timeline::checkpoint_put(db, run, checkpoint))
    }

    async fn checkpoint_find(&self, run: RunId) -> Result<Option<Checkpoint>, StoreError> {
        transaction!(self, begin_read, "read the checkpoint", |db| timeline::checkpoint_find(db, run))
    }

    async fn workplace_put(&self, run: RunId, workplace: &Workplace) -> Result<(), StoreError> {
        transaction!(self, begin_write, "record where the run works", |db| workplaces::put(db, run, workplace))
    }

    async fn workplace_find(&self, run: RunId) -> Result<Option<Workplace>, StoreError> {
        transaction!(self, begin_read, "read where the run works", |db| workplaces::find(db, run))
    }

    async fn workplace_forget(&self, run: RunId) -> Result<(), StoreError> {
        transaction!(self, begin_write, "forget where the run worked", |db| workplaces::forget(db, run))
    }

    async fn run_commit(&self, held: &Held, commit: &Commit) -> Result<Committed, StoreError> {
        transaction!(self, begin_write, "commit the run", |db| commit::commit(db, held, commit))
    }

    async fn run_end(&self, run: RunId, end: &RunEnd) -> Result<(), StoreError> {
        transaction!(self, begin_write, "end the run", |db| ending::end(db, run, end))
    }

    async fn run_abort(&self, run: RunId, by: &Actor) -> Result<RunStatus, StoreError> {
        transaction!(self, begin_write, "abort the run", |db| ending::abort(db, run, by))
    }

    async fn quarantine_adopt(
        &self,
        run: RunId,
        of: RunId,
        lease: Duration,
        kept: bool,
    ) -> Result<Takeover, StoreError> {
        transaction!(self, begin_write, "take over the quarantine", |db| reservations::adopt(db, run, of, lease, kept))
    }

    async fn quarantine_add(&self, run: RunId, changed: &[Pattern], checkpoint: &Checkpoint) -> Result<(), StoreError> {
        transaction!(self, begin_write, "add to the quarantine", |db| ending::add(db, run, changed, checkpoint))
    }

    async fn quarantine_release(&self, run: RunId, by: &Actor) -> Result<u64, StoreError> {
        transaction!(self, begin_write, "free the quarantine", |db| reservations::quarantine_release(db, run, by))
    }

    async fn lock_take(&self, run: &NewRun, info: &LockInfo, queue: bool) -> Result<LockTaken, StoreError> {
        transaction!(self, begin_write, "lock the state", |db| locks::take(db, run, info, queue))
    }

    async fn lock_find(&self, state: StateId) -> Result<Option<PlainLock>, StoreError> {
        transaction!(self, begin_read, "read the lock", |db| locks::find(db, state))
    }

    async fn lock_write(
        &self,
        state: StateId,
        id: &LockId,
        base: Serial,
        commit: &Commit,
    ) -> Result<LockWrite, StoreError> {
        transaction!(self, begin_write, "write the state", |db| locks::write(db, state, id, base, commit))
    }

    async fn lock_once(
        &self,
        run: &NewRun,
        info: &LockInfo,
        base: Serial,
        commit: &Commit,
    ) -> Result<LockOnce, StoreError> {
        transaction!(self, begin_write, "write the state at once", |db| locks::once(db, run, info, base, commit))
    }

    async fn lock_free(&self, state: StateId, end: &LockEnd, by: &Actor) -> Result<LockFreed, StoreError> {
        transaction!(self, begin_write, "unlock the state", |db| locks::free(db, state, end, by))
    }

    async fn request_put(&self, request: &RequestRef, facts: &RequestFacts) -> Result<StoredRequest, StoreError> {
        transaction!(self, begin_write, "record the request", |db| requests::put(db, request, facts))
    }

    async fn request_find(&self, request: &RequestRef) -> Result<Option<StoredRequest>, StoreError> {
        transaction!(self, begin_read, "read the request", |db| requests::find(db, request))
    }

    async fn request_list(&self, query: &RequestQuery) -> Result<Vec<StoredRequest>, StoreError> {
        transaction!(self, begin_read, "list the requests", |db| requests::list(db, query))
    }

    async fn plan_result_put(&self, request: &RequestRef, result: &PlanResult) -> Result<Noted, StoreError> {
        transaction!(self, begin_write, "record the plan's result", |db| requests::plan_put(db, request, result))
    }

    async fn project_drop(&self, request: &RequestRef, head: &str, affected: &[String]) -> Result<Noted, StoreError> {
        transaction!(self, begin_write, "drop projects of the request", |db| requests::drop_others(
            db, request, head, affected
        ))
    }

    async fn apply_result_put(&self, request: &RequestRef, result: &ApplyResult) -> Result<(), StoreError> {
        transaction!(self, begin_write, "record the apply's result", |db| requests::apply_put(db, request, result))
    }

    async fn request_projects(&self, request: &RequestRef) -> Result<Vec<ProjectRecord>, StoreError> {
        transaction!(self, begin_read, "read the request's projects", |db| requests::projects(db, request))
    }

    async fn request_spec(
        &self,
        request: &RequestRef,
        project: &str,
    ) -> Result<Option<(StoredSpec, String)>, StoreError> {
        transaction!(self, begin_read, "read the request's spec", |db| requests::spec(db, request, project))
    }

    async fn open_specs(&self, state: StateId, limit: u32) -> Result<Vec<OpenSpec>, StoreError> {
        transaction!(self, begin_read, "list the open specs", |db| requests::open_specs(db, state, limit))
    }

    async fn runs_of_request(&self, request: &RequestRef, limit: u32) -> Result<Vec<Run>, StoreError> {
        transaction!(self, begin_read, "list the request's runs", |db| runs::of_request(db, request, limit))
    }

    async fn comment_find(&self, request: &RequestRef) -> Result<Option<PostedComment>, StoreError> {
        transaction!(self, begin_read, "read the comment", |db| comments::find(db, request))
    }

    async fn comment_lock(&self, request: &RequestRef, owner: Uuid, ttl: Duration) -> Result<CommentLock, StoreError> {
        transaction!(self, begin_write, "lock the comment", |db| comments::lock(db, request, owner, ttl))
    }

    async fn comment_save(&self, request: &RequestRef, owner: Uuid, posted: &PostedComment) -> Result<(), StoreError> {
        transaction!(self, begin_write, "record the comment", |db| comments::save(db, request, owner, posted))
    }

    async fn comment_unlock(&self, request: &RequestRef, owner: Uuid) -> Result<(), StoreError> {
        transaction!(self, begin_write, "unlock the comment", |db| comments::unlock(db, request, owner))
    }

    async fn token_insert(&self, token: &NewToken) -> Result<TokenMade, StoreError> {
        transaction!(self, begin_write, "make the token", |db| tokens::insert(db, token))
    }

    async fn token_find(&self, id: &TokenId) -> Result<Option<StoredToken>, StoreError> {
        transaction!(self, begin_read, "find the token", |db| tokens::find(db, id))
    }

    async fn token_list(&self) -> Result<Vec<StoredToken>, StoreError> {
        transaction!(self, begin_read, "list the tokens", |db| tokens::list(db))
    }

    async fn token_used(&self, id: &TokenId) -> Result<(), StoreError> {
        transaction!(self, begin_write, "note the use of the token", |db| tokens::used(db, id))
    }

    async fn token_revoke(&self, id: &TokenId, by: &Actor) -> Result<StoredToken, StoreError> {
        transaction!(self, begin_write, "revoke the token", |db| tokens::revoke(db, id, by))
    }
}
