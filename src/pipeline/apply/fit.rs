//! Whether a spec fits the state, the directory and the rules at all, before anything is recorded.

use crate::domain::plan::spec::PlanSpec;
use crate::domain::run::Origin;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::{Context, Project, Rules, inputs, stale};
use crate::store::StoreError;
use crate::store::model::StateHead;

/// Whether the spec fits the state at all; nothing is recorded before. Gives the state, and where the spec comes from.
pub(super) async fn check_fit(
    ctx: &Context,
    project: &Project,
    spec: &PlanSpec,
    rules: &Rules,
) -> Result<(StateHead, Origin), KlError> {
    if spec.state.name != project.state {
        return Err(KlError::usage(format!(
            "the spec is for state {:?}, and this directory has state {:?}",
            spec.state.name.as_str(),
            project.state.as_str()
        ))
        .hint("apply the spec in the directory that it was planned in, or name the state with --state"));
    }
    rules.check_destroy(spec)?;
    missing_variables(project, spec)?;
    inputs::check(project)?;
    let stored = ctx.store.spec_find(spec.id).await.map_err(|error| match error {
        StoreError::NotFound { .. } => KlError::usage(format!("the database does not know the spec {}", spec.id))
            .hint("use the database that the plan was made with (--database, KL_DATABASE_URL)"),
        other => other.into(),
    })?;
    if stored.spec.digest != spec.digest {
        return Err(KlError::usage("the spec file differs from the spec that is stored in the database")
            .hint("run `kl plan` again; a spec is not to be edited"));
    }
    let Some(head) = ctx.store.state_find(&spec.state.name).await? else {
        return Err(KlError::usage(format!("the database has no state {:?}", spec.state.name.as_str())));
    };
    if let (Some(planned), Some(actual)) = (&spec.state.lineage, &head.lineage)
        && planned != actual
    {
        return Err(KlError::usage(format!(
            "the spec was planned for lineage {planned}, and state {:?} has lineage {actual}",
            head.name.as_str()
        ))
        .hint("this is another state under the same name; plan again"));
    }
    stale::not_ahead(spec, &head)?;
    if let Some(limit) = rules.max_plan_age {
        let age = crate::report::style::between(stored.created_at, ctx.store.now().await?);
        if age > limit {
            return Err(KlError::new(
                Exit::Stale,
                format!(
                    "the plan is {} old, and max_plan_age is {}",
                    crate::report::style::duration(age),
                    crate::report::style::duration(limit)
                ),
            )
            .hint("run `kl plan` again and have the new plan reviewed"));
        }
    }
    Ok((head, stored.spec.origin))
}

/// Variables that were given at the plan are needed again: their values are in no spec.
fn missing_variables(project: &Project, spec: &PlanSpec) -> Result<(), KlError> {
    let given = |name: &String| project.variables.iter().any(|variable| variable.name == *name);
    let missing: Vec<&str> = spec.project.variables.iter().filter(|name| !given(name)).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(KlError::usage(format!("the plan was made with --var for {}; the apply needs the same", missing.join(", ")))
        .hint(format!("add --var {}=VALUE; a spec never holds values", missing[0])))
}
