//! From the databases' errors to the store's.

use std::time::Duration;

use sqlx::error::ErrorKind;

use super::StoreError;

/// How long a statement waits for another transaction: on `SQLite` for the lock of another process, which a machine that
/// has a lot to do may keep from its processor for ten seconds and more (measured); on PostgreSQL, where commits of one
/// state queue for its row.
pub(in crate::store) const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a transaction that lost against another one is tried.
pub(in crate::store) const ATTEMPTS: u32 = 5;

/// What goes wrong within one operation of the store: the database, or an answer that is already the store's own.
#[derive(Debug)]
pub(in crate::store) enum Fault {
    /// The database refused.
    Sql(sqlx::Error),
    /// The store's answer.
    Store(StoreError),
    /// Another transaction came between what this one looked at and what it did.
    Overtaken,
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Whether an error says that the connection is lost, or was not to be had for now.
pub(in crate::store) fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::WorkerCrashed => true,
        // Class 08, operator intervention and time-outs that end the connection, too many connections.
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            code.starts_with("08") || matches!(&*code, "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "53300")
        }),
        _ => false,
    }
}

impl Fault {
    /// Whether the database took the whole transaction back and asks for another try: a serialization failure or a
    /// deadlock. Nothing of the transaction remains, so another try is safe.
    pub(in crate::store) fn try_again(&self) -> bool {
        matches!(self, Self::Overtaken) || matches!(self.code().as_deref(), Some("40001" | "40P01"))
    }

    /// Whether it may pass by itself, the operation being taken back as a whole: the connection is lost, the server is
    /// away, starting or full, or another process has held its lock for too long.
    pub(in crate::store) fn passing(&self) -> bool {
        self.connection_lost() || self.busy().is_some()
    }

    /// Whether the connection is lost, so that a commit that was asked for may have been made or not.
    pub(in crate::store) fn connection_lost(&self) -> bool {
        matches!(self, Self::Sql(error) if is_lost(error))
    }

    /// Whether the server was asked for a transaction that it never had.
    pub(in crate::store) fn unknown_transaction(&self) -> bool {
        self.code().as_deref() == Some("22023")
    }

    /// Whether a row that the new one refers to does not exist.
    pub(in crate::store) fn missing_reference(&self) -> bool {
        self.kind() == Some(ErrorKind::ForeignKeyViolation)
    }

    /// Whether the row is there already.
    pub(in crate::store) fn duplicate(&self) -> bool {
        self.kind() == Some(ErrorKind::UniqueViolation)
    }

    /// The store's error for a failure during `operation`.
    pub(in crate::store) fn during(self, operation: &'static str) -> StoreError {
        if let Some(waited) = self.busy() {
            return StoreError::Busy(waited);
        }
        match self {
            Self::Store(error) => error,
            Self::Overtaken => {
                StoreError::Stale(format!("cannot {operation}: other jobs keep changing what it is about"))
            }
            Self::Sql(sqlx::Error::ColumnDecode { index, source }) => {
                StoreError::Corrupt(format!("column {index}: {source}"))
            }
            Self::Sql(error) => StoreError::Database { operation, source: Box::new(error) },
        }
    }

    /// How long we waited, when another process kept its lock for longer than that: `SQLITE_BUSY` and `SQLITE_LOCKED` in
    /// their variants, and PostgreSQL's `lock_not_available`.
    pub(in crate::store) fn busy(&self) -> Option<Duration> {
        match self.code()?.as_str() {
            "5" | "261" | "517" | "773" | "6" | "262" | "55P03" => Some(LOCK_TIMEOUT),
            _ => None,
        }
    }

    fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Sql(sqlx::Error::Database(error)) => Some(error.kind()),
            _ => None,
        }
    }

    fn code(&self) -> Option<String> {
        match self {
            Self::Sql(sqlx::Error::Database(error)) => error.code().map(std::borrow::Cow::into_owned),
            _ => None,
        }
    }
}
