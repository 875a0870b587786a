//! The checks on a commit: what a check says, brought to the forge.

use super::Told;
use crate::cli::ci::comment::untold;
use crate::cli::ci::job::Job;
use crate::cli::ci::outcome::Outcome;
use crate::domain::request::ForgeKind;
use crate::forge::{Check, CheckRef};
use crate::report::check::CheckText;

/// GitHub shows so many annotations of a step's log.
const MAX_COMMANDS: usize = 10;

/// Puts a check on the commit. What the forge does not take is a warning, and its remarks go into the log.
pub(super) async fn put(job: &Job<'_>, told: &Told, verb: &str, outcome: &Outcome, text: CheckText) {
    let (Some(forge), Some(commit)) = (&job.forge, &told.commit) else { return };
    let check = Check {
        name: format!("kl {verb}: {}", outcome.project),
        commit: commit.clone(),
        conclusion: text.conclusion,
        title: text.title,
        summary: text.summary,
        text: text.text,
        annotations: text.annotations,
        details_url: job.job_url(),
    };
    match forge.check_put(&check, None).await {
        Ok(CheckRef::Check(_)) => return,
        Ok(CheckRef::Status | CheckRef::Nowhere) => {}
        Err(error) => {
            job.warn(&format!("the check {:?} was not put: {error}", check.name));
            if let (Some(store), Some(run)) = (&told.store, outcome.run) {
                untold(&**store, &[run], &format!("the check {:?}", check.name), &error.to_string()).await;
            }
        }
    }
    if job.ci.forge == Some(ForgeKind::Github) {
        for annotation in check.annotations.iter().take(MAX_COMMANDS) {
            job.session.out.command(&annotation.command());
        }
    }
}
