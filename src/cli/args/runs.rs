//! The command line of what looks at runs and versions, and of what ends and recovers runs.

use std::time::Duration;

use camino::Utf8PathBuf;
use clap::Args;

use super::value::{Since, interval, lease, serial, since, status};
use super::{ActorArgs, StateArgs};
use crate::domain::id::{Serial, SpecId, StateName};
use crate::domain::run::RunStatus;

/// `kl status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only this state [default: all states]
    #[arg(long, value_name = "NAME")]
    pub state: Option<StateName>,
    /// Only runs that began since, and what they hold: a duration as 7d, a day, or a time as 2026-11-30T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = since)]
    pub since: Option<Since>,
    /// Only runs that come behind this one, and what they hold: the next page
    #[arg(long, value_name = "RUN")]
    pub before: Option<String>,
    /// At most so many runs of each state, live or with something reserved, the newest
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// Show it again and again, until Ctrl-C
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, default_missing_value = "2s", value_parser = interval)]
    pub watch: Option<Duration>,
}

/// `kl runs`.
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// Only runs of this state [default: all states]
    #[arg(long, value_name = "NAME")]
    pub state: Option<StateName>,
    /// Only runs that began since: a duration as 7d, a day, or a time as 2026-11-30T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = since)]
    pub since: Option<Since>,
    /// Only runs with this status, as `kl runs` shows it
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub status: Option<RunStatus>,
    /// Only runs of this actor
    #[arg(long, value_name = "NAME")]
    pub actor: Option<String>,
    /// Only runs of the pull or merge request with this number
    #[arg(long, value_name = "NUMBER")]
    pub request: Option<u64>,
    /// At most so many runs
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// Only runs that come behind this one: the next page
    #[arg(long, value_name = "RUN")]
    pub before: Option<String>,
}

/// `kl report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The page to write, which replaces an older one; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub out: Utf8PathBuf,
    /// Only runs of this state [default: all states]
    #[arg(long, value_name = "NAME")]
    pub state: Option<StateName>,
    /// Only runs that began since: a duration as 7d, a day, or a time as 2026-11-30T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = since)]
    pub since: Option<Since>,
    /// At most so many runs, the newest
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
}

/// `kl explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The run's id, or the beginning or end of it
    #[arg(value_name = "RUN")]
    pub run: String,
    /// At most so many facts behind each sentence; a program gets all of them
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
}

/// `kl history`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// The root module whose state is meant
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
    /// At most so many versions; with --since-plan, so many rows [default: 20; with --since-plan: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: Option<u32>,
    /// Only versions before this serial: the next page
    #[arg(long, value_name = "SERIAL", value_parser = serial)]
    pub before: Option<Serial>,
    /// Only versions since: a duration as 7d, a day, or a time as 2026-11-30T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = since, conflicts_with = "since_plan")]
    pub since: Option<Since>,
    /// Also list the rows that each version changed
    #[arg(long)]
    pub rows: bool,
    /// What changed since this plan was made (kl-plan.json, or a spec's id), and what that means for it
    #[arg(long, value_name = "SPEC", conflicts_with_all = ["before", "rows", "workspace"])]
    pub since_plan: Option<String>,
    /// With --since-plan: only rows that come behind this one, in its order: the next page
    #[arg(long, value_name = "ROW", requires = "since_plan")]
    pub after: Option<String>,
    /// The life of one resource, across moves; also all instances of one, `module.web.*`, or `output.NAME`
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["since_plan", "rows"])]
    pub address: Option<String>,
}

/// `kl blame`.
#[derive(Debug, Args)]
pub struct BlameArgs {
    /// Only these rows: an instance, a resource, `module.web.*`, `output.NAME`, or `*` for all
    #[arg(value_name = "PATTERN", default_value = "*")]
    pub pattern: String,
    /// The root module whose state is meant
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
    /// Only rows that changed since: a duration as 7d, a day, or a time as 2026-11-30T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = since)]
    pub since: Option<Since>,
    /// At most so many rows
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    /// Only rows behind this address: the next page
    #[arg(long, value_name = "ADDR")]
    pub after: Option<String>,
}

/// `kl forecast`.
#[derive(Debug, Args)]
pub struct ForecastArgs {
    /// The plan: a file, or a spec's id [default: kl-plan.json if it is there, else the plan of every open request on the
    /// state]
    #[arg(value_name = "SPEC")]
    pub spec: Option<String>,
    /// Only open plans that were made since: a duration as 7d, a day, or a time as 2026-11-30T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = since, conflicts_with = "spec")]
    pub since: Option<Since>,
    /// Only open plans that were made before this one, by its spec's id: the next page
    #[arg(long, value_name = "SPEC", conflicts_with = "spec")]
    pub before: Option<SpecId>,
    /// At most so many of the open plans on a state, the newest
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub limit: u32,
    /// The root module whose state is meant
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
}

/// `kl show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The run's id, or the beginning or end of it
    #[arg(value_name = "RUN")]
    pub run: String,
    /// At most so many events of its timeline
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    /// Only events behind this place in its timeline: the next page
    #[arg(long, value_name = "PLACE", default_value_t = 0, hide_default_value = true)]
    pub after: i64,
}

/// `kl abort`.
#[derive(Debug, Args)]
pub struct AbortArgs {
    /// The run's id, or the beginning or end of it
    #[arg(value_name = "RUN")]
    pub run: String,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
}

/// `kl recover`.
#[derive(Debug, Args)]
pub struct RecoverArgs {
    /// The run's id, or the beginning or end of it
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Drop what the run has done: its real objects are nobody's then
    #[arg(long)]
    pub discard: bool,
    /// How long the rows stay reserved for the recovery if it dies
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = lease, conflicts_with = "discard")]
    pub lease: Duration,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
}
