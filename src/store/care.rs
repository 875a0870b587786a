//! How a store deals with a database that does not answer: at once, or with patience while a lease lasts.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::fault::{ATTEMPTS, Fault};
use crate::mishap::Mishaps;

/// How long one attempt may take when there can be another one: a connection that has gone silent says nothing.
const ATTEMPT: Duration = Duration::from_mins(2);

/// The first and the longest pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long to go on trying once somebody wants us to stop: CI kills what takes longer (terraform-facts.md on signals).
const LAST_TRIES: Duration = Duration::from_secs(4);

/// For how long a database that is away is waited for.
#[derive(Debug, Clone)]
pub struct Patience {
    /// As long as this, from the first failure on: the run's lease, because after it there is nothing left to save.
    pub limit: Duration,
    /// Cancelled when kl is to end; then a few seconds are left.
    pub stop: CancellationToken,
}

/// The care with which a database is asked.
#[derive(Debug, Clone, Default)]
pub(in crate::store) struct Care {
    pub(in crate::store) patience: Option<Patience>,
    pub(in crate::store) mishaps: Mishaps,
}

/// Where in a transaction something can go wrong.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) enum Moment {
    /// Before it begins.
    Begin,
    /// When everything is done but the commit.
    Commit,
    /// After the commit, before anybody knows.
    Done,
}

impl Moment {
    fn word(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Commit => "commit",
            Self::Done => "done",
        }
    }
}

/// What tells a transaction from all others, given by the database while it lasts.
#[derive(Debug, Clone)]
pub(in crate::store) struct Mark(pub(in crate::store) String);

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Fate {
    /// It was committed.
    Committed,
    /// Nothing of it remains.
    TakenBack,
    /// It goes on.
    Open,
}

impl Care {
    /// Whether there will be another attempt when the connection is lost.
    pub(in crate::store) fn is_patient(&self) -> bool {
        self.patience.is_some()
    }

    /// Passes a moment of an operation, which fails as a lost connection would when a test wants so.
    pub(in crate::store) async fn pass(&self, operation: &str, moment: Moment) -> Result<(), Fault> {
        let passed = self.mishaps.pass(|| format!("store/{operation}/{}", moment.word())).await;
        passed.map_err(|struck| Fault::Sql(sqlx::Error::Io(std::io::Error::other(struck))))
    }

    /// Waits for a part of an attempt.
    pub(in crate::store) async fn in_time<T>(&self, part: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let Some(patience) = &self.patience else { return part.await };
        let called_off = async {
            patience.stop.cancelled().await;
            tokio::time::sleep(LAST_TRIES).await;
        };
        tokio::select! {
            done = part => done,
            () = tokio::time::sleep(ATTEMPT) => Err(silent()),
            // A connection that says nothing must not keep the last words of a run back until it is killed.
            () = called_off => Err(silent()),
        }
    }

    /// The attempts at one operation.
    pub(in crate::store) fn tries(&self, operation: &'static str) -> Tries<'_> {
        Tries { care: self, operation, lost: 0, away_since: None }
    }
}

/// The fault of a connection that has not answered in time.
fn silent() -> Fault {
    Fault::Sql(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()))
}

/// The attempts at one operation.
pub(in crate::store) struct Tries<'c> {
    care: &'c Care,
    operation: &'static str,
    /// Attempts that another transaction won.
    lost: u32,
    /// Since when the database does not answer, and how often it was asked.
    away_since: Option<(Instant, u32)>,
}

impl Tries<'_> {
    /// Waits for the time of another attempt, or gives the fault back when there is none. Whatever comes here has left
    /// nothing in the database.
    pub(in crate::store) async fn again(&mut self, fault: Fault) -> Result<(), Fault> {
        if fault.try_again() && self.lost + 1 < ATTEMPTS {
            self.lost += 1;
            debug!(operation = self.operation, attempt = self.lost, "another transaction won, trying again");
            tokio::time::sleep(Duration::from_millis(20) * self.lost).await;
            return Ok(());
        }
        self.waited(fault).await
    }

    /// Waits for a database that is away, as long as the patience lasts.
    pub(in crate::store) async fn waited(&mut self, fault: Fault) -> Result<(), Fault> {
        let Some(patience) = self.care.patience.as_ref().filter(|_| fault.passing()) else { return Err(fault) };
        let (since, asked) = *self.away_since.get_or_insert_with(|| {
            warn!(operation = self.operation, limit = ?patience.limit, "the database does not answer, trying again");
            (Instant::now(), 0)
        });
        let left = patience.limit.saturating_sub(since.elapsed());
        let pause = LONGEST_PAUSE.min(PAUSE * 2_u32.saturating_pow(asked.min(8)));
        if left.is_zero() || (patience.stop.is_cancelled() && since.elapsed() >= LAST_TRIES) {
            return Err(fault);
        }
        self.away_since = Some((since, asked + 1));
        tokio::time::sleep(pause.min(left)).await;
        Ok(())
    }
}
