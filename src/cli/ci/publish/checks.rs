//! The checks on a commit: what a check says, brought to the forge.

use super::Told;
use crate::cli::ci::job::Job;
use crate::cli::ci::outcome::Outcome;
use crate::domain::request::ForgeKind;
use crate::forge::{self, Check, CheckRef};
use crate::report::annotation::{self, AnnotationLevel};
use crate::report::check::{CheckText, Conclusion};

/// GitHub shows so many annotations of a step's log.
const MAX_COMMANDS: usize = 10;

/// Puts a check on the commit. What the forge does not take is a warning, and its remarks go into the log.
pub(super) async fn put(job: &Job<'_>, told: &Told, verb: &str, outcome: &Outcome, text: CheckText) {
    let (Some(forge), Some(commit)) = (&job.forge, &told.commit) else { return };
    let check = Check {
        name: format!("kl {verb}: {}", outcome.project),
        commit: commit.clone(),
        conclusion: text.conclusion.map(|conclusion| match conclusion {
            Conclusion::Success => forge::Conclusion::Success,
            Conclusion::Failure => forge::Conclusion::Failure,
            Conclusion::Neutral => forge::Conclusion::Neutral,
        }),
        title: text.title,
        summary: text.summary,
        text: text.text,
        annotations: text.annotations.iter().map(remark).collect(),
        details_url: job.job_url(),
    };
    match forge.check_put(&check, None).await {
        Ok(CheckRef::Check(_)) => return,
        Ok(CheckRef::Status | CheckRef::Nowhere) => {}
        Err(error) => job.warn(&format!("the check {:?} was not put: {error}", check.name)),
    }
    if job.ci.forge == Some(ForgeKind::Github) {
        for annotation in text.annotations.iter().take(MAX_COMMANDS) {
            job.session.out.command(&annotation.command());
        }
    }
}

fn remark(annotation: &annotation::Annotation) -> forge::Annotation {
    forge::Annotation {
        path: annotation.path.clone(),
        line: annotation.line,
        level: match annotation.level {
            AnnotationLevel::Notice => forge::AnnotationLevel::Notice,
            AnnotationLevel::Warning => forge::AnnotationLevel::Warning,
            AnnotationLevel::Failure => forge::AnnotationLevel::Failure,
        },
        title: annotation.title.clone(),
        message: annotation.message.clone(),
    }
}
