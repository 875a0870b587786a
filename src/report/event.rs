//! What the pipeline tells while it works: the only thing that it knows of reporting.

use crate::domain::run::event::RunEvent;

/// A stage of the work that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Copying the configuration into an isolated directory.
    Workspace,
    /// `terraform init`.
    Init,
    /// `terraform state pull`, from the backend that a configuration has.
    Pull,
    /// `terraform plan`.
    Plan,
    /// Reading the plan and deriving the spec.
    Analyse,
    /// Planning again on the slice.
    Replan,
    /// Taking over what the apply made.
    Commit,
    /// Taking over what a failed run left.
    Recover,
}

/// One thing worth telling.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// A stage begins.
    Begins(Stage),
    /// Something happened to the run; it is on the run's timeline, too.
    Run(RunEvent),
    /// Something that a person should know, in a sentence.
    Warning(String),
    /// The isolated directory was kept.
    WorkspaceKept(String),
}

/// Takes what the pipeline tells.
pub trait Sink: Send + Sync {
    /// Must not block for long: the pipeline waits for it.
    fn emit(&self, progress: &Progress);
}

impl Stage {
    /// What is going on, in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Workspace => "Preparing an isolated workspace",
            Self::Init => "Initialising providers and modules",
            Self::Pull => "Reading the state of the present backend",
            Self::Plan => "Planning against the current state",
            Self::Analyse => "Working out what the plan reads and writes",
            Self::Replan => "Planning again on the slice",
            Self::Commit => "Committing the changed rows",
            Self::Recover => "Recovering what an earlier run left",
        }
    }
}
