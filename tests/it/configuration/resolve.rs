//! References to edges, in the plainest way that Terraform's own rules allow.

use std::collections::BTreeSet;

use kl_runner::domain::address::{ConfigAddress, ConfigModule, Mode};
use kl_runner::domain::graph::configuration::{CallBlock, ModuleConfig, Step, Traversal};
use kl_runner::domain::graph::dot::GraphNode;

use super::Edges;

/// The edges between everything that the modules declare.
pub(crate) fn edges(modules: &[(ConfigModule, ModuleConfig)]) -> Edges {
    let mut edges = Edges::new();
    for (module, config) in modules {
        add_module(module, config, &mut edges);
    }
    // What nobody declares is no node: a reference to it is an error, or no reference at all.
    let declared: BTreeSet<GraphNode> = edges.keys().cloned().collect();
    for targets in edges.values_mut() {
        targets.retain(|target| declared.contains(target));
    }
    edges
}

fn add_module(module: &ConfigModule, config: &ModuleConfig, edges: &mut Edges) {
    let begin = (!module.0.is_empty()).then(|| GraphNode::ModuleExpand(module.clone()));
    let end = GraphNode::ModuleClose(module.clone());
    let mut add = |node: GraphNode, references: &[Traversal], extra: Option<GraphNode>| {
        edges.entry(end.clone()).or_default().insert(node.clone());
        let targets = edges.entry(node).or_default();
        targets.extend(references.iter().filter_map(|reference| target(module, reference)));
        targets.extend(extra);
    };
    for block in &config.resources {
        add(resource(module, block.mode, &block.type_name, &block.name), &block.references, begin.clone());
    }
    for block in &config.outputs {
        add(GraphNode::Output(module.clone(), block.name.clone()), &block.references, begin.clone());
    }
    for (name, references) in &config.locals {
        add(GraphNode::Local(module.clone(), name.clone()), references, begin.clone());
    }
    for block in &config.variables {
        add(GraphNode::Input(module.clone(), block.name.clone()), &block.references, begin.clone());
    }
    for block in &config.calls {
        add_call(module, block, &mut add);
    }
    for block in &config.imports {
        let (inside, rest) = into_modules(module, &block.to);
        if let Some(node) = target(&inside, &rest) {
            let targets = edges.entry(node).or_default();
            targets.extend(block.references.iter().filter_map(|reference| target(module, reference)));
        }
    }
}

fn add_call(module: &ConfigModule, call: &CallBlock, add: &mut impl FnMut(GraphNode, &[Traversal], Option<GraphNode>)) {
    let inside = module.child(&call.name);
    let outer = (!module.0.is_empty()).then(|| GraphNode::ModuleExpand(module.clone()));
    add(GraphNode::ModuleExpand(inside.clone()), &call.repetition, outer.clone());
    add(GraphNode::ModuleExpand(inside.clone()), &call.depends_on, outer);
    add(GraphNode::ModuleClose(inside.clone()), &[], None);
    for (name, references) in &call.inputs {
        add(GraphNode::Input(inside.clone(), name.clone()), references, None);
    }
}

fn resource(module: &ConfigModule, mode: Mode, type_name: &str, name: &str) -> GraphNode {
    let (type_name, name) = (type_name.to_owned(), name.to_owned());
    GraphNode::Resource(ConfigAddress { module: module.clone(), mode, type_name, name })
}

/// The address of an import leads into modules step by step.
fn into_modules(module: &ConfigModule, to: &Traversal) -> (ConfigModule, Traversal) {
    let mut module = module.clone();
    let mut names: Vec<&str> = vec![&to.root];
    names.extend(to.steps.iter().filter_map(attribute));
    while let ["module", call, ..] = names.as_slice() {
        module = module.child(call);
        names.drain(..2);
    }
    let steps = names[1..].iter().map(|name| Step::Attr((*name).to_owned())).collect();
    (module, Traversal { root: names[0].to_owned(), steps })
}

fn attribute(step: &Step) -> Option<&str> {
    match step {
        Step::Attr(name) => Some(name),
        _ => None,
    }
}

/// The node that a reference in this module is about.
fn target(module: &ConfigModule, reference: &Traversal) -> Option<GraphNode> {
    let own = |name: &str| name.to_owned();
    match (reference.root.as_str(), reference.steps.as_slice()) {
        ("local", [Step::Attr(name), ..]) => Some(GraphNode::Local(module.clone(), own(name))),
        ("var", [Step::Attr(name), ..]) => Some(GraphNode::Input(module.clone(), own(name))),
        (
            "module",
            [Step::Attr(call), Step::Attr(output), ..] | [Step::Attr(call), Step::Index(_), Step::Attr(output), ..],
        ) => Some(GraphNode::Output(module.child(call), own(output))),
        ("module", [Step::Attr(call), ..]) => Some(GraphNode::ModuleClose(module.child(call))),
        ("data", [Step::Attr(type_name), Step::Attr(name), ..]) => Some(resource(module, Mode::Data, type_name, name)),
        ("ephemeral", [Step::Attr(type_name), Step::Attr(name), ..]) => {
            Some(resource(module, Mode::Ephemeral, type_name, name))
        }
        (type_name, [Step::Attr(name), ..]) => Some(resource(module, Mode::Managed, type_name, name)),
        _ => None,
    }
}
