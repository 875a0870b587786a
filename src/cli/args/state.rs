//! The command line of `kl state`.

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};

use super::value::serial;
use super::{ActorArgs, StateArgs};
use crate::domain::id::Serial;

/// `kl state …`.
#[derive(Debug, Subcommand)]
pub enum StateCommand {
    /// Import a Terraform state (version 4) from a file, or from standard input with `-`
    Import(ImportArgs),
    /// Print a state as Terraform would have written it
    Pull(PullArgs),
    /// List the addresses in a state, or all states with --all
    List(ListArgs),
    /// Show one resource instance or output
    Show(StateShowArgs),
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
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
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
