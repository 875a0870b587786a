//! How a store deals with a database that does not answer: at once, or with patience while a lease lasts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::fault::{ATTEMPTS, Fault};
use super::home::Home;
use crate::mishap::Mishaps;

/// How long one attempt may take when there can be another one: a connection that has gone silent says nothing.
const ATTEMPT: Duration = Duration::from_mins(2);

/// The first and the longest pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long to go on trying once somebody wants us to stop, because CI kills what takes longer (terraform-facts.md on
/// signals), or once the patience is used up: each of a run's last words has a chance still.
const LAST_TRIES: Duration = Duration::from_secs(4);

/// After so long without a question nobody knows whether the database was away all the time.
const FORGOTTEN: Duration = Duration::from_mins(5);

/// For how long a database that is away is waited for.
#[derive(Debug, Clone)]
pub struct Patience {
    /// As long as this, from the first question on that had no answer, whoever asked: the run's lease, because after it
    /// there is little left to save.
    pub limit: Duration,
    /// Cancelled when kl is to end; then a few seconds are left.
    pub stop: CancellationToken,
}

/// The care with which a database is asked.
#[derive(Debug, Clone, Default)]
pub(in crate::store) struct Care {
    pub(in crate::store) patience: Option<Patience>,
    pub(in crate::store) mishaps: Mishaps,
    pub(in crate::store) away: Arc<Mutex<Option<Away>>>,
    /// The file of an embedded database.
    pub(in crate::store) home: Option<Home>,
}

/// A database that does not answer. All operations of a process share one: or each of them would wait for a lease of its own.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Away {
    /// Since when.
    since: Instant,
    /// When it was asked last.
    asked: Instant,
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

    /// Refuses to write where nobody would read it.
    pub(in crate::store) fn at_home(&self) -> Result<(), Fault> {
        Ok(self.home.as_ref().map_or(Ok(()), Home::still_there)?)
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
        let left = patience.limit.saturating_sub(self.away_for().unwrap_or_default());
        let done = tokio::select! {
            done = part => done,
            () = tokio::time::sleep(ATTEMPT.min(left.max(LAST_TRIES))) => Err(silent()),
            // A connection that says nothing must not keep the last words of a run back until it is killed.
            () = called_off => Err(silent()),
        };
        self.heard(&done);
        done
    }

    /// Waits for a part of an attempt however long it takes.
    pub(in crate::store) async fn to_its_end<T>(
        &self,
        part: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let done = part.await;
        self.heard(&done);
        done
    }

    /// An answer is the end of an outage.
    fn heard<T>(&self, answer: &Result<T, Fault>) {
        if answer.as_ref().err().is_none_or(|fault| !fault.passing()) {
            *self.away.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// For how long the database has not answered.
    fn away_for(&self) -> Option<Duration> {
        let away = *self.away.lock().unwrap_or_else(PoisonError::into_inner);
        away.filter(|away| away.asked.elapsed() < FORGOTTEN).map(|away| away.since.elapsed())
    }

    /// Another question without an answer; whether it is the first one.
    fn unanswered(&self) -> bool {
        let known = self.away_for();
        let asked = Instant::now();
        let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        match away.as_mut().filter(|_| known.is_some()) {
            Some(away) => away.asked = asked,
            None => *away = Some(Away { since: asked, asked }),
        }
        known.is_none()
    }

    /// The attempts at one operation.
    pub(in crate::store) fn tries(&self, operation: &'static str) -> Tries<'_> {
        Tries { care: self, operation, lost: 0, away_since: None }
    }
}

/// The fault of a connection that has not answered in time.
pub(in crate::store) fn silent() -> Fault {
    Fault::Sql(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()))
}

/// The attempts at one operation.
pub(in crate::store) struct Tries<'c> {
    care: &'c Care,
    operation: &'static str,
    /// Attempts that another transaction won.
    lost: u32,
    /// Since when this operation has no answer, and how often it has asked.
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
        if self.care.unanswered() {
            warn!(operation = self.operation, limit = ?patience.limit, "the database does not answer, trying again");
        }
        let (since, asked) = *self.away_since.get_or_insert_with(|| (Instant::now(), 0));
        let away = self.care.away_for().unwrap_or_default();
        let left = left(patience.limit, away, since.elapsed());
        let pause = LONGEST_PAUSE.min(PAUSE * 2_u32.saturating_pow(asked.min(8)));
        if left.is_zero() || (patience.stop.is_cancelled() && since.elapsed() >= LAST_TRIES) {
            return Err(fault);
        }
        self.away_since = Some((since, asked + 1));
        tokio::time::sleep(pause.min(left)).await;
        Ok(())
    }
}

/// How much longer an operation is tried, when the database has not answered for some time, and the operation itself not for
/// another.
fn left(limit: Duration, away: Duration, tried: Duration) -> Duration {
    let together = limit.saturating_sub(away.max(tried));
    together.max(LAST_TRIES.min(limit).saturating_sub(tried))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_operations_share_one_patience() {
        let [none, second, limit] = [0, 1, 900].map(Duration::from_secs);
        assert_eq!(left(limit, none, none), limit);
        let rest = Duration::from_secs(899);
        assert_eq!(left(limit, second, none), rest, "one that comes later has what the first one left");
        assert_eq!(left(limit, none, second), rest, "whatever answers in between");
        assert_eq!(left(limit, limit, none), LAST_TRIES, "each of the last words has a chance still");
        assert_eq!(left(limit, limit, LAST_TRIES), none);
        assert_eq!(left(second, second, second), none, "never more than the limit");
    }

    #[tokio::test]
    async fn an_answer_ends_the_outage() {
        let patience = Patience { limit: Duration::from_mins(15), stop: CancellationToken::new() };
        let care = Care { patience: Some(patience), ..Care::default() };
        assert!(care.unanswered() && !care.clone().unanswered() && care.away_for().is_some());
        assert!(care.in_time(async { Err::<(), _>(silent()) }).await.is_err());
        assert!(care.away_for().is_some());
        assert!(care.in_time(async { Ok(()) }).await.is_ok());
        assert!(care.away_for().is_none() && care.unanswered());
    }
}
