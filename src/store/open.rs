//! From the database's address to a [`Store`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use secrecy::ExposeSecret as _;

use super::care::Patience;
use super::fault::is_lost;
use super::url::{DatabaseUrl, Place};
use super::{Store, StoreError, postgres, sqlite};

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum Unusable {
    /// The path leads to a directory.
    #[error("it is a directory")]
    Directory,
    /// The path leads nowhere.
    #[error("the directory {0} does not exist")]
    NoDirectory(Utf8PathBuf),
    /// The file cannot be read or written.
    #[error("the file cannot be read and written")]
    File(#[source] std::io::Error),
    /// The file is something else.
    #[error("the file is not a SQLite database")]
    NotSqlite,
    /// The file belongs to something else.
    #[error("it is a SQLite database, but of another program")]
    Foreign,
    /// The server does not answer.
    #[error("no answer within {0:?}")]
    Silent(Duration),
    /// The server is too old.
    #[error("PostgreSQL {found} is too old: kl needs {needed} or newer")]
    OldServer { found: String, needed: i32 },
    /// The database cannot hold every text.
    #[error("its encoding is {0}, and kl needs UTF8")]
    Encoding(String),
    /// The database says why. sqlx puts the cause into the sentence, so it is not named as a source again.
    #[error("{0}")]
    Sql(sqlx::Error),
    /// Another answer of the store.
    #[error(transparent)]
    Store(Box<StoreError>),
}

/// Whether a database may be opened a moment later: its server is away, starting, full or silent.
fn may_pass(error: &StoreError) -> bool {
    match error {
        StoreError::Busy(_) => true,
        StoreError::Open { source, .. } => match source.downcast_ref() {
            Some(Unusable::Silent(_)) => true,
            Some(Unusable::Sql(error)) => is_lost(error),
            _ => false,
        },
        StoreError::Database { source, .. } => source.downcast_ref().is_some_and(is_lost),
        _ => false,
    }
}

/// The pause between two tries to open a database.
const PAUSE: Duration = Duration::from_millis(500);

/// Opens a database whose schema fits this binary. A `SQLite` file is made when it does not exist, and brought up to
/// date; on PostgreSQL that is for `kl db migrate`, and an older schema is refused.
pub async fn open(url: &DatabaseUrl) -> Result<Arc<dyn Store>, StoreError> {
    open_with(url, CONNECTIONS).await
}

/// How many connections a command has: a run has few questions at once, and many runs share the server.
const CONNECTIONS: u32 = 4;

/// The same for a program that has many questions at once: with so many connections to PostgreSQL. `SQLite` lets one
/// write at a time however many there are, and keeps to few.
pub async fn open_with(url: &DatabaseUrl, connections: u32) -> Result<Arc<dyn Store>, StoreError> {
    let store = connect(url, connections).await?;
    match store.schema_check().await {
        Err(StoreError::SchemaTooOld { .. }) if url.is_sqlite() => {
            store.migrate().await?;
        }
        checked => checked?,
    }
    Ok(store)
}

/// A store that may still have to be made, so that work which fails leaves nothing behind.
pub enum Memory {
    /// The database is there.
    Open(Arc<dyn Store>),
    /// There is no `SQLite` file yet, or an empty one, and one can be made.
    New(DatabaseUrl),
}

impl Memory {
    /// Opens the database, but does not make it.
    pub async fn find(url: &DatabaseUrl) -> Result<Self, StoreError> {
        match url.place() {
            Place::Sqlite(path) if url.is_missing() => {
                let possible = if path.exists() { Ok(()) } else { sqlite::can_be_made(path) };
                possible.map_err(|why| StoreError::Open { target: url.to_string(), source: Box::new(why) })?;
                Ok(Self::New(url.clone()))
            }
            _ => open(url).await.map(Self::Open),
        }
    }

    /// The same with patience: a server that is away is asked again and again.
    pub async fn find_in_time(url: &DatabaseUrl, patience: &Patience) -> Result<Self, StoreError> {
        let began = Instant::now();
        let mut told = false;
        loop {
            let found = Self::find(url).await;
            let left = patience.limit.saturating_sub(began.elapsed());
            match &found {
                Err(error) if may_pass(error) && !left.is_zero() && !patience.stop.is_cancelled() => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(%error, limit = ?patience.limit, "the database does not answer, trying again");
                    }
                }
                _ => return found,
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE.min(left)) => {}
                () = patience.stop.cancelled() => {}
            }
        }
    }

    /// The store, made now if need be.
    pub async fn store(self) -> Result<Arc<dyn Store>, StoreError> {
        match self {
            Self::Open(store) => Ok(store),
            Self::New(url) => open(&url).await,
        }
    }
}

/// Opens a database for a command that only looks: a `SQLite` file that does not exist, or is empty, is not made, but refused.
pub async fn open_existing(url: &DatabaseUrl) -> Result<Arc<dyn Store>, StoreError> {
    if url.is_missing() {
        let what = if url.is_empty_file() { ": the file is empty" } else { "" };
        return Err(StoreError::Missing { target: url.to_string(), what });
    }
    open(url).await
}

/// Opens a database whatever its schema, for `kl db migrate`.
pub async fn open_unchecked(url: &DatabaseUrl) -> Result<Arc<dyn Store>, StoreError> {
    connect(url, CONNECTIONS).await
}

async fn connect(url: &DatabaseUrl, connections: u32) -> Result<Arc<dyn Store>, StoreError> {
    let opened: Result<Arc<dyn Store>, Unusable> = match url.place() {
        Place::Sqlite(path) => sqlite::connect(path).await.map(|store| Arc::new(store) as Arc<dyn Store>),
        Place::Postgres { url, .. } => {
            postgres::connect(url.expose_secret(), connections).await.map(|store| Arc::new(store) as Arc<dyn Store>)
        }
    };
    opened.map_err(|why| StoreError::Open { target: url.to_string(), source: Box::new(why) })
}
