//! Edges from the `configuration` member of plan JSON, between whole blocks.
//!
//! It lacks locals, conditions and `replace_triggered_by` (facts C6), but it is Terraform's own reading of every
//! syntax, and so a check on ours.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::closure::CoarseEdges;
use super::configuration::{Step, Traversal};
use super::tree::{Item, Node, Tree};
use crate::domain::address::{ConfigModule, Key, Mode, ModulePath};
use crate::domain::json::Json;

#[derive(Deserialize)]
struct Configuration<'a> {
    #[serde(borrow, default)]
    provider_config: BTreeMap<String, ProviderConfig<'a>>,
    #[serde(borrow)]
    root_module: Module<'a>,
}

#[derive(Deserialize)]
struct ProviderConfig<'a> {
    #[serde(default)]
    name: String,
    #[serde(default)]
    alias: Option<String>,
    #[serde(default)]
    module_address: String,
    #[serde(borrow, default)]
    expressions: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct Module<'a> {
    #[serde(borrow, default)]
    resources: Vec<Resource<'a>>,
    #[serde(borrow, default)]
    outputs: BTreeMap<String, &'a RawValue>,
    #[serde(borrow, default, rename = "module_calls")]
    calls: BTreeMap<String, Call<'a>>,
}

#[derive(Deserialize)]
struct Resource<'a> {
    mode: String,
    #[serde(rename = "type")]
    type_name: String,
    name: String,
    #[serde(default)]
    provider_config_key: String,
    #[serde(borrow, default)]
    expressions: Option<&'a RawValue>,
    #[serde(borrow, default)]
    count_expression: Option<&'a RawValue>,
    #[serde(borrow, default)]
    for_each_expression: Option<&'a RawValue>,
    #[serde(borrow, default)]
    provisioners: Option<&'a RawValue>,
    #[serde(default)]
    depends_on: Vec<String>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    expressions: BTreeMap<String, &'a RawValue>,
    #[serde(borrow, default)]
    count_expression: Option<&'a RawValue>,
    #[serde(borrow, default)]
    for_each_expression: Option<&'a RawValue>,
    #[serde(default)]
    depends_on: Vec<String>,
    #[serde(borrow, default)]
    module: Option<Box<Module<'a>>>,
}

/// Reads the edges; `tree` says which names are resources.
///
/// # Errors
/// When it is not the JSON that Terraform prints.
pub fn plan_edges(tree: &Tree, configuration: &RawValue) -> Result<CoarseEdges, serde_json::Error> {
    let configuration: Configuration<'_> = serde_json::from_str(configuration.get())?;
    let mut reader = Reader { tree, edges: CoarseEdges::new(), providers: BTreeMap::new() };
    for (key, provider) in &configuration.provider_config {
        let module = ModulePath::parse(&provider.module_address).unwrap_or_default().config();
        let name = match &provider.alias {
            Some(alias) => format!("{}.{alias}", provider.name),
            None => provider.name.clone(),
        };
        let node = Node { module: module.clone(), item: Item::Provider(name) };
        reader.add(node.clone(), &module, &[provider.expressions], &[]);
        reader.providers.insert(key.clone(), node);
    }
    reader.module(&ConfigModule::root(), &configuration.root_module);
    Ok(reader.edges)
}

struct Reader<'t> {
    tree: &'t Tree,
    edges: CoarseEdges,
    providers: BTreeMap<String, Node>,
}

impl Reader<'_> {
    fn module(&mut self, at: &ConfigModule, module: &Module<'_>) {
        for resource in &module.resources {
            let mode = match resource.mode.as_str() {
                "data" => Mode::Data,
                "ephemeral" => Mode::Ephemeral,
                _ => Mode::Managed,
            };
            let item = Item::Resource { mode, type_name: resource.type_name.clone(), name: resource.name.clone() };
            let node = Node { module: at.clone(), item };
            let parts =
                [resource.expressions, resource.count_expression, resource.for_each_expression, resource.provisioners];
            self.add(node.clone(), at, &parts, &resource.depends_on);
            if let Some(provider) = self.providers.get(&resource.provider_config_key).cloned() {
                self.edges.entry(node.clone()).or_default().insert(provider);
            }
            if let Some((parent, call)) = at.parent() {
                let call = Node { module: parent, item: Item::Call(call.to_owned()) };
                self.edges.entry(node).or_default().insert(call);
            }
        }
        for (name, output) in &module.outputs {
            let node = Node { module: at.clone(), item: Item::Output(name.clone()) };
            self.add(node, at, &[Some(output)], &[]);
        }
        for (name, call) in &module.calls {
            let node = Node { module: at.clone(), item: Item::Call(name.clone()) };
            self.add(node.clone(), at, &[call.count_expression, call.for_each_expression], &call.depends_on);
            if let Some((parent, above)) = at.parent() {
                let above = Node { module: parent, item: Item::Call(above.to_owned()) };
                self.edges.entry(node).or_default().insert(above);
            }
            let child = at.child(name);
            for (input, expression) in &call.expressions {
                let node = Node { module: child.clone(), item: Item::Input(input.clone()) };
                self.add(node, at, &[Some(expression)], &[]);
            }
            if let Some(module) = &call.module {
                self.module(&child, module);
            }
        }
    }

    /// Adds what the expressions refer to, and `depends_on`, as seen from a module.
    fn add(&mut self, node: Node, scope: &ConfigModule, expressions: &[Option<&RawValue>], depends_on: &[String]) {
        let mut texts: Vec<String> = depends_on.to_vec();
        for expression in expressions.iter().flatten() {
            if let Ok(value) = Json::from_raw(expression) {
                references(&value, &mut texts);
            }
        }
        let mut found = Vec::new();
        for text in &texts {
            if let Some(reference) = traversal(text) {
                // `module.a` comes along with every `module.a.output`; alone it would mean the module as a whole.
                let whole_call = reference.root == "module"
                    && !reference.steps.iter().skip(1).any(|step| matches!(step, Step::Attr(_)));
                if !whole_call || depends_on.contains(text) || !has_longer(&texts, text) {
                    self.tree.resolve(scope, &reference, &mut found);
                }
            }
        }
        self.edges.entry(node).or_default().extend(found.into_iter().map(|upstream| upstream.node));
    }
}

fn has_longer(texts: &[String], text: &str) -> bool {
    texts
        .iter()
        .any(|other| other.len() > text.len() && other.starts_with(text) && other[text.len()..].starts_with(['.', '[']))
}

/// Every `references` and `depends_on` list anywhere in an expression.
fn references(value: &Json, out: &mut Vec<String>) {
    match value {
        Json::Object(members) => {
            for (name, value) in members {
                match value {
                    Json::Array(items) if name == "references" || name == "depends_on" => {
                        out.extend(items.iter().filter_map(Json::as_str).map(str::to_owned));
                    }
                    other => references(other, out),
                }
            }
        }
        Json::Array(items) => items.iter().for_each(|item| references(item, out)),
        _ => {}
    }
}

/// Reads a reference as plan JSON spells it.
fn traversal(text: &str) -> Option<Traversal> {
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (root, mut rest) = text.split_at(end);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (name, more) = after.split_at(end);
            steps.push(if name == "*" { Step::Any } else { Step::Attr(name.to_owned()) });
            rest = more;
        } else {
            let (key, more) = bracketed(rest)?;
            steps.push(key);
            rest = more;
        }
    }
    Some(Traversal { root: root.to_owned(), steps })
}

/// The index at the start of a text that begins with `[`.
fn bracketed(text: &str) -> Option<(Step, &str)> {
    let inner = text.strip_prefix('[')?;
    if !inner.starts_with('"') {
        let end = inner.find(']')?;
        let step = inner[..end].parse().map_or(Step::Any, |index| Step::Index(Key::Int(index)));
        return Some((step, &inner[end + 1..]));
    }
    let mut escaped = false;
    for (at, letter) in inner.char_indices().skip(1) {
        match letter {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => {
                let rest = inner[at + 1..].strip_prefix(']')?;
                let name = format!("x.y[{}]", &inner[..=at]);
                let key = crate::domain::address::Address::parse(&name).ok()?.key?;
                return Some((Step::Index(key), rest));
            }
            _ => escaped = false,
        }
    }
    None
}
