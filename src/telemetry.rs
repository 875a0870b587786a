//! Logs for whoever looks into kl itself; the story of a run is told by `report`, not here.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::cli::args::serve::LogFormat;
use crate::cli::args::{Cli, Command};
use crate::cli::env::{self, EnvSnapshot};

/// Starts logging to standard error: warnings, more with each `-v`, or what `KL_LOG` says. A server's log holds its
/// requests, too, and can be JSON.
pub fn start(cli: &Cli, env: &EnvSnapshot) {
    let serve = match &cli.command {
        Command::Serve(args) => Some(args),
        _ => None,
    };
    // A busy database is no news for whoever uses kl: sqlx would print a slow statement whole, and that can be a schema.
    let level = match (cli.global.verbose, serve) {
        (0, None) => "warn,sqlx=error",
        (0, Some(_)) => "kl_runner::server=info,kl_runner::cli::serve=info,warn,sqlx=error",
        (1, _) => "kl_runner=info,warn,sqlx=error",
        (2, _) => "kl_runner=debug,info",
        _ => "trace",
    };
    let filter =
        env.get(env::LOG).and_then(|text| EnvFilter::try_new(text).ok()).unwrap_or_else(|| EnvFilter::new(level));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // Colours are for whoever sits there, and not for files and journals.
    let log = log.with_ansi(std::io::stderr().is_terminal() && env.named("NO_COLOR").is_none());
    // A second start, in tests, keeps the first.
    drop(match serve.map(|args| args.log) {
        Some(LogFormat::Json) => log.json().flatten_event(true).try_init(),
        Some(LogFormat::Plain) | None => log.try_init(),
    });
}
