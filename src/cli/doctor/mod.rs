//! `kl doctor`: whether everything around kl is as it has to be, and what to do where it is not. Changes nothing.

mod configuration;
mod database;
mod job;
mod program;

use camino::Utf8Path;
use serde_json::json;

use super::Session;
use super::args::init::DoctorArgs;
use super::ci::job::connect;
use super::project::{self, Place};
use crate::error::KlError;
use crate::exit::Exit;
use crate::forge::Access;
use crate::report::style::{bold, count, dim, good, loud, plain, warn};

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it has to be.
    Ok,
    /// It works, but perhaps not as meant.
    Warning,
    /// kl cannot work like this.
    Problem,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it belongs to: `database`, `terraform`, and so on.
    pub subject: &'static str,
    /// How it stands.
    pub verdict: Verdict,
    /// What was found.
    pub what: String,
    /// What to do.
    pub fix: Option<String>,
}

impl Check {
    fn ok(subject: &'static str, what: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Ok, what: what.into(), fix: None }
    }

    fn warning(subject: &'static str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Warning, what: what.into(), fix: Some(fix.into()) }
    }

    fn problem(subject: &'static str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Problem, what: what.into(), fix: Some(fix.into()) }
    }

    /// An error as a problem; its hints say what to do.
    fn failed(subject: &'static str, error: &KlError) -> Self {
        let fix = (!error.hints().is_empty()).then(|| error.hints().join("; "));
        Self { subject, verdict: Verdict::Problem, what: error.chain(), fix }
    }
}

/// What the forge's token can do, as checks: one for each right that kl uses.
#[must_use]
pub fn access(rights: &[Access]) -> Vec<Check> {
    let one = |right: &Access| match right.granted {
        Some(true) => Check::ok("token", format!("it can {}", right.what)),
        Some(false) => Check::problem("token", format!("it cannot {}", right.what), right.fix),
        None => Check::warning(
            "token",
            format!("whether it can {} is not to be found out without doing it", right.what),
            right.fix,
        ),
    };
    rights.iter().map(one).collect()
}

/// Runs the command.
pub async fn run(session: &Session, args: DoctorArgs) -> Result<Exit, KlError> {
    let ci = project::context(&session.env);
    let place = Place::find(&args.dir);
    let catalog = place.as_ref().ok().map(Place::catalog);
    let listed = catalog.as_ref().and_then(|catalog| catalog.as_ref().ok());
    let mut checks = Vec::new();
    checks.extend(configuration::checks(&place, catalog.as_ref(), &session.env, ci.ci));
    checks.extend(database::checks(session, place.as_ref().ok(), listed, ci.ci).await);
    checks.extend(program::checks(session, &args, place.as_ref().ok(), listed).await);
    checks.extend(job::checks(&ci));
    match connect(session, &ci) {
        Ok(Some(forge)) => checks.extend(access(&forge.access().await)),
        Ok(None) if ci.forge.is_some() => checks.push(Check::warning(
            "token",
            "there is none: kl can neither ask the forge nor tell it anything",
            "give the job KL_FORGE_TOKEN, GITHUB_TOKEN or CI_JOB_TOKEN",
        )),
        Ok(None) => {}
        Err(error) => checks.push(Check::failed("token", &error)),
    }
    let worst = checks.iter().map(|check| check.verdict).max().unwrap_or(Verdict::Ok);
    session.out.result(&told(&args.dir, &checks, worst), || {
        json!({
            "result": worst.word(),
            "checks": checks.iter().map(|check| json!({
                "subject": check.subject,
                "verdict": check.verdict.word(),
                "what": check.what,
                "fix": check.fix,
            })).collect::<Vec<_>>(),
        })
    });
    Ok(if worst == Verdict::Problem { Exit::Usage } else { Exit::Done })
}

fn told(dir: &Utf8Path, checks: &[Check], worst: Verdict) -> String {
    let mut text = String::new();
    let mut subject = "";
    for check in checks {
        if check.subject != subject {
            subject = check.subject;
            text.push_str(&format!("{}\n", bold(subject)));
        }
        let sign = match check.verdict {
            Verdict::Ok => good("✓"),
            Verdict::Warning => warn("!"),
            Verdict::Problem => loud("✗"),
        };
        let what: Vec<String> = check.what.lines().map(plain).collect();
        text.push_str(&format!("  {sign} {}\n", what.join("\n    ")));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("    {} {}\n", dim("→"), plain(fix)));
        }
    }
    let number = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    let (problems, warnings) = (number(Verdict::Problem), number(Verdict::Warning));
    text.push_str(&match worst {
        Verdict::Ok => format!("\n{} All is well in {dir}.\n", good("✓")),
        _ => format!("\n{}, {}.\n", count(problems, "problem"), count(warnings, "warning")),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_of_a_token_become_checks_with_what_to_do() {
        let right = |granted| Access { what: "read pull requests", granted, fix: "give `pull-requests: read`" };
        let checks = access(&[right(Some(true)), right(Some(false)), right(None)]);
        let verdicts: Vec<Verdict> = checks.iter().map(|check| check.verdict).collect();
        assert_eq!(verdicts, [Verdict::Ok, Verdict::Problem, Verdict::Warning]);
        assert_eq!(checks[1].fix.as_deref(), Some("give `pull-requests: read`"));
    }
}
