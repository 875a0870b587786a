//! GitHub, over HTTP against the stand-in: comments, checks, what was merged, files, and trouble.

mod checks;
mod comments;
mod merges;
mod requests;
mod trouble;

use std::sync::Arc;

use kl_runner::forge::{Forge, ForgeSettings, GithubSettings, connect};

use crate::forges::{self, hasty};
use crate::harness::forge::github::GithubStandIn;

fn with(settings: GithubSettings) -> Arc<dyn Forge> {
    connect(&ForgeSettings::Github(settings), hasty()).unwrap()
}

fn forge(stand_in: &GithubStandIn) -> Arc<dyn Forge> {
    with(stand_in.settings())
}

fn with_request() -> (GithubStandIn, u64) {
    forges::with_request(GithubStandIn::start())
}

fn with_head() -> (GithubStandIn, String) {
    forges::with_head(GithubStandIn::start())
}
