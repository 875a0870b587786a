//! Comparing the plan that is about to be applied with the one that was reviewed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::fingerprint::{DigestKey, Fingerprint, covered};
use super::footprint::{EntryName, Footprint, footprint};
use super::plan_json::{PlanError, PlanJson};
use super::spec::{OutputEntry, PlanSpec, WriteEntry};
use crate::domain::request::RequestRef;
use crate::domain::run::event::Differs;

/// How a new plan relates to the reviewed one, from harmless to not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The same in every value.
    Identical,
    /// Something that was unknown is known now; all else is equal.
    Refined,
    /// The same changes of the same attributes, with other values.
    ValuesDiffer,
    /// Other changes.
    ShapeDiffers,
}

/// Where two plans differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The address or output.
    pub at: String,
    /// How bad it is.
    pub relation: Relation,
    /// What differs, without values.
    pub what: String,
    /// Names of the attributes in question; empty where the change as a whole is another one.
    pub attributes: Vec<String>,
    /// The request that the difference belongs to, when that is known.
    pub owner: Option<Owner>,
}

/// Another request, whose change stands in a plan that is not its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The request.
    pub request: RequestRef,
    /// Whether it is merged, and not applied yet; else it is still open.
    pub merged: bool,
}

/// The outcome of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The worst of all differences.
    pub relation: Relation,
    /// The differences, by address.
    pub differences: Vec<Difference>,
    /// What the new plan does.
    pub footprint: Footprint,
}

impl Relation {
    /// The stored word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Identical => "identical",
            Self::Refined => "refined",
            Self::ValuesDiffer => "values_differ",
            Self::ShapeDiffers => "shape_differs",
        }
    }
}

impl Difference {
    /// What goes on the timeline for programs.
    #[must_use]
    pub fn marker(&self) -> Differs {
        let relation = self.relation.word().to_owned();
        Differs { address: self.at.clone(), relation, attributes: self.attributes.clone() }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)?;
        match &self.owner {
            Some(Owner { request, merged: true }) => {
                write!(f, " (a change of {request}, which is merged and not applied yet)")
            }
            Some(Owner { request, merged: false }) => write!(f, " ({request}, which is open, plans a change of it)"),
            None => Ok(()),
        }
    }
}

/// Compares a new plan with a spec.
///
/// # Errors
/// When the new plan is no plan that could be applied.
pub fn compare(spec: &PlanSpec, plan: &PlanJson, targeted: bool, key: &DigestKey<'_>) -> Result<Comparison, PlanError> {
    let objects: BTreeMap<_, _> =
        spec.write.iter().map(|entry| ((&entry.address, entry.deposed.as_deref()), entry)).collect();
    let outputs: BTreeMap<_, _> = spec.outputs.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let prints: HashMap<String, &Fingerprint> = spec
        .write
        .iter()
        .map(|entry| (EntryName::Object(&entry.address, entry.deposed.as_deref()).to_string(), &entry.print))
        .chain(spec.outputs.iter().map(|entry| (EntryName::Output(&entry.name).to_string(), &entry.print)))
        .collect();
    let lookup = |name: &EntryName<'_>| prints.get(&name.to_string()).map(|print| print.unknown.as_slice());
    let footprint = footprint(plan, targeted, key, &lookup)?;
    let mut differences = Vec::new();
    compare_objects(&objects, &footprint.write, &mut differences);
    compare_outputs(&outputs, &footprint.outputs, &mut differences);
    let relation = differences.iter().map(|difference| difference.relation).max().unwrap_or(Relation::Identical);
    Ok(Comparison { relation, differences, footprint })
}

type Objects<'a> = BTreeMap<(&'a crate::domain::address::Address, Option<&'a str>), &'a WriteEntry>;

fn compare_objects(reviewed: &Objects<'_>, found: &[WriteEntry], out: &mut Vec<Difference>) {
    let now: Objects<'_> = found.iter().map(|entry| ((&entry.address, entry.deposed.as_deref()), entry)).collect();
    for (name, entry) in reviewed {
        match now.get(name) {
            None => out.push(shape(entry, format!("was to {}, now nothing is planned", meant(entry)))),
            Some(other) => out.extend(compare_entry(entry, other)),
        }
    }
    for (name, entry) in &now {
        if !reviewed.contains_key(name) {
            out.push(shape(entry, format!("not in the reviewed plan: {}", meant(entry))));
        }
    }
    out.sort_by(|a, b| a.at.cmp(&b.at));
}

/// What is to be done with an object, also where nothing but the state is to change.
fn meant(entry: &WriteEntry) -> String {
    match (&entry.moved_from, entry.actions) {
        (Some(from), Action::NoOp) => format!("move from {from}"),
        (None, Action::NoOp) if entry.import_id.is_some() => "import".to_owned(),
        (_, action) => action.to_string(),
    }
}

fn shape(entry: &WriteEntry, what: String) -> Difference {
    let at = entry.address.to_string();
    Difference { at, relation: Relation::ShapeDiffers, what, attributes: Vec::new(), owner: None }
}

fn compare_entry(reviewed: &WriteEntry, now: &WriteEntry) -> Option<Difference> {
    if reviewed.actions != now.actions {
        return Some(shape(reviewed, format!("was to {}, now to {}", reviewed.actions, now.actions)));
    }
    if reviewed.moved_from != now.moved_from {
        return Some(shape(reviewed, "moves from another address than reviewed".into()));
    }
    // An import id that was not known yet may become known.
    let import_fits = match (&reviewed.import_id, &now.import_id) {
        (Some(before), Some(_)) if before.is_empty() => true,
        (before, after) => before == after,
    };
    if !import_fits {
        return Some(shape(reviewed, "imports another object than reviewed".into()));
    }
    if reviewed.replace_paths != now.replace_paths {
        return Some(shape(reviewed, "other attributes force the replacement".into()));
    }
    compare_prints(&reviewed.address.to_string(), &reviewed.print, &now.print)
}

/// `now` must have been taken with `reviewed.unknown` as its mask.
fn compare_prints(at: &str, reviewed: &Fingerprint, now: &Fingerprint) -> Option<Difference> {
    let difference = |relation, what: String, attributes: &[&str]| {
        let attributes = attributes.iter().map(|name| (*name).to_owned()).collect();
        Some(Difference { at: at.to_owned(), relation, what, attributes, owner: None })
    };
    let was_unknown = |name: &String| {
        covered(&format!("/{}", name.replace('~', "~0").replace('/', "~1")), &reviewed.unknown)
            || reviewed.unknown.iter().any(|pointer| pointer.split('/').nth(1) == Some(name))
    };
    let more: Vec<&str> =
        now.changed.iter().filter(|name| !reviewed.changed.contains(name)).map(String::as_str).collect();
    if !more.is_empty() {
        return difference(Relation::ShapeDiffers, format!("also changes {}", more.join(", ")), &more);
    }
    let fewer: Vec<&str> = reviewed
        .changed
        .iter()
        .filter(|name| !now.changed.contains(name) && !was_unknown(name))
        .map(String::as_str)
        .collect();
    if !fewer.is_empty() {
        return difference(Relation::ShapeDiffers, format!("no longer changes {}", fewer.join(", ")), &fewer);
    }
    let forgotten: Vec<&str> =
        now.unknown.iter().filter(|pointer| !covered(pointer, &reviewed.unknown)).map(String::as_str).collect();
    if !forgotten.is_empty() {
        let what = format!("no longer known before the apply: {}", forgotten.join(", "));
        let names: BTreeSet<String> = forgotten.iter().filter_map(|pointer| attribute(pointer)).collect();
        return difference(Relation::ValuesDiffer, what, &names.iter().map(String::as_str).collect::<Vec<_>>());
    }
    if now.values != reviewed.values {
        let names =
            if reviewed.changed.is_empty() { String::new() } else { format!(" of {}", reviewed.changed.join(", ")) };
        let all: Vec<&str> = reviewed.changed.iter().map(String::as_str).collect();
        return difference(Relation::ValuesDiffer, format!("other values{names}"), &all);
    }
    if now.unknown == reviewed.unknown {
        return None;
    }
    let known = reviewed.unknown.iter().filter(|pointer| !now.unknown.contains(pointer));
    let names: BTreeSet<String> = known.filter_map(|pointer| attribute(pointer)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    difference(Relation::Refined, "known now what was not known at the review".into(), &names)
}

/// The attribute that a pointer leads into; none for the whole object.
fn attribute(pointer: &str) -> Option<String> {
    let name = pointer.split('/').nth(1).filter(|name| !name.is_empty())?;
    Some(name.replace("~1", "/").replace("~0", "~"))
}

fn compare_outputs(reviewed: &BTreeMap<&str, &OutputEntry>, found: &[OutputEntry], out: &mut Vec<Difference>) {
    let shape = |name: &str, what: String| Difference {
        at: format!("output.{name}"),
        relation: Relation::ShapeDiffers,
        what,
        attributes: Vec::new(),
        owner: None,
    };
    for (name, entry) in reviewed {
        match found.iter().find(|other| other.name == *name) {
            // An output whose value was unknown may turn out to stay as it is.
            None if !entry.print.unknown.is_empty() => out.push(Difference {
                at: format!("output.{name}"),
                relation: Relation::Refined,
                what: "turns out not to change".into(),
                attributes: Vec::new(),
                owner: None,
            }),
            None => out.push(shape(name, format!("was to {}, now nothing is planned", entry.actions))),
            Some(other) if other.actions != entry.actions => {
                out.push(shape(name, format!("was to {}, now to {}", entry.actions, other.actions)));
            }
            Some(other) => out.extend(compare_prints(&format!("output.{name}"), &entry.print, &other.print)),
        }
    }
    for other in found.iter().filter(|other| !reviewed.contains_key(other.name.as_str())) {
        out.push(shape(&other.name, format!("not in the reviewed plan: {}", other.actions)));
    }
}

#[cfg(test)]
pub(super) mod tests;
