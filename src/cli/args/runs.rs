//! The command line of what looks at runs and versions, and of what ends and recovers runs.

use camino::Utf8PathBuf;
use clap::Args;

use super::value::serial;
use super::{ActorArgs, StateArgs};
use crate::domain::id::{Serial, StateName};

/// `kl status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only this state [default: all states]
    #[arg(long, value_name = "NAME")]
    pub state: Option<StateName>,
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
    /// At most so many versions
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: u32,
    /// Only versions before this serial
    #[arg(long, value_name = "SERIAL", value_parser = serial)]
    pub before: Option<Serial>,
    /// Also list the rows that each version changed
    #[arg(long)]
    pub rows: bool,
}

/// `kl show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The run's id, or the beginning or end of it
    #[arg(value_name = "RUN")]
    pub run: String,
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
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
}
