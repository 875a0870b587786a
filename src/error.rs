//! Errors as people see them: what happened, the causes, what to do next, and the exit code.

use std::error::Error;
use std::fmt::Write as _;

use crate::exit::Exit;

/// A failed command: a kind (its exit code), the error, and hints.
#[derive(Debug)]
pub struct KlError {
    exit: Exit,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    hints: Vec<String>,
    record: Option<String>,
}

impl KlError {
    /// An error with its exit code and one sentence: what happened, to which thing.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), source: None, hints: Vec::new(), record: None }
    }

    /// Wrong usage, configuration or environment.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A failure of Terraform, the database, or kl.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Adds the cause of an error whose own sentence is the message.
    fn caused(self, error: &dyn Error) -> Self {
        match error.source() {
            Some(source) => self.because(chain(source)),
            None => self,
        }
    }

    /// Adds a sentence on what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The error without what was said to do next: it has been done.
    #[must_use]
    pub fn without_hints(mut self) -> Self {
        self.hints.clear();
        self
    }

    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// The sentence, without causes and hints.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The hints.
    #[must_use]
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// What may be kept and shown to others (the database, a comment, a check): like [`KlError::chain`], without what
    /// other programs said in detail. A provider or a provisioner may have said a secret.
    #[must_use]
    pub fn on_record(&self) -> String {
        self.record.clone().unwrap_or_else(|| self.chain())
    }

    /// The sentence and its causes, each on a line of its own.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut next = self.source.as_deref().map(|source| source as &dyn Error);
        while let Some(cause) = next {
            let _ = write!(text, "\n  because {cause}");
            next = cause.source();
        }
        text
    }
}

impl From<crate::store::StoreError> for KlError {
    fn from(error: crate::store::StoreError) -> Self {
        use crate::store::StoreError as E;
        let kl = |exit| Self::new(exit, error.to_string());
        let kl = match &error {
            E::NotFound { .. } => kl(Exit::Usage),
            E::HistoryRemoved { .. } => kl(Exit::Usage).hint("`kl history` shows the versions that are left"),
            E::SchemaTooOld { .. } => {
                kl(Exit::Usage).hint("run `kl db migrate` once, with a role that may change the schema")
            }
            E::SchemaTooNew { .. } => {
                kl(Exit::Usage).hint("use a newer kl; an older one could damage what a newer one wrote")
            }
            E::Missing { .. } => {
                kl(Exit::Usage).hint("the first `kl plan` or `kl state import` makes it; is this the right directory?")
            }
            E::Open { .. } => {
                kl(Exit::Usage).hint("check --database or KL_DATABASE_URL, and that the database can be reached")
            }
            E::Moved { .. } => kl(Exit::Failed).hint(
                "what was committed before is in that file only: put it back, or a backup of it, and run `kl db check`; a \
                 checkout that is cleaned (`git clean -fdx`) takes `.kl` with it: name a database outside of it",
            ),
            E::LeaseLost { .. } => {
                kl(Exit::Failed).hint("nothing was committed; `kl status` shows who holds the rows now")
            }
            E::CommentLockLost { .. } => {
                kl(Exit::Failed).hint("another job writes the comment now; what this one did is in the database")
            }
            E::Busy(_) => kl(Exit::Failed).hint("try again; many processes at once are what PostgreSQL is for"),
            _ => kl(Exit::Failed),
        };
        kl.caused(&error)
    }
}

impl From<crate::forge::ForgeError> for KlError {
    fn from(error: crate::forge::ForgeError) -> Self {
        use crate::forge::ForgeError as E;
        match &error {
            E::Denied { .. } | E::NotFound { .. } | E::Unusable { .. } => Self::usage(error.to_string()),
            E::Refused { .. } | E::Incomplete { .. } | E::Unavailable { .. } => Self::failed(error.to_string()),
        }
    }
}

/// An error and its causes in one text, for a cause that cannot be moved out.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let _ = write!(text, "\n  because {cause}");
        next = cause.source();
    }
    text
}

impl From<crate::terraform::TerraformError> for KlError {
    fn from(error: crate::terraform::TerraformError) -> Self {
        use crate::terraform::TerraformError as E;
        let exit = match &error {
            E::NotFound { .. }
            | E::NotExecutable { .. }
            | E::NotTerraform { .. }
            | E::TooOld { .. }
            | E::Spawn { .. }
            | E::Cache { .. } => Exit::Usage,
            E::Plan(failure) if failure.is_about_inputs() => Exit::Usage,
            _ => Exit::Failed,
        };
        let mut kl = Self::new(exit, error.to_string()).caused(&error);
        kl.record = error.failure().map(|(what, failure)| format!("{what} failed: {}", failure.outline()));
        match &error {
            E::Plan(failure) if failure.is_about_inputs() => kl.hint(
                "give variables with --var NAME=VALUE, --var-file FILE or TF_VAR_NAME, the same at plan and apply",
            ),
            _ => kl,
        }
    }
}

impl From<crate::workspace::WorkspaceError> for KlError {
    fn from(error: crate::workspace::WorkspaceError) -> Self {
        let kl = Self::usage(error.to_string());
        kl.caused(&error)
    }
}

impl From<crate::domain::plan::plan_json::PlanError> for KlError {
    fn from(error: crate::domain::plan::plan_json::PlanError) -> Self {
        use crate::domain::plan::plan_json::PlanError as E;
        let exit = match &error {
            E::Format(_) | E::Action { .. } => Exit::Usage,
            _ => Exit::Failed,
        };
        let hint = match &error {
            E::Format(_) | E::Action { .. } => Some("a newer kl may know it; refusing is safer than guessing"),
            E::Incomplete(_) => Some("apply what the deferred changes wait for first"),
            _ => None,
        };
        let kl = Self::new(exit, error.to_string());
        let kl = kl.caused(&error);
        match hint {
            Some(hint) => kl.hint(hint),
            None => kl,
        }
    }
}

impl From<crate::domain::state::document::DocumentError> for KlError {
    fn from(error: crate::domain::state::document::DocumentError) -> Self {
        let kl = Self::usage(error.to_string());
        kl.caused(&error)
    }
}

impl From<crate::domain::json::JsonError> for KlError {
    fn from(error: crate::domain::json::JsonError) -> Self {
        Self::failed("a stored or planned value cannot be read").because(error)
    }
}
