//! The job's log: folded by project, deaf to commands in other programs' output, without what the job was given in secret.

use crate::cli::ci::job::Job;
use crate::clock;
use crate::domain::request::ForgeKind;
use crate::report::annotation;

/// The part of the log that belongs to one project: folded on GitHub, and deaf to commands in other programs' output.
pub(in crate::cli::ci) struct Group<'a> {
    job: &'a Job<'a>,
    ends: Vec<String>,
}

impl<'a> Group<'a> {
    /// Begins it.
    pub(in crate::cli::ci) fn open(job: &'a Job<'a>, name: &str) -> Self {
        let mut ends = Vec::new();
        if job.ci.forge == Some(ForgeKind::Github) {
            let (begin, end) = annotation::group(name);
            let (stop, go) = annotation::stopped(&clock::new_token());
            job.session.out.command(&begin);
            job.session.out.command(&stop);
            ends = vec![go, end.to_owned()];
        } else {
            job.session.out.say(&format!("— {}", crate::report::style::plain(name)));
        }
        Self { job, ends }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        for line in &self.ends {
            self.job.session.out.command(line);
        }
    }
}

/// Hides what the job was given and should not print.
pub(in crate::cli::ci) fn mask(job: &Job<'_>, secret: &str) {
    if job.ci.forge == Some(ForgeKind::Github) {
        for line in annotation::masks(secret) {
            job.session.out.command(&line);
        }
    }
}
