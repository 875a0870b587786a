//! Whether a version is exactly what was planned: every row that was to change did so, and no other.

use std::collections::{HashMap, HashSet};

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
    /// Among these, rows that a recovery of an earlier apply of the same spec had brought in, wholly or in part.
    #[serde(skip_serializing_if = "is_zero")]
    pub recovered: usize,
    /// Planned rows that the version did not change.
    pub unchanged: Vec<String>,
    /// Planned rows to which something else happened than planned.
    pub otherwise: Vec<String>,
    /// Rows that nobody planned to change and that may come along: data that was read again, results of checks,
    /// metadata.
    pub along: Vec<String>,
    /// Any other row that nobody planned to change.
    pub unplanned: Vec<String>,
    /// Whether planning again gave other values than the reviewed ones, and they were accepted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub other_values: bool,
}

impl Fidelity {
    /// Whether the version is exactly what was planned.
    #[must_use]
    pub fn exact(&self) -> bool {
        self.rows_exact() && !self.other_values
    }

    /// Whether the planned rows changed as planned, and no others, whatever their values.
    #[must_use]
    pub fn rows_exact(&self) -> bool {
        self.unchanged.is_empty() && self.otherwise.is_empty() && self.unplanned.is_empty()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
pub(super) fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Compares what a version did with what its spec promised. `earlier` is what recoveries of earlier applies of the same spec
/// have brought in, in the order of their serials: it counts as if the version had done it, so that an apply that failed
/// half-way and was taken up again is judged as a whole. `soft` are the rows whose metadata the run says it took over.
#[must_use]
pub fn fidelity(
    spec: &PlanSpec,
    earlier: &[(RowKey, Touched)],
    rows: &[(RowKey, Touched)],
    soft: &[String],
) -> Fidelity {
    let planned = planned(spec);
    let mut all: HashMap<&RowKey, Option<Touched>> = HashMap::new();
    for (key, touched) in earlier.iter().chain(rows) {
        all.entry(key).and_modify(|before| *before = together(*before, *touched)).or_insert(Some(*touched));
    }
    let before: HashSet<&RowKey> = earlier.iter().map(|(key, _)| key).collect();
    let mut found = Fidelity::default();
    for (key, expected) in &planned {
        match all.get(key).copied().flatten() {
            None => found.unchanged.push(key.to_string()),
            Some(touched) if expected.contains(&touched) => {
                found.as_planned += 1;
                found.recovered += usize::from(before.contains(key));
            }
            Some(touched) => found.otherwise.push(format!("{key} ({})", touched.word())),
        }
    }
    let known: HashSet<&RowKey> = planned.iter().map(|(key, _)| key).collect();
    let soft: HashSet<&str> = soft.iter().map(String::as_str).collect();
    for (key, _) in rows.iter().filter(|(key, _)| !known.contains(key)) {
        // What a recovery had to bring in for a while, as an object that was being replaced, is gone again.
        if all.get(key).copied().flatten().is_none() {
            continue;
        }
        let name = key.to_string();
        let data = key.pattern().is_none_or(|pattern| pattern.is_data());
        let husk = matches!(key, RowKey::Husk(_));
        if data || husk || soft.contains(name.as_str()) { found.along.push(name) } else { found.unplanned.push(name) }
    }
    found
}

/// What two changes of one row, one after the other, come to; none when the row is as it was: not there.
fn together(before: Option<Touched>, then: Touched) -> Option<Touched> {
    match (before, then) {
        (Some(Touched::Created), Touched::Removed) => None,
        (None | Some(Touched::Created), Touched::Created | Touched::Changed) => Some(Touched::Created),
        (None | Some(Touched::Changed | Touched::Removed), Touched::Removed) => Some(Touched::Removed),
        (Some(Touched::Changed | Touched::Removed), Touched::Created | Touched::Changed) => Some(Touched::Changed),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_changes_of_a_row_come_to_one() {
        use Touched::{Changed, Created, Removed};
        for (first, then, both) in [
            (Created, Changed, Some(Created)),
            (Created, Removed, None),
            (Changed, Changed, Some(Changed)),
            (Changed, Removed, Some(Removed)),
            (Removed, Created, Some(Changed)),
        ] {
            assert_eq!(together(Some(first), then), both, "{first:?}, then {then:?}");
        }
        assert_eq!(together(together(Some(Created), Removed), Created), Some(Created));
    }
}
