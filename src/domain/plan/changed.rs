//! Changed attributes with their values, for projects that show them: masked where they are sensitive.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::plan_json::{Change, PlanError, PlanJson};
use crate::domain::json::Json;
use crate::domain::redact::{MASK, Secrets};

/// A changed attribute with its values, masked where they are sensitive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedValue {
    /// The resource instance.
    pub address: String,
    /// The attribute's path, as `tags.Name`.
    pub attribute: String,
    /// JSON text before; none when there was no object.
    pub before: Option<String>,
    /// JSON text after; none when there is no object, or it is not known yet.
    pub after: Option<String>,
}

/// So many are told of one plan: more would be no help to a reader.
const MAX_VALUES: usize = 2_000;

/// The attributes that a plan changes, with their values. Objects that are deleted are left out: they end as a whole.
///
/// # Errors
/// When a value cannot be read.
pub fn changed_values(plan: &PlanJson) -> Result<Vec<ChangedValue>, PlanError> {
    let mut found = Vec::new();
    for entry in plan.resource_changes.iter().filter(|entry| entry.mode == "managed") {
        if entry.change.actions.iter().any(|action| ["create", "update"].contains(&action.as_str())) {
            of_change(&entry.address, &entry.change, &mut found)?;
        }
    }
    for (name, change) in &plan.output_changes {
        if change.actions.iter().any(|action| ["create", "update"].contains(&action.as_str())) {
            of_change(&format!("output.{name}"), change, &mut found)?;
        }
    }
    found.truncate(MAX_VALUES);
    Ok(found)
}

/// One side of a change: a value, where it is sensitive, where it is not known.
#[derive(Clone, Copy)]
struct Side<'a> {
    value: Option<&'a Json>,
    sensitive: Option<&'a Json>,
    unknown: Option<&'a Json>,
}

impl<'a> Side<'a> {
    fn member(self, name: &str) -> Self {
        let below = |mask: Option<&'a Json>| match mask {
            Some(Json::Bool(true)) => mask,
            mask => mask.and_then(|mask| mask.get(name)),
        };
        Self {
            value: self.value.and_then(|value| value.get(name)),
            sensitive: below(self.sensitive),
            unknown: below(self.unknown),
        }
    }

    fn hidden(self) -> bool {
        self.sensitive.is_some_and(any_true)
    }

    fn unknown(self) -> bool {
        self.unknown.is_some_and(any_true)
    }

    /// The members of an object that nothing covers as a whole.
    fn names(self) -> Option<Vec<&'a str>> {
        if self.sensitive == Some(&Json::Bool(true)) || self.unknown == Some(&Json::Bool(true)) {
            return None;
        }
        let of = |json: Option<&'a Json>| match json {
            Some(Json::Object(members)) => members.iter().map(|(name, _)| name.as_str()).collect(),
            _ => Vec::new(),
        };
        match self.value {
            Some(Json::Object(_)) => Some([of(self.value), of(self.unknown)].concat()),
            _ => None,
        }
    }
}

fn any_true(mask: &Json) -> bool {
    match mask {
        Json::Bool(truth) => *truth,
        Json::Array(items) => items.iter().any(any_true),
        Json::Object(members) => members.iter().any(|(_, value)| any_true(value)),
        _ => false,
    }
}

fn of_change(address: &str, change: &Change, found: &mut Vec<ChangedValue>) -> Result<(), PlanError> {
    let read = |raw: &Option<Box<RawValue>>| match raw {
        Some(raw) => {
            Json::from_raw(raw).map(Some).map_err(|source| PlanError::Value { address: address.to_owned(), source })
        }
        None => Ok(None),
    };
    let values = [read(&change.before)?, read(&change.after)?];
    let masks = [read(&change.before_sensitive)?, read(&change.after_sensitive)?];
    let unknown = read(&change.after_unknown)?;
    let mut secrets = Secrets::default();
    for (value, mask) in values.iter().zip(&masks) {
        if let (Some(value), Some(mask)) = (value, mask) {
            note(value, mask, &mut secrets);
        }
    }
    let before = Side { value: values[0].as_ref(), sensitive: masks[0].as_ref(), unknown: None };
    let after = Side { value: values[1].as_ref(), sensitive: masks[1].as_ref(), unknown: unknown.as_ref() };
    walk(address, "", before, after, &secrets, found);
    Ok(())
}

/// Remembers every text that one side calls sensitive: it may stand elsewhere, too.
pub(super) fn note(value: &Json, mask: &Json, secrets: &mut Secrets) {
    match (value, mask) {
        (_, Json::Bool(true)) => secrets.note(value),
        (Json::Object(_), Json::Object(members)) => {
            for (name, mask) in members {
                if let Some(value) = value.get(name) {
                    note(value, mask, secrets);
                }
            }
        }
        (Json::Array(items), Json::Array(masks)) => {
            items.iter().zip(masks).for_each(|(value, mask)| note(value, mask, secrets));
        }
        _ => {}
    }
}

fn walk(
    address: &str,
    path: &str,
    before: Side<'_>,
    after: Side<'_>,
    secrets: &Secrets,
    found: &mut Vec<ChangedValue>,
) {
    if found.len() >= MAX_VALUES {
        return;
    }
    let nothing = |side: Side<'_>| matches!(side.value, None | Some(Json::Null));
    // Objects are told by their members, lists as a whole: positions mean little to a reader.
    let names = match (before.names(), after.names()) {
        (Some(before), Some(after)) => Some([before, after].concat()),
        (None, Some(after)) if nothing(before) && !before.hidden() => Some(after),
        _ => None,
    };
    if let Some(mut names) = names {
        names.sort_unstable();
        names.dedup();
        for name in names {
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            walk(address, &path, before.member(name), after.member(name), secrets, found);
        }
        return;
    }
    let same = |a: Option<&Json>, b: Option<&Json>| match (a, b) {
        (Some(a), Some(b)) => a.normal() == b.normal(),
        (None | Some(Json::Null), None | Some(Json::Null)) => true,
        _ => false,
    };
    if !after.unknown() && same(before.value, after.value) {
        return;
    }
    let hidden = before.hidden() || after.hidden();
    let text = |side: Side<'_>| {
        let mut value = side.value.filter(|value| **value != Json::Null)?.clone();
        if hidden {
            value = Json::String(MASK.to_owned());
        }
        secrets.hide(&mut value);
        Some(value.to_string())
    };
    found.push(ChangedValue {
        address: address.to_owned(),
        attribute: path.to_owned(),
        before: text(before),
        after: if after.unknown() { None } else { text(after) },
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(change: &str) -> Vec<String> {
        let plan = format!(
            r#"{{"format_version":"1.2","resource_changes":[{{"address":"x.y","mode":"managed","change":{change}}}]}}"#
        );
        let plan = PlanJson::read(&plan).unwrap();
        let shown = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let values = changed_values(&plan).unwrap().into_iter();
        values.map(|one| format!("{}: {} -> {}", one.attribute, shown(one.before), shown(one.after))).collect()
    }

    #[test]
    fn what_differs_is_told_by_its_path() {
        let change = r#"{"actions":["update"],"before":{"a":1,"tags":{"n":"x","o":"s"}},"after":{"a":1,"tags":{"n":"y","o":"s"}}}"#;
        assert_eq!(changed(change), [r#"tags.n: "x" -> "y""#]);
    }

    #[test]
    fn what_is_not_known_yet_has_no_value_after() {
        let change = r#"{"actions":["update"],"before":{"a":1,"id":"i"},"after":{"a":2},"after_unknown":{"id":true}}"#;
        assert_eq!(changed(change), ["a: 1 -> 2", r#"id: "i" -> -"#]);
        let change = r#"{"actions":["create"],"before":null,"after":{"a":"v","n":null},"after_unknown":{"id":true}}"#;
        assert_eq!(changed(change), [r#"a: - -> "v""#, "id: - -> -"]);
    }

    #[test]
    fn a_value_that_is_sensitive_on_either_side_is_masked_on_both() {
        let change = r#"{"actions":["update"],"before":{"p":"hush-1"},"after":{"p":"hush-2"},"before_sensitive":{},"after_sensitive":{"p":true}}"#;
        assert_eq!(changed(change), [r#"p: "(sensitive value)" -> "(sensitive value)""#]);
        let change = r#"{"actions":["update"],"before":{"p":"hush-1"},"after":{"p":"hush-2"},"before_sensitive":{"p":true},"after_sensitive":{}}"#;
        assert_eq!(changed(change), [r#"p: "(sensitive value)" -> "(sensitive value)""#]);
    }

    #[test]
    fn a_list_with_one_sensitive_item_is_masked_whole_and_copies_of_the_item_are_too() {
        let change = r#"{"actions":["update"],"before":{"l":["a"],"url":"u"},"after":{"l":["a","s3cret-value"],"url":"https://s3cret-value@host"},"after_sensitive":{"l":[false,true]}}"#;
        assert_eq!(
            changed(change),
            [r#"l: "(sensitive value)" -> "(sensitive value)""#, r#"url: "u" -> "(sensitive value)""#]
        );
    }

    #[test]
    fn an_object_that_is_sensitive_as_a_whole_shows_no_member() {
        let change =
            r#"{"actions":["create"],"before":null,"after":{"o":{"k":"hush-1"}},"after_sensitive":{"o":true}}"#;
        assert_eq!(changed(change), [r#"o: - -> "(sensitive value)""#]);
    }

    #[test]
    fn deletions_and_plain_reads_are_left_out() {
        assert_eq!(changed(r#"{"actions":["delete"],"before":{"a":1},"after":null}"#), Vec::<String>::new());
        assert_eq!(changed(r#"{"actions":["no-op"],"before":{"a":1},"after":{"a":1}}"#), Vec::<String>::new());
    }
}
