//! Requests to GitLab's API: kinds of tokens, pages, retries.

use reqwest::header::HeaderName;
use reqwest::{Client, Method, Url};
use secrecy::ExposeSecret as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::forge::error::ForgeError;
use crate::forge::http::{Again, Answer, Lost, Secrets, Trouble, base_address, client, persist, segment};
use crate::forge::patience::{Budget, Patience};
use crate::forge::settings::GitlabSettings;

/// So many pages are read at most: a forge that never ends is not read for ever.
const MAX_PAGES: usize = 200;

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

    /// Reads one thing.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        what: &str,
        budget: &mut Budget,
        path: &str,
    ) -> Result<T, ForgeError> {
        self.answer(what, budget, path).await?.content(what)
    }

    async fn answer(&self, what: &str, budget: &mut Budget, path: &str) -> Result<Answer, ForgeError> {
        let answer = persist(budget, Again::Harmless, &self.secrets, || self.send(&Method::GET, path, None))
            .await
            .map_err(|trouble| trouble.error(what))?;
        if answer.done() { Ok(answer) } else { Err(answer.refusal(what, &self.secrets)) }
    }

    /// Reads a list, page after page, until `enough` says that what has been read will do.
    pub(super) async fn pages<T: DeserializeOwned>(
        &self,
        what: &str,
        budget: &mut Budget,
        path: &str,
        mut enough: impl FnMut(&[T]) -> bool + Send,
    ) -> Result<Vec<T>, ForgeError> {
        let mut all = Vec::new();
        let mut page = String::from("1");
        for _ in 0..MAX_PAGES {
            let join = if path.contains('?') { '&' } else { '?' };
            let answer = self.answer(what, budget, &format!("{path}{join}per_page=100&page={page}")).await?;
            all.extend(answer.content::<Vec<T>>(what)?);
            // Digits only: it goes into the next address.
            let next = answer.header("x-next-page").map(str::trim).unwrap_or_default();
            if next.is_empty() || !next.bytes().all(|byte| byte.is_ascii_digit()) || enough(&all) {
                return Ok(all);
            }
            next.clone_into(&mut page);
        }
        Err(ForgeError::Incomplete {
            what: what.to_owned(),
            message: format!("the forge has more than {MAX_PAGES} pages of them"),
        })
    }

    /// Makes or changes something. With [`Again::Twice`], [`Trouble::Unknown`] means that it may have been done.
    pub(super) async fn write<B: Serialize>(
        &self,
        budget: &mut Budget,
        again: Again,
        method: Method,
        path: &str,
        body: &B,
    ) -> Result<Answer, Trouble> {
        let body = serde_json::to_value(body).map_err(|error| Trouble::Spent(error.to_string()))?;
        persist(budget, again, &self.secrets, || self.send(&method, path, Some(&body))).await
    }

    /// One attempt. A body that breaks off is no answer.
    async fn send(&self, method: &Method, path: &str, body: Option<&serde_json::Value>) -> Result<Answer, Lost> {
        // Joined as text: a path of the project's name must stay encoded, and the base may have a path of its own.
        let mut request =
            self.http.request(method.clone(), format!("{}{path}", self.base.as_str().trim_end_matches('/')));
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| Lost::from(&error))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().await.map_err(|error| Lost::from(&error))?;
        Ok(Answer { status, headers, body: body.to_vec() })
    }
}
