//! The command line of `kl exec`.

use std::ffi::OsString;

use camino::Utf8PathBuf;
use clap::Args;

use super::{ActorArgs, StateArgs};
use crate::domain::id::StateName;

/// `kl exec`.
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// Where to run the command: the root module whose state is meant, unless the command says -chdir
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub state: StateArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
    /// Let the command read this state, too, for the data source terraform_remote_state. Repeatable
    #[arg(long, value_name = "STATE")]
    pub reads: Vec<StateName>,
    /// The command with its arguments, as `terraform apply`
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
