//! GitLab: merge requests, notes, commit statuses.

mod api;
mod doctor;
mod notes;
mod requests;
mod statuses;
mod wire;

use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use tokio::sync::OnceCell;

use super::error::ForgeError;
use super::landed;
use super::patience::Patience;
use super::settings::GitlabSettings;
use super::{Access, ChangedFile, Check, CheckRef, CommentRef, Forge, Push, RequestInfo};
use crate::domain::request::ForgeKind;
use api::Api;

/// One project on GitLab.
pub(super) struct Gitlab {
    api: Api,
    project_url: Option<String>,
    pipeline: Option<u64>,
    /// Whose notes are ours: the number of the token's own user.
    user: OnceCell<u64>,
    /// That statuses were denied once: a token does not get more rights while a job runs.
    no_statuses: AtomicBool,
}

impl Gitlab {
    pub(super) fn new(settings: &GitlabSettings, patience: Patience) -> Result<Self, ForgeError> {
        Ok(Self {
            api: Api::new(settings, patience)?,
            project_url: settings.project_url.as_deref().map(|url| url.trim().trim_end_matches('/').to_owned()),
            pipeline: settings.pipeline,
            user: OnceCell::new(),
            no_statuses: AtomicBool::new(false),
        })
    }
}

#[async_trait]
impl Forge for Gitlab {
    fn kind(&self) -> ForgeKind {
        ForgeKind::Gitlab
    }

    async fn request(&self, number: u64) -> Result<RequestInfo, ForgeError> {
        self.merge_request(number).await.map(wire::MergeRequest::info)
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
        self.put_note(number, known, marker, body).await
    }

    async fn check_put(&self, check: &Check, _existing: Option<&CheckRef>) -> Result<CheckRef, ForgeError> {
        self.put_status(check).await
    }

    async fn access(&self) -> Vec<Access> {
        self.probe().await
    }
}
