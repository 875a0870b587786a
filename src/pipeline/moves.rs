//! Which objects moved from where to where: what reviewed plans and `kl state mv` have on record, what a rollback took back
//! of that, and what a plain Terraform moved, as far as its objects can be told from others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::Pin;

use crate::domain::address::{Address, Mode, Target};
use crate::domain::id::{RunId, Serial, SpecId, StateId};
use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::event::RunEvent;
use crate::domain::state::comparison::moved;
use crate::domain::state::moving::renamed;
use crate::domain::state::{Body, Row, RowKey, Touched};
use crate::store::model::{Source, Version, VersionQuery};
use crate::store::{Store, StoreError};

/// So many versions are read at once.
const PAGE: u32 = 200;

/// What stands behind versions, each thing read once.
pub struct Records<'s> {
    store: &'s dyn Store,
    state: StateId,
    specs: HashMap<SpecId, Option<PlanSpec>>,
    errands: HashMap<RunId, Option<(Target, Target)>>,
    back: HashMap<RunId, Vec<(Address, Address)>>,
    seen: HashMap<Serial, Vec<(Address, Address)>>,
}

impl<'s> Records<'s> {
    /// Nothing is read yet of this state.
    #[must_use]
    pub fn new(store: &'s dyn Store, state: StateId) -> Self {
        let (specs, errands) = (HashMap::new(), HashMap::new());
        Self { store, state, specs, errands, back: HashMap::new(), seen: HashMap::new() }
    }

    /// The spec behind a version. None where there was none, or none that can still be read.
    pub async fn spec(&mut self, version: &Version) -> Result<Option<PlanSpec>, StoreError> {
        let Some(id) = version.spec else { return Ok(None) };
        if let Some(known) = self.specs.get(&id) {
            return Ok(known.clone());
        }
        let spec = match self.store.spec_find(id).await {
            Ok(stored) => PlanSpec::read(&stored.spec.document).ok(),
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        self.specs.insert(id, spec.clone());
        Ok(spec)
    }

    /// The moves that a version made, of the rows that it is told with: from where, and to where.
    pub async fn moves(&mut self, version: &Version) -> Result<Vec<(Address, Address)>, StoreError> {
        if let Some((from, to)) = self.errand(version).await? {
            let pair = |address: &Address, touched: Touched| match touched {
                Touched::Removed => Some((address.clone(), renamed(&from, &to, address)?)),
                Touched::Created => Some((renamed(&to, &from, address)?, address.clone())),
                Touched::Changed => None,
            };
            let rows = version.rows.iter();
            let mut moves: Vec<_> = rows.filter_map(|(key, touched)| pair(key.address()?, *touched)).collect();
            moves.sort();
            moves.dedup();
            return Ok(moves);
        }
        if let Some(run) = version.run.filter(|_| version.source == Source::Rollback) {
            if !self.back.contains_key(&run) {
                let moves = taken_back(self.store, run, version.serial).await?;
                self.back.insert(run, moves);
            }
            return Ok(self.back.get(&run).cloned().unwrap_or_default());
        }
        if matches!(version.source, Source::Http | Source::Import) {
            if !self.seen.contains_key(&version.serial) {
                let moves = seen(self.store, self.state, version).await?;
                self.seen.insert(version.serial, moves);
            }
            return Ok(self.seen.get(&version.serial).cloned().unwrap_or_default());
        }
        let spec = self.spec(version).await?;
        // Of a spec whose apply was recovered and gone on with, one version made the move, and not the other one.
        let touched = |address: &Address, how: Touched| {
            version.rows.iter().any(|(key, touched)| *touched == how && key.address() == Some(address))
        };
        let made = |from: &Address, to: &Address| {
            version.rows.is_empty() || touched(from, Touched::Removed) || touched(to, Touched::Created)
        };
        let entries = spec.iter().flat_map(|spec| &spec.write);
        let moves = entries.filter_map(|entry| Some((entry.moved_from.clone()?, entry.address.clone())));
        Ok(moves.filter(|(from, to)| made(from, to)).collect())
    }

    /// What `kl state mv` was told to do, where it made the version.
    pub async fn errand(&mut self, version: &Version) -> Result<Option<(Target, Target)>, StoreError> {
        let Some(run) = version.run.filter(|_| version.source == Source::Move) else { return Ok(None) };
        if let Some(known) = self.errands.get(&run) {
            return Ok(known.clone());
        }
        let events = self.store.event_outline(run).await?;
        let errand = events.iter().find_map(|recorded| match &recorded.event {
            RunEvent::Moving { from, to } => Some((Target::parse(from).ok()?, Target::parse(to).ok()?)),
            _ => None,
        });
        self.errands.insert(run, errand.clone());
        Ok(errand)
    }
}

/// The moves that a plain Terraform made, or a document that was imported: no plan of theirs is on record, but an object is
/// told from others by what it is. Contents are read only where something is gone and something else is new.
async fn seen(store: &dyn Store, state: StateId, version: &Version) -> Moves {
    let (new, gone) = (version.rows_touched - version.rows_closed, version.rows_touched - version.rows_opened);
    if new <= 0 || gone <= 0 {
        return Ok(Vec::new());
    }
    let serial = version.serial;
    let query = VersionQuery { before: Some(serial.next()), since: None, limit: 1, with_rows: true };
    let rows: Vec<_> = store.version_list(state, query).await?.into_iter().flat_map(|version| version.rows).collect();
    let of = |how: Touched| {
        let managed = |key: &RowKey| match key {
            RowKey::Object { address, deposed: None } => address.mode == Mode::Managed,
            _ => false,
        };
        let keys = rows.iter().filter(move |(key, touched)| *touched == how && managed(key));
        keys.map(|(key, _)| key.clone()).collect::<Vec<_>>()
    };
    let (mut gone, mut new) = (of(Touched::Removed), of(Touched::Created));
    let of_type = |keys: &[RowKey]| -> BTreeSet<String> {
        keys.iter().filter_map(|key| Some(key.address()?.type_name.clone())).collect()
    };
    let (gone_types, new_types) = (of_type(&gone), of_type(&new));
    let both = |key: &RowKey| {
        key.address().is_some_and(|at| gone_types.contains(&at.type_name) && new_types.contains(&at.type_name))
    };
    gone.retain(both);
    new.retain(both);
    let before = Serial(serial.0 - 1);
    let asked = gone.iter().map(|key| (key.clone(), before)).chain(new.iter().map(|key| (key.clone(), serial)));
    let mut contents = store.row_contents(state, &asked.collect::<Vec<_>>()).await?;
    let after = contents.split_off(gone.len());
    let rows = |keys: Vec<RowKey>, bodies: Vec<Option<Body>>| -> Vec<Row> {
        keys.into_iter().zip(bodies).filter_map(|(key, body)| Some(Row { key, body: body? })).collect()
    };
    Ok(moved(&rows(gone, contents), &rows(new, after)))
}

/// The moves that a rollback took back: from where its rows stood to where they stood at the serial that it went back to.
/// A future with a name, because what lies between the two may hold rollbacks of its own.
fn taken_back(store: &dyn Store, run: RunId, serial: Serial) -> Pin<Box<dyn Future<Output = Moves> + Send + '_>> {
    Box::pin(async move {
        let events = store.event_outline(run).await?;
        let to = events.iter().find_map(|recorded| match &recorded.event {
            RunEvent::RollingBack { to, .. } => Some(*to),
            _ => None,
        });
        let Some(to) = to else { return Ok(Vec::new()) };
        let state = store.run_find(run).await?.state;
        let query = VersionQuery { before: Some(serial.next()), since: None, limit: 1, with_rows: true };
        let rows: HashMap<Address, Touched> = store
            .version_list(state, query)
            .await?
            .into_iter()
            .flat_map(|version| version.rows)
            .filter_map(|(key, touched)| Some((key.address()?.clone(), touched)))
            .collect();
        // A rollback of some rows alone leaves the others where they are. Either address may have had something else before,
        // or have it now.
        let took = |now: &Address, then: &Address| {
            // What an earlier rollback has brought back stands where it stood.
            now != then
                && rows.get(now).is_some_and(|touched| *touched != Touched::Created)
                && rows.get(then).is_some_and(|touched| *touched != Touched::Removed)
        };
        let moved = between(store, state, to, Serial(serial.0 - 1)).await?;
        Ok(moved.into_iter().map(|(then, now)| (now, then)).filter(|(now, then)| took(now, then)).collect())
    })
}

/// Pairs of from where and to where.
type Moves = Result<Vec<(Address, Address)>, StoreError>;

/// Where what stood at one serial stands at a later one, as far as its moves are on record.
pub async fn between(
    store: &dyn Store,
    state: StateId,
    older: Serial,
    newer: Serial,
) -> Result<BTreeMap<Address, Address>, StoreError> {
    Ok(from_end_to_end(&by_version(store, state, older, newer).await?))
}

/// The moves on record of each version behind a serial, up to another one and with it.
pub async fn by_version(
    store: &dyn Store,
    state: StateId,
    older: Serial,
    newer: Serial,
) -> Result<BTreeMap<Serial, Vec<(Address, Address)>>, StoreError> {
    let mut records = Records::new(store, state);
    let mut found = BTreeMap::new();
    let mut before = newer.next();
    loop {
        let page = store
            .version_list(state, VersionQuery { before: Some(before), since: None, limit: PAGE, with_rows: false })
            .await?;
        if page.is_empty() {
            return Ok(found);
        }
        for version in page {
            if version.serial <= older {
                return Ok(found);
            }
            before = version.serial;
            let may = match version.source {
                Source::Move | Source::Rollback => true,
                _ => !records.moves(&version).await?.is_empty(),
            };
            if !may {
                continue;
            }
            let query = VersionQuery { before: Some(version.serial.next()), since: None, limit: 1, with_rows: true };
            for version in store.version_list(state, query).await? {
                let moves = records.moves(&version).await?;
                if !moves.is_empty() {
                    found.insert(version.serial, moves);
                }
            }
        }
    }
}

/// Moves, to be found by either end.
#[derive(Debug, Default)]
pub struct Ways {
    from: BTreeMap<Address, Address>,
    to: BTreeMap<Address, Address>,
}

impl Ways {
    /// Those of these pairs of from where and to where.
    #[must_use]
    pub fn new(moves: impl IntoIterator<Item = (Address, Address)>) -> Self {
        let to: BTreeMap<Address, Address> = moves.into_iter().collect();
        Self { from: to.iter().map(|(from, to)| (to.clone(), from.clone())).collect(), to }
    }

    /// From where what stands at a row came, and where to what stood there has gone.
    #[must_use]
    pub fn of(&self, key: &RowKey) -> (Option<Address>, Option<Address>) {
        let RowKey::Object { address, deposed: None } = key else { return (None, None) };
        (self.from.get(address).cloned(), self.to.get(address).cloned())
    }
}

/// The moves of some versions, as far as they are on record.
pub async fn of_versions(
    store: &dyn Store,
    state: StateId,
    serials: impl IntoIterator<Item = Serial>,
) -> Result<BTreeMap<Serial, Ways>, StoreError> {
    let mut records = Records::new(store, state);
    let mut found = BTreeMap::new();
    for serial in serials {
        let query = VersionQuery { before: Some(serial.next()), since: None, limit: 1, with_rows: true };
        for version in store.version_list(state, query).await? {
            found.insert(version.serial, Ways::new(records.moves(&version).await?));
        }
    }
    Ok(found)
}

/// From where the first of some versions found things to where the last one left them.
#[must_use]
pub fn from_end_to_end(versions: &BTreeMap<Serial, Vec<(Address, Address)>>) -> BTreeMap<Address, Address> {
    // What stood first at an address that something has left, and where it stands.
    let mut left = BTreeSet::new();
    let mut origins: BTreeMap<Address, Address> = BTreeMap::new();
    for moves in versions.values() {
        // All moves of a version happen at once: two objects may change places.
        let taken: Vec<Option<Address>> = moves.iter().map(|(from, _)| origins.remove(from)).collect();
        for (origin, (from, to)) in taken.into_iter().zip(moves) {
            // What moved away before has left its address to something that did not exist at first.
            match origin.or_else(|| (!left.contains(from)).then(|| from.clone())) {
                Some(origin) => drop(origins.insert(to.clone(), origin)),
                None => drop(origins.remove(to)),
            }
        }
        left.extend(moves.iter().map(|(from, _)| from.clone()));
    }
    origins.into_iter().map(|(place, origin)| (origin, place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moves of each version as `from>to`, and what comes of them.
    fn ends(versions: &[&[&str]]) -> Vec<String> {
        let address = |name: &str| Address::parse(&format!("terraform_data.{name}")).unwrap();
        let pair = |text: &&str| {
            let (from, to) = text.split_once('>').unwrap();
            (address(from), address(to))
        };
        let serials = (1..).map(Serial);
        let versions = serials.zip(versions.iter().map(|moves| moves.iter().map(pair).collect())).collect();
        let bare = |address: &Address| address.to_string().replace("terraform_data.", "");
        from_end_to_end(&versions).iter().map(|(from, to)| format!("{}>{}", bare(from), bare(to))).collect()
    }

    #[test]
    fn moves_are_followed_from_end_to_end() {
        assert_eq!(ends(&[&["a>b"], &["b>c"]]), ["a>c"]);
        assert_eq!(ends(&[&["a>b"], &["b>a"]]), ["a>a"]);
        assert_eq!(ends(&[&["a>b", "b>a"]]), ["a>b", "b>a"], "two that change places");
        assert_eq!(ends(&[&["a>b", "b>c"]]), ["a>b", "b>c"], "one that makes room");
        assert_eq!(ends(&[&["a>b"], &["a>c"]]), ["a>b"], "what came to the address later");
        assert_eq!(ends(&[&["a>b"], &["c>b"]]), ["c>b"], "what was gone by then");
        assert_eq!(ends(&[&["a>b"], &["a>b"]]), Vec::<String>::new(), "the same with what came later");
    }
}
