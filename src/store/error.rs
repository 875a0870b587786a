//! Why the store could not do what was asked.

use std::time::Duration;

use camino::Utf8PathBuf;

use crate::domain::id::{RunId, Serial};
use crate::domain::request::RequestRef;

/// Why the store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The thing asked for does not exist.
    #[error("there is no {what} {id}")]
    NotFound {
        /// `state`, `run`, `spec`, …
        what: &'static str,
        /// What it was asked for by.
        id: String,
    },
    /// The history before a serial was removed (`kl gc`), and the answer would need it.
    #[error("the history before serial {from} was removed by `kl gc`; serial {serial} cannot be read any more")]
    HistoryRemoved {
        /// What was asked for.
        serial: Serial,
        /// The first serial that can be read.
        from: Serial,
    },
    /// The run no longer holds the reservations that the operation needs: its lease was reclaimed, or it has ended.
    #[error("run {run} no longer holds its reservations ({status})")]
    LeaseLost {
        /// The run.
        run: RunId,
        /// What the store says of it now.
        status: String,
    },
    /// The lock on a request's comment is another job's by now, or nobody's.
    #[error("the comment of {request} is no longer ours to write: the lock on it has ended")]
    CommentLockLost {
        /// The request.
        request: RequestRef,
    },
    /// The trunk is not what the caller took it for.
    #[error("{0}")]
    Stale(String),
    /// The database's schema is older than this binary needs.
    #[error("the database's schema is at version {found}, this kl needs {needed}")]
    SchemaTooOld {
        /// What the database has; 0 when it has none.
        found: i64,
        /// What this binary needs.
        needed: i64,
    },
    /// The database's schema is newer than this binary knows.
    #[error("the database's schema is at version {found}, this kl knows only up to {known}")]
    SchemaTooNew {
        /// What the database has.
        found: i64,
        /// What this binary knows.
        known: i64,
    },
    /// Another process holds the database for longer than the busy time-out.
    #[error("the database is busy: another process has held its lock for {0:?}")]
    Busy(Duration),
    /// There is no database yet, and the command would not make one.
    #[error("there is no database {target} yet{what}")]
    Missing {
        /// Its address.
        target: String,
        /// What is there instead; nothing, mostly.
        what: &'static str,
    },
    /// The file of the database is no longer the one that was opened.
    #[error("the database {path} was removed or replaced while kl worked with it, so nothing more is written")]
    Moved {
        /// Where it was.
        path: Utf8PathBuf,
    },
    /// The database cannot be reached or opened.
    #[error("cannot open the database {target}")]
    Open {
        /// Its address, without credentials.
        target: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What stands in the database was not written by kl.
    #[error("the database holds something that kl did not write: {0}")]
    Corrupt(String),
    /// Any other failure of the database.
    #[error("the database failed to {operation}")]
    Database {
        /// The operation that failed, as `commit the run`.
        operation: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The error for something that does not exist.
pub(in crate::store) fn not_found(what: &'static str, id: impl std::fmt::Display) -> StoreError {
    StoreError::NotFound { what, id: id.to_string() }
}
