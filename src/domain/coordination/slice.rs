//! The part of the trunk that Terraform gets to see in one apply.

use std::collections::BTreeSet;

use super::lane::Lane;
use crate::domain::address::{Address, ConfigAddress, Mode};
use crate::domain::graph::tree::Tree;
use crate::domain::plan::spec::{PlanSpec, WriteEntry};
use crate::domain::state::{Row, RowKey};

/// Cuts the slice out of the trunk's rows.
///
/// Narrow: every instance of every resource in the write set and in what it depends on; a missing sibling would
/// silently give another value (facts D1). Footprint: every row that the configuration describes, so that nothing
/// declared looks new, and the write set. Rows that are neither (another request's merged but not yet applied
/// removal or move) stay out of sight. Outputs are always there: a missing one would look new. So are check results, to tell which of
/// them the apply has changed.
pub fn cut<'a>(lane: Lane, spec: &PlanSpec, tree: &Tree, rows: impl Iterator<Item = &'a Row>) -> Vec<Row> {
    let written = written(spec);
    let closure: BTreeSet<&ConfigAddress> = spec.lane.closure.iter().chain(&spec.lane.output_targets).collect();
    let shown = |resource: &ConfigAddress| match lane {
        Lane::Narrow => written.contains(resource) || closure.contains(resource),
        Lane::Footprint => written.contains(resource) || tree.declares(resource),
    };
    rows.filter(|row| match &row.key {
        RowKey::Object { address, .. } => shown(&address.config()),
        RowKey::Output(_) | RowKey::Check { .. } => true,
        RowKey::Husk(_) => false,
    })
    .cloned()
    .collect()
}

fn written(spec: &PlanSpec) -> BTreeSet<ConfigAddress> {
    let both_ends = |entry: &WriteEntry| {
        let from = entry.moved_from.as_ref().map(Address::config);
        std::iter::once(entry.address.config()).chain(from).collect::<Vec<_>>()
    };
    spec.write.iter().flat_map(both_ends).collect()
}

/// Data rows that the write set depended on and that the configuration no longer declares.
///
/// Terraform drops such rows without a word in any plan, but not from a plan that is limited by targets.
pub fn forgotten_data<'a>(spec: &PlanSpec, tree: &Tree, rows: impl Iterator<Item = &'a Row>) -> Vec<Row> {
    let closure: BTreeSet<&ConfigAddress> = spec.lane.closure.iter().collect();
    let forgotten = |address: &Address| {
        let resource = address.config();
        address.mode == Mode::Data && closure.contains(&resource) && !tree.declares(&resource)
    };
    rows.filter(|row| row.key.address().is_some_and(forgotten)).cloned().collect()
}
