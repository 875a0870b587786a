//! The command line of `kl state`.

use std::time::Duration;

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};

use super::value::{lease, serial};
use super::{ActorArgs, InputArgs, StateArgs};
use crate::config::duration::duration;
use crate::domain::id::Serial;

/// `kl state …`.
#[derive(Debug, Subcommand)]
pub enum StateCommand {
    /// Import a Terraform state (version 4) from a file, or from standard input with `-`
    Import(ImportArgs),
    /// Move in: import the state of the backend that a configuration has, and see that a plan stays the same
    Adopt(AdoptArgs),
    /// Print a state as Terraform would have written it
    Pull(PullArgs),
    /// List the addresses in a state, or all states with --all
    List(ListArgs),
    /// Show one resource instance or output
    Show(StateShowArgs),
    /// Show what differs between two serials
    Diff(DiffArgs),
    /// Take rows back to what they were at an earlier serial, as a new version; real objects stay as they are
    Rollback(RollbackArgs),
    /// Take resources out of a state, as `terraform state rm` does; their real objects stay
    Rm(RmArgs),
    /// Give a resource, an instance or a module another address, as `terraform state mv` does
    Mv(MvArgs),
}

/// `kl state import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The state file, or `-`
    #[arg(value_name = "FILE")]
    pub file: Utf8PathBuf,
    /// The root module whose state it is
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    /// Take the document although the state has gone on, or has another content, up to this serial, its newest: what only
    /// the state knows is given up
    #[arg(long, value_name = "SERIAL", value_parser = serial)]
    pub over: Option<Serial>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub reserve: BriefArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
}

/// `kl state adopt`.
#[derive(Debug, Args)]
pub struct AdoptArgs {
    /// The root module whose state is to move in
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    /// A setting of the present backend, as for `terraform init`: KEY=VALUE, or a file (repeatable)
    #[arg(long, value_name = "KEY=VALUE|FILE")]
    pub backend_config: Vec<String>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub input: InputArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub reserve: BriefArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
}

/// `kl state pull`.
#[derive(Debug, Args)]
pub struct PullArgs {
    /// The root module whose state is meant
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
    /// The state as it was at this serial
    #[arg(long, value_name = "N", value_parser = serial)]
    pub serial: Option<Serial>,
}

/// `kl state list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The root module whose state is meant
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
    /// List the states themselves
    #[arg(long)]
    pub all: bool,
}

/// `kl state show`.
#[derive(Debug, Args)]
pub struct StateShowArgs {
    /// The address, or `output.NAME`
    #[arg(value_name = "ADDR")]
    pub address: String,
    /// The root module whose state is meant
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
}

/// `kl state diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The serial to compare; 0 is the empty state
    #[arg(value_name = "A", value_parser = serial)]
    pub before: Serial,
    /// The serial to compare it with [default: the newest]
    #[arg(value_name = "B", value_parser = serial)]
    pub after: Option<Serial>,
    /// Also show the values of attributes that differ; sensitive ones are masked
    #[arg(long)]
    pub show_values: bool,
    /// The root module whose state is meant
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
}

/// How to reserve for what takes seconds.
#[derive(Debug, Clone, Args)]
pub struct BriefArgs {
    /// How long the reservations last when kl is killed
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = lease)]
    pub lease: Duration,
    /// Wait in turn for so long when something is reserved by another run
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub wait: Option<Duration>,
}

/// `kl state rollback`.
#[derive(Debug, Args)]
pub struct RollbackArgs {
    /// The serial whose rows are wanted
    #[arg(long, value_name = "SERIAL", value_parser = serial)]
    pub to: Serial,
    /// Only these rows (repeatable): an instance, a resource, a module, or output.NAME
    #[arg(long = "address", value_name = "ADDR")]
    pub addresses: Vec<String>,
    /// Only show what would change
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Also show the values of attributes that differ; sensitive ones are masked
    #[arg(long)]
    pub show_values: bool,
    /// The root module whose state is meant
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub reserve: BriefArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
}

/// How rows are edited.
#[derive(Debug, Args)]
pub struct EditArgs {
    /// Only show what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// The root module whose state is meant
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub reserve: BriefArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
}

/// `kl state rm`.
#[derive(Debug, Args)]
pub struct RmArgs {
    /// What to take out: a resource with all its instances, an instance, or a module with everything in it
    #[arg(value_name = "ADDR", required = true)]
    pub addresses: Vec<String>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub edit: EditArgs,
}

/// `kl state mv`.
#[derive(Debug, Args)]
pub struct MvArgs {
    /// Where it stands: a resource, an instance, or a module
    #[arg(value_name = "SRC")]
    pub from: String,
    /// Where it is to stand
    #[arg(value_name = "DST")]
    pub to: String,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub edit: EditArgs,
}
