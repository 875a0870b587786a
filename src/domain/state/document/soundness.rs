//! What a document that comes in from outside must be beside readable: one that Terraform does not drop a resource of
//! without a word, nor fails to read once it is a state.
//!
//! What lies in a database, and what Terraform has written during an apply, is read without this: it has to stay readable.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::value::RawValue;

use super::{
    DocumentError, Row, StateDocument, elements, is_null, members, optional_string, read, required_string, wrong_shape,
};
use crate::domain::address::{is_dependency, is_provider};
use crate::domain::json::Tokens;
use crate::domain::state::RowKey;

/// Bytes in text, as strictly as Terraform reads them.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Reads a state document that comes in from outside, and makes sure that Terraform can work with all of it.
///
/// # Errors
/// As [`read`], and when Terraform would drop one of its resources or not read it at all.
pub fn read_sound(text: &str) -> Result<StateDocument, DocumentError> {
    let document = read(text)?;
    no_member_twice(text)?;
    document.rows.iter().try_for_each(sound)?;
    Ok(document)
}

/// Of two members with one name Terraform takes the last, whatever the first one held.
fn no_member_twice(text: &str) -> Result<(), DocumentError> {
    let mut seen = BTreeSet::new();
    let (mut depth, mut before) = (0_usize, "");
    for token in Tokens::new(text) {
        match token {
            "{" | "[" => depth += 1,
            "}" | "]" => depth = depth.saturating_sub(1),
            // What follows a colon is a value.
            name if depth == 1 && name.starts_with('"') && before != ":" => {
                let name: String = serde_json::from_str(name).unwrap_or_else(|_| name.to_owned());
                if let Some(name) = seen.replace(name) {
                    return Err(DocumentError::MemberTwice { name });
                }
            }
            _ => {}
        }
        before = token;
    }
    Ok(())
}

fn sound(row: &Row) -> Result<(), DocumentError> {
    let (RowKey::Object { .. } | RowKey::Husk(_)) = &row.key else { return Ok(()) };
    let place = row.key.to_string();
    let block: &RawValue =
        serde_json::from_str(row.body.text()).map_err(|_| DocumentError::NotUnicode { row: place.clone() })?;
    let block = members(block, &place)?;
    // A row has one instance, a husk none.
    let instance = match find(&block, "instances") {
        Some(list) => elements(list, &place)?.first().map(|one| members(one, &place)).transpose()?,
        None => None,
    };
    let instance = instance.unwrap_or_default();
    // OpenTofu has it at each instance where they differ.
    let provider = required_string(&block, "provider", &place)
        .or_else(|error| required_string(&instance, "provider", &place).map_err(|_| error))?;
    if !is_provider(&provider) {
        return Err(wrong_shape(
            format!("\"provider\" of {place}"),
            "a provider's address, as provider[\"registry.terraform.io/hashicorp/aws\"]",
        ));
    }
    for (name, value) in &instance {
        if let Some(expected) = mistaken(name, value, &place)? {
            return Err(wrong_shape(format!("\"{name}\" of {place}"), expected));
        }
    }
    Ok(())
}

/// What a member of an instance should be where it is not.
fn mistaken(name: &str, value: &RawValue, place: &str) -> Result<Option<&'static str>, DocumentError> {
    if is_null(value) {
        return Ok(None);
    }
    let text = || optional_string(value, format_args!("\"{name}\" of {place}")).map(Option::unwrap_or_default);
    let (good, expected) = match name {
        "schema_version" => (is_whole(value.get()), "a whole number from 0 on"),
        "status" => (["", "tainted"].contains(&text()?.as_str()), "empty or \"tainted\""),
        "attributes" => (value.get().starts_with('{'), "an object"),
        "attributes_flat" => (is_flat(value, place)?, "an object of strings"),
        "dependencies" => (names_resources(value, place)?, "a list of resources' addresses"),
        "private" => (is_base64(&text()?), "base64"),
        _ => return Ok(None),
    };
    Ok(if good { None } else { Some(expected) })
}

fn find<'a>(members: &[(String, &'a RawValue)], wanted: &str) -> Option<&'a RawValue> {
    members.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value)
}

fn is_whole(token: &str) -> bool {
    token.bytes().all(|byte| byte.is_ascii_digit()) && token.parse::<u64>().is_ok()
}

/// Attributes as Terraform wrote them before 0.12.
fn is_flat(value: &RawValue, place: &str) -> Result<bool, DocumentError> {
    let strings = members(value, format_args!("\"attributes_flat\" of {place}"))?;
    Ok(strings.iter().all(|(_, value)| is_null(value) || value.get().starts_with('"')))
}

fn names_resources(value: &RawValue, place: &str) -> Result<bool, DocumentError> {
    let place = format_args!("\"dependencies\" of {place}");
    for name in elements(value, place)? {
        if !optional_string(name, place)?.is_some_and(|name| is_dependency(&name)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_base64(text: &str) -> bool {
    // Terraform overlooks breaks of lines.
    let text: String = text.chars().filter(|letter| !matches!(letter, '\r' | '\n')).collect();
    BASE64.decode(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROVIDER: &str = r#""provider":"provider[\"terraform.io/builtin/terraform\"]","#;

    fn document(provider: &str, instance: &str) -> String {
        format!(
            r#"{{"version":4,"serial":1,"lineage":"l","resources":[{{"mode":"managed","type":"t","name":"n",{provider}"instances":[{instance}]}}]}}"#
        )
    }

    /// Each as Terraform 1.11.4 takes it.
    #[test]
    fn what_terraform_takes_comes_in() {
        for instance in [
            "",
            "{}",
            r#"{"schema_version":18446744073709551615,"attributes":{"id":"x"},"private":"bnVsbA==","status":"tainted"}"#,
            r#"{"schema_version":null,"attributes":null,"private":null,"status":null,"dependencies":null}"#,
            r#"{"attributes_flat":{"id":"x"},"status":"","private":"bnVs\nbB=="}"#,
            r#"{"dependencies":["t.n","data.t.n","module.a.t.n","module.a[0].t.n"],"depends_on":["module.a"]}"#,
        ] {
            let text = document(PROVIDER, instance);
            assert_eq!(read_sound(&text), read(&text), "{text}");
        }
        for provider in [r#""provider":"provider.aws","#, r#""provider":"module.a.provider.aws.west","#] {
            assert!(read_sound(&document(provider, "{}")).is_ok(), "{provider}");
        }
        let there = PROVIDER.trim_end_matches(',');
        assert!(read_sound(&document("", &format!("{{{there}}}"))).is_ok());
        assert!(read_sound(r#"{"version":4,"a":"version","b":{"a":1},"c":["a","a"]}"#).is_ok());
    }

    /// Each of these Terraform 1.11.4 drops without a word, or cannot read. They stay readable where they are already.
    #[test]
    fn what_terraform_drops_or_cannot_read_does_not_come_in() {
        let with = |member: &str| document(PROVIDER, &format!("{{{member}}}"));
        for (text, said) in [
            (document("", "{}"), "t.n of the state document has no \"provider\""),
            (document("", ""), "t.n of the state document has no \"provider\""),
            (document(r#""provider":null,"#, "{}"), "t.n of the state document has no \"provider\""),
            (document(r#""provider":7,"#, "{}"), "\"provider\" of t.n of the state document is not a string"),
            (
                document(r#""provider":"s3cret","#, "{}"),
                "\"provider\" of t.n of the state document is not a provider's",
            ),
            (document(r#""provider":"s3cret","#, ""), "\"provider\" of t.n of the state document is not a provider's"),
            (with(r#""status":"s3cret""#), "\"status\" of t.n of the state document is not empty or \"tainted\""),
            (with(r#""status":7"#), "\"status\" of t.n of the state document is not a string"),
            (with(r#""schema_version":"0""#), "\"schema_version\" of t.n"),
            (with(r#""schema_version":-1"#), "\"schema_version\" of t.n"),
            (with(r#""schema_version":1.0"#), "\"schema_version\" of t.n"),
            (with(r#""schema_version":18446744073709551616"#), "\"schema_version\" of t.n"),
            (with(r#""attributes":["s3cret"]"#), "\"attributes\" of t.n of the state document is not an object"),
            (with(r#""attributes_flat":{"a":1}"#), "\"attributes_flat\" of t.n"),
            (with(r#""attributes_flat":[1]"#), "\"attributes_flat\" of t.n"),
            (with(r#""dependencies":["s3 cret"]"#), "\"dependencies\" of t.n"),
            (with(r#""dependencies":["t.n[0]"]"#), "\"dependencies\" of t.n"),
            (with(r#""dependencies":[null]"#), "\"dependencies\" of t.n"),
            (with(r#""dependencies":"t.n""#), "\"dependencies\" of t.n"),
            (with(r#""private":"%%%""#), "\"private\" of t.n of the state document is not base64"),
            (with(r#""private":"bnVsbA""#), "\"private\" of t.n of the state document is not base64"),
            (r#"{"version":4,"serial":1,"s\u0065rial":2}"#.to_owned(), "\"serial\" stands twice"),
            (r#"{"version":4,"outputs":{},"zzz":1,"outputs":{}}"#.to_owned(), "\"outputs\" stands twice"),
        ] {
            let error = read_sound(&text).expect_err(&text).to_string();
            assert!(error.contains(said), "{text}: {error}");
            assert!(!error.contains("s3"), "{text}: {error}");
            assert!(read(&text).is_ok(), "{text}");
        }
    }
}
