//! From what the store knows of a run to what is told of it.

use std::collections::BTreeMap;

use super::{later, request};
use crate::domain::id::{RunId, Serial};
use crate::domain::plan::compare::Relation;
use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::event::{RecordedEvent, RunEvent};
use crate::domain::run::fidelity::{Fidelity, fidelity};
use crate::domain::run::{Run, RunKind};
use crate::domain::state::{RowKey, Touched};
use crate::error::KlError;
use crate::report::explain::{Committed, RunFacts};
use crate::store::model::Version;
use crate::store::{Store, StoreError};

/// So many of the runs that a timeline names are looked up.
const MAX_OTHERS: usize = 50;

/// Everything that is known of a run.
pub async fn of_run(store: &dyn Store, run: Run) -> Result<RunFacts, KlError> {
    let apply = request::of_run(store, run.id, run.origin.job_url.clone()).await?;
    // A spec that another version of kl has stored can still be told apart from what happened.
    let spec = match run.spec {
        Some(id) => found(store.spec_find(id).await)?.and_then(|stored| PlanSpec::read(&stored.spec.document).ok()),
        None => None,
    };
    let (named, soft) = named(&apply.events);
    let mut others = BTreeMap::new();
    for id in named {
        if let Some(other) = found(store.run_find(id).await)? {
            others.insert(id, request::nearby(other));
        }
    }
    let mut later = Vec::new();
    let (came, later_cut) = later::came(store, &run, &apply.events).await?;
    for (one, nearby) in came {
        // One that is named as a neighbour on this run's own timeline was there before.
        if !neighbours(&apply.events).any(|before| before == one.run) {
            others.insert(one.run, nearby);
            later.push(one);
        }
    }
    let heads = store.state_list().await?;
    let state = heads.into_iter().find(|head| head.id == run.state).map(|head| head.name);
    let state = state.ok_or_else(|| KlError::failed("the state of the run does not exist"))?;
    let versions = store.versions_of_runs(&[run.id]).await?;
    let recovered = match run.spec.filter(|_| run.kind == RunKind::Apply && !versions.is_empty()) {
        Some(spec) => store.recovered_versions(&[spec]).await?,
        None => Vec::new(),
    };
    let other_values = other_values(&apply.events);
    let committed = committed(&run, &versions, spec.as_ref(), &recovered, &soft, other_values);
    Ok(RunFacts { run, state, apply, spec, others, later, later_cut, committed })
}

/// The runs that a timeline names, up to a number of them, and the rows whose metadata it says were taken over.
pub(super) fn named(events: &[RecordedEvent]) -> (Vec<RunId>, Vec<String>) {
    let mut named: Vec<RunId> = Vec::new();
    let mut soft = Vec::new();
    for recorded in events {
        match &recorded.event {
            RunEvent::Waiting { behind, .. } => named.extend(behind),
            RunEvent::Reserved { beside, .. } => named.extend(beside.iter().map(|neighbour| neighbour.run)),
            RunEvent::Reclaimed { from: run, .. }
            | RunEvent::Recovers { of: run }
            | RunEvent::TakenOver { by: run, .. } => {
                named.push(*run);
            }
            RunEvent::SoftRows { taken, .. } => soft.extend(taken.iter().cloned()),
            _ => {}
        }
    }
    named.sort();
    named.dedup();
    named.truncate(MAX_OTHERS);
    (named, soft)
}

/// The runs beside which a run got its reservations.
pub(super) fn neighbours(events: &[RecordedEvent]) -> impl Iterator<Item = RunId> {
    let of = |recorded: &RecordedEvent| match &recorded.event {
        RunEvent::Reserved { beside, .. } => beside.iter().map(|neighbour| neighbour.run).collect(),
        _ => Vec::new(),
    };
    events.iter().flat_map(of)
}

/// Whether planning again gave other values at last: a run that went on then had been told to accept them.
pub(super) fn other_values(events: &[RecordedEvent]) -> bool {
    let last = events.iter().rev().find_map(|recorded| match &recorded.event {
        RunEvent::Replanned { relation, .. } => Some(relation),
        _ => None,
    });
    last.is_some_and(|relation| relation == Relation::ValuesDiffer.word())
}

/// The versions that a run made, compared with the spec. `recovered` are the versions that recoveries of the spec made.
pub(super) fn committed(
    run: &Run,
    versions: &[Version],
    spec: Option<&PlanSpec>,
    recovered: &[Version],
    soft: &[String],
    other_values: bool,
) -> Vec<Committed> {
    let spec = spec.filter(|_| run.kind == RunKind::Apply);
    let committed = |version: &Version| {
        let touched = usize::try_from(version.rows_touched).unwrap_or_default();
        let removed = touched.saturating_sub(version.rows.len());
        // What is gone cannot be compared.
        let spec = spec.filter(|_| removed == 0);
        Committed {
            serial: version.serial,
            mode: version.mode.word(),
            rows: version.rows.iter().map(|(row, touched)| format!("{} {row}", touched.sign())).collect(),
            removed,
            fidelity: spec.map(|spec| Fidelity {
                other_values,
                ..fidelity(spec, &before(recovered, version.serial), &version.rows, soft)
            }),
        }
    };
    versions.iter().map(committed).collect()
}

/// What these versions did before a serial.
pub(super) fn before(recovered: &[Version], serial: Serial) -> Vec<(RowKey, Touched)> {
    recovered.iter().filter(|one| one.serial < serial).flat_map(|one| one.rows.clone()).collect()
}

/// None for what `kl gc` has removed.
pub(super) fn found<T>(result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
