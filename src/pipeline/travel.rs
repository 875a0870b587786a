//! Two serials side by side (`kl state diff`), and back to an earlier one as a new version (`kl state rollback`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Context;
use super::errand::{self, Change, Errand};
use super::moves;
use crate::clock;
use crate::domain::address::{Address, Pattern, Target};
use crate::domain::coordination::reservation::Claim;
use crate::domain::id::{RunId, Serial, StateId};
use crate::domain::run::RunKind;
use crate::domain::run::event::RunEvent;
use crate::domain::state::comparison::{Difference, compare};
use crate::domain::state::{Body, ContentHash, Row, RowKey};
use crate::error::KlError;
use crate::store::model::{
    Commit, CommitMode, Committed, LineageRule, RowWrite, Snapshot, SoftWrite, Source, StateHead,
};
use crate::store::{Store, StoreError};

/// The state at a serial; the newest, if none is given.
pub async fn at(store: &dyn Store, head: &StateHead, serial: Option<Serial>) -> Result<Snapshot, KlError> {
    store.snapshot(head.id, serial).await.map_err(|error| match error {
        StoreError::NotFound { .. } => {
            let asked = serial.map(|serial| serial.to_string()).unwrap_or_default();
            KlError::usage(format!(
                "state {:?} has no serial {asked}; its newest is {}",
                head.name.as_str(),
                head.serial
            ))
            .hint("`kl history` shows the serials")
        }
        other => other.into(),
    })
}

/// What differs between two contents of a state, whichever is the older one.
pub async fn diff(store: &dyn Store, before: &Snapshot, after: &Snapshot) -> Result<Vec<Difference>, KlError> {
    let (old, new) = (before.contents(), after.contents());
    let moves = moves_between(store, before.head.id, (before.head.serial, &old), (after.head.serial, &new)).await?;
    Ok(compare(&old, &new, &moves))
}

/// Moves on record, from the addresses of one content to those of the other. They are looked for only where something is
/// gone and something else is new.
async fn moves_between(
    store: &dyn Store,
    state: StateId,
    (from, old): (Serial, &[Row]),
    (to, new): (Serial, &[Row]),
) -> Result<BTreeMap<Address, Address>, StoreError> {
    let keys = |rows: &[Row]| -> BTreeSet<RowKey> { rows.iter().map(|row| row.key.clone()).collect() };
    let (had, has) = (keys(old), keys(new));
    let object = |key: &RowKey| key.address().is_some();
    if !had.difference(&has).any(object) && !has.difference(&had).any(object) {
        return Ok(BTreeMap::new());
    }
    if from <= to {
        return moves::between(store, state, from, to).await;
    }
    let back = moves::between(store, state, to, from).await?;
    Ok(back.into_iter().map(|(from, to)| (to, from)).collect())
}

/// A way back.
#[derive(Debug, Clone)]
pub struct Rollback {
    /// To which serial.
    pub to: Serial,
    /// Only these rows; empty for all.
    pub only: Vec<Target>,
}

/// What a rollback would do.
#[derive(Debug, Clone)]
pub struct Preview {
    /// The serial that it would start from.
    pub from: Serial,
    /// What would change, now being before and then after.
    pub differences: Vec<Difference>,
}

impl Rollback {
    fn covers(&self, key: &RowKey) -> bool {
        // Check results belong to the whole, and nobody names them alone.
        let covers = |own: Pattern| self.only.iter().any(|target| target.pattern().covers(&own));
        self.only.is_empty() || key.pattern().is_some_and(covers)
    }

    /// Refuses to take back one address alone of what has moved to another.
    fn together(&self, differences: &[Difference]) -> Result<(), KlError> {
        for difference in differences {
            let Some(from) = &difference.moved_from else { continue };
            if self.covers(from) != self.covers(&difference.key) {
                return Err(KlError::usage(format!(
                    "{from} was {} at serial {}: both have to go back together",
                    difference.key, self.to
                ))
                .hint(format!("name both: --address '{from}' --address '{}'", difference.key.address_text())));
            }
        }
        Ok(())
    }

    /// Whether the rows of a snapshot or of the serial have anything that is meant.
    fn check(&self, now: &Snapshot, then: &Snapshot) -> Result<(), KlError> {
        for target in &self.only {
            let pattern = target.pattern();
            let known = |snapshot: &Snapshot| {
                snapshot.rows.iter().any(|(row, _)| row.key.pattern().is_some_and(|own| pattern.covers(&own)))
            };
            if !known(now) && !known(then) {
                return Err(KlError::usage(format!(
                    "state {:?} has no {target}, neither now nor at serial {}",
                    now.head.name.as_str(),
                    self.to
                ))
                .hint("`kl state list` shows what it has; `kl state pull --serial N` what it had"));
            }
        }
        Ok(())
    }
}

/// Says what a rollback would do.
///
/// # Errors
/// When the serial cannot be read, an address is unknown at both times, or an object that moved since is named at one of
/// its addresses only: the state would know it twice, or not at all.
pub async fn preview(store: &dyn Store, head: &StateHead, rollback: &Rollback) -> Result<Preview, KlError> {
    let now = at(store, head, None).await?;
    let then = at(store, head, Some(rollback.to)).await?;
    rollback.check(&now, &then)?;
    let mut differences = diff(store, &now, &then).await?;
    rollback.together(&differences)?;
    differences.retain(|difference| rollback.covers(&difference.key));
    Ok(Preview { from: now.head.serial, differences })
}

/// Goes back, under reservations of the rows that change. Gives the run and its version; none when nothing differs any
/// more.
///
/// # Errors
/// As [`preview`]; and a conflict when others hold rows that would change.
pub async fn rollback(
    ctx: &Context,
    head: &StateHead,
    rollback: &Rollback,
    lease: Duration,
    wait: Option<Duration>,
) -> Result<Option<(RunId, Committed)>, KlError> {
    let then = at(ctx.store.as_ref(), head, Some(rollback.to)).await?;
    let errand = Errand { kind: RunKind::Rollback, lease, wait };
    // Looked at again each time: what stood at an address may have moved since the preview.
    errand::carry_out(ctx, head, errand, async |now: &Snapshot| {
        rollback.together(&diff(ctx.store.as_ref(), now, &then).await?)?;
        Ok(way_back(rollback, now, &then))
    })
    .await
}

/// What has to change for the rows to be as they were; none where they are.
fn way_back(rollback: &Rollback, now: &Snapshot, then: &Snapshot) -> Option<Change> {
    let has: BTreeMap<&RowKey, &Body> = now.rows.iter().map(|(row, _)| (&row.key, &row.body)).collect();
    let had: BTreeMap<&RowKey, &Body> = then.rows.iter().map(|(row, _)| (&row.key, &row.body)).collect();
    let hash = |body: Option<&&Body>| -> Option<ContentHash> { body.map(|body| body.hash()) };
    let (mut claims, mut writes, mut soft) = (Vec::new(), Vec::new(), Vec::new());
    for key in has.keys().chain(had.keys()).copied().collect::<BTreeSet<_>>() {
        if hash(has.get(key)) == hash(had.get(key)) || !rollback.covers(key) {
            continue;
        }
        let write = RowWrite { key: key.clone(), body: had.get(key).map(|body| (*body).clone()) };
        match key.pattern() {
            Some(pattern) => {
                claims.push(Claim::write(pattern));
                writes.push(write);
            }
            // Nobody reserves a check result alone.
            None => soft.push(SoftWrite { write, expected: hash(has.get(key)) }),
        }
    }
    if writes.is_empty() && soft.is_empty() {
        return None;
    }
    if claims.is_empty() {
        claims.push(Claim::write(Pattern::Everything));
    }
    let whole = rollback.only.is_empty();
    Some(Change {
        claims,
        announced: Some(RunEvent::RollingBack {
            to: rollback.to,
            addresses: rollback.only.iter().map(|target| target.pattern().to_string()).collect(),
        }),
        commit: Commit {
            source: Source::Rollback,
            mode: CommitMode::Rollback,
            source_serial: now.head.serial,
            lineage: LineageRule::OrNew(now.head.lineage.clone().unwrap_or_else(clock::new_lineage)),
            at_least: None,
            document: whole.then(|| then.document.clone()),
            providers: if whole { then.providers.clone() } else { now.providers.clone() },
            writes,
            soft,
            as_planned: None,
        },
    })
}
