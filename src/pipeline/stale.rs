//! What changed since the plan, and whether the apply may go on (design §8).

use super::Rules;
use super::intervening;
use super::record::Recorder;
use crate::config::policy::OnStale;
use crate::domain::coordination::staleness::{Staleness, classify};
use crate::domain::id::StateId;
use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::event::RunEvent;
use crate::error::KlError;
use crate::exit::Exit;
use crate::report::changed_row;
use crate::report::conflict;
use crate::store::model::{RowChange, StateHead, Version};
use crate::store::{Store, StoreError};

/// So many rows are named in the message; the rest is counted.
const MAX_NAMED: usize = 10;

/// So many rows that do not matter to a plan are put on its timeline; the rest is counted.
const MAX_OUTSIDE: usize = 1000;

/// Refuses a spec of serials that the state has not come to: it is of another database.
pub fn not_ahead(spec: &PlanSpec, state: &StateHead) -> Result<(), KlError> {
    if spec.state.serial <= state.serial {
        return Ok(());
    }
    Err(KlError::usage(format!(
        "the spec was planned at serial {}, and state {:?} is only at serial {}",
        spec.state.serial,
        state.name.as_str(),
        state.serial
    ))
    .hint("is this the database that the plan was made with?"))
}

/// Sorts what changed since the spec, with the versions that did so. Versions that came from applying this very spec are its
/// own doing.
pub async fn since(store: &dyn Store, state: StateId, spec: &PlanSpec) -> Result<Staleness, KlError> {
    let changes = by_others(changes(store, state, spec).await?, spec);
    let sorted = classify(&spec.claims(), changes.into_iter().map(|change| (change.key.clone(), change)));
    Ok(intervening::told(store, state, sorted).await?)
}

/// Without the rows that applying this very spec has touched last.
pub fn by_others(changes: Vec<RowChange>, spec: &PlanSpec) -> Vec<RowChange> {
    changes.into_iter().filter(|change| change.newest.version.spec != Some(spec.id)).collect()
}

/// Every row that changed since the spec was planned. A plan from before the history that is kept holds no longer: nobody
/// can tell what has changed since.
pub async fn changes(store: &dyn Store, state: StateId, spec: &PlanSpec) -> Result<Vec<RowChange>, KlError> {
    store.rows_changed_since(state, spec.state.serial).await.map_err(|error| match error {
        StoreError::HistoryRemoved { from, .. } => KlError::new(
            Exit::Stale,
            format!(
                "the plan is from serial {}, and the history before serial {from} was removed by `kl gc`",
                spec.state.serial
            ),
        )
        .hint("plan again with `kl plan`"),
        other => other.into(),
    })
}

/// The version that applying this very spec has made already, unless somebody has touched what it wrote since then without
/// a reviewed plan: a plain Terraform, an import, a refresh, a rollback, a removal or a move. What it promises is not so any
/// more then, and neither is "nothing to do" true. Where the history since is gone, nobody can tell.
pub async fn applied_before(store: &dyn Store, state: StateId, spec: &PlanSpec) -> Result<Option<Version>, KlError> {
    let Some(version) = store.applied_version(state, spec.id).await? else { return Ok(None) };
    let since = match store.rows_changed_since(state, version.serial).await {
        Ok(changes) => changes,
        Err(StoreError::HistoryRemoved { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let unplanned = since.into_iter().filter(|change| change.newest.version.spec.is_none());
    Ok(classify(&spec.claims(), unplanned.map(|change| (change.key, ()))).write.is_empty().then_some(version))
}

/// Records the outcome of the check; says whether the run may go on, and whether the re-plan has to decide.
pub async fn judge(recorder: &Recorder, staleness: Staleness, rules: &Rules) -> Result<Verdict, KlError> {
    if staleness.fresh() {
        let mut outside = staleness.outside;
        let rest = outside.split_off(outside.len().min(MAX_OUTSIDE));
        let more_back = rest.iter().filter(|row| row.back).count();
        recorder.record(RunEvent::StaleCheckPassed { outside, more: rest.len(), more_back }).await?;
        return Ok(Verdict::Fresh);
    }
    let revalidate = rules.on_stale == OnStale::Revalidate && (!rules.strict || staleness.write.is_empty());
    let event = RunEvent::StaleCheckFailed { read: staleness.read.clone(), write: staleness.write.clone(), revalidate };
    recorder.record(event).await?;
    Ok(if revalidate { Verdict::Revalidate } else { Verdict::Refused(refusal(&staleness)) })
}

/// What the stale check came to.
pub enum Verdict {
    /// Nothing in the footprint changed.
    Fresh,
    /// Something did; comparing the new plan decides.
    Revalidate,
    /// Something did, and that is the end.
    Refused(KlError),
}

/// The refusal of a plan that no longer holds.
#[must_use]
pub fn refusal(staleness: &Staleness) -> KlError {
    let mut message = String::from("the reviewed plan no longer holds: rows that it uses have changed since");
    let rows = staleness.write.iter().map(|row| (row, "writes")).chain(staleness.read.iter().map(|row| (row, "reads")));
    let total = staleness.write.len() + staleness.read.len();
    for (row, verb) in rows.take(MAX_NAMED) {
        for fact in changed_row::facts(row, &format!("it {verb}")) {
            message.push_str(&format!("\n  {}", fact.bare()));
        }
    }
    if total > MAX_NAMED {
        message.push_str(&format!("\n  and {} more", total - MAX_NAMED));
    }
    conflict::stale_hints().into_iter().fold(KlError::new(Exit::Stale, message), KlError::hint)
}
