//! Requests to GitHub's API through octocrab: statuses and headers as they come, pages, retries.

use octocrab::Octocrab;
use reqwest::header::AUTHORIZATION;
use secrecy::ExposeSecret as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::forge::error::ForgeError;
use crate::forge::http::{Again, Answer, Lost, Secrets, Trouble, base_address, chain, client, persist, segment};
use crate::forge::patience::{Budget, Patience};
use crate::forge::settings::GithubSettings;

/// What a page holds at most.
pub(super) const PAGE: usize = 100;

/// So many pages are read at most: a forge that never ends is not read for ever.
const MAX_PAGES: usize = 200;

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

    /// Reads one thing.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        what: &str,
        budget: &mut Budget,
        path: &str,
    ) -> Result<T, ForgeError> {
        self.answer(what, budget, path).await?.content(what)
    }

    /// Reads an answer, and makes an error of a refusal.
    pub(super) async fn answer(&self, what: &str, budget: &mut Budget, path: &str) -> Result<Answer, ForgeError> {
        let answer = persist(budget, Again::Harmless, &self.secrets, || self.send(Verb::Get, path, None))
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
        for page in 1..=MAX_PAGES {
            let join = if path.contains('?') { '&' } else { '?' };
            let answer = self.answer(what, budget, &format!("{path}{join}per_page={PAGE}&page={page}")).await?;
            all.extend(answer.content::<Vec<T>>(what)?);
            if !has_next(&answer) || enough(&all) {
                return Ok(all);
            }
        }
        Err(ForgeError::Incomplete {
            what: what.to_owned(),
            message: format!("the forge has more than {} of them", MAX_PAGES * PAGE),
        })
    }

    /// Makes or changes something. With [`Again::Twice`], [`Trouble::Unknown`] means that it may have been done.
    pub(super) async fn write<B: Serialize>(
        &self,
        budget: &mut Budget,
        again: Again,
        verb: Verb,
        path: &str,
        body: &B,
    ) -> Result<Answer, Trouble> {
        let body = serde_json::to_value(body).map_err(|error| Trouble::Spent(error.to_string()))?;
        persist(budget, again, &self.secrets, || self.send(verb, path, Some(&body))).await
    }

    /// Asks GraphQL.
    pub(super) async fn graphql(&self, budget: &mut Budget, query: &str) -> Result<Answer, Trouble> {
        let body = serde_json::json!({ "query": query });
        self.write(budget, Again::Harmless, Verb::Post, &self.graphql, &body).await
    }

    /// One attempt. A body that breaks off is no answer.
    async fn send(&self, verb: Verb, path: &str, body: Option<&serde_json::Value>) -> Result<Answer, Lost> {
        let response = match verb {
            Verb::Get => self.crab._get(path).await,
            Verb::Post => self.crab._post(path, body).await,
            Verb::Patch => self.crab._patch(path, body).await,
        }
        .map_err(|error| lost(&error))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = self.crab.body_to_string(response).await.map_err(|error| Lost::Unknown(chain(&error)))?;
        Ok(Answer { status, headers, body: body.into_bytes() })
    }
}

/// What is done to what a path names.
#[derive(Debug, Clone, Copy)]
pub(super) enum Verb {
    Get,
    Post,
    Patch,
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
