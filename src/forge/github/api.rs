//! GitHub's API through octocrab: addresses, statuses and headers as they come, pages.

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use octocrab::Octocrab;
use reqwest::header::AUTHORIZATION;
use secrecy::ExposeSecret as _;
use serde_json::Value;

use crate::forge::error::ForgeError;
use crate::forge::http::{Again, Answer, Lost, MAX_ANSWER, Secrets, Trouble, base_address, chain, client, segment};
use crate::forge::patience::{Budget, Patience};
use crate::forge::settings::GithubSettings;
use crate::forge::talk::{Talk, Verb};

/// GitHub's API, for one repository.
pub(super) struct Api {
    crab: Octocrab,
    /// The path of the REST API: empty on github.com, `/api/v3` on a server of one's own.
    rest: String,
    /// The whole address of the GraphQL API.
    graphql: String,
    /// `owner/name`.
    pub(super) repository: String,
    repository_path: String,
    pub(super) patience: Patience,
    pub(super) secrets: Secrets,
}

impl Api {
    pub(super) fn new(settings: &GithubSettings, patience: Patience) -> Result<Self, ForgeError> {
        let rest = base_address("GITHUB_API_URL", &settings.api_url)?;
        let graphql = if let Some(url) = &settings.graphql_url {
            base_address("GITHUB_GRAPHQL_URL", url)?
        } else {
            let mut url = rest.clone();
            let path = url.path().trim_end_matches('/').trim_end_matches("/v3").to_owned();
            url.set_path(&format!("{path}/graphql"));
            url
        };
        let token = settings.token.as_ref().map(|token| token.expose_secret().trim()).filter(|text| !text.is_empty());
        // octocrab would take the token as well, but neither marks its header as sensitive nor bears a bad one.
        let http = client(
            token.map(|text| (AUTHORIZATION, format!("Bearer {text}"))),
            settings.certificates.as_deref(),
            patience,
        )?;
        let unusable = |message: String| ForgeError::Unusable { message };
        let crab = Octocrab::builder()
            .base_uri(rest.origin().ascii_serialization())
            .and_then(|builder| builder.build_with_reqwest(http))
            .map_err(|error| unusable(format!("no client for GitHub can be made: {}", chain(&error))))?;
        Ok(Self {
            crab,
            rest: rest.path().trim_end_matches('/').to_owned(),
            graphql: graphql.to_string(),
            repository_path: repository_path(&settings.repository)?,
            repository: settings.repository.clone(),
            patience,
            secrets: Secrets::new(settings.token.clone()),
        })
    }

    /// The path of something in the repository.
    pub(super) fn path(&self, rest: &str) -> String {
        format!("{}{}{rest}", self.rest, self.repository_path)
    }

    /// The path of the token's own user.
    pub(super) fn user_path(&self) -> String {
        format!("{}/user", self.rest)
    }

    /// Asks GraphQL.
    pub(super) async fn graphql(&self, budget: &mut Budget, query: &str) -> Result<Answer, Trouble> {
        let body = serde_json::json!({ "query": query });
        self.write(budget, Again::Harmless, Verb::Post, &self.graphql, &body).await
    }
}

impl Talk for Api {
    async fn send(&self, verb: Verb, path: &str, body: Option<&Value>) -> Result<Answer, Lost> {
        let response = match verb {
            Verb::Get => self.crab._get(path).await,
            Verb::Post => self.crab._post(path, body).await,
            Verb::Put => self.crab._put(path, body).await,
            Verb::Patch => self.crab._patch(path, body).await,
        }
        .map_err(|error| lost(&error))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() { Lost::TooLong } else { Lost::Unknown(chain(&*error)) }
        })?;
        Ok(Answer { status, headers, body: body.to_bytes().to_vec() })
    }

    fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    fn next_page(answer: &Answer, page: u64) -> Option<u64> {
        has_next(answer).then_some(page + 1)
    }
}

/// What became of a request that got no answer, from reqwest's error inside octocrab's.
fn lost(error: &octocrab::Error) -> Lost {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = source {
        if let Some(http) = cause.downcast_ref::<reqwest::Error>() {
            return Lost::from(http);
        }
        source = cause.source();
    }
    Lost::Unknown(chain(error))
}

/// Whether there is a page after this one.
pub(super) fn has_next(answer: &Answer) -> bool {
    answer.header("link").is_some_and(|link| link.split(',').any(|part| part.contains("rel=\"next\"")))
}

/// `/repos/owner/name`, if that is what it is.
fn repository_path(repository: &str) -> Result<String, ForgeError> {
    let parts: Vec<&str> = repository.split('/').collect();
    match parts.as_slice() {
        [owner, name] if !owner.is_empty() && !name.is_empty() => {
            Ok(format!("/repos/{}/{}", segment(owner), segment(name)))
        }
        _ => Err(ForgeError::Unusable { message: format!("`{repository}` is no repository: owner/name is needed") }),
    }
}
