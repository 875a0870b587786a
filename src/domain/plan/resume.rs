//! Applying a spec again after a half-way apply was recovered: what is left must be the rest of the reviewed plan, and
//! nothing else.

use std::collections::BTreeSet;

use super::action::Action;
use super::compare::{Comparison, Difference, Relation};
use super::fingerprint::covered;
use super::spec::{PlanSpec, WriteEntry};
use crate::domain::address::Pattern;
use crate::domain::id::{RunId, Serial};

/// What recoveries of a spec's earlier applies have brought into the trunk, by address; outputs are `output.NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// Rows that they changed.
    pub changed: BTreeSet<String>,
    /// Among these, instances whose current object is gone.
    pub gone: BTreeSet<String>,
    /// Among these, addresses whose new object an apply has made to its end, by what Terraform said of it.
    pub made: BTreeSet<String>,
    /// Among these, addresses whose object an apply has updated to its end.
    pub updated: BTreeSet<String>,
    /// What they were working on when they were cut off: it may have come to its end in reality, which planning sees.
    pub begun: BTreeSet<String>,
    /// The newest serial that they made, and the run that made it.
    pub last: Option<(Serial, Option<RunId>)>,
    /// Whether a recovery made that one, and not an apply that came to its end.
    pub recovered: bool,
}

impl Done {
    /// Whether there was no such apply, or it has done nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.begun.is_empty()
    }

    /// Of the addresses that a spec replaces by command: those whose new object is not there yet. Terraform would replace
    /// the others once more. A new one that is tainted gets replaced without a command, too.
    #[must_use]
    pub fn still_to_replace(&self, by_command: &[String]) -> Vec<String> {
        let replaced = |text: &&String| {
            let address = Pattern::parse(text).map_or_else(|_| (*text).clone(), |pattern| pattern.to_string());
            self.made.contains(&address) && !self.gone.contains(&address)
        };
        by_command.iter().filter(|text| !replaced(text)).cloned().collect()
    }
}

/// Leaves out of a comparison what an earlier apply of the same spec explains. Each address that it changed, or was
/// working on, must be either at its reviewed end, with nothing more planned for it, or on the way to exactly that end.
#[must_use]
pub fn resumed(spec: &PlanSpec, mut comparison: Comparison, done: &Done) -> Comparison {
    let footprint = &comparison.footprint;
    let explained = |difference: &Difference| {
        let at = difference.at.as_str();
        let mut again = footprint.write.iter().filter(|entry| entry.address.to_string() == at);
        (done.changed.contains(at) || done.begun.contains(at))
            && again.all(|entry| is_the_rest(spec, entry, done))
            && !footprint.outputs.iter().any(|output| format!("output.{}", output.name) == at)
    };
    let kept: Vec<Difference> =
        comparison.differences.iter().filter(|difference| !explained(difference)).cloned().collect();
    let worst = kept.iter().map(|difference| difference.relation).max();
    let least = if done.is_empty() { Relation::Identical } else { Relation::Refined };
    comparison.differences = kept;
    comparison.relation = worst.unwrap_or(least).max(least);
    comparison
}

/// Whether what is planned now for an object is the rest of what was reviewed for it.
fn is_the_rest(spec: &PlanSpec, now: &WriteEntry, done: &Done) -> bool {
    if now.deposed.is_some() {
        return ends_what_was_replaced(spec, now);
    }
    let reviewed = spec.write.iter().find(|entry| entry.address == now.address && entry.deposed.is_none());
    reviewed.is_some_and(|reviewed| {
        same_end(reviewed, now) && (makes_good_what_was_half_made(now) || replaces_what_is_gone(reviewed, now, done))
    })
}

/// Whether both make the same object, as far as it was known at the review.
fn same_end(reviewed: &WriteEntry, now: &WriteEntry) -> bool {
    !reviewed.print.after.is_empty()
        && reviewed.print.after == now.print.after
        && now.print.unknown.iter().all(|pointer| covered(pointer, &reviewed.print.unknown))
}

/// The object came into being and was left tainted: the reviewed one takes its place.
fn makes_good_what_was_half_made(now: &WriteEntry) -> bool {
    now.reason.as_deref() == Some("replace_because_tainted")
}

/// Of a replacement, the old object is gone already: what is left is to create the new one.
fn replaces_what_is_gone(reviewed: &WriteEntry, now: &WriteEntry, done: &Done) -> bool {
    let address = now.address.to_string();
    let gone = done.gone.contains(&address) || done.begun.contains(&address);
    reviewed.actions.replaces() && now.actions == Action::Create && gone
}

/// Of a replacement, the new object is there, and the old one was left deposed.
fn ends_what_was_replaced(spec: &PlanSpec, now: &WriteEntry) -> bool {
    let replaced = |entry: &WriteEntry| entry.address == now.address && entry.actions == Action::CreateDelete;
    now.actions == Action::Delete && spec.write.iter().any(replaced)
}

#[cfg(test)]
mod tests;
