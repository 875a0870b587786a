//! The read set: everything that the write set depends on, with the edge over which each was reached.
//!
//! The walk over the configuration's own references carries instance keys along: a reference inside
//! `module.web["a"]` stays in that instance (long facts 4.5: sound in 525 trials), and a literal key narrows an edge
//! to one instance. What only the coarser sources know (`terraform graph`, the plan's `configuration`, the state's
//! `dependencies`) is added at full width.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use super::tree::{Item, Node, Tree};
use crate::domain::address::{Address, ConfigAddress, Key, ModulePath, ModuleStep, Pattern};
use crate::domain::plan::spec::{EdgeSource, Via};

/// So many different instances of one node are walked apart; beyond it the node is walked once, for all instances.
const MAX_VISITS_PER_NODE: usize = 128;

/// Edges between whole blocks, each pointing upstream, from one of the coarser sources.
pub type CoarseEdges = BTreeMap<Node, BTreeSet<Node>>;

/// Where a closure starts.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    /// Resource instances of the write set.
    pub instances: Vec<Address>,
    /// Root outputs of the write set.
    pub outputs: Vec<String>,
    /// The `dependencies` that the state records for rows of the write set.
    pub recorded: BTreeMap<Address, Vec<ConfigAddress>>,
}

/// What a write set depends on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Closure {
    /// What to reserve for reading, narrowed where that is sound, without patterns that another one covers.
    pub reads: BTreeMap<Pattern, Via>,
    /// The same as whole resources: what a slice must hold.
    pub resources: BTreeSet<ConfigAddress>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Visit {
    node: Node,
    keys: Vec<Option<Key>>,
    instance: Option<Key>,
}

struct Reached {
    visit: Visit,
    from: Option<usize>,
}

/// Walks upstream from the roots. `own` are the configuration's edges as [`config_edges`] gives them: where a coarser
/// source knows an edge that they lack, the finer walk cannot be trusted to have narrowed what lies behind it.
#[must_use]
pub fn upstream(tree: &Tree, own: &CoarseEdges, coarse: &[(EdgeSource, &CoarseEdges)], roots: &Roots) -> Closure {
    let mut closure = Closure::default();
    fine_walk(tree, roots, &mut closure);
    for (source, edges) in coarse {
        coarse_walk(*source, edges, own, roots, &mut closure);
    }
    for (address, dependencies) in &roots.recorded {
        for dependency in dependencies {
            let via = Via { from: address.to_string(), source: EdgeSource::State, through: Vec::new() };
            add_whole(dependency, via, &mut closure);
        }
    }
    drop_covered(&mut closure.reads);
    closure
}

/// Adds a resource at full width, unless the finer walk has already been there.
fn add_whole(resource: &ConfigAddress, via: Via, closure: &mut Closure) {
    if closure.resources.insert(resource.clone()) {
        closure.reads.insert(Pattern::from(resource), via);
    }
}

fn fine_walk(tree: &Tree, roots: &Roots, closure: &mut Closure) {
    let mut reached: Vec<Reached> = Vec::new();
    let mut queue: VecDeque<usize> = VecDeque::new();
    let mut seen: HashSet<Visit> = HashSet::new();
    let mut visits: HashMap<Node, usize> = HashMap::new();
    let mut start = |visit: Visit, reached: &mut Vec<Reached>, queue: &mut VecDeque<usize>, from: Option<usize>| {
        let visit = widened(visit, &mut visits, &seen);
        if seen.insert(visit.clone()) {
            reached.push(Reached { visit, from });
            queue.push_back(reached.len() - 1);
        }
    };
    for address in &roots.instances {
        let keys = address.module.0.iter().map(|step| step.key.clone()).collect();
        // A root's own instance key narrows nothing upstream, and leaving it out walks each resource once.
        let visit = Visit { node: Node::resource(&address.config()), keys, instance: None };
        start(visit, &mut reached, &mut queue, None);
    }
    for output in &roots.outputs {
        let visit = Visit { node: Node::root_output(output), keys: Vec::new(), instance: None };
        start(visit, &mut reached, &mut queue, None);
    }
    while let Some(position) = queue.pop_front() {
        let visit = reached[position].visit.clone();
        for step in tree.upstream(&visit.node) {
            let mut keys: Vec<Option<Key>> = visit.keys.iter().take(step.shared).cloned().collect();
            if step.node.module.0.len() > step.shared {
                keys.push(step.call_key.clone());
            }
            keys.resize(step.node.module.0.len(), None);
            let next = Visit { node: step.node, keys, instance: step.instance };
            // Recorded at the edge, not at the visit: a root of the walk may be read by another root.
            if let Some(resource) = next.node.as_resource() {
                let pattern = pattern_of(&resource, &next);
                closure.reads.entry(pattern).or_insert_with(|| via_of(&reached, position));
                closure.resources.insert(resource);
            }
            start(next, &mut reached, &mut queue, Some(position));
        }
    }
}

/// Gives up telling instances apart where there are too many of them.
fn widened(visit: Visit, visits: &mut HashMap<Node, usize>, seen: &HashSet<Visit>) -> Visit {
    if seen.contains(&visit) {
        return visit;
    }
    let count = visits.entry(visit.node.clone()).or_default();
    *count += 1;
    if *count <= MAX_VISITS_PER_NODE {
        return visit;
    }
    let keys = vec![None; visit.keys.len()];
    Visit { keys, instance: None, ..visit }
}

fn pattern_of(resource: &ConfigAddress, visit: &Visit) -> Pattern {
    let steps = resource.module.0.iter().zip(&visit.keys);
    Pattern::Resource(Address {
        module: ModulePath(steps.map(|(name, key)| ModuleStep { name: name.clone(), key: key.clone() }).collect()),
        mode: resource.mode,
        type_name: resource.type_name.clone(),
        name: resource.name.clone(),
        key: visit.instance.clone(),
    })
}

/// From a visit back to the nearest resource or root output (itself, if it is one), and what lies between.
fn via_of(reached: &[Reached], position: usize) -> Via {
    let mut through = Vec::new();
    let mut at = Some(position);
    while let Some(position) = at {
        let Reached { visit, from } = &reached[position];
        let is_end = visit.node.as_resource().is_some() || from.is_none();
        if is_end {
            let from = match visit.node.as_resource() {
                Some(resource) => pattern_of(&resource, visit).to_string(),
                None => visit.node.to_string(),
            };
            through.reverse();
            return Via { from, source: EdgeSource::Configuration, through };
        }
        if !matches!(visit.node.item, Item::Call(_)) {
            through.push(visit.node.to_string());
        }
        at = *from;
    }
    Via { from: String::new(), source: EdgeSource::Configuration, through }
}

fn coarse_walk(source: EdgeSource, edges: &CoarseEdges, own: &CoarseEdges, roots: &Roots, closure: &mut Closure) {
    let starts = roots
        .instances
        .iter()
        .map(|address| Node::resource(&address.config()))
        .chain(roots.outputs.iter().map(|name| Node::root_output(name)));
    // A node is visited twice at most: over edges that the finer walk has as well, and over others.
    let mut seen: BTreeMap<(Node, bool), Option<(Node, bool)>> = BTreeMap::new();
    let mut queue: VecDeque<(Node, bool)> = VecDeque::new();
    for node in starts {
        if seen.insert((node.clone(), false), None).is_none() {
            queue.push_back((node, false));
        }
    }
    while let Some(at) = queue.pop_front() {
        let (node, foreign) = &at;
        for next in edges.get(node).into_iter().flatten() {
            let foreign = *foreign || !own.get(node).is_some_and(|known| known.contains(next));
            if let Some(resource) = next.as_resource() {
                let known = closure.resources.contains(&resource);
                if !known || foreign {
                    let (from, through) = coarse_way(&seen, &at);
                    let via = Via { from, source, through };
                    closure.reads.entry(Pattern::from(&resource)).or_insert(via);
                    closure.resources.insert(resource);
                }
            }
            let reached = (next.clone(), foreign);
            if !seen.contains_key(&reached) {
                seen.insert(reached.clone(), Some(at.clone()));
                queue.push_back(reached);
            }
        }
    }
}

/// Back from a node to the nearest resource or root.
fn coarse_way(seen: &BTreeMap<(Node, bool), Option<(Node, bool)>>, start: &(Node, bool)) -> (String, Vec<String>) {
    let mut through = Vec::new();
    let mut at = start;
    loop {
        match seen.get(at) {
            Some(Some(previous)) if at.0.as_resource().is_none() => {
                through.push(at.0.to_string());
                at = previous;
            }
            _ => {
                through.reverse();
                return (at.0.to_string(), through);
            }
        }
    }
}

fn drop_covered(reads: &mut BTreeMap<Pattern, Via>) {
    let mut by_resource: BTreeMap<ConfigAddress, Vec<Pattern>> = BTreeMap::new();
    for pattern in reads.keys() {
        if let Some(resource) = pattern.resource() {
            by_resource.entry(resource).or_default().push(pattern.clone());
        }
    }
    for patterns in by_resource.values() {
        for pattern in patterns {
            if patterns.iter().any(|other| other != pattern && other.covers(pattern)) {
                reads.remove(pattern);
            }
        }
    }
}

/// Every edge of the configuration between whole blocks, pointing upstream.
#[must_use]
pub fn config_edges(tree: &Tree) -> CoarseEdges {
    let mut edges = CoarseEdges::new();
    for (module, config) in tree.modules() {
        let node = |item| Node { module: module.clone(), item };
        let mut nodes: Vec<Node> = Vec::new();
        nodes.extend(config.resources.iter().map(|block| {
            let (mode, type_name, name) = (block.mode, block.type_name.clone(), block.name.clone());
            node(Item::Resource { mode, type_name, name })
        }));
        nodes.extend(config.locals.keys().map(|name| node(Item::Local(name.clone()))));
        nodes.extend(config.outputs.iter().map(|output| node(Item::Output(output.name.clone()))));
        nodes.extend(config.variables.iter().map(|variable| node(Item::Input(variable.name.clone()))));
        nodes.extend(config.calls.iter().map(|call| node(Item::Call(call.name.clone()))));
        nodes.extend(config.providers.keys().map(|name| node(Item::Provider(name.clone()))));
        for node in nodes {
            let upstream: BTreeSet<Node> = tree.upstream(&node).into_iter().map(|step| step.node).collect();
            edges.insert(node, upstream);
        }
    }
    edges
}

/// Everything that a node depends on, over any of the edge sets.
#[must_use]
pub fn sources(edges: &[&CoarseEdges], start: &Node) -> BTreeSet<Node> {
    let mut seen: BTreeSet<Node> = BTreeSet::new();
    let mut queue: VecDeque<Node> = VecDeque::from([start.clone()]);
    while let Some(node) = queue.pop_front() {
        for next in edges.iter().filter_map(|edges| edges.get(&node)).flatten() {
            if seen.insert(next.clone()) {
                queue.push_back(next.clone());
            }
        }
    }
    seen
}

/// Everything that depends on one of the nodes, over any of the edge sets.
#[must_use]
pub fn downstream(edges: &[&CoarseEdges], starts: impl IntoIterator<Item = Node>) -> BTreeSet<Node> {
    let mut reverse: BTreeMap<&Node, Vec<&Node>> = BTreeMap::new();
    for (node, upstream) in edges.iter().flat_map(|edges| edges.iter()) {
        for target in upstream {
            reverse.entry(target).or_default().push(node);
        }
    }
    let mut seen: BTreeSet<Node> = BTreeSet::new();
    let mut queue: VecDeque<Node> = starts.into_iter().collect();
    while let Some(node) = queue.pop_front() {
        for next in reverse.get(&node).into_iter().flatten() {
            if seen.insert((*next).clone()) {
                queue.push_back((*next).clone());
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests;
