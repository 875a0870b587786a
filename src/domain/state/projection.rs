//! Rows to a state document: the inverse of [`super::document`].
//!
//! The text is laid out as Terraform lays it out, and what a row holds is copied token by token, so a document that
//! Terraform wrote comes back byte for byte (but for the order of check results and of their objects, which Terraform
//! leaves to chance).

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::document::StateDocument;
use super::layout::indented;
use super::row::{DeposedKey, Row, RowKey};
use crate::domain::address::{Address, Key, Mode};
use crate::domain::id::Lineage;
use crate::domain::json::{Json, Members, write_string};

/// Writes the document as Terraform would.
#[must_use]
pub fn write(document: &StateDocument) -> String {
    let mut out = String::from("{\"version\":4");
    if !document.head.terraform_version.is_empty() {
        member(&mut out, "terraform_version");
        write_string(&mut out, &document.head.terraform_version);
    }
    member(&mut out, "serial");
    out.push_str(&document.serial.to_string());
    member(&mut out, "lineage");
    write_string(&mut out, document.lineage.as_ref().map_or("", |Lineage(lineage)| lineage));

    let outputs = document.rows.iter().filter_map(|row| match &row.key {
        RowKey::Output(name) => Some((name, row.body.text())),
        _ => None,
    });
    member(&mut out, "outputs");
    out.push('{');
    for (position, (name, body)) in outputs.enumerate() {
        if position > 0 {
            out.push(',');
        }
        write_string(&mut out, name);
        out.push(':');
        out.push_str(body);
    }
    out.push('}');

    member(&mut out, "resources");
    let resources = resources(&document.rows);
    array(&mut out, resources.values().flat_map(Resource::blocks));

    let checks: Vec<_> = document.rows.iter().filter(|row| matches!(row.key, RowKey::Check { .. })).collect();
    if !checks.is_empty() {
        member(&mut out, "check_results");
        array(&mut out, checks.iter().map(|row| row.body.text().to_owned()));
    }
    for (name, value) in &document.head.extra {
        // A remembered absence of checks gives way to checks.
        if checks.is_empty() || name != "check_results" {
            member(&mut out, name);
            out.push_str(value);
        }
    }
    out.push('}');
    indented(&out)
}

/// Appends the name of a further member.
fn member(out: &mut String, name: &str) {
    out.push(',');
    write_string(out, name);
    out.push(':');
}

fn array(out: &mut String, elements: impl Iterator<Item = String>) {
    out.push('[');
    for (position, element) in elements.enumerate() {
        if position > 0 {
            out.push(',');
        }
        out.push_str(&element);
    }
    out.push(']');
}

/// What Terraform sorts resource blocks by, as text: module, mode, type, name.
type BlockKey<'a> = (String, &'static str, &'a str, &'a str);

/// The rows of one resource.
#[derive(Default)]
struct Resource<'a> {
    /// Blocks that go out as they are: without instances, or of a form that only a foreign writer could give them.
    whole: Vec<&'a str>,
    objects: Vec<Object<'a>>,
}

/// One object of a resource, taken out of its row's body.
struct Object<'a> {
    key: Option<&'a Key>,
    deposed: Option<&'a DeposedKey>,
    head: Vec<(String, &'a RawValue)>,
    instance: &'a RawValue,
}

fn resources(rows: &[Row]) -> BTreeMap<BlockKey<'_>, Resource<'_>> {
    let mut resources: BTreeMap<BlockKey<'_>, Resource<'_>> = BTreeMap::new();
    for row in rows {
        match &row.key {
            RowKey::Husk(address) => resources.entry(block_key(address)).or_default().whole.push(row.body.text()),
            RowKey::Object { address, deposed } => {
                let resource = resources.entry(block_key(address)).or_default();
                match take_apart(row.body.text()) {
                    Some((head, instance)) => {
                        let (key, deposed) = (address.key.as_ref(), deposed.as_ref());
                        resource.objects.push(Object { key, deposed, head, instance });
                    }
                    None => resource.whole.push(row.body.text()),
                }
            }
            RowKey::Output(_) | RowKey::Check { .. } => {}
        }
    }
    for resource in resources.values_mut() {
        // Terraform's own order: no key, then indexes by number, then strings by bytes; of one key the current first.
        resource.objects.sort_by_key(|object| (object.key, object.deposed));
    }
    resources
}

fn block_key(address: &Address) -> BlockKey<'_> {
    let mode = match address.mode {
        Mode::Managed => "managed",
        Mode::Data => "data",
        Mode::Ephemeral => "ephemeral",
    };
    (address.module.to_string(), mode, &address.type_name, &address.name)
}

/// The resource block of a body, with all its members, and the one instance in it.
fn take_apart(body: &str) -> Option<(Vec<(String, &RawValue)>, &RawValue)> {
    let Members(members) = serde_json::from_str(body).ok()?;
    let (_, list) = members.iter().find(|(name, _)| name == "instances")?;
    let list: Vec<&RawValue> = serde_json::from_str(list.get()).ok()?;
    match list.as_slice() {
        [instance] => Some((members, instance)),
        _ => None,
    }
}

impl Resource<'_> {
    /// The blocks of the resource: one, unless its rows disagree about what stands at the resource's level.
    ///
    /// Terraform keeps those members (the provider above all) once for a resource, but rows are committed one by one,
    /// so after a change of provider some may still name the old one. Each such group gets a block of its own:
    /// nothing is lost, and Terraform, which reads several blocks of a resource as one and lets the last one's
    /// provider win, takes that of the last instance.
    fn blocks(&self) -> Vec<String> {
        let mut blocks: Vec<String> = self.whole.iter().map(|&block| block.to_owned()).collect();
        // Each head with the position of its last instance, and its instances.
        let mut groups: Vec<(&Object<'_>, usize, Vec<&RawValue>)> = Vec::new();
        for (position, object) in self.objects.iter().enumerate() {
            match groups.iter_mut().rev().find(|(first, ..)| same_head(&first.head, &object.head)) {
                Some((_, last, instances)) => {
                    *last = position;
                    instances.push(object.instance);
                }
                None => groups.push((object, position, vec![object.instance])),
            }
        }
        groups.sort_by_key(|(_, last, _)| *last);
        blocks.extend(groups.into_iter().map(|(first, _, instances)| block(&first.head, &instances)));
        blocks
    }
}

/// Whether two blocks say the same at the resource's level; the order of members says nothing.
fn same_head(ours: &[(String, &RawValue)], theirs: &[(String, &RawValue)]) -> bool {
    let same = |(name, a): &(String, &RawValue), (other, b): &(String, &RawValue)| {
        name == other && (name == "instances" || a.get() == b.get() || canonical(a) == canonical(b))
    };
    ours.len() == theirs.len()
        && (ours.iter().zip(theirs).all(|(a, b)| same(a, b)) || ours.iter().all(|a| theirs.iter().any(|b| same(a, b))))
}

fn canonical(value: &RawValue) -> Option<String> {
    Json::from_raw(value).ok().map(|value| value.canonical())
}

fn block(head: &[(String, &RawValue)], instances: &[&RawValue]) -> String {
    let mut out = String::from("{");
    for (position, (name, value)) in head.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        write_string(&mut out, name);
        out.push(':');
        if name == "instances" {
            array(&mut out, instances.iter().map(|instance| instance.get().to_owned()));
        } else {
            out.push_str(value.get());
        }
    }
    out.push('}');
    out
}
