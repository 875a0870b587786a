//! The command line of `kl init` and `kl doctor`.
#![expect(clippy::doc_markdown, reason = "these comments are help texts, where backticks would show")]

use camino::Utf8PathBuf;
use clap::{Args, ValueEnum};

/// `kl init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// A directory of the repository
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    /// The forge that runs the jobs [default: the one that the remote or the files in the repository name]
    #[arg(long, value_name = "FORGE")]
    pub forge: Option<ForgeArg>,
    /// Where the jobs take kl from: the action as OWNER/NAME@REF, the project with the template as PROJECT@REF
    #[arg(long, value_name = "SOURCE", value_parser = source)]
    pub source: Option<(String, String)>,
    /// Only show what would be written
    #[arg(long)]
    pub dry_run: bool,
}

/// `--forge`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ForgeArg {
    /// GitHub: a workflow.
    Github,
    /// GitLab: an include.
    Gitlab,
    /// Only kl.yaml.
    None,
}

/// `kl doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// The root module, or any directory of the repository
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: Utf8PathBuf,
    /// The Terraform or OpenTofu binary [env: KL_TERRAFORM] [default: terraform, else tofu, on PATH]
    #[arg(long, value_name = "PATH")]
    pub terraform: Option<String>,
}

/// Splits `OWNER/NAME@REF`; it goes into a file that a forge reads as orders.
fn source(text: &str) -> Result<(String, String), String> {
    let plain = |part: &str| {
        !part.is_empty() && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-/".contains(letter))
    };
    match text.split_once('@') {
        Some((place, reference)) if plain(place) && plain(reference) => Ok((place.to_owned(), reference.to_owned())),
        _ => Err("write OWNER/NAME@REF".to_owned()),
    }
}
