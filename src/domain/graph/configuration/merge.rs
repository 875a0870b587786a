//! Override files laid over the rest of a module.

use std::collections::HashMap;

use super::block::Block;
use super::value::Value;

/// What an override block must share with the block that it changes: kind, labels, and a provider's alias.
type Identity = (String, Vec<String>, Option<String>);

/// Appends the body of each override block to the block that it changes.
///
/// Where Terraform would drop what is replaced, the references of both are kept: too many edges cost
/// concurrency, one too few costs a state. An override without its base is an error in Terraform, and stands on
/// its own here.
pub(super) fn overlay(plain: Vec<Block>, overrides: Vec<Block>) -> Vec<Block> {
    let mut blocks = plain;
    if overrides.is_empty() {
        return blocks;
    }
    let mut bases = HashMap::new();
    for (position, block) in blocks.iter().enumerate() {
        bases.entry(identity(block)).or_insert(position);
    }
    for over in overrides {
        match bases.get(&identity(&over)) {
            Some(position) if is_mergeable(&over.kind) => blocks[*position].body.extend(over.body),
            _ => blocks.push(over),
        }
    }
    blocks
}

/// Blocks without labels (`locals`, `terraform`, `moved`) have no identity; their contents are joined later on.
fn is_mergeable(kind: &str) -> bool {
    matches!(
        kind,
        "resource" | "data" | "ephemeral" | "action" | "module" | "output" | "variable" | "provider" | "check"
    )
}

fn identity(block: &Block) -> Identity {
    let alias = if block.kind == "provider" { block.body.attribute("alias").and_then(Value::word) } else { None };
    (block.kind.clone(), block.labels.clone(), alias)
}
