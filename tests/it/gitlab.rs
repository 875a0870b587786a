//! GitLab, over HTTP against the stand-in: notes, statuses, what was merged, files, and kinds of tokens.

mod merges;
mod notes;
mod requests;
mod statuses;
mod tls;

use std::sync::Arc;

use kl_runner::forge::{Forge, ForgeSettings, GitlabSettings, connect};

use crate::forges::{self, hasty};
use crate::harness::forge::gitlab::GitlabStandIn;

fn with(settings: GitlabSettings) -> Arc<dyn Forge> {
    connect(&ForgeSettings::Gitlab(settings), hasty()).unwrap()
}

fn forge(stand_in: &GitlabStandIn) -> Arc<dyn Forge> {
    with(stand_in.settings())
}

/// In the name of the job's own token.
fn as_job(stand_in: &GitlabStandIn) -> Arc<dyn Forge> {
    with(GitlabSettings { token: None, ..stand_in.settings() })
}

fn with_request() -> (GitlabStandIn, u64) {
    forges::with_request(GitlabStandIn::start())
}

fn with_head() -> (GitlabStandIn, String) {
    forges::with_head(GitlabStandIn::start())
}
