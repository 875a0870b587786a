//! The kinds of identity in kl: one newtype each, so that they cannot be mistaken for one another.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Declares an id type over a UUID.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

id!(
    /// One run: a `kl apply`, a `kl refresh`, an import.
    RunId
);
id!(
    /// One plan spec.
    SpecId
);
id!(
    /// One state, whatever it is called.
    StateId
);

/// The name of a state; the workspace is part of it (`NAME:WORKSPACE` unless default). Compared exactly.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StateName(String);

/// Why a text cannot name a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a state's name has 1 to {MAX_NAME} characters, no control characters, and no space at its ends: {0:?}")]
pub struct StateNameError(String);

/// The longest state name, in characters: it stands in comments, check titles and index entries.
const MAX_NAME: usize = 200;

impl StateName {
    /// Takes a text as a state's name.
    ///
    /// # Errors
    /// When it is empty, too long, begins or ends with a space, or holds control characters.
    pub fn new(text: impl Into<String>) -> Result<Self, StateNameError> {
        let text = text.into();
        if is_label(&text, MAX_NAME) { Ok(Self(text)) } else { Err(StateNameError(text)) }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether each part between slashes is something: `live/web/` is hardly meant to be another state than `live/web`.
    #[must_use]
    pub fn has_whole_parts(&self) -> bool {
        self.0.split('/').all(|part| !part.is_empty())
    }
}

/// Whether a text is fit to stand in lists: not empty, not too long (in characters), nothing that cannot be seen.
pub(super) fn is_label(text: &str, longest: usize) -> bool {
    !text.is_empty() && text.trim() == text && text.chars().count() <= longest && !text.chars().any(char::is_control)
}

impl TryFrom<String> for StateName {
    type Error = StateNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(text)
    }
}

impl From<StateName> for String {
    fn from(name: StateName) -> Self {
        name.0
    }
}

impl FromStr for StateName {
    type Err = StateNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of a version of a state; grows by commits, never shrinks. 0 is the state before its first version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Serial(pub i64);

impl Serial {
    /// The highest serial that a document from outside may have: above it there is still room for more versions than
    /// anybody could write.
    pub const HIGHEST: Self = Self(i64::MAX / 2);

    /// The serial of the next commit.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Terraform's identity of a state's history; given once, never changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lineage(pub String);

impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who acts: `alice`, or `alice@build-7`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Actor(pub String);

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
