//! What happened to rows: since a plan, in the life of one resource across its moves, and who changed each one last.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use crate::domain::address::{Address, Pattern};
use crate::domain::coordination::reservation::Claim;
use crate::domain::coordination::staleness::classify;
use crate::domain::id::{Serial, StateId};
use crate::domain::plan::action::Action;
use crate::domain::plan::spec::PlanSpec;
use crate::domain::state::{RowKey, Touched};
use crate::error::KlError;
use crate::report::life::{self as told, Blame, Cause, Change, Meaning, Moment, Shown, SincePlan};
use crate::store::model::{OriginQuery, RowChange, RowMark, RowOrigin, Source, StateHead, Version};
use crate::store::{Store, StoreError};

use super::intervening::{self, Step};
use super::moves::{self, Records, Ways};
use super::stale;

/// So many versions, or rows, are read at once.
const PAGE: u32 = 200;

/// So many versions that are not told are read at once.
const SKIPPED: u32 = 1000;

/// So many moves of one resource are followed forwards.
const MOVES: usize = 100;

/// What changed in a state since a plan was made, sorted by what it means for the plan (design §8): the rows with
/// the versions that changed them, those first that matter most to it. Attributes are looked for only of the rows that are
/// shown: behind `after`, at most `limit`.
pub async fn since_plan(
    store: &dyn Store,
    head: &StateHead,
    spec: &PlanSpec,
    after: Option<&str>,
    limit: usize,
) -> Result<(SincePlan, Shown), KlError> {
    let mut changes = stale::changes(store, head.id, spec).await?;
    let own = |version: &Version| version.spec == Some(spec.id);
    let versions = changes.iter().flat_map(|change| change.steps().map(|step| &step.version));
    let newest = versions.filter(|version| own(version)).max_by_key(|version| version.serial);
    let partly = newest.map(|version| told::Partly {
        cause: cause(version),
        recovered: version.source == Source::Recover,
        rows: changes.iter().filter(|change| own(&change.newest.version)).count(),
    });
    // What others had changed before applying this plan came upon it is told, too.
    changes.retain(|change| change.steps().any(|step| !own(&step.version)));
    let moves = moves_since(store, head, spec, &changes).await?;
    let sorted = classify(&spec.claims(), changes.into_iter().map(|change| (change.key.clone(), change)));
    let of = |meaning| move |change| (meaning, change);
    let write = sorted.write.into_iter().map(of(Meaning::Write));
    let rows = write.chain(sorted.read.into_iter().map(of(Meaning::Read)));
    let rows = rows.chain(sorted.outside.into_iter().map(of(Meaning::Outside)));
    let (mut found, mut steps_of) = (Vec::new(), Vec::new());
    for (meaning, change) in rows {
        let mut steps = Vec::new();
        let newest = change.newest.version.serial;
        let (from, to) = moves.ends.of(&change.key);
        let source = from.clone().map(RowKey::object);
        steps.push(Step { since: spec.state.serial, from: source, ..Step::of(change.key.clone(), newest) });
        let earlier = (change.earlier.len() + 1).saturating_sub(intervening::VERSIONS);
        let mut versions = Vec::new();
        for step in change.steps().skip(earlier) {
            let ways = moves.versions.get(&step.version.serial);
            let (came, went) = ways.map(|ways| ways.of(&change.key)).unwrap_or_default();
            let from = came.clone().map(RowKey::object);
            steps.push(Step { from, ..Step::of(change.key.clone(), step.version.serial) });
            versions.push(told::Step {
                touched: step.touched,
                own: own(&step.version).then(|| step.version.source.word()),
                moved_from: came.map(|from| from.to_string()),
                moved_to: went.map(|to| to.to_string()),
                attributes: Vec::new(),
                cause: cause(&step.version),
            });
        }
        steps_of.push(steps);
        let first = change.steps().next().map(|step| step.touched);
        found.push(Change {
            meaning,
            own: own(&change.newest.version),
            row: match &change.key {
                // One that goes on behind this row has to find it, and not the object at the same address.
                RowKey::Husk(address) => format!("{address} (no instances)"),
                key => key.to_string(),
            },
            touched: match (first, change.newest.touched) {
                (_, Touched::Removed) => Touched::Removed,
                (Some(Touched::Created), _) => Touched::Created,
                _ => Touched::Changed,
            },
            passed: change.gone() && first == Some(Touched::Created),
            back: change.back,
            moved_from: from.map(|from| from.to_string()),
            moved_to: to.map(|to| to.to_string()),
            attributes: Vec::new(),
            cause: cause(&change.newest.version),
            versions,
            earlier,
        });
    }
    let applied = stale::applied_before(store, head.id, spec).await?.as_ref().map(cause);
    let (planned_at, now) = (spec.state.serial, head.serial);
    let partly = partly.filter(|_| applied.is_none());
    let mut since =
        SincePlan { spec: spec.id, state: head.name.clone(), planned_at, now, applied, partly, changes: found };
    let from = match after {
        None => 0,
        Some(row) => since.behind(row).ok_or_else(|| {
            KlError::usage(format!("{row} is none of the rows that have changed since the plan"))
                .hint("--after takes a row as the page before had it")
        })?,
    };
    let steps: Vec<Step> = steps_of.into_iter().skip(from).take(limit).flatten().collect();
    let mut names = intervening::attributes(store, head.id, &steps).await?.into_iter();
    for change in since.changes.iter_mut().skip(from).take(limit) {
        change.attributes = names.next().unwrap_or_default();
        for version in &mut change.versions {
            version.attributes = names.next().unwrap_or_default();
        }
    }
    Ok((since, Shown { from, limit }))
}

/// The moves on record since a plan.
#[derive(Default)]
struct MovesSince {
    /// From where things stood when the plan was made to where they stand now.
    ends: Ways,
    /// Those of each version.
    versions: BTreeMap<Serial, Ways>,
}

/// The moves on record since a plan. They are looked for only where something is gone.
async fn moves_since(
    store: &dyn Store,
    head: &StateHead,
    spec: &PlanSpec,
    changes: &[RowChange],
) -> Result<MovesSince, StoreError> {
    if !changes.iter().any(|change| change.steps().any(|step| step.touched == Touched::Removed)) {
        return Ok(MovesSince::default());
    }
    let versions = moves::by_version(store, head.id, spec.state.serial, head.serial).await?;
    // What moved after it had come did not stand there when the plan was made.
    let came = |change: &&RowChange| change.steps().next().is_some_and(|step| step.touched == Touched::Created);
    let late: BTreeSet<&RowKey> = changes.iter().filter(came).map(|change| &change.key).collect();
    let mut ends = moves::from_end_to_end(&versions);
    ends.retain(|from, to| from != to && !late.contains(&RowKey::object(from.clone())));
    let versions = versions.into_iter().map(|(serial, moves)| (serial, Ways::new(moves))).collect();
    Ok(MovesSince { ends: Ways::new(ends), versions })
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
    let (mut moments, steps, more) = lived(store, state, pattern, before, since, limit).await?;
    for (moment, names) in moments.iter_mut().zip(intervening::attributes(store, state, &steps).await?) {
        moment.attributes = names;
    }
    Ok((moments, more))
}

/// The moments of a life, the same in full for each of them, and whether there are more.
async fn lived(
    store: &dyn Store,
    state: StateId,
    pattern: Pattern,
    before: Option<Serial>,
    since: Option<DateTime<Utc>>,
    limit: usize,
) -> Result<(Vec<Moment>, Vec<Step>, Option<Serial>), KlError> {
    let mut records = Records::new(store, state);
    let mut names = newest_names(store, &mut records, state, pattern.clone()).await?;
    let (mut moments, mut steps, mut versions, mut at) = (Vec::new(), Vec::new(), 0, None);
    'names: loop {
        let claims: Vec<Claim> = names.iter().cloned().map(Claim::write).collect();
        // Newer versions than asked for are looked at for the moves in them alone.
        let skipping = before.is_some_and(|before| at.is_none_or(|at: Serial| at > before));
        let wanted = u32::try_from(limit - versions + 1).unwrap_or(PAGE);
        let page =
            store.versions_touching(state, &claims, at, if skipping { SKIPPED } else { wanted.min(PAGE) }).await?;
        if page.is_empty() {
            return Ok((moments, steps, None));
        }
        for version in page {
            if since.is_some_and(|since| version.at < since) {
                return Ok((moments, steps, None));
            }
            let told = before.is_none_or(|before| version.serial < before);
            let moves = if told || may_move(&version) { records.moves(&version).await? } else { Vec::new() };
            let spec = if told { records.spec(&version).await? } else { None };
            at = Some(version.serial);
            if told {
                if versions == limit {
                    return Ok((moments, steps, Some(version.serial.next())));
                }
                versions += 1;
                for (moment, step) in happened(&version, &moves, spec.as_ref(), &pattern) {
                    moments.push(moment);
                    steps.push(step);
                }
            }
            let here = |to: &Address| names.iter().any(|name| name.covers(&Pattern::Resource(to.clone())));
            let came: Vec<(Address, Address)> = moves.into_iter().filter(|(_, to)| here(to)).collect();
            if !came.is_empty() {
                // Before this version it stood elsewhere; whatever stood here then was something else.
                names.retain(|name| !came.iter().any(|(_, to)| *name == Pattern::Resource(to.clone())));
                for (from, _) in came {
                    let from = Pattern::Resource(from);
                    if !names.iter().any(|name| name.covers(&from)) {
                        names.push(from);
                    }
                }
                continue 'names;
            }
        }
    }
}

/// Whether something may have moved to one of these rows: its plan need not be read where nothing began to exist.
fn may_move(version: &Version) -> bool {
    version.source == Source::Rollback || version.rows.iter().any(|(_, touched)| *touched == Touched::Created)
}

/// A pattern, and where what it covered stands now, or stood last: moves are followed forwards.
async fn newest_names(
    store: &dyn Store,
    records: &mut Records<'_>,
    state: StateId,
    pattern: Pattern,
) -> Result<Vec<Pattern>, KlError> {
    let mut names = vec![pattern.clone()];
    let asked = [Claim::write(pattern.clone())];
    let Some(newest) = store.versions_touching(state, &asked, None, 1).await?.pop() else { return Ok(names) };
    if newest.rows.iter().any(|(_, touched)| *touched != Touched::Removed) {
        return Ok(names);
    }
    let moves = records.moves(&newest).await?.into_iter();
    let left = moves.filter(|(from, _)| pattern.covers(&Pattern::Resource(from.clone())));
    let mut last: Vec<(Serial, Address)> = left.map(|(_, to)| (newest.serial, to)).collect();
    for _ in 0..MOVES {
        let mut next = Vec::new();
        for (came, address) in last {
            match left_later(store, records, state, &address, came).await? {
                Some(further) => next.push(further),
                None => names.push(Pattern::Resource(address)),
            }
        }
        last = next;
    }
    names.dedup();
    Ok(names)
}

/// The first version after a serial that moved what stood at an address then, and to where. Something else may stand there
/// since.
async fn left_later(
    store: &dyn Store,
    records: &mut Records<'_>,
    state: StateId,
    address: &Address,
    came: Serial,
) -> Result<Option<(Serial, Address)>, KlError> {
    let claims = [Claim::write(Pattern::Resource(address.clone()))];
    let (mut left, mut before) = (None, None);
    loop {
        let page = store.versions_touching(state, &claims, before, PAGE).await?;
        let Some(oldest) = page.last().map(|version| version.serial) else { return Ok(left) };
        for version in page.iter().filter(|version| version.serial > came) {
            let moves = records.moves(version).await?;
            left = moves.into_iter().find(|(from, _)| from == address).map(|(_, to)| (version.serial, to)).or(left);
        }
        if oldest <= came {
            return Ok(left);
        }
        before = Some(oldest);
    }
}

/// What a version did, without names of attributes yet. Of a move out of what was asked for, the end that goes on is told.
fn happened(
    version: &Version,
    moves: &[(Address, Address)],
    spec: Option<&PlanSpec>,
    asked: &Pattern,
) -> Vec<(Moment, Step)> {
    let told_there = |key: &RowKey| {
        let address = key.address();
        let to = moves.iter().find(|(from, _)| Some(from) == address).map(|(_, to)| to);
        to.is_some_and(|to| {
            !asked.covers(&Pattern::Resource(to.clone()))
                && version.rows.iter().any(|(row, _)| row.address() == Some(to))
        })
    };
    let moment = |(key, touched): &(RowKey, Touched)| {
        let address = key.address();
        let came = moves.iter().find(|(_, to)| Some(to) == address).map(|(from, _)| from);
        let went = moves.iter().find(|(from, _)| Some(from) == address).map(|(_, to)| to);
        let moment = Moment {
            row: key.to_string(),
            touched: *touched,
            planned: spec.and_then(|spec| planned(spec, key, *touched)),
            moved_from: came.map(ToString::to_string),
            moved_to: went.map(ToString::to_string),
            attributes: Vec::new(),
            source: version.source.word(),
            cause: cause(version),
        };
        let from = came.cloned().map(RowKey::object);
        (moment, Step { from, ..Step::of(key.clone(), version.serial) })
    };
    let ends = |(key, touched): &&(RowKey, Touched)| *touched == Touched::Removed && told_there(key);
    version.rows.iter().filter(|row| !ends(row)).map(moment).collect()
}

/// The word of a version's plan for what it did to a row, where that says more than what became of the row.
fn planned(spec: &PlanSpec, key: &RowKey, touched: Touched) -> Option<&'static str> {
    let RowKey::Object { address, deposed } = key else { return None };
    let deposed = deposed.as_ref().map(|key| key.0.as_str());
    let entry = spec.write.iter().find(|entry| entry.address == *address && entry.deposed.as_deref() == deposed)?;
    match (entry.actions, touched) {
        (Action::Forget, Touched::Removed) => Some("no longer managed"),
        (_, Touched::Created) if entry.import_id.is_some() => Some("imported"),
        (Action::DeleteCreate | Action::CreateDelete, Touched::Changed) => Some("replaced"),
        (Action::CreateForget | Action::ForgetCreate, Touched::Changed) => {
            Some("replaced, the former object no longer managed")
        }
        _ => None,
    }
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
