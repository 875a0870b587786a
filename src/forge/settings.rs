//! What has to be known to speak with a forge, as plain values: whoever starts kl reads them from the environment.

use std::sync::Arc;

use secrecy::SecretString;

use super::Forge;
use super::error::ForgeError;
use super::github::Github;
use super::gitlab::Gitlab;
use super::patience::Patience;

/// GitHub: github.com, or an Enterprise Server.
#[derive(Debug, Clone)]
pub struct GithubSettings {
    /// The REST API's address, `GITHUB_API_URL`: `https://api.github.com`, or `https://HOST/api/v3`.
    pub api_url: String,
    /// The GraphQL API's address, `GITHUB_GRAPHQL_URL`; without it, it is taken to stand beside the REST API.
    pub graphql_url: Option<String>,
    /// `owner/name`, `GITHUB_REPOSITORY`.
    pub repository: String,
    /// The job's token, or a personal one. Without one, only public repositories can be read.
    pub token: Option<SecretString>,
    /// PEM text with certificate authorities to trust besides the system's.
    pub certificates: Option<Vec<u8>>,
}

/// GitLab: gitlab.com, or a server of one's own.
#[derive(Debug, Clone)]
pub struct GitlabSettings {
    /// The REST API's address, `CI_API_V4_URL`: `https://HOST/api/v4`, perhaps with a path before `/api`.
    pub api_url: String,
    /// The project's number, `CI_PROJECT_ID`, or its path, `CI_PROJECT_PATH`.
    pub project: String,
    /// The project's page, `CI_PROJECT_URL`: links to notes are made from it.
    pub project_url: Option<String>,
    /// A personal, project or group access token with the scope `api`.
    pub token: Option<SecretString>,
    /// `CI_JOB_TOKEN`, used when there is no other: it reads, but may neither write notes nor set statuses.
    pub job_token: Option<SecretString>,
    /// The job's pipeline, `CI_PIPELINE_ID`: a status without it opens a second, external pipeline.
    pub pipeline: Option<u64>,
    /// The content of the file that `CI_SERVER_TLS_CA_FILE` names: authorities to trust besides the system's.
    pub certificates: Option<Vec<u8>>,
}

/// Which forge, and how to speak with it.
#[derive(Debug, Clone)]
pub enum ForgeSettings {
    /// GitHub.
    Github(GithubSettings),
    /// GitLab.
    Gitlab(GitlabSettings),
}

/// A client for the forge. Asks it nothing yet. Needs to be called within a runtime.
///
/// # Errors
/// [`ForgeError::Unusable`] when an address, the repository's name, the token or the certificates cannot be used.
pub fn connect(settings: &ForgeSettings, patience: Patience) -> Result<Arc<dyn Forge>, ForgeError> {
    Ok(match settings {
        ForgeSettings::Github(settings) => Arc::new(Github::new(settings, patience)?),
        ForgeSettings::Gitlab(settings) => Arc::new(Gitlab::new(settings, patience)?),
    })
}
