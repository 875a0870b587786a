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
}

impl KlError {
    /// An error with its exit code and one sentence: what happened, to which thing.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), source: None, hints: Vec::new() }
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

    /// Adds a sentence on what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
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
