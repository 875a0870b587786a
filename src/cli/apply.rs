//! `kl apply`: a reviewed spec, or a plan made on the spot.

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

use super::Session;
use super::args::ApplyArgs;
use super::bounded::{self, MAX_SPEC};
use super::output::Output;
use super::plan::scope;
use super::project::{self, Place};
use crate::config::policy::DestroyGuard;
use crate::domain::plan::spec::{PlanSpec, SpecError};
use crate::domain::run::RunStatus;
use crate::error::KlError;
use crate::exit::Exit;
use crate::pipeline::apply::{ApplyFailure, ApplyOptions, ApplyReport, apply};
use crate::pipeline::{Rules, preflight};
use crate::report::style::{bold, good};
use crate::report::{json, plan};
use crate::workspace::repository_root;

/// Runs the command.
pub async fn run(session: &Session, mut args: ApplyArgs) -> Result<Exit, KlError> {
    let reviewed = if args.what.is_dir() { None } else { Some(read(&args.what)?) };
    let dir = match (&args.dir, &reviewed) {
        (Some(dir), _) => dir.clone(),
        (None, None) => args.what.clone(),
        (None, Some(spec)) => dir_of(spec)?,
    };
    if reviewed.is_some()
        && (args.scope.destroy
            || !args.scope.targets.is_empty()
            || !args.scope.files.is_empty()
            || !args.scope.replace.is_empty())
    {
        return Err(KlError::usage(
            "a spec says itself what it covers: --target, --file, --replace and --destroy go with `kl plan`",
        ));
    }
    let place = Place::find(&dir)?;
    if let Some(spec) = &reviewed {
        let asked = project::workspace(&args.state, &session.env);
        if let Some(asked) = asked.filter(|asked| *asked != spec.project.workspace) {
            return Err(KlError::usage(format!(
                "the spec was planned in workspace {:?}, and {asked:?} is asked for",
                spec.project.workspace
            ))
            .hint("leave out --workspace and TF_WORKSPACE: the spec says which workspace it is for"));
        }
        args.state.workspace = Some(spec.project.workspace.clone());
    }
    let mut project = place.project(&args.state, &args.input, &session.env).await?;
    if let Some(spec) = &reviewed {
        if args.state.state.is_none() {
            // A spec that was planned with --state is applied to that state, when it is the same directory.
            project.state = if spec.project.dir == project.name { spec.state.name.clone() } else { project.state };
        }
        if project.var_files.is_empty() {
            project.var_files.clone_from(&spec.project.var_files);
        }
    }
    let policies = place.policies(&args.state, &session.env);
    let mut rules = Rules { strict: args.strict_since_plan, ..Rules::from(policies) };
    rules.on_stale = args.on_stale.map_or(rules.on_stale, Into::into);
    if args.allow_destroy {
        rules.destroy = DestroyGuard::Allow;
    }
    let (spec, ctx) = if let Some(spec) = reviewed {
        // A spec is stored in the database that it was planned with: a new one could not know it.
        (spec, session.context(session.store_existing(&place).await?, &args.actor))
    } else {
        let (memory, caller) = (session.memory(&place).await?, session.caller(&args.actor));
        let (planned, ctx) = preflight::plan(&caller, memory, &project, scope(&args.scope)?, &rules).await?;
        session.out.say(&plan::summary(&planned.spec));
        let ci = project::identity(&args.actor, &session.env).1.ci;
        let asks = planned.spec.has_changes() && !args.auto_approve && !args.dry_run && !ci && Output::interactive();
        if asks && !session.ask(&bold("Apply this plan? Only \"yes\" will be accepted:")).await? {
            return Err(KlError::failed("not applied: the plan was not approved"));
        }
        (planned.spec, ctx)
    };
    let options = ApplyOptions {
        dry_run: args.dry_run,
        lease: args.reserve.lease,
        wait: args.reserve.wait,
        timeout: args.timeout,
        lane: args.lane.into(),
        accept_values: args.accept_values,
    };
    match Box::pin(apply(&ctx, &project, &spec, &rules, &options)).await {
        Ok(report) => {
            session.out.result(&told(&report), || document(&spec, Some(&report), None));
            Ok(Exit::Done)
        }
        Err(failure) if session.out.json() => {
            session.out.data(&format!("{}\n", json::document(document(&spec, None, Some(&failure)))));
            let exit = failure.error.exit();
            session.out.error_text(&failure.error);
            Ok(exit)
        }
        Err(failure) => Err(failure.error),
    }
}

pub(super) fn told(report: &ApplyReport) -> String {
    if let Some(before) = &report.done_before {
        let run = before.run.map(|run| format!(" by run {run}")).unwrap_or_default();
        return format!("{} Nothing to do: {}{run}.\n", good("✓"), before.reason());
    }
    match report.status {
        RunStatus::Noop => format!("{} Nothing to do.\n", good("✓")),
        RunStatus::DryRun => format!("{} Dry run: every reservation could be had; nothing was changed.\n", good("✓")),
        _ => {
            let serial = report.serial.map(|serial| format!(" as serial {serial}")).unwrap_or_default();
            format!("{} Applied and committed{serial} by run {}.\n", good("✓"), report.run)
        }
    }
}

fn document(spec: &PlanSpec, report: Option<&ApplyReport>, failure: Option<&ApplyFailure>) -> Value {
    let error = failure.map(|failure| {
        json!({
            "message": failure.error.chain(),
            "exit": failure.error.exit().code(),
            "hints": failure.error.hints(),
        })
    });
    let conflict: Vec<Value> =
        failure.map(|failure| failure.blockers.iter().map(json::blocker).collect()).unwrap_or_default();
    json!({
        "state": spec.state.name,
        "spec": spec.id,
        "run": report.map(|report| report.run).or(failure.and_then(|failure| failure.run)),
        "result": report.map(|report| report.status),
        "serial": report.and_then(|report| report.serial),
        "applied_before": report.and_then(|report| report.done_before).map(|before| {
            json!({ "serial": before.serial, "run": before.run, "recovered": before.recovered })
        }),
        "rows_opened": report.map(|report| report.rows_opened),
        "rows_closed": report.map(|report| report.rows_closed),
        "conflict": conflict,
        "error": error,
    })
}

/// Reads a spec file.
pub(super) fn read(path: &Utf8Path) -> Result<PlanSpec, KlError> {
    let text = bounded::file(path, MAX_SPEC).map_err(|error| {
        let kl = KlError::usage(format!("cannot read the spec {path}")).because(error);
        kl.hint("`kl plan` writes kl-plan.json; without a spec, name a directory: `kl apply .`")
    })?;
    let text =
        String::from_utf8(text).map_err(|_| KlError::usage(format!("{path} is not a plan spec: it is not text")))?;
    PlanSpec::read(&text).map_err(|error| {
        let kl = KlError::usage(format!("{path} cannot be used: {error}"));
        let kl = match &error {
            SpecError::Syntax(source) | SpecError::Foreign(source) => kl.because(source.to_string()),
            _ => kl,
        };
        kl.hint("run `kl plan` again")
    })
}

/// The root module that a spec names, from where the command was started.
fn dir_of(spec: &PlanSpec) -> Result<Utf8PathBuf, KlError> {
    let here = Utf8Path::new(".")
        .canonicalize_utf8()
        .map_err(|error| KlError::usage("the current directory cannot be read").because(error))?;
    let root = repository_root(&here).unwrap_or_else(|| here.clone());
    let dir = root.join(&spec.project.dir);
    if dir.is_dir() {
        return Ok(dir);
    }
    Err(KlError::usage(format!("the spec is for {}, and there is no such directory in {root}", spec.project.dir))
        .hint("run kl in the repository that the plan was made in, or name the root module with --dir"))
}
