//! Whether the CI job around kl is one that it knows, and what it can do in it.

use super::Check;
use crate::config::ci::CiContext;
use crate::config::event::{CiEvent, RequestEvent};
use crate::domain::request::ForgeKind;

const SUBJECT: &str = "job";

/// Looks at the job.
pub(super) fn checks(ci: &CiContext) -> Vec<Check> {
    let Some(forge) = ci.forge else {
        return vec![if ci.ci {
            Check::warning(
                SUBJECT,
                "this is a CI job of a forge that kl does not know",
                "kl works, and prints what it would have written into a comment",
            )
        } else {
            Check::ok(SUBJECT, "this is no CI job")
        }];
    };
    let mut checks = Vec::new();
    let (name, api) = match forge {
        ForgeKind::Github => ("GitHub Actions", "GITHUB_API_URL"),
        ForgeKind::Gitlab => ("GitLab CI", "CI_API_V4_URL"),
    };
    match &ci.origin.repository {
        Some(repository) => checks.push(Check::ok(SUBJECT, format!("{name}, repository {repository}"))),
        None => checks.push(Check::problem(
            SUBJECT,
            format!("{name} does not say which repository this is"),
            "hand on the environment of the job; containers do not get it by themselves",
        )),
    }
    if ci.api_url.is_none() {
        checks.push(Check::warning(
            SUBJECT,
            format!("{api} is not set, so that there will be no comment and no check"),
            "hand on the environment of the job; containers do not get it by themselves",
        ));
    }
    match &ci.event {
        Err(error) => checks.push(Check::problem(
            SUBJECT,
            error.to_string(),
            "hand on the job's event file and environment; containers do not get them by themselves",
        )),
        Ok(None) => checks.push(Check::warning(
            SUBJECT,
            "what made the job run is not known",
            "hand on GITHUB_EVENT_NAME and GITHUB_EVENT_PATH",
        )),
        Ok(Some(event)) => checks.extend(of_event(event)),
    }
    checks
}

fn of_event(event: &CiEvent) -> Vec<Check> {
    let mut checks = vec![match event {
        CiEvent::Unknown { .. } => Check::warning(
            SUBJECT,
            event.describe(),
            "run kl on pull or merge requests, pushes, merge queues, schedules, or by hand",
        ),
        _ => Check::ok(SUBJECT, event.describe()),
    }];
    if let CiEvent::Request(RequestEvent { privileged: true, .. }) = event {
        checks.push(Check::problem(
            SUBJECT,
            "`pull_request_target` gives the repository's secrets to whatever a request holds",
            "plan on `pull_request`",
        ));
    } else if let CiEvent::Request(RequestEvent { from_fork: true, .. }) = event {
        checks.push(Check::warning(
            SUBJECT,
            "the request comes from a fork: there are no secrets, and the token can only read",
            "the plan stands in the job's summary; nothing is applied",
        ));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::Verdict;
    use crate::config::ci::detect;

    fn verdicts(pairs: &[(&str, &str)], payload: &str) -> Vec<Verdict> {
        let context = detect(
            |name| pairs.iter().find(|(found, _)| *found == name).map(|(_, value)| (*value).to_owned()),
            |_| Ok(payload.to_owned()),
        );
        checks(&context).into_iter().map(|check| check.verdict).collect()
    }

    const GITHUB: [(&str, &str); 4] = [
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_REPOSITORY", "example/infra"),
        ("GITHUB_API_URL", "https://api.github.com"),
        ("GITHUB_EVENT_PATH", "/event.json"),
    ];

    #[test]
    fn a_laptop_and_a_whole_job_are_well() {
        assert_eq!(verdicts(&[], ""), [Verdict::Ok]);
        assert_eq!(verdicts(&[("CI", "true")], ""), [Verdict::Warning]);
        let scheduled = [&GITHUB[..], &[("GITHUB_EVENT_NAME", "schedule")]].concat();
        assert_eq!(verdicts(&scheduled, "{}"), [Verdict::Ok, Verdict::Ok]);
    }

    #[test]
    fn what_is_missing_or_dangerous_is_told() {
        let broken = [&GITHUB[..], &[("GITHUB_EVENT_NAME", "push")]].concat();
        assert_eq!(verdicts(&broken, "{"), [Verdict::Ok, Verdict::Problem]);
        assert_eq!(verdicts(&GITHUB[..1], ""), [Verdict::Problem, Verdict::Warning, Verdict::Warning]);
        let sha = "1".repeat(40);
        let payload = format!(
            r#"{{"action":"opened","pull_request":{{"number":1,"head":{{"sha":"{sha}","ref":"f","repo":null}},
                "base":{{"sha":"{sha}","ref":"main","repo":{{"full_name":"a/b"}}}}}}}}"#
        );
        let fork = [&GITHUB[..], &[("GITHUB_EVENT_NAME", "pull_request")]].concat();
        assert_eq!(verdicts(&fork, &payload), [Verdict::Ok, Verdict::Ok, Verdict::Warning]);
        let target = [&GITHUB[..], &[("GITHUB_EVENT_NAME", "pull_request_target")]].concat();
        assert_eq!(verdicts(&target, &payload), [Verdict::Ok, Verdict::Ok, Verdict::Problem]);
    }
}
