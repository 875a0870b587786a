//! Which CI job kl runs in, read from a snapshot of the environment.

use crate::domain::run::Origin;

/// What kl knows of the job around it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CiContext {
    /// Whether this is a CI job at all.
    pub ci: bool,
    /// Who started it, on the forge.
    pub actor: Option<String>,
    /// Where runs from here come from.
    pub origin: Origin,
}

/// Reads the job's context through `get`, which gives the value of an environment variable.
pub fn detect(get: impl Fn(&str) -> Option<String>) -> CiContext {
    let get = |name: &str| get(name).filter(|value| !value.is_empty());
    if get("GITHUB_ACTIONS").is_some() {
        let url = || {
            let (server, repository, run) =
                (get("GITHUB_SERVER_URL")?, get("GITHUB_REPOSITORY")?, get("GITHUB_RUN_ID")?);
            Some(format!("{server}/{repository}/actions/runs/{run}"))
        };
        return CiContext {
            ci: true,
            actor: get("GITHUB_TRIGGERING_ACTOR").or_else(|| get("GITHUB_ACTOR")),
            origin: Origin {
                forge: Some("github".into()),
                repository: get("GITHUB_REPOSITORY"),
                // `refs/pull/7/merge` names the request; on other events only the event file would.
                request: get("GITHUB_REF")
                    .and_then(|reference| reference.strip_prefix("refs/pull/")?.split('/').next()?.parse().ok()),
                commit: get("GITHUB_SHA"),
                job_url: url(),
            },
        };
    }
    // GITLAB_CI is not reliable on every runner; the API's address is always there.
    if get("GITLAB_CI").is_some() || get("CI_API_V4_URL").is_some() {
        return CiContext {
            ci: true,
            actor: get("GITLAB_USER_LOGIN"),
            origin: Origin {
                forge: Some("gitlab".into()),
                repository: get("CI_PROJECT_PATH"),
                request: get("CI_MERGE_REQUEST_IID").and_then(|iid| iid.parse().ok()),
                commit: get("CI_COMMIT_SHA"),
                job_url: get("CI_JOB_URL"),
            },
        };
    }
    CiContext { ci: get("CI").is_some_and(|value| value != "false"), ..CiContext::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> CiContext {
        detect(|name| pairs.iter().find(|(found, _)| *found == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn a_pull_request_job_on_github_is_recognised() {
        let context = with(&[
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_TRIGGERING_ACTOR", "alice"),
            ("GITHUB_REPOSITORY", "example/infra"),
            ("GITHUB_SERVER_URL", "https://github.example"),
            ("GITHUB_RUN_ID", "77"),
            ("GITHUB_REF", "refs/pull/7/merge"),
        ]);
        assert_eq!(context.actor.as_deref(), Some("alice"));
        assert_eq!(context.origin.request, Some(7));
        assert_eq!(context.origin.job_url.as_deref(), Some("https://github.example/example/infra/actions/runs/77"));
    }

    #[test]
    fn a_merge_request_job_on_gitlab_is_recognised_without_gitlab_ci() {
        let context =
            with(&[("CI_API_V4_URL", "https://x/api/v4"), ("CI_MERGE_REQUEST_IID", "9"), ("GITLAB_USER_LOGIN", "bob")]);
        assert!(context.ci);
        assert_eq!((context.actor.as_deref(), context.origin.request), (Some("bob"), Some(9)));
    }

    #[test]
    fn a_laptop_is_no_ci() {
        assert_eq!(with(&[]), CiContext::default());
        assert!(!with(&[("CI", "false")]).ci);
        assert!(with(&[("CI", "true")]).ci);
    }
}
