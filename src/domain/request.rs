//! Requests: pull requests and merge requests, by their forge, repository and number.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::domain::run::Origin;

/// A place where repositories and requests live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForgeKind {
    /// github.com or GitHub Enterprise Server.
    Github,
    /// gitlab.com or a GitLab of one's own.
    Gitlab,
}

impl ForgeKind {
    /// The word that the database stores.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Gitlab => "gitlab",
        }
    }

    /// Reads the stored word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Github, Self::Gitlab].into_iter().find(|kind| kind.word() == word)
    }

    /// The sign in front of a request's number: `#7` on GitHub, `!7` on GitLab.
    #[must_use]
    pub fn sign(self) -> char {
        match self {
            Self::Github => '#',
            Self::Gitlab => '!',
        }
    }

    /// What a request is called there.
    #[must_use]
    pub fn request_word(self) -> &'static str {
        match self {
            Self::Github => "pull request",
            Self::Gitlab => "merge request",
        }
    }
}

/// One pull or merge request. Printed as `owner/name#7` or `group/name!7`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestRef {
    /// Where.
    pub forge: ForgeKind,
    /// `owner/name`, as the forge spells it.
    pub repository: String,
    /// Its number.
    pub number: u64,
}

impl RequestRef {
    /// The request that something came from, when its origin names one whole.
    #[must_use]
    pub fn of_origin(origin: &Origin) -> Option<Self> {
        Some(Self {
            forge: ForgeKind::from_word(origin.forge.as_deref()?)?,
            repository: origin.repository.clone()?,
            number: origin.request?,
        })
    }

    /// `#7` or `!7`: enough within the same repository.
    #[must_use]
    pub fn short(&self) -> String {
        format!("{}{}", self.forge.sign(), self.number)
    }
}

impl fmt::Display for RequestRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.repository, self.forge.sign(), self.number)
    }
}

/// Where a request stands on its forge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestPhase {
    /// Under review.
    Open,
    /// Merged: its specs are to be applied, or have been.
    Merged,
    /// Closed without a merge.
    Closed,
}

impl RequestPhase {
    /// The word that the database stores.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Merged => "merged",
            Self::Closed => "closed",
        }
    }

    /// Reads the stored word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Open, Self::Merged, Self::Closed].into_iter().find(|phase| phase.word() == word)
    }
}
