//! The versions between a plan and now, row by row: who, for which request, and the names of the attributes that each of
//! them changed.

use std::collections::BTreeSet;

use crate::domain::coordination::staleness::{Sorted, Staleness};
use crate::domain::id::{Serial, StateId};
use crate::domain::run::Origin;
use crate::domain::run::event::{ChangedRow, RowVersion};
use crate::domain::state::difference::changed_attributes;
use crate::domain::state::moving::as_at;
use crate::domain::state::{Row, RowKey, Touched};
use crate::store::model::RowChange;
use crate::store::{Store, StoreError};

use super::moves;

/// So many versions are told of one row, the newest ones; the rest is counted.
pub const VERSIONS: usize = 10;

/// So many attributes are named of one row in one version; the rest is counted.
const ATTRIBUTES: usize = 20;

/// So many rows are told with their versions; of further ones the newest version is known alone.
const ROWS: usize = 500;

/// In so many cases is looked which attributes a version changed, beginning with the rows that matter most.
const LOOKED: usize = 500;

/// In so many versions is looked for moves, beginning with the newest.
const MOVED: usize = 100;

/// So many contents are in the memory at once.
const PAGE: usize = 100;

/// A row as a version left it, and where it stood before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The row.
    pub key: RowKey,
    /// The version.
    pub serial: Serial,
    /// Where it stood before, when the version moved it.
    pub from: Option<RowKey>,
    /// The serial before: that of the version before, or an earlier one to look over several versions at once.
    pub since: Serial,
}

impl Step {
    /// What one version did to a row that it did not move.
    #[must_use]
    pub fn of(key: RowKey, serial: Serial) -> Self {
        Self { key, serial, from: None, since: Serial(serial.0 - 1) }
    }
}

/// For each step the names of the attributes in which the row differs. None where it was not there before or is not there
/// afterwards: then all of it is new, or gone.
pub async fn attributes(store: &dyn Store, state: StateId, steps: &[Step]) -> Result<Vec<Vec<String>>, StoreError> {
    let mut names = Vec::with_capacity(steps.len());
    for page in steps.chunks(PAGE) {
        let before = page.iter().map(|step| (step.from.clone().unwrap_or_else(|| step.key.clone()), step.since));
        let after = page.iter().map(|step| (step.key.clone(), step.serial));
        let mut contents = store.row_contents(state, &before.chain(after).collect::<Vec<_>>()).await?;
        let after = contents.split_off(page.len());
        for ((step, before), after) in page.iter().zip(contents).zip(after) {
            let (Some(before), Some(after)) = (before, after) else {
                names.push(Vec::new());
                continue;
            };
            let before = match (&step.from, step.key.address()) {
                (Some(from), Some(to)) => as_at(&Row { key: from.clone(), body: before }, to),
                _ => before,
            };
            names.push(changed_attributes(&before, &after));
        }
    }
    Ok(names)
}

/// Puts changed rows into the words of a timeline.
pub async fn told(store: &dyn Store, state: StateId, changes: Sorted<RowChange>) -> Result<Staleness, StoreError> {
    let ways = moves::of_versions(store, state, may_move(&changes)).await?;
    let (mut rows, mut steps) = (0, Vec::new());
    let mut sorted = changes.map(|change| {
        rows += 1;
        let mut row = changed_row(&change, if rows > ROWS { 0 } else { VERSIONS });
        for version in &mut row.versions {
            let (from, to) = ways.get(&version.serial).map(|ways| ways.of(&change.key)).unwrap_or_default();
            version.moved_from = from.as_ref().map(ToString::to_string);
            version.moved_to = to.as_ref().map(ToString::to_string);
            if has_attributes(version) {
                steps.push(Step { from: from.map(RowKey::object), ..Step::of(change.key.clone(), version.serial) });
            }
        }
        row
    });
    steps.truncate(LOOKED);
    let mut names = attributes(store, state, &steps).await?.into_iter();
    let versions = sorted.iter_mut().flat_map(|row| &mut row.versions);
    for version in versions.filter(|version| has_attributes(version)) {
        let Some(names) = names.next() else { break };
        (version.attributes, version.more) = bounded(names);
    }
    Ok(sorted)
}

/// Whether there may be attributes that a version changed in its row: all of what is new, or gone, is.
fn has_attributes(version: &RowVersion) -> bool {
    version.touched == Some(Touched::Changed) || version.moved_from.is_some()
}

/// The newest versions that took away or made a row.
fn may_move(changes: &Sorted<RowChange>) -> Vec<Serial> {
    let steps = changes.iter().flat_map(RowChange::steps).filter(|step| step.touched != Touched::Changed);
    let serials: BTreeSet<Serial> = steps.map(|step| step.version.serial).collect();
    serials.into_iter().rev().take(MOVED).collect()
}

/// As many names as are told, and how many more there are.
fn bounded(mut names: Vec<String>) -> (Vec<String>, usize) {
    let more = names.len().saturating_sub(ATTRIBUTES);
    names.truncate(ATTRIBUTES);
    (names, more)
}

/// A row with at most so many of the versions that changed it, without names of attributes yet.
fn changed_row(change: &RowChange, most: usize) -> ChangedRow {
    let newest = &change.newest.version;
    let mut versions: Vec<RowVersion> = change
        .steps()
        .rev()
        .take(most)
        .map(|step| RowVersion {
            serial: step.version.serial,
            run: step.version.run,
            actor: step.version.actor.clone(),
            origin: of_request(&step.version.origin),
            touched: Some(step.touched),
            moved_from: None,
            moved_to: None,
            attributes: Vec::new(),
            more: 0,
        })
        .collect();
    versions.reverse();
    ChangedRow {
        row: change.key.to_string(),
        serial: newest.serial,
        run: newest.run,
        actor: newest.actor.clone(),
        earlier: change.earlier.len() + 1 - versions.len().max(1),
        versions,
        back: change.back,
    }
}

/// Which request something came from, without the rest.
fn of_request(origin: &Origin) -> Origin {
    let Origin { forge, repository, request, .. } = origin.clone();
    Origin { forge, repository, request, ..Origin::default() }
}
