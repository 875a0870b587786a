//! Two contents of a state side by side: what was created, changed, moved and removed, with the paths of attributes that
//! differ.

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
    /// Its path, as `tags.Name`; `(metadata)` for what is no attribute, as dependencies.
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

/// The attributes in which two contents of one row differ. A difference outside of them is `(metadata)`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::state::document;

    fn rows(resources: &str) -> Vec<Row> {
        let text = format!(
            r#"{{"version":4,"serial":1,"lineage":"l","outputs":{{"o":{{"value":{{"a":1}},"type":"x"}}}},"resources":[{resources}]}}"#
        );
        document::read(&text).unwrap().rows
    }

    fn block(name: &str, attributes: &str) -> String {
        format!(
            r#"{{"mode":"managed","type":"t","name":"{name}","provider":"p","instances":[{{"attributes":{attributes}}}]}}"#
        )
    }

    fn told(before: &[Row], after: &[Row], moves: &[(&str, &str)]) -> Vec<String> {
        let moves =
            moves.iter().map(|(from, to)| (Address::parse(from).unwrap(), Address::parse(to).unwrap())).collect();
        let one = |difference: &Difference| {
            let from = difference.moved_from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
            let paths: Vec<&str> = difference.attributes.iter().map(|one| one.path.as_str()).collect();
            format!("{} {}{from} {}", difference.touched.sign(), difference.key, paths.join(",")).trim_end().to_owned()
        };
        compare(before, after, &moves).iter().map(one).collect()
    }

    #[test]
    fn created_changed_and_removed() {
        let before = rows(&[block("a", r#"{"x":1,"t":{"n":1,"m":2}}"#), block("b", "{}")].join(","));
        let after = rows(&[block("a", r#"{"x":1,"t":{"n":3,"m":2},"l":[1]}"#), block("c", "{}")].join(","));
        assert_eq!(told(&before, &after, &[]), ["~ t.a l,t.n", "- t.b", "+ t.c"]);
        assert_eq!(told(&before, &before, &[]), [] as [&str; 0]);
    }

    #[test]
    fn a_move_on_record_is_no_end_and_no_beginning() {
        let before = rows(&block("a", r#"{"x":1}"#));
        let after = rows(&[block("a", r#"{"x":5}"#), block("b", r#"{"x":2}"#)].join(","));
        assert_eq!(told(&before, &after, &[("t.a", "t.b")]), ["+ t.a", "~ t.b from t.a x"]);
    }

    #[test]
    fn an_object_is_recognised_at_another_address_when_there_is_no_other_like_it() {
        let before = rows(&block("a", r#"{"id":"i","x":1}"#));
        assert_eq!(told(&before, &rows(&block("b", r#"{"x":1,"id":"i"}"#)), &[]), ["~ t.b from t.a"]);
        let twins = [block("b", r#"{"id":"i","x":1}"#), block("c", r#"{"id":"i","x":1}"#)].join(",");
        assert_eq!(told(&before, &rows(&twins), &[]), ["- t.a", "+ t.b", "+ t.c"]);
        // Without an identity nothing is recognised.
        assert_eq!(told(&rows(&block("a", "{}")), &rows(&block("b", "{}")), &[]), ["- t.a", "+ t.b"]);
    }

    #[test]
    fn an_object_that_moved_and_changed_is_recognised_by_its_id() {
        let before = rows(&[block("a", r#"{"id":"i","x":1}"#), block("b", r#"{"id":"j","x":1}"#)].join(","));
        let after = rows(&[block("c", r#"{"id":"j","x":2}"#), block("d", r#"{"id":"i","x":1}"#)].join(","));
        assert_eq!(told(&before, &after, &[]), ["~ t.c from t.b x", "~ t.d from t.a"]);
        let before = rows(&block("a", r#"{"id":"i","x":1}"#));
        // What is the same in everything comes first, and of two like it nobody knows which it was.
        let rivals = [block("c", r#"{"id":"i","x":2}"#), block("d", r#"{"id":"i","x":1}"#)].join(",");
        assert_eq!(told(&before, &rows(&rivals), &[]), ["+ t.c", "~ t.d from t.a"]);
        let rivals = rivals.replace("\"x\":1", "\"x\":3");
        assert_eq!(told(&before, &rows(&rivals), &[]), ["- t.a", "+ t.c", "+ t.d"]);
        // Not by an id that is none, nor across types or providers.
        for other in [
            block("c", r#"{"id":"","x":2}"#),
            block("c", r#"{"id":"i","x":2}"#).replace(r#""type":"t""#, r#""type":"u""#),
            block("c", r#"{"id":"i","x":2}"#).replace(r#""provider":"p""#, r#""provider":"p.west""#),
        ] {
            let told = told(&before, &rows(&other), &[]);
            assert_eq!(told.len(), 2, "{other}: {told:?}");
        }
    }

    #[test]
    fn a_version_has_moved_what_is_gone_here_and_new_there() {
        let removed = rows(&[block("a", r#"{"id":"i","x":1}"#), block("b", r#"{"id":"j","x":1}"#)].join(","));
        let created = rows(&[block("c", r#"{"id":"j","x":1}"#), block("d", r#"{"id":"k","x":1}"#)].join(","));
        let found: Vec<String> = moved(&removed, &created).iter().map(|(from, to)| format!("{from}>{to}")).collect();
        assert_eq!(found, ["t.b>t.c"]);
    }

    #[test]
    fn values_are_masked_when_either_side_is_sensitive() {
        let body = |attributes: &str, sensitive: &str| {
            Body::new(format!(
                r#"{{"instances":[{{"attributes":{attributes},"sensitive_attributes":[{sensitive}]}}]}}"#
            ))
            .unwrap()
        };
        let path = r#"[{"type":"get_attr","value":"a"}]"#;
        let plain = body(r#"{"a":"first secret","b":{"value":1,"type":"number"}}"#, "");
        let secret = body(r#"{"a":"other secret","b":{"value":"first","type":"string"},"c":"other secret"}"#, path);
        for (before, after) in [(&plain, &secret), (&secret, &plain)] {
            let found = differing(before, after);
            let shown = format!("{found:?}");
            assert!(!shown.contains("first secret") && !shown.contains("other secret"), "{shown}");
            let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
            assert_eq!(paths, ["a", "b", "c"]);
            assert_eq!(found[0].before, Some(format!("\"{MASK}\"")));
        }
        let number = &differing(&plain, &secret)[1];
        assert_eq!((number.before.as_deref(), number.after.as_deref()), (Some("1"), Some("\"first\"")));
    }

    #[test]
    fn what_is_no_attribute_is_metadata() {
        let body = |more: &str| Body::new(format!(r#"{{"instances":[{{"attributes":{{"x":1}}{more}}}]}}"#)).unwrap();
        assert_eq!(differing(&body(""), &body(r#","dependencies":["t.a"]"#))[0].path, "(metadata)");
    }
}
