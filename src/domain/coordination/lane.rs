//! Narrow or footprint: whether a thin slice is enough to plan the write set again (design §7, facts D).

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::address::{Address, ConfigAddress, Mode, Pattern};
use crate::domain::graph::closure::{CoarseEdges, downstream, sources};
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

/// What the narrow lane would miss, and how the footprint lane makes good for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beyond {
    /// Why the narrow lane would not give the same plan; empty when it would.
    pub reasons: Vec<String>,
    /// Dependents to plan as well, although nothing about them changes: their replacement order or their conditions
    /// bear on the write set, and Terraform looks at them only when they are targets.
    pub dependents: Vec<ConfigAddress>,
    /// Conditions that Terraform evaluates only in a plan without any target: those of outputs of child modules.
    pub untargetable: bool,
    /// `check` blocks, which Terraform evaluates only in a plan without any target, too; they never stop an apply.
    pub checks: bool,
}

/// Looks beyond the write set: at what depends on it.
///
/// `rows` are the instances in the trunk, by resource.
#[must_use]
pub fn beyond(
    tree: &Tree,
    edges: &[&CoarseEdges],
    scope: &Scope,
    write: &[WriteEntry],
    outputs: &[String],
    rows: &BTreeMap<ConfigAddress, Vec<Address>>,
) -> Beyond {
    let mut found = Beyond::default();
    if scope.mode == PlanMode::Destroy {
        found.reasons.push("a destroy plan also removes outputs, which targets leave alone".to_owned());
        return found;
    }
    if write.is_empty() && !outputs.is_empty() {
        found.reasons.push("only outputs change: there is no resource to target".to_owned());
    }
    let written: BTreeSet<&Address> = write.iter().map(|entry| &entry.address).collect();
    let resources: BTreeSet<ConfigAddress> = write.iter().map(|entry| entry.address.config()).collect();
    let inside = |resource: &ConfigAddress| {
        resources.contains(resource)
            && rows.get(resource).is_none_or(|instances| instances.iter().all(|instance| written.contains(instance)))
    };
    let mut dependents: BTreeSet<ConfigAddress> = BTreeSet::new();
    let replaced: Vec<Node> = write
        .iter()
        .filter(|entry| entry.actions.replaces())
        .map(|entry| Node::resource(&entry.address.config()))
        .collect();
    let bystanders: Vec<ConfigAddress> = downstream(edges, replaced)
        .iter()
        .filter_map(Node::as_resource)
        .filter(|resource| resource.mode == Mode::Managed && !inside(resource))
        .collect();
    if let Some(other) = bystanders.first() {
        found.reasons.push(format!("something is replaced that {other} depends on: the order could flip"));
    }
    dependents.extend(bystanders);
    let changed = downstream(edges, resources.iter().map(Node::resource));
    let guarded: Vec<&Node> = changed
        .iter()
        .filter(|node| guards(tree, node) && !node.as_resource().is_some_and(|resource| inside(&resource)))
        .collect();
    if let Some(guard) = guarded.first() {
        found.reasons.push(format!("{guard} has conditions on what changes, and would be skipped"));
    }
    for guard in guarded {
        match guard.as_resource() {
            Some(resource) => drop(dependents.insert(resource)),
            // A root output is evaluated when everything that it depends on is a target.
            None if guard.module.0.is_empty() => dependents.extend(
                sources(edges, guard).iter().filter_map(Node::as_resource).filter(|r| r.mode != Mode::Ephemeral),
            ),
            None => found.untargetable = true,
        }
    }
    for (module, config) in tree.modules() {
        let looks = |reference| {
            tree.nodes_of(module, reference).iter().any(|node| {
                changed.contains(node) || node.as_resource().is_some_and(|resource| resources.contains(&resource))
            })
        };
        if let Some(check) = config.checks.iter().find(|check| check.references.iter().any(looks)) {
            found.reasons.push(format!("check.{} looks at what changes, and would be skipped", check.name));
            found.checks = true;
        }
    }
    found.dependents = dependents.into_iter().collect();
    found
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
/// depends on; in the footprint lane also the dependents that bear on it. None when no list of targets can do it.
#[must_use]
pub fn targets(lane: Lane, spec: &PlanSpec) -> Option<Vec<String>> {
    if spec.scope.mode == PlanMode::Destroy {
        // Destroying limits itself: the same targets reach the same dependents.
        return (lane == Lane::Footprint && !spec.scope.targets.is_empty()).then(|| spec.scope.targets.clone());
    }
    if lane == Lane::Footprint && !spec.scope.targets.is_empty() {
        // Whoever limited the plan knows how far it goes.
        return Some(spec.scope.targets.clone());
    }
    if spec.lane.untargetable_outputs {
        return None;
    }
    if lane == Lane::Footprint && spec.lane.untargetable_conditions {
        return None;
    }
    let mut targets: Vec<Pattern> = spec.lane.output_targets.iter().map(Pattern::from).collect();
    if lane == Lane::Footprint {
        targets.extend(spec.lane.dependents.iter().map(Pattern::from));
    }
    for entry in &spec.write {
        targets.push(Pattern::Resource(entry.address.clone()));
        targets.extend(entry.moved_from.clone().map(Pattern::Resource));
    }
    targets.sort();
    targets.dedup();
    let kept: Vec<String> = targets.iter().map(ToString::to_string).collect();
    (!kept.is_empty() && kept.len() <= MAX_TARGETS).then_some(kept)
}
