//! Narrow or footprint: whether a thin slice is enough to plan the write set again (design §7, facts D).

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::address::{Address, ConfigAddress, Pattern};
use crate::domain::graph::closure::{CoarseEdges, downstream};
use crate::domain::graph::tree::{Item, Node, Tree};
use crate::domain::plan::spec::{PlanMode, PlanSpec, Scope, WriteEntry};

/// Above so many targets Terraform spends more time on them than on the whole plan (long facts 3.4).
pub const MAX_TARGETS: usize = 300;

/// How the slice is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// The write set and what it depends on.
    Narrow,
    /// All that the configuration describes.
    Footprint,
}

impl Lane {
    /// The stored word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Narrow => "narrow",
            Self::Footprint => "footprint",
        }
    }
}

/// The reasons why the narrow lane would not give the same plan; empty when it would.
///
/// `rows` are the instances in the trunk, by resource.
#[must_use]
pub fn footprint_reasons(
    tree: &Tree,
    edges: &[&CoarseEdges],
    scope: &Scope,
    write: &[WriteEntry],
    outputs: &[String],
    rows: &BTreeMap<ConfigAddress, Vec<Address>>,
) -> Vec<String> {
    let mut reasons = Vec::new();
    if scope.mode == PlanMode::Destroy {
        reasons.push("a destroy plan also removes outputs, which targets leave alone".to_owned());
    }
    if write.is_empty() && !outputs.is_empty() {
        reasons.push("only outputs change: there is no resource to target".to_owned());
    }
    let written: BTreeSet<&Address> = write.iter().map(|entry| &entry.address).collect();
    let resources: BTreeSet<ConfigAddress> = write.iter().map(|entry| entry.address.config()).collect();
    let inside = |resource: &ConfigAddress| {
        resources.contains(resource)
            && rows.get(resource).is_none_or(|instances| instances.iter().all(|instance| written.contains(instance)))
    };
    let replaced: Vec<Node> = write
        .iter()
        .filter(|entry| entry.actions.replaces())
        .map(|entry| Node::resource(&entry.address.config()))
        .collect();
    if !replaced.is_empty() {
        let dependents = downstream(edges, replaced);
        if let Some(other) = dependents.iter().filter_map(Node::as_resource).find(|resource| !inside(resource)) {
            reasons.push(format!("something is replaced that {other} depends on: the order could flip"));
        }
    }
    let changed = downstream(edges, resources.iter().map(Node::resource));
    if let Some(guard) =
        changed.iter().find(|node| guards(tree, node) && !node.as_resource().is_some_and(|r| inside(&r)))
    {
        reasons.push(format!("{guard} has conditions on what changes, and would be skipped"));
    }
    for (module, config) in tree.modules() {
        let looks = |reference| {
            tree.nodes_of(module, reference).iter().any(|node| {
                changed.contains(node) || node.as_resource().is_some_and(|resource| resources.contains(&resource))
            })
        };
        if let Some(check) = config.checks.iter().find(|check| check.references.iter().any(looks)) {
            reasons.push(format!("check.{} looks at what changes, and would be skipped", check.name));
        }
    }
    reasons
}

fn guards(tree: &Tree, node: &Node) -> bool {
    let Some(config) = tree.modules().get(&node.module) else {
        return false;
    };
    match &node.item {
        Item::Resource { .. } => {
            node.as_resource().and_then(|resource| tree.block(&resource)).is_some_and(|b| b.conditions)
        }
        Item::Output(name) => config.outputs.iter().any(|output| output.name == *name && output.conditions),
        _ => false,
    }
}

/// The addresses that limit a plan to the write set: both ends of a move, and everything that a changed output
/// depends on. None when no list of targets can do it.
#[must_use]
pub fn targets(spec: &PlanSpec) -> Option<Vec<String>> {
    if spec.scope.mode == PlanMode::Destroy || spec.lane.untargetable_outputs {
        return None;
    }
    let mut targets: Vec<Pattern> = spec.lane.output_targets.iter().map(Pattern::from).collect();
    for entry in &spec.write {
        targets.push(Pattern::Resource(entry.address.clone()));
        targets.extend(entry.moved_from.clone().map(Pattern::Resource));
    }
    targets.sort();
    targets.dedup();
    let kept: Vec<String> = targets.iter().map(ToString::to_string).collect();
    (!kept.is_empty() && kept.len() <= MAX_TARGETS).then_some(kept)
}
