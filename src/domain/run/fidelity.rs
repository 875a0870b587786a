//! Whether a version is exactly what was planned: every row that was to change did so, and no other.

use serde::Serialize;

use crate::domain::plan::action::Action;
use crate::domain::plan::spec::{PlanSpec, WriteEntry};
use crate::domain::state::row::DeposedKey;
use crate::domain::state::{RowKey, Touched};

/// How a version compares with the spec that it came from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Fidelity {
    /// How many planned rows changed as planned.
    pub as_planned: usize,
    /// Planned rows that the version did not change.
    pub unchanged: Vec<String>,
    /// Planned rows to which something else happened than planned.
    pub otherwise: Vec<String>,
    /// Rows that nobody planned to change and that may come along: data that was read again, results of checks,
    /// metadata.
    pub along: Vec<String>,
    /// Any other row that nobody planned to change.
    pub unplanned: Vec<String>,
}

impl Fidelity {
    /// Whether the version is exactly what was planned.
    #[must_use]
    pub fn exact(&self) -> bool {
        self.unchanged.is_empty() && self.otherwise.is_empty() && self.unplanned.is_empty()
    }
}

/// Compares what a version did with what its spec promised. `soft` are the rows whose metadata the run says it took over.
#[must_use]
pub fn fidelity(spec: &PlanSpec, rows: &[(RowKey, Touched)], soft: &[String]) -> Fidelity {
    let planned = planned(spec);
    let mut found = Fidelity::default();
    for (key, expected) in &planned {
        match rows.iter().find(|(row, _)| row == key) {
            None => found.unchanged.push(key.to_string()),
            Some((_, touched)) if expected.contains(touched) => found.as_planned += 1,
            Some((_, touched)) => found.otherwise.push(format!("{key} ({})", touched.word())),
        }
    }
    for (key, _) in rows.iter().filter(|(key, _)| !planned.iter().any(|(planned, _)| planned == key)) {
        let name = key.to_string();
        let data = key.pattern().is_none_or(|pattern| pattern.is_data());
        let husk = matches!(key, RowKey::Husk(_));
        if data || husk || soft.contains(&name) { found.along.push(name) } else { found.unplanned.push(name) }
    }
    found
}

/// The rows that a spec promises to change, each with what may happen to it.
fn planned(spec: &PlanSpec) -> Vec<(RowKey, &'static [Touched])> {
    let mut planned = Vec::new();
    for entry in &spec.write {
        if let Some(from) = &entry.moved_from {
            planned.push((RowKey::object(from.clone()), [Touched::Removed].as_slice()));
        }
        let deposed = entry.deposed.clone().map(DeposedKey);
        planned.push((RowKey::Object { address: entry.address.clone(), deposed }, expected(entry)));
    }
    for output in &spec.outputs {
        planned.push((RowKey::Output(output.name.clone()), of_action(output.actions)));
    }
    planned
}

fn expected(entry: &WriteEntry) -> &'static [Touched] {
    if entry.moved_from.is_some() || entry.import_id.is_some() {
        // At its new place the object is new, whatever else happens to it.
        return match entry.actions {
            Action::Delete | Action::Forget => &[Touched::Removed],
            _ => &[Touched::Created, Touched::Changed],
        };
    }
    of_action(entry.actions)
}

fn of_action(action: Action) -> &'static [Touched] {
    match action {
        // What has vanished in reality is created anew, in the place of the row.
        Action::Create | Action::NoOp | Action::Read => &[Touched::Created, Touched::Changed],
        Action::Delete | Action::Forget => &[Touched::Removed],
        Action::Update | Action::DeleteCreate | Action::CreateDelete | Action::CreateForget | Action::ForgetCreate => {
            &[Touched::Changed]
        }
    }
}
