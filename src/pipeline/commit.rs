//! The last step of an apply: what Terraform made becomes rows of the trunk.

use std::collections::BTreeSet;

use super::Context;
use super::record::Recorder;
use crate::clock;
use crate::domain::address::Pattern;
use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::event::RunEvent;
use crate::domain::run::fidelity::{Fidelity, fidelity};
use crate::domain::state::delta::{Change, Delta, delta};
use crate::domain::state::document::{DocumentHead, StateDocument};
use crate::domain::state::{ContentHash, Row, RowKey, Touched};
use crate::error::KlError;
use crate::store::Held;
use crate::store::model::{Commit, CommitMode, Committed, LineageRule, RowWrite, Snapshot, SoftWrite, Source};

/// What an apply made, ready to be judged.
pub struct Outcome<'a> {
    /// The trunk that the slice was cut from.
    pub snapshot: &'a Snapshot,
    /// The slice.
    pub before: &'a [Row],
    /// What Terraform left.
    pub after: &'a StateDocument,
    /// The rows that may change.
    pub write_set: &'a [Pattern],
    /// Instances that the plan found different in reality.
    pub drifted: &'a BTreeSet<String>,
    /// Whether other values than the reviewed ones were accepted.
    pub other_values: bool,
    /// Data rows that nobody declares any more.
    pub forgotten: Vec<Row>,
}

/// Sorts what changed. Changes that nobody planned are a failure; nothing of them is committed.
pub fn judge(outcome: &Outcome<'_>) -> Result<Delta, KlError> {
    let mut delta = delta(outcome.before, &outcome.after.rows, outcome.write_set, outcome.drifted)?;
    for row in &outcome.forgotten {
        if !delta.soft.iter().any(|change| change.key == row.key) {
            delta.soft.push(Change { key: row.key.clone(), before: Some(row.body.clone()), after: None });
        }
    }
    if delta.violations.is_empty() {
        return Ok(delta);
    }
    let names: Vec<String> = delta.violations.iter().take(10).map(|change| change.key.to_string()).collect();
    Err(KlError::failed(format!(
        "terraform changed rows that it had not planned to change: {}; nothing was committed",
        names.join(", ")
    ))
    .hint("what it did is kept with the run, to be recovered")
    .hint("please report this with the plan; it is a bug in kl or in a provider"))
}

/// Commits what [`judge`] has sorted.
pub async fn commit(
    ctx: &Context,
    recorder: &Recorder,
    held: &Held,
    spec: &PlanSpec,
    outcome: &Outcome<'_>,
    delta: Delta,
    providers: std::collections::BTreeMap<String, String>,
) -> Result<Committed, KlError> {
    let drift: Vec<String> = delta.drift.iter().map(|change| change.key.to_string()).collect();
    if !drift.is_empty() {
        recorder.record(RunEvent::DriftObserved { addresses: drift }).await?;
    }
    let soft_names: Vec<String> = delta.soft.iter().map(|change| change.key.to_string()).collect();
    let rows: Vec<(RowKey, Touched)> = delta.writes.iter().chain(&delta.soft).filter_map(touched).collect();
    // What recoveries of this spec have brought in came before. Soft rows that the store leaves are none that were planned.
    let earlier: Vec<(RowKey, Touched)> =
        ctx.store.recovered_versions(&[spec.id]).await?.into_iter().flat_map(|version| version.rows).collect();
    let found = Fidelity { other_values: outcome.other_values, ..fidelity(spec, &earlier, &rows, &soft_names) };
    let as_planned = Some(found.exact());
    let lineage = outcome.snapshot.head.lineage.clone().unwrap_or_else(clock::new_lineage);
    let commit = Commit {
        source: Source::Apply,
        mode: CommitMode::RowDelta,
        source_serial: outcome.snapshot.head.serial,
        lineage: LineageRule::OrNew(lineage),
        at_least: None,
        document: Some(document_head(outcome)),
        providers,
        writes: delta.writes.into_iter().map(row_write).collect(),
        soft: delta.soft.into_iter().map(soft_write).collect(),
        as_planned,
    };
    let committed = ctx.store.run_commit(held, &commit).await?;
    recorder.tell_all(&committed.events);
    Ok(committed)
}

/// The trunk's members, with the version of the Terraform that wrote last; a new state takes over all of them.
fn document_head(outcome: &Outcome<'_>) -> DocumentHead {
    let head = &outcome.after.head;
    if outcome.snapshot.head.serial.0 == 0 {
        return head.clone();
    }
    DocumentHead { terraform_version: head.terraform_version.clone(), extra: outcome.snapshot.document.extra.clone() }
}

/// What a change does to its row, as the version will have it.
fn touched(change: &Change) -> Option<(RowKey, Touched)> {
    let touched = match (&change.before, &change.after) {
        (None, None) => return None,
        (None, Some(_)) => Touched::Created,
        (Some(_), None) => Touched::Removed,
        (Some(before), Some(after)) if before.hash() == after.hash() => return None,
        (Some(_), Some(_)) => Touched::Changed,
    };
    Some((change.key.clone(), touched))
}

fn row_write(change: Change) -> RowWrite {
    RowWrite { key: change.key, body: change.after }
}

fn soft_write(change: Change) -> SoftWrite {
    let expected: Option<ContentHash> = change.before.as_ref().map(crate::domain::state::Body::hash);
    SoftWrite { expected, write: row_write(change) }
}
