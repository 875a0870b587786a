//! What a plan changes: the table of changes, and values where a project shows them.

use super::place::Place;
use crate::domain::json::Json;
use crate::domain::plan::action::Action;
use crate::domain::plan::spec::{PlanSpec, WriteEntry};
use crate::domain::redact::credentials::masked_value;
use crate::report::budget::{Node, Rank};
use crate::report::markdown::{Block, Inline, Language, Table, visible};
use crate::report::plan::reason_words;
use crate::report::style::count;
use crate::report::view::ChangedValue;

/// So many changes are seen without unfolding anything.
const OPEN: usize = 12;
/// So many more are folded away below them, however much room there is.
const MOST: usize = 1_000;
/// So many attributes are named for one change; the rest is counted.
const ATTRIBUTES: usize = 6;
/// So many resources are shown with values.
const WITH_VALUES: usize = 50;
/// A longer value is cut: the whole of it is no reading for a comment.
const VALUE: usize = 400;

/// The table of changes: what is gone or replaced first.
#[must_use]
pub fn nodes(spec: &PlanSpec, place: &Place) -> Vec<Node> {
    let mut entries: Vec<&WriteEntry> = spec.write.iter().collect();
    // Stable: within a kind they stay in the order of their addresses.
    entries.sort_by_key(|entry| order(entry.actions));
    let mut rows: Vec<[Inline; 4]> = entries.iter().map(|entry| row(entry, place)).collect();
    rows.extend(spec.outputs.iter().map(|output| {
        [action(output.actions), Inline::code(&format!("output.{}", output.name)), Inline::default(), Inline::default()]
    }));
    let table = |rows: &[[Inline; 4]]| {
        let mut table = Table::new(&["Action", "Address", "What changes", "Where"]);
        for row in rows {
            table.row(row.clone());
        }
        table
    };
    if rows.len() <= OPEN + 3 {
        return if rows.is_empty() { Vec::new() } else { vec![Node::rows(Rank::Change, "change", table(&rows), MOST)] };
    }
    let (open, folded) = rows.split_at(OPEN);
    vec![
        Node::rows(Rank::Change, "change", table(open), OPEN),
        Node::details(
            count(folded.len(), "more change"),
            vec![Node::rows(Rank::Change, "change", table(folded), MOST)],
        ),
    ]
}

fn order(action: Action) -> u8 {
    match action {
        Action::Delete => 0,
        action if action.replaces() => 1,
        Action::Forget => 2,
        Action::Update => 3,
        Action::Create => 4,
        _ => 5,
    }
}

fn action(action: Action) -> Inline {
    // No line end between the sign and the word, or within the sign.
    let words = match action {
        Action::NoOp => Inline::own("=\u{A0}keep"),
        Action::Create => Inline::own("+\u{A0}create"),
        Action::Update => Inline::own("~\u{A0}update"),
        other => Inline::text(&other.sign().replace('-', "\u{2011}")).own_and("\u{A0}").own_and(other.word()),
    };
    if order(action) <= 2 { words.bold() } else { words }
}

fn row(entry: &WriteEntry, place: &Place) -> [Inline; 4] {
    let mut address = Inline::code(&entry.address.to_string());
    if let Some(deposed) = &entry.deposed {
        address = address.own_and(" (deposed ").and(&Inline::code(deposed)).own_and(")");
    }
    let place = entry.place.as_deref().map(|at| place.file(at)).unwrap_or_default();
    [action(entry.actions), address, what(entry), place]
}

/// What changes about an object: where it comes from, which attributes, why.
fn what(entry: &WriteEntry) -> Inline {
    let mut parts = Vec::new();
    if let Some(from) = &entry.moved_from {
        parts.push(Inline::own("moved from ").and(&Inline::code(&from.to_string())));
    }
    match entry.import_id.as_deref() {
        Some("") => parts.push(Inline::own("imported, by an id known later")),
        Some(id) => parts.push(Inline::own("imported ").and(&Inline::code(id))),
        None => {}
    }
    if entry.actions == Action::Update || entry.actions.replaces() {
        let forcing = forcing(entry);
        let mut names: Vec<&String> = entry.print.changed.iter().collect();
        names.sort_by_key(|name| !forcing.contains(name));
        let named = names.iter().take(ATTRIBUTES).map(|name| {
            let code = Inline::code(name);
            if forcing.contains(name) { code.own_and(" (forces replacement)") } else { code }
        });
        let more = names.len().saturating_sub(ATTRIBUTES);
        let more = (more > 0).then(|| Inline::text(&format!("{more} more")));
        let list = Inline::join(named.chain(more), ", ");
        if !list.is_empty() {
            parts.push(list);
        }
    }
    if let Some(reason) = &entry.reason {
        let told = forcing(entry).iter().any(|name| entry.print.changed.contains(name));
        if !(told && reason == "replace_because_cannot_update") {
            parts.push(Inline::text(&reason_words(reason)));
        }
    }
    Inline::join(parts, "; ")
}

/// The attributes that force a replacement.
fn forcing(entry: &WriteEntry) -> Vec<String> {
    let Some(Ok(Json::Array(paths))) = entry.replace_paths.as_deref().map(Json::parse) else {
        return Vec::new();
    };
    let first = |path: &Json| match path {
        Json::Array(steps) => match steps.first() {
            Some(Json::String(name)) => Some(name.clone()),
            _ => None,
        },
        _ => None,
    };
    paths.iter().filter_map(first).collect()
}

/// Values before and after, for projects that show them; masked once more here, whoever masked them before.
#[must_use]
pub fn values(values: &[ChangedValue], spec: &PlanSpec) -> Option<Node> {
    let goes = |address: &str| {
        let of = |entry: &&WriteEntry| entry.address.to_string() == address;
        spec.write.iter().find(of).is_some_and(|entry| matches!(entry.actions, Action::Delete | Action::Forget))
    };
    let mut groups: Vec<(&str, Vec<&ChangedValue>)> = Vec::new();
    for value in values {
        match groups.last_mut() {
            Some((address, group)) if *address == value.address => group.push(value),
            _ => groups.push((&value.address, vec![value])),
        }
    }
    let mut nodes: Vec<Node> = groups
        .iter()
        .take(WITH_VALUES)
        .map(|(address, group)| {
            let gone = goes(address);
            let lines: Vec<String> = group.iter().flat_map(|value| diff(value, gone)).collect();
            let block = Block::stack(&[
                Block::paragraph(&Inline::code(address)),
                Block::fence(Language::Diff, &lines.join("\n")),
            ]);
            Node::block(Rank::Background, "resource with values", block)
        })
        .collect();
    let more = groups.len().saturating_sub(WITH_VALUES);
    if more > 0 {
        let text = format!("{} not shown.", count(more, "more resource"));
        nodes.push(Node::block(Rank::Background, "note", Block::paragraph(&Inline::text(&text))));
    }
    (!nodes.is_empty()).then(|| Node::details("Values of changed attributes", nodes))
}

/// The lines for an attribute; `gone` when there is nothing after.
fn diff(value: &ChangedValue, gone: bool) -> Vec<String> {
    // A line end in a name would forge a line.
    let name = visible(&value.attribute);
    let line = |sign: &str, text: &str| {
        let shown = masked_value(&value.attribute, text);
        let short: String = shown.chars().take(VALUE).collect();
        let cut = if short.len() < shown.len() { " …" } else { "" };
        format!("{sign} {name} = {short}{cut}")
    };
    let before = value.before.as_deref().map(|text| line("-", text));
    let after = match &value.after {
        Some(text) => Some(line("+", text)),
        None if gone => None,
        None => Some(format!("+ {name} = (known after apply)")),
    };
    before.into_iter().chain(after).collect()
}
