//! GitLab's API: kinds of tokens, addresses, pages.

use reqwest::header::HeaderName;
use reqwest::{Client, Method, Url};
use secrecy::ExposeSecret as _;
use serde_json::Value;

use crate::forge::error::ForgeError;
use crate::forge::http::{Answer, Lost, MAX_ANSWER, Secrets, base_address, client, segment};
use crate::forge::patience::Patience;
use crate::forge::settings::GitlabSettings;
use crate::forge::talk::{Talk, Verb};

/// What the token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A personal, project or group access token.
    Access,
    /// The job's own: it reads.
    Job,
    /// None: what is public can be read.
    None,
}

/// GitLab's API, for one project.
pub(super) struct Api {
    http: Client,
    base: Url,
    project: String,
    pub(super) token: TokenKind,
    pub(super) patience: Patience,
    pub(super) secrets: Secrets,
}

impl Api {
    pub(super) fn new(settings: &GitlabSettings, patience: Patience) -> Result<Self, ForgeError> {
        let base = base_address("CI_API_V4_URL", &settings.api_url)?;
        let project = settings.project.trim().trim_matches('/');
        if project.is_empty() {
            return Err(ForgeError::Unusable { message: "the GitLab project has no name (CI_PROJECT_ID)".into() });
        }
        let text = |token: &Option<secrecy::SecretString>| {
            token.as_ref().map(|token| token.expose_secret().trim().to_owned()).filter(|text| !text.is_empty())
        };
        let (token, header) = match (text(&settings.token), text(&settings.job_token)) {
            (Some(token), _) => (TokenKind::Access, Some((HeaderName::from_static("private-token"), token))),
            (None, Some(token)) => (TokenKind::Job, Some((HeaderName::from_static("job-token"), token))),
            (None, None) => (TokenKind::None, None),
        };
        Ok(Self {
            http: client(header, settings.certificates.as_deref(), patience)?,
            base,
            project: segment(project),
            token,
            patience,
            secrets: Secrets::new([&settings.token, &settings.job_token].into_iter().flatten().cloned()),
        })
    }

    /// The path of something in the project.
    pub(super) fn path(&self, rest: &str) -> String {
        format!("/projects/{}{rest}", self.project)
    }
}

impl Talk for Api {
    async fn send(&self, verb: Verb, path: &str, body: Option<&Value>) -> Result<Answer, Lost> {
        let method = match verb {
            Verb::Get => Method::GET,
            Verb::Post => Method::POST,
            Verb::Put => Method::PUT,
            Verb::Patch => Method::PATCH,
        };
        // Joined as text: a path of the project's name must stay encoded, and the base may have a path of its own.
        let mut request = self.http.request(method, format!("{}{path}", self.base.as_str().trim_end_matches('/')));
        if let Some(body) = body {
            request = request.json(body);
        }
        let mut response = request.send().await.map_err(|error| Lost::from(&error))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| Lost::from(&error))? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(Lost::TooLong);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, headers, body })
    }

    fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    fn next_page(answer: &Answer, _page: u64) -> Option<u64> {
        // A number: it goes into the next address.
        answer.header("x-next-page")?.trim().parse().ok()
    }
}
