//! `kl plan`: arguments to a plan request, the spec to a file.

use std::io::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::json;

use super::Session;
use super::args::{PlanArgs, ScopeArgs};
use super::project::Place;
use crate::domain::plan::spec::{PlanMode, PlanSpec, Scope};
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::{Rules, preflight};
use crate::report::{json, plan, style};

/// Runs the command.
pub async fn run(session: &Session, args: PlanArgs) -> Result<Exit, KlError> {
    let place = Place::find(&args.dir)?;
    let project = place.project(&args.state, &args.input, &session.env).await?;
    writable(&args.out)?;
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

/// Finds out before a long plan that its result could not be written.
fn writable(out: &Utf8Path) -> Result<(), KlError> {
    let dir = match out.parent() {
        Some(dir) if !dir.as_str().is_empty() => dir.to_owned(),
        _ => Utf8PathBuf::from("."),
    };
    if out.is_dir() || !dir.is_dir() {
        return Err(KlError::usage(format!("the spec cannot be written to {out}")).hint("name a file with --out"));
    }
    Ok(())
}

/// Writes the spec whole or not at all.
fn write(out: &Utf8Path, spec: &PlanSpec) -> Result<(), KlError> {
    let cannot = |error: std::io::Error| KlError::usage(format!("the spec cannot be written to {out}")).because(error);
    let dir = match out.parent() {
        Some(dir) if !dir.as_str().is_empty() => dir,
        _ => Utf8Path::new("."),
    };
    let mut file = tempfile::Builder::new().prefix(".kl-plan").tempfile_in(dir).map_err(cannot)?;
    file.write_all(spec.to_text().as_bytes()).map_err(cannot)?;
    file.persist(out).map_err(|error| cannot(error.error))?;
    Ok(())
}
