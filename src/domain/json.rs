//! JSON with nothing lost: number tokens as they stand, members in their order.
//!
//! Terraform writes integers of any length, and a detour through `f64` would change them (facts B5). `serde_json`
//! does the parsing; this module keeps what its own value type drops.

mod tokens;

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

pub(in crate::domain) use tokens::Tokens;

/// How deep a document may nest. Terraform's own go to about a dozen.
pub(in crate::domain) const MAX_DEPTH: usize = 200;

/// A JSON value that prints back to the same tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// The token of a number, as it stood.
    Number(String),
    /// A string, unescaped.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// The members of an object in their order.
    Object(Vec<(String, Json)>),
}

/// Why a text is not JSON that kl can hold.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The text is not JSON.
    #[error("not valid JSON")]
    Syntax(#[source] serde_json::Error),
    /// The text nests deeper than any real state or plan.
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        Self::Syntax(error)
    }
}

/// The members of an object in the order of the text; of equal names the last one counts, as in Terraform.
pub struct Members<'a>(pub Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    members.push(member);
                }
                last_of_equal_names(&mut members);
                Ok(members)
            }
        }

        deserializer.deserialize_map(InOrder).map(Members)
    }
}

/// Of members with one name leaves one: the last one's value at the first one's place.
fn last_of_equal_names<T>(members: &mut Vec<(String, T)>) {
    let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    if names.windows(2).all(|pair| pair[0] != pair[1]) {
        return;
    }
    let mut places = HashMap::new();
    let mut kept: Vec<(String, T)> = Vec::new();
    for (name, value) in members.drain(..) {
        if let Some(&place) = places.get(&name) {
            kept[place] = (name, value);
        } else {
            places.insert(name.clone(), kept.len());
            kept.push((name, value));
        }
    }
    *members = kept;
}

impl Json {
    /// Reads one JSON document.
    ///
    /// # Errors
    /// When the text is not JSON, or nests too deep.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        let raw: &RawValue = serde_json::from_str(text)?;
        Self::from_raw(raw)
    }

    /// Reads a value that `serde_json` has already delimited.
    ///
    /// # Errors
    /// When a string in it is not Unicode, or it nests too deep.
    pub fn from_raw(raw: &RawValue) -> Result<Self, JsonError> {
        let mut tokens = Tokens::new(raw.get());
        let first = tokens.next().unwrap_or_default();
        Self::build(first, &mut tokens, 0)
    }

    /// The value that starts with `first`. The text is known to be JSON, so only strings can still be wrong.
    fn build(first: &str, tokens: &mut Tokens<'_>, depth: usize) -> Result<Self, JsonError> {
        if depth > MAX_DEPTH {
            return Err(JsonError::TooDeep);
        }
        Ok(match first.as_bytes().first() {
            Some(b'{') => {
                let mut members = Vec::new();
                while let Some(token) = tokens.next().filter(|token| *token != "}") {
                    let name = if token == "," { tokens.next().unwrap_or_default() } else { token };
                    let value = tokens.nth(1).unwrap_or_default();
                    members.push((unquoted(name)?, Self::build(value, tokens, depth + 1)?));
                }
                last_of_equal_names(&mut members);
                Self::Object(members)
            }
            Some(b'[') => {
                let mut items = Vec::new();
                while let Some(token) = tokens.next().filter(|token| *token != "]") {
                    let item = if token == "," { tokens.next().unwrap_or_default() } else { token };
                    items.push(Self::build(item, tokens, depth + 1)?);
                }
                Self::Array(items)
            }
            Some(b'"') => Self::String(unquoted(first)?),
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'n') => Self::Null,
            _ => Self::Number(first.to_owned()),
        })
    }

    /// The member of an object by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.iter().find(|(found, _)| found == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text, when this is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// One text for all documents that differ only in space and in the order of members; numbers stay as they stand.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, &|number| number.to_owned());
        out
    }

    /// Like [`Self::canonical`], with numbers in one spelling each, so that `1.0` and `1` are the same content:
    /// Terraform re-writes one as the other (facts B5).
    #[must_use]
    pub fn normal(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, &normal_number);
        out
    }

    /// Text for people: members in their order, two spaces a level.
    #[must_use]
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        self.write_pretty(&mut out, 0);
        out
    }

    fn write_pretty(&self, out: &mut String, level: usize) {
        let pad = |level: usize| "  ".repeat(level);
        match self {
            Self::Array(items) if !items.is_empty() => {
                out.push('[');
                for (position, item) in items.iter().enumerate() {
                    out.push_str(if position > 0 { ",\n" } else { "\n" });
                    out.push_str(&pad(level + 1));
                    item.write_pretty(out, level + 1);
                }
                out.push_str(&format!("\n{}]", pad(level)));
            }
            Self::Object(members) if !members.is_empty() => {
                out.push('{');
                for (position, (name, value)) in members.iter().enumerate() {
                    out.push_str(if position > 0 { ",\n" } else { "\n" });
                    out.push_str(&pad(level + 1));
                    write_string(out, name);
                    out.push_str(": ");
                    value.write_pretty(out, level + 1);
                }
                out.push_str(&format!("\n{}}}", pad(level)));
            }
            other => out.push_str(&other.to_string()),
        }
    }

    fn write(&self, out: &mut String, number: &dyn Fn(&str) -> String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
            Self::Number(token) => out.push_str(&number(token)),
            Self::String(text) => write_string(out, text),
            Self::Array(items) => {
                out.push('[');
                for (position, item) in items.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    item.write(out, number);
                }
                out.push(']');
            }
            Self::Object(members) => {
                let mut sorted: Vec<_> = members.iter().collect();
                sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
                out.push('{');
                for (position, (name, value)) in sorted.into_iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    write_string(out, name);
                    out.push(':');
                    value.write(out, number);
                }
                out.push('}');
            }
        }
    }
}

impl fmt::Display for Json {
    /// Compact text with members in their own order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array(items) => {
                f.write_char('[')?;
                for (position, item) in items.iter().enumerate() {
                    let comma = if position > 0 { "," } else { "" };
                    write!(f, "{comma}{item}")?;
                }
                f.write_char(']')
            }
            Self::Object(members) => {
                f.write_char('{')?;
                for (position, (name, value)) in members.iter().enumerate() {
                    let comma = if position > 0 { "," } else { "" };
                    let mut quoted = String::new();
                    write_string(&mut quoted, name);
                    write!(f, "{comma}{quoted}:{value}")?;
                }
                f.write_char('}')
            }
            other => f.write_str(&other.canonical()),
        }
    }
}

/// The text of a string token.
fn unquoted(token: &str) -> Result<String, serde_json::Error> {
    match token.get(1..token.len().saturating_sub(1)) {
        Some(text) if !text.contains('\\') => Ok(text.to_owned()),
        _ => serde_json::from_str(token),
    }
}

/// A JSON string literal; the control characters are the only ones that need an escape.
pub fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|letter: char| letter < ' ' || letter == '"' || letter == '\\') {
        out.push_str(&rest[..at]);
        // What was found is one byte long.
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => out.push_str(&format!("\\u{control:04x}")),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// A number's value in one spelling: sign, digits without outer zeros, and a power of ten when there is one.
fn normal_number(token: &str) -> String {
    let (negative, rest) = token.strip_prefix('-').map_or((false, token), |rest| (true, rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    // An exponent beyond i64 is no number that Terraform can hold; it stays as it is.
    let Ok(exponent) = exponent.trim_start_matches('+').parse::<i64>() else {
        return token.to_owned();
    };
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    let trimmed = significant.trim_end_matches('0');
    if trimmed.is_empty() {
        return "0".to_owned();
    }
    let zeros = i64::try_from(significant.len() - trimmed.len()).unwrap_or(0);
    let places = i64::try_from(fraction.len()).unwrap_or(0);
    let power = exponent.saturating_sub(places).saturating_add(zeros);
    let sign = if negative { "-" } else { "" };
    if power == 0 { format!("{sign}{trimmed}") } else { format!("{sign}{trimmed}e{power}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_print_as_they_stood_and_compare_by_value() {
        let long = "123456789012345678901234567890";
        assert_eq!(Json::parse(long).unwrap().to_string(), long);
        for (a, b) in [("1.0", "1"), ("1e2", "100"), ("0.10", "1E-1"), ("-0", "0"), ("1200", "1.2e+3")] {
            assert_eq!(Json::parse(a).unwrap().normal(), Json::parse(b).unwrap().normal(), "{a} {b}");
        }
        assert_ne!(
            Json::parse("12345678901234567890").unwrap().normal(),
            Json::parse("12345678901234567891").unwrap().normal()
        );
    }

    #[test]
    fn members_keep_their_order_and_the_canonical_form_does_not() {
        let text = r#"{"b":[1,{"z":null,"a":"\u0000<>"}],"a":true}"#;
        let value = Json::parse(text).unwrap();
        assert_eq!(value.to_string(), text);
        assert_eq!(value.canonical(), r#"{"a":true,"b":[1,{"a":"\u0000<>","z":null}]}"#);
    }

    #[test]
    fn of_equal_names_the_last_counts() {
        assert_eq!(Json::parse(r#"{"a":1,"a":2}"#).unwrap().to_string(), r#"{"a":2}"#);
    }

    fn any_value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 60, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                proptest::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_value_reads_as_the_parser_reads_it(value in any_value()) {
            for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
                let ours = Json::parse(&text).unwrap();
                for printed in [ours.to_string(), ours.canonical()] {
                    prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&printed).unwrap(), &value);
                }
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>(), near in r#"[\[\]{}:,"\\u0-9a-f \n-]{0,40}"#) {
            drop((Json::parse(&text), Json::parse(&near)));
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_crash() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(Json::parse(&deep).is_err());
    }
}
