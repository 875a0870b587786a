//! What can go wrong with the Terraform binary, one variant per operation, each readable by itself.

use std::fmt;
use std::io;
use std::time::Duration;

use camino::Utf8PathBuf;

use super::diagnostic::{Diagnostic, Severity};

/// A command of Terraform that did not succeed.
#[derive(Debug)]
pub struct Failure {
    /// How the process ended: `exit code 1`, `signal 9`.
    pub ended: String,
    /// What Terraform said, errors and warnings in their order.
    pub diagnostics: Vec<Diagnostic>,
    /// The end of what it wrote beside its diagnostics; shown when no diagnostic says why.
    pub rest: String,
}

/// Terraform's summaries of errors that only the caller can mend, by giving other inputs.
const INPUT_SUMMARIES: [&str; 3] =
    ["No value for required variable", "Value for undeclared variable", "Invalid value for input variable"];

/// So many errors are named in an outline, each with so many characters of its summary.
const OUTLINED: usize = 20;
const LONGEST_SUMMARY: usize = 300;

/// How much of the raw output an error shows, in lines, when Terraform gave no diagnostic.
const SHOWN_LINES: usize = 20;

impl Failure {
    /// The errors, without the warnings.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// Whether one of the errors has this summary.
    pub fn says(&self, summary: &str) -> bool {
        self.errors().any(|error| error.summary == summary)
    }

    /// Whether somebody else has the lock: of that alone Terraform shows a lock's details.
    pub fn is_locked(&self) -> bool {
        self.errors().any(|error| error.summary.contains("state lock") && error.detail.contains("Lock Info:"))
    }

    /// Whether it failed for its input variables and for nothing else.
    pub fn is_about_inputs(&self) -> bool {
        let mut errors = self.errors().peekable();
        errors.peek().is_some() && errors.all(|error| INPUT_SUMMARIES.contains(&error.summary.as_str()))
    }
}

impl Failure {
    /// How it ended and what the errors are called, each with its place: what Terraform said in detail is left out,
    /// because a provider or a provisioner may have put anything into it.
    #[must_use]
    pub fn outline(&self) -> String {
        let mut text = self.ended.clone();
        for error in self.errors().take(OUTLINED) {
            let summary = error.summary.lines().next().unwrap_or_default();
            text.push_str("\n  ");
            text.extend(summary.chars().take(LONGEST_SUMMARY));
            match (&error.address, &error.file, error.line) {
                (Some(address), ..) => text.push_str(&format!(" ({address})")),
                (None, Some(file), Some(line)) => text.push_str(&format!(" ({file}:{line})")),
                (None, Some(file), None) => text.push_str(&format!(" ({file})")),
                (None, None, _) => {}
            }
        }
        let more = self.errors().count().saturating_sub(OUTLINED);
        if more > 0 {
            text.push_str(&format!("\n  and {more} more"));
        }
        text
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.ended)?;
        let mut explained = false;
        for error in self.errors() {
            write!(f, "\n{error}")?;
            explained = true;
        }
        if !explained {
            let lines: Vec<&str> = self.rest.trim().lines().collect();
            for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
                write!(f, "\n{line}")?;
            }
        }
        Ok(())
    }
}

/// Why Terraform could not be found or did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum TerraformError {
    /// No such program.
    #[error(
        "{looked_for}: install Terraform ({} or newer) or OpenTofu ({} or newer), or name the program with \
         `terraform:` in kl.yaml or with --terraform",
        super::version::MINIMUM_TERRAFORM,
        super::version::MINIMUM_TOFU
    )]
    NotFound {
        /// What was looked for and not found, as a sentence.
        looked_for: String,
    },
    /// The file is there, but cannot be run.
    #[error("{program} is not an executable file: make it executable (chmod +x) or name another one with --terraform")]
    NotExecutable {
        /// The file.
        program: Utf8PathBuf,
    },
    /// It runs, but does not answer `version` as Terraform does.
    #[error("{program} does not answer `version` as Terraform or OpenTofu would; it said: {said}")]
    NotTerraform {
        /// The file.
        program: Utf8PathBuf,
        /// The first line of its answer.
        said: String,
    },
    /// A version that lacks something that kl needs.
    #[error("{program} is version {version}; kl needs {minimum} or newer: {reason}")]
    TooOld {
        /// The file.
        program: Utf8PathBuf,
        /// What it is.
        version: String,
        /// The oldest that will do, with the product's name.
        minimum: String,
        /// What the older ones lack.
        reason: &'static str,
    },
    /// A command that takes no time took too much.
    #[error("{command} gave no answer within {} seconds", after.as_secs())]
    TimedOut {
        /// The command.
        command: String,
        /// How long kl waited.
        after: Duration,
    },
    /// The process could not be started.
    #[error("cannot start {program}")]
    Spawn {
        /// The file.
        program: Utf8PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The process was started, but waiting for it failed.
    #[error("cannot wait for {command}")]
    Wait {
        /// The command.
        command: String,
        /// Why not.
        source: io::Error,
    },
    /// There is no place for what an apply says.
    #[error("cannot write down what {command} says: the work directory cannot be used")]
    Output {
        /// The command.
        command: String,
        /// Why not.
        source: io::Error,
    },
    /// There is no place for the values of input variables.
    #[error("cannot write the values of input variables below {dir}: the work directory cannot be used")]
    Inputs {
        /// The private part of the work directory.
        dir: Utf8PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The provider cache cannot be used.
    #[error("cannot use the provider cache {dir}: make it writable, or set TF_PLUGIN_CACHE_DIR to a directory that is")]
    Cache {
        /// The cache directory.
        dir: Utf8PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// `.terraform.lock.hcl` cannot be read.
    #[error("cannot read the dependency lock file {path}: {reason}")]
    LockFile {
        /// The file.
        path: Utf8PathBuf,
        /// Why not.
        reason: String,
    },
    /// `terraform init` failed.
    #[error("terraform init failed: {0}")]
    Init(Failure),
    /// `terraform state pull` failed.
    #[error("terraform state pull failed: {0}")]
    Pull(Failure),
    /// The backend's lock could not be taken.
    #[error("the backend's lock could not be taken: {0}")]
    Lock(Failure),
    /// `terraform workspace list` failed.
    #[error("terraform workspace list failed: {0}")]
    Workspaces(Failure),
    /// `terraform plan` failed.
    #[error("terraform plan failed: {0}")]
    Plan(Failure),
    /// `terraform show` failed.
    #[error("terraform show failed: {0}")]
    Show(Failure),
    /// `terraform graph` failed.
    #[error("terraform graph failed: {0}")]
    Graph(Failure),
    /// `terraform apply` failed; what it did before is in the state file.
    #[error("terraform apply failed: {0}")]
    Apply(Failure),
    /// Whoever started it asked it to stop.
    #[error("{command} was stopped after {:.0} seconds{}", after.as_secs_f64(), if *cut { ", before it had ended by itself" } else { "" })]
    Cancelled {
        /// The command.
        command: String,
        /// How long it had run.
        after: Duration,
        /// Whether it was cut off: what it was working on may exist without being in the state file.
        cut: bool,
    },
}

impl TerraformError {
    /// The command of Terraform that did not succeed, and what it said.
    #[must_use]
    pub fn failure(&self) -> Option<(&'static str, &Failure)> {
        match self {
            Self::Init(failure) => Some(("terraform init", failure)),
            Self::Pull(failure) => Some(("terraform state pull", failure)),
            Self::Lock(failure) => Some(("terraform state rm -dry-run", failure)),
            Self::Workspaces(failure) => Some(("terraform workspace list", failure)),
            Self::Plan(failure) => Some(("terraform plan", failure)),
            Self::Show(failure) => Some(("terraform show", failure)),
            Self::Graph(failure) => Some(("terraform graph", failure)),
            Self::Apply(failure) => Some(("terraform apply", failure)),
            _ => None,
        }
    }

    /// The same error with `hide` done to everything that Terraform said.
    #[must_use]
    pub fn without(mut self, hide: &dyn Fn(&str) -> String) -> Self {
        if let Self::Init(failure)
        | Self::Pull(failure)
        | Self::Lock(failure)
        | Self::Workspaces(failure)
        | Self::Plan(failure)
        | Self::Show(failure)
        | Self::Graph(failure)
        | Self::Apply(failure) = &mut self
        {
            for diagnostic in &mut failure.diagnostics {
                diagnostic.summary = hide(&diagnostic.summary);
                diagnostic.detail = hide(&diagnostic.detail);
            }
            failure.rest = hide(&failure.rest);
        }
        self
    }

    /// Whether it is known why, so that nothing of what Terraform said can be lost: it gives its errors last.
    #[must_use]
    pub fn is_explained(&self) -> bool {
        match self {
            Self::Cancelled { .. } => true,
            other => other.failure().is_some_and(|(_, failure)| failure.errors().next().is_some()),
        }
    }

    /// Whether something was said beside diagnostics: by a program around Terraform, when Terraform itself said nothing.
    #[must_use]
    pub fn left_words(&self) -> bool {
        self.failure().is_some_and(|(_, failure)| !failure.rest.trim().is_empty())
    }

    /// Whether Terraform ended by itself, so that nothing was in flight any more: it waits for what it has begun. Only
    /// exit code 1 is that: with 2 it has crashed, and from 128 on a shell in between says that a signal ended it.
    ///
    /// Its events do not tell: a destroy that fails begins and has no end there, only a diagnostic (1.11.4).
    pub fn ended_by_itself(&self) -> bool {
        match self {
            Self::Apply(failure) => failure.ended == "exit code 1",
            Self::Cancelled { cut, .. } => !cut,
            _ => false,
        }
    }
}
