//! Blocks to declarations: what each kind of block says, and which of its parts are references.

use std::collections::BTreeMap;

use super::block::{Block, Body};
use super::value::{Trouble, Value};
use super::{
    CallBlock, CheckBlock, Form, ImportBlock, ModuleConfig, OutputBlock, ResourceBlock, Step, Traversal, VariableBlock,
};
use crate::domain::address::Mode;

/// Understands the merged blocks of a module.
pub(super) fn module(blocks: Vec<Block>) -> Result<ModuleConfig, Trouble> {
    let mut module = ModuleConfig::default();
    let mut actions: BTreeMap<(String, String), Vec<Traversal>> = BTreeMap::new();
    for block in blocks {
        match block.kind.as_str() {
            "resource" => module.resources.push(resource(&block, Mode::Managed)?),
            "data" => module.resources.push(resource(&block, Mode::Data)?),
            "ephemeral" => module.resources.push(resource(&block, Mode::Ephemeral)?),
            "module" => module.calls.push(call(block)?),
            "output" => module.outputs.push(output(block)?),
            "variable" => module.variables.push(variable(&block)?),
            "check" => check(block, &mut module)?,
            "locals" => {
                for (name, value) in &block.body.attributes {
                    value.references(module.locals.entry(name.clone()).or_default())?;
                }
            }
            "provider" => {
                let [name] = labels(&block)?;
                let alias = block.body.attribute("alias").and_then(Value::word);
                let key = alias.map_or_else(|| name.clone(), |alias| format!("{name}.{alias}"));
                block.body.references(module.providers.entry(key).or_default())?;
            }
            "import" => module.imports.extend(import(&block)?),
            "moved" => {
                let from = block.body.attribute("from").and_then(|value| value.path(&mut Vec::new()));
                let to = block.body.attribute("to").and_then(|value| value.path(&mut Vec::new()));
                module.moves.extend(from.zip(to));
            }
            "removed" => {
                let from = block.body.attribute("from").and_then(|value| value.path(&mut Vec::new()));
                module.removals.extend(from);
            }
            "terraform" => {
                let mut kinds = block.body.blocks.iter().filter_map(|child| match &*child.kind {
                    "backend" => child.labels.first().cloned(),
                    "cloud" => Some("cloud".to_owned()),
                    _ => None,
                });
                module.backend = kinds.next_back().or(module.backend.take());
                let last = block.body.blocks.iter().rfind(|child| matches!(&*child.kind, "backend" | "cloud"));
                if let Some(last) = last {
                    module.has_backend = true;
                    module.backend_sets = last.body.attributes.iter().map(|(name, _)| name.clone()).collect();
                }
            }
            "action" => {
                let [type_name, name] = labels(&block)?;
                block.body.references(actions.entry((type_name, name)).or_default())?;
            }
            // Anything else is of a version to come, or an error that Terraform words better.
            _ => {}
        }
    }
    follow_actions(&mut module, &actions);
    tidy(&mut module);
    Ok(module)
}

/// The labels of a block that must have exactly so many.
fn labels<const COUNT: usize>(block: &Block) -> Result<[String; COUNT], Trouble> {
    block
        .labels
        .clone()
        .try_into()
        .map_err(|_| block.trouble(format!("a {:?} block must have {COUNT} label(s)", block.kind)))
}

fn resource(block: &Block, mode: Mode) -> Result<ResourceBlock, Trouble> {
    let [type_name, name] = labels(block)?;
    let mut out = ResourceBlock {
        mode,
        type_name,
        name,
        place: block.place.clone(),
        references: Vec::new(),
        provider: None,
        conditions: false,
        create_before_destroy: false,
        repeated: false,
    };
    for (name, value) in &block.body.attributes {
        match name.as_str() {
            "provider" => out.provider = value.provider(&mut out.references),
            "depends_on" => value.named(&mut out.references)?,
            _ => value.references(&mut out.references)?,
        }
        out.repeated |= matches!(name.as_str(), "count" | "for_each");
    }
    for child in &block.body.blocks {
        if child.kind == "lifecycle" {
            lifecycle(&child.body, &mut out)?;
        } else {
            child.references(&mut out.references)?;
        }
    }
    Ok(out)
}

fn lifecycle(body: &Body, out: &mut ResourceBlock) -> Result<(), Trouble> {
    for (name, value) in &body.attributes {
        match name.as_str() {
            // Names of attributes of this very resource.
            "ignore_changes" => {}
            "replace_triggered_by" => value.named(&mut out.references)?,
            _ => value.references(&mut out.references)?,
        }
    }
    for child in &body.blocks {
        out.conditions |= is_condition(child);
        for (name, value) in &child.body.attributes {
            if child.kind == "action_trigger" && name == "actions" {
                value.named(&mut out.references)?;
            } else {
                value.references(&mut out.references)?;
            }
        }
    }
    // With an override there are several lifecycle blocks, and the last one that says something counts.
    if let Some(value) = body.attribute("create_before_destroy") {
        out.create_before_destroy = value.is_true();
    }
    Ok(())
}

fn is_condition(block: &Block) -> bool {
    matches!(block.kind.as_str(), "precondition" | "postcondition")
}

fn call(block: Block) -> Result<CallBlock, Trouble> {
    let [name] = labels(&block)?;
    let source = block.body.attribute("source").and_then(Value::text).map(str::to_owned);
    let mut out = CallBlock {
        name,
        place: block.place,
        source,
        inputs: BTreeMap::new(),
        repeated: false,
        repetition: Vec::new(),
        depends_on: Vec::new(),
        providers: BTreeMap::new(),
    };
    for (name, value) in block.body.attributes {
        match name.as_str() {
            // OpenTofu allows variables in these two. They are known before there is a graph, and give no edge.
            "source" | "version" => {}
            "count" | "for_each" => {
                out.repeated = true;
                value.references(&mut out.repetition)?;
            }
            "depends_on" => value.named(&mut out.depends_on)?,
            "providers" => out.providers.extend(value.providers(&mut out.repetition)),
            _ => value.references(out.inputs.entry(name).or_default())?,
        }
    }
    for child in &block.body.blocks {
        // OpenTofu's `lifecycle { enabled = … }` says how often the module is there.
        child.references(&mut out.repetition)?;
    }
    Ok(out)
}

fn output(block: Block) -> Result<OutputBlock, Trouble> {
    let [name] = labels(&block)?;
    let mut references = Vec::new();
    for (name, value) in &block.body.attributes {
        if name == "depends_on" {
            value.named(&mut references)?;
        } else {
            value.references(&mut references)?;
        }
    }
    for child in &block.body.blocks {
        child.references(&mut references)?;
    }
    let conditions = block.body.blocks.iter().any(is_condition);
    Ok(OutputBlock { name, place: block.place, references, conditions })
}

fn variable(block: &Block) -> Result<VariableBlock, Trouble> {
    let [name] = labels(block)?;
    let mut references = Vec::new();
    // The attributes are a type and literals; only validations are expressions.
    for child in block.body.blocks.iter().filter(|child| child.kind == "validation") {
        child.references(&mut references)?;
    }
    references.retain(|traversal| {
        let itself = matches!(traversal.steps.first(), Some(Step::Attr(variable)) if *variable == name);
        traversal.root != "var" || !itself
    });
    let ephemeral = block.body.attribute("ephemeral").is_some_and(Value::is_true);
    let sensitive = block.body.attribute("sensitive").is_some_and(Value::is_true);
    let has_default = block.body.attribute("default").is_some();
    Ok(VariableBlock { name, ephemeral, sensitive, has_default, form: Form::of(block), references })
}

fn check(block: Block, module: &mut ModuleConfig) -> Result<(), Trouble> {
    let [name] = labels(&block)?;
    let mut references = Vec::new();
    for child in &block.body.blocks {
        if child.kind == "data" {
            let data = resource(child, Mode::Data)?;
            references.extend(data.references.iter().cloned());
            let steps = vec![Step::Attr(data.type_name.clone()), Step::Attr(data.name.clone())];
            references.push(Traversal { root: "data".to_owned(), steps });
            module.resources.push(data);
        } else {
            child.references(&mut references)?;
        }
    }
    module.checks.push(CheckBlock { name, place: block.place, references });
    Ok(())
}

/// None where `to` is missing or no address, which Terraform reports.
fn import(block: &Block) -> Result<Option<ImportBlock>, Trouble> {
    let mut references = Vec::new();
    let mut to = None;
    for (name, value) in &block.body.attributes {
        match name.as_str() {
            "to" => to = value.path(&mut references),
            "provider" => {
                value.provider(&mut references);
            }
            _ => value.references(&mut references)?,
        }
    }
    for child in &block.body.blocks {
        child.references(&mut references)?;
    }
    Ok(to.map(|to| ImportBlock { to, references }))
}

/// A resource that triggers an action reads what the action's block refers to.
fn follow_actions(module: &mut ModuleConfig, actions: &BTreeMap<(String, String), Vec<Traversal>>) {
    if actions.is_empty() {
        return;
    }
    for resource in &mut module.resources {
        let mut added = Vec::new();
        for traversal in resource.references.iter().filter(|traversal| traversal.root == "action") {
            if let [Step::Attr(type_name), Step::Attr(name), ..] = traversal.steps.as_slice() {
                added.extend(actions.get(&(type_name.clone(), name.clone())).into_iter().flatten().cloned());
            }
        }
        resource.references.extend(added);
    }
}

/// Puts every list of references in order, each of them once.
fn tidy(module: &mut ModuleConfig) {
    let resources = module.resources.iter_mut().map(|block| &mut block.references);
    let outputs = module.outputs.iter_mut().map(|block| &mut block.references);
    let variables = module.variables.iter_mut().map(|block| &mut block.references);
    let checks = module.checks.iter_mut().map(|block| &mut block.references);
    let imports = module.imports.iter_mut().map(|block| &mut block.references);
    let calls = module
        .calls
        .iter_mut()
        .flat_map(|call| call.inputs.values_mut().chain([&mut call.repetition, &mut call.depends_on]));
    let maps = module.locals.values_mut().chain(module.providers.values_mut());
    for list in resources.chain(outputs).chain(variables).chain(checks).chain(imports).chain(calls).chain(maps) {
        list.sort_unstable();
        list.dedup();
    }
}
