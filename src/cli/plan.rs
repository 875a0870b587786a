//! `kl plan`: arguments to a plan request, the spec to a file.

use camino::Utf8Path;
use serde_json::json;

use super::Session;
use super::args::{PlanArgs, ScopeArgs};
use super::project::Place;
use super::whole::{self, Readers};
use crate::domain::plan::spec::{PlanMode, PlanSpec, Scope};
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::{Rules, preflight};
use crate::report::{json, plan, style};

/// What is written, in errors.
const WHAT: &str = "the spec";

/// Runs the command.
pub async fn run(session: &Session, args: PlanArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    let project = place.project(&args.state, &args.input, &session.env).await?;
    whole::writable(&args.out, WHAT)?;
    let memory = session.memory(&place).await?;
    let rules = Rules::from(place.policies(&args.state, &session.env));
    let caller = session.caller(&args.actor);
    let (planned, _) = preflight::plan(&caller, memory, &project, scope(&args.scope)?, &rules).await?;
    for warning in &planned.warnings {
        session.out.say(&format!("{} {warning}", style::warn("terraform warns:")));
    }
    if let Err(refusal) = rules.check_destroy(&planned.spec) {
        session.out.say(&format!("{} {}; `kl apply` will refuse it", style::warn("warning:"), refusal.message()));
    }
    write(&args.out, &planned.spec)?;
    let mut text = plan::summary(&planned.spec);
    if planned.spec.has_changes() {
        text.push_str(&format!(
            "\nSpec {} written to {}; apply it with `kl apply {}`.\n",
            planned.spec.id, args.out, args.out
        ));
    }
    session.out.result(&text, || {
        let mut document = json::plan(&planned.spec, Some(args.out.as_str()));
        document["warnings"] = json!(planned.warnings);
        document
    });
    Ok(Exit::Done)
}

/// The scope that the arguments ask for.
pub fn scope(args: &ScopeArgs) -> Result<Scope, KlError> {
    Ok(Scope {
        mode: if args.destroy { PlanMode::Destroy } else { PlanMode::Normal },
        targets: args.targets.clone(),
        files: args.files.clone(),
        replace: args.replace.clone(),
    })
}

/// Writes the spec whole or not at all.
pub(super) fn write(out: &Utf8Path, spec: &PlanSpec) -> Result<(), KlError> {
    whole::write(out, WHAT, &spec.to_text(), Readers::Owner)
}
