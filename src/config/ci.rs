//! Which CI job kl runs in, read from a snapshot of the environment and the forge's event file.

use super::event::{CiEvent, EventError, github, gitlab};
use crate::domain::request::ForgeKind;
use crate::domain::run::Origin;

/// What kl knows of the job around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CiContext {
    /// Whether this is a CI job at all.
    pub ci: bool,
    /// The forge that runs it.
    pub forge: Option<ForgeKind>,
    /// Who started it, on the forge.
    pub actor: Option<String>,
    /// Where runs from here come from.
    pub origin: Origin,
    /// The commit that is checked out. On a pull request this may be one that only tries the merge; checks belong to
    /// [`Origin::commit`].
    pub checkout: Option<String>,
    /// What made the job run; none outside CI. Only commands that need it complain when it cannot be read.
    pub event: Result<Option<CiEvent>, EventError>,
    /// The forge's API, as `https://HOST/api/v3` or `https://HOST/api/v4`.
    pub api_url: Option<String>,
    /// The forge's pages.
    pub server_url: Option<String>,
}

impl Default for CiContext {
    fn default() -> Self {
        Self {
            ci: false,
            forge: None,
            actor: None,
            origin: Origin::default(),
            checkout: None,
            event: Ok(None),
            api_url: None,
            server_url: None,
        }
    }
}

/// Reads the job's context through `get`, which gives the value of an environment variable, and `file`, which gives the
/// text of a file.
pub fn detect(
    get: impl Fn(&str) -> Option<String>,
    file: impl Fn(&str) -> Result<String, std::io::Error>,
) -> CiContext {
    let get = |name: &str| get(name).filter(|value| !value.is_empty());
    if get("GITHUB_ACTIONS").is_some() {
        return on_github(&get, &file);
    }
    // GITLAB_CI is not reliable on every runner; the API's address is always there.
    if get("GITLAB_CI").is_some() || get("CI_API_V4_URL").is_some() {
        return on_gitlab(&get);
    }
    CiContext { ci: get("CI").is_some_and(|value| value != "false"), ..CiContext::default() }
}

fn on_github(
    get: &impl Fn(&str) -> Option<String>,
    file: &impl Fn(&str) -> Result<String, std::io::Error>,
) -> CiContext {
    let event = get("GITHUB_EVENT_NAME")
        .map(|name| {
            let payload = match get("GITHUB_EVENT_PATH") {
                Some(path) => {
                    file(&path).map_err(|error| EventError::File { path: path.clone(), reason: error.to_string() })
                }
                None => Ok("{}".to_owned()),
            };
            github::read(&name, &payload?)
        })
        .transpose();
    let known = event.as_ref().ok().and_then(Option::as_ref);
    // `refs/pull/7/merge` names the request where the event's file is not to be had.
    let by_ref = || {
        get("GITHUB_REF").and_then(|reference| reference.strip_prefix("refs/pull/")?.split('/').next()?.parse().ok())
    };
    let (server, repository) = (get("GITHUB_SERVER_URL"), get("GITHUB_REPOSITORY"));
    let job_url = match (&server, &repository, get("GITHUB_RUN_ID")) {
        (Some(server), Some(repository), Some(run)) => {
            // An attempt has a page of its own; some runners do not count them.
            let attempt = get("GITHUB_RUN_ATTEMPT").map(|attempt| format!("/attempts/{attempt}")).unwrap_or_default();
            Some(format!("{server}/{repository}/actions/runs/{run}{attempt}"))
        }
        _ => None,
    };
    // Jobs of a matrix differ in nothing but this, and in the runner that they are on.
    let job = get("KL_CHECK_RUN_ID").map(|id| format!("check-run-{id}")).or_else(|| {
        let parts = ["GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB", "RUNNER_NAME"];
        get("GITHUB_RUN_ID")?;
        Some(parts.into_iter().filter_map(&get).collect::<Vec<_>>().join("/"))
    });
    let checkout = get("GITHUB_SHA");
    CiContext {
        ci: true,
        forge: Some(ForgeKind::Github),
        actor: get("GITHUB_TRIGGERING_ACTOR").or_else(|| get("GITHUB_ACTOR")),
        origin: Origin {
            forge: Some(ForgeKind::Github.word().to_owned()),
            repository,
            request: known.and_then(CiEvent::request).or_else(by_ref),
            commit: known.and_then(CiEvent::commit).map(str::to_owned).or_else(|| checkout.clone()),
            job_url,
            job,
        },
        checkout,
        event,
        api_url: get("GITHUB_API_URL"),
        server_url: server,
    }
}

fn on_gitlab(get: &impl Fn(&str) -> Option<String>) -> CiContext {
    let event = gitlab::read(get).map(Some);
    let known = event.as_ref().ok().and_then(Option::as_ref);
    let checkout = get("CI_COMMIT_SHA");
    CiContext {
        ci: true,
        forge: Some(ForgeKind::Gitlab),
        actor: get("GITLAB_USER_LOGIN"),
        origin: Origin {
            forge: Some(ForgeKind::Gitlab.word().to_owned()),
            repository: get("CI_PROJECT_PATH"),
            request: known
                .and_then(CiEvent::request)
                .or_else(|| get("CI_MERGE_REQUEST_IID").and_then(|iid| iid.parse().ok())),
            commit: known.and_then(CiEvent::commit).map(str::to_owned).or_else(|| checkout.clone()),
            job_url: get("CI_JOB_URL"),
            job: get("CI_JOB_ID"),
        },
        checkout,
        event,
        api_url: get("CI_API_V4_URL"),
        server_url: get("CI_SERVER_URL"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "1111111111111111111111111111111111111111";
    const TRIAL: &str = "3333333333333333333333333333333333333333";

    fn with(pairs: &[(&str, &str)], file: &str) -> CiContext {
        detect(
            |name| pairs.iter().find(|(found, _)| *found == name).map(|(_, value)| (*value).to_owned()),
            |path| if path == "/event.json" { Ok(file.to_owned()) } else { Err(std::io::ErrorKind::NotFound.into()) },
        )
    }

    const GITHUB: [(&str, &str); 8] = [
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_TRIGGERING_ACTOR", "alice"),
        ("GITHUB_REPOSITORY", "example/infra"),
        ("GITHUB_SERVER_URL", "https://github.example"),
        ("GITHUB_API_URL", "https://github.example/api/v3"),
        ("GITHUB_RUN_ID", "77"),
        ("GITHUB_REF", "refs/pull/7/merge"),
        ("GITHUB_SHA", TRIAL),
    ];

    #[test]
    fn a_pull_request_job_on_github_is_recognised() {
        let context = with(&GITHUB, "");
        assert_eq!(context.forge, Some(ForgeKind::Github));
        assert_eq!(context.actor.as_deref(), Some("alice"));
        assert_eq!(context.origin.request, Some(7));
        assert_eq!(context.origin.job_url.as_deref(), Some("https://github.example/example/infra/actions/runs/77"));
        assert_eq!(context.api_url.as_deref(), Some("https://github.example/api/v3"));
    }

    #[test]
    fn the_origin_of_a_pull_request_is_its_head_and_not_the_commit_that_tries_the_merge() {
        let payload = format!(
            r#"{{"action":"closed","pull_request":{{"number":8,"merged":true,
                "head":{{"sha":"{HEAD}","ref":"f","repo":{{"full_name":"a/b"}}}},
                "base":{{"sha":"{HEAD}","ref":"main","repo":{{"full_name":"a/b"}}}}}}}}"#
        );
        // A merged request runs on its base branch: only the event says which it was.
        let mut pairs = GITHUB.to_vec();
        pairs[6] = ("GITHUB_REF", "refs/heads/main");
        pairs.extend([("GITHUB_EVENT_NAME", "pull_request"), ("GITHUB_EVENT_PATH", "/event.json")]);
        let context = with(&pairs, &payload);
        assert_eq!((context.origin.request, context.origin.commit.as_deref()), (Some(8), Some(HEAD)));
        assert_eq!(context.checkout.as_deref(), Some(TRIAL));
    }

    #[test]
    fn an_event_that_cannot_be_read_leaves_the_rest_of_the_context() {
        let pairs = [&GITHUB[..], &[("GITHUB_EVENT_NAME", "push"), ("GITHUB_EVENT_PATH", "/gone.json")]].concat();
        let context = with(&pairs, "");
        assert!(context.event.as_ref().is_err_and(|error| error.to_string().contains("/gone.json")));
        assert_eq!((context.origin.request, context.origin.commit.as_deref()), (Some(7), Some(TRIAL)));
        let scheduled = [&GITHUB[..], &[("GITHUB_EVENT_NAME", "schedule")]].concat();
        assert_eq!(with(&scheduled, "").event, Ok(Some(CiEvent::Schedule)));
    }

    #[test]
    fn a_merge_request_job_on_gitlab_is_recognised_without_gitlab_ci() {
        let context = with(
            &[
                ("CI_API_V4_URL", "https://x/api/v4"),
                ("CI_MERGE_REQUEST_IID", "9"),
                ("GITLAB_USER_LOGIN", "bob"),
                ("CI_COMMIT_SHA", HEAD),
                ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main"),
            ],
            "",
        );
        assert!(context.ci);
        assert_eq!(context.forge, Some(ForgeKind::Gitlab));
        assert_eq!((context.actor.as_deref(), context.origin.request), (Some("bob"), Some(9)));
        assert!(matches!(context.event, Ok(Some(CiEvent::Request(_)))));
    }

    #[test]
    fn a_laptop_is_no_ci() {
        assert_eq!(with(&[], ""), CiContext::default());
        assert!(!with(&[("CI", "false")], "").ci);
        assert!(with(&[("CI", "true")], "").ci);
    }
}
