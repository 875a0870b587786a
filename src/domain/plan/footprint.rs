//! The write set of a plan: which rows it will change, and what it refuses to call a plan at all.

use std::fmt;

use super::action::Action;
use super::fingerprint::{DigestKey, Fingerprint, fingerprint};
use super::plan_json::{PlanError, PlanJson, ResourceChange};
use super::spec::{OutputEntry, WriteEntry};
use crate::domain::address::{Address, Mode};
use crate::domain::json::Json;

/// What a plan does, in rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Footprint {
    /// Resource instances, by address and deposed key.
    pub write: Vec<WriteEntry>,
    /// Root outputs, by name.
    pub outputs: Vec<OutputEntry>,
    /// Data sources that are read while applying.
    pub deferred_reads: Vec<Address>,
}

/// A mask for the digests of one entry: pointers that were unknown in an earlier plan.
pub type Mask<'a> = &'a dyn Fn(&EntryName<'_>) -> Option<&'a [String]>;

/// What an entry of a plan is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryName<'a> {
    /// A resource instance object.
    Object(&'a Address, Option<&'a str>),
    /// A root output.
    Output(&'a str),
}

impl fmt::Display for EntryName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(address, None) => write!(f, "{address}"),
            Self::Object(address, Some(deposed)) => write!(f, "{address} (deposed {deposed})"),
            Self::Output(name) => write!(f, "output.{name}"),
        }
    }
}

/// Reads the write set out of a plan.
///
/// `targeted` says whether somebody limited the plan: only then may it be incomplete.
///
/// # Errors
/// When the plan is errored, incomplete, has an action that kl does not know, or cannot be read.
pub fn footprint(plan: &PlanJson, targeted: bool, key: &DigestKey<'_>, mask: Mask<'_>) -> Result<Footprint, PlanError> {
    if plan.errored == Some(true) {
        return Err(PlanError::Errored);
    }
    if !plan.deferred_changes.is_empty() || (plan.complete == Some(false) && !targeted) {
        return Err(PlanError::Incomplete(plan.deferred_changes.len()));
    }
    let mut found = Footprint::default();
    for change in &plan.resource_changes {
        let action = change.action()?;
        let address = Address::parse(&change.address)?;
        match action {
            Action::Read => found.deferred_reads.push(address),
            Action::NoOp if change.previous_address.is_none() && change.change.importing.is_none() => {}
            // A data source that goes away is dropped from the state without anything being written.
            _ if address.mode == Mode::Data => found.deferred_reads.push(address),
            _ => found.write.push(write_entry(change, action, address, key, mask)?),
        }
    }
    for (name, change) in &plan.output_changes {
        let action = Action::from_vector(&change.actions)
            .map_err(|source| PlanError::Action { address: format!("output.{name}"), source })?;
        if action != Action::NoOp {
            let label = format!("output.{name}");
            let print = fingerprint(&label, change, key, mask(&EntryName::Output(name)))?;
            // The value of an output is one thing: its parts are no attributes.
            let print = Fingerprint { changed: Vec::new(), ..print };
            found.outputs.push(OutputEntry { name: name.clone(), actions: action, print });
        }
    }
    found.write.sort_by(|a, b| (&a.address, &a.deposed).cmp(&(&b.address, &b.deposed)));
    found.deferred_reads.sort();
    Ok(found)
}

fn write_entry(
    change: &ResourceChange,
    action: Action,
    address: Address,
    key: &DigestKey<'_>,
    mask: Mask<'_>,
) -> Result<WriteEntry, PlanError> {
    let name = EntryName::Object(&address, change.deposed.as_deref());
    let print = fingerprint(&change.address, &change.change, key, mask(&name))?;
    let moved_from = change
        .previous_address
        .as_deref()
        .filter(|previous| *previous != change.address)
        .map(Address::parse)
        .transpose()?;
    let replace_paths = match &change.change.replace_paths {
        Some(raw) => Json::from_raw(raw)
            .map_err(|source| PlanError::Value { address: change.address.clone(), source })
            .map(|paths| (paths != Json::Null && paths != Json::Array(Vec::new())).then(|| paths.canonical()))?,
        None => None,
    };
    Ok(WriteEntry {
        address,
        deposed: change.deposed.clone(),
        actions: action,
        moved_from,
        import_id: change.change.importing.as_ref().map(|importing| importing.id.clone().unwrap_or_default()),
        reason: change.action_reason.clone(),
        replace_paths,
        print,
        place: None,
    })
}
