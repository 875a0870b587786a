//! Where histories take place: a store on a fresh database, and a hand on its clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kl_runner::domain::id::{Lineage, RunId, Serial, StateId, StateName};
use kl_runner::domain::state::Body;
use kl_runner::domain::state::document::DocumentHead;
use kl_runner::store::model::{Commit, CommitMode, LineageRule, RowWrite, Source};
use kl_runner::store::{Store, open_unchecked};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, SqliteConnection};

use super::model::key;
use crate::harness::database::{Backend, Database};

/// States in one database have names of their own.
static STATES: AtomicUsize = AtomicUsize::new(0);

/// A process's view of the database.
pub(super) struct World {
    store: Arc<dyn Store>,
    behind: Behind,
}

/// A connection behind the store's back.
enum Behind {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl World {
    /// Another process, as far as the database can tell. Brings the schema up to date.
    pub(super) async fn on(database: &Database) -> Self {
        let store = open_unchecked(&database.url().parse().unwrap()).await.unwrap();
        store.migrate().await.unwrap();
        let behind = match database.backend() {
            Backend::Sqlite => Behind::Sqlite(SqliteConnection::connect(database.url()).await.unwrap()),
            Backend::Postgres => Behind::Postgres(PgConnection::connect(database.url()).await.unwrap()),
        };
        Self { store, behind }
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    pub(super) async fn new_state(&self) -> StateId {
        let name = format!("story {}", STATES.fetch_add(1, Ordering::Relaxed));
        self.store.state_ensure(&StateName::new(&name).unwrap()).await.unwrap().id
    }

    /// Lets the lease of a run end, and its place in the queue: what a wait of 15 minutes would do.
    pub(super) async fn lease_ends(&mut self, run: RunId) {
        let sql = AssertSqlSafe(format!(
            "UPDATE resource_reservations SET expires_at = asked_at
             WHERE released_at IS NULL AND expires_at IS NOT NULL AND run_id = '{run}'"
        ));
        match &mut self.behind {
            Behind::Sqlite(raw) => drop(raw.execute(sql).await.unwrap()),
            Behind::Postgres(raw) => drop(raw.execute(sql).await.unwrap()),
        }
    }
}

/// A commit of nothing yet.
pub(super) fn commit() -> Commit {
    Commit {
        source: Source::Apply,
        mode: CommitMode::RowDelta,
        source_serial: Serial(0),
        lineage: LineageRule::Must(Lineage("the-lineage".to_owned())),
        at_least: None,
        document: Some(DocumentHead { terraform_version: "1.11.4".to_owned(), extra: Vec::new() }),
        providers: [].into(),
        writes: Vec::new(),
        soft: Vec::new(),
        as_planned: None,
    }
}

/// A commit of these values.
pub(super) fn commit_of(values: &[(usize, Option<String>)]) -> Commit {
    let writes = values.iter().map(|(row, value)| write(*row, value.as_deref())).collect();
    Commit { writes, ..commit() }
}

/// A change of a row; none ends it.
pub(super) fn write(row: usize, value: Option<&str>) -> RowWrite {
    RowWrite { key: key(row), body: value.map(|text| Body::new(text).unwrap()) }
}
