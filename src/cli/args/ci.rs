//! The command line of what runs in CI jobs.

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};

/// `kl ci …`.
#[derive(Debug, Subcommand)]
pub enum CiCommand {
    /// List the projects, or those that a change concerns: for a matrix of jobs
    Projects(CiProjectsArgs),
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
}
