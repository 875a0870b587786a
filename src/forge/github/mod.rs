//! GitHub, through octocrab: pull requests, comments, checks.

mod api;
mod checks;
mod comments;
mod doctor;
mod requests;
mod wire;

use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use tokio::sync::OnceCell;

use super::error::ForgeError;
use super::landed;
use super::patience::Patience;
use super::settings::GithubSettings;
use super::{Access, ChangedFile, Check, CheckRef, CommentRef, Forge, Push, RequestInfo};
use crate::domain::request::ForgeKind;
use api::Api;

/// One repository on GitHub.
pub(super) struct Github {
    api: Api,
    /// Whose comments are ours: the token's own login.
    login: OnceCell<String>,
    /// That checks were denied once: a token does not get more rights while a job runs.
    no_checks: AtomicBool,
}

impl Github {
    pub(super) fn new(settings: &GithubSettings, patience: Patience) -> Result<Self, ForgeError> {
        Ok(Self { api: Api::new(settings, patience)?, login: OnceCell::new(), no_checks: AtomicBool::new(false) })
    }
}

#[async_trait]
impl Forge for Github {
    fn kind(&self) -> ForgeKind {
        ForgeKind::Github
    }

    async fn request(&self, number: u64) -> Result<RequestInfo, ForgeError> {
        self.pull(number).await.map(wire::Pull::info)
    }

    async fn request_files(&self, number: u64) -> Result<Vec<ChangedFile>, ForgeError> {
        self.files_of_request(number).await
    }

    async fn push_files(&self, push: &Push) -> Result<Vec<ChangedFile>, ForgeError> {
        self.files_of_push(push).await
    }

    async fn merged_by(&self, push: &Push) -> Result<Vec<RequestInfo>, ForgeError> {
        landed::merged_by(self, push).await
    }

    async fn comment_put(
        &self,
        number: u64,
        known: Option<&str>,
        marker: &str,
        body: &str,
    ) -> Result<CommentRef, ForgeError> {
        self.put_comment(number, known, marker, body).await
    }

    async fn check_put(&self, check: &Check, existing: Option<&CheckRef>) -> Result<CheckRef, ForgeError> {
        self.put_check(check, existing).await
    }

    async fn access(&self) -> Vec<Access> {
        self.probe().await
    }
}
