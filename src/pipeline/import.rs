//! Taking a whole state document into the store (`kl state import`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Context;
use super::errand::{self, Change, Errand};
use crate::clock;
use crate::domain::address::Pattern;
use crate::domain::coordination::reservation::Claim;
use crate::domain::id::{Serial, StateName};
use crate::domain::run::RunKind;
use crate::domain::state::RowKey;
use crate::domain::state::document::StateDocument;
use crate::error::KlError;
use crate::store::model::{Commit, CommitMode, Committed, LineageRule, RowWrite, Snapshot, Source};

/// What an import came to.
pub enum Imported {
    /// A new version.
    Committed(Committed),
    /// The state has exactly this document already.
    Unchanged(Serial),
}

/// Imports a document: into an empty state, or as a newer version of the same lineage.
/// The lease and the waiting are those of [`Errand`].
pub async fn import(
    ctx: &Context,
    name: &StateName,
    document: StateDocument,
    (lease, wait): (Duration, Option<Duration>),
) -> Result<Imported, KlError> {
    if let Some(head) = ctx.store.state_find(name).await? {
        // An empty file is an empty state, which is a good beginning and never what comes after something.
        if head.serial.0 > 0 && document.lineage.is_none() && document.rows.is_empty() {
            return Err(KlError::usage(format!(
                "the document is empty, and state {:?} is at serial {}: nothing was imported",
                name.as_str(),
                head.serial
            ))
            .hint("was it pulled from the right directory and workspace?"));
        }
        if let (Some(ours), theirs) = (&head.lineage, &document.lineage)
            && theirs.as_ref() != Some(ours)
        {
            let theirs = theirs.as_ref().map_or("none", |lineage| lineage.0.as_str());
            return Err(KlError::usage(format!(
                "state {:?} has lineage {ours}, and the document has lineage {theirs}",
                name.as_str()
            ))
            .hint("import it under another name with --state"));
        }
        if head.serial.0 > 0 && document.serial <= head.serial {
            let snapshot = ctx.store.snapshot(head.id, None).await?;
            let same = document.serial == head.serial && snapshot.rows.iter().map(|(row, _)| row).eq(&document.rows);
            if same {
                return Ok(Imported::Unchanged(head.serial));
            }
            return Err(KlError::usage(format!(
                "state {:?} is at serial {}, and the document at serial {}: importing it would go back",
                name.as_str(),
                head.serial,
                document.serial
            ))
            .hint("serials only grow; pull the state and compare before you raise the document's serial"));
        }
    }
    let head = ctx.store.state_ensure(name).await?;
    let lineage = match &document.lineage {
        Some(lineage) => LineageRule::Must(lineage.clone()),
        None => LineageRule::OrNew(clock::new_lineage()),
    };
    let errand = Errand { kind: RunKind::Import, lease, wait };
    let done = errand::carry_out(ctx, &head, errand, async |snapshot: &Snapshot| {
        // Under the reservation, once more: somebody else may have been first.
        if snapshot.head.serial != head.serial {
            return Err(KlError::failed("another version was committed meanwhile").hint("try again"));
        }
        let kept: BTreeSet<&RowKey> = document.rows.iter().map(|row| &row.key).collect();
        let gone = snapshot.rows.iter().filter(|(row, _)| !kept.contains(&row.key));
        let mut writes: Vec<RowWrite> = gone.map(|(row, _)| RowWrite { key: row.key.clone(), body: None }).collect();
        writes.extend(document.rows.iter().map(|row| RowWrite { key: row.key.clone(), body: Some(row.body.clone()) }));
        Ok(Some(Change {
            claims: vec![Claim::write(Pattern::Everything)],
            announced: None,
            commit: Commit {
                source: Source::Import,
                mode: CommitMode::Snapshot,
                source_serial: head.serial,
                lineage: lineage.clone(),
                at_least: Some(document.serial),
                document: Some(document.head.clone()),
                providers: BTreeMap::new(),
                writes,
                soft: Vec::new(),
                as_planned: None,
            },
        }))
    })
    .await?;
    match done {
        Some((_, committed)) => Ok(Imported::Committed(committed)),
        None => Err(KlError::failed("there was nothing to import")),
    }
}
