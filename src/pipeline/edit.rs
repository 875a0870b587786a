//! Rows leave the state (`kl state rm`) or stand elsewhere in it (`kl state mv`), as plain Terraform does it, under
//! reservations.

use std::collections::{BTreeSet, HashMap};

use super::Context;
use super::errand::{self, Change, Errand};
use super::moves::Records;
use crate::clock;
use crate::domain::address::Target;
use crate::domain::coordination::reservation::Claim;
use crate::domain::id::{RunId, Serial};
use crate::domain::run::event::RunEvent;
use crate::domain::state::moving::{self, MoveError, Moving};
use crate::domain::state::{ContentHash, RowKey, Touched};
use crate::error::KlError;
use crate::store::Store;
use crate::store::model::{
    Commit, CommitMode, Committed, LineageRule, RowWrite, Snapshot, SoftWrite, Source, StateHead, Version,
};

/// What became of a change of addresses.
#[derive(Debug)]
pub enum Outcome {
    /// It was only looked at.
    Looked,
    /// It was done.
    Done {
        /// By which run.
        run: RunId,
        /// As which version.
        committed: Committed,
    },
    /// It had been done before: the answer to that was lost, perhaps.
    Before {
        /// In which version.
        serial: Serial,
    },
}

/// Rows that leave the state.
#[derive(Debug)]
pub struct Removed {
    /// Which.
    pub rows: Vec<RowKey>,
    /// What was named and is not there, while something else is.
    pub missing: Vec<Target>,
    /// What became of it.
    pub outcome: Outcome,
}

/// Rows that stand elsewhere.
#[derive(Debug)]
pub struct Moved {
    /// From where, and to where.
    pub moves: Vec<(RowKey, RowKey)>,
    /// Rows that name a moved resource among their dependencies and were left as they are, because others work on them.
    pub left: Vec<RowKey>,
    /// What became of it.
    pub outcome: Outcome,
}

fn commit(snapshot: &Snapshot, source: Source, writes: Vec<RowWrite>, soft: Vec<SoftWrite>) -> Commit {
    Commit {
        source,
        mode: CommitMode::RowDelta,
        source_serial: snapshot.head.serial,
        lineage: LineageRule::OrNew(snapshot.head.lineage.clone().unwrap_or_else(clock::new_lineage)),
        at_least: None,
        document: None,
        providers: snapshot.providers.clone(),
        writes,
        soft,
        as_planned: None,
    }
}

/// The newest version that touched what a target covers.
async fn newest(store: &dyn Store, head: &StateHead, target: &Target) -> Result<Option<Version>, KlError> {
    let claims = [Claim::write(target.pattern())];
    Ok(store.versions_touching(head.id, &claims, None, 1).await?.pop())
}

/// Takes rows out of the state. Their real objects stay, and belong to nobody then.
///
/// # Errors
/// When the state has nothing of what is named, or others hold rows of it.
pub async fn remove(
    ctx: &Context,
    head: &StateHead,
    targets: &[Target],
    errand: Errand,
    look: bool,
) -> Result<Removed, KlError> {
    for target in targets {
        if !matches!(target, Target::Module(_) | Target::Resource(_)) {
            return Err(KlError::usage(format!(
                "{target} cannot be removed: only modules, resources and their instances can"
            ))
            .hint("an output goes with the next apply of a configuration that no longer declares it"));
        }
    }
    let find = |snapshot: &Snapshot| -> (Vec<RowKey>, Vec<Target>) {
        let place = |key: &RowKey| match key {
            RowKey::Object { address, .. } | RowKey::Husk(address) => Some(address.clone()),
            _ => None,
        };
        let names = |target: &Target, key: &RowKey| place(key).is_some_and(|address| target.names(&address));
        let keys = || snapshot.rows.iter().map(|(row, _)| &row.key);
        let found = keys().filter(|key| targets.iter().any(|target| names(target, key))).cloned().collect();
        let missing = targets.iter().filter(|target| !keys().any(|key| names(target, key))).cloned().collect();
        (found, missing)
    };
    let snapshot = ctx.store.snapshot(head.id, None).await?;
    let (mut found, mut missing) = find(&snapshot);
    if found.is_empty() {
        return match removed_before(ctx.store.as_ref(), head, targets).await? {
            Some(serial) => Ok(Removed { rows: Vec::new(), missing: Vec::new(), outcome: Outcome::Before { serial } }),
            None => Err(nothing(head, targets)),
        };
    }
    if look {
        return Ok(Removed { rows: found, missing, outcome: Outcome::Looked });
    }
    let done = errand::carry_out(ctx, head, errand, async |snapshot: &Snapshot| {
        // What was missing before may be there by now: then it is reserved, too.
        (found, missing) = find(snapshot);
        let there = targets.iter().filter(|target| !missing.contains(target));
        let claims: BTreeSet<_> = there.map(Target::pattern).collect();
        if found.is_empty() {
            return Ok(None);
        }
        let writes = found.iter().map(|key| RowWrite { key: key.clone(), body: None }).collect();
        Ok(Some(Change {
            claims: claims.into_iter().map(Claim::write).collect(),
            announced: Some(RunEvent::Removing { addresses: targets.iter().map(ToString::to_string).collect() }),
            commit: commit(snapshot, Source::Remove, writes, Vec::new()),
        }))
    })
    .await?;
    match done {
        Some((run, committed)) => Ok(Removed { rows: found, missing, outcome: Outcome::Done { run, committed } }),
        None => Err(KlError::failed("somebody else has removed it meanwhile")),
    }
}

fn nothing(head: &StateHead, targets: &[Target]) -> KlError {
    let names: Vec<String> = targets.iter().map(ToString::to_string).collect();
    KlError::usage(format!("state {:?} has nothing at {}", head.name.as_str(), names.join(", ")))
        .hint("`kl state list` shows what it has; an instance of a module needs the keys of all its modules")
}

/// The version in which `kl state rm` took out all of this, if that was the last that happened to it.
async fn removed_before(store: &dyn Store, head: &StateHead, targets: &[Target]) -> Result<Option<Serial>, KlError> {
    let mut serial = None;
    for target in targets {
        let newest = newest(store, head, target).await?;
        let by_us = |version: &Version| {
            version.source == Source::Remove && version.rows.iter().all(|(_, touched)| *touched == Touched::Removed)
        };
        match newest.filter(by_us) {
            Some(version) => serial = serial.max(Some(version.serial)),
            None => return Ok(None),
        }
    }
    Ok(serial)
}

/// Lets what stands at one address stand at another.
///
/// # Errors
/// When Terraform would refuse it, or others hold rows at either address.
pub async fn move_rows(
    ctx: &Context,
    head: &StateHead,
    (from, to): (&Target, &Target),
    errand: Errand,
    look: bool,
) -> Result<Moved, KlError> {
    let refused = |error: MoveError| {
        let kl = KlError::usage(format!("state {:?}: {error}", head.name.as_str()));
        match error {
            MoveError::NothingThere(_) => {
                kl.hint("`kl state list` shows what it has; an instance of a module needs the keys of all its modules")
            }
            _ => kl,
        }
    };
    let work_out = |snapshot: &Snapshot| moving::move_rows(&snapshot.contents(), from, to);
    let snapshot = ctx.store.snapshot(head.id, None).await?;
    let mut moving = match work_out(&snapshot) {
        Ok(moving) => moving,
        Err(error @ MoveError::NothingThere(_)) => {
            return match moved_before(ctx.store.as_ref(), head, from, to).await? {
                Some(serial) => Ok(Moved { moves: Vec::new(), left: Vec::new(), outcome: Outcome::Before { serial } }),
                None => Err(refused(error)),
            };
        }
        Err(error) => return Err(refused(error)),
    };
    if look {
        return Ok(Moved { moves: pairs(&moving), left: Vec::new(), outcome: Outcome::Looked });
    }
    let done = errand::carry_out(ctx, head, errand, async |snapshot: &Snapshot| {
        moving = work_out(snapshot).map_err(refused)?;
        let (writes, soft) = writes(snapshot, &moving);
        Ok(Some(Change {
            claims: vec![Claim::write(from.pattern()), Claim::write(to.pattern())],
            announced: Some(RunEvent::Moving { from: from.to_string(), to: to.to_string() }),
            commit: commit(snapshot, Source::Move, writes, soft),
        }))
    })
    .await?;
    let Some((run, committed)) = done else {
        return Err(KlError::failed("somebody else has moved it meanwhile"));
    };
    let left = committed.left.clone();
    Ok(Moved { moves: pairs(&moving), left, outcome: Outcome::Done { run, committed } })
}

fn pairs(moving: &Moving) -> Vec<(RowKey, RowKey)> {
    moving.moved.iter().map(|moved| (moved.from.clone(), moved.row.key.clone())).collect()
}

fn writes(snapshot: &Snapshot, moving: &Moving) -> (Vec<RowWrite>, Vec<SoftWrite>) {
    let ended = moving.moved.iter().map(|moved| &moved.from).chain(&moving.ended);
    let mut writes: Vec<RowWrite> = ended.map(|key| RowWrite { key: key.clone(), body: None }).collect();
    // Of two writes of one row the later counts: an address that was left may be taken at once.
    writes.extend(
        moving.moved.iter().map(|moved| RowWrite { key: moved.row.key.clone(), body: Some(moved.row.body.clone()) }),
    );
    let seen: HashMap<&RowKey, ContentHash> =
        snapshot.rows.iter().map(|(row, _)| (&row.key, row.body.hash())).collect();
    let soft = moving.followers.iter().map(|row| SoftWrite {
        expected: seen.get(&row.key).copied(),
        write: RowWrite { key: row.key.clone(), body: Some(row.body.clone()) },
    });
    (writes, soft.collect())
}

/// The version in which `kl state mv` did exactly this, if that was the last that happened at the first address.
async fn moved_before(
    store: &dyn Store,
    head: &StateHead,
    from: &Target,
    to: &Target,
) -> Result<Option<Serial>, KlError> {
    let Some(version) = newest(store, head, from).await?.filter(|version| version.source == Source::Move) else {
        return Ok(None);
    };
    let gone = version.rows.iter().all(|(_, touched)| *touched == Touched::Removed);
    let errand = Records::new(store, head.id).errand(&version).await?;
    Ok((gone && errand == Some((from.clone(), to.clone()))).then_some(version.serial))
}
