//! Terraform's own graph as edges between the nodes of a configuration.

use super::closure::CoarseEdges;
use super::dot::{DotError, GraphNode, read};
use super::tree::{Item, Node};
use crate::domain::address::ConfigModule;

/// Reads the output of `terraform graph -type=plan`.
///
/// # Errors
/// When it is not a whole graph.
pub fn graph_edges(text: &str) -> Result<CoarseEdges, DotError> {
    let mut edges = CoarseEdges::new();
    for (from, to) in read(text)? {
        edges.entry(node(from)).or_default().insert(node(to));
    }
    Ok(edges)
}

fn node(found: GraphNode) -> Node {
    match found {
        GraphNode::Resource(address) => Node::resource(&address),
        GraphNode::Local(module, name) => Node { module, item: Item::Local(name) },
        GraphNode::Input(module, name) => Node { module, item: Item::Input(name) },
        GraphNode::Output(module, name) => Node { module, item: Item::Output(name) },
        GraphNode::Provider(module, text) => Node { module, item: Item::Provider(text) },
        GraphNode::ModuleExpand(module) => match module.parent() {
            Some((parent, call)) => Node { item: Item::Call(call.to_owned()), module: parent },
            None => opaque("root (expand)"),
        },
        GraphNode::ModuleClose(module) => Node { module, item: Item::Opaque("(close)".to_owned()) },
        GraphNode::Validation(module, name) => Node { module, item: Item::Opaque(format!("validation of var.{name}")) },
        GraphNode::Other(text) => opaque(&text),
    }
}

/// A node that only paths lead through.
fn opaque(text: &str) -> Node {
    Node { module: ConfigModule::root(), item: Item::Opaque(text.to_owned()) }
}
