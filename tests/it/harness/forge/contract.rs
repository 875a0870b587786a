//! The official API descriptions as a judge of requests and answers.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::{Draft, Validator};
use serde_json::{Map, Value, json};

/// An API description.
pub(crate) struct Contract {
    document: Value,
    /// GitLab's description calls no member of an answer nullable, though many are.
    forgiving: bool,
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

static GITHUB: LazyLock<Contract> =
    LazyLock::new(|| Contract::read(&[include_str!("../../../fixtures/api/github.json")], false));
static GITLAB: LazyLock<Contract> = LazyLock::new(|| {
    Contract::read(
        &[include_str!("../../../fixtures/api/gitlab.json"), include_str!("../../../fixtures/api/gitlab-more.json")],
        true,
    )
});

/// A request's place in the description.
pub(super) struct Operation<'a> {
    pointer: String,
    value: &'a Value,
}

impl Contract {
    pub(super) fn github() -> &'static Self {
        &GITHUB
    }

    pub(super) fn gitlab() -> &'static Self {
        &GITLAB
    }

    fn read(texts: &[&str], forgiving: bool) -> Self {
        let mut document = Value::Null;
        for text in texts {
            let part: Value = serde_json::from_str(text).unwrap();
            if document.is_null() {
                document = part;
            } else {
                let more = part["paths"].as_object().unwrap().clone();
                document["paths"].as_object_mut().unwrap().extend(more);
            }
        }
        translate(&mut document);
        Self { document, forgiving, validators: Mutex::default() }
    }

    /// An example of the description, to make answers from.
    pub(super) fn example(&self, name: &str) -> Value {
        self.document["components"]["examples"][name]["value"].clone()
    }

    /// Follows a reference, if it is one.
    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.document.pointer(&reference[1..]).unwrap(),
            None => value,
        }
    }

    /// Finds what the description says of a request.
    pub(super) fn operation(&self, method: &str, path: &str) -> Option<Operation<'_>> {
        let segments: Vec<&str> = path.split('/').collect();
        let mut best: Option<(usize, &String, &Value)> = None;
        for (template, item) in self.document["paths"].as_object().unwrap() {
            let parts: Vec<&str> = template.split('/').collect();
            let fits = parts.len() == segments.len()
                && parts
                    .iter()
                    .zip(&segments)
                    .all(|(part, segment)| if part.starts_with('{') { !segment.is_empty() } else { part == segment });
            let literal = parts.iter().filter(|part| !part.starts_with('{')).count();
            if fits
                && let Some(operation) = item.get(method.to_lowercase())
                && best.is_none_or(|(count, ..)| literal > count)
            {
                best = Some((literal, template, operation));
            }
        }
        best.map(|(_, template, value)| Operation { pointer: format!("{} {template}", method.to_lowercase()), value })
    }

    /// What is wrong with a request.
    pub(super) fn request_faults(
        &self,
        operation: &Operation<'_>,
        query: &[(String, String)],
        body: Option<&Value>,
    ) -> Vec<String> {
        let mut faults = Vec::new();
        let none = Vec::new();
        let parameters: Vec<&Value> =
            operation.value["parameters"].as_array().unwrap_or(&none).iter().map(|it| self.resolved(it)).collect();
        let in_query = |parameter: &&&Value| parameter["in"] == "query";
        for (name, value) in query {
            let Some(parameter) = parameters.iter().filter(in_query).find(|parameter| parameter["name"] == *name)
            else {
                faults.push(format!("no parameter `{name}` is described"));
                continue;
            };
            let key = format!("{} ?{name}", operation.pointer);
            let readings = [json!(value), serde_json::from_str(value).unwrap_or_else(|_| json!(value))];
            let schema = &parameter["schema"];
            if readings.iter().all(|reading| self.violations(&key, schema, reading, false).is_some()) {
                faults.push(format!("`{name}={value}` is not what is described"));
            }
        }
        for parameter in parameters.iter().filter(in_query).filter(|parameter| parameter["required"] == true) {
            if !query.iter().any(|(name, _)| parameter["name"] == *name) {
                faults.push(format!("the parameter {} is missing", parameter["name"]));
            }
        }
        let schema = &operation.value["requestBody"]["content"]["application/json"]["schema"];
        match body {
            None if operation.value["requestBody"]["required"] == true => faults.push("the body is missing".into()),
            Some(_) if schema.is_null() => faults.push("no body is described".into()),
            Some(body) => {
                faults.extend(self.violations(&format!("{} body", operation.pointer), schema, body, false));
                faults.extend(self.unknown_members(schema, body));
            }
            None => {}
        }
        faults
    }

    /// What is wrong with an answer. Errors have no shape that all of them keep to; successes do.
    pub(super) fn answer_faults(&self, operation: &Operation<'_>, status: u16, body: &Value) -> Vec<String> {
        let responses = &operation.value["responses"];
        // GitLab describes 200 for what answers 201.
        let described = match status {
            201 if responses.get("201").is_none() && self.forgiving => &responses["200"],
            200..=299 => &responses[status.to_string()],
            _ => return Vec::new(),
        };
        if described.is_null() {
            return vec![format!("no answer {status} is described")];
        }
        let schema = &self.resolved(described)["content"]["application/json"]["schema"];
        let mut faults: Vec<String> = self
            .violations(&format!("{} {status}", operation.pointer), schema, body, self.forgiving)
            .into_iter()
            .collect();
        if self.forgiving {
            faults.extend(self.unknown_members(schema, body));
        }
        faults
    }

    /// Members that the description does not have: JSON Schema would let them pass, a forge ignores them.
    fn unknown_members(&self, schema: &Value, value: &Value) -> Vec<String> {
        let schema = self.resolved(schema);
        match value {
            Value::Array(items) => {
                items.first().map(|item| self.unknown_members(&schema["items"], item)).unwrap_or_default()
            }
            Value::Object(members) => match schema["properties"].as_object() {
                Some(known) => members
                    .keys()
                    .filter(|name| !known.contains_key(*name))
                    .map(|name| format!("no member `{name}` is described"))
                    .collect(),
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn violations(&self, key: &str, schema: &Value, value: &Value, forgiving: bool) -> Option<String> {
        let validator = Arc::clone(
            self.validators.lock().unwrap().entry(key.to_owned()).or_insert_with(|| self.validator(schema, forgiving)),
        );
        let found: Vec<String> = validator
            .iter_errors(value)
            .take(5)
            .map(|error| format!("{}: {error}", error.instance_path()).chars().take(400).collect())
            .collect();
        (!found.is_empty()).then(|| found.join("; "))
    }

    fn validator(&self, schema: &Value, forgiving: bool) -> Arc<Validator> {
        let mut root = Map::new();
        root.insert("allOf".into(), json!([schema]));
        root.insert("components".into(), json!({ "schemas": self.document["components"]["schemas"] }));
        let mut root = Value::Object(root);
        if forgiving {
            forgive(&mut root);
        }
        Arc::new(jsonschema::options().with_draft(Draft::Draft7).build(&root).unwrap())
    }
}

/// From `OpenAPI` 3.0 to JSON Schema: `nullable` is a type there.
fn translate(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(translate),
        Value::Object(members) => {
            members.iter_mut().filter(|(name, _)| *name != "examples").for_each(|(_, member)| translate(member));
            if members.remove("nullable") == Some(Value::Bool(true)) {
                nullable(members);
            }
        }
        _ => {}
    }
}

fn nullable(members: &mut Map<String, Value>) {
    if let Some(values) = members.get_mut("enum").and_then(Value::as_array_mut) {
        values.push(Value::Null);
    }
    if let Some(kind @ Value::String(_)) = members.get_mut("type") {
        *kind = json!([kind.clone(), "null"]);
    } else if !members.contains_key("type") {
        let inner = Value::Object(std::mem::take(members));
        members.insert("anyOf".into(), json!([inner, { "type": "null" }]));
    }
}

/// Every property may be null.
fn forgive(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(forgive),
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if name == "properties" && member.is_object() {
                    for (_, property) in member.as_object_mut().unwrap().iter_mut() {
                        forgive(property);
                        let inner = property.take();
                        *property = json!({ "anyOf": [inner, { "type": "null" }] });
                    }
                } else {
                    forgive(member);
                }
            }
        }
        _ => {}
    }
}

/// `top` laid over `base`, member by member; lists are replaced.
pub(super) fn over(base: Value, top: Value) -> Value {
    match (base, top) {
        (Value::Object(mut base), Value::Object(top)) => {
            for (name, value) in top {
                let below = base.remove(&name).unwrap_or(Value::Null);
                base.insert(name, over(below, value));
            }
            Value::Object(base)
        }
        (_, top) => top,
    }
}
