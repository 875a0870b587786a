//! A fresh database for each test, on both backends, and the facts in it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use camino::Utf8Path;
use kl_runner::store::{StoreError, open_existing};
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};
use tempfile::TempDir;

/// Runs each test function on a fresh database of each backend, as two tests `NAME::sqlite` and `NAME::postgres`.
///
/// `on_both_databases!(name, …)` takes `fn name(database: &Database)`, and `on_both_databases!(async name, …)` takes
/// `async fn name(database: Database)`.
macro_rules! on_both_databases {
    (async $($name:ident),+ $(,)?) => { $(
        mod $name {
            #[test]
            fn sqlite() {
                let backend = $crate::harness::database::Backend::Sqlite;
                $crate::harness::database::on(backend, |database| {
                    $crate::harness::database::block_on(super::$name(database));
                });
            }

            #[test]
            fn postgres() {
                let backend = $crate::harness::database::Backend::Postgres;
                $crate::harness::database::on(backend, |database| {
                    $crate::harness::database::block_on(super::$name(database));
                });
            }
        }
    )+ };
    ($($name:ident),+ $(,)?) => { $(
        mod $name {
            #[test]
            fn sqlite() {
                let backend = $crate::harness::database::Backend::Sqlite;
                $crate::harness::database::on(backend, |database| super::$name(&database));
            }

            #[test]
            fn postgres() {
                let backend = $crate::harness::database::Backend::Postgres;
                $crate::harness::database::on(backend, |database| super::$name(&database));
            }
        }
    )+ };
}

/// Where tests find a PostgreSQL server on which they may create databases.
const SERVER: &str = "KL_TEST_POSTGRES_URL";

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// A file.
    Sqlite,
    /// A database on the server.
    Postgres,
}

/// A database of one test. Dropping it looks whether it is sound, and removes it.
pub(crate) struct Database {
    url: String,
    place: Place,
    corrupted: AtomicBool,
}

enum Place {
    File(#[expect(dead_code, reason = "held for its directory")] TempDir),
    Server { server: String, name: String },
}

/// Runs a test on a fresh database of this backend. Without a server, a test on PostgreSQL says why it does not run;
/// in CI that is a failure.
pub(crate) fn on(backend: Backend, test: impl FnOnce(Database)) {
    match backend {
        Backend::Sqlite => test(Database::sqlite()),
        Backend::Postgres => match server(std::env::var(SERVER).ok(), super::in_ci()) {
            Ok(server) => test(Database::postgres(&server)),
            Err(Absent::Tolerated(why)) => {
                #[expect(clippy::print_stderr, reason = "what is left out must be seen")]
                {
                    eprintln!("{why}");
                }
            }
            Err(Absent::Fatal(why)) => panic!("{why}"),
        },
    }
}

/// Why there is no server, and whether that will do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The test is left out.
    Tolerated(String),
    /// The test fails.
    Fatal(String),
}

/// The server for tests, or why there is none.
pub(crate) fn server(url: Option<String>, ci: bool) -> Result<String, Absent> {
    let how = "`tests/run.sh` starts a PostgreSQL server for the tests";
    match url.filter(|url| !url.is_empty()) {
        Some(url) => Ok(url),
        None if ci => Err(Absent::Fatal(format!("{SERVER} is not set, and CI leaves nothing out; {how}"))),
        None => Err(Absent::Tolerated(format!("NOT RUN on PostgreSQL: {SERVER} is not set; {how}"))),
    }
}

impl Database {
    fn sqlite() -> Self {
        let dir = tempfile::Builder::new().prefix("kl-db-").tempdir().expect("a temporary directory can be made");
        let file = dir.path().join("kl.db");
        let url = Utf8Path::from_path(&file).expect("temporary directories have plain names").to_string();
        Self { url, place: Place::File(dir), corrupted: AtomicBool::new(false) }
    }

    /// One on this server.
    pub(crate) fn postgres(server: &str) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        // The time comes first: by it the library's tests know what a killed test has left, and may be removed.
        let name = format!("kl_test_{}_{}_{}", now.as_secs(), std::process::id(), now.subsec_nanos());
        Self::created(server, name, "")
    }

    /// Creates one in a way that CREATE DATABASE knows.
    fn created(server: &str, name: String, how: &str) -> Self {
        let create = format!("CREATE DATABASE {name} {how}");
        block_on(execute_on(server, &create)).unwrap_or_else(|error| panic!("cannot create a database: {error}"));
        let url = with_database(server, &name);
        Self { url, place: Place::Server { server: server.to_owned(), name }, corrupted: AtomicBool::new(false) }
    }

    /// Another one with the same rows, while nobody uses this one.
    pub(crate) fn copy(&self) -> Self {
        static COPIES: AtomicU32 = AtomicU32::new(0);
        match &self.place {
            Place::File(_) => {
                let copy = Self::sqlite();
                // Who was killed has left a log that belongs to it.
                for file in ["", "-wal"] {
                    let from = format!("{}{file}", self.url);
                    if Utf8Path::new(&from).exists() {
                        std::fs::copy(&from, format!("{}{file}", copy.url)).expect("the directory is ours");
                    }
                }
                copy
            }
            Place::Server { server, name } => {
                let copy = format!("{name}_{}", COPIES.fetch_add(1, Ordering::Relaxed));
                Self::created(server, copy, &format!("TEMPLATE {name}"))
            }
        }
    }

    /// Its address, as kl takes it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Says that the test damages the database on purpose: it is not checked at its end.
    pub(crate) fn corrupted_on_purpose(&self) {
        self.corrupted.store(true, Ordering::Relaxed);
    }

    /// What kind it is.
    pub(crate) fn backend(&self) -> Backend {
        match &self.place {
            Place::File(_) => Backend::Sqlite,
            Place::Server { .. } => Backend::Postgres,
        }
    }

    /// The rows that a query gives, each value as the database prints it.
    #[track_caller]
    pub(crate) fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        let rows = match &self.place {
            Place::File(_) => block_on(rows_of_sqlite(&self.url, sql)),
            Place::Server { .. } => block_on(rows_of_postgres(&self.url, sql)),
        };
        rows.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The one value that a query gives.
    #[track_caller]
    pub(crate) fn value(&self, sql: &str) -> Option<String> {
        let mut rows = self.rows(sql);
        assert!(rows.len() == 1 && rows[0].len() == 1, "{sql}: not one value: {rows:?}");
        rows.remove(0).remove(0)
    }

    /// Runs statements that give nothing.
    #[track_caller]
    pub(crate) fn execute(&self, sql: &str) {
        let rows = self.rows(sql);
        assert!(rows.is_empty(), "{sql}: gives rows: {rows:?}");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let check = !self.corrupted.load(Ordering::Relaxed) && !std::thread::panicking();
        let unsound = if check { unsound(&self.url) } else { Vec::new() };
        if let Place::Server { server, name } = &self.place {
            // Whoever is still connected belongs to this test. A server that is gone has removed it already.
            drop(block_on(execute_on(server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))));
        }
        assert!(unsound.is_empty(), "the test leaves an unsound database behind:\n{}", unsound.join("\n"));
    }
}

/// What `kl db check` would find in a database; nothing in one that kl never used.
pub(crate) fn unsound(url: &str) -> Vec<String> {
    block_on(async {
        let store = match open_existing(&url.parse().expect("the address of a test's database")).await {
            Ok(store) => store,
            Err(StoreError::Missing { .. } | StoreError::SchemaTooOld { found: 0, .. }) => return Vec::new(),
            Err(error) => return vec![format!("{error}: {error:?}")],
        };
        match store.database_check().await {
            Ok(report) => report.violations.iter().take(10).map(|one| format!("{one:?}")).collect(),
            Err(error) => vec![format!("{error}: {error:?}")],
        }
    })
}

/// The address of another database on the same server.
pub(crate) fn with_database(server: &str, name: &str) -> String {
    let (base, query) = server.split_once('?').map_or((server, None), |(base, query)| (base, Some(query)));
    let authority = base.find("://").map_or(0, |at| at + 3);
    let end = base[authority..].find('/').map_or(base.len(), |at| authority + at);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}/{name}{query}", &base[..end])
}

/// Runs a future to its end from anywhere, on a runtime of its own.
pub(crate) fn block_on<T: Send>(future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let run = || tokio::runtime::Runtime::new().expect("a runtime can be made").block_on(future);
        scope.spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

async fn execute_on(server: &str, sql: &str) -> sqlx::Result<()> {
    let mut connection = postgres_options(server)?.connect().await?;
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await?;
    connection.close().await
}

fn postgres_options(url: &str) -> sqlx::Result<PgConnectOptions> {
    Ok(url.parse::<PgConnectOptions>()?.disable_statement_logging())
}

/// Unprepared statements give every value as text.
async fn rows_of_postgres(url: &str, sql: &str) -> sqlx::Result<Vec<Vec<Option<String>>>> {
    let mut connection = postgres_options(url)?.connect().await?;
    let rows = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut connection).await?;
    let rows = rows
        .iter()
        .map(|row| (0..row.columns().len()).map(|column| row.try_get_unchecked(column)).collect())
        .collect::<sqlx::Result<_>>()?;
    connection.close().await?;
    Ok(rows)
}

/// SQLite converts every value to text when asked for text.
async fn rows_of_sqlite(path: &str, sql: &str) -> sqlx::Result<Vec<Vec<Option<String>>>> {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true).disable_statement_logging();
    let mut connection = options.busy_timeout(std::time::Duration::from_secs(30)).connect().await?;
    let rows = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut connection).await?;
    let rows = rows
        .iter()
        .map(|row| (0..row.columns().len()).map(|column| row.try_get_unchecked(column)).collect())
        .collect::<sqlx::Result<_>>()?;
    connection.close().await?;
    Ok(rows)
}
