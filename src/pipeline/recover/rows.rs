//! The rows of a recovery: those that the run had changed, without those that are somebody else's by now.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::address::Pattern;
use crate::domain::id::{RunId, Serial};
use crate::domain::run::event::ChangedRow;
use crate::domain::run::{Run, RunKind};
use crate::domain::state::delta::{Distance, distance};
use crate::domain::state::{Body, RowKey, document};
use crate::error::KlError;
use crate::pipeline::Context;
use crate::store::model::{Checkpoint, RowWrite};

/// Rows that others than the run and its recoveries have changed since its slice was cut.
pub(super) async fn changed_by_others(
    ctx: &Context,
    old: &Run,
    checkpoint: &Checkpoint,
) -> Result<BTreeMap<RowKey, ChangedRow>, KlError> {
    let Some(since) = checkpoint.slice_serial else { return Ok(BTreeMap::new()) };
    let mut recoveries: BTreeMap<RunId, bool> = BTreeMap::new();
    let mut others = BTreeMap::new();
    for change in ctx.store.rows_changed_since(old.state, since).await? {
        let newest = &change.newest.version;
        if let Some(run) = newest.run.filter(|_| newest.spec.is_some() && newest.spec == old.spec) {
            let recovery = match recoveries.get(&run) {
                Some(known) => *known,
                None => ctx.store.run_find(run).await?.kind == RunKind::Recover,
            };
            recoveries.insert(run, recovery);
            if recovery {
                continue;
            }
        }
        let row = ChangedRow::by(change.key.to_string(), newest.serial, newest.run, newest.actor.clone());
        others.insert(change.key, row);
    }
    Ok(others)
}

/// Rows that the commit left because the quarantine of another run covers them, too.
pub(super) async fn reserved_by_others(
    ctx: &Context,
    old: &Run,
    left: &[RowKey],
    serial: Serial,
) -> Result<Vec<ChangedRow>, KlError> {
    if left.is_empty() {
        return Ok(Vec::new());
    }
    let standing = ctx.store.reservation_list(old.state).await?;
    let holder = |key: &RowKey| {
        let pattern = key.pattern()?;
        standing.iter().find(|one| one.claim.pattern.intersects(&pattern))
    };
    let row = |key: &RowKey| {
        let holder = holder(key);
        let actor = holder.map_or_else(|| ctx.actor.clone(), |one| one.holder.clone());
        ChangedRow::by(key.to_string(), serial, holder.map(|one| one.run), actor)
    };
    Ok(left.iter().map(row).collect())
}

/// The rows of the checkpoint that the run had changed.
pub(super) fn writes(
    changed: &[Pattern],
    trunk: &BTreeMap<&RowKey, &Body>,
    left: &document::StateDocument,
) -> Result<Vec<RowWrite>, KlError> {
    let changed: BTreeSet<&Pattern> = changed.iter().collect();
    let ours = |key: &RowKey| key.pattern().is_some_and(|pattern| changed.contains(&pattern));
    let now: BTreeMap<&RowKey, &Body> =
        left.rows.iter().filter(|row| ours(&row.key)).map(|row| (&row.key, &row.body)).collect();
    let mut writes = Vec::new();
    for (key, body) in &now {
        let same = match trunk.get(*key) {
            Some(before) => distance(before, body)? == Distance::Same,
            None => false,
        };
        if !same {
            writes.push(RowWrite { key: (*key).clone(), body: Some((*body).clone()) });
        }
    }
    for key in trunk.keys().filter(|key| ours(key) && !now.contains_key(**key)) {
        writes.push(RowWrite { key: (*key).clone(), body: None });
    }
    Ok(writes)
}
