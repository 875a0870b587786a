//! Two contents of a state side by side: what was created, changed, moved and removed, with the paths of attributes that
//! differ.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::moving::as_at;
use super::row::{Body, Row, RowKey, Touched};
use crate::domain::address::{Address, Mode};
use crate::domain::json::Json;
use crate::domain::redact::{MASK, masked_sides};

/// A row that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which row; for one that is gone, where it was.
    pub key: RowKey,
    /// Whether it is new, gone, or another.
    pub touched: Touched,
    /// Where it stood before, when it moved.
    pub moved_from: Option<RowKey>,
    /// What differs about its content.
    pub attributes: Vec<AttributeDifference>,
}

/// An attribute that differs. Values are JSON text, masked where either side is sensitive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttributeDifference {
    /// Its path, as `tags.Name`; in parentheses for what is no attribute, as `(dependencies)`.
    pub path: String,
    /// Before; none where there was none.
    pub before: Option<String>,
    /// After; none where there is none.
    pub after: Option<String>,
}

/// Compares two contents of a state. `moves` leads from former addresses to those of now; beside these, a managed object
/// that is gone at one address and stands at another has moved, too: one with the same attributes, else one of the same type
/// and provider with the same `id`, whose other attributes have changed meanwhile.
#[must_use]
pub fn compare(before: &[Row], after: &[Row], moves: &BTreeMap<Address, Address>) -> Vec<Difference> {
    let old: BTreeMap<&RowKey, &Row> = before.iter().map(|row| (&row.key, row)).collect();
    let new: BTreeMap<&RowKey, &Row> = after.iter().map(|row| (&row.key, row)).collect();
    let origins = origins(&old, &new, recorded(&old, &new, moves));
    let left: BTreeSet<RowKey> = origins.values().cloned().collect();
    let mut found = Vec::new();
    for (key, row) in &new {
        let from = origins.get(*key);
        let stood = match from {
            Some(from) => old.get(from),
            None => old.get(key).filter(|_| !left.contains(*key)),
        };
        let Some(stood) = stood else {
            found.push(Difference {
                key: (*key).clone(),
                touched: Touched::Created,
                moved_from: None,
                attributes: vec![],
            });
            continue;
        };
        let was = match (from, key.address()) {
            (Some(_), Some(address)) => as_at(stood, address),
            _ => stood.body.clone(),
        };
        let attributes = differing(&was, &row.body);
        if from.is_some() || was.hash() != row.body.hash() {
            let moved_from = from.cloned();
            found.push(Difference { key: (*key).clone(), touched: Touched::Changed, moved_from, attributes });
        }
    }
    let gone = old.keys().filter(|key| !new.contains_key(**key) && !left.contains(**key));
    found.extend(gone.map(|key| Difference {
        key: (*key).clone(),
        touched: Touched::Removed,
        moved_from: None,
        attributes: Vec::new(),
    }));
    found.sort_by(|a, b| a.key.cmp(&b.key));
    found
}

/// The managed objects that one version moved, from where and to where: told by the rows that it removed and those that it
/// created, each as it was or is there, by the rule of [`compare`] for what is on no record.
#[must_use]
pub fn moved(removed: &[Row], created: &[Row]) -> Vec<(Address, Address)> {
    let old: BTreeMap<&RowKey, &Row> = removed.iter().map(|row| (&row.key, row)).collect();
    let new: BTreeMap<&RowKey, &Row> = created.iter().map(|row| (&row.key, row)).collect();
    let pairs = origins(&old, &new, BTreeMap::new());
    pairs.iter().filter_map(|(to, from)| Some((from.address()?.clone(), to.address()?.clone()))).collect()
}

/// Where rows came from, by what is known, and beside that by what they are.
fn origins(
    old: &BTreeMap<&RowKey, &Row>,
    new: &BTreeMap<&RowKey, &Row>,
    mut known: BTreeMap<RowKey, RowKey>,
) -> BTreeMap<RowKey, RowKey> {
    for recognise in [same_attributes, same_id] {
        let found = recognised(old, new, &known, recognise);
        known.extend(found);
    }
    known
}

/// Where rows came from, by moves that are on record.
fn recorded(
    old: &BTreeMap<&RowKey, &Row>,
    new: &BTreeMap<&RowKey, &Row>,
    moves: &BTreeMap<Address, Address>,
) -> BTreeMap<RowKey, RowKey> {
    let mut origins = BTreeMap::new();
    for key in old.keys() {
        let RowKey::Object { address, deposed } = key else { continue };
        let Some(to) = moves.get(address).filter(|to| *to != address) else { continue };
        let to = RowKey::Object { address: to.clone(), deposed: deposed.clone() };
        if new.contains_key(&to) {
            origins.insert(to, (*key).clone());
        }
    }
    origins
}

/// What tells a managed object from others: its type, and something about its body.
type Trait = fn(&Json) -> Option<String>;

/// Where rows came from, by what they are: the same object, and no other like it.
fn recognised(
    old: &BTreeMap<&RowKey, &Row>,
    new: &BTreeMap<&RowKey, &Row>,
    known: &BTreeMap<RowKey, RowKey>,
    recognise: Trait,
) -> BTreeMap<RowKey, RowKey> {
    let explained: BTreeSet<&RowKey> = known.values().collect();
    let gone = old.iter().filter(|(key, _)| !new.contains_key(**key) && !explained.contains(**key));
    let came = new.iter().filter(|(key, _)| !old.contains_key(**key) && !known.contains_key(**key));
    let (gone, came) = (by_object(gone, recognise), by_object(came, recognise));
    let pair = |(object, from): (&(String, String), &Vec<RowKey>)| match (from.as_slice(), came.get(object)?.as_slice())
    {
        ([from], [to]) => Some((to.clone(), from.clone())),
        _ => None,
    };
    gone.iter().filter_map(pair).collect()
}

/// Rows by the managed object that they are.
fn by_object<'a>(
    rows: impl Iterator<Item = (&'a &'a RowKey, &'a &'a Row)>,
    recognise: Trait,
) -> HashMap<(String, String), Vec<RowKey>> {
    let mut found: HashMap<(String, String), Vec<RowKey>> = HashMap::new();
    for (key, row) in rows {
        let RowKey::Object { address, deposed: None } = key else { continue };
        if address.mode != Mode::Managed {
            continue;
        }
        let Ok(body) = Json::parse(row.body.text()) else { continue };
        if let Some(object) = recognise(&body) {
            found.entry((address.type_name.clone(), object)).or_default().push((*key).clone());
        }
    }
    found
}

/// The object by all that is known of it. Only what has an identity can be told from its like.
fn same_attributes(body: &Json) -> Option<String> {
    id(body)?;
    Some(attributes(body)?.canonical())
}

/// The object by the name that its provider has given it. Two providers may give the same one.
fn same_id(body: &Json) -> Option<String> {
    let provider = body.get("provider").map(Json::canonical).unwrap_or_default();
    Some(format!("{provider} {}", id(body)?))
}

fn id(body: &Json) -> Option<&str> {
    match attributes(body)?.get("id")? {
        Json::String(id) if !id.is_empty() => Some(id),
        _ => None,
    }
}

/// The attributes of the one instance in an object's body.
fn attributes(body: &Json) -> Option<&Json> {
    let Json::Array(instances) = body.get("instances")? else { return None };
    instances.first()?.get("attributes")
}

/// What stands beside the attributes of an instance, and is told also where attributes differ. Other members are told where
/// nothing else differs: they follow the attributes, as `sensitive_attributes` does.
const BESIDE: [(&str, &str); 4] = [
    ("provider", "(provider)"),
    ("dependencies", "(dependencies)"),
    ("schema_version", "(metadata)"),
    ("private", "(metadata)"),
];

/// How an object differs in what is none of its attributes.
fn beside(old: &Json, new: &Json) -> Vec<&'static str> {
    fn instance(body: &Json) -> Option<&Json> {
        let Json::Array(instances) = body.get("instances")? else { return None };
        instances.first()
    }
    let (Some(old_one), Some(new_one)) = (instance(old), instance(new)) else { return Vec::new() };
    let mut found = Vec::new();
    let tainted = |one: &Json| one.get("status").and_then(Json::as_str) == Some("tainted");
    match (tainted(old_one), tainted(new_one)) {
        (false, true) => found.push("(tainted)"),
        (true, false) => found.push("(no longer tainted)"),
        _ => {}
    }
    for (name, told) in BESIDE {
        // The provider is the resource's; OpenTofu has it at the instance where they differ.
        let of = |block: &Json, one: &Json| {
            let own = one.get(name).or_else(|| block.get(name));
            // Null is as good as nothing.
            own.filter(|value| **value != Json::Null).map(Json::canonical)
        };
        if of(old, old_one) != of(new, new_one) && !found.contains(&told) {
            found.push(told);
        }
    }
    found
}

/// The attributes in which two contents of one row differ. Differences outside of them are called `(tainted)`,
/// `(no longer tainted)`, `(provider)`, `(dependencies)`, and all others `(metadata)`.
#[must_use]
pub fn differing(before: &Body, after: &Body) -> Vec<AttributeDifference> {
    if before.hash() == after.hash() {
        return Vec::new();
    }
    let note = |path: &str| AttributeDifference { path: path.to_owned(), before: None, after: None };
    let (Ok(old), Ok(new)) = (Json::parse(before.text()), Json::parse(after.text())) else {
        return vec![note("(unreadable)")];
    };
    let [old_shown, new_shown] = masked_sides(before, after);
    let sides = match (attributes(&old), attributes(&new)) {
        (Some(old), Some(new)) => [
            Side { value: Some(old), shown: attributes(&old_shown) },
            Side { value: Some(new), shown: attributes(&new_shown) },
        ],
        // An output or a check: its own members are what there is.
        _ => [Side { value: Some(&old), shown: Some(&old_shown) }, Side { value: Some(&new), shown: Some(&new_shown) }],
    };
    let mut found = Vec::new();
    walk(String::new(), sides[0], sides[1], &mut found);
    if attributes(&old).is_some() && attributes(&new).is_some() {
        found.extend(beside(&old, &new).into_iter().map(note));
    }
    if found.is_empty() {
        found.push(note("(metadata)"));
    }
    found
}

/// A value, and what of it may be seen.
#[derive(Clone, Copy)]
struct Side<'a> {
    value: Option<&'a Json>,
    shown: Option<&'a Json>,
}

impl<'a> Side<'a> {
    fn member(self, name: &str) -> Self {
        Self {
            value: self.value.and_then(|value| value.get(name)),
            shown: self.shown.and_then(|shown| if hidden(shown) { Some(shown) } else { shown.get(name) }),
        }
    }

    fn hidden(self) -> bool {
        self.shown.is_some_and(hidden)
    }

    fn members(self) -> Option<&'a [(String, Json)]> {
        match self.value {
            Some(Json::Object(members)) => Some(members),
            _ => None,
        }
    }

    /// Whether it is an attribute of any type, which has its value beside its type.
    fn wrapped(self) -> bool {
        self.members().is_some_and(|members| {
            members.len() == 2 && ["value", "type"].iter().all(|own| members.iter().any(|(name, _)| name == own))
        })
    }
}

fn hidden(shown: &Json) -> bool {
    *shown == Json::String(MASK.to_owned())
}

fn walk(path: String, before: Side<'_>, after: Side<'_>, found: &mut Vec<AttributeDifference>) {
    let same = match (before.value, after.value) {
        (Some(before), Some(after)) => before.canonical() == after.canonical(),
        (None, None) => true,
        _ => false,
    };
    if same {
        return;
    }
    let secret = before.hidden() || after.hidden();
    if !secret && !path.is_empty() && before.wrapped() && after.wrapped() {
        let many = found.len();
        walk(path.clone(), before.member("value"), after.member("value"), found);
        if found.len() == many {
            found.push(AttributeDifference { path, before: text(before, false), after: text(after, false) });
        }
        return;
    }
    // Objects are told by their members, lists as a whole: positions mean little to a reader.
    if let (false, Some(old), Some(new)) = (secret, before.members(), after.members()) {
        let names: BTreeSet<&str> = old.iter().chain(new).map(|(name, _)| name.as_str()).collect();
        for name in names {
            let below = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            walk(below, before.member(name), after.member(name), found);
        }
        return;
    }
    let path = if path.is_empty() { "(content)".to_owned() } else { path };
    found.push(AttributeDifference { path, before: text(before, secret), after: text(after, secret) });
}

fn text(side: Side<'_>, secret: bool) -> Option<String> {
    side.value?;
    let mask = Json::String(MASK.to_owned());
    Some(if secret { &mask } else { side.shown.unwrap_or(&mask) }.to_string())
}
