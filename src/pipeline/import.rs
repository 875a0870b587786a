//! Taking a whole state document into the store (`kl state import`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Context;
use super::errand::{self, Change, Errand};
use crate::clock;
use crate::domain::address::Pattern;
use crate::domain::coordination::reservation::Claim;
use crate::domain::id::{Serial, StateId, StateName};
use crate::domain::run::RunKind;
use crate::domain::state::delta::{same, same_rows};
use crate::domain::state::document::StateDocument;
use crate::domain::state::{Body, RowKey, incoming};
use crate::error::KlError;
use crate::store::StoreError;
use crate::store::model::{
    Commit, CommitMode, Committed, LineageRule, RowChange, RowWrite, Snapshot, Source, VersionQuery,
};

/// So many versions are asked for at once.
const PAGE: u32 = 500;

/// So many versions, and rows of each, are named.
const NAMED: usize = 5;

/// What an import came to.
pub enum Imported {
    /// A new version.
    Committed(Committed),
    /// The state has exactly this document already.
    Unchanged(Serial),
}

/// Imports a document: into an empty state, or as a newer version of the same lineage that has all that kl has done since
/// its last import. What stands at the serial `over` is given up for it, whatever it is. The lease and the waiting are
/// those of [`Errand`].
pub async fn import(
    ctx: &Context,
    name: &StateName,
    document: StateDocument,
    over: Option<Serial>,
    (lease, wait): (Duration, Option<Duration>),
) -> Result<Imported, KlError> {
    // The lineage of nothing would keep out the document that was meant.
    if document.lineage.is_none() && document.rows.is_empty() {
        return Err(KlError::usage(format!(
            "the document is empty, without a row or a lineage: nothing was imported into state {:?}",
            name.as_str()
        ))
        .hint("was it pulled from the right directory and workspace?"));
    }
    match ctx.store.state_find(name).await? {
        Some(head) => {
            let snapshot = ctx.store.snapshot(head.id, None).await?;
            if !fits(ctx, &snapshot, &document, over).await? {
                return Ok(Imported::Unchanged(head.serial));
            }
        }
        // Nothing is made for what is refused.
        None => stands(name, Serial(0), over)?,
    }
    let head = ctx.store.state_ensure(name).await?;
    let lineage = match &document.lineage {
        Some(lineage) => LineageRule::Must(lineage.clone()),
        None => LineageRule::OrNew(clock::new_lineage()),
    };
    let errand = Errand { kind: RunKind::Import, lease, wait };
    let done = errand::carry_out(ctx, &head, errand, async |snapshot: &Snapshot| {
        // Under the reservation, once more: somebody else may have been first.
        if !fits(ctx, snapshot, &document, over).await? {
            return Ok(None);
        }
        let kept: BTreeSet<&RowKey> = document.rows.iter().map(|row| &row.key).collect();
        let gone = snapshot.rows.iter().filter(|(row, _)| !kept.contains(&row.key));
        let mut writes: Vec<RowWrite> = gone.map(|(row, _)| RowWrite { key: row.key.clone(), body: None }).collect();
        // What only stands in another order stays as it is.
        let now: BTreeMap<&RowKey, &Body> = snapshot.rows.iter().map(|(row, _)| (&row.key, &row.body)).collect();
        let rows = document.rows.iter().filter(|row| now.get(&row.key).is_none_or(|body| !same(body, &row.body)));
        writes.extend(rows.map(|row| RowWrite { key: row.key.clone(), body: Some(row.body.clone()) }));
        Ok(Some(Change {
            claims: vec![Claim::write(Pattern::Everything)],
            announced: None,
            commit: Commit {
                source: Source::Import,
                mode: CommitMode::Snapshot,
                source_serial: snapshot.head.serial,
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
    Ok(match done {
        Some((_, committed)) => Imported::Committed(committed),
        None => Imported::Unchanged(document.serial),
    })
}

/// Refuses to give up another serial than the newest.
fn stands(name: &StateName, at: Serial, over: Option<Serial>) -> Result<(), KlError> {
    match over.filter(|over| *over != at) {
        None => Ok(()),
        Some(over) => Err(KlError::usage(format!("state {:?} is at serial {at}, not {over}", name.as_str()))
            .hint("`kl history` shows what came since: --over takes the serial that may be given up")),
    }
}

/// Refuses a document that cannot follow a trunk. Tells whether it is another one than the trunk is already.
async fn fits(
    ctx: &Context,
    trunk: &Snapshot,
    document: &StateDocument,
    over: Option<Serial>,
) -> Result<bool, KlError> {
    let (head, name) = (&trunk.head, trunk.head.name.as_str());
    stands(&head.name, head.serial, over)?;
    if let (Some(ours), theirs) = (&head.lineage, &document.lineage)
        && theirs.as_ref() != Some(ours)
    {
        let theirs = theirs.as_ref().map_or("none", |lineage| lineage.0.as_str());
        return Err(KlError::usage(format!(
            "state {name:?} has lineage {ours}, and the document has lineage {theirs}"
        ))
        .hint("import it under another name with --state"));
    }
    if head.serial.0 > 0 {
        if document.serial == head.serial && same_rows(trunk.rows.iter().map(|(row, _)| row), &document.rows) {
            return Ok(false);
        }
        if over.is_none() {
            follows(ctx, trunk, document).await?;
        }
    }
    Ok(true)
}

/// Refuses a document that would go back, or take back what kl has done.
async fn follows(ctx: &Context, trunk: &Snapshot, document: &StateDocument) -> Result<(), KlError> {
    let (name, ours, theirs) = (trunk.head.name.as_str(), trunk.head.serial, document.serial);
    let refusal = if theirs == ours {
        format!(
            "state {name:?} has another content at serial {ours} than the document: both have gone on from what they had in common"
        )
    } else if theirs < ours {
        format!("state {name:?} is at serial {ours}, and the document at serial {theirs}: importing it would go back")
    } else if let Some(undone) = undoes(ctx, trunk, document).await? {
        format!(
            "the document at serial {theirs} does not have what was done to state {name:?} since its last import: {undone}"
        )
    } else {
        return Ok(());
    };
    Err(KlError::usage(refusal)
        .hint("nothing was changed; compare the document with what `kl state pull` prints")
        .hint(format!(
            "when the document is right: `kl state import` with --over {ours} takes it as the next version; objects that \
             only kl has made stay, and no state knows them"
        )))
}

/// What a document would undo of the versions since the newest import, version by version; none when it has all of it.
async fn undoes(ctx: &Context, trunk: &Snapshot, document: &StateDocument) -> Result<Option<String>, KlError> {
    let state = trunk.head.id;
    let since = newest_import(ctx, state).await?;
    let changed = match ctx.store.rows_changed_since(state, since).await {
        Ok(changed) => changed,
        Err(StoreError::HistoryRemoved { .. }) => {
            return Ok(Some("its history is no longer there, so that nobody can tell what".to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    let now: BTreeMap<&RowKey, &Body> = trunk.rows.iter().map(|(row, _)| (&row.key, &row.body)).collect();
    // The result of a check is nobody's work: the next plan makes it anew.
    let work = changed.iter().filter(|change| !matches!(change.key, RowKey::Check { .. }));
    let ours = work.map(|change| (change.key.clone(), now.get(&change.key).copied())).collect();
    let undone = incoming::undone(&ours, document);
    let lost = lost_before(ctx, trunk, document, since).await?;
    Ok(by_version(changed.iter().filter(|change| undone.contains(&change.key)).chain(&lost)))
}

/// Changed rows in words, version by version; none where there are none.
pub(super) fn by_version<'a>(changes: impl IntoIterator<Item = &'a RowChange>) -> Option<String> {
    let mut versions: BTreeMap<Serial, (&RowChange, Vec<String>)> = BTreeMap::new();
    for change in changes {
        versions
            .entry(change.newest.version.serial)
            .or_insert_with(|| (change, Vec::new()))
            .1
            .push(change.key.to_string());
    }
    let told: Vec<String> = versions.values().map(|(change, rows)| version(change, rows)).collect();
    (!told.is_empty()).then(|| shortened(&told, "; "))
}

/// The rows that a document does not have and that are older than the newest import, of those that kl itself has made or
/// changed last.
async fn lost_before(
    ctx: &Context,
    trunk: &Snapshot,
    document: &StateDocument,
    import: Serial,
) -> Result<Vec<RowChange>, KlError> {
    let kept: BTreeSet<&RowKey> = document.rows.iter().map(|row| &row.key).collect();
    let work = trunk.rows.iter().filter(|(row, _)| !matches!(row.key, RowKey::Check { .. }));
    let lacking = work.filter(|(row, since)| *since <= import && !kept.contains(&row.key));
    let lacking: BTreeMap<&RowKey, Serial> = lacking.map(|(row, since)| (&row.key, *since)).collect();
    let Some(oldest) = lacking.values().min() else { return Ok(Vec::new()) };
    let mut changed = match ctx.store.rows_changed_since(trunk.head.id, Serial(oldest.0 - 1)).await {
        Ok(changed) => changed,
        // Nobody can tell whose they were.
        Err(StoreError::HistoryRemoved { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    changed.retain(|change| lacking.contains_key(&change.key) && change.newest.version.source != Source::Import);
    Ok(changed)
}

/// The serial of the newest version that came from elsewhere; 0 where everything is kl's own.
async fn newest_import(ctx: &Context, state: StateId) -> Result<Serial, KlError> {
    let mut query = VersionQuery { before: None, since: None, limit: PAGE, with_rows: false };
    loop {
        let page = ctx.store.version_list(state, query).await?;
        if let Some(import) = page.iter().find(|version| version.source == Source::Import) {
            return Ok(import.serial);
        }
        match page.last() {
            Some(last) if page.len() == PAGE as usize => query.before = Some(last.serial),
            _ => return Ok(Serial(0)),
        }
    }
}

fn version(change: &RowChange, rows: &[String]) -> String {
    let run = change.newest.version.run.map(|run| format!("run {run}, ")).unwrap_or_default();
    format!(
        "serial {} ({run}by {}): {}",
        change.newest.version.serial,
        change.newest.version.actor,
        shortened(rows, ", ")
    )
}

/// The first of many, and how many more there are.
pub(super) fn shortened(all: &[String], between: &str) -> String {
    let shown = all.iter().take(NAMED).cloned().collect::<Vec<_>>().join(between);
    match all.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown}{between}and {more} more"),
    }
}
