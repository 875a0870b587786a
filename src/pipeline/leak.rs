//! Looking up whose change it is that planning again brought to light.

use super::Context;
use crate::domain::id::StateId;
use crate::domain::plan::compare::{Comparison, Relation};
use crate::domain::plan::leak::{Suspect, name_owners};
use crate::domain::plan::spec::PlanSpec;
use crate::domain::request::RequestRef;

/// So many specs of other requests are looked at, the newest first.
const SUSPECTS: u32 = 100;

/// Names in the differences the requests that they belong to. What cannot be looked up stays without a name: the refusal
/// itself matters more.
pub async fn find_owners(ctx: &Context, state: StateId, spec: &PlanSpec, comparison: &mut Comparison) {
    if comparison.relation <= Relation::Refined {
        return;
    }
    let open = match ctx.store.open_specs(state, SUSPECTS).await {
        Ok(open) => open,
        Err(error) => {
            ctx.warn(format!("it could not be looked up whose changes these are: {error}"));
            return;
        }
    };
    let own = RequestRef::of_origin(&spec.origin);
    let others = open.iter().filter(|one| one.spec.spec.id != spec.id && Some(&one.request) != own.as_ref());
    let suspects: Vec<Suspect> = others
        .filter_map(|one| {
            let spec = PlanSpec::read(&one.spec.spec.document).ok()?;
            Some(Suspect::new(one.request.clone(), one.phase, &spec))
        })
        .collect();
    name_owners(comparison, spec, &suspects);
}
