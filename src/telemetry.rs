//! Logs for whoever looks into kl itself; the story of a run is told by `report`, not here.

use tracing_subscriber::EnvFilter;

use crate::cli::env::{self, EnvSnapshot};

/// Starts logging to standard error: warnings, more with each `-v`, or what `KL_LOG` says.
pub fn start(verbose: u8, env: &EnvSnapshot) {
    let level = match verbose {
        0 => "warn",
        1 => "kl_runner=info,warn",
        2 => "kl_runner=debug,info",
        _ => "trace",
    };
    let filter =
        env.get(env::LOG).and_then(|text| EnvFilter::try_new(text).ok()).unwrap_or_else(|| EnvFilter::new(level));
    // A second start, in tests, keeps the first.
    drop(tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).try_init());
}
