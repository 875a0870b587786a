//! The command line: types and help text.
#![expect(clippy::doc_markdown, reason = "these comments are help texts, where backticks would show")]

pub mod ci;
pub mod exec;
pub mod init;
pub mod runs;
pub mod serve;
pub mod state;
pub mod value;

use std::time::Duration;

use camino::Utf8PathBuf;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::config::duration::duration;
use crate::config::policy::OnStale;
use crate::domain::id::StateName;
use crate::pipeline::execute::LaneChoice;
use runs::{AbortArgs, HistoryArgs, RecoverArgs, ShowArgs, StatusArgs};
use state::StateCommand;
use value::{lease, timeout, variable};

/// Apply Terraform and OpenTofu changes to one shared state in parallel, safely.
#[derive(Debug, Parser)]
#[command(name = "kl", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub struct Global {
    /// The database: a path (SQLite) or postgres://… [env: KL_DATABASE_URL] [default: .kl/kl.db in the repository]
    #[arg(long, global = true, value_name = "URL", help_heading = "Global options")]
    pub database: Option<String>,
    /// How to print the result
    #[arg(long, global = true, value_name = "FORMAT", default_value = "table", help_heading = "Global options")]
    pub format: Format,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Global options")]
    pub color: Color,
    /// Print only results and warnings
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Log more (repeat for more still); KL_LOG takes a filter
    #[arg(long, short, global = true, action = ArgAction::Count, help_heading = "Global options")]
    pub verbose: u8,
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs; the shape is stable.
    Json,
    /// For a comment, an issue or a job summary.
    Markdown,
}

/// When colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Plan a change and write its spec: what it writes, what it reads
    Plan(PlanArgs),
    /// Apply a planned change: reserve its rows, apply, commit
    Apply(ApplyArgs),
    /// Take what differs in reality into the state
    Refresh(RefreshArgs),
    /// Show what is running and what is reserved
    Status(StatusArgs),
    /// List runs: who did what, and how it went
    Runs(runs::RunsArgs),
    /// Show the versions of a state, what changed since a plan, or the life of one resource
    History(HistoryArgs),
    /// Say who changed each resource last
    Blame(runs::BlameArgs),
    /// Say what a plan would meet if it were applied now, and which other plans it is near
    Forecast(runs::ForecastArgs),
    /// Show one run with its timeline
    Show(ShowArgs),
    /// Say in sentences why a run was allowed, waited or failed, and what it did
    Explain(runs::ExplainArgs),
    /// Write one page for a browser about many runs: who worked when, what met what, and every run's story
    Report(runs::ReportArgs),
    /// End a run from outside, when its job is dead
    Abort(AbortArgs),
    /// Take over, or drop, what a failed run has really done
    Recover(RecoverArgs),
    /// Run plain Terraform on a state that kl keeps: `kl exec -- terraform apply`
    Exec(exec::ExecArgs),
    /// Serve states to plain Terraform: the HTTP backend, for whoever has a token
    Serve(serve::ServeArgs),
    /// Make, list and revoke tokens for kl serve
    #[command(subcommand)]
    Token(serve::TokenCommand),
    /// Bring states in and out, and look at them
    #[command(subcommand)]
    State(StateCommand),
    /// Set up the database
    #[command(subcommand)]
    Db(DbCommand),
    /// Say what in the database is old and no longer needed; remove it with --yes
    Gc(GcArgs),
    /// Write kl.yaml and the jobs for the forge, after a look at the repository
    Init(init::InitArgs),
    /// Say whether database, terraform, configuration and CI job are as they have to be
    Doctor(init::DoctorArgs),
    /// Run in CI jobs of GitHub and GitLab
    #[command(subcommand)]
    Ci(ci::CiCommand),
}

/// Which state, and from which directory.
#[derive(Debug, Clone, Default, Args)]
pub struct StateArgs {
    /// The state [default: from kl.yaml, else the directory's path in the repository]
    #[arg(long, value_name = "NAME")]
    pub state: Option<StateName>,
    /// The Terraform workspace [env: TF_WORKSPACE]
    #[arg(long, value_name = "NAME")]
    pub workspace: Option<String>,
}

/// The configuration's inputs and the program.
#[derive(Debug, Clone, Default, Args)]
pub struct InputArgs {
    /// Set an input variable (repeatable); for a secret, use TF_VAR_NAME or `vars` in kl.yaml: other users can read
    /// kl's arguments
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    pub vars: Vec<(String, String)>,
    /// Read input variables from a file, relative to the root module (repeatable)
    #[arg(long = "var-file", value_name = "FILE")]
    pub var_files: Vec<String>,
    /// The Terraform or OpenTofu binary [env: KL_TERRAFORM] [default: terraform, else tofu, on PATH]
    #[arg(long, value_name = "PATH")]
    pub terraform: Option<String>,
    /// Keep the isolated working directory; it holds secrets
    #[arg(long)]
    pub keep_workspace: bool,
}

/// Who acts.
#[derive(Debug, Clone, Default, Args)]
pub struct ActorArgs {
    /// Who acts [env: KL_ACTOR] [default: the CI job's actor, else user and host]
    #[arg(long, value_name = "NAME")]
    pub actor: Option<String>,
}

/// How to reserve.
#[derive(Debug, Clone, Args)]
pub struct ReserveArgs {
    /// How long the reservations last without a heartbeat
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = lease)]
    pub lease: Duration,
    /// Wait in turn for so long when something is reserved by another run
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub wait: Option<Duration>,
}

/// Which part of the configuration.
#[derive(Debug, Clone, Default, Args)]
pub struct ScopeArgs {
    /// Plan only this address and what it depends on (repeatable)
    #[arg(long = "target", value_name = "ADDR")]
    pub targets: Vec<String>,
    /// Plan only what this .tf file of the root module declares (repeatable)
    #[arg(long = "file", value_name = "PATH")]
    pub files: Vec<String>,
    /// Replace this resource instance (repeatable)
    #[arg(long = "replace", value_name = "ADDR")]
    pub replace: Vec<String>,
    /// Plan to destroy everything in scope
    #[arg(long)]
    pub destroy: bool,
}

/// `kl plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The root module
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    /// Where to write the spec
    #[arg(long, value_name = "FILE", default_value = "kl-plan.json")]
    pub out: Utf8PathBuf,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub scope: ScopeArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub input: InputArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
}

/// `kl apply`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ApplyArgs {
    /// `kl apply abort RUN`.
    #[command(subcommand)]
    pub command: Option<ApplyCommand>,
    /// The spec to apply (kl-plan.json), or a root module to plan and apply at once
    #[arg(value_name = "SPEC|DIR", default_value = ".")]
    pub what: Utf8PathBuf,
    /// The root module of the spec, when it is not the one that the spec names
    #[arg(long, value_name = "DIR")]
    pub dir: Option<Utf8PathBuf>,
    /// Do not ask before applying a plan that nobody has reviewed
    #[arg(long)]
    pub auto_approve: bool,
    /// Only acquire the reservations, report, and release them
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub reserve: ReserveArgs,
    /// Ask Terraform to stop after so long, and cut it off when it has not come to its end two minutes later
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    pub timeout: Option<Duration>,
    /// How the slice is cut
    #[arg(long, value_name = "LANE", default_value = "auto")]
    pub lane: LaneArg,
    /// What to do when rows of the plan changed since [default: from kl.yaml, else refuse]
    #[arg(long, value_name = "RULE")]
    pub on_stale: Option<OnStaleArg>,
    /// Refuse whenever a planned write target changed since the plan, whatever --on-stale says
    #[arg(long)]
    pub strict_since_plan: bool,
    /// Apply although planning again gave other values of the same shape
    #[arg(long)]
    pub accept_values: bool,
    /// Apply although the plan destroys more objects than kl.yaml allows
    #[arg(long)]
    pub allow_destroy: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub scope: ScopeArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub input: InputArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
}

/// Commands below `kl apply`.
#[derive(Debug, Subcommand)]
pub enum ApplyCommand {
    /// The same as `kl abort`
    Abort(AbortArgs),
}

/// `--lane`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LaneArg {
    /// Narrow where it is sufficient.
    Auto,
    /// The write set and what it depends on; fails where that does not do.
    Narrow,
    /// Everything that the configuration describes.
    Footprint,
}

impl From<LaneArg> for LaneChoice {
    fn from(lane: LaneArg) -> Self {
        match lane {
            LaneArg::Auto => Self::Auto,
            LaneArg::Narrow => Self::Narrow,
            LaneArg::Footprint => Self::Footprint,
        }
    }
}

/// `--on-stale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnStaleArg {
    /// Refuse (exit 4).
    Refuse,
    /// Plan again, and go on when the plan is the same.
    Revalidate,
}

impl From<OnStaleArg> for OnStale {
    fn from(rule: OnStaleArg) -> Self {
        match rule {
            OnStaleArg::Refuse => Self::Refuse,
            OnStaleArg::Revalidate => Self::Revalidate,
        }
    }
}

/// `kl refresh`.
#[derive(Debug, Args)]
pub struct RefreshArgs {
    /// The root module
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    /// Only show what differs
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub reserve: ReserveArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub input: InputArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
}

/// `kl db …`.
#[derive(Debug, Subcommand)]
pub enum DbCommand {
    /// Bring the database's schema up to date
    Migrate,
    /// Print the grants that roles for planning and for applying need on PostgreSQL
    Roles(RolesArgs),
    /// Look whether all that stands in the database is consistent; exit 1 when it is not
    Check,
}

/// `kl db roles`.
#[derive(Debug, Args)]
pub struct RolesArgs {
    /// The role of jobs that plan
    #[arg(long, value_name = "ROLE", default_value = "kl_plan")]
    pub plan: String,
    /// The role of jobs that apply
    #[arg(long, value_name = "ROLE", default_value = "kl_apply")]
    pub apply: String,
    /// The schema that kl's tables are in
    #[arg(long, value_name = "SCHEMA", default_value = "public")]
    pub schema: String,
}

/// `kl gc`.
#[derive(Debug, Args)]
pub struct GcArgs {
    /// Only what has ended, or was last needed, so long ago
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "90d")]
    pub older_than: Duration,
    /// So many of the newest serials of each state can be read again, however old they are
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_serials: u32,
    /// Remove it
    #[arg(long)]
    pub yes: bool,
}
