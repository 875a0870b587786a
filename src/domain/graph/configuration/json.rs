//! JSON syntax to blocks. What is a block and what an attribute is known only from the block around it.

use std::fmt;

use hcl_edit::expr::Expression;
use hcl_edit::template::Element;
use hcl_edit::visit::Visit;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::block::{Block, Body};
use super::references::Collector;
use super::value::{Trouble, Value};
use super::{ConfigurationError, Place, Traversal};

/// A JSON value as the syntax sees it: a name may come twice in an object, and numbers refer to nothing.
#[derive(Debug, Clone)]
pub(super) enum Json {
    /// `null`, and numbers.
    Opaque,
    /// `true` or `false`.
    Bool(bool),
    /// A string, which in most places is a template.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// The members of an object in their order.
    Object(Vec<(String, Json)>),
}

/// A string that is no template or no reference.
pub(super) struct BadString {
    text: String,
    message: String,
}

impl BadString {
    pub(super) fn in_file(self, file: &str) -> Trouble {
        Trouble { file: file.to_owned(), line: 0, snippet: Some(self.text), message: self.message }
    }
}

/// Reads the blocks of one file.
pub(super) fn read(file: &str, text: &str) -> Result<Vec<Block>, ConfigurationError> {
    let error = |line, column, message| ConfigurationError { file: file.to_owned(), line, column, message };
    let root: Json = serde_json::from_str(text).map_err(|trouble| {
        // The place is a part of the parser's text, and told apart from it here.
        let place = format!(" at line {} column {}", trouble.line(), trouble.column());
        let message = trouble.to_string();
        let message = message.strip_suffix(&place).unwrap_or(&message).to_owned();
        error(trouble.line().max(1), trouble.column().max(1), message)
    })?;
    if !matches!(root, Json::Object(_) | Json::Array(_)) {
        return Err(error(1, 1, "an object was expected".to_owned()));
    }
    let mut out = Body::default();
    members(file, TOP, root, &mut out).map_err(|kind| error(1, 1, format!("{kind:?} must be an object")))?;
    Ok(out.blocks)
}

/// The name of a nested block, how many labels it has, and which blocks may be in it.
struct Nested(&'static str, usize, &'static [Nested]);

const CONDITIONS: &[Nested] =
    &[Nested("precondition", 0, &[]), Nested("postcondition", 0, &[]), Nested("action_trigger", 0, &[])];
const RESOURCE: &[Nested] =
    &[Nested("lifecycle", 0, CONDITIONS), Nested("provisioner", 1, &[]), Nested("connection", 0, &[])];
const TOP: &[Nested] = &[
    Nested("resource", 2, RESOURCE),
    Nested("data", 2, RESOURCE),
    Nested("ephemeral", 2, RESOURCE),
    Nested("action", 2, &[]),
    Nested("module", 1, &[Nested("lifecycle", 0, &[])]),
    Nested("output", 1, CONDITIONS),
    Nested("variable", 1, &[Nested("validation", 0, &[])]),
    Nested("provider", 1, &[]),
    Nested("check", 1, &[Nested("data", 2, RESOURCE), Nested("assert", 0, &[])]),
    Nested("locals", 0, &[]),
    Nested("import", 0, &[]),
    Nested("moved", 0, &[]),
    Nested("removed", 0, &[]),
    Nested("terraform", 0, &[Nested("backend", 1, &[]), Nested("cloud", 0, &[])]),
];

/// Sorts the members of an object into attributes and blocks. An array is as good as its objects one by one.
fn members(file: &str, nested: &'static [Nested], value: Json, out: &mut Body) -> Result<(), &'static str> {
    match value {
        Json::Array(items) => items.into_iter().try_for_each(|item| members(file, nested, item, out)),
        Json::Object(entries) => entries.into_iter().filter(|(name, _)| name != "//").try_for_each(|(name, value)| {
            if let Some(block) = nested.iter().find(|Nested(candidate, ..)| *candidate == name) {
                return blocks(file, block, value, &mut Vec::new(), &mut out.blocks);
            }
            // The name stays with a possible `dynamic` block, for its shape alone does not tell it.
            let value = if name == "dynamic" { Json::Object(vec![(name.clone(), value)]) } else { value };
            out.attributes.push((name, Value::Json(value, file.to_owned())));
            Ok(())
        }),
        _ => Ok(()),
    }
}

/// Unfolds one level of labels, and reads the block below the last one. Every level may be an array.
fn blocks(
    file: &str,
    nested: &'static Nested,
    value: Json,
    labels: &mut Vec<String>,
    out: &mut Vec<Block>,
) -> Result<(), &'static str> {
    let Nested(kind, count, inside) = nested;
    match value {
        // A block that is null is not there.
        Json::Opaque => Ok(()),
        Json::Array(items) => items.into_iter().try_for_each(|item| blocks(file, nested, item, labels, out)),
        Json::Object(entries) if labels.len() < *count => {
            entries.into_iter().filter(|(name, _)| name != "//").try_for_each(|(label, value)| {
                labels.push(label);
                let read = blocks(file, nested, value, labels, out);
                labels.pop();
                read
            })
        }
        Json::Object(_) => {
            let mut body = Body::default();
            members(file, inside, value, &mut body)?;
            let place = Place { file: file.to_owned(), line: 0 };
            out.push(Block { kind: (*kind).to_owned(), labels: labels.clone(), place, body });
            Ok(())
        }
        Json::Bool(_) | Json::String(_) => Err(kind),
    }
}

impl Json {
    /// Whether a string has parts to be evaluated.
    pub(super) fn is_template(text: &str) -> bool {
        text.contains("${") || text.contains("%{")
    }

    /// Everything that the templates in this value refer to.
    pub(super) fn references(&self, out: &mut Vec<Traversal>) -> Result<(), BadString> {
        match self {
            Self::Opaque | Self::Bool(_) => Ok(()),
            Self::String(text) => template(text, out),
            Self::Array(items) => items.iter().try_for_each(|item| item.references(out)),
            Self::Object(entries) => entries.iter().try_for_each(|(name, value)| {
                if name == "dynamic" && value.is_dynamic() {
                    return value.dynamic(None, out);
                }
                if name == "//" {
                    // In a nested block this is a comment, in a map a key like any other: broken text is let pass.
                    let _comment = value.references(out);
                    return Ok(());
                }
                template(name, out)?;
                value.references(out)
            }),
        }
    }

    /// Everything that this value refers to, where plain strings are references, too.
    pub(super) fn named(&self, out: &mut Vec<Traversal>) -> Result<(), BadString> {
        match self {
            Self::Array(items) => items.iter().try_for_each(|item| item.named(out)),
            Self::String(text) if !Self::is_template(text) => {
                let expression = hcl_edit::parser::parse_expr(text).map_err(|error| bad(text, &error))?;
                let mut collector = Collector::default();
                collector.visit_expr(&expression);
                out.append(&mut collector.found);
                Ok(())
            }
            _ => self.references(out),
        }
    }

    /// The expression that a string spells, bare or as the only thing inside `${…}`.
    pub(super) fn expression(&self) -> Option<Expression> {
        let Self::String(text) = self else { return None };
        if !Self::is_template(text) {
            return hcl_edit::parser::parse_expr(text).ok();
        }
        let template = hcl_edit::parser::parse_template(text).ok()?;
        let mut elements = template.into_iter();
        match (elements.next(), elements.next()) {
            (Some(Element::Interpolation(only)), None) => Some(only.expr),
            _ => None,
        }
    }

    /// Without the provider's schema nobody knows whether `dynamic` is a block or the key of some map, but
    /// hardly any map looks like this.
    fn is_dynamic(&self) -> bool {
        match self {
            Self::Array(items) => items.iter().all(Self::is_dynamic),
            Self::Object(labels) => labels.iter().all(|(label, value)| label == "//" || value.is_generator()),
            _ => false,
        }
    }

    fn is_generator(&self) -> bool {
        match self {
            Self::Array(items) => items.iter().all(Self::is_generator),
            Self::Object(_) => self.member("for_each").is_some() && self.member("content").is_some(),
            _ => false,
        }
    }

    /// What a `dynamic` block refers to: first its labels, then, with a label, the body or bodies below it.
    fn dynamic(&self, label: Option<&str>, out: &mut Vec<Traversal>) -> Result<(), BadString> {
        match (self, label) {
            (Self::Array(items), _) => items.iter().try_for_each(|item| item.dynamic(label, out)),
            (Self::Object(labels), None) => labels
                .iter()
                .filter(|(name, _)| name != "//")
                .try_for_each(|(name, value)| value.dynamic(Some(name), out)),
            (Self::Object(entries), Some(label)) => {
                let iterator = match self.member("iterator") {
                    Some(Self::String(name)) => name,
                    _ => label,
                };
                let mut inside = Vec::new();
                for (name, value) in entries {
                    value.references(if name == "for_each" { out } else { &mut inside })?;
                }
                out.extend(inside.into_iter().filter(|traversal| traversal.root != iterator));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn member(&self, name: &str) -> Option<&Self> {
        let Self::Object(entries) = self else { return None };
        entries.iter().find(|(candidate, _)| candidate == name).map(|(_, value)| value)
    }
}

fn template(text: &str, out: &mut Vec<Traversal>) -> Result<(), BadString> {
    if Json::is_template(text) {
        let template = hcl_edit::parser::parse_template(text).map_err(|error| bad(text, &error))?;
        let mut collector = Collector::default();
        collector.visit_template(&template);
        out.append(&mut collector.found);
    }
    Ok(())
}

fn bad(text: &str, error: &hcl_edit::parser::Error) -> BadString {
    BadString { text: text.to_owned(), message: error.message().to_owned() }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Opaque)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Opaque)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
        Ok(Json::Opaque)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Opaque)
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element()? {
            out.push(item);
        }
        Ok(Json::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut out = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            out.push(entry);
        }
        Ok(Json::Object(out))
    }
}
