//! The command line of what runs in CI jobs.

use std::time::Duration;

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};

use super::value::timeout;
use super::{ActorArgs, ReserveArgs, duration};

/// `kl ci …`.
#[derive(Debug, Subcommand)]
pub enum CiCommand {
    /// Plan what a request changes, and tell the request
    Plan(CiPlanArgs),
    /// Apply what was merged, as it was reviewed
    Apply(CiApplyArgs),
    /// Say whether what waits in a merge queue could be applied now
    Check(CiCheckArgs),
    /// End what an earlier step of this job could not, because it was cancelled or killed
    Finish(CiFinishArgs),
    /// List the projects, or those that a change concerns: for a matrix of jobs
    Projects(CiProjectsArgs),
}

/// Options of every `kl ci` command that works on projects.
#[derive(Debug, Clone, Default, Args)]
pub struct CiJobArgs {
    /// Only this project (repeatable) [default: those that the change concerns]
    #[arg(long = "project", value_name = "NAME")]
    pub projects: Vec<String>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
}

/// `kl ci plan`.
#[derive(Debug, Args)]
pub struct CiPlanArgs {
    /// Write the counts of changes for GitLab's merge request widget (artifacts:reports:terraform)
    #[arg(long, value_name = "FILE")]
    pub report: Option<Utf8PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub job: CiJobArgs,
}

/// `kl ci apply`.
#[derive(Debug, Args)]
pub struct CiApplyArgs {
    /// Apply this merged request, whatever the event is
    #[arg(long, value_name = "NUMBER")]
    pub request: Option<u64>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub reserve: ReserveArgs,
    /// Ask Terraform to stop after so long, for each project, and cut it off when it has not come to its end two minutes later
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    pub timeout: Option<Duration>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub job: CiJobArgs,
}

/// `kl ci check`.
#[derive(Debug, Args)]
pub struct CiCheckArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub job: CiJobArgs,
}

/// `kl ci finish`.
#[derive(Debug, Args)]
pub struct CiFinishArgs {
    /// Wait for so long for a Terraform that goes on alone, and for a database that is away
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub wait: Duration,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
}

/// `kl ci projects`.
#[derive(Debug, Args)]
pub struct CiProjectsArgs {
    /// A directory of the repository
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    /// Only projects that these files concern: a file with a path on each line, relative to the repository, or `-`
    #[arg(long, value_name = "FILE", conflicts_with = "base")]
    pub changed: Option<Utf8PathBuf>,
    /// Only projects that the commits since this branch or commit concern
    #[arg(long, value_name = "REF")]
    pub base: Option<String>,
    /// All projects, also in a job on a request or a push, where the default is those that it concerns
    #[arg(long, conflicts_with_all = ["base", "changed"])]
    pub all: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "described by its type")]
    pub actor: ActorArgs,
}
