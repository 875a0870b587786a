//! Which values are sensitive, and what stands in their place.

pub mod credentials;

use super::json::Json;
use super::state::Body;

/// What is shown instead of a sensitive value.
pub const MASK: &str = "(sensitive value)";

/// A row's content with every sensitive value masked: outputs marked so, the paths that `sensitive_attributes`
/// names, the provider's private data, and wherever else in an instance the same text stands: a provider may give back
/// what it was given, under a name of its own.
#[must_use]
pub fn masked(body: &Body) -> Json {
    let Ok(mut value) = Json::parse(body.text()) else {
        return Json::Null;
    };
    if value.get("sensitive") == Some(&Json::Bool(true)) {
        set(&mut value, "value");
    }
    if let Json::Object(members) = &mut value {
        for (name, member) in members {
            if let ("instances", Json::Array(instances)) = (name.as_str(), member) {
                instances.iter_mut().for_each(mask_instance);
            }
        }
    }
    value
}

/// The contents of one row at two times, masked: what is secret at either of them is shown of neither.
#[must_use]
pub fn masked_sides(before: &Body, after: &Body) -> [Json; 2] {
    let mut secrets = Secrets::default();
    for body in [before, after] {
        if let Ok(value) = Json::parse(body.text()) {
            note_hidden(&value, &masked(body), &mut secrets);
        }
    }
    [before, after].map(|body| {
        let mut shown = masked(body);
        secrets.hide(&mut shown);
        shown
    })
}

/// Remembers the texts of whatever was masked.
fn note_hidden(value: &Json, shown: &Json, secrets: &mut Secrets) {
    match (value, shown) {
        (Json::Object(members), Json::Object(_)) => {
            for (name, member) in members {
                if let Some(shown) = shown.get(name) {
                    note_hidden(member, shown, secrets);
                }
            }
        }
        (Json::Array(items), Json::Array(shown)) => {
            items.iter().zip(shown).for_each(|(item, shown)| note_hidden(item, shown, secrets));
        }
        (_, Json::String(text)) if text == MASK => secrets.note(value),
        _ => {}
    }
}

fn set(value: &mut Json, name: &str) {
    if let Json::Object(members) = value {
        for (_, member) in members.iter_mut().filter(|(found, _)| found == name) {
            *member = Json::String(MASK.to_owned());
        }
    }
}

fn mask_instance(instance: &mut Json) {
    set(instance, "private");
    let paths = match instance.get("sensitive_attributes") {
        Some(Json::Array(paths)) => paths.clone(),
        _ => Vec::new(),
    };
    let Json::Object(members) = instance else {
        return;
    };
    for (name, attributes) in members.iter_mut() {
        if name == "attributes" || name == "attributes_flat" {
            let mut secrets = Secrets::default();
            for path in &paths {
                match steps(path) {
                    Some(steps) => mask_path(attributes, &steps, &mut secrets),
                    // A path that cannot be read may point anywhere.
                    None => *attributes = Json::String(MASK.to_owned()),
                }
            }
            secrets.hide(attributes);
        }
    }
}

/// Texts shorter than this are masked where they were marked, and nowhere else: they stand everywhere.
const SHORTEST_SECRET: usize = 4;

/// From this length on, a text that only contains the secret is masked, too.
const SHORTEST_WITHIN: usize = 8;

/// Texts that are secret, wherever they stand.
#[derive(Default)]
pub struct Secrets {
    texts: Vec<String>,
    /// What else a message may make of them.
    shapes: Vec<String>,
}

impl Secrets {
    /// Remembers a text.
    pub fn note_text(&mut self, text: &str) {
        if text.len() >= SHORTEST_SECRET && text != MASK {
            self.texts.push(text.to_owned());
            self.shapes.extend(shapes(text));
        }
    }

    /// A message of somebody who knew the secrets, without them: Terraform repeats the command of a provisioner that
    /// failed, and what it said, whatever is in it.
    #[must_use]
    pub fn hide_in(&self, message: &str) -> String {
        let known = self.texts.iter().chain(&self.shapes);
        let mut told: Vec<&String> = known.filter(|secret| message.contains(secret.as_str())).collect();
        // The longest first: one may be a part of another.
        told.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        told.into_iter().fold(message.to_owned(), |message, secret| message.replace(secret, MASK))
    }

    /// Remembers the texts of a sensitive value, and for messages its numbers, too.
    pub fn note(&mut self, value: &Json) {
        match value {
            Json::String(text) => self.note_text(text),
            Json::Number(number) if number.bytes().filter(u8::is_ascii_digit).count() >= SHORTEST_SECRET => {
                self.shapes.push(number.clone());
            }
            Json::Array(items) => items.iter().for_each(|item| self.note(item)),
            Json::Object(members) => members.iter().for_each(|(_, member)| self.note(member)),
            _ => {}
        }
    }

    /// Masks every text that is a secret, or holds a long one.
    pub fn hide(&self, value: &mut Json) {
        match value {
            Json::String(text) => {
                let told = |secret: &String| {
                    text == secret || secret.len() >= SHORTEST_WITHIN && text.contains(secret.as_str())
                };
                if self.texts.iter().any(told) {
                    *value = Json::String(MASK.to_owned());
                }
            }
            Json::Array(items) => items.iter_mut().for_each(|item| self.hide(item)),
            Json::Object(members) => members.iter_mut().for_each(|(_, member)| self.hide(member)),
            _ => {}
        }
    }
}

/// What a message may show of a text: without the space around it, line by line (Terraform's messages are trimmed and
/// indented), or as `jsonencode` writes it, which escapes the signs of HTML, and as other programs do, which do not.
fn shapes(text: &str) -> Vec<String> {
    let escaped = Json::String(text.to_owned()).to_string();
    let escaped = escaped.get(1..escaped.len() - 1).unwrap_or_default();
    let for_html = ["&", "<", ">"].iter().zip(["\\u0026", "\\u003c", "\\u003e"]);
    let for_html = for_html.fold(escaped.to_owned(), |text, (sign, code)| text.replace(sign, code));
    let lines = text.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_WITHIN);
    let mut shapes: Vec<String> =
        [text.trim(), escaped, &for_html].into_iter().chain(lines).map(str::to_owned).collect();
    shapes.retain(|shape| shape != text && shape.len() >= SHORTEST_SECRET);
    shapes.sort();
    shapes.dedup();
    shapes
}

/// Masks a value, and remembers the texts in it.
fn mask(value: &mut Json, secrets: &mut Secrets) {
    secrets.note(value);
    *value = Json::String(MASK.to_owned());
}

/// A path as the state writes it: steps of `get_attr` and `index`, by name or number.
fn steps(path: &Json) -> Option<Vec<String>> {
    let Json::Array(steps) = path else {
        return None;
    };
    steps
        .iter()
        .map(|step| match step.get("value")? {
            Json::String(name) => Some(name.clone()),
            Json::Object(_) => match step.get("value")?.get("value")? {
                Json::String(name) | Json::Number(name) => Some(name.clone()),
                _ => None,
            },
            Json::Number(index) => Some(index.clone()),
            _ => None,
        })
        .collect()
}

fn mask_path(value: &mut Json, steps: &[String], secrets: &mut Secrets) {
    let Some((first, rest)) = steps.split_first() else {
        mask(value, secrets);
        return;
    };
    match value {
        Json::Object(members) => {
            // An attribute of any type (as `input` of `terraform_data`) is wrapped: its value beside its type.
            let wrapped =
                members.len() == 2 && ["value", "type"].iter().all(|own| members.iter().any(|(n, _)| n == own));
            let mut found = false;
            for (name, member) in members.iter_mut() {
                if name == first {
                    found = true;
                    mask_path(member, rest, secrets);
                } else if wrapped && name == "value" {
                    found = true;
                    mask_path(member, steps, secrets);
                }
            }
            // A path that leads nowhere may mean anything here.
            if !found {
                mask(value, secrets);
            }
        }
        Json::Array(items) => match first.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
            Some(item) => mask_path(item, rest, secrets),
            // A set has no positions in JSON: all of it is masked.
            None => mask(value, secrets),
        },
        Json::Null => {}
        _ => mask(value, secrets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An instance with these attributes, of which the paths `[a, b]` are sensitive.
    fn shown(attributes: &str, paths: &[&[&str]]) -> String {
        let step = |name: &&str| format!(r#"{{"type":"get_attr","value":"{name}"}}"#);
        let path = |path: &&[&str]| format!("[{}]", path.iter().map(step).collect::<Vec<_>>().join(","));
        let paths = paths.iter().map(path).collect::<Vec<_>>().join(",");
        let text = format!(r#"{{"instances":[{{"attributes":{attributes},"sensitive_attributes":[{paths}]}}]}}"#);
        masked(&Body::new(text).unwrap()).to_string()
    }

    #[test]
    fn what_a_path_names_is_masked_and_the_rest_is_not() {
        let text = shown(r#"{"a":{"b":"hush","c":"open"}}"#, &[&["a", "b"]]);
        assert!(!text.contains("hush") && text.contains("open"), "{text}");
    }

    #[test]
    fn a_path_leads_through_the_wrapper_of_a_value_of_any_type() {
        let text = shown(r#"{"a":{"value":{"b":"hush","c":"open"},"type":["object",{"b":"string"}]}}"#, &[&["a", "b"]]);
        assert!(!text.contains("hush") && text.contains("open"), "{text}");
        let text = shown(r#"{"a":{"value":{"value":"hush","type":"open"},"type":"dynamic"}}"#, &[&["a", "value"]]);
        assert!(!text.contains("hush"), "{text}");
    }

    #[test]
    fn the_same_text_elsewhere_is_masked_too() {
        let text = shown(r#"{"a":{"b":"hush"},"z":"hush","y":"hushed","x":["hush"]}"#, &[&["a", "b"]]);
        assert!(!text.contains("\"hush\"") && text.contains("hushed"), "{text}");
        let text = shown(r#"{"a":{"b":"long secret"},"url":"https://long secret@host"}"#, &[&["a", "b"]]);
        assert!(!text.contains("long secret"), "{text}");
        let text = shown(r#"{"a":{"b":"on"},"z":"on"}"#, &[&["a", "b"]]);
        assert!(text.contains("\"z\":\"on\""), "{text}");
    }

    #[test]
    fn a_message_loses_its_secrets_and_nothing_else() {
        let mut secrets = Secrets::default();
        for text in ["hush", "hush-hush", "on", ""] {
            secrets.note_text(text);
        }
        let hidden = secrets.hide_in("running 'echo hush-hush on hush': exit status 3");
        assert_eq!(hidden, format!("running 'echo {MASK} on {MASK}': exit status 3"));
    }

    #[test]
    fn a_message_loses_what_was_made_of_its_secrets() {
        let mut secrets = Secrets::default();
        for text in ["last-line\n", "first of two\n  second of two  \nthree\n", "a&b<c>\"d\"", "\"in quotes\""] {
            secrets.note(&Json::String(text.to_owned()));
        }
        for number in ["80443", "-1234.5", "443", "1e9"] {
            secrets.note(&Json::Number(number.to_owned()));
        }
        for (message, hidden) in [
            ("Output: last-line", "Output: *"),
            ("  first of two\n  second of two\n", "  *\n  *\n"),
            (r#"{"x":"first of two\n  second of two  \nthree\n"}"#, r#"{"x":"*"}"#),
            (r#"{"x":"a\u0026b\u003cc\u003e\"d\""}"#, r#"{"x":"*"}"#),
            (r#"{"x":"a&b<c>\"d\""}"#, r#"{"x":"*"}"#),
            (r#"{"x":"\"in quotes\""}"#, r#"{"x":"*"}"#),
            ("port 80443, or -1234.5", "port *, or *"),
            ("port 443, 1e9 times, three", "port 443, 1e9 times, three"),
        ] {
            assert_eq!(secrets.hide_in(message), hidden.replace('*', MASK));
        }
        // What only a message is searched for hides nothing of a state.
        let mut state = Json::String("the first of two, and 80443".to_owned());
        secrets.hide(&mut state);
        assert_eq!(state, Json::String("the first of two, and 80443".to_owned()));
    }

    #[test]
    fn a_path_that_leads_nowhere_masks_everything_there() {
        let text = shown(r#"{"a":{"c":"hush"},"z":"open"}"#, &[&["a", "b"]]);
        assert!(!text.contains("hush") && text.contains("open"), "{text}");
    }
}
