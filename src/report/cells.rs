//! What stands in the cells of tables about runs and versions: one look everywhere.

use chrono::{DateTime, Utc};

use super::conflict;
use super::phrase::Phrase;
use super::story::Tone;
use super::style::{between, duration};
use crate::domain::id::RunId;
use crate::domain::run::{Origin, Run, RunStatus};

/// A time to the second.
#[must_use]
pub fn time(at: DateTime<Utc>) -> Phrase {
    Phrase::own(at.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// A run's id.
#[must_use]
pub fn run(id: RunId) -> Phrase {
    Phrase::name_of(id.to_string())
}

/// The request that something came from, as its forge writes it; empty outside of one.
#[must_use]
pub fn request(origin: &Origin) -> Phrase {
    conflict::request(origin).map(Phrase::own).unwrap_or_default()
}

/// Where a run stands: calm when it went well, loud when it needs somebody.
#[must_use]
pub fn status(status: RunStatus) -> Phrase {
    Phrase::toned(tone(status), status.word().replace('_', " "))
}

/// How an end is meant.
#[must_use]
pub fn tone(status: RunStatus) -> Tone {
    match status {
        RunStatus::Committed => Tone::Good,
        RunStatus::Noop | RunStatus::DryRun => Tone::Quiet,
        RunStatus::Started | RunStatus::Waiting | RunStatus::Reserved | RunStatus::Applying => Tone::Waits,
        RunStatus::Aborted => Tone::Careful,
        RunStatus::Failed | RunStatus::Conflict | RunStatus::Stale | RunStatus::Lost => Tone::Alarm,
    }
}

/// How long a run took, or has taken so far.
#[must_use]
pub fn took(run: &Run, now: DateTime<Utc>) -> Phrase {
    Phrase::own(duration(between(run.started_at, run.ended_at.unwrap_or(now))))
}
