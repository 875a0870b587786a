//! What earlier applies of a spec have already brought into the trunk: they failed half-way, and were recovered.

use super::{Context, stale};
use crate::domain::id::{Serial, StateId};
use crate::domain::plan::resume::Done;
use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::RunKind;
use crate::domain::run::event::{ResourceStep, RunEvent};
use crate::domain::run::in_flight::Effect;
use crate::domain::state::RowKey;
use crate::error::KlError;
use crate::store::model::Source;

/// So many runs of a state are looked through for recoveries of a spec.
const RECENT: u32 = 1000;

/// What recoveries of this very spec have brought into the trunk, up to a serial where one is given.
///
/// # Errors
/// Where the history since the plan is gone, or the database fails.
pub async fn by_same_spec(
    ctx: &Context,
    state: StateId,
    spec: &PlanSpec,
    up_to: Option<Serial>,
) -> Result<Done, KlError> {
    let mut done = Done::default();
    let early = |serial: Serial| up_to.is_none_or(|last| serial <= last);
    for change in stale::changes(ctx.store.as_ref(), state, spec).await? {
        let newest = &change.newest.version;
        if newest.spec == Some(spec.id) && early(newest.serial) {
            if done.last.is_none_or(|(serial, _)| serial < newest.serial) {
                done.last = Some((newest.serial, newest.run));
                done.recovered = newest.source == Source::Recover;
            }
            let address = change.key.address_text();
            if change.gone() && matches!(change.key, RowKey::Object { deposed: None, .. }) {
                done.gone.insert(address.clone());
            }
            done.changed.insert(address);
        }
    }
    for run in ctx.store.run_list(state, false, RECENT).await? {
        if run.spec != Some(spec.id) {
            continue;
        }
        for recorded in ctx.store.event_list(run.id).await? {
            match recorded.event {
                // A recovery says what was in flight, also where that changed no row.
                RunEvent::InFlight { addresses } if run.kind == RunKind::Recover => done.begun.extend(addresses),
                RunEvent::Resource { address, action, step: ResourceStep::Finished, .. } => {
                    match Effect::of(&action) {
                        Some(Effect::Created) => done.made.insert(address),
                        Some(Effect::Updated) => done.updated.insert(address),
                        Some(Effect::Deleted) | None => false,
                    };
                }
                _ => {}
            }
        }
    }
    // What is in no state was not brought to its end for the trunk.
    let Done { changed, made, updated, .. } = &mut done;
    made.retain(|address| changed.contains(address));
    updated.retain(|address| changed.contains(address));
    Ok(done)
}
