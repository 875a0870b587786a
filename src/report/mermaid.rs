//! Diagrams for comments, as Mermaid text: what a plan writes and reads, and the run beside other runs.
//!
//! Names from outside stand in quotes, every letter that Mermaid could read as syntax as an entity.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use super::markdown::visible;
use crate::domain::address::{Address, ModulePath, Pattern};
use crate::domain::plan::action::Action;
use crate::domain::plan::spec::PlanSpec;

/// More boxes than this are a wall.
const MAX_NODES: usize = 40;
/// A longer name is cut in the middle: a diagram is for orientation.
const MAX_LABEL: usize = 48;
/// So many bars stand in a timeline.
const MAX_BARS: usize = 24;

/// Words that mean something at the beginning of a line of a gantt chart, in small letters.
const KEYWORDS: [&str; 18] = [
    "acctitle",
    "accdescr",
    "axisformat",
    "click",
    "dateformat",
    "displaymode",
    "excludes",
    "gantt",
    "includes",
    "inclusiveenddates",
    "section",
    "tickinterval",
    "title",
    "todaymarker",
    "topaxis",
    "weekday",
    "weekend",
    "call",
];

/// A bar of the timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar {
    /// The group that it stands in, as `This run`.
    pub section: String,
    /// What it is.
    pub name: String,
    /// How it looks.
    pub look: Look,
    /// From when.
    pub from: DateTime<Utc>,
    /// Until when.
    pub to: DateTime<Utc>,
}

/// How a bar looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// As any other.
    Plain,
    /// It is over and went well.
    Done,
    /// It goes on.
    Active,
    /// It failed.
    Failed,
}

/// One box: a resource, or all of a kind in a module.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    module: String,
    name: String,
}

/// The graph of what a plan writes and what it reads for that; none when there is nothing to see.
#[must_use]
pub fn graph(spec: &PlanSpec) -> Option<String> {
    (Grain::ALL.into_iter().map(|grain| Graph::of(spec, grain)).find(|graph| graph.nodes.len() <= MAX_NODES))
        .or_else(|| Some(Graph::of(spec, Grain::Module)).filter(|graph| graph.nodes.len() <= 3 * MAX_NODES))
        .filter(|graph| !graph.nodes.is_empty())
        .map(|graph| graph.text())
}

/// How much one box stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grain {
    /// An instance.
    Instance,
    /// All instances of a resource in all instances of its module.
    Resource,
    /// All resources of a type in a module.
    Type,
    /// A module of the root.
    Module,
}

impl Grain {
    const ALL: [Self; 4] = [Self::Instance, Self::Resource, Self::Type, Self::Module];

    fn node(self, pattern: &Pattern) -> Node {
        match pattern {
            Pattern::Resource(address) => self.resource(address),
            other if self == Self::Module => match other {
                Pattern::Module(scope) => Node { module: String::new(), name: top(&scope.0) },
                _ => Node { module: String::new(), name: "outputs".to_owned() },
            },
            other => Node { module: String::new(), name: other.to_string() },
        }
    }

    fn resource(self, address: &Address) -> Node {
        let config = address.config();
        let bare = |address: &Address| {
            let module = address.module.to_string();
            let whole = Address { module: ModulePath::root(), ..address.clone() }.to_string();
            Node { module, name: whole }
        };
        match self {
            Self::Instance => bare(address),
            Self::Resource => {
                let module = config.module.to_string();
                let name = format!("{}{}.{}", address.mode.prefix(), config.type_name, config.name);
                Node { module, name }
            }
            Self::Type => {
                let name = format!("{}{}", address.mode.prefix(), config.type_name);
                Node { module: config.module.to_string(), name }
            }
            Self::Module if address.module.is_root() => {
                Node { module: String::new(), name: format!("{}{}", address.mode.prefix(), config.type_name) }
            }
            Self::Module => Node { module: String::new(), name: top(&address.module) },
        }
    }
}

fn top(module: &ModulePath) -> String {
    module.0.first().map_or_else(|| "root module".to_owned(), |step| format!("module.{}", step.name))
}

/// What happens to a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Read,
    Create,
    Update,
    Replace,
    Destroy,
}

impl Class {
    const ALL: [Self; 5] = [Self::Read, Self::Create, Self::Update, Self::Replace, Self::Destroy];

    fn of(action: Action) -> Self {
        match action {
            Action::Create => Self::Create,
            Action::Delete | Action::Forget => Self::Destroy,
            action if action.replaces() => Self::Replace,
            _ => Self::Update,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Create => "creates",
            Self::Update => "changes",
            Self::Replace => "replaces",
            Self::Destroy => "destroys",
        }
    }

    /// Lines of middle brightness: they are seen on a light and on a dark page.
    fn style(self) -> &'static str {
        match self {
            Self::Read => "stroke:#8b949e,stroke-dasharray:4 3",
            Self::Create => "stroke:#2da44e,stroke-width:2px",
            Self::Update => "stroke:#bf8700,stroke-width:2px",
            Self::Replace => "stroke:#e16f24,stroke-width:2px",
            Self::Destroy => "stroke:#cf222e,stroke-width:3px",
        }
    }
}

#[derive(Debug)]
struct Graph {
    /// Box → what happens to it, the sign, and how many patterns it stands for.
    nodes: BTreeMap<Node, (Class, &'static str, usize)>,
    edges: BTreeSet<(Node, Node)>,
}

impl Graph {
    fn of(spec: &PlanSpec, grain: Grain) -> Self {
        let mut graph = Self { nodes: BTreeMap::new(), edges: BTreeSet::new() };
        for entry in &spec.write {
            let node = grain.resource(&entry.address);
            let sign = if entry.actions == Action::NoOp { "↷" } else { entry.actions.sign() };
            graph.add(node, Class::of(entry.actions), sign);
        }
        for output in &spec.outputs {
            let node = grain.node(&Pattern::Output(output.name.clone()));
            graph.add(node, Class::of(output.actions), output.actions.sign());
        }
        let reads = spec.read.iter().map(|entry| (&entry.pattern, Some(&entry.via)));
        let data = spec.data.iter().map(|entry| (&entry.pattern, entry.via.as_ref()));
        for (pattern, via) in reads.chain(data) {
            let node = grain.node(pattern);
            if graph.nodes.get(&node).is_none_or(|(class, ..)| *class == Class::Read) {
                graph.add(node.clone(), Class::Read, "");
            }
            // What reads it: an address of the plan, or one that is itself only read.
            let Some(from) = via.and_then(|via| Pattern::parse(&via.from).ok()) else { continue };
            graph.edges.insert((node, grain.node(&from)));
        }
        graph.join_instances(spec, grain);
        graph
    }

    fn add(&mut self, node: Node, class: Class, sign: &'static str) {
        self.nodes
            .entry(node)
            .and_modify(|(worst, shown, number)| {
                // A box of several actions bears no sign.
                if *shown != sign {
                    *shown = "±";
                }
                *worst = (*worst).max(class);
                *number += 1;
            })
            .or_insert((class, sign, 1));
    }

    /// An edge names a resource where the boxes are its instances: it leads to each of them. Others lead nowhere.
    fn join_instances(&mut self, spec: &PlanSpec, grain: Grain) {
        let mut instances: BTreeMap<Node, BTreeSet<Node>> = BTreeMap::new();
        for entry in &spec.write {
            instances
                .entry(Grain::Resource.resource(&entry.address))
                .or_default()
                .insert(grain.resource(&entry.address));
        }
        let mut edges = BTreeSet::new();
        for (read, reader) in std::mem::take(&mut self.edges) {
            let readers: Vec<Node> = if self.nodes.contains_key(&reader) {
                vec![reader]
            } else {
                instances.get(&reader).into_iter().flatten().cloned().collect()
            };
            let found = readers.into_iter().filter(|reader| *reader != read && self.nodes.contains_key(reader));
            edges.extend(found.map(|reader| (read.clone(), reader)));
        }
        self.edges = edges;
    }

    fn text(&self) -> String {
        let mut out = "flowchart LR\n".to_owned();
        let ids: BTreeMap<&Node, usize> = self.nodes.keys().enumerate().map(|(id, node)| (node, id)).collect();
        let mut modules: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
        for node in self.nodes.keys() {
            modules.entry(&node.module).or_default().push(node);
        }
        for (number, (module, nodes)) in modules.iter().enumerate() {
            let indent = if module.is_empty() { "  " } else { "    " };
            if !module.is_empty() {
                out.push_str(&format!("  subgraph m{number}[\"{}\"]\n", label(module)));
            }
            for node in nodes {
                let Some((class, sign, count)) = self.nodes.get(*node) else { continue };
                let more = if *count > 1 { format!(" × {count}") } else { String::new() };
                let name = [*sign, &node.name].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>();
                let text = label(&format!("{}{more}", name.join(" ")));
                out.push_str(&format!("{indent}n{}[\"{text}\"]:::{}\n", ids[*node], class.word()));
            }
            if !module.is_empty() {
                out.push_str("  end\n");
            }
        }
        for (read, reader) in &self.edges {
            if let (Some(from), Some(to)) = (ids.get(read), ids.get(reader)) {
                out.push_str(&format!("  n{from} --> n{to}\n"));
            }
        }
        for class in Class::ALL {
            if self.nodes.values().any(|(found, ..)| *found == class) {
                out.push_str(&format!("  classDef {} {}\n", class.word(), class.style()));
            }
        }
        out
    }
}

/// A name within quotes: letters, digits and a few signs as they are, all else as an entity of Mermaid.
fn label(text: &str) -> String {
    let text = visible(text);
    let letters: Vec<char> = text.chars().collect();
    let short: String = if letters.len() > MAX_LABEL {
        let (head, tail) = (MAX_LABEL * 2 / 3, MAX_LABEL / 3 - 1);
        letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - tail..]).collect()
    } else {
        text
    };
    let entity = |letter: char| {
        let plain = letter.is_alphanumeric() || "_.…×↷±+~-/".contains(letter);
        // Mermaid breaks lines at spaces.
        if letter == ' ' {
            "\u{A0}".to_owned()
        } else if plain {
            letter.to_string()
        } else {
            format!("#{};", u32::from(letter))
        }
    };
    short.chars().map(entity).collect()
}

/// A timeline of bars, in the order of their sections; none when there is nothing to see.
#[must_use]
pub fn timeline(bars: &[Bar]) -> Option<String> {
    let (from, to) = (bars.iter().map(|bar| bar.from).min()?, bars.iter().map(|bar| bar.to).max()?);
    let axis = if to - from > chrono::Duration::hours(20) { "%m-%d %H:%M" } else { "%H:%M:%S" };
    let mut out = format!("gantt\n  dateFormat x\n  axisFormat {axis}\n");
    let mut section = None;
    for bar in bars.iter().take(MAX_BARS) {
        if section != Some(&bar.section) {
            out.push_str(&format!("  section {}\n", bar_text(&bar.section)));
            section = Some(&bar.section);
        }
        let look = match bar.look {
            Look::Plain => "",
            Look::Done => "done, ",
            Look::Active => "active, ",
            Look::Failed => "crit, ",
        };
        // A bar without any width cannot be seen.
        let least = ((to - from).num_milliseconds() / 100).max(1);
        let end = bar.to.timestamp_millis().max(bar.from.timestamp_millis() + least);
        out.push_str(&format!("  {} :{look}{}, {end}\n", bar_text(&bar.name), bar.from.timestamp_millis()));
    }
    Some(out)
}

/// A gantt chart has no quotes: what could be syntax is left out, and no word of Mermaid's own (`click`, `section`) is at
/// the beginning.
fn bar_text(text: &str) -> String {
    let kept = |letter: char| match letter {
        '"' => '\'',
        _ if letter.is_alphanumeric() || " _.-/[]+~()@".contains(letter) => letter,
        _ => ' ',
    };
    let text: String = visible(text).chars().map(kept).take(MAX_LABEL).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_lowercase();
    // A date, too, would be read as one.
    let keyword = KEYWORDS.contains(&first.as_str()) || first.starts_with(|letter: char| letter.is_ascii_digit());
    if text.is_empty() {
        "unnamed".to_owned()
    } else if keyword {
        format!("· {text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests;
