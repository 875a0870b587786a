//! A fresh database for a test, on either backend; checked and gone with the value. Included by the library's own tests:
//! it knows nothing of kl but its migrations, and `super::unsound`, which says what is wrong in a database.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tokio::sync::OnceCell;

/// Names the server: a superuser's address of a maintenance database, as `postgres://kl@localhost/postgres?host=/dir`.
const SERVER: &str = "KL_TEST_POSTGRES_URL";
/// What keeps two processes from making or sweeping at once; any number that nobody else uses.
const LOCK: i64 = 0x6b6c_7465_7374;
/// Databases of test runs that died are dropped after so many seconds.
const LEFTOVER_AGE: u64 = 3600;

static TEMPLATE: OnceCell<String> = OnceCell::const_new();
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A database of one test.
pub(crate) struct Database {
    url: String,
    _files: Option<tempfile::TempDir>,
    server: Option<(String, String)>,
    corrupted: AtomicBool,
}

impl Database {
    /// A `SQLite` file that does not exist yet.
    pub(crate) fn sqlite() -> Self {
        let files = tempfile::tempdir().expect("a directory for the database");
        let url = format!("sqlite:{}", files.path().join("kl.db").display());
        Self { url, _files: Some(files), server: None, corrupted: AtomicBool::new(false) }
    }

    /// A migrated PostgreSQL database; none, with the reason printed, where there is no server to test with.
    /// `migrate` brings the schema of an empty database up to date: once for all tests of a schema.
    pub(crate) async fn postgres(migrate: impl AsyncFn(String)) -> Option<Self> {
        let server = server()?;
        let template = TEMPLATE.get_or_init(async || template(&server, &migrate).await).await;
        Some(Self::create(&server, &format!("TEMPLATE {template}")).await)
    }

    /// An empty PostgreSQL database.
    pub(crate) async fn postgres_empty() -> Option<Self> {
        Some(Self::create(&server()?, "").await)
    }

    async fn create(server: &str, how: &str) -> Self {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("kl_test_{}_{}_{count}", now(), std::process::id());
        let mut admin = PgConnection::connect(server).await.expect("the test server");
        execute(&mut admin, format!("CREATE DATABASE {name} {how}")).await;
        let (url, server) = (with_database(server, &name), Some((server.to_owned(), name)));
        Self { url, _files: None, server, corrupted: AtomicBool::new(false) }
    }

    /// Its address, as `--database-url` takes it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Says that the test damages the database on purpose: it is not checked at its end.
    pub(crate) fn corrupted_on_purpose(&self) {
        self.corrupted.store(true, Ordering::Relaxed);
    }
}

impl Drop for Database {
    /// Every test ends with a sound database, unless it says that it does not.
    fn drop(&mut self) {
        let check = !self.corrupted.load(Ordering::Relaxed) && !std::thread::panicking();
        let (url, server) = (self.url.clone(), self.server.take());
        // Drop cannot wait for the test's runtime; what cannot be dropped here is swept by a later run.
        let end = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let unsound = if check { super::unsound(&url).await } else { Vec::new() };
                if let Some((server, name)) = server {
                    let mut admin = PgConnection::connect(&server).await.map_err(std::io::Error::other)?;
                    execute(&mut admin, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
                }
                Ok::<_, std::io::Error>(unsound)
            })
        };
        if let Ok(Ok(unsound)) = std::thread::spawn(end).join() {
            assert!(unsound.is_empty(), "the test leaves an unsound database behind:\n{}", unsound.join("\n"));
        }
    }
}

/// The server's address, if there is one. Continuous integration must have one.
#[expect(clippy::print_stderr, reason = "a skipped test says why")]
fn server() -> Option<String> {
    let url = std::env::var(SERVER).ok().filter(|url| !url.is_empty());
    if url.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{SERVER} is not set: in CI the PostgreSQL tests must run");
        eprintln!("not run on PostgreSQL: {SERVER} is not set (a superuser's URL, see tests/support/database.rs)");
    }
    url
}

/// Makes the template once for each content of the migrations, and sweeps what older runs have left.
async fn template(server: &str, migrate: &impl AsyncFn(String)) -> String {
    let name = format!("kl_template_{:016x}", fingerprint());
    let mut admin = PgConnection::connect(server).await.expect("the test server");
    sqlx::query("SELECT pg_advisory_lock($1)").bind(LOCK).execute(&mut admin).await.expect("the lock");
    sweep(&mut admin).await;
    // Marked as a template only when it is whole.
    let ready: Option<bool> = sqlx::query_scalar("SELECT datistemplate FROM pg_database WHERE datname = $1")
        .bind(&name)
        .fetch_optional(&mut admin)
        .await
        .expect("the list of databases");
    if ready != Some(true) {
        execute(&mut admin, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
        execute(&mut admin, format!("CREATE DATABASE {name}")).await;
        migrate(with_database(server, &name)).await;
        sqlx::query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1")
            .bind(&name)
            .execute(&mut admin)
            .await
            .expect("the template's connections closed");
        execute(&mut admin, format!("ALTER DATABASE {name} WITH IS_TEMPLATE true ALLOW_CONNECTIONS false")).await;
    }
    name
}

async fn sweep(admin: &mut PgConnection) {
    let names: Vec<String> =
        sqlx::query_scalar("SELECT datname::text FROM pg_database WHERE starts_with(datname::text, 'kl_test_')")
            .fetch_all(&mut *admin)
            .await
            .expect("the list of databases");
    for name in names {
        let made = name.split('_').nth(2).and_then(|seconds| seconds.parse::<u64>().ok());
        if made.is_some_and(|made| now().saturating_sub(made) > LEFTOVER_AGE) {
            execute(admin, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
        }
    }
}

/// Changes with every change of the PostgreSQL migrations.
fn fingerprint() -> u64 {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/postgres");
    let mut files: Vec<_> =
        std::fs::read_dir(directory).expect("the migrations").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let mut hash = DefaultHasher::new();
    for file in files {
        file.file_name().hash(&mut hash);
        std::fs::read(file).expect("a migration").hash(&mut hash);
    }
    hash.finish()
}

/// Executes text that is made of constants and of the names above.
async fn execute(admin: &mut PgConnection, sql: String) {
    let said = sql.clone();
    if let Err(error) = admin.execute(AssertSqlSafe(sql)).await {
        panic!("{said}: {error}");
    }
}

fn with_database(server: &str, name: &str) -> String {
    let (address, parameters) = server.split_once('?').map_or((server, ""), |(address, rest)| (address, rest));
    let (scheme, rest) = address.split_once("://").expect("a URL");
    let host = rest.split('/').next().unwrap_or_default();
    let mark = if parameters.is_empty() { "" } else { "?" };
    format!("{scheme}://{host}/{name}{mark}{parameters}")
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
