//! Taking a whole state document into the store (`kl state import`).

use std::time::Duration;

use super::Context;
use super::record::Recorder;
use super::reserve;
use crate::clock;
use crate::domain::address::Pattern;
use crate::domain::coordination::reservation::Claim;
use crate::domain::id::{Serial, StateName};
use crate::domain::run::event::RunEvent;
use crate::domain::run::{NewRun, RunEnd, RunKind, RunStatus, Tools};
use crate::domain::state::RowKey;
use crate::domain::state::document::StateDocument;
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::conflict;
use crate::store::model::{Commit, CommitMode, Committed, LineageRule, RowWrite, Source};

/// An import takes seconds and reserves everything: nobody should wait long for one that died.
const LEASE: Duration = Duration::from_mins(2);

/// What an import came to.
pub enum Imported {
    /// A new version.
    Committed(Committed),
    /// The state has exactly this document already.
    Unchanged(Serial),
}

/// Imports a document: into an empty state, or as a newer version of the same lineage.
pub async fn import(ctx: &Context, name: &StateName, document: StateDocument) -> Result<Imported, KlError> {
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
    let ctx = &ctx.patient(LEASE);
    let run = clock::new_run_id();
    let claims = vec![Claim::write(Pattern::Everything)];
    ctx.store
        .run_start(&NewRun {
            id: run,
            state: head.id,
            kind: RunKind::Import,
            actor: ctx.actor.clone(),
            origin: ctx.origin.clone(),
            spec: None,
            source_serial: head.serial,
            tools: Tools::default(),
            claims: claims.clone(),
        })
        .await?;
    let recorder = Recorder::new(ctx.store.clone(), ctx.sink.clone(), run);
    let result = reserved_import(ctx, &recorder, &claims, &head, document).await;
    if let Err(error) = &result {
        let status = if error.1.is_empty() { RunStatus::Failed } else { RunStatus::Conflict };
        let end = RunEnd { error: Some(error.0.on_record()), conflict: error.1.clone(), ..RunEnd::plain(status) };
        drop(ctx.store.run_end(run, &end).await);
    }
    result.map(Imported::Committed).map_err(|error| error.0)
}

type ImportFailure = (KlError, Vec<crate::domain::coordination::reservation::Blocker>);

async fn reserved_import(
    ctx: &Context,
    recorder: &Recorder,
    claims: &[Claim],
    head: &crate::store::model::StateHead,
    document: StateDocument,
) -> Result<Committed, ImportFailure> {
    let plain = |error: KlError| (error, Vec::new());
    let outcome = reserve::acquire(ctx, recorder, claims, LEASE, None).await.map_err(plain)?;
    let held = match outcome {
        reserve::Outcome::Granted { held, .. } => held,
        reserve::Outcome::Blocked(blockers) => {
            let message = format!("{}\n{}", conflict::title(&blockers), conflict::text(&blockers).trim_end());
            let error = KlError::new(Exit::Conflict, message);
            return Err((conflict::hints(&blockers).into_iter().fold(error, KlError::hint), blockers));
        }
    };
    let snapshot = ctx.store.snapshot(head.id, None).await.map_err(|error| plain(error.into()))?;
    // Under the reservation, once more: somebody else may have been first.
    if snapshot.head.serial != head.serial {
        return Err(plain(KlError::failed("another version was committed meanwhile").hint("try again")));
    }
    let kept: std::collections::BTreeSet<&RowKey> = document.rows.iter().map(|row| &row.key).collect();
    let gone = snapshot.rows.iter().filter(|(row, _)| !kept.contains(&row.key));
    let mut writes: Vec<RowWrite> = gone.map(|(row, _)| RowWrite { key: row.key.clone(), body: None }).collect();
    writes.extend(document.rows.iter().map(|row| RowWrite { key: row.key.clone(), body: Some(row.body.clone()) }));
    let lineage = match document.lineage {
        Some(lineage) => LineageRule::Must(lineage),
        None => LineageRule::OrNew(clock::new_lineage()),
    };
    let commit = Commit {
        source: Source::Import,
        mode: CommitMode::Snapshot,
        source_serial: head.serial,
        lineage,
        at_least: Some(document.serial),
        document: Some(document.head),
        providers: std::collections::BTreeMap::new(),
        writes,
        soft: Vec::new(),
    };
    let committed = ctx.store.run_commit(&held, &commit).await.map_err(|error| plain(error.into()))?;
    let event = RunEvent::Committed {
        serial: committed.serial,
        rows_opened: committed.rows_opened,
        rows_closed: committed.rows_closed,
    };
    // The version exists: a timeline that cannot be written does not make the import a failure.
    drop(recorder.record(event).await);
    Ok(committed)
}
