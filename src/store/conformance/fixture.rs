//! A store on a fresh database, and short words for what the cases do with it.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _, SqliteConnection};

use super::support::Database;
use crate::domain::address::{Address, Pattern};
use crate::domain::coordination::reservation::{Blocker, Claim};
use crate::domain::id::{Actor, Lineage, RunId, Serial, StateId, StateName};
use crate::domain::run::{NewRun, Origin, RunKind, Tools};
use crate::domain::state::document::DocumentHead;
use crate::domain::state::{Body, RowKey};
use crate::store::model::{Commit, CommitMode, Committed, LineageRule, RowWrite, Source, StateHead};
use crate::store::{Acquired, Ask, DatabaseUrl, Held, Store, open, open_unchecked};

/// A lease that no test outlives.
pub(super) const LEASE: Duration = Duration::from_mins(15);

/// A store on a database of its own.
pub(super) struct Fixture {
    pub(super) store: Arc<dyn Store>,
    database: Database,
}

impl Fixture {
    pub(super) async fn sqlite() -> Self {
        Self::on(Database::sqlite()).await
    }

    pub(super) async fn postgres() -> Option<Self> {
        let migrate = async |url: String| {
            let store = open_unchecked(&url.parse().unwrap()).await.unwrap();
            store.migrate().await.unwrap();
        };
        Some(Self::on(Database::postgres(migrate).await?).await)
    }

    async fn on(database: Database) -> Self {
        Self { store: open(&database.url().parse().unwrap()).await.unwrap(), database }
    }

    pub(super) fn url(&self) -> DatabaseUrl {
        self.database.url().parse().unwrap()
    }

    /// Says that the case damages the database on purpose: it is not checked at its end.
    pub(super) fn corrupted_on_purpose(&self) {
        self.database.corrupted_on_purpose();
    }

    /// The address as text, for a connection behind the store's back.
    pub(super) fn raw_url(&self) -> &str {
        self.database.url()
    }

    pub(super) fn is_sqlite(&self) -> bool {
        self.url().is_sqlite()
    }

    /// Another process, as far as the database can tell.
    pub(super) async fn another(&self) -> Arc<dyn Store> {
        open(&self.url()).await.unwrap()
    }

    /// Executes SQL behind the store's back; gives the first column of what comes back, as text.
    pub(super) async fn sql(&self, sql: &str) -> Result<Vec<String>, sqlx::Error> {
        let sql = AssertSqlSafe(sql.to_owned());
        if self.is_sqlite() {
            let mut raw = SqliteConnection::connect(self.database.url()).await?;
            let rows = raw.fetch_all(sql).await?;
            rows.iter().map(|row| row.try_get(0)).collect()
        } else {
            let mut raw = PgConnection::connect(self.database.url()).await?;
            let rows = raw.fetch_all(sql).await?;
            rows.iter().map(|row| row.try_get(0)).collect()
        }
    }

    /// Lets every lease and every place in the queue that stands now end.
    pub(super) async fn time_passes(&self) {
        self.sql(
            "UPDATE resource_reservations SET expires_at = asked_at WHERE released_at IS NULL AND expires_at IS NOT NULL",
        )
        .await
        .unwrap();
    }

    /// Makes everything older by so many days, places in the queue and leases included.
    pub(super) async fn ages(&self, days: u32) {
        let (free, span) = if self.is_sqlite() {
            ("DROP TRIGGER IF EXISTS run_events_are_never_changed", format!("{days} * 86400000000"))
        } else {
            ("SET session_replication_role = replica", format!("interval '{days} days'"))
        };
        let mut sql = free.to_owned();
        for (table, columns) in [
            ("state_versions", &["committed_at"][..]),
            ("runs", &["started_at", "ended_at"]),
            ("run_events", &["at"]),
            ("plan_specs", &["created_at"]),
            ("requests", &["created_at", "updated_at"]),
            ("request_projects", &["planned_at", "applied_at"]),
            ("resource_reservations", &["asked_at", "acquired_at", "expires_at", "released_at"]),
        ] {
            let set: Vec<String> = columns.iter().map(|column| format!("{column} = {column} - {span}")).collect();
            sql.push_str(&format!("; UPDATE {table} SET {}", set.join(", ")));
        }
        self.sql(&sql).await.unwrap();
    }

    /// Waits until the database's clock, which ticks in milliseconds on `SQLite`, has moved on.
    pub(super) async fn tick(&self) {
        let before = self.store.now().await.unwrap();
        while self.store.now().await.unwrap() == before {
            tokio::task::yield_now().await;
        }
    }

    /// Lets the leases of one run end.
    pub(super) async fn lease_ends(&self, run: RunId) {
        self.sql(&format!(
            "UPDATE resource_reservations SET expires_at = asked_at
             WHERE released_at IS NULL AND expires_at IS NOT NULL AND run_id = '{run}'"
        ))
        .await
        .unwrap();
    }

    pub(super) async fn state(&self, name: &str) -> StateHead {
        self.store.state_ensure(&StateName::new(name).unwrap()).await.unwrap()
    }

    /// Records a run of `actor`.
    pub(super) async fn run(&self, state: StateId, actor: &str) -> RunId {
        let run = new_run(state, actor);
        self.store.run_start(&run).await.unwrap();
        run.id
    }

    /// Records a run and asks for these claims.
    pub(super) async fn ask(&self, state: StateId, actor: &str, claims: &str) -> (RunId, Acquired) {
        let run = self.run(state, actor).await;
        (run, self.again(run, claims, false).await)
    }

    /// Asks for claims.
    pub(super) async fn again(&self, run: RunId, claims: &str, queue: bool) -> Acquired {
        let ask = Ask { run, claims: self::claims(claims), lease: LEASE, queue };
        self.store.reservation_acquire(&ask).await.unwrap()
    }

    /// Records a run that holds these claims.
    pub(super) async fn held(&self, state: StateId, actor: &str, claims: &str) -> Held {
        granted(self.ask(state, actor, claims).await.1)
    }

    /// A run that writes these rows and commits: `address=JSON` sets, `address` alone removes.
    pub(super) async fn commit(&self, state: StateId, actor: &str, rows: &[&str]) -> Committed {
        let writes: Vec<RowWrite> = rows.iter().map(|row| write(row)).collect();
        let patterns: Vec<String> = writes.iter().map(|one| format!("w {}", one.key.pattern().unwrap())).collect();
        let held = self.held(state, actor, &patterns.join("\n")).await;
        self.store.run_commit(&held, &commit(writes)).await.unwrap()
    }

    /// The trunk, or what it was at a serial: `address=text` each.
    pub(super) async fn rows(&self, state: StateId, at: Option<i64>) -> Vec<String> {
        let snapshot = self.store.snapshot(state, at.map(Serial)).await.unwrap();
        snapshot.rows.iter().map(|(row, _)| format!("{}={}", row.key, row.body.text())).collect()
    }
}

/// A run that has not been recorded.
pub(super) fn new_run(state: StateId, actor: &str) -> NewRun {
    NewRun {
        id: crate::clock::new_run_id(),
        state,
        kind: RunKind::Apply,
        actor: Actor(actor.to_owned()),
        origin: Origin { forge: Some("github".to_owned()), request: Some(7), ..Origin::default() },
        spec: None,
        source_serial: Serial(0),
        tools: Tools { program: "terraform".to_owned(), version: "1.11.4".to_owned(), providers: [].into() },
        claims: Vec::new(),
    }
}

/// Claims from lines: `w PATTERN` or `r PATTERN`.
pub(super) fn claims(lines: &str) -> Vec<Claim> {
    lines
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| match line.split_once(' ') {
            Some(("w", pattern)) => Claim::write(pattern.parse_pattern()),
            Some(("r", pattern)) => Claim::read(pattern.parse_pattern()),
            _ => panic!("no claim: {line}"),
        })
        .collect()
}

trait ParsePattern {
    fn parse_pattern(&self) -> Pattern;
}

impl ParsePattern for str {
    fn parse_pattern(&self) -> Pattern {
        Pattern::parse(self).unwrap()
    }
}

/// A pattern from its text.
pub(super) fn pattern(text: &str) -> Pattern {
    text.parse_pattern()
}

/// A row's key from its text.
pub(super) fn key(text: &str) -> RowKey {
    match text.strip_prefix("output.") {
        Some(name) => RowKey::Output(name.to_owned()),
        None => RowKey::object(Address::parse(text).unwrap()),
    }
}

/// A change from `address=JSON`, or `address` alone for the end of the row.
pub(super) fn write(text: &str) -> RowWrite {
    match text.split_once('=') {
        Some((address, body)) => RowWrite { key: key(address), body: Some(Body::new(body).unwrap()) },
        None => RowWrite { key: key(text), body: None },
    }
}

/// A commit of these writes.
pub(super) fn commit(writes: Vec<RowWrite>) -> Commit {
    Commit {
        source: Source::Apply,
        mode: CommitMode::RowDelta,
        source_serial: Serial(0),
        lineage: LineageRule::Must(Lineage("the-lineage".to_owned())),
        at_least: None,
        document: Some(DocumentHead { terraform_version: "1.11.4".to_owned(), extra: Vec::new() }),
        providers: [("registry.terraform.io/hashicorp/null".to_owned(), "3.2.4".to_owned())].into(),
        writes,
        soft: Vec::new(),
        as_planned: None,
    }
}

/// The proof from a request that must have been granted.
pub(super) fn granted(acquired: Acquired) -> Held {
    match acquired {
        Acquired::Granted { held, .. } => held,
        Acquired::Blocked { blockers, .. } => panic!("blocked by {blockers:?}"),
    }
}

/// What stood in the way of a request that must have been refused.
pub(super) fn blocked(acquired: Acquired) -> Vec<Blocker> {
    match acquired {
        Acquired::Granted { .. } => panic!("granted"),
        Acquired::Blocked { blockers, .. } => blockers,
    }
}
