//! Rows at another address: what `kl state mv` moves, what it refuses as Terraform does, and what else names the place.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;

use super::row::{Body, Row, RowKey};
use crate::domain::address::{Address, ConfigAddress, Key, ModulePath, Target};
use crate::domain::json::{JsonError, Members, write_string};

/// Why something cannot be moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The state has nothing there.
    #[error("the state has nothing at {0}")]
    NothingThere(String),
    /// Something else stands at the new address.
    #[error("cannot move {from} to {to}: the state has {occupied} already")]
    Occupied {
        /// What was to be moved.
        from: String,
        /// Where to.
        to: String,
        /// What stands there.
        occupied: String,
    },
    /// The two addresses are not of one kind.
    #[error("cannot move {from} to {to}: {why}")]
    OtherKind {
        /// What was to be moved.
        from: String,
        /// Where to.
        to: String,
        /// What does not fit.
        why: &'static str,
    },
    /// A row has a form that cannot be rewritten.
    #[error("{row} cannot be moved: its content has an unknown form")]
    Unreadable {
        /// The row.
        row: String,
        /// What is wrong with it.
        #[source]
        source: Option<JsonError>,
    },
}

/// A row that moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Where it stood.
    pub from: RowKey,
    /// The row at its new address.
    pub row: Row,
}

/// What moving comes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Moving {
    /// The rows that move.
    pub moved: Vec<Moved>,
    /// Rows that end with it: a resource without instances that gets some.
    pub ended: Vec<RowKey>,
    /// Rows that name a moved resource among their dependencies, as they are to be.
    pub followers: Vec<Row>,
}

/// Moves what stands at one address to another, by Terraform's rules: a module with everything in it, a resource with all
/// its instances, or one instance, which may get or lose its key. What a row depends on is rewritten along (Terraform
/// forgets all dependencies of such a row until the next apply).
///
/// # Errors
/// When there is nothing to move, something stands in the way, or the two addresses do not fit each other.
pub fn move_rows(rows: &[Row], from: &Target, to: &Target) -> Result<Moving, MoveError> {
    let (pairs, provider) = match from {
        Target::Module(module) => (modules(rows, module, from, to)?, None),
        Target::Resource(address) => resource(rows, address, from, to)?,
        Target::Output(_) | Target::Everything => {
            return Err(other_kind(from, to, "only modules, resources and their instances can be moved"));
        }
    };
    let mut moving = Moving::default();
    for (row, address) in pairs {
        let body = readdressed(row, &address, provider.as_deref())?;
        let key = match &row.key {
            RowKey::Object { deposed, .. } => RowKey::Object { address, deposed: deposed.clone() },
            _ => RowKey::Husk(address),
        };
        moving.moved.push(Moved { from: row.key.clone(), row: Row { key, body } });
    }
    moving.ended = emptied(rows, &moving.moved);
    follow(rows, &mut moving)?;
    Ok(moving)
}

/// Where an address stands after what stood at `from` was moved to `to`; none when it was not among that.
#[must_use]
pub fn renamed(from: &Target, to: &Target, address: &Address) -> Option<Address> {
    match (from, to) {
        (Target::Module(from), Target::Module(to)) => {
            let below = address.module.0.strip_prefix(from.0.as_slice())?;
            Some(Address { module: ModulePath([to.0.as_slice(), below].concat()), ..address.clone() })
        }
        (Target::Resource(own), Target::Resource(to)) if from.names(address) => {
            // All instances of a resource keep their keys; one instance gets what is written.
            let key = if own.key == address.key { to.key.clone() } else { address.key.clone() };
            Some(Address { key, ..to.clone() })
        }
        _ => None,
    }
}

fn other_kind(from: &Target, to: &Target, why: &'static str) -> MoveError {
    MoveError::OtherKind { from: from.to_string(), to: to.to_string(), why }
}

/// The address of an instance, or of a resource without one.
fn place(key: &RowKey) -> Option<&Address> {
    match key {
        RowKey::Object { address, .. } | RowKey::Husk(address) => Some(address),
        RowKey::Output(_) | RowKey::Check { .. } => None,
    }
}

/// Rows, and where they go.
type Pairs<'r> = Vec<(&'r Row, Address)>;

fn modules<'r>(rows: &'r [Row], module: &ModulePath, from: &Target, to: &Target) -> Result<Pairs<'r>, MoveError> {
    let Target::Module(new) = to else {
        return Err(other_kind(from, to, "the target must be a module, too"));
    };
    let standing: BTreeSet<&ModulePath> =
        rows.iter().filter_map(|row| place(&row.key)).map(|address| &address.module).collect();
    let mut pairs = Vec::new();
    for row in rows {
        let Some(address) = place(&row.key) else { continue };
        let Some(below) = address.module.0.strip_prefix(module.0.as_slice()) else { continue };
        let path = ModulePath([new.0.as_slice(), below].concat());
        if standing.contains(&path) {
            let occupied = format!("a module {path}");
            return Err(MoveError::Occupied { from: from.to_string(), to: to.to_string(), occupied });
        }
        pairs.push((row, Address { module: path, ..address.clone() }));
    }
    if pairs.is_empty() { Err(MoveError::NothingThere(from.to_string())) } else { Ok(pairs) }
}

fn resource<'r>(
    rows: &'r [Row],
    address: &Address,
    from: &Target,
    to: &Target,
) -> Result<(Pairs<'r>, Option<Box<RawValue>>), MoveError> {
    let of = |resource: &Address| {
        let resource = Target::Resource(Address { key: None, ..resource.clone() });
        rows.iter().filter(move |row| place(&row.key).is_some_and(|place| resource.names(place)))
    };
    let is = |key: &RowKey, instance: &Address| key.address() == Some(instance);
    // What has no key is an instance where there is such a one, else all instances.
    let one = address.key.is_some() || of(address).any(|row| is(&row.key, address));
    let found: Vec<&Row> = of(address).filter(|row| !one || is(&row.key, address)).collect();
    if found.is_empty() {
        return Err(MoveError::NothingThere(from.to_string()));
    }
    let new = match to {
        Target::Resource(new) if one || new.key.is_none() => new,
        _ if one => return Err(other_kind(from, to, "the target must be a resource instance, too")),
        _ => {
            let why = "the source is a whole resource, so that the target must be a whole resource, too";
            return Err(other_kind(from, to, why));
        }
    };
    if new.mode != address.mode {
        return Err(other_kind(from, to, "a resource stays a resource, and a data source a data source"));
    }
    if new.type_name != address.type_name {
        return Err(other_kind(from, to, "the types of the resources differ"));
    }
    let standing = of(new).find(|row| !one || is(&row.key, new));
    if let Some(standing) = standing {
        let occupied = standing.key.to_string();
        return Err(MoveError::Occupied { from: from.to_string(), to: to.to_string(), occupied });
    }
    let key = |key: &Address| if one { new.key.clone() } else { key.key.clone() };
    let pairs = found.iter().filter_map(|row| Some((*row, Address { key: key(place(&row.key)?), ..new.clone() })));
    // An instance that comes to others takes over their provider, which Terraform keeps once for a resource.
    let provider = of(new).find_map(|row| {
        let Members(members) = serde_json::from_str(row.body.text()).ok()?;
        members.into_iter().find(|(name, _)| name == "provider").map(|(_, value)| value.to_owned())
    });
    Ok((pairs.collect(), provider))
}

/// The rows of resources without instances that get some.
fn emptied(rows: &[Row], moved: &[Moved]) -> Vec<RowKey> {
    let filled: BTreeSet<Address> = moved
        .iter()
        .filter_map(|moved| moved.row.key.address())
        .map(|address| Address { key: None, ..address.clone() })
        .collect();
    let husk = |row: &&Row| matches!(&row.key, RowKey::Husk(address) if filled.contains(address));
    rows.iter().filter(husk).map(|row| row.key.clone()).collect()
}

/// Lets what depends on a moved resource name it by its new address. Where other instances stay, both are named.
fn follow(rows: &[Row], moving: &mut Moving) -> Result<(), MoveError> {
    let mut went: BTreeMap<ConfigAddress, BTreeSet<ConfigAddress>> = BTreeMap::new();
    let mut gone = BTreeSet::new();
    for Moved { from, row } in &moving.moved {
        if let (Some(from), Some(to)) = (place(from), place(&row.key)) {
            went.entry(from.config()).or_default().insert(to.config());
        }
        gone.insert(from.clone());
    }
    let stays: BTreeSet<ConfigAddress> = rows
        .iter()
        .filter(|row| !gone.contains(&row.key))
        .filter_map(|row| place(&row.key))
        .map(Address::config)
        .collect();
    let names = |own: &ConfigAddress| -> BTreeSet<ConfigAddress> {
        let mut names = went.get(own).cloned().unwrap_or_default();
        if names.is_empty() || stays.contains(own) {
            names.insert(own.clone());
        }
        names
    };
    for moved in &mut moving.moved {
        if let Some(body) = depending(&moved.row, &names)? {
            moved.row.body = body;
        }
    }
    for row in rows.iter().filter(|row| !gone.contains(&row.key)) {
        if let Some(body) = depending(row, &names)? {
            moving.followers.push(Row { key: row.key.clone(), body });
        }
    }
    Ok(())
}

/// The row's content with other dependencies; none where they stay as they are.
fn depending(row: &Row, names: &impl Fn(&ConfigAddress) -> BTreeSet<ConfigAddress>) -> Result<Option<Body>, MoveError> {
    if !matches!(row.key, RowKey::Object { .. }) || !row.body.text().contains("\"dependencies\"") {
        return Ok(None);
    }
    let mut changed = false;
    let body = rewritten(
        row,
        |_| {},
        |instance| {
            for (name, value) in instance {
                if name != "dependencies" {
                    continue;
                }
                let Ok(old) = serde_json::from_str::<Vec<String>>(value) else { continue };
                let mut new: Vec<String> = Vec::new();
                for text in &old {
                    match ConfigAddress::parse(text) {
                        Ok(own) => new.extend(names(&own).iter().map(ToString::to_string)),
                        Err(_) => new.push(text.clone()),
                    }
                }
                let mut seen = BTreeSet::new();
                new.retain(|text| seen.insert(text.clone()));
                if new != old {
                    changed = true;
                    *value = array(&new);
                }
            }
        },
    )?;
    Ok(changed.then_some(body))
}

fn array(items: &[String]) -> String {
    let mut out = String::from("[");
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        write_string(&mut out, item);
    }
    out.push(']');
    out
}

/// The content of a row at another address, all else as it is.
fn readdressed(row: &Row, to: &Address, provider: Option<&RawValue>) -> Result<Body, MoveError> {
    let head = |members: &mut Vec<(String, String)>| {
        set(members, "module", (!to.module.is_root()).then(|| quoted(&to.module.to_string())));
        set(members, "name", Some(quoted(&to.name)));
        if let Some(provider) = provider {
            set(members, "provider", Some(provider.get().to_owned()));
        }
    };
    rewritten(row, head, |instance| {
        let key = to.key.as_ref().map(|key| match key {
            Key::Int(index) => index.to_string(),
            Key::Str(text) => quoted(text),
        });
        set(instance, "index_key", key);
    })
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    write_string(&mut out, text);
    out
}

/// Sets a member, in front where it is new (as Terraform has both the module and the key), or takes it away.
fn set(members: &mut Vec<(String, String)>, name: &str, value: Option<String>) {
    match (members.iter().position(|(own, _)| own == name), value) {
        (Some(place), Some(value)) => members[place].1 = value,
        (Some(place), None) => drop(members.remove(place)),
        (None, Some(value)) => members.insert(0, (name.to_owned(), value)),
        (None, None) => {}
    }
}

/// A body with other members, at the resource's level and in its instances; all other tokens stay.
fn rewritten(
    row: &Row,
    head: impl FnOnce(&mut Vec<(String, String)>),
    mut instance: impl FnMut(&mut Vec<(String, String)>),
) -> Result<Body, MoveError> {
    let unreadable = |source| MoveError::Unreadable { row: row.key.to_string(), source };
    let syntax = |error: serde_json::Error| unreadable(Some(error.into()));
    let mut members = owned(row.body.text()).map_err(syntax)?;
    for (name, value) in &mut members {
        if name == "instances" && value != "null" {
            let list: Vec<&RawValue> = serde_json::from_str(value).map_err(syntax)?;
            let mut out = String::from("[");
            for (position, one) in list.into_iter().enumerate() {
                let mut inner = owned(one.get()).map_err(syntax)?;
                instance(&mut inner);
                out.push_str(if position > 0 { "," } else { "" });
                object(&mut out, &inner);
            }
            out.push(']');
            *value = out;
        }
    }
    head(&mut members);
    let mut out = String::with_capacity(row.body.text().len() + 64);
    object(&mut out, &members);
    Body::new(out).map_err(|error| unreadable(Some(error)))
}

fn owned(text: &str) -> Result<Vec<(String, String)>, serde_json::Error> {
    let Members(members) = serde_json::from_str(text)?;
    Ok(members.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect())
}

fn object(out: &mut String, members: &[(String, String)]) {
    out.push('{');
    for (position, (name, value)) in members.iter().enumerate() {
        out.push_str(if position > 0 { "," } else { "" });
        write_string(out, name);
        out.push(':');
        out.push_str(value);
    }
    out.push('}');
}

/// The content of a row as it would be at another address; what cannot be rewritten stays as it is.
#[must_use]
pub fn as_at(row: &Row, to: &Address) -> Body {
    readdressed(row, to, None).unwrap_or_else(|_| row.body.clone())
}

/// The content of a row as it would be if its object were tainted; what cannot be rewritten stays as it is.
#[must_use]
pub fn as_tainted(row: &Row) -> Body {
    let taint = |instance: &mut Vec<(String, String)>| set(instance, "status", Some(quoted("tainted")));
    rewritten(row, |_| (), taint).unwrap_or_else(|_| row.body.clone())
}

#[cfg(test)]
mod tests;
