//! Which attributes of a row differ between two contents: names, never values.

use super::Body;
use crate::domain::json::Json;

/// The names of the top-level attributes in which two contents of one row differ, sorted. A difference outside of the
/// attributes, as in what the instance depends on, is called `(metadata)`; what cannot be read, `(unreadable)`.
#[must_use]
pub fn changed_attributes(before: &Body, after: &Body) -> Vec<String> {
    if before.hash() == after.hash() {
        return Vec::new();
    }
    let (Ok(before), Ok(after)) = (Json::parse(before.text()), Json::parse(after.text())) else {
        return vec!["(unreadable)".to_owned()];
    };
    let mut names = match (attributes(&before), attributes(&after)) {
        (Some(before), Some(after)) => differing(before, after),
        // An output or a check: its own members are what there is.
        _ => differing(&before, &after),
    };
    if names.is_empty() {
        names.push("(metadata)".to_owned());
    }
    names
}

/// The attributes of the one instance in an object's body.
fn attributes(body: &Json) -> Option<&Json> {
    let Json::Array(instances) = body.get("instances")? else { return None };
    instances.first()?.get("attributes")
}

fn differing(before: &Json, after: &Json) -> Vec<String> {
    let (Json::Object(old), Json::Object(new)) = (before, after) else {
        return if before.canonical() == after.canonical() { Vec::new() } else { vec!["(content)".to_owned()] };
    };
    let same = |name: &str| match (before.get(name), after.get(name)) {
        (Some(before), Some(after)) => before.canonical() == after.canonical(),
        _ => false,
    };
    let all = old.iter().chain(new).map(|(name, _)| name);
    let mut names: Vec<String> = all.filter(|name| !same(name)).cloned().collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(before: &str, after: &str) -> Vec<String> {
        changed_attributes(&Body::new(before).unwrap(), &Body::new(after).unwrap())
    }

    #[test]
    fn names_of_attributes_and_no_values() {
        let object = |attributes: &str, more: &str| format!(r#"{{"instances":[{{"attributes":{attributes}{more}}}]}}"#);
        let plain = object(r#"{"a":1,"b":"secret"}"#, "");
        assert_eq!(named(&plain, &object(r#"{"b":"other","a":1}"#, "")), ["b"]);
        assert_eq!(named(&plain, &object(r#"{"c":null}"#, "")), ["a", "b", "c"]);
        assert_eq!(named(&plain, &object(r#"{"b":"secret","a":1}"#, "")), [] as [&str; 0]);
        assert_eq!(named(&plain, &object(r#"{"a":1,"b":"secret"}"#, r#","dependencies":["x.y"]"#)), ["(metadata)"]);
        assert_eq!(named(r#"{"value":1,"type":"number"}"#, r#"{"value":2,"type":"number"}"#), ["value"]);
        assert_eq!(named("1", "2"), ["(content)"]);
    }
}
