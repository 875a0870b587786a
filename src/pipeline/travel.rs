//! Two serials side by side (`kl state diff`), and back to an earlier one as a new version (`kl state rollback`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Context;
use super::errand::{self, Change, Errand};
use super::import::{by_version, shortened};
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
use crate::exit::Exit;
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
/// gone or new, or where objects of one type may have changed places.
async fn moves_between(
    store: &dyn Store,
    state: StateId,
    (from, old): (Serial, &[Row]),
    (to, new): (Serial, &[Row]),
) -> Result<BTreeMap<Address, Address>, StoreError> {
    let keys = |rows: &[Row]| -> BTreeSet<RowKey> { rows.iter().map(|row| row.key.clone()).collect() };
    let (had, has) = (keys(old), keys(new));
    let object = |key: &RowKey| key.address().is_some();
    let may_move = had.difference(&has).any(object) || has.difference(&had).any(object) || may_swap(old, new);
    if !may_move {
        return Ok(BTreeMap::new());
    }
    if from <= to {
        return moves::between(store, state, from, to).await;
    }
    let back = moves::between(store, state, to, from).await?;
    Ok(back.into_iter().map(|(from, to)| (to, from)).collect())
}

/// Whether more than one object of a type differs.
fn may_swap(old: &[Row], new: &[Row]) -> bool {
    let before: BTreeMap<&RowKey, &Body> = old.iter().map(|row| (&row.key, &row.body)).collect();
    let mut types = BTreeSet::new();
    new.iter().any(|row| {
        let other = before.get(&row.key).is_some_and(|body| body.hash() != row.body.hash());
        other && row.key.address().is_some_and(|address| !types.insert(&address.type_name))
    })
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
    /// The rows that would change, each with the content that it has; none for one that is not there.
    pub rows: BTreeMap<RowKey, Option<ContentHash>>,
}

/// What a rollback has done.
#[derive(Debug, Clone)]
pub struct TakenBack {
    /// By which run.
    pub run: RunId,
    /// As which version.
    pub committed: Committed,
    /// The serial that it started from.
    pub from: Serial,
    /// What has changed.
    pub differences: Vec<Difference>,
}

impl Rollback {
    fn covers(&self, key: &RowKey) -> bool {
        // Check results belong to the whole, and nobody names them alone.
        let covers = |own: Pattern| self.only.iter().any(|target| target.pattern().covers(&own));
        self.only.is_empty() || key.pattern().is_some_and(covers)
    }

    /// The rows that have to change for all to be as it was, each with the content that it has now.
    fn rows(&self, now: &Snapshot, then: &Snapshot) -> BTreeMap<RowKey, Option<ContentHash>> {
        let hashes = |snapshot: &Snapshot| -> BTreeMap<RowKey, ContentHash> {
            snapshot.rows.iter().map(|(row, _)| (row.key.clone(), row.body.hash())).collect()
        };
        let (has, had) = (hashes(now), hashes(then));
        let keys: BTreeSet<&RowKey> = has.keys().chain(had.keys()).collect();
        let differs = keys.into_iter().filter(|key| has.get(key) != had.get(key) && self.covers(key));
        differs.map(|key| (key.clone(), has.get(key).copied())).collect()
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
    Ok(Preview { from: now.head.serial, differences, rows: rollback.rows(&now, &then) })
}

/// Goes back as it was agreed to, under reservations of the rows that change. None when nothing differs any more.
///
/// # Errors
/// As [`preview`]; a conflict when others hold rows that would change; and when by now it would change something else than
/// was seen: nobody has agreed to that.
pub async fn rollback(
    ctx: &Context,
    head: &StateHead,
    rollback: &Rollback,
    seen: &Preview,
    (lease, wait): (Duration, Option<Duration>),
) -> Result<Option<TakenBack>, KlError> {
    let then = at(ctx.store.as_ref(), head, Some(rollback.to)).await?;
    let errand = Errand { kind: RunKind::Rollback, lease, wait };
    let (mut from, mut differences) = (seen.from, Vec::new());
    let done = errand::carry_out(ctx, head, errand, async |now: &Snapshot| {
        let rows = rollback.rows(now, &then);
        if rows.is_empty() {
            return Ok(None);
        }
        if rows != seen.rows {
            return Err(overtaken(ctx.store.as_ref(), head, seen, &rows).await?);
        }
        (from, differences) = (now.head.serial, diff(ctx.store.as_ref(), now, &then).await?);
        rollback.together(&differences)?;
        differences.retain(|difference| rollback.covers(&difference.key));
        Ok(Some(way_back(rollback, rows, now, &then)))
    })
    .await?;
    Ok(done.map(|(run, committed)| {
        // A check that somebody else has judged in between stays as it is.
        differences.retain(|difference| !committed.left.contains(&difference.key));
        TakenBack { run, committed, from, differences }
    }))
}

/// The error for who agreed to something else than would happen now.
async fn overtaken(
    store: &dyn Store,
    head: &StateHead,
    seen: &Preview,
    now: &BTreeMap<RowKey, Option<ContentHash>>,
) -> Result<KlError, KlError> {
    let other = |key: &RowKey| seen.rows.get(key) != now.get(key);
    let changed = match store.rows_changed_since(head.id, seen.from).await {
        Ok(changed) => changed,
        Err(StoreError::HistoryRemoved { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let told = by_version(changed.iter().filter(|change| other(&change.key))).unwrap_or_else(|| {
        let keys: BTreeSet<&RowKey> = seen.rows.keys().chain(now.keys()).filter(|key| other(key)).collect();
        shortened(&keys.iter().map(ToString::to_string).collect::<Vec<_>>(), ", ")
    });
    Ok(KlError::new(Exit::Stale, format!("others have committed since you looked: {told}"))
        .hint("nothing was taken back; run it again, and look at what would change now"))
}

/// What has to be done for these rows to be as they were.
fn way_back(
    rollback: &Rollback,
    rows: BTreeMap<RowKey, Option<ContentHash>>,
    now: &Snapshot,
    then: &Snapshot,
) -> Change {
    let had: BTreeMap<&RowKey, &Body> = then.rows.iter().map(|(row, _)| (&row.key, &row.body)).collect();
    let (mut claims, mut writes, mut soft) = (Vec::new(), Vec::new(), Vec::new());
    for (key, expected) in rows {
        let write = RowWrite { body: had.get(&key).map(|body| (*body).clone()), key };
        match write.key.pattern() {
            Some(pattern) => {
                claims.push(Claim::write(pattern));
                writes.push(write);
            }
            // Nobody reserves a check result alone.
            None => soft.push(SoftWrite { write, expected }),
        }
    }
    if claims.is_empty() {
        claims.push(Claim::write(Pattern::Everything));
    }
    let whole = rollback.only.is_empty();
    Change {
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
    }
}
