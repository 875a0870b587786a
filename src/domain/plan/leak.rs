//! Whose change it is that a new plan holds and the reviewed one does not: another request's, when its spec is known.

use std::collections::BTreeSet;

use super::compare::{Comparison, Owner, Relation};
use super::spec::PlanSpec;
use crate::domain::address::Pattern;
use crate::domain::request::{RequestPhase, RequestRef};

/// A spec of another request, which may have got into the plan.
#[derive(Debug, Clone)]
pub struct Suspect {
    /// The request.
    pub request: RequestRef,
    /// Where it stands.
    pub phase: RequestPhase,
    /// What it means to write.
    pub writes: BTreeSet<String>,
}

impl Suspect {
    /// The suspect with this spec.
    #[must_use]
    pub fn new(request: RequestRef, phase: RequestPhase, spec: &PlanSpec) -> Self {
        Self { request, phase, writes: texts(&spec.write_patterns()) }
    }
}

/// Names in each difference the request that it belongs to, when one of the suspects writes the same row. One that is
/// merged comes first, and only a merged one can have changed a row that the reviewed plan writes itself.
pub fn name_owners(comparison: &mut Comparison, reviewed: &PlanSpec, suspects: &[Suspect]) {
    let own = texts(&reviewed.write_patterns());
    let merged = |suspect: &&Suspect| suspect.phase == RequestPhase::Merged;
    for difference in comparison.differences.iter_mut().filter(|one| one.relation > Relation::Refined) {
        let writers: Vec<&Suspect> =
            suspects.iter().filter(|suspect| suspect.writes.contains(&difference.at)).collect();
        let open = writers.first().filter(|_| !own.contains(&difference.at));
        difference.owner = writers
            .iter()
            .copied()
            .find(merged)
            .or(open.copied())
            .map(|suspect| Owner { request: suspect.request.clone(), merged: merged(&suspect) });
    }
}

fn texts(patterns: &[Pattern]) -> BTreeSet<String> {
    patterns.iter().map(ToString::to_string).collect()
}
