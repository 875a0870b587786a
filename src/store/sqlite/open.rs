//! Opening a `SQLite` file.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use nix::unistd::{AccessFlags, access};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, query_as};

use super::Database;
use crate::store::fault::{Fault, LOCK_TIMEOUT};
use crate::store::home::Home;
use crate::store::open::Unusable;

/// Readers beside the one writer that `SQLite` allows.
const CONNECTIONS: u32 = 4;

/// Opens the file, and makes it when it does not exist.
pub(in crate::store) async fn connect(path: &Utf8Path) -> Result<Database, Unusable> {
    make(path)?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(LOCK_TIMEOUT)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        // A state that is lost is worse than a commit that takes a few milliseconds more.
        .synchronous(SqliteSynchronous::Full);
    check(&options).await?;
    let pool = SqlitePoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(Duration::from_secs(30))
        .connect_lazy_with(options);
    Ok(Database::new(pool, Home::at(path)))
}

/// Whether a file that does not exist could be made, found out without leaving anything behind.
pub(in crate::store) fn can_be_made(path: &Utf8Path) -> Result<(), Unusable> {
    let parent = path.parent().filter(|parent| !parent.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
    let directory = match parent.parent() {
        Some(above) if !parent.exists() && parent.file_name() == Some(".kl") => above,
        _ => parent,
    };
    let directory = if directory.as_str().is_empty() { Utf8Path::new(".") } else { directory };
    if !directory.is_dir() {
        return Err(Unusable::NoDirectory(directory.to_owned()));
    }
    tempfile::tempfile_in(directory).map(drop).map_err(Unusable::File)
}

/// Makes the file for its owner alone, and kl's own directory around it, which no commit should hold.
fn make(path: &Utf8Path) -> Result<(), Unusable> {
    if path.is_dir() {
        return Err(Unusable::Directory);
    }
    let parent = path.parent().filter(|parent| !parent.as_str().is_empty());
    if let Some(directory) = parent.filter(|parent| !parent.exists()) {
        if directory.file_name() != Some(".kl") {
            return Err(Unusable::NoDirectory(directory.to_owned()));
        }
        match fs::create_dir(directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(Unusable::File(error)),
            _ => fs::write(directory.join(".gitignore"), "*\n").map_err(Unusable::File)?,
        }
    }
    // One that exists is not opened here: to close it again would free all the locks that this process has on it
    // (https://sqlite.org/howtocorrupt.html, 2.2).
    if path.exists() {
        let may = AccessFlags::R_OK | AccessFlags::W_OK;
        return access(path.as_std_path(), may).map_err(|error| Unusable::File(error.into()));
    }
    // SQLite gives its side files the same mode. A link may lead to where the file is to be.
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).open(path).map(drop).map_err(Unusable::File)
}

/// Opens the file once and looks whose it is.
async fn check(options: &SqliteConnectOptions) -> Result<(), Unusable> {
    let started = Instant::now();
    let mut connection = loop {
        match sqlx::SqliteConnection::connect_with(options).await.map_err(Fault::from) {
            Ok(connection) => break connection,
            // The change to WAL needs the file alone, and SQLite does not wait for that by itself.
            Err(fault) if fault.busy().is_some() && started.elapsed() < LOCK_TIMEOUT => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(fault) => return Err(unusable(fault)),
        }
    };
    let (tables, ours): (i64, i64) = query_as(
        "SELECT COUNT(*), COUNT(*) FILTER (WHERE name = 'kl_migrations') FROM sqlite_schema WHERE type = 'table'",
    )
    .fetch_one(&mut connection)
    .await
    .map_err(|error| unusable(error.into()))?;
    connection.close().await.map_err(Unusable::Sql)?;
    if tables > 0 && ours == 0 { Err(Unusable::Foreign) } else { Ok(()) }
}

fn unusable(fault: Fault) -> Unusable {
    match fault {
        Fault::Sql(sqlx::Error::Database(error)) if error.code().as_deref() == Some("26") => Unusable::NotSqlite,
        Fault::Sql(error) => Unusable::Sql(error),
        Fault::Store(error) => Unusable::Store(Box::new(error)),
        overtaken @ Fault::Overtaken => Unusable::Store(Box::new(overtaken.during("open"))),
    }
}
