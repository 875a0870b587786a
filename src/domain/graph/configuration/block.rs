//! Blocks as both syntaxes come to: attributes and nested blocks, not yet understood.

use super::value::{Trouble, Value};
use super::{Place, Traversal};

/// A block with its head.
pub(super) struct Block {
    /// The first word, as `resource`.
    pub(super) kind: String,
    /// The labels after it.
    pub(super) labels: Vec<String>,
    /// Where it stands.
    pub(super) place: Place,
    /// What is in it.
    pub(super) body: Body,
}

/// The inside of a block, in the order of the text; of equal attributes the last one counts.
#[derive(Default)]
pub(super) struct Body {
    /// Name and value of each attribute.
    pub(super) attributes: Vec<(String, Value)>,
    /// The nested blocks.
    pub(super) blocks: Vec<Block>,
}

impl Body {
    /// The value of an attribute; where it was overridden, the overriding one.
    pub(super) fn attribute(&self, name: &str) -> Option<&Value> {
        self.attributes.iter().rev().find(|(candidate, _)| candidate == name).map(|(_, value)| value)
    }

    /// Lays another body over this one.
    pub(super) fn extend(&mut self, over: Self) {
        self.attributes.extend(over.attributes);
        self.blocks.extend(over.blocks);
    }

    /// Everything that any expression in here refers to.
    pub(super) fn references(&self, out: &mut Vec<Traversal>) -> Result<(), Trouble> {
        for (_, value) in &self.attributes {
            value.references(out)?;
        }
        for block in &self.blocks {
            block.references(out)?;
        }
        Ok(())
    }
}

impl Block {
    /// Everything that any expression in this block refers to, without a `dynamic` block's iterator.
    pub(super) fn references(&self, out: &mut Vec<Traversal>) -> Result<(), Trouble> {
        if self.kind != "dynamic" {
            return self.body.references(out);
        }
        let mut inside = Vec::new();
        for (name, value) in &self.body.attributes {
            // Only `for_each` is evaluated outside of the iteration.
            value.references(if name == "for_each" { out } else { &mut inside })?;
        }
        for block in &self.body.blocks {
            block.references(&mut inside)?;
        }
        let iterator = self.body.attribute("iterator").and_then(Value::word);
        let iterator = iterator.as_deref().or(self.labels.first().map(String::as_str));
        out.extend(inside.into_iter().filter(|traversal| Some(traversal.root.as_str()) != iterator));
        Ok(())
    }

    /// The error that something in this block is not as it should be.
    pub(super) fn trouble(&self, message: impl Into<String>) -> Trouble {
        Trouble { file: self.place.file.clone(), line: self.place.line, snippet: None, message: message.into() }
    }
}
