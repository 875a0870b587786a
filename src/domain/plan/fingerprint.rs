//! What a change looks like without its values: names of changed attributes, what is unknown, and a keyed digest.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::Sha256;

use super::plan_json::{Change, PlanError};
use crate::domain::digest::hex;
use crate::domain::json::Json;

/// The key for digests of values: without it nobody can test guesses against a spec.
pub struct DigestKey<'a>(pub &'a [u8]);

/// A change without its values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Fingerprint {
    /// Names of the top-level attributes that change, sorted. Empty for outputs and deletions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// JSON pointers to what is known only after the apply, sorted. Below a sensitive value the names of map keys
    /// are hashed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Keyed digest of the values before and after, without what is unknown.
    pub values: String,
    /// Keyed digest of the values after alone: what an object is to become, wherever it starts from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after: String,
}

/// Takes the fingerprint of a change.
///
/// With `mask`, the values below those pointers are left out of the digest instead of the change's own unknown ones:
/// so a later plan, in which more is known, can be compared with an earlier one.
///
/// # Errors
/// When a value cannot be read.
pub fn fingerprint(
    address: &str,
    change: &Change,
    key: &DigestKey<'_>,
    mask: Option<&[String]>,
) -> Result<Fingerprint, PlanError> {
    let read = |raw: Option<&RawValue>| match raw {
        Some(raw) => Json::from_raw(raw).map_err(|source| PlanError::Value { address: address.to_owned(), source }),
        None => Ok(Json::Null),
    };
    let before = read(change.before.as_deref())?;
    let after = read(change.after.as_deref())?;
    let after_unknown = read(change.after_unknown.as_deref())?;
    let sensitive = [read(change.before_sensitive.as_deref())?, read(change.after_sensitive.as_deref())?];
    let sensitive: Vec<&Json> = sensitive.iter().collect();

    let mut unknown = Vec::new();
    unknown_pointers(&after_unknown, &sensitive, key, &mut String::new(), &mut unknown);
    unknown.sort();

    let masked = without(&after, &sensitive, key, &mut String::new(), mask.unwrap_or(&unknown));
    let (before_text, after_text) = (before.normal(), masked.normal());
    let values = combine([before_text.as_str(), after_text.as_str()].into_iter(), key);
    let after_digest = combine(std::iter::once(after_text.as_str()), key);
    Ok(Fingerprint { changed: changed_names(&before, &after, &after_unknown), unknown, values, after: after_digest })
}

/// Whether a pointer lies at or below one of the others.
#[must_use]
pub fn covered(pointer: &str, others: &[String]) -> bool {
    others
        .iter()
        .any(|other| pointer == other || pointer.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with('/')))
}

/// Combines keyed digests of entries into one for the whole plan.
#[must_use]
pub fn combine<'a>(parts: impl Iterator<Item = &'a str>, key: &DigestKey<'_>) -> String {
    let mut mac = new_mac(key);
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    hex(&mac.finalize().into_bytes())
}

fn new_mac(key: &DigestKey<'_>) -> Hmac<Sha256> {
    // HMAC takes keys of any length; the error type exists for other algorithms.
    Hmac::<Sha256>::new_from_slice(key.0).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"))
}

/// Attributes whose value differs, or will be known only later. Nothing for a deletion: the object ends as a whole.
fn changed_names(before: &Json, after: &Json, unknown: &Json) -> Vec<String> {
    let Json::Object(after_members) = after else {
        return Vec::new();
    };
    let some_unknown = |name: &str| unknown.get(name).is_some_and(any_true);
    let differs = |name: &str, value: &Json| match before.get(name) {
        Some(old) => old.normal() != value.normal(),
        None => *value != Json::Null,
    };
    let mut names: Vec<String> = after_members
        .iter()
        .filter(|(name, value)| differs(name, value) || some_unknown(name))
        .map(|(name, _)| name.clone())
        .collect();
    if let Json::Object(members) = unknown {
        names.extend(members.iter().filter(|(_, mask)| any_true(mask)).map(|(name, _)| name.clone()));
    }
    if let Json::Object(members) = before {
        let gone = |(name, value): &&(String, Json)| *value != Json::Null && after.get(name).is_none();
        names.extend(members.iter().filter(gone).map(|(name, _)| name.clone()));
    }
    names.sort();
    names.dedup();
    names
}

fn any_true(mask: &Json) -> bool {
    match mask {
        Json::Bool(truth) => *truth,
        Json::Array(items) => items.iter().any(any_true),
        Json::Object(members) => members.iter().any(|(_, value)| any_true(value)),
        _ => false,
    }
}

/// The masks one level down, and whether everything there is sensitive.
fn step_into<'a>(sensitive: &[&'a Json], name: &str, position: Option<usize>) -> Vec<&'a Json> {
    sensitive
        .iter()
        .filter_map(|mask| match (mask, position) {
            (Json::Bool(true), _) => Some(*mask),
            (Json::Array(items), Some(position)) => items.get(position),
            (mask, _) => mask.get(name),
        })
        .collect()
}

/// Extends a pointer by one segment; below a sensitive value a map key may itself be the secret, so it is hashed.
fn push_segment(pointer: &mut String, name: &str, sensitive: &[&Json], key: &DigestKey<'_>) {
    pointer.push('/');
    if sensitive.iter().any(|mask| **mask == Json::Bool(true)) {
        let mut mac = new_mac(key);
        mac.update(name.as_bytes());
        pointer.push('#');
        pointer.push_str(&hex(&mac.finalize().into_bytes()[..8]));
    } else {
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    }
}

fn unknown_pointers(mask: &Json, sensitive: &[&Json], key: &DigestKey<'_>, at: &mut String, out: &mut Vec<String>) {
    match mask {
        Json::Bool(true) => out.push(at.clone()),
        Json::Array(items) => {
            for (position, item) in items.iter().enumerate() {
                let length = at.len();
                at.push_str(&format!("/{position}"));
                unknown_pointers(item, &step_into(sensitive, "", Some(position)), key, at, out);
                at.truncate(length);
            }
        }
        Json::Object(members) => {
            for (name, value) in members {
                let length = at.len();
                push_segment(at, name, sensitive, key);
                unknown_pointers(value, &step_into(sensitive, name, None), key, at, out);
                at.truncate(length);
            }
        }
        _ => {}
    }
}

/// The value without what the pointers name: members are dropped, items become null, as Terraform prints unknowns.
fn without(value: &Json, sensitive: &[&Json], key: &DigestKey<'_>, at: &mut String, pointers: &[String]) -> Json {
    if pointers.is_empty() {
        return value.clone();
    }
    if pointers.binary_search_by(|pointer| pointer.as_str().cmp(at)).is_ok() {
        return Json::Null;
    }
    match value {
        Json::Array(items) => Json::Array(
            items
                .iter()
                .enumerate()
                .map(|(position, item)| {
                    let length = at.len();
                    at.push_str(&format!("/{position}"));
                    let kept = without(item, &step_into(sensitive, "", Some(position)), key, at, pointers);
                    at.truncate(length);
                    kept
                })
                .collect(),
        ),
        Json::Object(members) => Json::Object(
            members
                .iter()
                .filter_map(|(name, value)| {
                    let length = at.len();
                    push_segment(at, name, sensitive, key);
                    let dropped = pointers.binary_search_by(|pointer| pointer.as_str().cmp(at)).is_ok();
                    let kept = (!dropped).then(|| without(value, &step_into(sensitive, name, None), key, at, pointers));
                    at.truncate(length);
                    kept.map(|kept| (name.clone(), kept))
                })
                .collect(),
        ),
        other => other.clone(),
    }
}
