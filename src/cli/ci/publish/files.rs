//! The files that a job leaves: its summary, its outputs for later steps, the specs for its artifacts.

use std::io::Write as _;

use camino::Utf8PathBuf;
use serde_json::{Value, json};

use super::Told;
use crate::cli::ci::job::Job;
use crate::cli::ci::outcome::{Outcome, Word, worst};
use crate::clock;
use crate::domain::plan::spec::PlanSpec;
use crate::error::KlError;
use crate::report::{annotation, json as documents};

/// Where a project's spec is written to, for artifacts.
pub(in crate::cli::ci) fn plan_file(job: &Job<'_>, name: &str) -> Result<Utf8PathBuf, KlError> {
    let base = job.session.env.get("RUNNER_TEMP").map(Utf8PathBuf::from);
    let dir = base.map_or_else(|| job.place.root.join(".kl"), |temp| temp.join("kl"));
    let cannot = |error| KlError::usage(format!("cannot write to {dir}")).because(error);
    std::fs::create_dir_all(&dir).map_err(cannot)?;
    let ignore = dir.join(".gitignore");
    if !ignore.exists() {
        std::fs::write(&ignore, "*\n").map_err(cannot)?;
    }
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' };
    Ok(dir.join(format!("{}.plan.json", name.chars().map(plain).collect::<String>())))
}

/// Appends to the job's summary, where the forge has one.
pub(super) fn summarise(job: &Job<'_>, text: &str) {
    append(job, "GITHUB_STEP_SUMMARY", &format!("{text}\n"));
}

fn append(job: &Job<'_>, variable: &str, text: &str) {
    let Some(path) = job.session.env.get(variable) else { return };
    let written = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    if let Err(error) = written {
        job.warn(&format!("cannot write to {path}, which {variable} names: {error}"));
    }
}

/// The job's outputs: those of its only project, and those of all as a list.
pub(super) fn outputs(job: &Job<'_>, outcomes: &[Outcome], told: &Told) {
    let results: Vec<Value> = outcomes.iter().map(document).collect();
    let mut values: Vec<(&str, String)> = Vec::new();
    if let [only] = outcomes {
        values.extend(only.spec.iter().map(|spec| ("spec-id", spec.id.to_string())));
        values.extend(only.serial.iter().map(|serial| ("serial", serial.to_string())));
        values.extend(only.run.iter().map(|run| ("run-id", run.to_string())));
        values.extend(only.plan_file.iter().map(|path| ("plan-file", path.clone())));
    }
    let changes = outcomes.iter().any(|outcome| outcome.spec.as_ref().is_some_and(PlanSpec::has_changes));
    values.push(("has-changes", changes.to_string()));
    values.push(("result", worst(outcomes).map_or("nothing", Word::text).to_owned()));
    values.extend(outcomes.iter().find_map(|outcome| outcome.conflict.clone()).map(|title| ("conflict", title)));
    values.extend(told.comment_url.iter().map(|url| ("comment-url", url.clone())));
    values.push(("results", Value::from(results.clone()).to_string()));
    let text: String =
        values.iter().map(|(name, value)| annotation::output(name, value, &clock::new_token())).collect();
    append(job, "GITHUB_OUTPUT", &text);
    if job.session.out.json() {
        let document = json!({ "results": results, "comment_url": told.comment_url });
        job.session.out.data(&format!("{}\n", documents::document(document)));
    }
}

fn document(outcome: &Outcome) -> Value {
    json!({
        "project": outcome.project,
        "request": outcome.request.as_ref().map(|request| request.number),
        "result": outcome.word.text(),
        "exit": outcome.exit().code(),
        "spec": outcome.spec.as_ref().map(|spec| spec.id),
        "has_changes": outcome.spec.as_ref().is_some_and(PlanSpec::has_changes),
        "plan_file": outcome.plan_file,
        "run": outcome.run,
        "serial": outcome.serial,
        "conflict": outcome.conflict,
        "error": outcome.error.as_ref().map(KlError::on_record),
    })
}
