//! Terraform's own graph, as `terraform graph -type=plan` draws it, to edges between what a configuration declares.
//!
//! Terraform leaves out an edge that a longer way makes superfluous, and most of those ways lead over nodes that are
//! no resources. So no edge is ever dropped here: what is not understood keeps its text, and stays on the way.

use crate::domain::address::{Address, ConfigAddress, ConfigModule, ModulePath};

/// A node of the graph, without instance keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GraphNode {
    /// A resource, data source or ephemeral resource; orphans and deposed objects, too.
    Resource(ConfigAddress),
    /// A local value.
    Local(ConfigModule, String),
    /// An input variable, `var.x` of the root or `module.m.var.x`. Its value comes from the parent module.
    Input(ConfigModule, String),
    /// The validations of an input variable, which whoever uses the variable waits for.
    Validation(ConfigModule, String),
    /// An output value.
    Output(ConfigModule, String),
    /// The beginning of a module: how many instances it has, and its `depends_on`.
    ModuleExpand(ConfigModule),
    /// The end of a module: everything in it has been done.
    ModuleClose(ConfigModule),
    /// A provider configuration: the module that holds it, and text such as
    /// `provider["registry.terraform.io/hashicorp/aws"].west`.
    Provider(ConfigModule, String),
    /// Anything else, by its text: `root`, checks, the end of a provider, nodes of versions to come.
    Other(String),
}

/// Why a text is not Terraform's graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DotError {
    /// No graph begins in the text.
    #[error("the output of `terraform graph` has no graph in it")]
    NoGraph,
    /// The text ends inside of the graph.
    #[error("the output of `terraform graph` ends inside the graph")]
    Truncated,
    /// A line is of no known form, and may hold an edge.
    #[error("line {line} of the output of `terraform graph` is not understood: {text}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
}

/// Reads the edges of the graph: from what depends to what it depends on.
///
/// Two nodes of the same resource (instances, deposed objects) become one, and an edge between them is left out.
///
/// # Errors
/// When there is no complete graph, or a line that could be an edge is not understood.
pub fn read(text: &str) -> Result<Vec<(GraphNode, GraphNode)>, DotError> {
    // Warnings may come before the graph.
    let mut lines = text.lines().enumerate().skip_while(|(_, line)| line.trim() != "digraph {");
    lines.next().ok_or(DotError::NoGraph)?;
    let mut open = 1_usize;
    let mut edges = Vec::new();
    for (position, line) in lines {
        let line = line.trim();
        match statement(line, open) {
            Some(Statement::Edge(from, to)) => {
                let (from, to) = (node(&from), node(&to));
                if from != to {
                    edges.push((from, to));
                }
            }
            Some(Statement::Open) => open += 1,
            Some(Statement::Close) => open -= 1,
            Some(Statement::Nothing) => {}
            None => return Err(DotError::Line { line: position + 1, text: line.to_owned() }),
        }
    }
    if open == 0 { Ok(edges) } else { Err(DotError::Truncated) }
}

/// What one line of the drawing says.
enum Statement {
    Edge(String, String),
    Open,
    Close,
    /// A node with its looks, or a setting of the drawing.
    Nothing,
}

/// None for a line of no known form. Nothing but blank lines may come after the last brace.
fn statement(line: &str, open: usize) -> Option<Statement> {
    if line.is_empty() {
        return Some(Statement::Nothing);
    }
    if open == 0 {
        return None;
    }
    if line == "}" {
        return Some(Statement::Close);
    }
    if line.starts_with("subgraph ") && line.ends_with('{') {
        return Some(Statement::Open);
    }
    if matches!(line.split_once(" = "), Some((name, _)) if name.bytes().all(|letter| letter.is_ascii_alphanumeric())) {
        return Some(Statement::Nothing);
    }
    let (from, rest) = quoted(line)?;
    let rest = rest.trim_start();
    let Some(rest) = rest.strip_prefix("->") else {
        return is_looks(rest).then_some(Statement::Nothing);
    };
    let (to, rest) = quoted(rest.trim_start())?;
    is_looks(rest.trim_start()).then_some(Statement::Edge(from, to))
}

/// Whether what follows a node or an edge is nothing, or a list of attributes.
fn is_looks(rest: &str) -> bool {
    rest.is_empty() || (rest.starts_with('[') && rest.ends_with(']'))
}

/// A quoted text at the start of a line, unescaped, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('"')?;
    let mut out = String::new();
    let mut letters = inside.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((out, &inside[at + 1..])),
            '\\' => match letters.next()?.1 {
                escaped @ ('"' | '\\') => out.push(escaped),
                other => out.extend(['\\', other]),
            },
            _ => out.push(letter),
        }
    }
    None
}

/// Understands the name of a node.
fn node(text: &str) -> GraphNode {
    let name = text.strip_prefix("[root] ").unwrap_or(text);
    known(name).unwrap_or_else(|| GraphNode::Other(name.to_owned()))
}

fn known(name: &str) -> Option<GraphNode> {
    let (name, role) = match name.strip_suffix(')').and_then(|name| name.rsplit_once(" (")) {
        Some((name, role)) if !role.contains('"') => (name, role),
        _ => (name, ""),
    };
    let (module, rest) = split_module(name)?;
    // In OpenTofu a variable is several nodes in a row, as "(expand, input)" and "(expand, reference)".
    let forward = role.is_empty() || role.split(", ").all(|word| matches!(word, "expand" | "input" | "reference"));
    if rest.is_empty() {
        return match role {
            "expand" => Some(GraphNode::ModuleExpand(module)),
            "close" => Some(GraphNode::ModuleClose(module)),
            _ => None,
        };
    }
    if rest.starts_with("provider[") {
        // The end of a provider waits for all that use it: another node than its beginning.
        return role.is_empty().then(|| GraphNode::Provider(module, rest.to_owned()));
    }
    if let Some((kind @ ("local" | "var" | "output"), named)) = rest.split_once('.') {
        if named.is_empty() || named.contains(['.', '[', ' ']) {
            return None;
        }
        let named = named.to_owned();
        return match (kind, role) {
            ("var", "validation") => Some(GraphNode::Validation(module, named)),
            ("var", _) if forward => Some(GraphNode::Input(module, named)),
            ("local", _) if forward => Some(GraphNode::Local(module, named)),
            ("output", _) if forward => Some(GraphNode::Output(module, named)),
            _ => None,
        };
    }
    // Where something is closed or destroyed, edges point the other way round.
    let is_object = forward || role == "orphan" || role.starts_with("deposed ");
    if !is_object || rest.starts_with("check.") {
        return None;
    }
    Some(GraphNode::Resource(Address::parse(name).ok()?.config()))
}

/// The module that a name begins with, and the rest of the name; none where the keys are broken.
fn split_module(name: &str) -> Option<(ConfigModule, &str)> {
    let mut end = 0;
    while let Some(step) = name[end..].strip_prefix("module.") {
        let mut in_string = false;
        let mut escaped = false;
        let mut depth = 0_i32;
        // A step ends at the first dot that is in no key.
        let length = step.char_indices().find_map(|(at, letter)| {
            match letter {
                _ if escaped => escaped = false,
                '\\' if in_string => escaped = true,
                '"' => in_string = !in_string,
                '[' if !in_string => depth += 1,
                ']' if !in_string => depth -= 1,
                '.' if !in_string && depth == 0 => return Some(at),
                _ => {}
            }
            None
        });
        let Some(length) = length else {
            return Some((ModulePath::parse(name).ok()?.config(), ""));
        };
        end += "module.".len() + length + 1;
    }
    let path = name[..end].strip_suffix('.').unwrap_or_default();
    Some((ModulePath::parse(path).ok()?.config(), &name[end..]))
}

#[cfg(test)]
mod tests;
