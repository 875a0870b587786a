//! Every environment variable that kl reads, in one place. docs/configuration.md lists the same.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The database, when `--database` does not say.
pub const DATABASE_URL: &str = "KL_DATABASE_URL";
/// The Terraform or OpenTofu binary, when `--terraform` does not say.
pub const TERRAFORM: &str = "KL_TERRAFORM";
/// Who acts, when `--actor` does not say.
pub const ACTOR: &str = "KL_ACTOR";
/// A token for the forge, in front of the job's own one.
pub const FORGE_TOKEN: &str = "KL_FORGE_TOKEN";
/// What is logged, in the syntax of `tracing`'s filters.
pub const LOG: &str = "KL_LOG";

/// What is to go wrong in a test (`crate::mishap`), and where the points are listed that a command passes. Builds for
/// tests read these two, and no others.
pub const MISHAP: &str = "KL_MISHAP";
/// See [`MISHAP`].
pub const MISHAP_LOG: &str = "KL_MISHAP_LOG";

/// Every variable that kl reads itself, and what for. docs/configuration.md lists the same. Besides, kl hands the whole
/// environment to Terraform, and reads variables that kl.yaml names.
pub const READ: &[(&str, &str)] = &[
    (DATABASE_URL, "the database"),
    (TERRAFORM, "the Terraform or OpenTofu binary"),
    (ACTOR, "who acts"),
    (LOG, "what is logged"),
    (FORGE_TOKEN, "a token for the forge, in front of the job's own"),
    ("GITHUB_TOKEN", "GitHub: the job's token for the API"),
    ("GITHUB_GRAPHQL_URL", "GitHub: the GraphQL API"),
    ("KL_CHECK_RUN_ID", "GitHub: the job, by its check run"),
    ("GITHUB_JOB", "GitHub: the job, where its check run is not known"),
    ("RUNNER_NAME", "GitHub: the job, where its check run is not known"),
    ("CI_JOB_ID", "GitLab: the job"),
    ("GITHUB_OUTPUT", "GitHub: the file for the step's outputs"),
    ("GITHUB_STEP_SUMMARY", "GitHub: the file for the job's summary"),
    ("RUNNER_TEMP", "GitHub: where plan files are written"),
    ("GITLAB_TOKEN", "GitLab: a token for the API"),
    ("CI_JOB_TOKEN", "GitLab: the job's token, which can read and not write"),
    ("CI_PIPELINE_ID", "GitLab: the pipeline that statuses belong to"),
    ("CI_PROJECT_ID", "GitLab: the project"),
    ("CI_PROJECT_URL", "GitLab: the project's page"),
    ("CI_SERVER_TLS_CA_FILE", "GitLab: certificate authorities to trust"),
    ("TF_WORKSPACE", "the Terraform workspace"),
    ("TF_CLI_ARGS", "whether `kl exec` would run without a lock; the same with the name of a command behind it"),
    ("TF_DATA_DIR", "where the checkout's init has left what it knows of the backend, for `kl state adopt`"),
    ("HOME", "where the provider cache is, without XDG_CACHE_HOME"),
    ("XDG_CACHE_HOME", "where the provider cache is"),
    ("USER", "who acts, outside CI"),
    ("LOGNAME", "who acts, outside CI"),
    ("HOSTNAME", "from which machine, outside CI"),
    ("CI", "whether this is a CI job, where no forge is recognised"),
    ("GITHUB_ACTIONS", "GitHub: whether this is a job of Actions"),
    ("GITHUB_ACTOR", "GitHub: who acts, where nobody has started the job again"),
    ("GITHUB_API_URL", "GitHub: the API"),
    ("GITHUB_EVENT_NAME", "GitHub: what made the job run"),
    ("GITHUB_EVENT_PATH", "GitHub: the file with the event"),
    ("GITHUB_REF", "GitHub: the request, where the event does not say"),
    ("GITHUB_REPOSITORY", "GitHub: the repository"),
    ("GITHUB_RUN_ATTEMPT", "GitHub: the page of the job"),
    ("GITHUB_RUN_ID", "GitHub: the page of the job"),
    ("GITHUB_SERVER_URL", "GitHub: the page of the job"),
    ("GITHUB_SHA", "GitHub: the commit that is checked out"),
    ("GITHUB_TRIGGERING_ACTOR", "GitHub: who acts"),
    ("CI_API_V4_URL", "GitLab: the API, and whether this is a job of GitLab"),
    ("CI_COMMIT_BEFORE_SHA", "GitLab: the commit before a push"),
    ("CI_COMMIT_BRANCH", "GitLab: the branch of a push"),
    ("CI_COMMIT_SHA", "GitLab: the commit that is checked out"),
    ("CI_DEFAULT_BRANCH", "GitLab: the default branch"),
    ("CI_JOB_URL", "GitLab: the page of the job"),
    ("CI_MERGE_REQUEST_DIFF_BASE_SHA", "GitLab: what the request is compared with"),
    ("CI_MERGE_REQUEST_EVENT_TYPE", "GitLab: whether this is a merge train"),
    ("CI_MERGE_REQUEST_IID", "GitLab: the request"),
    ("CI_MERGE_REQUEST_PROJECT_ID", "GitLab: whether the request comes from a fork"),
    ("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "GitLab: the head of the request, in pipelines for merged results"),
    ("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "GitLab: whether the request comes from a fork"),
    ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "GitLab: where the request is to be merged"),
    ("CI_PIPELINE_SOURCE", "GitLab: what made the pipeline run"),
    ("CI_PROJECT_PATH", "GitLab: the repository"),
    ("CI_SERVER_URL", "GitLab: its pages"),
    ("GITLAB_CI", "GitLab: whether this is a job of GitLab"),
    ("GITLAB_USER_LOGIN", "GitLab: who acts"),
];

/// The environment as it was when kl started. Nothing reads the real one after that.
#[derive(Clone)]
pub struct EnvSnapshot(BTreeMap<OsString, OsString>);

impl EnvSnapshot {
    /// Takes the snapshot.
    #[must_use]
    pub fn take() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
        Self(std::env::vars_os().collect())
    }

    /// One of the variables of [`READ`], when it is Unicode and not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        debug_assert!(READ.iter().any(|(read, _)| *read == name), "{name} is read, and not listed in `READ`");
        self.named(name)
    }

    /// A variable that kl.yaml names, when it is Unicode and not empty.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<String> {
        self.0
            .get(OsStr::new(name))
            .and_then(|value| value.to_str())
            .filter(|value| !value.is_empty())
            .map(str::to_owned)
    }

    /// Everything, for the processes that kl starts.
    pub fn all(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}
