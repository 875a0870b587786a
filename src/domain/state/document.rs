//! The state document of Terraform (version 4): text to rows.
//!
//! What kl does not need to understand is sliced out of the text and kept token by token: numbers of any length,
//! escapes, unknown members and their order. Only the space between tokens goes.

mod error;
mod soundness;
#[cfg(test)]
mod tests;

use std::fmt::Display;

use serde_json::value::RawValue;

use super::layout::compact;
use super::row::{Body, DeposedKey, Row, RowKey};
use crate::domain::address::{Address, Key, Mode, ModulePath, Pattern};
use crate::domain::id::{Lineage, Serial};
use crate::domain::json::{Json, JsonError, Members, write_string};

pub use error::DocumentError;
pub use soundness::read_sound;

/// The members of a state document that belong to no row, kept with each version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DocumentHead {
    /// The `terraform_version` that wrote it; empty when the document does not say.
    pub terraform_version: String,
    /// Top-level members that kl does not know, as exact JSON text in their order; before them a `check_results` that
    /// is null or empty, so that its presence survives.
    pub extra: Vec<(String, String)>,
}

/// A whole state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateDocument {
    /// Members that belong to no row.
    pub head: DocumentHead,
    /// The lineage; none in a document that never had one.
    pub lineage: Option<Lineage>,
    /// The serial.
    pub serial: Serial,
    /// The rows, ordered by their key, no key twice.
    pub rows: Vec<Row>,
}

/// Reads a state document. Nothing at all, or only space, is an empty state (facts B7).
///
/// # Errors
/// When the text is not a state document of version 4, or not one that can be told apart into rows.
pub fn read(text: &str) -> Result<StateDocument, DocumentError> {
    if text.trim().is_empty() {
        return Ok(StateDocument::default());
    }
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| syntax(&error))?;
    if !raw.get().starts_with('{') {
        return Err(DocumentError::NotAnObject);
    }
    let members = members(raw, "the top level")?;
    check_version(&members)?;

    let mut document = StateDocument::default();
    for (name, value) in members {
        match name.as_str() {
            "version" => {}
            "terraform_version" => {
                let version = optional_string(value, "\"terraform_version\"")?.unwrap_or_default();
                document.head.terraform_version = printable(version, "\"terraform_version\"")?;
            }
            "serial" => document.serial = serial(value)?,
            "lineage" => {
                let lineage = optional_string(value, "\"lineage\"")?.filter(|lineage| !lineage.is_empty());
                document.lineage = lineage.map(|text| printable(text, "\"lineage\"").map(Lineage)).transpose()?;
            }
            "outputs" => read_outputs(value, &mut document.rows)?,
            "resources" => {
                for (position, block) in elements(value, "\"resources\"")?.into_iter().enumerate() {
                    read_resource(position, block, &mut document.rows)?;
                }
            }
            "check_results" => {
                let checks = elements(value, "\"check_results\"")?;
                if checks.is_empty() {
                    // Before the others, where Terraform has it.
                    document.head.extra.insert(0, (name, compacted(value)));
                }
                for (position, check) in checks.into_iter().enumerate() {
                    document.rows.push(read_check(position, check)?);
                }
            }
            _ => {
                fits(value, || format!("member {name:?}"))?;
                document.head.extra.push((name, compacted(value)));
            }
        }
    }
    document.rows.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    match document.rows.windows(2).find(|pair| pair[0].key == pair[1].key) {
        Some(pair) => Err(DocumentError::Duplicate { row: pair[0].key.to_string() }),
        None => Ok(document),
    }
}

/// Where the text stops being JSON. The parser's own message is not passed on, since it may quote the document.
fn syntax(error: &serde_json::Error) -> DocumentError {
    let (line, column) = (error.line(), error.column());
    if error.is_eof() { DocumentError::Truncated { line, column } } else { DocumentError::NotJson { line, column } }
}

fn check_version(members: &[(String, &RawValue)]) -> Result<(), DocumentError> {
    let find = |wanted: &str| members.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.get());
    if find("encrypted_data").is_some() {
        return Err(DocumentError::Encrypted);
    }
    let version = find("version").ok_or(DocumentError::NoVersion)?;
    match version {
        "4" => Ok(()),
        "1" | "2" | "3" => Err(DocumentError::OldVersion),
        _ if version != "0" && version.bytes().all(|byte| byte.is_ascii_digit()) => Err(DocumentError::NewVersion),
        _ => Err(wrong_shape("\"version\"", "the number of a format")),
    }
}

fn serial(value: &RawValue) -> Result<Serial, DocumentError> {
    let token = value.get();
    let digits = token.strip_prefix('-').unwrap_or(token);
    if is_null(value) {
        Ok(Serial(0))
    } else if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        Err(wrong_shape("\"serial\"", "a whole number"))
    } else if digits.len() < token.len() {
        Err(DocumentError::NegativeSerial)
    } else {
        let serial = token.parse().ok().map(Serial);
        serial.filter(|serial| *serial <= Serial::HIGHEST).ok_or(DocumentError::HugeSerial)
    }
}

fn read_outputs(value: &RawValue, rows: &mut Vec<Row>) -> Result<(), DocumentError> {
    if is_null(value) {
        return Ok(());
    }
    let outputs = members(value, "\"outputs\"")?;
    for (position, (name, output)) in outputs.into_iter().enumerate() {
        let text = format!("output.{name}");
        if let Err(source) = Pattern::parse(&text) {
            return Err(DocumentError::BadOutputName { position, source });
        }
        if !output.get().starts_with('{') {
            return Err(wrong_shape(text, "an object"));
        }
        rows.push(row(RowKey::Output(name), compacted(output))?);
    }
    Ok(())
}

fn read_check(position: usize, check: &RawValue) -> Result<Row, DocumentError> {
    let place = format!("check_results[{position}]");
    let members = members(check, &place)?;
    let object_kind = required_string(&members, "object_kind", &place)?;
    let config_address = required_string(&members, "config_addr", &place)?;
    row(RowKey::Check { object_kind, config_address }, check_body(&members)?)
}

/// The text of a check with its objects in the order of their addresses: Terraform lists them as chance has it, in each
/// document anew, and that is no other content.
fn check_body(members: &[(String, &RawValue)]) -> Result<String, DocumentError> {
    let mut text = String::from("{");
    for (position, (name, value)) in members.iter().enumerate() {
        if position > 0 {
            text.push(',');
        }
        write_string(&mut text, name);
        text.push(':');
        if name == "objects" && value.get().starts_with('[') {
            let mut objects = Vec::new();
            for object in elements(value, "\"objects\"")? {
                objects.push((object_address(object), compacted(object)));
            }
            objects.sort();
            let objects: Vec<String> = objects.into_iter().map(|(_, object)| object).collect();
            text.push_str(&format!("[{}]", objects.join(",")));
        } else {
            compact(&mut text, value.get());
        }
    }
    text.push('}');
    Ok(text)
}

/// The address of one object of a check; none in a form that only a foreign writer could give it.
fn object_address(object: &RawValue) -> Option<String> {
    let Members(members) = serde_json::from_str(object.get()).ok()?;
    let (_, address) = members.iter().find(|(name, _)| name == "object_addr")?;
    serde_json::from_str(address.get()).ok()
}

/// The rows of one resource block: one for each object in it, or one for the block when it has none.
fn read_resource(position: usize, block: &RawValue, rows: &mut Vec<Row>) -> Result<(), DocumentError> {
    let place = format!("resources[{position}]");
    let members = members(block, &place)?;
    let resource = resource_address(&members, &place)?;

    let list = members.iter().find(|(name, _)| name == "instances").map(|(_, list)| *list);
    let instances = match list {
        Some(list) => elements(list, format_args!("\"instances\" of {resource}"))?,
        None => Vec::new(),
    };
    if instances.is_empty() {
        rows.push(row(RowKey::Husk(resource), compacted(block))?);
        return Ok(());
    }
    let (before, after) = around_instances(&members);
    for (position, instance) in instances.into_iter().enumerate() {
        let key = instance_key(&resource, position, instance)?;
        let mut text = String::with_capacity(before.len() + instance.get().len() + after.len());
        text.push_str(&before);
        compact(&mut text, instance.get());
        text.push_str(&after);
        rows.push(row(key, text)?);
    }
    Ok(())
}

/// The text of a resource block up to its first instance, and from its last one on.
fn around_instances(members: &[(String, &RawValue)]) -> (String, String) {
    let (mut before, mut after) = (String::from("{"), String::new());
    let mut out = &mut before;
    for (position, (name, value)) in members.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        write_string(out, name);
        out.push(':');
        if name == "instances" {
            out.push('[');
            out = &mut after;
            out.push(']');
        } else {
            compact(out, value.get());
        }
    }
    after.push('}');
    (before, after)
}

/// The resource that a block is about, as an address without an instance key.
fn resource_address(members: &[(String, &RawValue)], place: &str) -> Result<Address, DocumentError> {
    let mode = match required_string(members, "mode", place)?.as_str() {
        "managed" => Mode::Managed,
        "data" => Mode::Data,
        _ => return Err(DocumentError::UnknownMode { place: place.to_owned() }),
    };
    let type_name = required_string(members, "type", place)?;
    let name = required_string(members, "name", place)?;
    let module = match members.iter().find(|(name, _)| name == "module") {
        Some((_, value)) => {
            let text = optional_string(value, format_args!("\"module\" of {place}"))?.unwrap_or_default();
            ModulePath::parse(&text).map_err(|source| DocumentError::BadModule { place: place.to_owned(), source })?
        }
        None => ModulePath::root(),
    };
    let address = Address { module, mode, type_name, name, key: None };
    // A type with a dot in it, or one called "data", would print as the address of something else.
    let printed = address.to_string();
    if Address::parse(&printed).is_ok_and(|parsed| parsed == address) {
        Ok(address)
    } else {
        Err(DocumentError::BadAddress { place: place.to_owned(), address: printed })
    }
}

/// The row key of one element of `instances`.
fn instance_key(resource: &Address, position: usize, instance: &RawValue) -> Result<RowKey, DocumentError> {
    let place = format_args!("instance {position} of {resource}");
    let members = members(instance, place)?;
    let bad_key = || DocumentError::BadIndexKey { resource: resource.to_string(), position };
    let mut address = resource.clone();
    let mut deposed = None;
    for (name, value) in members {
        match name.as_str() {
            "index_key" => address.key = index_key(value).map_err(|_| bad_key())?,
            "deposed" => deposed = optional_string(value, place)?.filter(|key| !key.is_empty()),
            _ => {}
        }
    }
    match deposed {
        // Terraform, too, looks at nothing but the length.
        Some(key) if key.len() != 8 => Err(DocumentError::BadDeposedKey { instance: address.to_string() }),
        deposed => Ok(RowKey::Object { address, deposed: deposed.map(DeposedKey) }),
    }
}

/// The instance key of an `index_key`, which is an index, a string or null.
fn index_key(value: &RawValue) -> Result<Option<Key>, serde_json::Error> {
    match value.get() {
        "null" => Ok(None),
        text if text.starts_with('"') => serde_json::from_str(text).map(|key| Some(Key::Str(key))),
        number => serde_json::from_str(number).map(|index| Some(Key::Int(index))),
    }
}

fn row(key: RowKey, text: String) -> Result<Row, DocumentError> {
    match Body::new(text) {
        Ok(body) => Ok(Row { key, body }),
        Err(error) => Err(unfit(&error, key.to_string())),
    }
}

/// Whether a value that belongs to no row can be held as those of rows can: nested so deep that following it needs no
/// thought, its strings Unicode.
fn fits(value: &RawValue, place: impl FnOnce() -> String) -> Result<(), DocumentError> {
    Json::from_raw(value).map(drop).map_err(|error| unfit(&error, place()))
}

fn unfit(error: &JsonError, row: String) -> DocumentError {
    match error {
        JsonError::TooDeep => DocumentError::TooDeep { row },
        // The text is JSON already; what is left is a string that cannot be decoded.
        JsonError::Syntax(_) => DocumentError::NotUnicode { row },
    }
}

fn compacted(value: &RawValue) -> String {
    let mut text = String::with_capacity(value.get().len());
    compact(&mut text, value.get());
    text
}

fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

fn wrong_shape(place: impl Display, expected: &'static str) -> DocumentError {
    DocumentError::WrongShape { place: place.to_string(), expected }
}

/// The members of an object in their order.
fn members(value: &RawValue, place: impl Display) -> Result<Vec<(String, &RawValue)>, DocumentError> {
    if !value.get().starts_with('{') {
        return Err(wrong_shape(place, "an object"));
    }
    match serde_json::from_str(value.get()) {
        Ok(Members(members)) => Ok(members),
        Err(_) => Err(DocumentError::NotUnicode { row: place.to_string() }),
    }
}

/// The elements of an array; none for null, as in Go.
fn elements(value: &RawValue, place: impl Display) -> Result<Vec<&RawValue>, DocumentError> {
    if is_null(value) {
        return Ok(Vec::new());
    }
    serde_json::from_str(value.get()).map_err(|_| wrong_shape(place, "an array"))
}

fn optional_string(value: &RawValue, place: impl Display) -> Result<Option<String>, DocumentError> {
    if is_null(value) {
        return Ok(None);
    }
    if !value.get().starts_with('"') {
        return Err(wrong_shape(place, "a string"));
    }
    match serde_json::from_str(value.get()) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(DocumentError::NotUnicode { row: place.to_string() }),
    }
}

/// A text that stands in a column of its own in the database. PostgreSQL takes no U+0000.
fn printable(text: String, place: &str) -> Result<String, DocumentError> {
    if text.contains(char::is_control) {
        return Err(DocumentError::ControlCharacter { place: place.to_owned() });
    }
    Ok(text)
}

fn required_string(
    members: &[(String, &RawValue)],
    member: &'static str,
    place: &str,
) -> Result<String, DocumentError> {
    let value = match members.iter().find(|(name, _)| name == member) {
        Some((_, value)) => optional_string(value, format_args!("\"{member}\" of {place}"))?,
        None => None,
    };
    let missing = || DocumentError::MissingMember { place: place.to_owned(), member };
    value.filter(|text| !text.is_empty()).ok_or_else(missing)
}
