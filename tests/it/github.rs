//! GitHub, over HTTP against the stand-in: comments, checks, what was merged, files, and trouble.

pub(crate) mod checks;
mod comments;
mod merges;
mod requests;
mod trouble;

pub(crate) use checks::check;

use std::sync::Arc;
use std::time::Duration;

use kl_runner::forge::{Forge, ForgeSettings, GithubSettings, Patience, connect};

use crate::harness::forge::github::GithubStandIn;

/// Patience that is as quick as a test.
pub(crate) fn hasty() -> Patience {
    Patience {
        first: Duration::from_millis(1),
        longest: Duration::from_millis(5),
        total: Duration::from_secs(20),
        answer: Duration::from_secs(10),
        second: Duration::from_millis(1),
    }
}

fn with(settings: GithubSettings) -> Arc<dyn Forge> {
    connect(&ForgeSettings::Github(settings), hasty()).unwrap()
}

fn forge(stand_in: &GithubStandIn) -> Arc<dyn Forge> {
    with(stand_in.settings())
}
