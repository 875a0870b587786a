//! What changed between the slice before and after an apply, and which of it the run may commit.

use std::collections::{BTreeMap, BTreeSet};

use super::{Body, Row, RowKey};
use crate::domain::address::{Mode, Pattern};
use crate::domain::json::{Json, JsonError};

/// Members of an instance that Terraform may change although the plan says no-op (long facts 4.2).
const SOFT_MEMBERS: [&str; 5] = ["dependencies", "create_before_destroy", "private", "schema_version", "identity"];

/// How far two bodies are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// The same content, perhaps written differently.
    Same,
    /// Only metadata that follows the configuration or the provider's version.
    Soft,
    /// The object itself.
    Hard,
}

/// A changed row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which row.
    pub key: RowKey,
    /// What the slice had.
    pub before: Option<Body>,
    /// What there is now.
    pub after: Option<Body>,
}

/// The changes of an apply, sorted by what may be done with them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Delta {
    /// Rows of the write set: committed.
    pub writes: Vec<Change>,
    /// Metadata, data rows and check results: taken over where the trunk still has what the slice had.
    pub soft: Vec<Change>,
    /// Rows that differ in reality without being in the write set: recorded, not committed.
    pub drift: Vec<Change>,
    /// Anything else: a bug, or a provider that does what it did not plan. Nothing is committed.
    pub violations: Vec<Change>,
}

/// Compares two bodies of one row.
///
/// # Errors
/// When a body is not JSON.
pub fn distance(before: &Body, after: &Body) -> Result<Distance, JsonError> {
    if before.hash() == after.hash() {
        return Ok(Distance::Same);
    }
    let (before, after) = (comparable(before)?, comparable(after)?);
    if before.normal() == after.normal() {
        return Ok(Distance::Same);
    }
    let soft = without_soft(&before).normal() == without_soft(&after).normal();
    Ok(if soft { Distance::Soft } else { Distance::Hard })
}

/// Whether two bodies of one row are the same, however they are written. What is no JSON is the same only as itself.
#[must_use]
pub fn same(one: &Body, other: &Body) -> bool {
    distance(one, other).is_ok_and(|apart| apart == Distance::Same)
}

/// Whether a body holds anything that Terraform may write in another order the next time.
#[must_use]
pub fn has_free_order(body: &Body) -> bool {
    let Ok(mut value) = Json::parse(body.text()) else { return false };
    let mut free = false;
    each_unordered(&mut value, &mut |items| free |= items.len() > 1);
    free
}

/// Whether two contents of a state, both ordered by key, are the same, however they are written.
pub fn same_rows<'a>(ours: impl IntoIterator<Item = &'a Row>, theirs: impl IntoIterator<Item = &'a Row>) -> bool {
    let (mut ours, mut theirs) = (ours.into_iter(), theirs.into_iter());
    loop {
        match (ours.next(), theirs.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a.key == b.key && same(&a.body, &b.body) => {}
            _ => return false,
        }
    }
}

/// A body in a form in which order that Terraform does not keep makes no difference.
fn comparable(body: &Body) -> Result<Json, JsonError> {
    let mut value = Json::parse(body.text())?;
    each_unordered(&mut value, &mut |items| items.sort_by_key(Json::normal));
    Ok(value)
}

/// The lists whose order Terraform does not keep.
fn each_unordered(value: &mut Json, change: &mut dyn FnMut(&mut Vec<Json>)) {
    for_instances(value, &mut |instance| {
        for (name, member) in instance {
            if let ("sensitive_attributes" | "dependencies", Json::Array(items)) = (name.as_str(), member) {
                change(items);
            }
        }
    });
    // Checks list their objects in no stable order.
    if let Json::Object(members) = value {
        for (name, member) in members {
            if let ("objects", Json::Array(items)) = (name.as_str(), member) {
                change(items);
            }
        }
    }
}

/// The content without soft members: an instance's metadata, and the provider's address in the block's head.
fn without_soft(value: &Json) -> Json {
    let mut value = value.clone();
    if let Json::Object(members) = &mut value {
        members.retain(|(name, _)| name != "provider");
    }
    for_instances(&mut value, &mut |instance| {
        instance.retain(|(name, member)| {
            let empty_sensitive = name == "sensitive_attributes" && *member == Json::Array(Vec::new());
            !SOFT_MEMBERS.contains(&name.as_str()) && !empty_sensitive
        });
    });
    value
}

type Members = Vec<(String, Json)>;

fn for_instances(value: &mut Json, change: &mut dyn FnMut(&mut Members)) {
    let Json::Object(members) = value else {
        return;
    };
    for (name, member) in members {
        if let ("instances", Json::Array(instances)) = (name.as_str(), member) {
            for instance in instances {
                if let Json::Object(members) = instance {
                    change(members);
                }
            }
        }
    }
}

/// Compares the slice with what Terraform made of it.
///
/// `drifted` are the instances that the plan found different in reality.
///
/// # Errors
/// When a body is not JSON.
pub fn delta(
    before: &[Row],
    after: &[Row],
    write_set: &[Pattern],
    drifted: &BTreeSet<String>,
) -> Result<Delta, JsonError> {
    let old: BTreeMap<&RowKey, &Body> = before.iter().map(|row| (&row.key, &row.body)).collect();
    let new: BTreeMap<&RowKey, &Body> = after.iter().map(|row| (&row.key, &row.body)).collect();
    let exact: BTreeSet<&Pattern> = write_set.iter().collect();
    let mut delta = Delta::default();
    for key in old.keys().chain(new.keys()).copied().collect::<BTreeSet<_>>() {
        let (before, after) = (old.get(key).copied(), new.get(key).copied());
        let apart = match (before, after) {
            (Some(before), Some(after)) => distance(before, after)?,
            _ => Distance::Hard,
        };
        let change = Change { key: key.clone(), before: before.cloned(), after: after.cloned() };
        let written = key.pattern().is_some_and(|pattern| exact.contains(&pattern));
        let data = key.address().is_some_and(|address| address.mode == Mode::Data);
        let check = matches!(key, RowKey::Check { .. } | RowKey::Husk(_));
        match apart {
            Distance::Same => {}
            _ if written => delta.writes.push(change),
            // A husk that the slice did not show is not gone.
            _ if matches!(key, RowKey::Husk(_)) && after.is_none() => {}
            // A check that Terraform could not evaluate says nothing new. One that is gone is no longer declared:
            // targets never hide a check, they make it unknown.
            _ if check => {
                if after.is_none_or(|body| !is_unknown_check(body)) {
                    delta.soft.push(change);
                }
            }
            _ if data => delta.soft.push(change),
            Distance::Soft => delta.soft.push(change),
            Distance::Hard if drifted.contains(&key.address_text()) => delta.drift.push(change),
            Distance::Hard => delta.violations.push(change),
        }
    }
    Ok(delta)
}

fn is_unknown_check(body: &Body) -> bool {
    Json::parse(body.text()).is_ok_and(|check| check.get("status").and_then(Json::as_str) == Some("unknown"))
}

#[cfg(test)]
mod tests;
