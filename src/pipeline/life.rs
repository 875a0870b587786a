//! What happened to rows: since a plan, in the life of one resource across its moves, and who changed each one last.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Utc};

use crate::domain::address::{Address, Pattern};
use crate::domain::coordination::reservation::Claim;
use crate::domain::coordination::staleness::classify;
use crate::domain::id::{Serial, StateId};
use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::event::ChangedRow;
use crate::domain::state::difference::changed_attributes;
use crate::domain::state::{Body, RowKey, Touched};
use crate::error::KlError;
use crate::report::life::{Blame, Cause, Change, Meaning, Moment, SincePlan};
use crate::store::model::{OriginQuery, RowChange, RowMark, RowOrigin, Source, StateHead, Version};
use crate::store::{Store, StoreError};

use super::moves::{self, Records};
use super::stale;

/// So many versions, or rows, are read at once.
const PAGE: u32 = 200;

/// So many versions that are not told are read at once.
const SKIPPED: u32 = 1000;

/// So many moves of one resource are followed forwards.
const MOVES: usize = 100;

/// What changed in a state since a plan was made, sorted by what it means for the plan (design §8).
pub async fn since_plan(store: &dyn Store, head: &StateHead, spec: &PlanSpec) -> Result<SincePlan, KlError> {
    let changes = stale::changes(store, head.id, spec).await?;
    let changes: Vec<RowChange> = changes.into_iter().filter(|change| change.spec != Some(spec.id)).collect();
    let keys: HashSet<RowKey> = changes.iter().map(|change| change.key.clone()).collect();
    let (before, after) = if changes.is_empty() {
        (HashMap::new(), HashMap::new())
    } else {
        (bodies(store, head.id, Some(spec.state.serial), &keys).await?, bodies(store, head.id, None, &keys).await?)
    };
    let moves = moves_since(store, head, spec, &changes).await?;
    let row = |change: &RowChange| ChangedRow {
        row: change.key.to_string(),
        serial: change.serial,
        run: change.run,
        actor: change.actor.clone(),
    };
    let sorted = classify(&spec.claims(), changes.iter().map(|change| (change.key.clone(), row(change))).collect());
    let by_name: HashMap<String, RowChange> =
        changes.into_iter().map(|change| (change.key.to_string(), change)).collect();
    let classes = [(Meaning::Write, sorted.write), (Meaning::Read, sorted.read), (Meaning::Outside, sorted.outside)];
    let mut found = Vec::new();
    for (meaning, rows) in classes {
        for row in rows {
            let Some(change) = by_name.get(&row.row) else { continue };
            let (from, to) = moves.of(&change.key);
            let source = from.clone().map_or_else(|| change.key.clone(), RowKey::object);
            let touched = match (before.contains_key(&change.key), after.contains_key(&change.key)) {
                (true, true) => Touched::Changed,
                (false, true) => Touched::Created,
                (_, false) => Touched::Removed,
            };
            let passed = !before.contains_key(&change.key) && touched == Touched::Removed;
            let attributes = match (before.get(&source), after.get(&change.key)) {
                (Some(before), Some(after)) => changed_attributes(before, after),
                _ => Vec::new(),
            };
            let cause = Cause {
                serial: change.serial,
                at: change.at,
                actor: change.actor.clone(),
                origin: change.origin.clone(),
                run: change.run,
                spec: change.spec,
            };
            let (moved_from, moved_to) = (from.map(|from| from.to_string()), to.map(|to| to.to_string()));
            found.push(Change { meaning, row: row.row, touched, passed, moved_from, moved_to, attributes, cause });
        }
    }
    Ok(SincePlan {
        spec: spec.id,
        state: head.name.clone(),
        planned_at: spec.state.serial,
        now: head.serial,
        applied: stale::applied_before(store, head.id, spec).await?.as_ref().map(cause),
        changes: found,
    })
}

/// Where what stood in the state when a plan was made stands now.
#[derive(Default)]
struct MovesSince {
    to: BTreeMap<Address, Address>,
    from: BTreeMap<Address, Address>,
}

impl MovesSince {
    /// From where what stands at a row came, and where to what stood there has gone.
    fn of(&self, key: &RowKey) -> (Option<Address>, Option<Address>) {
        let RowKey::Object { address, deposed: None } = key else { return (None, None) };
        (self.from.get(address).cloned(), self.to.get(address).cloned())
    }
}

/// The moves on record since a plan. They are looked for only where something is gone.
async fn moves_since(
    store: &dyn Store,
    head: &StateHead,
    spec: &PlanSpec,
    changes: &[RowChange],
) -> Result<MovesSince, StoreError> {
    if !changes.iter().any(|change| change.gone) {
        return Ok(MovesSince::default());
    }
    let mut to = moves::between(store, head.id, spec.state.serial, head.serial).await?;
    to.retain(|from, to| from != to);
    let from = to.iter().map(|(from, to)| (to.clone(), from.clone())).collect();
    Ok(MovesSince { to, from })
}

/// The contents of some rows at a serial.
async fn bodies(
    store: &dyn Store,
    state: StateId,
    at: Option<Serial>,
    keys: &HashSet<RowKey>,
) -> Result<HashMap<RowKey, Body>, StoreError> {
    let snapshot = store.snapshot(state, at).await?;
    let rows = snapshot.rows.into_iter().map(|(row, _)| row).filter(|row| keys.contains(&row.key));
    Ok(rows.map(|row| (row.key, row.body)).collect())
}

/// The life of what a pattern covers, newest first, under every name that it had: at most `limit` versions before a serial
/// and not before a moment, and whether there are more.
pub async fn life(
    store: &dyn Store,
    state: StateId,
    pattern: Pattern,
    before: Option<Serial>,
    since: Option<DateTime<Utc>>,
    limit: usize,
) -> Result<(Vec<Moment>, Option<Serial>), KlError> {
    let mut records = Records::new(store);
    let mut names = newest_names(store, &mut records, state, pattern).await?;
    let (mut moments, mut versions, mut at) = (Vec::new(), 0, None);
    'names: loop {
        let claims: Vec<Claim> = names.iter().cloned().map(Claim::write).collect();
        // Newer versions than asked for are looked at for the moves in them alone.
        let skipping = before.is_some_and(|before| at.is_none_or(|at: Serial| at > before));
        let wanted = u32::try_from(limit - versions + 1).unwrap_or(PAGE);
        let page =
            store.versions_touching(state, &claims, at, if skipping { SKIPPED } else { wanted.min(PAGE) }).await?;
        if page.is_empty() {
            return Ok((moments, None));
        }
        for version in page {
            if since.is_some_and(|since| version.at < since) {
                return Ok((moments, None));
            }
            let told = before.is_none_or(|before| version.serial < before);
            let moves = if told || may_move(&version) { records.moves(&version).await? } else { Vec::new() };
            at = Some(version.serial);
            if told {
                if versions == limit {
                    return Ok((moments, Some(version.serial.next())));
                }
                versions += 1;
                moments.extend(happened(&version, &moves, records.spec(&version).await?.as_ref()));
            }
            let here = |to: &Address| names.iter().any(|name| name.covers(&Pattern::Resource(to.clone())));
            let came: Vec<(Address, Address)> = moves.into_iter().filter(|(_, to)| here(to)).collect();
            if !came.is_empty() {
                // Before this version it stood elsewhere; whatever stood here then was something else.
                names.retain(|name| !came.iter().any(|(_, to)| *name == Pattern::Resource(to.clone())));
                names.extend(came.into_iter().map(|(from, _)| Pattern::Resource(from)));
                continue 'names;
            }
        }
    }
}

/// Whether something may have moved to one of these rows: its plan need not be read where nothing began to exist.
fn may_move(version: &Version) -> bool {
    version.source == Source::Rollback || version.rows.iter().any(|(_, touched)| *touched == Touched::Created)
}

/// Where what a pattern covers stands now, or stood last: moves are followed forwards.
async fn newest_names(
    store: &dyn Store,
    records: &mut Records<'_>,
    state: StateId,
    pattern: Pattern,
) -> Result<Vec<Pattern>, KlError> {
    let mut names = vec![pattern];
    for _ in 0..MOVES {
        let claims: Vec<Claim> = names.iter().cloned().map(Claim::write).collect();
        let Some(newest) = store.versions_touching(state, &claims, None, 1).await?.pop() else { break };
        if newest.rows.iter().any(|(_, touched)| *touched != Touched::Removed) {
            break;
        }
        let moves = records.moves(&newest).await?;
        let left = |from: &Address| names.iter().any(|name| name.covers(&Pattern::Resource(from.clone())));
        let next: Vec<Pattern> =
            moves.into_iter().filter(|(from, _)| left(from)).map(|(_, to)| Pattern::Resource(to)).collect();
        if next.is_empty() {
            break;
        }
        names = next;
    }
    Ok(names)
}

/// What a version did, in the words of its spec where it has one.
fn happened(version: &Version, moves: &[(Address, Address)], spec: Option<&PlanSpec>) -> Vec<Moment> {
    let moment = |(key, touched): &(RowKey, Touched)| {
        let address = key.address();
        let entries = || spec.iter().flat_map(|spec| &spec.write);
        let entry = entries().find(|entry| Some(&entry.address) == address);
        let came = moves.iter().find(|(_, to)| Some(to) == address).map(|(from, _)| from);
        let went = moves.iter().find(|(from, _)| Some(from) == address).map(|(_, to)| to);
        Moment {
            row: key.to_string(),
            touched: *touched,
            moved_from: came.map(ToString::to_string),
            moved_to: went.map(ToString::to_string),
            attributes: entry.map(|entry| entry.print.changed.clone()).unwrap_or_default(),
            source: version.source.word(),
            cause: cause(version),
        }
    };
    version.rows.iter().map(moment).collect()
}

/// Which version it was.
pub(super) fn cause(version: &Version) -> Cause {
    Cause {
        serial: version.serial,
        at: version.at,
        actor: version.actor.clone(),
        origin: version.origin.clone(),
        run: version.run,
        spec: version.spec,
    }
}

/// Who changed each row of the trunk last: those that a pattern meets, behind an address, changed since a moment, at most
/// about `limit`; and the address after which there are more. All rows of one address stand on one page.
pub async fn blame(
    store: &dyn Store,
    state: StateId,
    pattern: &Pattern,
    after: Option<String>,
    since: Option<DateTime<Utc>>,
    limit: usize,
) -> Result<(Vec<Blame>, Option<String>), KlError> {
    let mut query = OriginQuery {
        within: pattern.clone(),
        after: after.map(|address| RowMark { address, number: i64::MAX }),
        since,
        limit: PAGE,
    };
    let mut found: Vec<RowOrigin> = Vec::new();
    loop {
        let page = store.row_origins(state, &query).await?;
        let whole = page.len() < PAGE as usize;
        query.after = page.last().map(|row| row.mark.clone());
        for row in page {
            if let Some(last) = found.last()
                && found.len() >= limit
                && last.mark.address != row.mark.address
            {
                let more = last.mark.address.clone();
                return Ok((found.iter().map(blamed).collect(), Some(more)));
            }
            found.push(row);
        }
        if whole {
            return Ok((found.iter().map(blamed).collect(), None));
        }
    }
}

fn blamed(row: &RowOrigin) -> Blame {
    Blame { row: row.key.to_string(), source: row.version.source.word(), cause: cause(&row.version) }
}
