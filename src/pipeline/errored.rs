//! What an `errored.tfstate` is to the trunk: the only record of what a plain Terraform did when it could not write its
//! state, and perhaps one that others have left behind since.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};

use super::import::{by_version, shortened};
use crate::domain::id::{Lineage, Serial, StateName};
use crate::domain::run::{Run, RunKind, RunStatus};
use crate::domain::state::delta::same_rows;
use crate::domain::state::document::{self, StateDocument};
use crate::domain::state::{Body, RowKey, incoming};
use crate::error::KlError;
use crate::store::model::{RowChange, Snapshot};
use crate::store::{Store, StoreError};

/// So many runs are looked through for the one that lost its lock.
const RUNS: u32 = 100;

/// For so long a Terraform is believed to have worked on after that; and so far apart clocks are.
const WORKED_ON: TimeDelta = TimeDelta::days(1);
const APART: TimeDelta = TimeDelta::minutes(5);

/// What such a file is to the trunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Errored {
    /// It cannot be read.
    Unreadable(String),
    /// It belongs to another history.
    Foreign {
        /// The state's.
        has: Lineage,
        /// The file's.
        given: Lineage,
    },
    /// It is of a first apply, which had no lineage yet, and others have begun the state since: no push takes it.
    Unbegun {
        /// The trunk's serial.
        stands: Serial,
        /// The objects that it alone has, in words.
        alone: Option<String>,
    },
    /// The trunk has all of it.
    Known,
    /// Nobody has gone on since: it can be pushed.
    Next,
    /// Others have gone on since: pushing it would take that back.
    Overtaken {
        /// The file's serial.
        serial: Serial,
        /// The trunk's.
        stands: Serial,
        /// What it would take back, in words.
        undone: Option<String>,
    },
}

/// Looks what a file, written at this time, is to the trunk of a state.
///
/// # Errors
/// When the store fails.
pub async fn judge(
    store: &dyn Store,
    name: &StateName,
    text: &str,
    written: DateTime<Utc>,
) -> Result<Errored, KlError> {
    let document = match document::read(text) {
        Ok(document) => document,
        Err(error) => return Ok(Errored::Unreadable(KlError::from(error).chain())),
    };
    let Some(head) = store.state_find(name).await? else { return Ok(Errored::Next) };
    let begun = head.lineage.is_some();
    if let (Some(has), Some(given)) = (head.lineage, &document.lineage)
        && has != *given
    {
        return Ok(Errored::Foreign { has, given: given.clone() });
    }
    let trunk = store.snapshot(head.id, None).await?;
    let stands = trunk.head.serial;
    if stands >= document.serial && same_rows(trunk.rows.iter().map(|(row, _)| row), &document.rows) {
        return Ok(Errored::Known);
    }
    if begun && document.lineage.is_none() {
        return Ok(Errored::Unbegun { stands, alone: alone(&trunk, &document) });
    }
    let undone = undone(store, &trunk, &document, written).await?;
    // Of the same serial there cannot be two, and Terraform refuses to push it; where nothing was ever written, 0 is none.
    if undone.is_none() && (stands < document.serial || stands == Serial(0)) {
        return Ok(Errored::Next);
    }
    Ok(Errored::Overtaken { serial: document.serial, stands, undone })
}

/// The objects of a file that the trunk does not have.
fn alone(trunk: &Snapshot, document: &StateDocument) -> Option<String> {
    let has: BTreeSet<&RowKey> = trunk.rows.iter().map(|(row, _)| &row.key).collect();
    let objects = document.rows.iter().filter(|row| matches!(row.key, RowKey::Object { .. }));
    let alone: Vec<String> = objects.filter(|row| !has.contains(&row.key)).map(|row| row.key.to_string()).collect();
    (!alone.is_empty()).then(|| shortened(&alone, ", "))
}

/// What others have done since the file's Terraform began, and the file does not have.
async fn undone(
    store: &dyn Store,
    trunk: &Snapshot,
    document: &StateDocument,
    written: DateTime<Utc>,
) -> Result<Option<String>, KlError> {
    let runs = store.run_list(trunk.head.id, false, RUNS).await?;
    let stopped = |run: &&Run| {
        let lost = matches!(run.status, RunStatus::Aborted | RunStatus::Failed | RunStatus::Lost);
        let then = run.started_at <= written + APART && run.ended_at.is_some_and(|ended| written - ended < WORKED_ON);
        run.kind == RunKind::Plain && lost && then
    };
    let stopped: Vec<&Run> = runs.iter().filter(stopped).collect();
    let unknown = || Ok(Some("what came since is not on record any more".to_owned()));
    if stopped.is_empty() && runs.len() >= RUNS as usize {
        return unknown();
    }
    // It had the lock: whatever came after its beginning and is not its own came after its end. Where it may have been one
    // of several, nothing is its own for certain.
    let own = if let [one] = stopped.as_slice() { Some(*one) } else { None };
    let before = Serial((document.serial.0 - 1).max(0));
    let began = stopped.iter().map(|run| run.source_serial).min();
    let since = began.map_or(before, |began| began.min(before)).min(trunk.head.serial);
    let changed = match store.rows_changed_since(trunk.head.id, since).await {
        Ok(changed) => changed,
        Err(StoreError::HistoryRemoved { .. }) => return unknown(),
        Err(error) => return Err(error.into()),
    };
    let others = |change: &&RowChange| {
        let run = change.newest.version.run;
        !matches!(change.key, RowKey::Check { .. }) && (run.is_none() || run != own.map(|own| own.id))
    };
    let now: BTreeMap<&RowKey, &Body> = trunk.rows.iter().map(|(row, _)| (&row.key, &row.body)).collect();
    let ours =
        changed.iter().filter(others).map(|change| (change.key.clone(), now.get(&change.key).copied())).collect();
    let undone = incoming::undone(&ours, document);
    Ok(by_version(changed.iter().filter(|change| undone.contains(&change.key))))
}
